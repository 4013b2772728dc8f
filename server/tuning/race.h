// A racing comparison of configurations: rounds of interleaved measurements, in which those that are clearly slower drop
// out. Pure.
//
// Noise of machines adds to a time, so the leader is who has the least mean of the faster half of its samples. Bounds are
// distribution-free: order statistics around the median hold it with 95 % confidence (David and Nagaraja, Order Statistics,
// 3rd ed., 7.1); of fewer than six samples the extremes. A configuration drops out when its lower bound lies above the
// leader's upper bound, or when the rounds say that it is slower and chance is out of the question (Wilcoxon's signed ranks,
// which noise common to a round does not touch), but never while it is within 2 % of the leader: the question is asked again and
// again. Where the last round leaves open whether the leader is faster than the incumbent, by more than that, these two play off.
#ifndef TESSERA_SERVER_TUNING_RACE_H_
#define TESSERA_SERVER_TUNING_RACE_H_

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tessera::server {

struct RaceOptions {
  int min_rounds = 3;   // before anybody drops out
  int max_rounds = 25;
  // The race ends when all that are left lie within this of the leader, above and below.
  double indifference = 0.01;
  std::optional<int> incumbent;
  int play_off_rounds = 0;  // after the last one
};

struct Interval {
  double low = 0, median = 0, high = 0;
};
// Of at least one sample.
Interval MedianInterval(std::vector<double> samples);
// Mean of the faster half, of at least one sample.
double FasterHalf(std::vector<double> samples);
// Probability that, of two that are alike, the first looks as fast against the other as `a` does against `b`, by the
// ranks of the ratios of the rounds (Wilcoxon 1945; exact for up to 20 rounds that differ, else the normal approximation). Rounds
// that one of them lacks do not count.
double SignedRankTest(const std::vector<double>& a, const std::vector<double>& b);

class Race {
 public:
  explicit Race(int entrants, RaceOptions options = {});

  // Whom to measure next, in an order that differs from round to round; empty: the race is over.
  std::vector<int> NextRound();
  void Add(int entrant, double seconds);
  void Fail(int entrant, std::string why);

  const std::vector<double>& samples(int entrant) const { return entrants_[entrant].samples; }
  const std::string& failure(int entrant) const { return entrants_[entrant].failure; }
  int rounds() const { return rounds_; }

  struct Result {
    int winner = -1;  // -1: every one failed
    std::string reason;
  };
  // The incumbent stays unless the leader is faster beyond indifference and its upper bound lies below the incumbent's
  // lower bound, or it won the rounds (SignedRankTest, 1 %), at the end or when it dropped out.
  Result Finish() const;

 private:
  struct Entrant {
    std::vector<double> samples;
    std::string failure;
    bool out = false;
  };
  int Leader() const;
  void DropOut();
  bool AllAlike(const std::vector<int>& left) const;
  // Leader and incumbent of the last round, while it is open which of them is faster; else empty.
  std::vector<int> PlayOff();

  const RaceOptions options_;
  std::vector<Entrant> entrants_;
  int rounds_ = 0;
  std::vector<int> play_off_;
  std::minstd_rand order_;  // the same in every race
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_RACE_H_
