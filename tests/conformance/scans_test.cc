// Scans along every axis, forward and reverse, with functions that do not commute.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

TEST(Scans, CumsumOfRowsOfEverySizeForwardAndReverse) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    m = i < n
    row = tl.program_id(0)
    v = tl.load(x + row * n + i, mask=m, other=0)
    tl.store(o + row * n + i, tl.cumsum(v, axis=0, reverse=REVERSE), mask=m)
)py";
  program.grid = {2, 1, 1};
  for (DType t : {DType::kFp32, DType::kInt32, DType::kInt64, DType::kFp16, DType::kBf16}) {
    for (size_t n : kSizes) {
      for (bool reverse : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + (reverse ? " reversed" : ""));
        Tensor x = RandomInts(t, 2 * n, 1, -1, 1);
        std::vector<double> want(2 * n);
        for (size_t r = 0; r < 2; ++r) {
          double sum = 0;
          for (size_t i = 0; i < n; ++i) {
            const size_t at = r * n + (reverse ? n - 1 - i : i);
            want[at] = sum += x.Number(at);
          }
        }
        program.constants = std::string("REVERSE=") + (reverse ? "True" : "False") + (n > 256 ? ",BLOCK=2048" : ",BLOCK=256");
        Launch(program, {Arg("x", x), Arg("o", Poison(t, 2 * n)), Arg("n", "i32", static_cast<double>(n))}, [&](const Results& r) {
          if (IsFloat(t)) ExpectFloats(r.at("o"), want, 1e-12);
          else ExpectInts(r.at("o"), {want.begin(), want.end()});
        });
      }
    }
  }
}

TEST(Scans, EveryAxisOfThreeDimensionsWithCumsumCumprodAndMaximum) {
  const size_t shapes[][3] = {{4, 8, 16}, {1, 64, 2}, {16, 1, 4}, {2, 2, 1}};
  for (const auto& s : shapes) {
    for (bool reverse : {false, true}) {
      const size_t total = s[0] * s[1] * s[2], strides[3] = {s[1] * s[2], s[2], 1};
      std::vector<Arg> args = {Arg("x", RandomInts(DType::kInt32, total, 2, -3, 3))};
      const Tensor x = args[0].tensor;
      std::string body;
      std::vector<std::vector<int64_t>> want;
      for (int axis = 0; axis < 3; ++axis) {
        std::vector<int64_t> sums(total), products(total), tops(total);
        for (size_t at = 0; at < total; ++at) {
          if (at / strides[axis] % s[axis] != 0) continue;
          uint32_t sum = 0, product = 1;
          int64_t top = -100;
          for (size_t j = 0; j < s[axis]; ++j) {
            const size_t e = at + strides[axis] * (reverse ? s[axis] - 1 - j : j);
            sum += static_cast<uint32_t>(x.Int(e)), product *= static_cast<uint32_t>(x.Int(e)), top = std::max(top, x.Int(e));
            sums[e] = static_cast<int32_t>(sum), products[e] = static_cast<int32_t>(product), tops[e] = top;
          }
        }
        for (const auto& values : {sums, products, tops}) {
          args.emplace_back("o" + std::to_string(want.size()), Poison(DType::kInt32, total));
          want.push_back(values);
        }
        const std::string a = std::to_string(axis), r = reverse ? ", reverse=True" : "";
        body += "    tl.store(o" + std::to_string(3 * axis) + " + i, tl.cumsum(v, axis=" + a + r + "))\n";
        body += "    tl.store(o" + std::to_string(3 * axis + 1) + " + i, tl.cumprod(v, axis=" + a + r + "))\n";
        body += "    tl.store(o" + std::to_string(3 * axis + 2) + " + i, tl.associative_scan(v, " + a + ", top" + r + "))\n";
      }
      Program program;
      program.source = "@triton.jit\ndef top(a, b):\n    return tl.maximum(a, b)\n\n@triton.jit\ndef kernel(x, o0, o1, o2, o3, o4, o5, o6, o7, o8):\n"
                       "    i = tl.arange(0, " + std::to_string(s[0]) + ")[:, None, None] * " + std::to_string(strides[0]) + " + tl.arange(0, " + std::to_string(s[1]) +
                       ")[None, :, None] * " + std::to_string(strides[1]) + " + tl.arange(0, " + std::to_string(s[2]) + ")[None, None, :]\n    v = tl.load(x + i)\n" + body;
      Launch(program, args, [&](const Results& r) {
        for (size_t k = 0; k < want.size(); ++k) {
          SCOPED_TRACE("axis " + std::to_string(k / 3) + ", function " + std::to_string(k % 3));
          ExpectInts(r.at("o" + std::to_string(k)), want[k]);
        }
      });
    }
  }
}

