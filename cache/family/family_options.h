// What the families' RocksDB options have in common.
#ifndef TESSERA_CACHE_FAMILY_FAMILY_OPTIONS_H_
#define TESSERA_CACHE_FAMILY_FAMILY_OPTIONS_H_

#include <cstdint>

#include "cache/family/family.h"
#include "rocksdb/options.h"

namespace tessera::cache {

// For families that are read by exact key. Data blocks of about 4 KiB.
void TuneForPointLookups(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options);

// Values of at least `smallest` bytes go to blob files, compressed by `compression`.
void KeepLargeValuesApart(uint64_t smallest, rocksdb::CompressionType compression,
                          rocksdb::ColumnFamilyOptions* options);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_FAMILY_OPTIONS_H_
