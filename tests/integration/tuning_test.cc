// Tuning while serving, over the wire, with a real compiler and real executors on the CPU: what repays is tuned and nobody
// waits for it, bad candidates cost only themselves, decisions outlive the daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKernels[] = "tests/integration/kernels/tuned.py";
constexpr int64_t kHot = 1 << 16;

class TuningTest : public DaemonFixture {
 protected:
  ~TuningTest() override {
    for (auto* buffer : {&x_, &y_, &out_}) buffer->reset();
    client_.reset();
    daemon_.reset();
    if (!state_.empty()) std::filesystem::remove_all(state_);
  }
  void Start(std::vector<std::string> flags) {
    if (state_.empty()) {
      char folder[] = "/tmp/tessera_tuning_XXXXXX";
      state_ = mkdtemp(folder);
    }
    // Other tests may want this machine's cores, too.
    flags.push_back("--tuning-device-share=1");
    flags.push_back("--tuning-nice=0");
    flags.push_back("--default-device=cpu:0");
    for (auto* buffer : {&x_, &y_, &out_}) buffer->reset();
    StartDaemon(state_, flags);
    module_ = Register(kKernels);
    for (auto* buffer : {&x_, &y_, &out_}) *buffer = Allocate(kHot * 4);
    for (int64_t i = 0; i < kHot; ++i) {
      x_->as<float>()[i] = static_cast<float>(i % 97);
      y_->as<float>()[i] = static_cast<float>(i % 89);
    }
  }

  // Launches and checks the result.
  v1::LaunchResponse Run(const std::string& kernel, int64_t n) {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel(kernel);
    launch.add_grid_expressions("cdiv(n, BLOCK)");
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("y_ptr", *y_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("out_ptr", *out_, DType::kFp32, {n});
    *launch.add_arguments() = IntArgument("n", n);
    out_->as<float>()[0] = out_->as<float>()[n - 1] = -1;
    auto response = client_->Launch(launch);
    EXPECT_TRUE(response.ok()) << response.status();
    for (int64_t i : {int64_t{0}, n - 1})
      EXPECT_EQ(out_->as<float>()[i], 2 * x_->as<float>()[i] + y_->as<float>()[i]) << "element " << i;
    return response.ok() ? *response : v1::LaunchResponse();
  }

  v1::ExplainTuningsResponse Explain() {
    v1::ExplainTuningsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_->tuning().ExplainTunings(&context, {}, &response).ok());
    return response;
  }
  // The site of a bucket that begins like this.
  v1::ExplainTuningsResponse::Site SiteOf(const std::string& bucket) {
    const v1::ExplainTuningsResponse explained = Explain();
    for (const auto& site : explained.sites())
      if (site.bucket().rfind(bucket, 0) == 0) return site;
    return {};
  }
  std::vector<v1::Tuning> Tunings() {
    v1::ListTuningsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_->tuning().ListTunings(&context, {}, &response).ok());
    return {response.tunings().begin(), response.tunings().end()};
  }
  void SetPolicy(const std::string& policy, bool frozen) {
    v1::SetPolicyRequest request;
    request.set_policy(policy);
    request.set_frozen(frozen);
    v1::SetPolicyResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_->tuning().SetPolicy(&context, request, &response).ok());
  }

  // Launches until the bucket's state is `state`. Returns the configurations that ran.
  std::set<int> LaunchUntil(const std::string& kernel, int64_t n, const std::string& bucket, const std::string& state) {
    std::set<int> configs;
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(150);
    for (int i = 0; std::chrono::steady_clock::now() < limit; ++i) {
      v1::LaunchResponse response = Run(kernel, n);
      configs.insert(response.config());
      if (i > 0) EXPECT_EQ(response.outcome(), "hit") << "no launch waits for a compile";
      if (HasFailure()) return configs;
      if (i % 64 == 63 && SiteOf(bucket).state() == state) return configs;
    }
    ADD_FAILURE() << bucket << " did not come to be " << state << ": " << Explain().ShortDebugString();
    return configs;
  }

  std::string state_, module_;
  std::unique_ptr<SharedBuffer> x_, y_, out_;
};

