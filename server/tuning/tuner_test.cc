// What Tuner decides without measuring: the contests themselves are shown by tests/integration.
#include "server/tuning/tuner.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

storage::TuneConfig Block(int block) {
  storage::TuneConfig config;
  storage::NamedConstant* value = config.add_values();
  value->set_name("BLOCK");
  value->mutable_value()->set_integer(block);
  return config;
}

Candidate Timed(int block, double seconds) {
  Candidate candidate;
  candidate.config = Block(block);
  candidate.admitted = true;
  candidate.seconds.assign(7, seconds);
  candidate.in_race = true;
  return candidate;
}

RaceOptions Against(int incumbent) {
  RaceOptions options;
  options.incumbent = incumbent;
  return options;
}

class TunerTest : public ::testing::Test {
 protected:
  TunerTest() {
    const auto nothing = [] { return absl::UnavailableError("nothing runs here"); };
    cpu_ = devices_.Add({"cpu:0", "cpu", "features", "cpu model", 1}, nothing);
    DeviceDescription gpu = {"cuda:0", "sm_90a", "", "gpu model", 1};
    gpu.gpu.set_uuid("GPU-a");
    gpu.driver_version = 13000;
    gpu_ = devices_.Add(gpu, nothing);
    gpu.driver_version = 13010;
    newer_gpu_ = devices_.Add(gpu, nothing);
    subject_.device = cpu_;
    subject_.place.kernel = "k";
    subject_.place.bucket = "n=pow2:128 |";
    subject_.place.exact = "n=100 |";
    subject_.place.others = "stride=3";
  }
  Tuner Of(const std::string& build) {
    return Tuner(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, build, TunerLimits());
  }
  // What was measured with this build of the compiler on `device`.
  storage::TuningRecord Measured(const std::string& build, Device* device,
                                 const std::vector<Candidate>& candidates) {
    TuningSubject subject = subject_;
    subject.device = device;
    return *Of(build).MakeRecord(subject, candidates, Against(0), std::nullopt, 1);
  }

  DeviceTable devices_;
  Device *cpu_ = nullptr, *gpu_ = nullptr, *newer_gpu_ = nullptr;
  TuningSubject subject_;
};

TEST_F(TunerTest, WhatWasMeasuredOrRejectedInThisEnvironmentIsKnown) {
  Candidate rejected;
  rejected.config = Block(256);
  rejected.failure = "wrong result";
  Candidate left_out;
  left_out.config = Block(512);
  const storage::TuningRecord record =
      Measured("build", cpu_, {Timed(64, 2e-3), Timed(128, 1e-3), rejected, left_out});
  Tuner tuner = Of("build");
  EXPECT_TRUE(tuner.IsKnown(record, *cpu_, Block(64)));
  EXPECT_TRUE(tuner.IsKnown(record, *cpu_, Block(256)));
  EXPECT_FALSE(tuner.IsKnown(record, *cpu_, Block(512)));
  EXPECT_FALSE(tuner.IsKnown(record, *cpu_, Block(1024)));
  EXPECT_FALSE(tuner.IsKnown(std::nullopt, *cpu_, Block(64)));
}

TEST_F(TunerTest, AnotherBuildOfTheCompilerKnowsNothingOfIt) {
  const storage::TuningRecord record = Measured("build", cpu_, {Timed(64, 2e-3)});
  EXPECT_FALSE(Of("later build").IsKnown(record, *cpu_, Block(64)));
}

TEST_F(TunerTest, TheDriverCountsOnGpusAlone) {
  const storage::TuningRecord record = Measured("build", gpu_, {Timed(64, 2e-3)});
  EXPECT_THAT(record.trials(0).environment(), HasSubstr("driver 13000"));
  EXPECT_TRUE(Of("build").IsKnown(record, *gpu_, Block(64)));
  EXPECT_FALSE(Of("build").IsKnown(record, *newer_gpu_, Block(64)));
  EXPECT_EQ(Of("build").Environment(*cpu_), "build");
}

