#include "server/tuning/bucket_rule.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

std::string Label(const char* rule, int64_t value) {
  absl::StatusOr<BucketRule> parsed = BucketRule::Parse(rule);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->Label(value) : "";
}

TEST(BucketRule, ExactKeepsTheValue) {
  EXPECT_EQ(Label("exact", 1000), "1000");
  EXPECT_EQ(Label("exact", -3), "-3");
}

TEST(BucketRule, Pow2NamesTheLargestMember) {
  EXPECT_EQ(Label("pow2", 257), "pow2:512");
  EXPECT_EQ(Label("pow2", 512), "pow2:512");
  EXPECT_EQ(Label("pow2", 513), "pow2:1024");
  EXPECT_EQ(Label("pow2", 17), "pow2:32");
}

TEST(BucketRule, SmallValuesAreCountsAndStayExact) {
  for (int64_t value : {-7, 0, 1, 3, 16}) {
    EXPECT_EQ(Label("pow2", value), std::to_string(value));
    EXPECT_EQ(Label("geometric:1.5", value), std::to_string(value));
  }
}

TEST(BucketRule, GeometricStepsGrowByTheRatio) {
  EXPECT_EQ(Label("geometric:1.5", 17), "geo:24");
  EXPECT_EQ(Label("geometric:1.5", 24), "geo:24");
  EXPECT_EQ(Label("geometric:1.5", 25), "geo:36");
  EXPECT_EQ(Label("geometric:1.05", 18), "geo:18");
  EXPECT_EQ(Label("geometric:16", INT64_MAX), "geo:9223372036854775807");
}

TEST(BucketRule, EdgesAreUpperBounds) {
  EXPECT_EQ(Label("edges:64,4096", 64), "to:64");
  EXPECT_EQ(Label("edges:64,4096", 65), "to:4096");
  EXPECT_EQ(Label("edges:64,4096", 4097), "above:4096");
  EXPECT_EQ(Label("edges:64,4096", -1), "to:64");
}

TEST(BucketRule, EveryBucketIsOneRange) {
  for (const char* rule : {"pow2", "geometric:1.3", "edges:10,100,1000"}) {
    std::string last = Label(rule, 1);
    std::vector<std::string> seen = {last};
    for (int64_t value = 2; value < 5000; ++value) {
      std::string label = Label(rule, value);
      if (label == last) continue;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), label), 0) << rule << " " << value;
      seen.push_back(last = label);
    }
  }
}

TEST(BucketRule, BadRulesAreRefusedWithWhatIsAccepted) {
  for (const char* rule : {"", "pow3", "geometric:1", "geometric:x", "edges:", "edges:5,5", "edges:5,a"}) {
    absl::StatusOr<BucketRule> parsed = BucketRule::Parse(rule);
    ASSERT_FALSE(parsed.ok()) << rule;
    EXPECT_NE(parsed.status().message().find("geometric:STEP"), absl::string_view::npos);
  }
}

TEST(BucketRule, PrintsAsItReads) {
  for (const char* rule : {"exact", "pow2", "geometric:1.5", "edges:64,128"})
    EXPECT_EQ(BucketRule::Parse(rule)->ToString(), rule);
}

TEST(BucketRule, LabelsHaveAValue) {
  int64_t value = 0;
  ASSERT_TRUE(LabelValue("pow2:512", &value));
  EXPECT_EQ(value, 512);
  ASSERT_TRUE(LabelValue("-4", &value));
  EXPECT_EQ(value, -4);
  EXPECT_FALSE(LabelValue("True", &value));
}

}  // namespace
}  // namespace tessera::server
