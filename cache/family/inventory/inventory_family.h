// Size and cost of each artifact, by the hash of its compile key. Lives and goes with the artifact.
#ifndef TESSERA_CACHE_FAMILY_INVENTORY_INVENTORY_FAMILY_H_
#define TESSERA_CACHE_FAMILY_INVENTORY_INVENTORY_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/storage/inventory.pb.h"

namespace tessera::cache {

const Family& InventoryFamily();

// What the inventory says of an artifact whose key and payload take `bytes`.
storage::InventoryRecord InventoryOf(const storage::ArtifactRecord& artifact, uint64_t bytes);

// Printed by `tessera cache ls` (inventory_dump.cc).
std::string DumpInventory(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_INVENTORY_INVENTORY_FAMILY_H_