TEST_F(TunerTest, ImportedTimesAreOfAnotherEnvironment) {
  storage::TuningRecord record = Measured("build", cpu_, {Timed(64, 2e-3)});
  record.mutable_trials(0)->clear_environment();
  EXPECT_FALSE(Of("build").IsKnown(record, *cpu_, Block(64)));
}

TEST_F(TunerTest, ARecordKeepsOldTimesOfWhatWasNotMeasuredAgainButDoesNotChooseByThem) {
  const storage::TuningRecord old =
      Measured("build", cpu_, {Timed(64, 2e-3), Timed(128, 1e-3), Timed(256, 1e-4)});
  ASSERT_EQ(old.chosen(), 2u);
  absl::StatusOr<storage::TuningRecord> record =
      Of("later build").MakeRecord(subject_, {Timed(64, 4e-3), Timed(128, 3e-3)}, Against(0), old, 1);
  ASSERT_TRUE(record.ok()) << record.status();
  std::vector<std::string> environments;
  for (const storage::TuningRecord::Trial& trial : record->trials())
    environments.push_back(trial.environment());
  EXPECT_THAT(environments, ElementsAre("later build", "later build", "build"));
  EXPECT_EQ(ConfigText(record->trials(static_cast<int>(record->chosen())).config()), "BLOCK=128");
  EXPECT_DOUBLE_EQ(record->trials(0).median_seconds(), 4e-3);
}

TEST_F(TunerTest, OldTimesAreToldInTermsOfWhatTheOneInForceTakesNow) {
  storage::TuningRecord old =
      Measured("build", cpu_, {Timed(64, 2e-3), Timed(128, 3e-3), Timed(256, 5e-3)});
  old.mutable_trials(2)->set_environment("another build");
  absl::StatusOr<storage::TuningRecord> record =
      Of("build").MakeRecord(subject_, {Timed(64, 3e-3), Timed(512, 9e-3)}, Against(0), old, 1);
  ASSERT_TRUE(record.ok()) << record.status();
  std::vector<double> times;
  for (const storage::TuningRecord::Trial& trial : record->trials()) times.push_back(trial.median_seconds());
  EXPECT_THAT(times, ElementsAre(3e-3, 9e-3, ::testing::DoubleEq(4.5e-3), 5e-3));
}

TEST_F(TunerTest, WhoIsNotInTheRaceDoesNotWinIt) {
  Candidate lost_before = Timed(256, 1e-3);
  lost_before.in_race = false;
  absl::StatusOr<storage::TuningRecord> record = Of("build").MakeRecord(
      subject_, {Timed(64, 4e-3), lost_before, Timed(128, 3e-3)}, Against(0), std::nullopt, 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(ConfigText(record->trials(static_cast<int>(record->chosen())).config()), "BLOCK=128");
  EXPECT_EQ(record->trials_size(), 3);
}

TEST_F(TunerTest, ARecordSaysWhichValuesWereMeasured) {
  const storage::TuningRecord record = Measured("build", cpu_, {Timed(64, 2e-3)});
  EXPECT_EQ(record.bucket(), "n=pow2:128 |");
  EXPECT_EQ(record.sample(), "n=100 |, stride=3");
}

TEST_F(TunerTest, WhatIsPinnedStaysChosen) {
  storage::TuningRecord old = Measured("build", cpu_, {Timed(64, 2e-3), Timed(128, 1e-3)});
  old.set_chosen(0);
  old.set_pinned(true);
  absl::StatusOr<storage::TuningRecord> record =
      Of("build").MakeRecord(subject_, {Timed(128, 1e-3), Timed(256, 1e-4)}, Against(0), old, 1);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->pinned());
  EXPECT_EQ(ConfigText(record->trials(static_cast<int>(record->chosen())).config()), "BLOCK=64");
}

}  // namespace
}  // namespace tessera::server
