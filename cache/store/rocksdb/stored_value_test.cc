#include "cache/store/rocksdb/stored_value.h"

#include <string>

#include "absl/strings/escaping.h"
#include "cache/family/family.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

const Family& Artifacts() { return *FindFamily("artifacts"); }

TEST(StoredValue, HasTheBytesThatItAlwaysHad) {
  EXPECT_EQ(absl::BytesToHexString(EncodeValue(Artifacts(), "key", "payload")), "545356310100000007000000895a512ddf8b9ea823c85d4cbdb885587061796c6f6164");
}

TEST(StoredValue, GivesBackThePayload) {
  for (const std::string& payload : {std::string(), std::string("payload"), std::string(100000, 'p')}) {
    const std::string value = EncodeValue(Artifacts(), "key", payload);
    const DecodedValue decoded = DecodeValue(Artifacts(), "key", value);
    EXPECT_EQ(decoded.reason, MissReason::kFound);
    EXPECT_EQ(decoded.payload, payload);
  }
}

TEST(StoredValue, DetectsEveryFlippedBit) {
  const std::string value = EncodeValue(Artifacts(), "key", "a payload of some length");
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    std::string flipped = value;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    const DecodedValue decoded = DecodeValue(Artifacts(), "key", flipped);
    EXPECT_EQ(decoded.reason, MissReason::kDamaged) << bit;
    EXPECT_NE(decoded.fault, "") << bit;
  }
}

TEST(StoredValue, DetectsEveryTruncationAndExtension) {
  const std::string value = EncodeValue(Artifacts(), "key", "a payload of some length");
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_EQ(DecodeValue(Artifacts(), "key", value.substr(0, size)).reason, MissReason::kDamaged) << size;
  }
  EXPECT_EQ(DecodeValue(Artifacts(), "key", value + '\0').reason, MissReason::kDamaged);
}

TEST(StoredValue, DetectsAValueInAForeignPlace) {
  const std::string value = EncodeValue(Artifacts(), "key", "payload");
  EXPECT_EQ(DecodeValue(Artifacts(), "yek", value).reason, MissReason::kDamaged);
  EXPECT_EQ(DecodeValue(*FindFamily("usage"), "key", value).reason, MissReason::kDamaged);
}

TEST(StoredValue, TellsAnotherFormatFromDamage) {
  Family newer = Artifacts();
  newer.format_version = 2;
  EXPECT_EQ(DecodeValue(Artifacts(), "key", EncodeValue(newer, "key", "payload")).reason, MissReason::kOtherFormat);
}

}  // namespace
}  // namespace tessera::cache
