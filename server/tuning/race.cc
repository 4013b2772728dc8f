#include "server/tuning/race.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera::server {
namespace {

// Of the test of ranks: at the end of a race, and for dropping out, which is asked after every round.
constexpr double kConfident = 0.01, kBeyondChance = 0.001;
constexpr int kFewRounds = 6;
constexpr size_t kExactRounds = 20;
// Asked after every round, chance gets many tries: who is as close as this stays.
constexpr double kMarginOfFew = 0.05, kMargin = 0.02;

double GainOf(const std::vector<double>& best, const std::vector<double>& old) {
  return 1 - FasterHalf(best) / FasterHalf(old);
}

}  // namespace

Interval MedianInterval(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  int n = static_cast<int>(samples.size());
  Interval interval;
  interval.median = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  if (n < 6) {
    interval.low = samples.front();
    interval.high = samples.back();
    return interval;
  }
  // Ranks n/2 -+ 1.96 sqrt(n)/2, counted from 1.
  double half = 0.98 * std::sqrt(static_cast<double>(n));
  int low = std::max(1, static_cast<int>(std::floor(n / 2.0 - half)));
  int high = std::min(n, static_cast<int>(std::ceil(n / 2.0 + half)) + 1);
  interval.low = samples[low - 1];
  interval.high = samples[high - 1];
  return interval;
}

double FasterHalf(std::vector<double> samples) {
  size_t half = (samples.size() + 1) / 2;
  std::nth_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(half - 1), samples.end());
  return std::accumulate(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(half), 0.0) /
         static_cast<double>(half);
}

double SignedRankTest(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;  // of logarithms: as much faster weighs as much slower
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i]) ratios.push_back(std::log(a[i] / b[i]));
  std::sort(ratios.begin(), ratios.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
  const size_t n = ratios.size();
  // Doubled, so that the mean rank of equals is whole.
  std::vector<size_t> ranks(n);
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && std::abs(ratios[end]) == std::abs(ratios[i]);) ++end;
    std::fill(ranks.begin() + static_cast<ptrdiff_t>(i), ranks.begin() + static_cast<ptrdiff_t>(end), i + end + 1);
  }
  size_t sum = 0, slower = 0;
  double squares = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += ranks[i];
    squares += static_cast<double>(ranks[i]) * static_cast<double>(ranks[i]);
    if (ratios[i] > 0) slower += ranks[i];
  }
  if (n > kExactRounds) {
    const double above = static_cast<double>(slower) + 1 - static_cast<double>(sum) / 2;
    return std::erfc(-above / std::sqrt(squares / 4) / std::sqrt(2)) / 2;
  }
  // In how many of the 2^n ways to be slower the ranks have each sum.
  std::vector<double> ways(sum + 1, 0);
  ways[0] = 1;
  for (size_t rank : ranks)
    for (size_t total = sum; total >= rank; --total) ways[total] += ways[total - rank];
  return std::accumulate(ways.begin(), ways.begin() + static_cast<ptrdiff_t>(slower) + 1, 0.0) / std::pow(2.0, static_cast<double>(n));
}

Race::Race(int entrants, RaceOptions options) : options_(options), entrants_(entrants) {}

void Race::Add(int entrant, double seconds) { entrants_[entrant].samples.push_back(seconds); }

void Race::Fail(int entrant, std::string why) {
  entrants_[entrant].failure = std::move(why);
  entrants_[entrant].out = true;
}

int Race::Leader() const {
  int leader = -1;
  double best = 0;
  for (int i = 0; i < static_cast<int>(entrants_.size()); ++i) {
    const Entrant& entrant = entrants_[i];
    if (!entrant.failure.empty() || entrant.samples.empty()) continue;
    double seconds = FasterHalf(entrant.samples);
    if (leader >= 0 && seconds >= best) continue;
    leader = i;
    best = seconds;
  }
  return leader;
}

