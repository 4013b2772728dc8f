// The figures, criteria and conclusions of a trace study, from runs with made-up times.
#include "client/cli/bench/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

struct Times {
  double common = 1e-3, rare = 1e-3;  // of a kernel, seconds
  double tune = 0;                    // before the first call of a shape
  double late_common = 0;             // of a kernel in the second half; 0: as before
};

// 1,000 calls: two common shapes in turns, every tenth call a rare one of ten.
TraceResult Made(const std::vector<std::pair<std::string, Times>>& policies) {
  TraceResult result;
  result.workload.name = "common-and-rare";
  for (int i = 0; i < 12; ++i) result.workload.shapes.push_back({16 + i, 512, 512});
  result.workload.common = 2;
  for (int i = 0; i < 1000; ++i)
    result.workload.calls.push_back(i % 10 == 9 ? 2 + i / 10 % 10 : i % 2);
  for (const auto& [name, times] : policies) {
    PolicyRun run;
    run.policy = name;
    std::vector<bool> seen(12, false);
    double now = 0;
    for (size_t i = 0; i < result.workload.calls.size(); ++i) {
      Call call;
      call.shape = result.workload.calls[i];
      call.begin = now;
      call.cold = !seen[call.shape];
      call.tune_seconds = call.cold ? times.tune : 0;
      bool late = i >= 500 && times.late_common > 0;
      call.kernel_seconds = call.shape >= 2 ? times.rare : late ? times.late_common : times.common;
      call.seconds = call.kernel_seconds + call.tune_seconds + 1e-4;
      call.config = 1;
      seen[call.shape] = true;
      now += call.seconds;
      run.calls.push_back(call);
    }
    run.total_seconds = now;
    result.runs.push_back(run);
  }
  return result;
}

TEST(TraceReport, KeepsColdAndWarmCallsApart) {
  TraceResult result = Made({{"exhaustive", {.common = 1e-3, .tune = 0.5}}});
  PolicySummary summary = Summarise(result.runs[0]);
  EXPECT_EQ(summary.cold_calls, 12u);
  EXPECT_EQ(summary.warm_calls, 988u);
  EXPECT_NEAR(summary.cold_p50, 0.5011, 1e-9);
  EXPECT_NEAR(summary.warm_p99, 1.1e-3, 1e-9);
  EXPECT_NEAR(summary.first_use_seconds, 6, 1e-9);
  EXPECT_NEAR(summary.steady_kernel_seconds, 1e-3, 1e-9);
}

TEST(TraceReport, SteadyStateIsTheLastTenthOfTheCalls) {
  TraceResult result = Made({{"amortised", {.common = 2e-3, .late_common = 1e-3}}});
  EXPECT_NEAR(SteadySeconds(result.runs[0], 0), 1e-3, 1e-12);
}

TEST(TraceReport, AccountsForTheWholeDifferenceToFixed) {
  TraceResult result = Made({{"fixed", {.common = 2e-3, .rare = 2e-3}},
                             {"exhaustive", {.common = 1e-3, .rare = 1.5e-3, .tune = 0.05}}});
  Account account = AccountOf(result, result.runs[1], result.runs[0]);
  EXPECT_NEAR(account.saving_common, 0.9, 1e-9);
  EXPECT_NEAR(account.saving_rare, 0.05, 1e-9);
  EXPECT_NEAR(account.overhead, 0.6, 1e-9);  // twelve searches
  EXPECT_NEAR(account.tuning_rare, 0.5, 1e-9);
  EXPECT_NEAR(
      result.runs[1].total_seconds,
      result.runs[0].total_seconds + account.overhead - account.saving_common - account.saving_rare,
      1e-9);
  // 0.6 s of searches against some 0.95 ms a call.
  EXPECT_GT(account.break_even_calls, 600u);
  EXPECT_LT(account.break_even_calls, 660u);
  EXPECT_EQ(account.more_calls, 0);
}