TEST_F(TuningTest, TunesWhatRepaysAndAbstainsFromTheRest) {
  Start({"--tuning=amortised"});
  for (int64_t n : {100, 1000, 5000, 20000})
    for (int i = 0; i < 2; ++i) Run("scaled_sum", n);
  std::set<int> configs = LaunchUntil("scaled_sum", kHot, "n=pow2:65536 ", "tuned");
  EXPECT_EQ(*configs.begin(), 1) << "the first configuration, until a better one is known";
  v1::LaunchResponse response = Run("scaled_sum", kHot);
  EXPECT_GT(response.config(), 1) << "blocks of one element are no good for 65536: "
                                  << Tunings()[0].ShortDebugString();
  std::vector<v1::Tuning> tunings = Tunings();
  ASSERT_EQ(tunings.size(), 1u);
  EXPECT_EQ(tunings[0].bucket(), "n=pow2:65536 | fp32 fp32 fp32");
  EXPECT_GT(tunings[0].tuning_seconds(), 0);
  for (const char* rare : {"n=pow2:128 ", "n=pow2:1024 ", "n=pow2:8192 "}) {
    v1::ExplainTuningsResponse::Site site = SiteOf(rare);
    EXPECT_EQ(site.calls(), 2u) << rare;
    EXPECT_EQ(site.state(), "abstained") << rare;
    EXPECT_THAT(site.decision(), HasSubstr("does not repay")) << rare;
  }
  // The nearest bucket's choice, once it is known.
  EXPECT_THAT(SiteOf("n=pow2:65536 ").config_from(), HasSubstr("tuned"));
  v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.launch_failures(), 0u);
  EXPECT_GT(status.tune_trials(), 0u);
}

TEST_F(TuningTest, RejectsBadCandidatesByNameWhileServingGoesOn) {
  Start({"--tuning=exhaustive", "--tuning-kernel-limit=2s"});
  LaunchUntil("with_bad_configurations", kHot, "n=65536 ", "tuned");
  std::vector<v1::Tuning> tunings = Tunings();
  ASSERT_EQ(tunings.size(), 1u);
  ASSERT_EQ(tunings[0].trials_size(), 5);
  std::map<int64_t, std::string> failures;  // by BAD
  for (const v1::Tuning::Trial& trial : tunings[0].trials())
    for (const v1::NamedConstant& value : trial.config().values())
      if (value.name() == "BAD" && value.value().integer() != 0) failures[value.value().integer()] = trial.failure();
  EXPECT_THAT(failures[1], HasSubstr("wrote")) << "out of bounds";
  EXPECT_THAT(failures[1], HasSubstr("behind the end of tensor 'out_ptr'"));
  EXPECT_THAT(failures[2], HasSubstr("ran longer than 2s"));
  EXPECT_THAT(failures[3], HasSubstr("wrong result in tensor 'out_ptr'"));
  const v1::Tuning::Trial& chosen = tunings[0].trials(static_cast<int>(tunings[0].chosen()));
  EXPECT_EQ(chosen.failure(), "");
  v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.launch_failures(), 0u);
  for (const auto& device : status.devices()) {
    EXPECT_EQ(device.restarts(), 0u) << device.name() << ": candidates ran elsewhere";
    EXPECT_EQ(device.quarantined_kernels_size(), 0) << device.name();
  }
}

