// A payload as it lies in RocksDB: behind a header that tells damage, misplacement and age.
//
//   offset 0   4 bytes  magic "TSV1"
//          4   2        format version of the family, little endian
//          6   2        reserved, 0
//          8   4        length of the payload, little endian
//         12  16        BLAKE2b-128 over family, key, bytes 0 to 11 and payload
//         28            payload
//
// The checksum covers the place too: a value that turns up under another key or in another family is damaged.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_STORED_VALUE_H_
#define TESSERA_CACHE_STORE_ROCKSDB_STORED_VALUE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

std::string EncodeValue(const Family& family, absl::string_view key, absl::string_view payload);

struct DecodedValue {
  MissReason reason = MissReason::kDamaged;  // kFound, kDamaged or kOtherFormat
  absl::string_view payload;                 // with kFound; points into what was decoded
  std::string fault;                         // with kDamaged: what is wrong
};

DecodedValue DecodeValue(const Family& family, absl::string_view key, absl::string_view value);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_STORED_VALUE_H_