TEST(TraceReport, SaysWhatIsMissingWhereNothingBreaksEven) {
  TraceResult result = Made({{"fixed", {.common = 2e-3, .rare = 2e-3}},
                             {"exhaustive", {.common = 1e-3, .rare = 2e-3, .tune = 1}}});
  Account account = AccountOf(result, result.runs[1], result.runs[0]);
  EXPECT_EQ(account.break_even_calls, 0u);
  EXPECT_NEAR(account.more_calls, (12 - 0.9) / 0.9e-3, 50);
  std::string conclusion = Conclusion(result);
  EXPECT_THAT(conclusion, HasSubstr("Least total time: fixed"));
  EXPECT_THAT(conclusion,
              HasSubstr("A search for a common shape cost 1.00 s and saved 1.00 ms a call: it "
                        "needs 1000 calls of the shape and got 450, so it was not repaid"));
  EXPECT_THAT(conclusion, HasSubstr("A search for a rare shape cost 1.00 s and saved nothing"));
}

TEST(TraceReport, CriteriaAreMetByAPolicyThatTunesWhatRepays) {
  TraceResult result = Made({{"fixed", {.common = 2e-3}},
                             {"exhaustive", {.common = 1e-3, .tune = 0.1}},
                             {"amortised", {.common = 1.02e-3}}});
  std::vector<Criterion> criteria = CommonAndRareCriteria(result);
  ASSERT_EQ(criteria.size(), 3u);
  for (const Criterion& criterion : criteria) EXPECT_TRUE(criterion.met) << criterion.text;
}

TEST(TraceReport, CriteriaAreMissedByTotalP99AndSteadyState) {
  TraceResult result = Made({{"fixed", {.common = 1.2e-3}},
                             {"exhaustive", {.common = 1e-3, .tune = 0.01}},
                             {"amortised", {.common = 1.4e-3}}});
  std::vector<Criterion> criteria = CommonAndRareCriteria(result);
  ASSERT_EQ(criteria.size(), 3u);
  for (const Criterion& criterion : criteria) EXPECT_FALSE(criterion.met) << criterion.text;
}

TEST(TraceReport, GoalsAreOfTheMediansOfTheRounds) {
  const Times fixed = {.common = 2e-3}, exhaustive = {.common = 1e-3, .tune = 0.1}, good = {.common = 1.02e-3},
              bad = {.common = 4e-3};
  auto study = [&](const std::vector<Times>& of_amortised) {
    TraceResult result;
    for (const Times& amortised : of_amortised) {
      TraceResult round = Made({{"fixed", fixed}, {"exhaustive", exhaustive}, {"amortised", amortised}});
      result.rounds.push_back(round.runs);
      result.workload = round.workload;
      result.runs = round.runs;
    }
    return CommonAndRareCriteria(result);
  };
  for (const Criterion& criterion : study({bad, good, good})) {
    EXPECT_TRUE(criterion.met) << criterion.text;
    EXPECT_THAT(criterion.text, HasSubstr("rounds"));
  }
  for (const Criterion& criterion : study({good, bad, bad})) EXPECT_FALSE(criterion.met) << criterion.text;
}

TEST(TraceReport, SteadyStateMustHoldAsItRanAndInTurns) {
  auto study = [](double late_common) {
    TraceResult result = Made({{"fixed", {.common = 2e-3}},
                               {"exhaustive", {.common = 1e-3, .tune = 0.1}},
                               {"amortised", {.common = 1e-3, .late_common = late_common}}});
    for (int shape : {0, 1}) {
      result.side_by_side.entries.push_back({shape, 1, 1e-3});
      result.side_by_side.entries.push_back({shape, 2, 1.1e-3});
    }
    return result;
  };
  auto expect = [](const TraceResult& result, bool as_it_ran, bool in_turns) {
    std::vector<Criterion> criteria = CommonAndRareCriteria(result);
    ASSERT_EQ(criteria.size(), 4u);
    EXPECT_EQ(criteria[2].met, as_it_ran) << criteria[2].text;
    EXPECT_EQ(criteria[3].met, in_turns) << criteria[3].text;
  };
  expect(study(1e-3), true, true);
  // The same configuration, on a machine that was slower then.
  expect(study(1.5e-3), false, true);
  EXPECT_THAT(CommonAndRareCriteria(study(1.5e-3))[2].text, HasSubstr("as it ran, 1.500 of exhaustive's"));
  // What ran before the last calls does not matter, half of the last ones does.
  TraceResult result = study(1e-3);
  std::vector<Call>& calls = result.runs[2].calls;
  for (size_t i = 0; i < 900; ++i) calls[i].config = 2;
  EXPECT_NEAR(SteadySecondsInTurns(result, result.runs[2], 0), 1e-3, 1e-12);
  for (size_t i = 900; i < 950; ++i) calls[i].config = 2;
  EXPECT_NEAR(SteadySecondsInTurns(result, result.runs[2], 0), 1.05e-3, 1e-5);
  expect(result, true, false);
  // One that was not timed in turns.
  for (size_t i = 950; i < 1000; ++i) calls[i].config = 3;
  EXPECT_EQ(SteadySecondsInTurns(result, result.runs[2], 0), 0);
  EXPECT_EQ(CommonAndRareCriteria(result).size(), 3u);
}

