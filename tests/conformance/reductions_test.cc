// Reductions over every axis, of one to three dimensions, with the rules for NaN, ties, bools and small types.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

// A row of `n` elements in a padded block: rows of kSizes, one program each.
const char kRows[] = R"py(
@triton.jit
def product(a, b):
    return a * b

@triton.jit
def kernel(x, sums, tops, lows, where_top, where_low, products, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + row * n + i, mask=m, other=0.0)
    tl.store(sums + row, tl.sum(v, axis=0))
    tl.store(tops + row, tl.max(tl.where(m, v, -float('inf')), axis=0))
    tl.store(lows + row, tl.min(tl.where(m, v, float('inf')), axis=0))
    tl.store(where_top + row, tl.argmax(tl.where(m, v, -float('inf')), axis=0))
    tl.store(where_low + row, tl.argmin(tl.where(m, v, float('inf')), axis=0))
    tl.store(products + row, tl.reduce(tl.where(m & (i < 20), v, 1.0), 0, product))
)py";

TEST(Reductions, RowsOfEverySize) {
  for (DType t : {DType::kFp32, DType::kFp16, DType::kFp64}) {
    for (size_t n : kSizes) {
      SCOPED_TRACE(n);
      const size_t rows = 3;
      // Small whole numbers: ties are common, and sums exact in every type and order.
      Tensor x = RandomInts(t, rows * n, static_cast<uint32_t>(n), -2, 2);
      std::vector<double> sums, tops, lows, products;
      std::vector<int64_t> where_top, where_low;
      for (size_t r = 0; r < rows; ++r) {
        double sum = 0, top = -kInf, low = kInf, product = 1;
        int64_t at_top = 0, at_low = 0;
        for (size_t i = 0; i < n; ++i) {
          const double v = x.Float(r * n + i);
          sum += v;
          if (i < 20) product *= v;
          if (v > top) top = v, at_top = static_cast<int64_t>(i);
          if (v < low) low = v, at_low = static_cast<int64_t>(i);
        }
        sums.push_back(sum), tops.push_back(top), lows.push_back(low), products.push_back(product), where_top.push_back(at_top), where_low.push_back(at_low);
      }
      Program program;
      program.source = kRows;
      program.constants = n > 256 ? "BLOCK=2048" : "BLOCK=256";
      program.grid = {rows, 1, 1};
      Launch(program,
             {Arg("x", x), Arg("sums", Poison(t, rows)), Arg("tops", Poison(t, rows)), Arg("lows", Poison(t, rows)), Arg("where_top", Poison(DType::kInt32, rows)),
              Arg("where_low", Poison(DType::kInt32, rows)), Arg("products", Poison(t, rows)), Arg("n", "i32", static_cast<double>(n))},
             [&](const Results& r) {
               ExpectFloats(r.at("sums"), sums, 1e-12);
               ExpectFloats(r.at("tops"), tops, 1e-12);
               ExpectFloats(r.at("lows"), lows, 1e-12);
               ExpectInts(r.at("where_top"), where_top);
               ExpectInts(r.at("where_low"), where_low);
               ExpectFloats(r.at("products"), products, 1e-12);
             });
    }
  }
}

TEST(Reductions, SumsOfRandomDataWithinTolerance) {
  for (DType t : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    Tensor x = Random(t, 1024, 5);
    double sum = 0, magnitude = 0;
    for (size_t i = 0; i < 1024; ++i) sum += x.Float(i), magnitude += std::fabs(x.Float(i));
    Program program;
    program.source = "@triton.jit\ndef kernel(x, o):\n    v = tl.load(x + tl.arange(0, 1024))\n    s = tl.sum(v)\n    tl.static_assert(s.dtype == v.dtype)\n    tl.store(o, s)\n"
                     "    tl.store(o + 1, tl.sum(v.to(tl.float32)))\n";
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp32, 2))}, [&](const Results& r) {
      EXPECT_NEAR(r.at("o").Float(0), sum, DefaultTolerance(t) * magnitude / 8);
      EXPECT_NEAR(r.at("o").Float(1), sum, 1e-6 * magnitude);
    });
  }
}

