// Online tuning looks again, over the wire, with a real compiler and real executors on the CPU: at
// other values of a tuned bucket, at arguments outside the key, and at what was measured with
// another compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>

#include "cache/store/rocksdb/rocksdb_store.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr char kKernels[] = "tests/integration/kernels/samples.py";
constexpr char kBucket[] = "n=pow2:1024 | fp32 fp32 fp32";
constexpr int64_t kElements = 1024;
// Configurations as launches count them: the first is for even values, the second for odd ones.
constexpr uint32_t kEven = 1, kOdd = 2;

class TuningSamplesTest : public DaemonFixture {
 protected:
  TuningSamplesTest() {
    char folder[] = "/tmp/tessera_samples_XXXXXX";
    state_ = mkdtemp(folder);
    Start();
  }
  ~TuningSamplesTest() override {
    Stop();
    std::filesystem::remove_all(state_);
  }
  // Again: on the same state.
  void Start() {
    Stop();
    // All configurations, with the first launch; other tests may want this machine's cores, too.
    StartDaemon(state_, {"--tuning=bucketed", "--tuning-device-share=1", "--tuning-nice=0",
                         "--default-device=cpu:0"});
    module_ = Register(kKernels);
    for (auto* buffer : {&x_, &y_, &out_}) *buffer = Allocate(kElements * 4);
    for (int64_t i = 0; i < kElements; ++i) {
      x_->as<float>()[i] = static_cast<float>(i % 97);
      y_->as<float>()[i] = static_cast<float>(i % 89);
    }
  }
  void Stop() {
    for (auto* buffer : {&x_, &y_, &out_}) buffer->reset();
    client_.reset();
    daemon_.reset();
  }

  // Launches, checks the result and returns the configuration.
  uint32_t Run(const std::string& kernel, int64_t n, int64_t scale = 3) {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel(kernel);
    launch.add_grid_expressions("1");
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("y_ptr", *y_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("out_ptr", *out_, DType::kFp32, {n});
    *launch.add_arguments() = IntArgument("n", n);
    *launch.add_arguments() = IntArgument("scale", scale);
    out_->as<float>()[n - 1] = -1;
    auto response = client_->Launch(launch);
    EXPECT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(out_->as<float>()[n - 1], x_->as<float>()[n - 1] + y_->as<float>()[n - 1]);
    return response.ok() ? response->config() : 0;
  }

  v1::ExplainTuningsResponse::Site Site() {
    v1::ExplainTuningsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_->tuning().ExplainTunings(&context, {}, &response).ok());
    for (const auto& site : response.sites())
      if (site.bucket() == kBucket) return site;
    return {};
  }
  std::vector<v1::Tuning> Tunings() {
    v1::ListTuningsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_->tuning().ListTunings(&context, {}, &response).ok());
    return {response.tunings().begin(), response.tunings().end()};
  }

  void SetPolicy(const std::string& policy) {
    v1::SetPolicyRequest request;
    request.set_policy(policy);
    v1::SetPolicyResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_->tuning().SetPolicy(&context, request, &response).ok());
  }

  // Launches until the bucket's site is as wanted.
  using Wanted = std::function<bool(const v1::ExplainTuningsResponse::Site& site)>;
  void RunUntil(const std::string& kernel, int64_t n, int64_t scale, const Wanted& wanted) {
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < limit) {
      for (int i = 0; i < 16; ++i) Run(kernel, n, scale);
      if (HasFailure() || wanted(Site())) return;
    }
    FAIL() << "after a minute: " << Site().ShortDebugString();
  }
  static bool IsTuned(const v1::ExplainTuningsResponse::Site& site) {
    return site.state() == "tuned";
  }
  static Wanted Decides(const std::string& text) {
    return [text](const v1::ExplainTuningsResponse::Site& site) {
      return site.decision().find(text) != std::string::npos;
    };
  }

  // Changes the one record of the state, which no daemon may use; stored under another bucket, it
  // is one more.
  void EditRecord(const std::function<void(storage::TuningRecord* record)>& edit) {
    auto store = cache::OpenRocksdbStore(state_);
    ASSERT_TRUE(store.ok()) << store.status();
    auto records = (*store)->ListTunings();
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_THAT(*records, SizeIs(1));
    storage::TuningRecord& record = (*records)[0];
    edit(&record);
    EXPECT_TRUE((*store)
                    ->PutTuning(cache::TuningKey(record.kernel(), record.source(), record.bucket(),
                                                 record.device()),
                                record)
                    .ok());
  }

  std::string state_, module_;
  std::unique_ptr<SharedBuffer> x_, y_, out_;
};

