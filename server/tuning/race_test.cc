#include "server/tuning/race.h"

#include <random>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

RaceOptions Against(int incumbent) {
  RaceOptions options;
  options.incumbent = incumbent;
  return options;
}

// Runs a race among entrants whose true times are `times`, with log-normal noise of the given sigma.
Race RunRace(const std::vector<double>& times, double sigma, uint32_t seed, RaceOptions options = {}) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> noise(0, sigma);
  Race race(static_cast<int>(times.size()), options);
  for (std::vector<int> round = race.NextRound(); !round.empty(); round = race.NextRound())
    for (int i : round) race.Add(i, times[i] * noise(random));
  return race;
}

TEST(MedianInterval, HoldsTheMedianAndWidensForFewSamples) {
  Interval few = MedianInterval({3, 1, 2});
  EXPECT_EQ(few.low, 1);
  EXPECT_EQ(few.median, 2);
  EXPECT_EQ(few.high, 3);
  std::vector<double> many;
  for (int i = 1; i <= 25; ++i) many.push_back(i);
  Interval interval = MedianInterval(many);
  EXPECT_EQ(interval.median, 13);
  EXPECT_GT(interval.low, 1);
  EXPECT_LT(interval.high, 25);
}

TEST(MedianInterval, CoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0, 0.3);
  int covered = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> samples;
    for (int i = 0; i < 20; ++i) samples.push_back(noise(random));
    Interval interval = MedianInterval(samples);
    covered += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GT(covered, 1880);  // 94 % of 2000
}

TEST(FasterHalf, LeavesOutWhatNoiseAdded) {
  EXPECT_EQ(FasterHalf({5}), 5);
  EXPECT_EQ(FasterHalf({9, 1, 2}), 1.5);
  EXPECT_EQ(FasterHalf({9, 1, 3, 100}), 2);
}

TEST(SignedRankTest, CountsTheWays) {
  std::vector<double> fast = {1, 1, 1, 1, 1}, slow = {2, 3, 4, 5, 6};
  EXPECT_DOUBLE_EQ(SignedRankTest(fast, slow), 1.0 / 32);
  EXPECT_DOUBLE_EQ(SignedRankTest(slow, fast), 1);
  // Slower where the ratio is least: nobody or that one alone, of 32 ways; where it is most: 5 or less in sum.
  EXPECT_DOUBLE_EQ(SignedRankTest({2.1, 1, 1, 1, 1}, slow), 2.0 / 32);
  EXPECT_DOUBLE_EQ(SignedRankTest({1, 1, 1, 1, 60}, slow), 10.0 / 32);
  EXPECT_DOUBLE_EQ(SignedRankTest({1, 2}, {2, 1}), 0.75);          // alike: ranks of 1.5 each
  EXPECT_DOUBLE_EQ(SignedRankTest({1, 1, 5}, {2, 3, 5}), 1.0 / 4);  // a round that does not tell
  EXPECT_DOUBLE_EQ(SignedRankTest({}, slow), 1);
}

TEST(SignedRankTest, TellsTwoThatAreAlikeApartAsOftenAsItSays) {
  for (int rounds : {12, 40}) {
    std::mt19937 random(5);
    std::lognormal_distribution<double> noise(0, 0.3);
    int few = 0;
    for (int trial = 0; trial < 4000; ++trial) {
      std::vector<double> a, b;
      for (int i = 0; i < rounds; ++i) a.push_back(noise(random)), b.push_back(noise(random));
      few += SignedRankTest(a, b) <= 0.05;
    }
    EXPECT_NEAR(few / 4000.0, 0.05, 0.012) << rounds;
  }
}

TEST(Race, NoiseCommonToARoundHidesNothing) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> common(0, 1), own(0, 0.02);
  Race race(2, Against(0));
  for (int round = 0; round < 9; ++round) {
    double machine = common(random);
    race.Add(0, 1.0 * machine * own(random));
    race.Add(1, 0.8 * machine * own(random));
  }
  Race::Result result = race.Finish();
  EXPECT_EQ(result.winner, 1);
  EXPECT_NE(result.reason.find("round"), std::string::npos) << result.reason;
}

TEST(Race, WhatMakesNoDifferenceIsNoReasonToChange) {
  Race race(2, Against(0));
  for (int round = 0; round < 20; ++round) {
    race.Add(0, 1.0);
    race.Add(1, 0.995);
  }
  EXPECT_EQ(race.Finish().winner, 0);
}

TEST(Race, FindsTheFastestDespiteNoise) {
  int right = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) right += RunRace({1.3, 1.0, 1.2, 1.5}, 0.05, seed).Finish().winner == 1;
  EXPECT_GE(right, 49);
}