// Candidates are timed by parts of their grid while launches are busy; the winner is compared before it is used.
TEST_F(TuningTest, WhatWinsByAPartOfItsGridIsComparedBeforeItIsUsed) {
  constexpr int64_t kWide = 1 << 18;  // so that the copies to compare lie on the device
  Start({"--tuning=amortised", "--tuning-latency-cpu=10us"});
  for (auto* buffer : {&x_, &y_, &out_}) *buffer = Allocate(kWide * 4);
  for (int64_t i = 0; i < kWide; ++i) x_->as<float>()[i] = y_->as<float>()[i] = static_cast<float>(i % 97);
  LaunchUntil("with_tempting_configurations", kWide, "n=pow2:262144 ", "tuned");  // looks at results
  for (int i = 0; i < 100; ++i) Run("with_tempting_configurations", kWide);
  std::vector<v1::Tuning> tunings = Tunings();
  ASSERT_EQ(tunings.size(), 1u);
  std::map<int64_t, std::string> failures;  // by BAD
  for (const v1::Tuning::Trial& trial : tunings[0].trials())
    for (const v1::NamedConstant& value : trial.config().values())
      if (value.name() == "BAD") failures[value.value().integer()] += trial.failure();
  EXPECT_THAT(failures[1], HasSubstr("behind the end of tensor 'out_ptr'"));
  EXPECT_THAT(failures[3], HasSubstr("wrong result in tensor 'out_ptr'"));
  EXPECT_EQ(failures[0], "");
  EXPECT_GT(Run("with_tempting_configurations", kWide).config(), 3)
      << "the right one that is fast: " << Tunings()[0].ShortDebugString();
}

TEST_F(TuningTest, DecisionsOutliveTheDaemonAndAreAtTheUsersOrders) {
  Start({"--tuning=bucketed"});
  LaunchUntil("scaled_sum", kHot, "n=pow2:65536 ", "tuned");
  const int chosen = Run("scaled_sum", kHot).config();
  EXPECT_GT(chosen, 1);
  // Another daemon on the same state: the choice is there with the first launch, and nothing is measured.
  Start({"--tuning=bucketed"});
  EXPECT_EQ(Run("scaled_sum", kHot).config(), chosen);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Run("scaled_sum", 50000).config(), chosen) << "of the same bucket";
  EXPECT_EQ(SiteOf("n=pow2:65536 ").config_from(), "tuned");
  // Pinned: whatever was measured.
  v1::PinTuningRequest pin;
  pin.set_kernel("scaled_sum");
  pin.set_bucket("n=pow2:65536 | fp32 fp32 fp32");
  for (const v1::Tuning& tuning : Tunings())
    for (int i = 0; i < tuning.trials_size(); ++i)
      for (const v1::NamedConstant& value : tuning.trials(i).config().values())
        if (value.value().integer() == 64) pin.set_config(static_cast<uint32_t>(i));
  v1::PinTuningResponse pinned;
  grpc::ClientContext pin_context;
  EXPECT_TRUE(client_->tuning().PinTuning(&pin_context, pin, &pinned).ok());
  // Made ready behind the launches that ask for it.
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Run("scaled_sum", kHot).config() != 2 && std::chrono::steady_clock::now() < limit) continue;
  EXPECT_EQ(Run("scaled_sum", kHot).config(), 2);
  // Frozen, and forgotten: the first configuration, and nothing is measured.
  SetPolicy("", true);
  v1::ForgetTuningRequest forget;
  forget.set_kernel("scaled_sum");
  v1::ForgetTuningResponse forgotten;
  grpc::ClientContext forget_context;
  EXPECT_TRUE(client_->tuning().ForgetTuning(&forget_context, forget, &forgotten).ok());
  EXPECT_EQ(forgotten.forgotten(), 1u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Run("scaled_sum", kHot).config(), 1);
  EXPECT_EQ(LaunchUntil("scaled_sum", kHot, "n=pow2:65536 ", "frozen"), std::set<int>({1}));
  EXPECT_TRUE(Tunings().empty());
  // And at work again.
  SetPolicy("", false);
  LaunchUntil("scaled_sum", kHot, "n=pow2:65536 ", "tuned");
  EXPECT_EQ(Tunings().size(), 1u);
}

