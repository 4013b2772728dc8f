// The index arithmetic of a kernel (storage::LaunchFacts) at the values of a launch.
#ifndef TESSERA_BASE_LAUNCH_EVALUATOR_H_
#define TESSERA_BASE_LAUNCH_EVALUATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/storage/launch_facts.pb.h"

namespace tessera {

// A lane of a program instance. Fractions stand for what depends on the access: lanes and
// iterations.
struct LaunchPoint {
  static constexpr int kMaxRank = 5;
  uint32_t pid[3] = {0, 0, 0};
  double lane[kMaxRank] = {0, 0, 0, 0, 0};
  double iteration = 0;
};

// The place in 0 .. extent - 1 that a fraction stands for; 1 is the last.
int64_t ScaleFraction(double fraction, int64_t extent);

// Values of nodes at points. One block shape at a time: lanes are relative to it.
class LaunchEvaluator {
 public:
  using Wide = __int128;

  // `scalars`: the bits of each entry parameter. All must outlive this object.
  LaunchEvaluator(const storage::LaunchFacts& facts, std::vector<uint64_t> scalars,
                  const uint32_t grid[3], const std::vector<LaunchPoint>& points);

  void SetShape(std::vector<int64_t> shape);
  // Two's complement of the node's width, sign-extended; for each point.
  const std::vector<int64_t>& Of(uint32_t node);
  // How often a loop runs, for each point.
  const std::vector<int64_t>& Trips(uint32_t loop);
  int64_t Lane(size_t point, int dimension) const;
  // The exact result of an addition and so on, from operands as they are.
  Wide Exact(uint32_t node, size_t point, bool is_unsigned);
  // In words: "3 * 5".
  std::string Operation(uint32_t node, size_t point, bool is_unsigned);

 private:
  void Fill(const storage::IndexNode& node, std::vector<int64_t>* values);

  const storage::LaunchFacts& facts_;
  const std::vector<uint64_t> scalars_;
  const uint32_t grid_[3];
  const std::vector<LaunchPoint>& points_;
  std::vector<std::vector<int64_t>> values_;  // empty: not evaluated
  std::vector<bool> by_lane_;
  std::vector<std::vector<int64_t>> trips_;
  std::vector<int64_t> shape_;
};

// The low `bits` bits of a number, without a sign.
uint64_t ZeroExtend(int64_t value, unsigned bits);

}  // namespace tessera

#endif  // TESSERA_BASE_LAUNCH_EVALUATOR_H_
