#include "server/tuning/kept_candidates.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class KeptCandidatesTest : public ::testing::Test {
 protected:
  static KeptCandidates::Kernel Of(const std::string& kernel, int device = 0) {
    return {"module", kernel, device};
  }
  std::vector<std::string> unloaded_;
  KeptCandidates kept_{
      [this](const KeptCandidates::Kernel& kernel) { unloaded_.push_back(kernel.kernel); },
      {/*kernels=*/2, /*variants=*/100}};
};

TEST_F(KeptCandidatesTest, TheKernelOfTheOldestContestGoes) {
  kept_.Keep(Of("a"), 1);
  kept_.Keep(Of("b"), 1);
  kept_.Keep(Of("a"), 1);  // again: now `b` is the oldest
  EXPECT_THAT(unloaded_, IsEmpty());
  kept_.Keep(Of("c"), 1);
  EXPECT_THAT(unloaded_, ElementsAre("b"));
}

TEST_F(KeptCandidatesTest, VariantsAreBoundedToo) {
  kept_.Keep(Of("a"), 60);
  kept_.Keep(Of("b"), 60);
  EXPECT_THAT(unloaded_, ElementsAre("a"));
  kept_.Keep(Of("b"), 101);  // more than all may be: itself
  EXPECT_THAT(unloaded_, ElementsAre("a", "b"));
}

TEST_F(KeptCandidatesTest, ThoseOfADeviceGoTogether) {
  kept_.Keep(Of("a", 0), 1);
  kept_.Keep(Of("b", 1), 1);
  kept_.Drop(Of("c", 0));
  EXPECT_THAT(unloaded_, ElementsAre("c", "a"));
  kept_.Keep(Of("d", 0), 1);
  EXPECT_THAT(unloaded_, ElementsAre("c", "a")) << "there was room";
}

}  // namespace
}  // namespace tessera::server