TEST(Race, SlowEntrantsDropOutEarly) {
  RaceOptions options;
  options.indifference = 0;
  Race race = RunRace({1.0, 3.0, 3.0, 1.001}, 0.02, 1, options);
  EXPECT_LE(race.samples(1).size(), 4u);
  EXPECT_GT(race.samples(0).size(), race.samples(1).size());
  EXPECT_GT(race.samples(3).size(), race.samples(1).size());
}

TEST(Race, EndsWhenTheRestIsAsGood) {
  Race race = RunRace({1.0, 1.001}, 0.0005, 1);
  EXPECT_LT(race.rounds(), 25);
}

TEST(Race, TheIncumbentStaysInsideTheNoise) {
  int changes = 0;
  for (uint32_t seed = 0; seed < 100; ++seed)
    changes += RunRace({1.0, 0.995}, 0.05, seed, Against(0)).Finish().winner != 0;
  EXPECT_LE(changes, 8);  // 95 % confidence, asked after every round
}

TEST(Race, TheIncumbentGoesWhenItIsClearlyBeaten) {
  Race::Result result = RunRace({1.0, 0.7}, 0.02, 3, Against(0)).Finish();
  EXPECT_EQ(result.winner, 1);
  EXPECT_NE(result.reason.find("clear of the noise"), std::string::npos);
}

TEST(Race, AnIncumbentThatDroppedOutHasLostWhateverCameLater) {
  Race race(2, Against(0));
  for (double seconds : {0.40, 0.41, 0.42}) race.Add(0, seconds);
  for (double seconds : {0.14, 0.15, 0.13, 0.14, 0.9}) race.Add(1, seconds);
  Race::Result result = race.Finish();
  EXPECT_EQ(result.winner, 1);
  EXPECT_NE(result.reason.find("dropped out"), std::string::npos);
}

TEST(Race, ARoundThatWasCutShortIsNoReasonToChange) {
  Race race(2, Against(0));
  for (double seconds : {0.40, 0.41, 0.42}) race.Add(0, seconds);
  for (double seconds : {0.39, 0.40, 0.41, 0.39}) race.Add(1, seconds);
  EXPECT_EQ(race.Finish().winner, 0);
}

TEST(Race, LeaderAndIncumbentPlayOff) {
  RaceOptions options = Against(0);
  options.max_rounds = 9;
  int without = 0, with = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    options.play_off_rounds = 0;
    without += RunRace({1.0, 0.85, 0.99, 1.2}, 0.15, seed, options).Finish().winner == 1;
    options.play_off_rounds = 60;
    Race race = RunRace({1.0, 0.85, 0.99, 1.2}, 0.15, seed, options);
    with += race.Finish().winner == 1;
    EXPECT_LE(race.samples(3).size(), 69u);
    if (race.rounds() < 69) EXPECT_NE(race.Finish().reason.find("fastest"), std::string::npos);
  }
  EXPECT_LE(without, 50);
  EXPECT_GE(with, 80);
}

TEST(Race, NoPlayOffIsWonByChance) {
  RaceOptions options = Against(0);
  options.max_rounds = 9;
  int changes[2] = {0, 0};  // without, with
  for (uint32_t seed = 0; seed < 400; ++seed)
    for (bool plays : {false, true}) {
      options.play_off_rounds = plays ? 60 : 0;
      changes[plays] += RunRace({1.0, 1.0, 1.0}, 0.15, seed, options).Finish().winner != 0;
    }
  EXPECT_LE(changes[1] - changes[0], 12) << "3 % of " << changes[1];
}

TEST(Race, ALeaderThatIsSlowerByTheMedianIsNoReasonToEnd) {
  // The faster half of one, the median of the other.
  Race race(2);
  for (int round = 0; round < 12; ++round) {
    EXPECT_EQ(race.NextRound().size(), 2u) << round;
    race.Add(0, round % 3 == 0 ? 0.90 : 1.02);
    race.Add(1, 1.0);
  }
}

TEST(Race, FailuresAreOutAndNamed) {
  Race race(3, Against(0));
  race.Fail(0, "does not fit");
  for (std::vector<int> round = race.NextRound(); !round.empty(); round = race.NextRound())
    for (int i : round) {
      EXPECT_NE(i, 0);
      race.Add(i, i == 1 ? 2.0 : 1.0);
    }
  EXPECT_EQ(race.Finish().winner, 2);
  EXPECT_EQ(race.failure(0), "does not fit");
  Race none(1);
  none.Fail(0, "x");
  EXPECT_TRUE(none.NextRound().empty());
  EXPECT_EQ(none.Finish().winner, -1);
}

TEST(Race, RepeatedRacesAgreeWithinTwoPercent) {
  const std::vector<double> times = {1.0, 1.01, 1.04, 1.2, 1.5, 0.99};
  for (uint32_t seed = 100; seed < 120; ++seed) {
    int winner = RunRace(times, 0.03, seed).Finish().winner;
    EXPECT_LT(times[winner] / 0.99, 1.0203) << seed;
  }
}

}  // namespace
}  // namespace tessera::server
