// The declared traces of the study.
#include "client/cli/bench/workload.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tessera::cli {
namespace {

std::map<int, int> Counts(const Workload& workload) {
  std::map<int, int> counts;
  for (int shape : workload.calls) ++counts[shape];
  return counts;
}

TEST(Workload, GivesFourCommonShapesEightTenthsOfTheCallsAndRareOnesTheRest) {
  Workload workload = CommonAndRare(10000, 1, WorkloadSize::kSmall);
  ASSERT_EQ(workload.calls.size(), 10000u);
  ASSERT_EQ(workload.shapes.size(), 204u);
  std::map<int, int> counts = Counts(workload);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(counts[i], 2000);
  for (int i = 4; i < 204; ++i) EXPECT_EQ(counts[i], 10);
}

TEST(Workload, NamesNoShapeTwice) {
  for (WorkloadSize size : {WorkloadSize::kSmall, WorkloadSize::kLarge}) {
    std::set<std::string> texts;
    for (const Shape& shape : CommonAndRare(10, 7, size).shapes) texts.insert(ShapeText(shape));
    EXPECT_EQ(texts.size(), 204u);
  }
}

TEST(Workload, IsTheSameForTheSameSeedAndAnotherForAnother) {
  EXPECT_EQ(CommonAndRare(1000, 3, WorkloadSize::kSmall).calls,
            CommonAndRare(1000, 3, WorkloadSize::kSmall).calls);
  EXPECT_NE(CommonAndRare(1000, 3, WorkloadSize::kSmall).calls,
            CommonAndRare(1000, 4, WorkloadSize::kSmall).calls);
  // Fixed: results that were kept name this trace.
  Workload workload = CommonAndRare(10000, 1, WorkloadSize::kSmall);
  EXPECT_EQ(ShapeText(workload.shapes[4]),
            ShapeText(EveryShapeTwice(1, WorkloadSize::kSmall).shapes[4]));
}

TEST(Workload, CallsEveryShapeExactlyTwiceWhereNothingCanPay) {
  Workload workload = EveryShapeTwice(1, WorkloadSize::kSmall);
  std::map<int, int> counts = Counts(workload);
  EXPECT_EQ(counts.size(), 204u);
  for (const auto& [shape, count] : counts) EXPECT_EQ(count, 2) << shape;
}

}  // namespace
}  // namespace tessera::cli
