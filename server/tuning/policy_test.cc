#include "server/tuning/policy.h"

#include "gtest/gtest.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

TEST(TuningPolicy, ReadsWhatItWrites) {
  for (const char* text : {"fixed", "bucketed", "candidates(7)", "exhaustive", "amortised"}) {
    TuningPolicy policy;
    ASSERT_TRUE(TuningPolicy::ParseKind(text, &policy).ok()) << text;
    EXPECT_EQ(policy.KindText(), text);
  }
}

TEST(TuningPolicy, SaysWhatIsAccepted) {
  TuningPolicy policy;
  for (const char* text : {"", "always", "candidates", "candidates(0)", "candidates(x)"}) {
    absl::Status status = TuningPolicy::ParseKind(text, &policy);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("candidates(N)"), std::string::npos);
  }
}

TEST(TuningPolicy, TellsValuesApartWhereItMeasuresEachOfThem) {
  TuningPolicy policy;
  policy.kind = TuningPolicy::Kind::kExhaustive;
  EXPECT_EQ(policy.DefaultRule().Label(400), "400");
  policy.kind = TuningPolicy::Kind::kAmortised;
  EXPECT_EQ(policy.DefaultRule().Label(400), "pow2:512");
}

TEST(TuningPolicies, AKernelsOwnWinsAndEveryChangeShows) {
  TuningPolicies policies((TuningPolicy()));
  uint64_t version = policies.version();
  TuningPolicy fixed;
  fixed.kind = TuningPolicy::Kind::kFixed;
  policies.Set("k", fixed);
  EXPECT_NE(policies.version(), version);
  EXPECT_EQ(policies.Of("k")->KindText(), "fixed");
  EXPECT_EQ(policies.Of("other")->KindText(), "amortised");
  TuningPolicy bucketed;
  bucketed.kind = TuningPolicy::Kind::kBucketed;
  policies.Set("", bucketed);
  EXPECT_EQ(policies.Of("other")->KindText(), "bucketed");
  EXPECT_EQ(policies.Of("k")->KindText(), "fixed");
}

}  // namespace
}  // namespace tessera::server