// Each axis of a 3-D block, size-1 dimensions among them; integer data, so results are exact.
TEST(Reductions, EveryAxisOfThreeDimensions) {
  const size_t shapes[][3] = {{4, 8, 16}, {1, 32, 4}, {8, 1, 16}, {16, 4, 1}, {1, 1, 1}, {2, 64, 2}};
  for (const auto& s : shapes) {
    for (DType t : {DType::kInt32, DType::kFp32}) {
      Tensor x = RandomInts(t, s[0] * s[1] * s[2], 9, -1000, 1000);
      const size_t sizes[3] = {s[1] * s[2], s[0] * s[2], s[0] * s[1]};
      const size_t strides[3] = {s[1] * s[2], s[2], 1};
      std::vector<Arg> args = {Arg("x", x)};
      std::string source = Substitute(R"py(
@triton.jit
def kernel(x, s0, s1, s2, t0, t1, t2, a0, a1, a2, k, z):
    i = tl.arange(0, $A)[:, None, None] * ($B * $C) + tl.arange(0, $B)[None, :, None] * $C + tl.arange(0, $C)[None, None, :]
    v = tl.load(x + i)
    tl.store(s0 + tl.arange(0, $B)[:, None] * $C + tl.arange(0, $C)[None, :], tl.sum(v, axis=0))
    tl.store(s1 + tl.arange(0, $A)[:, None] * $C + tl.arange(0, $C)[None, :], tl.sum(v, axis=1))
    tl.store(s2 + tl.arange(0, $A)[:, None] * $B + tl.arange(0, $B)[None, :], tl.sum(v, axis=-1))
    tl.store(t0 + tl.arange(0, $B)[:, None] * $C + tl.arange(0, $C)[None, :], tl.max(v, axis=0))
    tl.store(t1 + tl.arange(0, $A)[:, None] * $C + tl.arange(0, $C)[None, :], tl.max(v, axis=1))
    tl.store(t2 + tl.arange(0, $A)[:, None] * $B + tl.arange(0, $B)[None, :], tl.max(v, axis=2))
    tl.store(a0 + tl.arange(0, $B)[:, None] * $C + tl.arange(0, $C)[None, :], tl.argmin(v, axis=0))
    tl.store(a1 + tl.arange(0, $A)[:, None] * $C + tl.arange(0, $C)[None, :], tl.argmin(v, axis=1))
    tl.store(a2 + tl.arange(0, $A)[:, None] * $B + tl.arange(0, $B)[None, :], tl.argmin(v, axis=2))
    kept = tl.sum(v, axis=1, keep_dims=True)
    tl.store(k + i, v - kept)
    tl.store(z, tl.sum(v))
)py",
                                      {{"A", std::to_string(s[0])}, {"B", std::to_string(s[1])}, {"C", std::to_string(s[2])}});
      std::vector<std::vector<double>> sums(3), tops(3);
      std::vector<std::vector<int64_t>> lows(3);
      for (int axis = 0; axis < 3; ++axis) {
        for (size_t at = 0; at < sizes[axis]; ++at) {
          // The index of the first element of the reduced line.
          const size_t low_part = at % strides[axis], base = (at / strides[axis]) * strides[axis] * s[axis] + low_part;
          double sum = 0, top = -kInf, low = kInf;
          int64_t at_low = 0;
          for (size_t j = 0; j < s[axis]; ++j) {
            const double v = x.Number(base + j * strides[axis]);
            sum += v;
            top = std::max(top, v);
            if (v < low) low = v, at_low = static_cast<int64_t>(j);
          }
          sums[axis].push_back(sum), tops[axis].push_back(top), lows[axis].push_back(at_low);
        }
        args.emplace_back("s" + std::to_string(axis), Poison(t, sizes[axis]));
        args.emplace_back("t" + std::to_string(axis), Poison(t, sizes[axis]));
        args.emplace_back("a" + std::to_string(axis), Poison(DType::kInt32, sizes[axis]));
      }
      args.emplace_back("k", Poison(t, x.size()));
      args.emplace_back("z", Poison(t, 1));
      Program program;
      program.source = source;
      auto check = [&](const Tensor& got, const std::vector<double>& want) {
        if (IsFloat(t)) ExpectFloats(got, want, 1e-12);
        else ExpectInts(got, {want.begin(), want.end()});
      };
      Launch(program, args, [&](const Results& r) {
        for (int axis = 0; axis < 3; ++axis) {
          SCOPED_TRACE("axis " + std::to_string(axis));
          check(r.at("s" + std::to_string(axis)), sums[axis]);
          check(r.at("t" + std::to_string(axis)), tops[axis]);
          ExpectInts(r.at("a" + std::to_string(axis)), lows[axis]);
        }
        double total = 0;
        std::vector<double> differences;
        for (size_t i = 0; i < x.size(); ++i) {
          total += x.Number(i);
          differences.push_back(x.Number(i) - sums[1][i / (s[1] * s[2]) * s[2] + i % s[2]]);
        }
        check(r.at("k"), differences);
        check(r.at("z"), {total});
      });
    }
  }
}