TEST(TraceReport, SteadyStateIsNotAskedForWhereTheSearchDoesNotRepay) {
  TraceResult result = Made({{"fixed", {.common = 1.2e-3}},
                             {"exhaustive", {.common = 1e-3, .tune = 1}},
                             {"amortised", {.common = 1.2e-3}}});
  std::vector<Criterion> criteria = CommonAndRareCriteria(result);
  ASSERT_EQ(criteria.size(), 3u);
  EXPECT_TRUE(criteria[2].met);
  EXPECT_THAT(criteria[2].text, HasSubstr("repays on no common shape"));
}

TEST(TraceReport, AbstainingIsMeasuredByCallsBesideTuning) {
  TraceResult result = Made({{"fixed", {}}, {"amortised", {}}});
  result.workload.name = "every-shape-twice";
  for (const Criterion& criterion : EveryShapeTwiceCriteria(result))
    EXPECT_TRUE(criterion.met) << criterion.text;
  result.runs[1].calls_beside_tuning = 10;  // of 1,000: one in a hundred is too many
  EXPECT_FALSE(EveryShapeTwiceCriteria(result)[0].met);
}

TEST(TraceReport, FilesHoldEveryPolicy) {
  std::vector<TraceResult> results = {Made({{"fixed", {}}, {"amortised", {}}})};
  std::string csv = SummaryCsv(results);
  EXPECT_THAT(csv, HasSubstr("\ncommon-and-rare,fixed,1000,"));
  size_t header = csv.find('\n');
  EXPECT_EQ(std::count(csv.begin(), csv.begin() + header, ','),
            std::count(csv.begin() + header + 1, csv.begin() + csv.find('\n', header + 1), ','));
  auto json = nlohmann::json::parse(SummaryJson(results, "cpu:0", "tessera bench trace"));
  EXPECT_EQ(json["traces"][0]["policies"][1]["policy"], "amortised");
  EXPECT_EQ(json["traces"][0]["policies"][1]["warm"]["calls"], 988);
  EXPECT_THAT(Table(results[0]), HasSubstr("amortised"));
  EXPECT_THAT(WorkloadCsv(results[0].workload), HasSubstr("\n9,18,512,512,0\n"));
  std::string calls = CallsCsv(results[0]);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 1 + 2 * 1000);
  EXPECT_THAT(calls, HasSubstr("\namortised,999,"));
}

TEST(TraceReport, PlotsCumulativeTimeToTheEnd) {
  TraceResult result = Made({{"fixed", {}}, {"exhaustive", {.tune = 0.5}}});
  LinePlot plot = CumulativePlot(result);
  ASSERT_EQ(plot.series.size(), 2u);
  EXPECT_EQ(plot.series[1].points.back().first, 1000);
  EXPECT_NEAR(plot.series[1].points.back().second, result.runs[1].total_seconds, 1e-9);
  EXPECT_THAT(ToSvg(plot), HasSubstr("Cumulative time, trace common-and-rare"));
  std::string png = ToPng(plot);
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_THAT(png, HasSubstr("IEND"));
}

}  // namespace
}  // namespace tessera::cli
