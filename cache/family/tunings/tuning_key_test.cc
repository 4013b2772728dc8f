#include "cache/family/tunings/tuning_key.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(TuningKey, HasTheBytesThatItAlwaysHad) {
  const std::string end("\0\1", 2);
  EXPECT_EQ(EncodeTuningKey("k", "m", "M=16", "cpu"), "k" + end + "m" + end + "cpu" + end + "M=16" + end);
  EXPECT_EQ(EncodeTuningKey(absl::string_view("a\0b", 3), "", "", ""),
            std::string("a\0\xff", 3) + "b" + end + end + end + end);
}

TEST(TuningKey, GivesBackItsParts) {
  const std::string odd("\0\1\0\xff", 4);
  std::string kernel, module, bucket, device;
  ASSERT_TRUE(DecodeTuningKey(EncodeTuningKey("k", odd, "", "d d"), &kernel, &module, &bucket, &device));
  EXPECT_EQ(kernel, "k");
  EXPECT_EQ(module, odd);
  EXPECT_EQ(bucket, "");
  EXPECT_EQ(device, "d d");
}

TEST(TuningKey, IsUnambiguous) {
  std::set<std::string> keys = {EncodeTuningKey("ab", "c", "d", "e"), EncodeTuningKey("a", "bc", "d", "e"),
                                EncodeTuningKey("a", "b", "cd", "e"), EncodeTuningKey("a", "b", "e", "cd"),
                                EncodeTuningKey("a", "b", "", "cde")};
  EXPECT_EQ(keys.size(), 5u);
}

TEST(TuningKey, KeepsTheBucketsOfOneDeviceTogether) {
  const std::string prefix = TuningKeyPrefix("k", "m", "H200");
  EXPECT_EQ(EncodeTuningKey("k", "m", "M=1", "H200").compare(0, prefix.size(), prefix), 0);
  EXPECT_NE(EncodeTuningKey("k", "m", "M=1", "H200b").compare(0, prefix.size(), prefix), 0);
  EXPECT_LT(EncodeTuningKey("k", "m", "M=1", "H200"), EncodeTuningKey("k", "m", "M=2", "H200"));
  EXPECT_LT(EncodeTuningKey("k", "m", "M=9", "H200"), EncodeTuningKey("k", "m", "M=1", "H200b"));
}

TEST(TuningKey, RefusesWhatIsNoKey) {
  std::string a, b, c, d;
  const std::string key = EncodeTuningKey("k", "m", "b", "d");
  for (size_t size = 0; size < key.size(); ++size) EXPECT_FALSE(DecodeTuningKey(key.substr(0, size), &a, &b, &c, &d));
  EXPECT_FALSE(DecodeTuningKey(key + "x", &a, &b, &c, &d));
}

}  // namespace
}  // namespace tessera::cache
