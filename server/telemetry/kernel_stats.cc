#include "server/telemetry/kernel_stats.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::server {
namespace {

constexpr double kFirst = 1e-7;  // seconds: the first bucket's upper bound
constexpr double kPerOctave = 4;
constexpr size_t kMaxKernels = 4096;
// How much of an activity is left after a scrape: kernels that fall silent make room in some
// twenty scrapes.
constexpr double kDecay = 0.9;
// A newcomer must be so much busier than the least busy member, so that two do not swap for ever.
constexpr double kClearlyBusier = 1.5;

int BucketOf(double seconds) {
  if (!(seconds > kFirst)) return 0;
  int bucket = static_cast<int>(std::ceil(std::log2(seconds / kFirst) * kPerOctave));
  return std::min(bucket, LatencyHistogram::kBuckets - 1);
}

TopKernels::Values Read(const KernelStats& stats) {
  return {stats.launches.load(std::memory_order_relaxed),
          stats.failures.load(std::memory_order_relaxed),
          stats.nanoseconds.load(std::memory_order_relaxed)};
}

void Add(const TopKernels::Values& more, TopKernels::Values* sum) {
  sum->launches += more.launches;
  sum->failures += more.failures;
  sum->nanoseconds += more.nanoseconds;
}

TopKernels::Values Minus(const TopKernels::Values& a, const TopKernels::Values& b) {
  return {a.launches - b.launches, a.failures - b.failures, a.nanoseconds - b.nanoseconds};
}

}  // namespace

void LatencyHistogram::Add(double seconds) {
  buckets_[BucketOf(seconds)].fetch_add(1, std::memory_order_relaxed);
}

LatencyHistogram::Counts LatencyHistogram::Read() const {
  Counts counts;
  for (int i = 0; i < kBuckets; ++i) {
    counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    counts.total += counts.buckets[i];
  }
  return counts;
}

LatencyHistogram::Counts LatencyHistogram::Counts::Since(const Counts& earlier) const {
  Counts difference;
  for (int i = 0; i < kBuckets; ++i) difference.buckets[i] = buckets[i] - earlier.buckets[i];
  difference.total = total - earlier.total;
  return difference;
}

double LatencyHistogram::Counts::Quantile(double share) const {
  if (total == 0) return 0;
  uint64_t rank = static_cast<uint64_t>(share * static_cast<double>(total - 1)) + 1, seen = 0;
  for (int i = 0; i < kBuckets; ++i) {
    seen += buckets[i];
    // The middle of the bucket.
    if (seen >= rank) return kFirst * std::exp2((i - 0.5) / kPerOctave);
  }
  return kFirst * std::exp2(kBuckets / kPerOctave);
}

void KernelStats::CountLaunch(double device_seconds) {
  uint64_t ns = device_seconds > 0 ? static_cast<uint64_t>(device_seconds * 1e9) : 0;
  launches.fetch_add(1, std::memory_order_relaxed);
  nanoseconds.fetch_add(ns, std::memory_order_relaxed);
  uint64_t most = most_nanoseconds.load(std::memory_order_relaxed);
  while (ns > most &&
         !most_nanoseconds.compare_exchange_weak(most, ns, std::memory_order_relaxed)) {
  }
  latency.Add(device_seconds);
}

KernelStats* KernelStatsTable::Of(absl::string_view kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = kernels_.find(std::string(kernel));
  if (found == kernels_.end() && kernels_.size() >= kMaxKernels) kernel = "other";
  std::unique_ptr<KernelStats>& slot = kernels_[std::string(kernel)];
  if (slot == nullptr) slot = std::make_unique<KernelStats>(kernel);
  return slot.get();
}

std::vector<const KernelStats*> KernelStatsTable::All() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const KernelStats*> all;
  for (const auto& [name, stats] : kernels_) all.push_back(stats.get());
  return all;
}

std::vector<const KernelStats*> KernelStatsTable::Busiest(size_t limit) const {
  std::vector<std::pair<uint64_t, const KernelStats*>> ordered;
  for (const KernelStats* stats : All()) ordered.emplace_back(stats->nanoseconds.load(), stats);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (ordered.size() > limit) ordered.resize(limit);
  std::vector<const KernelStats*> busiest;
  for (const auto& [ns, stats] : ordered) busiest.push_back(stats);
  return busiest;
}

std::vector<TopKernels::Series> TopKernels::Sample(const KernelStatsTable& table) {
  std::vector<const KernelStats*> all = table.All();
  Values total;
  std::vector<std::pair<double, const KernelStats*>> outside;
  for (const KernelStats* stats : all) {
    Values now = Read(*stats);
    Add(now, &total);
    uint64_t& last = last_[stats];
    double& activity = activity_[stats];
    // Launches count too, lest kernels without a measured time never show.
    activity = activity * kDecay + static_cast<double>(now.nanoseconds + now.launches - last);
    last = now.nanoseconds + now.launches;
    if (now.launches + now.failures > 0 && members_.count(stats) == 0)
      outside.emplace_back(activity, stats);
  }
  std::stable_sort(outside.begin(), outside.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [activity, stats] : outside) {
    if (members_.size() >= limit_) {
      auto least = std::min_element(
          members_.begin(), members_.end(),
          [&](const auto& a, const auto& b) { return activity_[a.first] < activity_[b.first]; });
      if (least == members_.end() || activity < kClearlyBusier * activity_[least->first]) break;
      Add(Minus(Read(*least->first), least->second.at_entry), &retired_);
      members_.erase(least);
      // Its past stays where it was; from now on it counts as "other".
      members_[stats].at_entry = Read(*stats);
      continue;
    }
    // Room left: the first scrape that sees a kernel gives it a series with its whole past, unless
    // some of it was shown as "other" before.
    members_[stats] = Member();
  }
  std::vector<Series> series;
  Values named;
  for (const auto& [stats, member] : members_) {
    Values own = Minus(Read(*stats), member.at_entry);
    Add(own, &named);
    series.push_back({stats->name, own});
  }
  std::sort(series.begin(), series.end(),
            [](const Series& a, const Series& b) { return a.kernel < b.kernel; });
  Values other = Minus(Minus(total, named), retired_);
  // Counted between the sum and the readings above; it shows with the next scrape.
  if (static_cast<int64_t>(other.launches) < 0) other.launches = 0;
  if (static_cast<int64_t>(other.failures) < 0) other.failures = 0;
  if (static_cast<int64_t>(other.nanoseconds) < 0) other.nanoseconds = 0;
  series.push_back({"other", other});
  return series;
}

}  // namespace tessera::server
