// Operations that move elements: reshape, permute, join, split, cat, flip, broadcast, gather, sort, histogram.
#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

TEST(Shapes, ReshapePermuteAndTransMoveElements) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    i = tl.arange(0, 512)
    v = tl.load(x + i)
    cube = tl.reshape(v, (4, 8, 16))
    tl.store(o + i, tl.reshape(tl.permute(cube, (2, 0, 1)), (512,)))
    tl.store(o + 512 + i, tl.ravel(tl.trans(cube, 1, 0, 2)))
    tl.store(o + 1024 + i, tl.view(tl.reshape(v, (16, 32)).T, (512,)))
    tl.store(o + 1536 + i, cube.permute(0, 2, 1).reshape(512))
    wide = tl.broadcast_to(tl.reshape(tl.arange(0, 8), (8, 1)), (8, 64))
    tl.store(o + 2048 + i, tl.reshape(wide, (512,)))
    tl.store(o + 2560 + i, tl.ravel(tl.broadcast_to(tl.expand_dims(tl.arange(0, 64), 0), (8, 64)) + tl.zeros((8, 1), tl.int32)))
)py";
  Tensor x = Random(DType::kInt32, 512, 1);
  std::vector<int64_t> want;
  for (size_t c = 0; c < 16; ++c)
    for (size_t a = 0; a < 4; ++a)
      for (size_t b = 0; b < 8; ++b) want.push_back(x.Int(a * 128 + b * 16 + c));
  for (size_t b = 0; b < 8; ++b)
    for (size_t a = 0; a < 4; ++a)
      for (size_t c = 0; c < 16; ++c) want.push_back(x.Int(a * 128 + b * 16 + c));
  for (size_t c = 0; c < 32; ++c)
    for (size_t r = 0; r < 16; ++r) want.push_back(x.Int(r * 32 + c));
  for (size_t a = 0; a < 4; ++a)
    for (size_t c = 0; c < 16; ++c)
      for (size_t b = 0; b < 8; ++b) want.push_back(x.Int(a * 128 + b * 16 + c));
  for (int64_t i = 0; i < 512; ++i) want.push_back(i / 64);
  for (int64_t i = 0; i < 512; ++i) want.push_back(i % 64);
  for (int warps : {1, 4}) {
    program.num_warps = warps;
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 3072))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Shapes, JoinSplitInterleaveCatAndFlip) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, y, o):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    b = tl.load(y + i)
    j = tl.arange(0, 128)
    tl.store(o + j, tl.ravel(tl.join(a, b)))
    tl.store(o + 128 + j, tl.interleave(a, b))
    tl.store(o + 256 + j, tl.cat(a, b, can_reorder=True))
    p, q = tl.split(tl.reshape(a, (32, 2)))
    h = tl.arange(0, 32)
    tl.store(o + 384 + h, p)
    tl.store(o + 416 + h, q)
    tl.store(o + 448 + i, tl.flip(a))
    tl.store(o + 512 + i, tl.ravel(tl.flip(tl.reshape(a, (8, 8)), 0)))
)py";
  Tensor x = Random(DType::kInt32, 64, 1), y = Random(DType::kInt32, 64, 2);
  std::vector<int64_t> want;
  for (int k = 0; k < 2; ++k)
    for (size_t i = 0; i < 64; ++i) want.push_back(x.Int(i)), want.push_back(y.Int(i));
  for (size_t i = 0; i < 128; ++i) want.push_back(i < 64 ? x.Int(i) : y.Int(i - 64));
  for (size_t i = 0; i < 64; i += 2) want.push_back(x.Int(i));
  for (size_t i = 1; i < 64; i += 2) want.push_back(x.Int(i));
  for (size_t i = 0; i < 64; ++i) want.push_back(x.Int(63 - i));
  for (size_t i = 0; i < 64; ++i) want.push_back(x.Int((7 - i / 8) * 8 + i % 8));
  Launch(program, {Arg("x", x), Arg("y", y), Arg("o", Poison(DType::kInt32, 576))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Shapes, GatherAlongEachAxis) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, at, o):
    i = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    v = tl.load(x + i)
    index = tl.load(at + i)
    tl.store(o + i, tl.gather(v, index, axis=0))
    tl.store(o + 512 + i, tl.gather(v, index, axis=1))
)py";
  Tensor x = Random(DType::kInt32, 512, 1), at = RandomInts(DType::kInt32, 512, 2, 0, 15);
  std::vector<int64_t> want;
  for (size_t i = 0; i < 512; ++i) want.push_back(x.Int(static_cast<size_t>(at.Int(i)) * 32 + i % 32));
  for (size_t i = 0; i < 512; ++i) want.push_back(x.Int(i / 32 * 32 + static_cast<size_t>(at.Int(i))));
  Launch(program, {Arg("x", x), Arg("at", at), Arg("o", Poison(DType::kInt32, 1024))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Shapes, SortAndTopk) {
  for (size_t n : {1, 2, 16, 256}) {
    for (DType t : {DType::kInt32, DType::kFp32}) {
      Program program;
      program.source = Substitute(R"py(
@triton.jit
def kernel(x, o):
    i = tl.arange(0, 4)[:, None] * $N + tl.arange(0, $N)[None, :]
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(o + 4 * $N + i, tl.sort(v, descending=True))
    tl.store(o + 8 * $N + tl.arange(0, 4)[:, None] * $K + tl.arange(0, $K)[None, :], tl.topk(v, $K))
)py",
                                  {{"N", std::to_string(n)}, {"K", std::to_string(std::min<size_t>(n, 8))}});
      const size_t k = std::min<size_t>(n, 8);
      Tensor x = RandomInts(t, 4 * n, 1, -100, 100);
      std::vector<double> want(8 * n + 4 * k);
      for (size_t r = 0; r < 4; ++r) {
        std::vector<double> row;
        for (size_t i = 0; i < n; ++i) row.push_back(x.Number(r * n + i));
        std::sort(row.begin(), row.end());
        std::copy(row.begin(), row.end(), want.begin() + static_cast<int64_t>(r * n));
        std::reverse(row.begin(), row.end());
        std::copy(row.begin(), row.end(), want.begin() + static_cast<int64_t>((4 + r) * n));
        std::copy(row.begin(), row.begin() + static_cast<int64_t>(k), want.begin() + static_cast<int64_t>(8 * n + r * k));
      }
      Launch(program, {Arg("x", x), Arg("o", Poison(t, want.size()))}, [&](const Results& r) {
        if (IsFloat(t)) ExpectFloats(r.at("o"), want, 1e-12);
        else ExpectInts(r.at("o"), {want.begin(), want.end()});
      });
    }
  }
}