// x -> a x + b composed: order matters.
TEST(Scans, NonCommutativeFunctionsKeepTheirOrder) {
  Program program;
  program.source = R"py(
@triton.jit
def compose(a0, b0, a1, b1):
    return a1 * a0, a1 * b0 + b1

@triton.jit
def keep_last(a, b):
    return tl.where(b != 0, b, a)

@triton.jit
def kernel(a, b, oa, ob, last, R: tl.constexpr):
    i = tl.arange(0, 4)[:, None] * 128 + tl.arange(0, 128)[None, :]
    x = tl.load(a + i)
    y = tl.load(b + i)
    p, q = tl.associative_scan((x, y), 1, compose, reverse=R)
    tl.store(oa + i, p)
    tl.store(ob + i, q)
    tl.store(last + i, tl.associative_scan(tl.where(x > 0, y, 0), 1, keep_last, reverse=R))
)py";
  Tensor a = RandomInts(DType::kInt32, 512, 3, -3, 3), b = RandomInts(DType::kInt32, 512, 4, -9, 9);
  for (bool reverse : {false, true}) {
    std::vector<int64_t> oa(512), ob(512), last(512);
    for (size_t r = 0; r < 4; ++r) {
      uint32_t pa = 1, pb = 0;
      int64_t kept = 0;
      for (size_t j = 0; j < 128; ++j) {
        const size_t at = r * 128 + (reverse ? 127 - j : j);
        const uint32_t x = static_cast<uint32_t>(a.Int(at)), y = static_cast<uint32_t>(b.Int(at));
        pb = x * pb + y, pa = x * pa;
        const int64_t seen = a.Int(at) > 0 ? b.Int(at) : 0;
        if (seen) kept = seen;
        oa[at] = static_cast<int32_t>(pa), ob[at] = static_cast<int32_t>(pb), last[at] = kept;
      }
    }
    program.constants = std::string("R=") + (reverse ? "True" : "False");
    Launch(program, {Arg("a", a), Arg("b", b), Arg("oa", Poison(DType::kInt32, 512)), Arg("ob", Poison(DType::kInt32, 512)), Arg("last", Poison(DType::kInt32, 512))},
           [&](const Results& r) {
             ExpectInts(r.at("oa"), oa);
             ExpectInts(r.at("ob"), ob);
             ExpectInts(r.at("last"), last);
           });
  }
}

TEST(Scans, InsideLoopsWithCarriedTotals) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 64)
    carry = 0
    for k in range(0, n, 64):
        v = tl.load(x + k + i, mask=k + i < n, other=0)
        tl.store(o + k + i, tl.cumsum(v, 0) + carry, mask=k + i < n)
        carry += tl.sum(v, 0)
    tl.store(o + n, carry)
)py";
  for (size_t n : {0, 1, 64, 127, 1000}) {
    Tensor x = RandomInts(DType::kInt32, n, 5, -99, 99);
    std::vector<int64_t> want;
    int64_t sum = 0;
    for (size_t i = 0; i < n; ++i) want.push_back(sum += x.Int(i));
    want.push_back(sum);
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, n + 1)), Arg("n", "i32", static_cast<double>(n))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Scans, BoolsCountAndBf16ComputesInFp32) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, counts, sums):
    i = tl.arange(0, 256)
    v = tl.load(x + i)
    tl.store(counts + i, tl.cumsum(v > 0, 0))
    c = tl.cumsum(v, 0)
    tl.static_assert(c.dtype == tl.float32)
    tl.store(sums + i, c)
)py";
  Tensor x = Random(DType::kBf16, 256, 6);
  std::vector<int64_t> counts;
  std::vector<double> sums;
  int64_t count = 0;
  double sum = 0;
  for (size_t i = 0; i < 256; ++i) counts.push_back(count += x.Float(i) > 0), sums.push_back(sum += x.Float(i));
  Launch(program, {Arg("x", x), Arg("counts", Poison(DType::kInt32, 256)), Arg("sums", Poison(DType::kFp32, 256))}, [&](const Results& r) {
    ExpectInts(r.at("counts"), counts);
    ExpectFloats(r.at("sums"), sums, 1e-5);
  });
}

}  // namespace
}  // namespace tessera::conformance
