#include "client/cli/bench/trace_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera::cli {
namespace {

// Goals, of the trace that can pay: total against the best policy, p99 of warm calls against fixed,
// steady state against exhaustive; of the one that cannot: calls beside tuning work, total against
// fixed.
constexpr double kTotalGoal = 1.05, kP99Goal = 1.10, kSteadyGoal = 1.03, kBesideGoal = 0.01,
                 kNoPayTotalGoal = 1.03;

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(values.size())))];
}

const PolicyRun* Find(const std::vector<PolicyRun>& runs, const std::string& policy) {
  for (const PolicyRun& run : runs)
    if (run.policy == policy) return &run;
  return nullptr;
}

// What `figure` is in each round that has both policies.
std::vector<double> OfRounds(const TraceResult& result, const std::string& policy, const std::string& other,
                             absl::FunctionRef<double(const PolicyRun&, const PolicyRun&)> figure) {
  std::vector<double> figures;
  auto add = [&](const std::vector<PolicyRun>& runs) {
    const PolicyRun *a = Find(runs, policy), *b = Find(runs, other);
    if (a != nullptr && b != nullptr) figures.push_back(figure(*a, *b));
  };
  if (result.rounds.empty()) add(result.runs);
  for (const std::vector<PolicyRun>& runs : result.rounds) add(runs);
  return figures;
}

// "1.023", or of several rounds "1.023 (rounds 0.980 1.023 1.100)".
std::string MedianText(const std::vector<double>& figures) {
  std::string text = absl::StrFormat("%.3f", Median(figures));
  if (figures.size() < 2) return text;
  absl::StrAppend(&text, " (rounds");
  for (double figure : figures) absl::StrAppendFormat(&text, " %.3f", figure);
  return absl::StrCat(text, ")");
}

double TotalRatio(const PolicyRun& a, const PolicyRun& b) { return a.total_seconds / b.total_seconds; }

std::map<int, double> MeanKernelSeconds(const PolicyRun& run) {
  std::map<int, std::pair<double, int>> sums;
  for (const Call& call : run.calls) {
    sums[call.shape].first += call.kernel_seconds;
    ++sums[call.shape].second;
  }
  std::map<int, double> means;
  for (const auto& [shape, sum] : sums) means[shape] = sum.first / sum.second;
  return means;
}

double TuneSeconds(const PolicyRun& run, int shape) {
  double seconds = 0;
  for (const Call& call : run.calls)
    if (call.shape == shape) seconds += call.tune_seconds;
  return seconds;
}

size_t CountOf(const PolicyRun& run, int shape) {
  return static_cast<size_t>(std::count_if(run.calls.begin(), run.calls.end(),
                                           [&](const Call& call) { return call.shape == shape; }));
}

double MeanLatency(const PolicyRun& run, size_t begin) {
  double sum = 0;
  for (size_t i = begin; i < run.calls.size(); ++i) sum += run.calls[i].seconds;
  return sum / static_cast<double>(run.calls.size() - begin);
}

