// compiler/library as the server's OpCatalog.
#ifndef TESSERA_SERVER_MAIN_LIBRARY_CATALOG_H_
#define TESSERA_SERVER_MAIN_LIBRARY_CATALOG_H_

#include "server/launch/op_catalog.h"

namespace tessera::server {

class LibraryCatalog : public OpCatalog {
 public:
  tessera::v1::ListOpsResponse List() const override;
  absl::StatusOr<storage::SourceFile> Source(const std::string& op) const override;
  absl::StatusOr<tessera::v1::LaunchRequest> Plan(
      const tessera::v1::LaunchOpRequest& request) const override;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_MAIN_LIBRARY_CATALOG_H_