void Race::DropOut() {
  int leader = Leader();
  if (leader < 0) return;
  // The extremes of a few samples hold the median less surely than an interval does.
  double bound = MedianInterval(entrants_[leader].samples).high *
                 (1 + (rounds_ < kFewRounds ? kMarginOfFew : kMargin));
  const double best = FasterHalf(entrants_[leader].samples);
  for (Entrant& entrant : entrants_)
    if (!entrant.out && !entrant.samples.empty() &&
        (MedianInterval(entrant.samples).low > bound ||
         (FasterHalf(entrant.samples) > best * (1 + kMargin) &&
          SignedRankTest(entrants_[leader].samples, entrant.samples) < kBeyondChance)))
      entrant.out = true;
}

bool Race::AllAlike(const std::vector<int>& left) const {
  const int leader = Leader();
  if (leader < 0) return false;
  const double best = MedianInterval(entrants_[leader].samples).median;
  return std::all_of(left.begin(), left.end(), [&](int i) {
    if (i == leader) return true;
    if (entrants_[i].samples.empty()) return false;
    const Interval interval = MedianInterval(entrants_[i].samples);
    return interval.high <= best * (1 + options_.indifference) &&
           interval.low >= best * (1 - options_.indifference);
  });
}

std::vector<int> Race::PlayOff() {
  if (play_off_.empty()) {
    const int leader = Leader();
    if (leader < 0 || entrants_[leader].out || !options_.incumbent || leader == *options_.incumbent ||
        entrants_[*options_.incumbent].out)
      return {};
    play_off_ = {leader, *options_.incumbent};
    if (SignedRankTest(entrants_[leader].samples, entrants_[*options_.incumbent].samples) <= kConfident) return {};
  }
  // The same two to the end, so that their samples are of the same rounds. Asked after each of them, chance gets many
  // tries.
  const Entrant &best = entrants_[play_off_[0]], &old = entrants_[play_off_[1]];
  if (best.out || old.out || GainOf(best.samples, old.samples) <= kMargin ||
      SignedRankTest(best.samples, old.samples) <= kBeyondChance)
    return {};
  return play_off_;
}

std::vector<int> Race::NextRound() {
  if (rounds_ >= options_.min_rounds) DropOut();
  std::vector<int> next;
  if (rounds_ < options_.max_rounds) {
    for (int i = 0; i < static_cast<int>(entrants_.size()); ++i)
      if (!entrants_[i].out) next.push_back(i);
    if (rounds_ >= options_.min_rounds && AllAlike(next)) next.clear();
  } else if (rounds_ < options_.max_rounds + options_.play_off_rounds) {
    next = PlayOff();
  }
  if (next.empty()) return {};
  ++rounds_;
  // Each round in an order of its own: what the one before leaves in caches hits all alike.
  for (size_t i = next.size(); i > 1; --i) std::swap(next[i - 1], next[order_() % i]);
  return next;
}

Race::Result Race::Finish() const {
  int leader = Leader();
  if (leader < 0) return {-1, "no configuration could be measured"};
  if (!options_.incumbent) return {leader, "fastest"};
  if (*options_.incumbent == leader) return {leader, "fastest, and in force before"};
  const Entrant& best = entrants_[leader];
  const Entrant& old = entrants_[*options_.incumbent];
  if (!old.failure.empty()) return {leader, "fastest; the configuration in force failed: " + old.failure};
  if (old.samples.empty()) return {leader, "fastest; the configuration in force was not measured"};
  const double gain = GainOf(best.samples, old.samples);
  if (gain <= options_.indifference)
    return {*options_.incumbent, absl::StrFormat("kept: %.1f %% to the fastest make no difference", gain * 100)};
  // A round that was cut short leaves one sample less; more are missing where it dropped out.
  if (old.samples.size() + 1 < best.samples.size())
    return {leader, absl::StrFormat("fastest by %.1f %%; the one in force dropped out of the race", gain * 100)};
  if (MedianInterval(best.samples).high < MedianInterval(old.samples).low)
    return {leader, absl::StrFormat("fastest by %.1f %%, clear of the noise", gain * 100)};
  if (SignedRankTest(best.samples, old.samples) <= kConfident)
    return {leader, absl::StrFormat("fastest by %.1f %%, by the ranks of the rounds", gain * 100)};
  return {*options_.incumbent, absl::StrFormat("kept: %.1f %% to the fastest lie inside the noise", gain * 100)};
}

}  // namespace tessera::server