// Launches of more than 1 MiB: copies are restored, and results compared, in the tuning executor.
class LargeTuningTest : public TuningTest {
 protected:
  static constexpr int64_t kLarge = (1 << 18) + 24;  // fp32: a little over 1 MiB, and no multiple of a block

  void StartLarge() {
    Start({"--tuning=fixed", "--tuning-kernel-limit=2s"});
    module_ = Register("tests/integration/kernels/tuned_large.py");
    for (auto* buffer : {&x_, &out_}) *buffer = Allocate(kLarge * 8);
  }

  v1::LaunchRequest LaunchOf(const std::string& kernel, DType x, std::optional<DType> out, int64_t n) {
    v1::LaunchRequest launch;
    launch.set_session(client_->session());
    launch.set_module(module_);
    launch.set_kernel(kernel);
    launch.add_grid_expressions("cdiv(n, BLOCK)");
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, x, {n});
    if (out) *launch.add_arguments() = TensorArgument("out_ptr", *out_, *out, {n});
    *launch.add_arguments() = IntArgument("n", n);
    return launch;
  }
  v1::Tuning Tune(const v1::LaunchRequest& launch) {
    v1::TuneRequest request;
    *request.mutable_launch() = launch;
    request.set_budget_seconds(300);
    v1::TuneResponse response;
    grpc::ClientContext context;
    grpc::Status status = client_->tuning().Tune(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (daemon_ != nullptr) EXPECT_THAT(ReadText(daemon_->log_path()), Not(HasSubstr("on the host")));
    return response.tuning();
  }
  // What became of the configurations with this BAD: a failure each, empty where it was measured.
  static std::vector<std::string> FailuresOf(const v1::Tuning& tuning, int64_t bad) {
    std::vector<std::string> failures;
    for (const v1::Tuning::Trial& trial : tuning.trials())
      for (const v1::NamedConstant& value : trial.config().values())
        if (value.name() == "BAD" && value.value().integer() == bad)
          failures.push_back(trial.failure().empty() && trial.samples() == 0 ? "not measured" : trial.failure());
    return failures;
  }
};

TEST_F(LargeTuningTest, RejectsWhatIsWrongAndKeepsWhatIsRight) {
  StartLarge();
  for (int64_t i = 0; i < kLarge; ++i) x_->as<float>()[i] = i % 1000 == 13 ? NAN : static_cast<float>(i % 97);
  // As launches before left it: what a candidate leaves out is right there already.
  for (int64_t i = 0; i < kLarge; ++i) out_->as<float>()[i] = 2 * x_->as<float>()[i];
  v1::Tuning tuning = Tune(LaunchOf("doubled", DType::kFp32, DType::kFp32, kLarge));
  const std::string element = "wrong result in tensor 'out_ptr': element ";
  EXPECT_THAT(FailuresOf(tuning, 0), ElementsAre("", "")) << "the last of them ran after all that did wrong";
  EXPECT_THAT(FailuresOf(tuning, 1), ElementsAre(HasSubstr(element + std::to_string(kLarge - 3) + " is ")));
  EXPECT_THAT(FailuresOf(tuning, 2), ElementsAre(HasSubstr("wrote up to 64 bytes behind the end of tensor 'out_ptr'")));
  EXPECT_THAT(FailuresOf(tuning, 3), ElementsAre(HasSubstr("wrong result in tensor 'x_ptr': element 5 is 1010, not 5")));
  EXPECT_THAT(FailuresOf(tuning, 4), ElementsAre(HasSubstr(element + "7 is nan, not 14")));
  EXPECT_THAT(FailuresOf(tuning, 5), ElementsAre(HasSubstr(element + "13 is 1, not nan")));
  EXPECT_THAT(FailuresOf(tuning, 6), ElementsAre(HasSubstr(element))) << "poison shows where nothing was written";
  EXPECT_THAT(FailuresOf(tuning, 7), ElementsAre(HasSubstr("ran longer than 2s")));
  EXPECT_EQ(x_->as<float>()[5], 5) << "candidates run on copies";
}