TEST_F(TuningSamplesTest, AValueWithAnotherWinnerIsSplitOffItsBucket) {
  constexpr char kOddRuns[] = "n=1001 | fp32 fp32 fp32 runs with REST=1";
  RunUntil("depends_on_n", 1000, 3, IsTuned);
  EXPECT_EQ(Run("depends_on_n", 1000), kEven);
  EXPECT_EQ(Run("depends_on_n", 1001), kEven) << "of the same bucket";
  RunUntil("depends_on_n", 1001, 3, Decides("is split off"));
  // It is published right after it is decided on.
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Run("depends_on_n", 1001) != kOdd && std::chrono::steady_clock::now() < limit) continue;
  EXPECT_EQ(Run("depends_on_n", 1001), kOdd);
  EXPECT_EQ(Run("depends_on_n", 1000), kEven);
  EXPECT_EQ(Run("depends_on_n", 1003), kEven) << "what was not compared has the bucket's choice";
  EXPECT_THAT(Site().decision(), HasSubstr("n=1001 | fp32 fp32 fp32 is split off: REST=1 "));
  EXPECT_THAT(Site().decision(), HasSubstr(kOddRuns));
  EXPECT_THAT(Site().warnings(), IsEmpty());
  std::vector<std::string> buckets;
  for (const v1::Tuning& tuning : Tunings()) buckets.push_back(tuning.bucket());
  EXPECT_THAT(buckets, ElementsAre("n=1001 | fp32 fp32 fp32", kBucket));
  // Others that are compared later do not hide it.
  RunUntil("depends_on_n", 1002, 3, Decides("confirmed for n=1002 | fp32 fp32 fp32"));
  EXPECT_THAT(Site().decision(), HasSubstr(kOddRuns));
  // For good.
  Start();
  EXPECT_EQ(Run("depends_on_n", 1001), kOdd);
  EXPECT_THAT(Site().decision(), HasSubstr(kOddRuns));
  EXPECT_EQ(Run("depends_on_n", 1000), kEven);
}

TEST_F(TuningSamplesTest, AValueWithTheSameWinnerConfirmsItsBucket) {
  RunUntil("depends_on_n", 1001, 3, IsTuned);
  RunUntil("depends_on_n", 1003, 3, Decides("confirmed for n=1003 | fp32 fp32 fp32"));
  EXPECT_THAT(Tunings(), SizeIs(1));
  EXPECT_EQ(Run("depends_on_n", 1003), kOdd);
}

TEST_F(TuningSamplesTest, AnArgumentOutsideTheKeyThatChangesTheWinnerIsNamedWithTheTimes) {
  RunUntil("depends_on_scale", 1000, 3, IsTuned);
  EXPECT_EQ(Run("depends_on_scale", 1000, 3), kOdd);
  RunUntil("depends_on_scale", 1000, 4, [](const auto& site) { return site.warnings_size() > 0; });
  ASSERT_THAT(Site().warnings(), SizeIs(1));
  EXPECT_THAT(
      Site().warnings(0),
      MatchesRegex("an argument outside the key of depends_on_scale changes the winner: with "
                   "scale=4 it is REST=0.* \\([0-9.e-]+ ms against [0-9.e-]+ ms\\), with "
                   "n=1000 . fp32 fp32 fp32, scale=3 it is REST=1.*"));
  // The key does not tell them apart: one choice for both.
  EXPECT_THAT(Tunings(), SizeIs(1));
  EXPECT_EQ(Run("depends_on_scale", 1000, 4), kOdd);
}

TEST_F(TuningSamplesTest, WhatAnotherCompilerMeasuredServesAtOnceAndIsMeasuredAgain) {
  RunUntil("depends_on_n", 1000, 3, IsTuned);
  ASSERT_EQ(Run("depends_on_n", 1000), kEven);
  Stop();
  // It had another winner, which is slow now.
  EditRecord([](storage::TuningRecord* record) {
    ASSERT_EQ(record->trials_size(), 2);
    for (storage::TuningRecord::Trial& trial : *record->mutable_trials())
      trial.set_environment("another build");
    record->set_chosen(1 - record->chosen());
    record->set_sample("measured by another build");
  });
  Start();
  EXPECT_EQ(Run("depends_on_n", 1000), kOdd) << "as was chosen before";
  RunUntil("depends_on_n", 1000, 3, IsTuned);
  EXPECT_EQ(Run("depends_on_n", 1000), kEven);
  EXPECT_GT(Status().tune_trials(), 0u);
  ASSERT_THAT(Tunings(), SizeIs(1));
  EXPECT_THAT(Tunings()[0].sample(), HasSubstr("n=1000 "));
  Stop();
  EditRecord([](storage::TuningRecord* record) {
    ASSERT_EQ(record->trials_size(), 2);
    for (const storage::TuningRecord::Trial& trial : record->trials())
      EXPECT_NE(trial.environment(), "another build");
  });
}

