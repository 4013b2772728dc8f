// What a trace study says: figures for each policy, criteria, and why a policy paid or did not.
// Pure.
#ifndef TESSERA_CLIENT_CLI_BENCH_TRACE_REPORT_H_
#define TESSERA_CLIENT_CLI_BENCH_TRACE_REPORT_H_

#include <string>
#include <vector>

#include "client/cli/bench/line_plot.h"
#include "client/cli/bench/trace_study.h"
#include "client/cli/bench/workload.h"

namespace tessera::cli {

struct TraceResult {
  Workload workload;
  std::vector<PolicyRun> runs;  // of each policy the one with the median total time
  // All of them, by rounds; empty: `runs` are all. Ratios that goals ask for are the medians of what rounds say: within one policies run
  // one behind the other, while a machine is slower in one minute than in the next.
  std::vector<std::vector<PolicyRun>> rounds;
  SideBySide side_by_side;  // may be empty
};

struct PolicySummary {
  std::string policy;
  double total_seconds = 0;
  double compile_seconds = 0;     // that calls waited for
  double first_use_seconds = 0;   // of tunings that calls waited for, compiles included
  double background_seconds = 0;  // of tunings that they did not wait for
  size_t cold_calls = 0, warm_calls = 0;
  double cold_p50 = 0, cold_p99 = 0, warm_p50 = 0, warm_p99 = 0;  // latencies, seconds
  double steady_kernel_seconds = 0;  // mean of the last tenth of the calls, at most 1,000
  uint64_t cache_entries = 0;        // artifacts and tunings
};
PolicySummary Summarise(const PolicyRun& run);

// The median kernel time of a shape in the last tenth of the calls (at most 1,000); 0: it was not
// called there.
double SteadySeconds(const PolicyRun& run, int shape);

// The mean time of the configurations of these calls, as they were measured in turns; 0: they were not. What ran minutes apart
// differs by as much as the machine does, even with one configuration.
double SteadySecondsInTurns(const TraceResult& result, const PolicyRun& run, int shape);

// total = fixed's total + overhead - saving: the saving is kernel time against fixed's mean of the
// shape, the overhead all the rest, waiting for tunings and compiles above all.
struct Account {
  std::string policy;
  double saving_common = 0, saving_rare = 0;  // seconds of kernel time
  double overhead = 0;
  double tuning_common = 0, tuning_rare = 0;  // of it: tunings that calls waited for
  // The calls after which its cumulative time stays below fixed's; 0: it never does.
  size_t break_even_calls = 0;
  // At the rate of the last tenth of the calls, how many more calls would make up what is missing;
  // negative: never.
  double more_calls = 0;
};
Account AccountOf(const TraceResult& result, const PolicyRun& run, const PolicyRun& fixed);

struct Criterion {
  std::string text;  // with the figures
  bool met = false;
};
// Of the trace that tuning may pay in, and of the one that it cannot pay in. Empty where a policy
// that they speak of was not run.
std::vector<Criterion> CommonAndRareCriteria(const TraceResult& result);
std::vector<Criterion> EveryShapeTwiceCriteria(const TraceResult& result);

std::string Table(const TraceResult& result);
std::string Conclusion(const TraceResult& result);
std::string SummaryCsv(const std::vector<TraceResult>& results);
// Every call of every policy.
std::string CallsCsv(const TraceResult& result);
std::string SummaryJson(const std::vector<TraceResult>& results, const std::string& device,
                        const std::string& command);
std::string WorkloadCsv(const Workload& workload);  // call, m, n, k
LinePlot CumulativePlot(const TraceResult& result);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_TRACE_REPORT_H_
