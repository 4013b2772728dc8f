#include "cache/family/quarantine/quarantine_key.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(QuarantineKey, HasTheBytesThatItAlwaysHad) {
  EXPECT_EQ(EncodeQuarantineKey(0x0102030405060708, 0x090a0b0c), "\1\2\3\4\5\6\7\x8\x9\xa\xb\xc");
}

TEST(QuarantineKey, SortsByTimeThenNumber) {
  EXPECT_LT(EncodeQuarantineKey(255, 9), EncodeQuarantineKey(256, 0));
  EXPECT_LT(EncodeQuarantineKey(256, 255), EncodeQuarantineKey(256, 256));
}

}  // namespace
}  // namespace tessera::cache