TEST(Reductions, NanLosesUnlessPropagated) {
  std::vector<double> values(256);
  for (size_t i = 0; i < 256; ++i) values[i] = static_cast<double>(i % 17) - 8;
  values[3] = kNan, values[200] = kNan;
  Program program;
  program.source = R"py(
@triton.jit
def loud_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def kernel(x, o):
    v = tl.load(x + tl.arange(0, 256))
    tl.store(o, tl.max(v))
    tl.store(o + 1, tl.min(v))
    tl.store(o + 2, tl.reduce(v, 0, loud_max))
    tl.store(o + 3, tl.sum(v))
    nan = tl.where(v == v, float('nan'), v)
    tl.store(o + 4, tl.max(nan))
    tl.store(o + 5, tl.max(tl.where(v == v, -float('inf'), v)))
)py";
  for (DType t : {DType::kFp32, DType::kFp16})  // the maximum of bf16 is fp32: no combine function
    Launch(program, {Arg("x", Floats(t, values)), Arg("o", Poison(DType::kFp32, 6))},
           [&](const Results& r) { ExpectFloats(r.at("o"), {8, -8, kNan, kNan, kNan, -kInf}, kExact); });
}

TEST(Reductions, NanLosesInHalfTypes) {
  std::vector<double> values(256, -3);
  values[0] = kNan, values[77] = 5, values[78] = kNan, values[255] = kNan;
  Program program;
  program.source = "@triton.jit\ndef kernel(x, o):\n    v = tl.load(x + tl.arange(0, 256))\n    top = tl.max(v)\n    tl.static_assert(top.dtype == tl.float32)\n"
                   "    tl.store(o, top)\n    tl.store(o + 1, tl.min(v))\n    tl.store(o + 2, tl.sum(v))\n";
  for (DType t : {DType::kFp16, DType::kBf16})
    Launch(program, {Arg("x", Floats(t, values)), Arg("o", Poison(DType::kFp32, 3))}, [](const Results& r) { ExpectFloats(r.at("o"), {5, -3, kNan}, kExact); });
}

TEST(Reductions, MaxWithInfinities) {
  Program program;
  program.source = "@triton.jit\ndef kernel(x, o, w):\n    v = tl.load(x + tl.arange(0, 64))\n    tl.store(o, tl.max(v))\n    tl.store(o + 1, tl.min(v))\n"
                   "    tl.store(w, tl.argmax(v, 0))\n    tl.store(w + 1, tl.argmin(v, 0))\n";
  std::vector<double> values(64, 1);
  values[7] = kInf, values[9] = kInf, values[30] = -kInf, values[31] = -kInf;
  Launch(program, {Arg("x", Floats(DType::kFp32, values)), Arg("o", Poison(DType::kFp32, 2)), Arg("w", Poison(DType::kInt32, 2))}, [](const Results& r) {
    ExpectFloats(r.at("o"), {kInf, -kInf}, kExact);
    ExpectInts(r.at("w"), {7, 30});
  });
  Launch(program, {Arg("x", Floats(DType::kFp32, std::vector<double>(64, -kInf))), Arg("o", Poison(DType::kFp32, 2)), Arg("w", Poison(DType::kInt32, 2))}, [](const Results& r) {
    ExpectFloats(r.at("o"), {-kInf, -kInf}, kExact);
    ExpectInts(r.at("w"), {0, 0});
  });
}