std::string Time(double seconds) {
  if (std::abs(seconds) < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (std::abs(seconds) < 1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

}  // namespace

double SteadySeconds(const PolicyRun& run, int shape) {
  std::vector<double> seconds;
  for (size_t i = SteadyBegin(run); i < run.calls.size(); ++i)
    if (run.calls[i].shape == shape) seconds.push_back(run.calls[i].kernel_seconds);
  return Quantile(seconds, 0.5);
}

double SteadySecondsInTurns(const TraceResult& result, const PolicyRun& run, int shape) {
  std::map<int, double> of_config;
  for (const SideBySide::Entry& entry : result.side_by_side.entries)
    if (entry.shape == shape) of_config[entry.config] = entry.seconds;
  double sum = 0;
  int calls = 0;
  for (size_t i = SteadyBegin(run); i < run.calls.size(); ++i) {
    if (run.calls[i].shape != shape) continue;
    auto found = of_config.find(run.calls[i].config);
    if (found == of_config.end()) return 0;
    sum += found->second;
    ++calls;
  }
  return calls == 0 ? 0 : sum / calls;
}

PolicySummary Summarise(const PolicyRun& run) {
  PolicySummary summary;
  summary.policy = run.policy;
  summary.total_seconds = run.total_seconds;
  summary.background_seconds = run.background_seconds;
  summary.cache_entries = run.artifact_entries + run.tuning_entries;
  std::vector<double> cold, warm;
  for (const Call& call : run.calls) {
    (call.cold ? cold : warm).push_back(call.seconds);
    summary.compile_seconds += call.compile_seconds;
    summary.first_use_seconds += call.tune_seconds;
  }
  summary.cold_calls = cold.size();
  summary.warm_calls = warm.size();
  summary.cold_p50 = Quantile(cold, 0.5);
  summary.cold_p99 = Quantile(cold, 0.99);
  summary.warm_p50 = Quantile(warm, 0.5);
  summary.warm_p99 = Quantile(warm, 0.99);
  size_t begin = SteadyBegin(run);
  for (size_t i = begin; i < run.calls.size(); ++i)
    summary.steady_kernel_seconds += run.calls[i].kernel_seconds;
  if (begin < run.calls.size())
    summary.steady_kernel_seconds /= static_cast<double>(run.calls.size() - begin);
  return summary;
}

Account AccountOf(const TraceResult& result, const PolicyRun& run, const PolicyRun& fixed) {
  Account account;
  account.policy = run.policy;
  std::map<int, double> of_fixed = MeanKernelSeconds(fixed);
  for (const Call& call : run.calls) {
    bool common = call.shape < result.workload.common;
    (common ? account.saving_common : account.saving_rare) +=
        of_fixed[call.shape] - call.kernel_seconds;
    (common ? account.tuning_common : account.tuning_rare) += call.tune_seconds;
  }
  account.overhead =
      run.total_seconds - fixed.total_seconds + account.saving_common + account.saving_rare;
  size_t calls = std::min(run.calls.size(), fixed.calls.size());
  auto end_of = [](const Call& call) { return call.begin + call.seconds; };
  size_t behind = calls;
  while (behind > 0 && end_of(run.calls[behind - 1]) < end_of(fixed.calls[behind - 1])) --behind;
  account.break_even_calls = behind < calls ? behind + 1 : 0;
  double missing = run.total_seconds - fixed.total_seconds;
  double gain = MeanLatency(fixed, SteadyBegin(fixed)) - MeanLatency(run, SteadyBegin(run));
  account.more_calls = missing <= 0 ? 0 : gain > 0 ? missing / gain : -1;
  return account;
}

std::vector<Criterion> CommonAndRareCriteria(const TraceResult& result) {
  const PolicyRun* amortised = Find(result.runs, "amortised");
  const PolicyRun* fixed = Find(result.runs, "fixed");
  const PolicyRun* exhaustive = Find(result.runs, "exhaustive");
  std::vector<Criterion> criteria;
  if (amortised == nullptr || fixed == nullptr) return criteria;
  const PolicyRun* best = amortised;  // by the medians
  for (const PolicyRun& run : result.runs)
    if (run.total_seconds < best->total_seconds) best = &run;
  const std::vector<double> totals = OfRounds(result, "amortised", best->policy, TotalRatio);
  criteria.push_back(
      {absl::StrFormat(
           "total time of amortised %s of the best policy's (%s%s); goal %.2f", MedianText(totals),
           best->policy,
           result.runs.size() < StudyPolicies().size() ? ", of those that were run" : "",
           kTotalGoal),
       Median(totals) <= kTotalGoal});
  const std::vector<double> p99s =
      OfRounds(result, "amortised", "fixed", [](const PolicyRun& mine, const PolicyRun& theirs) {
        return Summarise(mine).warm_p99 / Summarise(theirs).warm_p99;
      });
  criteria.push_back(
      {absl::StrFormat("p99 of warm calls of amortised %s, of fixed %s: %s; goal %.2f",
                       Time(Summarise(*amortised).warm_p99), Time(Summarise(*fixed).warm_p99),
                       MedianText(p99s), kP99Goal),
       Median(p99s) <= kP99Goal});
  if (exhaustive == nullptr) return criteria;
  std::map<int, double> fixed_mean = MeanKernelSeconds(*fixed);
  std::vector<int> repaying;
  std::vector<std::string> parts;
  bool in_turns = true;
  for (int shape = 0; shape < result.workload.common; ++shape) {
    double is = SteadySeconds(*amortised, shape), best_known = SteadySeconds(*exhaustive, shape);
    if (is == 0 || best_known == 0) continue;
    double saving =
        (fixed_mean[shape] - best_known) * static_cast<double>(CountOf(*exhaustive, shape));
    double cost = TuneSeconds(*exhaustive, shape);
    bool repays = saving > cost;
    const double turns = SteadySecondsInTurns(result, *amortised, shape),
                 turns_best = SteadySecondsInTurns(result, *exhaustive, shape);
    in_turns &= turns > 0 && turns_best > 0;
    parts.push_back(absl::StrFormat(
        "%s %.3f%s%s", ShapeText(result.workload.shapes[shape]), is / best_known,
        turns > 0 && turns_best > 0 ? absl::StrFormat(" (in turns %.3f)", turns / turns_best) : "",
        repays ? ""
               : absl::StrFormat(" not counted: its search took %s and saves %s", Time(cost),
                                 Time(saving))));
    if (repays) repaying.push_back(shape);
  }
  auto steady = [&](absl::FunctionRef<double(const PolicyRun&, int)> seconds) {
    return OfRounds(result, "amortised", "exhaustive", [&](const PolicyRun& mine, const PolicyRun& theirs) {
      double a = 0, b = 0;
      for (int shape : repaying) a += seconds(mine, shape), b += seconds(theirs, shape);
      return a / b;
    });
  };
  auto add = [&](const char* how, const std::vector<double>& ratios) {
    criteria.push_back({absl::StrFormat("steady state of amortised on the common shapes, %s, %s of exhaustive's, where its "
                                        "search repays; goal %.2f: %s",
                                        how, MedianText(ratios), kSteadyGoal, absl::StrJoin(parts, "; ")),
                        Median(ratios) <= kSteadyGoal});
  };
  if (!repaying.empty()) {
    add("as it ran", steady(SteadySeconds));
    if (in_turns)
      add("its configurations timed in turns", steady([&](const PolicyRun& run, int shape) {
            return SteadySecondsInTurns(result, run, shape);
          }));
  } else {
    criteria.push_back(
        {absl::StrCat(
             "steady state: exhaustive's search repays on no common shape, so nothing is asked: ",
             absl::StrJoin(parts, ", ")),
         true});
  }
  return criteria;
}

std::vector<Criterion> EveryShapeTwiceCriteria(const TraceResult& result) {
  const PolicyRun* amortised = Find(result.runs, "amortised");
  const PolicyRun* fixed = Find(result.runs, "fixed");
  std::vector<Criterion> criteria;
  if (amortised == nullptr || fixed == nullptr || amortised->calls.empty()) return criteria;
  double beside = static_cast<double>(amortised->calls_beside_tuning) /
                  static_cast<double>(amortised->calls.size());
  criteria.push_back(
      {absl::StrFormat("%.2f %% of the calls of amortised ran beside tuning work (%d of %d, %d "
                       "trials); goal: less than %.0f %%",
                       beside * 100, amortised->calls_beside_tuning, amortised->calls.size(),
                       amortised->trials, kBesideGoal * 100),
       beside < kBesideGoal});
  const std::vector<double> totals = OfRounds(result, "amortised", "fixed", TotalRatio);
  criteria.push_back({absl::StrFormat("total time of amortised %s of fixed's; goal %.2f",
                                      MedianText(totals), kNoPayTotalGoal),
                      Median(totals) <= kNoPayTotalGoal});
  return criteria;
}

std::string Table(const TraceResult& result) {
  std::string text = absl::StrFormat(
      "%-11s %8s %8s %9s %9s | %5s %9s %9s | %6s %8s %8s | %9s %8s %7s %8s\n", "policy", "total s",
      "compile", "tuning", "(backgr.)", "cold", "p50 ms", "p99 ms", "warm", "p50 ms", "p99 ms",
      "steady us", "compiles", "trials", "entries");
  for (const PolicyRun& run : result.runs) {
    PolicySummary s = Summarise(run);
    absl::StrAppendFormat(
        &text,
        "%-11s %8.2f %8.2f %9.2f %9.2f | %5d %9.2f %9.2f | %6d %8.3f %8.3f | %9.1f %8d %7d %8d\n",
        s.policy, s.total_seconds, s.compile_seconds, s.first_use_seconds, s.background_seconds,
        s.cold_calls, s.cold_p50 * 1e3, s.cold_p99 * 1e3, s.warm_calls, s.warm_p50 * 1e3,
        s.warm_p99 * 1e3, s.steady_kernel_seconds * 1e6, run.compiles, run.trials, s.cache_entries);
  }
  std::vector<std::string> yardsticks;
  for (const PolicyRun& run : result.runs)
    yardsticks.push_back(absl::StrFormat("%s %.1f/%.1f", run.policy, run.yardstick_seconds[0] * 1e6,
                                         run.yardstick_seconds[1] * 1e6));
  absl::StrAppend(&text, "speed of the machine, a product that nothing tunes before/after, us: ",
                  absl::StrJoin(yardsticks, ", "), "\n");
  return text;
}

std::string Conclusion(const TraceResult& result) {
  const PolicyRun* fixed = Find(result.runs, "fixed");
  if (fixed == nullptr) return "There is no conclusion without the policy fixed.\n";
  std::string text;
  const PolicyRun* best = &result.runs[0];
  for (const PolicyRun& run : result.runs)
    if (run.total_seconds < best->total_seconds) best = &run;
  absl::StrAppendFormat(&text, "Least total time: %s, %s.\n", best->policy,
                        Time(best->total_seconds));
  std::map<int, double> fixed_mean = MeanKernelSeconds(*fixed);
  for (const PolicyRun& run : result.runs) {
    if (&run == fixed) continue;
    Account account = AccountOf(result, run, *fixed);
    double saving = account.saving_common + account.saving_rare;
    absl::StrAppendFormat(&text,
                          "\n%s: its configurations saved %s of kernel time (common shapes %s, "
                          "rare ones %s) and its overhead was %s, so it ended %s %s fixed.",
                          run.policy, Time(saving), Time(account.saving_common),
                          Time(account.saving_rare), Time(account.overhead),
                          Time(std::abs(run.total_seconds - fixed->total_seconds)),
                          run.total_seconds < fixed->total_seconds ? "before" : "behind");
    if (account.break_even_calls > 0)
      absl::StrAppendFormat(&text, " It broke even after %d of %d calls.", account.break_even_calls,
                            run.calls.size());
    else if (account.more_calls > 0)
      absl::StrAppendFormat(
          &text,
          " It did not break even; at the speed it ended with it would after %.0f calls more.",
          account.more_calls);
    else
      absl::StrAppend(&text, " It did not break even, and was no faster at the end.");
    size_t common_keys = 0, rare_keys = 0, rare_calls = 0;
    std::map<int, bool> seen;
    for (const Call& call : run.calls) {
      bool rare = call.shape >= result.workload.common;
      if (rare) ++rare_calls;
      if (!seen.emplace(call.shape, true).second) continue;
      ++(rare ? rare_keys : common_keys);
    }
    if (account.tuning_common + account.tuning_rare > 0) {
      auto side = [&](const char* name, double tuning, double saved, size_t keys, size_t calls) {
        if (keys == 0 || calls == 0) return;
        double cost = tuning / static_cast<double>(keys), gain = saved / static_cast<double>(calls);
        double each = static_cast<double>(calls) / static_cast<double>(keys);
        if (gain > cost * 1e-9)
          absl::StrAppendFormat(&text,
                                " A search for a %s shape cost %s and saved %s a call: it needs "
                                "%.0f calls of the shape and got %.0f, so it %s.",
                                name, Time(cost), Time(gain), cost / gain, each,
                                cost / gain <= each ? "was repaid" : "was not repaid");
        else
          absl::StrAppendFormat(&text, " A search for a %s shape cost %s and saved nothing.", name,
                                Time(cost));
      };
      side("common", account.tuning_common, account.saving_common, common_keys,
           run.calls.size() - rare_calls);
      side("rare", account.tuning_rare, account.saving_rare, rare_keys, rare_calls);
    } else if (run.trials == 0) {
      absl::StrAppend(&text, " It measured nothing.");
    } else {
      absl::StrAppendFormat(&text,
                            " In the background it tuned %d buckets with %d trials in %s, while "
                            "calls went on with the configuration at hand.",
                            run.tuned_buckets, run.trials, Time(run.background_seconds));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string CallsCsv(const TraceResult& result) {
  std::string csv = "policy,call,shape,begin_seconds,latency_us,kernel_us,config,cold\n";
  for (const PolicyRun& run : result.runs)
    for (size_t i = 0; i < run.calls.size(); ++i) {
      const Call& call = run.calls[i];
      absl::StrAppendFormat(&csv, "%s,%d,%s,%.6f,%.1f,%.1f,%d,%d\n", run.policy, i,
                            ShapeText(result.workload.shapes[call.shape]), call.begin,
                            call.seconds * 1e6, call.kernel_seconds * 1e6, call.config, call.cold);
    }
  return csv;
}

std::string SummaryCsv(const std::vector<TraceResult>& results) {
  std::string text =
      "trace,policy,calls,total_s,compile_s,first_use_tuning_s,background_tuning_s,background_"
      "device_s,cold_calls,cold_p50_s,cold_p99_s,"
      "warm_calls,warm_p50_s,warm_p99_s,steady_kernel_s,compiles,trials,tuned_buckets,artifact_"
      "entries,tuning_entries,calls_beside_tuning,"
      "yardstick_before_s,yardstick_after_s\n";
  for (const TraceResult& result : results)
    for (const PolicyRun& run : result.runs) {
      PolicySummary s = Summarise(run);
      absl::StrAppend(&text, result.workload.name, ",", run.policy, ",", run.calls.size(), ",",
                      s.total_seconds, ",", s.compile_seconds, ",");
      absl::StrAppend(&text, s.first_use_seconds, ",", s.background_seconds, ",",
                      run.background_device_seconds, ",", s.cold_calls, ",");
      absl::StrAppend(&text, s.cold_p50, ",", s.cold_p99, ",", s.warm_calls, ",", s.warm_p50, ",",
                      s.warm_p99, ",");
      absl::StrAppend(&text, s.steady_kernel_seconds, ",", run.compiles, ",", run.trials, ",",
                      run.tuned_buckets, ",");
      absl::StrAppend(&text, run.artifact_entries, ",", run.tuning_entries, ",",
                      run.calls_beside_tuning, ",");
      absl::StrAppend(&text, run.yardstick_seconds[0], ",", run.yardstick_seconds[1], "\n");
    }
  return text;
}

std::string SummaryJson(const std::vector<TraceResult>& results, const std::string& device,
                        const std::string& command) {
  using Json = nlohmann::ordered_json;
  Json json = {{"device", device}, {"command", command}, {"traces", Json::array()}};
  for (const TraceResult& result : results) {
    const PolicyRun* fixed = Find(result.runs, "fixed");
    Json trace = {{"name", result.workload.name},
                  {"description", result.workload.description},
                  {"policies", Json::array()}};
    for (const PolicyRun& run : result.runs) {
      PolicySummary s = Summarise(run);
      Json policy = {
          {"policy", run.policy},
          {"total_seconds", s.total_seconds},
          {"compile_seconds", s.compile_seconds},
          {"first_use_tuning_seconds", s.first_use_seconds},
          {"background_tuning_seconds", s.background_seconds},
          {"background_device_seconds", run.background_device_seconds},
          {"cold",
           {{"calls", s.cold_calls}, {"p50_seconds", s.cold_p50}, {"p99_seconds", s.cold_p99}}},
          {"warm",
           {{"calls", s.warm_calls}, {"p50_seconds", s.warm_p50}, {"p99_seconds", s.warm_p99}}},
          {"steady_kernel_seconds", s.steady_kernel_seconds},
          {"compiles", run.compiles},
          {"trials", run.trials},
          {"tuned_buckets", run.tuned_buckets},
          {"artifact_entries", run.artifact_entries},
          {"tuning_entries", run.tuning_entries},
          {"calls_beside_tuning", run.calls_beside_tuning},
          {"yardstick_seconds", {run.yardstick_seconds[0], run.yardstick_seconds[1]}}};
      if (fixed != nullptr) {
        Account account = AccountOf(result, run, *fixed);
        policy["against_fixed"] = {{"saving_common_seconds", account.saving_common},
                                   {"saving_rare_seconds", account.saving_rare},
                                   {"overhead_seconds", account.overhead},
                                   {"break_even_calls", account.break_even_calls}};
      }
      for (int shape = 0; shape < result.workload.common; ++shape) {
        auto last = std::find_if(run.calls.rbegin(), run.calls.rend(),
                                 [&](const Call& call) { return call.shape == shape; });
        if (last == run.calls.rend()) continue;
        policy["common_shapes"].push_back(
            {{"shape", ShapeText(result.workload.shapes[shape])},
             {"config", last->config},
             {"steady_kernel_seconds", SteadySeconds(run, shape)},
             {"in_turns_seconds", SteadySecondsInTurns(result, run, shape)}});
      }
      if (!run.decisions.empty()) policy["decisions"] = run.decisions;
      trace["policies"].push_back(std::move(policy));
    }
    auto criteria = result.workload.name == "every-shape-twice" ? EveryShapeTwiceCriteria(result)
                                                                : CommonAndRareCriteria(result);
    for (const Criterion& criterion : criteria)
      trace["criteria"].push_back({{"met", criterion.met}, {"text", criterion.text}});
    json["traces"].push_back(std::move(trace));
  }
  return json.dump(2) + "\n";
}

std::string WorkloadCsv(const Workload& workload) {
  std::string text = "call,m,n,k,common\n";
  for (size_t i = 0; i < workload.calls.size(); ++i) {
    const Shape& shape = workload.shapes[workload.calls[i]];
    absl::StrAppend(&text, i, ",", shape.m, ",", shape.n, ",", shape.k, ",",
                    workload.calls[i] < workload.common ? 1 : 0, "\n");
  }
  return text;
}

LinePlot CumulativePlot(const TraceResult& result) {
  LinePlot plot;
  plot.title = absl::StrCat("Cumulative time, trace ", result.workload.name);
  plot.x_label = "calls";
  plot.y_label = "seconds";
  for (const PolicyRun& run : result.runs) {
    LinePlot::Series series;
    series.name = run.policy;
    series.points.emplace_back(0, 0);
    // Steps stay steep: before and after each call that took long, else every so many calls.
    size_t stride = std::max<size_t>(1, run.calls.size() / 500);
    double usual = run.total_seconds / 400;
    for (size_t i = 0; i < run.calls.size(); ++i) {
      const Call& call = run.calls[i];
      if (call.seconds > usual) series.points.emplace_back(static_cast<double>(i), call.begin);
      if (i % stride == stride - 1 || i + 1 == run.calls.size() || call.seconds > usual)
        series.points.emplace_back(static_cast<double>(i + 1), call.begin + call.seconds);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace tessera::cli
