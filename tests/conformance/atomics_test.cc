// Read-modify-write operations: every one, with duplicate addresses, masks and the value that they give back.
#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

TEST(Atomics, DuplicateAddressesAccumulateUnderMasks) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, bins, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.atomic_add(o + tl.load(bins + i, mask=m), v, mask=m & (v != 3))
)py";
  program.constants = "BLOCK=256";
  for (DType t : {DType::kFp32, DType::kInt32, DType::kInt64, DType::kUint32, DType::kFp64, DType::kFp16, DType::kBf16}) {
    for (size_t n : {1, 127, 1025}) {
      Tensor x = RandomInts(t, n, 1, IsSigned(t) || IsFloat(t) ? -3 : 0, 4), bins = RandomInts(DType::kInt32, n, 2, 0, 4);
      std::vector<double> want(5, 1);
      for (size_t i = 0; i < n; ++i)
        if (x.Number(i) != 3) want[static_cast<size_t>(bins.Int(i))] += x.Number(i);
      program.grid = {static_cast<uint32_t>((n + 255) / 256), 1, 1};
      Launch(program, {Arg("x", x), Arg("bins", bins), Arg("o", RandomInts(t, 5, 3, 1, 1)), Arg("n", "i32", static_cast<double>(n))}, [&](const Results& r) {
        if (IsFloat(t)) ExpectFloats(r.at("o"), want, 1e-12);
        else ExpectInts(r.at("o"), {want.begin(), want.end()});
      });
    }
  }
}

TEST(Atomics, EveryOperationOnIntegers) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, bins, tops, lows, ands, ors, xors, olds, n):
    i = tl.arange(0, 512)
    m = i < n
    v = tl.load(x + i, mask=m)
    b = tl.load(bins + i, mask=m)
    tl.atomic_max(tops + b, v, mask=m)
    tl.atomic_min(lows + b, v, mask=m, sem="relaxed")
    tl.atomic_and(ands + b, v, mask=m, scope="cta")
    tl.atomic_or(ors + b, v, mask=m, sem="release", scope="sys")
    tl.atomic_xor(xors + b, v, mask=m)
    old = tl.atomic_xchg(olds + i, v, mask=m)
    tl.store(olds + 512 + i, old, mask=m)
)py";
  for (DType t : {DType::kInt32, DType::kInt64, DType::kUint32, DType::kUint64}) {
    const size_t n = 300;
    Tensor x = Special(t, n, 4), bins = RandomInts(DType::kInt32, n, 5, 0, 7), initial = Random(t, 8, 6);
    auto less = [&](int64_t a, int64_t b) { return IsSigned(t) ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b); };
    std::vector<int64_t> tops, lows, ands, ors, xors;
    for (size_t b = 0; b < 8; ++b) {
      int64_t top = initial.Int(b), low = top, all = top, any = top, parity = top;
      for (size_t i = 0; i < n; ++i) {
        if (bins.Int(i) != static_cast<int64_t>(b)) continue;
        const int64_t v = x.Int(i);
        if (less(top, v)) top = v;
        if (less(v, low)) low = v;
        all &= v, any |= v, parity ^= v;
      }
      tops.push_back(top), lows.push_back(low), ands.push_back(all), ors.push_back(any), xors.push_back(parity);
    }
    Tensor olds = Random(t, 1024, 7);
    std::vector<int64_t> exchanged;
    for (size_t i = 0; i < 1024; ++i) exchanged.push_back(i < n ? x.Int(i) : i >= 512 && i < 512 + n ? olds.Int(i - 512) : olds.Int(i));
    Launch(program,
           {Arg("x", x), Arg("bins", bins), Arg("tops", initial), Arg("lows", initial), Arg("ands", initial), Arg("ors", initial), Arg("xors", initial), Arg("olds", olds),
            Arg("n", "i32", n)},
           [&](const Results& r) {
             ExpectInts(r.at("tops"), tops);
             ExpectInts(r.at("lows"), lows);
             ExpectInts(r.at("ands"), ands);
             ExpectInts(r.at("ors"), ors);
             ExpectInts(r.at("xors"), xors);
             ExpectInts(r.at("olds"), exchanged);
           });
  }
}

TEST(Atomics, FloatExtremesWithSignedZerosAndNegatives) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, tops, lows):
    i = tl.arange(0, 256)
    v = tl.load(x + i)
    tl.atomic_max(tops + i % 4, v)
    tl.atomic_min(lows + i % 4, v)
)py";
  for (DType t : {DType::kFp32, DType::kFp64}) {
    Tensor x = Random(t, 256, 8, 100);
    Tensor tops = Floats(t, {-1e30, 1e30, -0.5, 0}), lows = Floats(t, {1e30, -1e30, 0.5, 0});
    std::vector<double> high, low;
    for (size_t b = 0; b < 4; ++b) {
      double top = tops.Float(b), bottom = lows.Float(b);
      for (size_t i = b; i < 256; i += 4) top = std::max(top, x.Float(i)), bottom = std::min(bottom, x.Float(i));
      high.push_back(top), low.push_back(bottom);
    }
    Launch(program, {Arg("x", x), Arg("tops", tops), Arg("lows", lows)}, [&](const Results& r) {
      ExpectFloats(r.at("tops"), high, kExact);
      ExpectFloats(r.at("lows"), low, kExact);
    });
  }
}

// Tickets from a counter are a permutation; a lock by compare-and-swap guards plain memory across program instances.
TEST(Atomics, OldValuesAreDistinctTickets) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(counter, o):
    ticket = tl.atomic_add(counter + tl.zeros((64,), tl.int32), 1)
    tl.store(o + ticket, 1)
    mine = tl.atomic_add(counter + 1, 2)
    tl.store(o + 256 + mine // 2, 1)
)py";
  program.grid = {4, 1, 1};
  Launch(program, {Arg("counter", Ints(DType::kInt32, {0, 0})), Arg("o", Poison(DType::kInt32, 260))}, [](const Results& r) {
    ExpectInts(r.at("counter"), {256, 8});
    ExpectInts(r.at("o"), std::vector<int64_t>(260, 1));
  });
}

TEST(Atomics, CompareAndSwap) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    i = tl.arange(0, 64)
    old = tl.atomic_cas(x + i, i, i * 0 + 1000)
    tl.store(o + i, old)
    tl.store(o + 64, tl.atomic_cas(x + 64, 5, 6))
    tl.store(o + 65, tl.atomic_cas(x + 64, 5, 7))
)py";
  Tensor x = Ints(DType::kInt32, [] {
    std::vector<int64_t> values;
    for (int i = 0; i < 64; ++i) values.push_back(i % 3 ? i : -i - 1);
    values.push_back(5);
    return values;
  }());
  std::vector<int64_t> after, old;
  for (size_t i = 0; i < 64; ++i) old.push_back(x.Int(i)), after.push_back(i % 3 ? 1000 : x.Int(i));
  after.push_back(6), old.push_back(5), old.push_back(6);
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 66))}, [&](const Results& r) {
    ExpectInts(r.at("x"), after);
    ExpectInts(r.at("o"), old);
  });
}

TEST(Atomics, LockAcrossProgramInstances) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(lock, total):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
)py";
  program.grid = {200, 1, 1};
  Launch(program, {Arg("lock", Ints(DType::kInt32, {0})), Arg("total", Ints(DType::kInt32, {0}))}, [](const Results& r) { ExpectInts(r.at("total"), {200}); });
}

}  // namespace
}  // namespace tessera::conformance
