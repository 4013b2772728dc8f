#include "cache/family/family_options.h"

#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"

namespace tessera::cache {

void TuneForPointLookups(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = resources.block_cache;
  // Ten bits a key: one useless read in a hundred misses. A cold start misses on every kernel.
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
  table.whole_key_filtering = true;
  // A hash index inside the block saves the binary search; scans are rare and do not suffer.
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  // Filters and index blocks count against the cache's bound instead of growing with the database. In pieces of one block
  // each: as a whole, the index of a million tunings is larger than a shard of the cache, and every lookup read it again.
  // The few kilobytes of the level above them stay.
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.metadata_block_size = 4 << 10;
  table.metadata_cache_options.top_level_index_pinning = rocksdb::PinningTier::kAll;
  // Keys of neighbours begin alike; an eighth of them in full is enough to search.
  table.index_block_restart_interval = 8;
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // The cheapest to decompress: a hit is worth more than the last tenth of the size.
  options->compression = rocksdb::kLZ4Compression;
  options->write_buffer_size = 4 << 20;
  options->level_compaction_dynamic_level_bytes = true;
}

void KeepLargeValuesApart(uint64_t smallest, rocksdb::CompressionType compression,
                          rocksdb::ColumnFamilyOptions* options) {
  options->enable_blob_files = true;
  options->min_blob_size = smallest;
  options->blob_compression_type = compression;
  options->blob_file_size = 64 << 20;
  // No value is moved by a compaction that happens anyway: loading 100,000 artifacts would write each several times. The
  // store gives space back itself, when enough of the blob files is garbage (RocksdbRecordStore::Reclaim).
  options->enable_blob_garbage_collection = false;
}

}  // namespace tessera::cache
