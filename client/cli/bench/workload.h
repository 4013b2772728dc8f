// Declared sequences of calls for the trace study. Pure and reproducible: the same arguments give
// the same calls on every machine.
#ifndef TESSERA_CLIENT_CLI_BENCH_WORKLOAD_H_
#define TESSERA_CLIENT_CLI_BENCH_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::cli {

// out [m, n] = gelu(a [m, k] @ b [k, n] + bias [n])
struct Shape {
  int64_t m = 0, n = 0, k = 0;
  bool operator==(const Shape& other) const { return m == other.m && n == other.n && k == other.k; }
};
std::string ShapeText(const Shape& shape);  // "16x1024x1024"

struct Workload {
  std::string name, description;
  std::vector<Shape> shapes;  // the first `common` of them are the common ones
  int common = 0;
  std::vector<int> calls;  // indices of `shapes`
};

// kSmall: calls of about a millisecond on two cores. kLarge: of about a millisecond on a
// data-centre GPU.
enum class WorkloadSize { kSmall, kLarge };

constexpr int kRareShapes = 200;

// 80 % of the calls from four common shapes alike, 20 % spread evenly over 200 rare ones, shuffled.
Workload CommonAndRare(int calls, uint64_t seed, WorkloadSize size);
// The same shapes, every one of them twice, shuffled: nothing that is learned can pay.
Workload EveryShapeTwice(uint64_t seed, WorkloadSize size);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_WORKLOAD_H_
