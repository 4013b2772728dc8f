// The fused operations that can be launched by name.
//
// The interface that the server needs; server/main adapts compiler/library to it.
#ifndef TESSERA_SERVER_LAUNCH_OP_CATALOG_H_
#define TESSERA_SERVER_LAUNCH_OP_CATALOG_H_

#include "absl/status/statusor.h"
#include "proto/storage/modules.pb.h"
#include "proto/tessera/v1/launch.pb.h"
#include "proto/tessera/v1/ops.pb.h"

namespace tessera::server {

// Thread-safe.
class OpCatalog {
 public:
  virtual ~OpCatalog() = default;

  virtual tessera::v1::ListOpsResponse List() const = 0;
  // The kernel file of an op. NOT_FOUND lists the ops there are.
  virtual absl::StatusOr<storage::SourceFile> Source(const std::string& op) const = 0;
  // The launch of an op: everything but session, module, device and tag. INVALID_ARGUMENT names the
  // tensor or attribute that breaks the op's contract.
  virtual absl::StatusOr<tessera::v1::LaunchRequest> Plan(
      const tessera::v1::LaunchOpRequest& request) const = 0;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_OP_CATALOG_H_