TEST(Reductions, ArgmaxTiesGoLeft) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, v):
    i = tl.arange(0, 8)[:, None] * 128 + tl.arange(0, 128)[None, :]
    a = tl.load(x + i)
    value, index = tl.max(a, axis=1, return_indices=True)
    tl.store(o + tl.arange(0, 8), index)
    tl.store(v + tl.arange(0, 8), value)
    value, index = tl.min(a, axis=0, return_indices=True)
    tl.store(o + 8 + tl.arange(0, 128), index)
)py";
  for (DType t : {DType::kFp32, DType::kInt32, DType::kInt64}) {
    Tensor x = RandomInts(t, 1024, 3, 0, 2);
    std::vector<int64_t> want;
    std::vector<double> values;
    for (size_t r = 0; r < 8; ++r) {
      size_t best = 0;
      for (size_t c = 1; c < 128; ++c)
        if (x.Number(r * 128 + c) > x.Number(r * 128 + best)) best = c;
      want.push_back(static_cast<int64_t>(best)), values.push_back(x.Number(r * 128 + best));
    }
    for (size_t c = 0; c < 128; ++c) {
      size_t best = 0;
      for (size_t r = 1; r < 8; ++r)
        if (x.Number(r * 128 + c) < x.Number(best * 128 + c)) best = r;
      want.push_back(static_cast<int64_t>(best));
    }
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 136)), Arg("v", Poison(t, 8))}, [&](const Results& r) {
      ExpectInts(r.at("o"), want);
      if (IsFloat(t)) ExpectFloats(r.at("v"), values, kExact);
      else ExpectInts(r.at("v"), {values.begin(), values.end()});
    });
  }
}

TEST(Reductions, IntegersAndBoolsSumToWiderTypes) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    v = tl.load(x + tl.arange(0, 512))
    s = tl.sum(v, axis=0)
    tl.static_assert(s.dtype == tl.$W)
    tl.store(o, s)
    big = tl.max(v, axis=0)
    tl.store(o + 1, big.to(tl.$W))
    tl.store(o + 2, tl.xor_sum(v.to(tl.int32), axis=0).to(tl.$W))
    tl.store(o + 3, tl.sum(v != 0).to(tl.$W))
)py";
  const std::pair<DType, DType> types[] = {{DType::kInt8, DType::kInt32},   {DType::kInt16, DType::kInt32},   {DType::kUint8, DType::kUint32}, {DType::kUint16, DType::kUint32},
                                           {DType::kInt32, DType::kInt32}, {DType::kUint32, DType::kUint32}, {DType::kInt64, DType::kInt64}};
  const std::string source = program.source;
  for (auto [narrow, wide] : types) {
    Tensor x = Special(narrow, 512, 17);
    int64_t sum = 0, top = std::numeric_limits<int64_t>::min(), ored = 0, nonzero = 0;
    for (size_t i = 0; i < 512; ++i) {
      sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(x.Int(i))), top = std::max(top, x.Int(i));
      ored ^= static_cast<int32_t>(x.Int(i)), nonzero += x.Int(i) != 0;
    }
    program.source = Substitute(source, {{"W", std::string(LanguageName(wide).data(), LanguageName(wide).size())}});
    Launch(program, {Arg("x", x), Arg("o", Poison(wide, 4))}, [&, w = wide](const Results& r) { ExpectInts(r.at("o"), {sum, top, ored, nonzero}); });
  }
}