TEST(Shapes, HistogramCountsUnderAMask) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 1024)
    m = i < n
    v = tl.load(x + i, mask=m, other=0)
    tl.store(o + tl.arange(0, 16), tl.histogram(v, 16, mask=m))
)py";
  for (size_t n : {0, 1, 255, 1000}) {
    Tensor x = RandomInts(DType::kInt32, n, 1, 0, 15);
    std::vector<int64_t> want(16, 0);
    for (size_t i = 0; i < n; ++i) ++want[static_cast<size_t>(x.Int(i))];
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 16)), Arg("n", "i32", static_cast<double>(n))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Shapes, Swizzle2dAndAnyOf) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, any):
    i = tl.arange(0, 8)[:, None]
    j = tl.arange(0, 4)[None, :]
    p, q = tl.swizzle2d(i, j, 8, 4, 2)
    tl.store(o + i * 4 + j, p * 100 + q)
    tl.store(any + tl.arange(0, 8), tl.reduce_or((i * 4 + j) % 8 == 5, axis=1))
)py";
  std::vector<int64_t> want(32), any;
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      // Row-major position to column-major order inside groups of two rows.
      const int64_t at = i * 4 + j, group = at / 8, inside = at % 8;
      want[static_cast<size_t>(at)] = (group * 2 + inside % 2) * 100 + inside / 2;
    }
  for (int64_t i = 0; i < 8; ++i) any.push_back(i % 2);
  Launch(program, {Arg("o", Poison(DType::kInt32, 32)), Arg("any", Poison(DType::kInt32, 8))}, [&](const Results& r) {
    ExpectInts(r.at("o"), want);
    ExpectInts(r.at("any"), any);
  });
}

TEST(Shapes, SoftmaxOfRows) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 128)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float('inf'))
    tl.store(o + tl.program_id(0) * n + i, tl.softmax(v), mask=i < n)
)py";
  program.grid = {3, 1, 1};
  for (size_t n : {1, 2, 127, 128}) {
    Tensor x = Random(DType::kFp32, 3 * n, 1, 3);
    std::vector<double> want(3 * n);
    for (size_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += std::exp(x.Float(r * n + i));
      for (size_t i = 0; i < n; ++i) want[r * n + i] = std::exp(x.Float(r * n + i)) / sum;
    }
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp32, 3 * n)), Arg("n", "i32", static_cast<double>(n))}, [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-5); });
  }
}

TEST(Shapes, SizeOneDimensionsAreNotSpecial) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    one = tl.arange(0, 1)
    i = tl.arange(0, 8)
    v = tl.load(x + one[:, None, None] + i[None, :, None] + one[None, None, :])
    tl.store(o + i, tl.reshape(tl.sum(v, axis=0), (8,)))
    tl.store(o + 8 + i, tl.ravel(tl.cumsum(v, axis=2)))
    tl.store(o + 16 + one, tl.sum(tl.sum(v, axis=1), axis=0))
    tl.store(o + 17 + one, tl.max(tl.load(x + one), axis=0) + tl.zeros((1,), tl.int32))
)py";
  Tensor x = RandomInts(DType::kInt32, 8, 1, -99, 99);
  std::vector<int64_t> want(18, 0);
  for (size_t i = 0; i < 8; ++i) want[i] = want[8 + i] = x.Int(i), want[16] += x.Int(i);
  want[17] = x.Int(0);
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 18))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

}  // namespace
}  // namespace tessera::conformance
