// Writes what a store holds as a bundle.
#ifndef TESSERA_CACHE_BUNDLE_BUNDLE_EXPORT_H_
#define TESSERA_CACHE_BUNDLE_BUNDLE_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

struct ExportFilter {
  std::vector<std::string> kernels;   // by name; empty: all. A module comes along if it has one of them.
  std::vector<std::string> families;  // of modules, artifacts, tunings; empty: all three
  std::vector<std::string> targets;   // of artifacts; empty: all
  std::string compiler_build;         // artifacts of another build are left out: nobody would find them; empty: all
  std::string manifest;               // YAML that goes along, "": none
};

// Gives the bundle to `sink` in pieces, and the number of its entries back. False from the sink stops it (CANCELLED).
absl::StatusOr<uint64_t> ExportBundle(CacheStore* store, const ExportFilter& filter,
                                      absl::FunctionRef<bool(absl::string_view piece)> sink);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_BUNDLE_BUNDLE_EXPORT_H_
