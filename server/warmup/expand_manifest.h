// From what a manifest says to the variants that it implies.
//
// Pure: every combination of an entry's alternatives becomes one compile request with concrete
// sample arguments, so that the very code that binds a launch decides which variant that is.
// Requests that come out as one variant are merged later, by Launcher::Plan.
#ifndef TESSERA_SERVER_WARMUP_EXPAND_MANIFEST_H_
#define TESSERA_SERVER_WARMUP_EXPAND_MANIFEST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/storage/modules.pb.h"
#include "proto/tessera/v1/launch.pb.h"
#include "server/launch/op_catalog.h"
#include "server/warmup/manifest.h"

namespace tessera::server {

struct ManifestItem {
  std::string where;                    // "m.yaml:7", of the entry
  tessera::v1::CompileRequest request;  // complete
  bool required = true;
  // Null: none is asked for. Its tensors have extents and no memory.
  std::shared_ptr<const tessera::v1::LaunchRequest> first_launch;
};

// The configurations that were chosen for a kernel on a device ("" is the default one).
using TunedConfigs = std::function<std::vector<storage::TuneConfig>(
    const std::string& kernel, const std::string& module, const std::string& device)>;

// Appends the items of one entry. INVALID_ARGUMENT names the place and what is accepted;
// RESOURCE_EXHAUSTED: more combinations than anybody wants to compile.
absl::Status ExpandKernel(const ParsedManifest& parsed, const tessera::v1::ManifestKernel& entry,
                          const storage::KernelDescription& kernel, const std::string& module_id,
                          const TunedConfigs& tuned, std::vector<ManifestItem>* items);
absl::Status ExpandOp(const ParsedManifest& parsed, const tessera::v1::ManifestOp& entry,
                      const OpCatalog& catalog, const std::string& module_id,
                      std::vector<ManifestItem>* items);

// Integers whose specialisations are all that integers from `from` to `to` (included) have.
// `beyond_classes`: something is computed from the value, so residues and larger powers of two
// count too.
std::vector<int64_t> ClassRepresentatives(int64_t from, int64_t to, bool beyond_classes);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_EXPAND_MANIFEST_H_