TEST_F(TuningSamplesTest, WhatTheSameCompilerMeasuredIsNotMeasuredAgain) {
  RunUntil("depends_on_n", 1000, 3, IsTuned);
  Stop();
  // Wrongly: nobody looks.
  EditRecord([](storage::TuningRecord* record) { record->set_chosen(1 - record->chosen()); });
  Start();
  RunUntil("depends_on_n", 1000, 3, Decides("measured before"));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(Run("depends_on_n", 1000), kOdd);
  EXPECT_EQ(Status().tune_trials(), 0u);
}

TEST_F(TuningSamplesTest, WhatWasSplitOffIsNotMeasuredAgainByTheNextDaemon) {
  RunUntil("depends_on_n", 1000, 3, IsTuned);
  RunUntil("depends_on_n", 1001, 3, Decides("n=1001 | fp32 fp32 fp32 runs with REST=1"));
  Start();
  RunUntil("depends_on_n", 1001, 3, Decides("measured before"));
  for (int i = 0; i < 256; ++i) Run("depends_on_n", 1001);
  EXPECT_EQ(Status().tune_trials(), 0u);
}

TEST_F(TuningSamplesTest, WhatAnotherCompilerSplitOffIsMeasuredAgain) {
  RunUntil("depends_on_n", 1001, 3, IsTuned);
  Stop();
  EditRecord([](storage::TuningRecord* record) {
    for (storage::TuningRecord::Trial& trial : *record->mutable_trials())
      trial.set_environment("another build");
    record->set_bucket("n=1003 | fp32 fp32 fp32");
    record->set_sample("n=1003 | fp32 fp32 fp32, scale=3");
    record->set_split(true);
    record->set_chosen(1 - record->chosen());
  });
  Start();
  RunUntil("depends_on_n", 1003, 3, Decides("n=1003 | fp32 fp32 fp32 is as the bucket again"));
  RunUntil("depends_on_n", 1003, 3, Decides("n=1003 | fp32 fp32 fp32 runs with REST=1"));
  EXPECT_EQ(Run("depends_on_n", 1003), kOdd);
}

TEST_F(TuningSamplesTest, WhatIsPinnedForAValueStays) {
  RunUntil("depends_on_n", 1001, 3, IsTuned);
  Stop();
  EditRecord([](storage::TuningRecord* record) {
    record->set_bucket("n=1000 | fp32 fp32 fp32");
    record->set_split(true);
    record->set_pinned(true);
  });
  Start();
  for (int i = 0; i < 256; ++i) EXPECT_EQ(Run("depends_on_n", 1000), kOdd);
  EXPECT_EQ(Status().tune_trials(), 0u);
}

TEST_F(TuningSamplesTest, AnArgumentOutsideTheKeyIsNamedForAValueThatWasSplitOffToo) {
  RunUntil("depends_on_scale", 1000, 4, IsTuned);
  RunUntil("depends_on_scale", 1001, 3, Decides("is split off"));
  RunUntil("depends_on_scale", 1001, 4, [](const auto& site) { return site.warnings_size() > 0; });
  ASSERT_THAT(Site().warnings(), SizeIs(1));
  EXPECT_THAT(Site().warnings(0), HasSubstr("with scale=4 it is REST=0"));
  EXPECT_THAT(Site().warnings(0), HasSubstr("with n=1001 | fp32 fp32 fp32, scale=3 it is REST=1"));
}

TEST_F(TuningSamplesTest, AFewCandidatesAreMeasuredAgainUnderAnotherCompilerToo) {
  auto comes_true = [&](const std::function<bool()>& wanted) {
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!wanted() && std::chrono::steady_clock::now() < limit) continue;
    return wanted();
  };
  SetPolicy("candidates(2)");
  ASSERT_TRUE(comes_true([&] { return Run("depends_on_n", 1000) > 0 && !Tunings().empty(); }));
  ASSERT_EQ(Run("depends_on_n", 1000), kEven);
  Stop();
  EditRecord([](storage::TuningRecord* record) {
    for (storage::TuningRecord::Trial& trial : *record->mutable_trials())
      trial.set_environment("another build");
    record->set_chosen(1 - record->chosen());
  });
  Start();
  SetPolicy("candidates(2)");
  EXPECT_EQ(Run("depends_on_n", 1000), kOdd) << "as was chosen before";
  EXPECT_TRUE(comes_true([&] { return Run("depends_on_n", 1000) == kEven; }));
}

}  // namespace
}  // namespace tessera
