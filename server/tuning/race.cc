#include "server/tuning/race.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera::server {
namespace {

// Of the sign test: at the end of a race, and for dropping out, which is asked after every round.
constexpr double kConfident = 0.01, kBeyondChance = 0.001;
constexpr int kFewRounds = 6;
// Asked after every round, chance gets many tries: who is as close as this stays.
constexpr double kMarginOfFew = 0.05, kMargin = 0.02;

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

double SignTest(const std::vector<double>& a, const std::vector<double>& b) {
  int rounds = 0, wins = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) continue;
    ++rounds;
    wins += a[i] < b[i];
  }
  double tail = 0, ways = 1;  // binomial coefficient of `rounds` over k
  for (int k = 0; k <= rounds - wins; ++k) {
    tail += ways;
    ways *= static_cast<double>(rounds - k) / (k + 1);
  }
  return tail / std::pow(2.0, rounds);
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
          SignTest(entrants_[leader].samples, entrant.samples) < kBeyondChance)))
      entrant.out = true;
}

std::vector<int> Race::NextRound() {
  if (rounds_ >= options_.min_rounds) DropOut();
  std::vector<int> next;
  for (int i = 0; i < static_cast<int>(entrants_.size()); ++i)
    if (!entrants_[i].out) next.push_back(i);
  if (rounds_ >= options_.max_rounds || next.empty()) return {};
  if (rounds_ >= options_.min_rounds) {
    int leader = Leader();
    double best = leader < 0 ? 0 : MedianInterval(entrants_[leader].samples).median;
    bool decided = true;
    for (int i : next)
      decided &= i == leader ||
                 (!entrants_[i].samples.empty() && MedianInterval(entrants_[i].samples).high <= best * (1 + options_.indifference));
    if (decided) return {};
  }
  ++rounds_;
  // Each round in an order of its own: what the one before leaves in caches hits all alike.
  for (size_t i = next.size(); i > 1; --i) std::swap(next[i - 1], next[order_() % i]);
  return next;
}

Race::Result Race::Finish(std::optional<int> incumbent) const {
  int leader = Leader();
  if (leader < 0) return {-1, "no configuration could be measured"};
  if (!incumbent) return {leader, "fastest"};
  if (*incumbent == leader) return {leader, "fastest, and in force before"};
  const Entrant& old = entrants_[*incumbent];
  if (!old.failure.empty()) return {leader, "fastest; the configuration in force failed: " + old.failure};
  if (old.samples.empty()) return {leader, "fastest; the configuration in force was not measured"};
  Interval best = MedianInterval(entrants_[leader].samples), was = MedianInterval(old.samples);
  double gain = 1 - FasterHalf(entrants_[leader].samples) / FasterHalf(old.samples);
  if (gain <= options_.indifference)
    return {*incumbent, absl::StrFormat("kept: %.1f %% to the fastest make no difference", gain * 100)};
  // A round that was cut short leaves one sample less; more are missing where it dropped out.
  if (old.samples.size() + 1 < entrants_[leader].samples.size())
    return {leader, absl::StrFormat("fastest by %.1f %%; the one in force dropped out of the race", gain * 100)};
  if (best.high < was.low)
    return {leader, absl::StrFormat("fastest by %.1f %%, clear of the noise", gain * 100)};
  if (SignTest(entrants_[leader].samples, old.samples) <= kConfident)
    return {leader, absl::StrFormat("fastest by %.1f %%, in nearly every round", gain * 100)};
  return {*incumbent, absl::StrFormat("kept: %.1f %% to the fastest lie inside the noise", gain * 100)};
}

}  // namespace tessera::server