TEST_F(LargeTuningTest, EveryFloatIsCompared) {
  StartLarge();
  for (DType out : {DType::kFp16, DType::kBf16, DType::kFp64}) {
    for (int64_t i = 0; i < kLarge; ++i) x_->as<float>()[i] = i % 1000 == 13 ? NAN : static_cast<float>(i % 97);
    v1::Tuning tuning = Tune(LaunchOf("doubled", DType::kFp32, out, kLarge));
    EXPECT_THAT(FailuresOf(tuning, 0), ElementsAre("", "")) << ShortName(out);
    for (int64_t bad : {1, 2, 3, 4, 5, 6})
      EXPECT_THAT(FailuresOf(tuning, bad), ElementsAre(HasSubstr("tensor '"))) << ShortName(out) << ", BAD " << bad;
  }
}

TEST_F(LargeTuningTest, IntegersAreComparedExactly) {
  StartLarge();
  for (int64_t i = 0; i < kLarge; ++i) x_->as<int32_t>()[i] = static_cast<int32_t>(i);
  v1::Tuning tuning = Tune(LaunchOf("next_integer", DType::kInt32, DType::kInt32, kLarge));
  EXPECT_THAT(FailuresOf(tuning, 0), ElementsAre("", ""));
  EXPECT_THAT(FailuresOf(tuning, 1),
              ElementsAre(HasSubstr("wrong result in tensor 'out_ptr': element " + std::to_string(kLarge - 3) + " is " +
                                    std::to_string(kLarge - 1) + ", not " + std::to_string(kLarge - 2))));
}

TEST_F(LargeTuningTest, WhatIsAddedToBeginsWithZeros) {
  StartLarge();
  for (int64_t i = 0; i < kLarge; ++i) x_->as<float>()[i] = out_->as<float>()[i] = static_cast<float>(1 + i % 97);
  v1::Tuning tuning = Tune(LaunchOf("added", DType::kFp32, DType::kFp32, kLarge));
  EXPECT_THAT(FailuresOf(tuning, 0), ElementsAre("", ""));
  EXPECT_THAT(FailuresOf(tuning, 1), ElementsAre(HasSubstr("wrong result in tensor 'out_ptr': element 6 is 14, not 7")));
}

TEST_F(LargeTuningTest, WhatIsOverwrittenInPlaceIsRestored) {
  StartLarge();
  for (int64_t i = 0; i < kLarge; ++i) x_->as<float>()[i] = static_cast<float>(i % 97);
  v1::Tuning tuning = Tune(LaunchOf("doubled_in_place", DType::kFp32, std::nullopt, kLarge));
  EXPECT_THAT(FailuresOf(tuning, 0), ElementsAre("", ""));
  EXPECT_THAT(FailuresOf(tuning, 1), ElementsAre(HasSubstr("wrong result in tensor 'x_ptr': relative error")));
}

TEST_F(LargeTuningTest, CandidatesStayLoadedForAFurtherShape) {
  StartLarge();
  for (int64_t i = 0; i < kLarge; ++i) x_->as<int32_t>()[i] = static_cast<int32_t>(i);
  Tune(LaunchOf("next_integer", DType::kInt32, DType::kInt32, kLarge));
  const uint32_t loaded = Status().kernel_variants();
  EXPECT_GE(loaded, 5u) << "three in the tuning executor and what compares, and the choice where launches run";
  Tune(LaunchOf("next_integer", DType::kInt32, DType::kInt32, kLarge - 16));
  EXPECT_GE(Status().kernel_variants(), loaded);
  EXPECT_LE(Status().kernel_variants(), loaded + 1) << "another choice may have been loaded";
}

}  // namespace
}  // namespace tessera
