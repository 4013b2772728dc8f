#include "client/cli/bench/workload.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::cli {
namespace {

struct Dimensions {
  std::vector<Shape> common;
  std::vector<std::pair<int64_t, int64_t>> layers;  // n and k of rare shapes: weights change seldom
  int64_t rows = 0;                                 // m of rare shapes: 1 to this
};

Dimensions DimensionsOf(WorkloadSize size) {
  if (size == WorkloadSize::kSmall)
    return {{{16, 2048, 2048}, {32, 2048, 2048}, {64, 2048, 2048}, {128, 2048, 2048}},
            {{512, 512}, {1024, 512}, {512, 1024}},
            128};
  return {{{2048, 4096, 8192}, {4096, 4096, 8192}, {2048, 4096, 16384}, {4096, 4096, 16384}},
          {{4096, 4096}, {2048, 4096}, {4096, 2048}},
          512};
}

// The standard's distributions differ between libraries; remainders do not.
template <typename T>
void Shuffle(std::vector<T>* items, std::mt19937_64* random) {
  for (size_t i = items->size(); i > 1; --i) std::swap((*items)[i - 1], (*items)[(*random)() % i]);
}

std::vector<Shape> ShapesOf(WorkloadSize size, std::mt19937_64* random) {
  Dimensions dimensions = DimensionsOf(size);
  std::vector<Shape> shapes = dimensions.common;
  while (shapes.size() < dimensions.common.size() + kRareShapes) {
    auto [n, k] = dimensions.layers[(*random)() % dimensions.layers.size()];
    Shape shape{1 + static_cast<int64_t>((*random)() % dimensions.rows), n, k};
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace

std::string ShapeText(const Shape& shape) {
  return absl::StrCat(shape.m, "x", shape.n, "x", shape.k);
}

Workload CommonAndRare(int calls, uint64_t seed, WorkloadSize size) {
  std::mt19937_64 random(seed);
  Workload workload;
  workload.name = "common-and-rare";
  workload.shapes = ShapesOf(size, &random);
  workload.common = static_cast<int>(workload.shapes.size()) - kRareShapes;
  workload.description =
      absl::StrCat(calls, " calls, 80 % of them from ", workload.common,
                   " common shapes, 20 % over ", kRareShapes, " rare ones, seed ", seed);
  for (int i = 0; i < calls; ++i) {
    bool rare = i % 5 == 4;
    workload.calls.push_back(rare ? workload.common + i / 5 % kRareShapes
                                  : (i - i / 5) % workload.common);
  }
  Shuffle(&workload.calls, &random);
  return workload;
}

Workload EveryShapeTwice(uint64_t seed, WorkloadSize size) {
  std::mt19937_64 random(seed);
  Workload workload;
  workload.name = "every-shape-twice";
  workload.shapes = ShapesOf(size, &random);
  workload.common = static_cast<int>(workload.shapes.size()) - kRareShapes;
  workload.description =
      absl::StrCat("each of ", workload.shapes.size(), " shapes twice, seed ", seed);
  for (size_t i = 0; i < 2 * workload.shapes.size(); ++i)
    workload.calls.push_back(static_cast<int>(i / 2));
  Shuffle(&workload.calls, &random);
  return workload;
}

}  // namespace tessera::cli