TEST(Reductions, SumOfBooleansCounts) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    v = tl.load(x + tl.arange(0, 1024)) > 0
    s = tl.sum(v)
    tl.static_assert(s.dtype == tl.uint32)
    tl.store(o, s)
    two = tl.reshape(v, (8, 128))
    tl.store(o + 1 + tl.arange(0, 8), tl.sum(two, axis=1))
    tl.store(o + 9, tl.max(v.to(tl.int32)))
)py";
  Tensor x = Random(DType::kFp32, 1024, 4);
  std::vector<int64_t> want(10, 0);
  for (size_t i = 0; i < 1024; ++i) want[0] += x.Float(i) > 0, want[1 + i / 128] += x.Float(i) > 0;
  want[9] = 1;
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 10))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Reductions, CustomCombineOfSeveralOperands) {
  Program program;
  program.source = R"py(
@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    ratio = tl.where(n == 0, 0.0, n_b / n)
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * n_a * ratio, n

@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 4)[:, None] * 256 + tl.arange(0, 256)[None, :]
    m = tl.broadcast_to(tl.arange(0, 256)[None, :] < n, (4, 256))
    v = tl.load(x + i, mask=m, other=0.0)
    mean, m2, count = tl.reduce((v, tl.zeros_like(v), m.to(tl.float32)), 1, welford)
    r = tl.arange(0, 4)
    tl.store(o + r, mean)
    tl.store(o + 4 + r, m2)
    tl.store(o + 8 + r, count)
)py";
  Tensor x = Random(DType::kFp32, 1024, 8);
  for (size_t n : {1, 127, 256}) {
    std::vector<double> want(12);
    for (size_t r = 0; r < 4; ++r) {
      double mean = 0, m2 = 0;
      for (size_t c = 0; c < n; ++c) mean += x.Float(r * 256 + c) / static_cast<double>(n);
      for (size_t c = 0; c < n; ++c) m2 += std::pow(x.Float(r * 256 + c) - mean, 2);
      want[r] = mean, want[4 + r] = m2, want[8 + r] = static_cast<double>(n);
    }
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp32, 12)), Arg("n", "i32", static_cast<double>(n))},
           [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-5); });
  }
}

TEST(Reductions, AfterTwoBroadcasts) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, y, o):
    i = tl.arange(0, 16)
    j = tl.arange(0, 64)
    a = tl.load(x + i)[:, None]
    b = tl.load(y + j)[None, :]
    tl.store(o + i, tl.sum(a * b, axis=1))
    tl.store(o + 16 + j, tl.sum(a * b, axis=0))
    tl.store(o + 80, tl.max(tl.sum(tl.broadcast_to(a, (16, 64)) + tl.broadcast_to(b, (16, 64)), axis=1), axis=0))
)py";
  Tensor x = RandomInts(DType::kFp32, 16, 1, -9, 9), y = RandomInts(DType::kFp32, 64, 2, -9, 9);
  std::vector<double> want(81);
  double sum_x = 0, sum_y = 0, top = -kInf;
  for (size_t i = 0; i < 16; ++i) sum_x += x.Float(i);
  for (size_t j = 0; j < 64; ++j) sum_y += y.Float(j);
  for (size_t i = 0; i < 16; ++i) want[i] = x.Float(i) * sum_y, top = std::max(top, 64 * x.Float(i) + sum_y);
  for (size_t j = 0; j < 64; ++j) want[16 + j] = y.Float(j) * sum_x;
  want[80] = top;
  for (int warps : {1, 2, 8}) {
    program.num_warps = warps;
    Launch(program, {Arg("x", x), Arg("y", y), Arg("o", Poison(DType::kFp32, 81))}, [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-12); });
  }
}

TEST(Reductions, FullyMaskedRowGivesTheNeutralValue) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 128)
    v = tl.load(x + i, mask=i < n)
    tl.store(o, tl.sum(v))
    w = tl.load(x + i, mask=i < n, other=-float('inf'))
    tl.store(o + 1, tl.max(w))
    tl.store(o + 2, tl.sum(tl.exp(w)))
)py";
  Launch(program, {Arg("x", Poison(DType::kFp32, 0)), Arg("o", Poison(DType::kFp32, 3)), Arg("n", "i32", 0)},
         [](const Results& r) { ExpectFloats(r.at("o"), {0, -kInf, 0}, kExact); });
}

}  // namespace
}  // namespace tessera::conformance
