#include "cache/store/rocksdb/rocksdb_status.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(FromRocksdb, TellsDamageFromAFullDiskFromAFailingOne) {
  EXPECT_TRUE(FromRocksdb(rocksdb::Status::OK(), "a").ok());
  EXPECT_EQ(FromRocksdb(rocksdb::Status::Corruption("x"), "a").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(FromRocksdb(rocksdb::Status::NoSpace(), "a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FromRocksdb(rocksdb::Status::IOError("x"), "a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FromRocksdb(rocksdb::Status::NotFound(), "a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FromRocksdb(rocksdb::Status::NotSupported(), "a").code(), absl::StatusCode::kUnavailable);
}

TEST(FromRocksdb, NamesTheAttempt) {
  EXPECT_EQ(FromRocksdb(rocksdb::Status::IOError("disk", "gone"), "storing modules 12").message(),
            "storing modules 12: IO error: disk: gone");
}

}  // namespace
}  // namespace tessera::cache
