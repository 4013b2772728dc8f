// Loops, branches, early returns, calls, tuples.
#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

Arg Int(const std::string& name, int64_t value) { return Arg::Integer(name, "i32", static_cast<uint64_t>(value)); }

TEST(Control, LoopsOfZeroToManyTripsAndEveryStageCount) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n, start, stop, step):
    i = tl.arange(0, 32)
    total = tl.zeros((32,), tl.float32)
    last = -1
    for k in tl.range(start, stop, step):
        total += tl.load(x + k * 32 + i)
        last = k
    tl.store(o + i, total)
    tl.store(o + 32 + i, last + tl.zeros((32,), tl.int32))
    left = n
    count = 0
    while left > 0:
        left -= 3
        count += 1
    tl.store(o + 64, count)
    tl.store(o + 65, left)
)py";
  Tensor x = RandomInts(DType::kFp32, 32 * 12, 1, -9, 9);
  const int loops[][3] = {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {0, 12, 1}, {5, 2, 1}, {1, 12, 4}, {7, 8, 100}};
  for (int stages : {0, 1, 2, 5}) {
    for (const auto& l : loops) {
      SCOPED_TRACE("stages " + std::to_string(stages) + ", range(" + std::to_string(l[0]) + ", " + std::to_string(l[1]) + ", " + std::to_string(l[2]) + ")");
      std::vector<double> want(66, 0);
      int last = -1;
      for (int k = l[0]; k < l[1]; k += l[2]) {
        for (int i = 0; i < 32; ++i) want[i] += x.Float(k * 32 + i);
        last = k;
      }
      for (int i = 0; i < 32; ++i) want[32 + i] = last;
      int left = l[1], count = 0;
      while (left > 0) left -= 3, ++count;
      want[64] = count, want[65] = left;
      program.num_stages = stages;
      Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp32, 66)), Int("n", l[1]), Int("start", l[0]), Int("stop", l[1]), Int("step", l[2])},
             [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-12); });
    }
  }
}

TEST(Control, ValuesCarriedOverOneTwoAndThreeTrips) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 16)
    a = tl.zeros((16,), tl.float32)
    b = tl.zeros((16,), tl.float32) + 1
    c = tl.zeros((16,), tl.float32) + 2
    for k in range(n):
        fresh = tl.load(x + k * 16 + i)
        tl.store(o + k * 16 + i, a)
        a, b, c = b, c, fresh
    tl.store(o + n * 16 + i, a + b * 100 + c * 10000)
)py";
  Tensor x = RandomInts(DType::kFp32, 16 * 6, 1, 3, 50);
  for (int n : {0, 1, 2, 3, 6}) {
    std::vector<double> want;
    auto value = [&](int k, int i) { return k < 3 ? k : x.Float((k - 3) * 16 + i); };
    for (int k = 0; k < n; ++k)
      for (int i = 0; i < 16; ++i) want.push_back(value(k, i));
    for (int i = 0; i < 16; ++i) want.push_back(value(n, i) + value(n + 1, i) * 100 + value(n + 2, i) * 10000);
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp32, 16 * (n + 1))), Int("n", n)}, [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-12); });
  }
}

TEST(Control, RuntimeNegativeStepMakesNoTripAndConstexprOneCountsDown) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, start, stop, step, S: tl.constexpr):
    count = 0
    for k in range(start, stop, step):
        count += 1
    tl.store(o, count)
    code = 0
    for k in range(start, stop, S):
        code = code * 10 + k
    tl.store(o + 1, code)
    code = 0
    for k in tl.static_range(3, 0, -1):
        code = code * 10 + k
    tl.store(o + 2, code)
)py";
  program.constants = "S=-2";
  Launch(program, {Arg("o", Poison(DType::kInt32, 3)), Int("start", 7), Int("stop", 0), Int("step", -1)}, [](const Results& r) { ExpectInts(r.at("o"), {0, 7531, 321}); });
  Launch(program, {Arg("o", Poison(DType::kInt32, 3)), Int("start", 0), Int("stop", 7), Int("step", 2)}, [](const Results& r) { ExpectInts(r.at("o"), {4, 0, 321}); });
}

TEST(Control, EarlyReturnsAndNestedIfs) {
  Program program;
  program.source = R"py(
@triton.jit
def grade(v, limit):
    if v > limit:
        return 1
    return 0

@triton.jit
def kernel(o, n, flag):
    pid = tl.program_id(0)
    if pid >= n:
        return
    v = 0
    if pid % 2 == 0:
        if pid % 3 == 0:
            v = 6
        elif pid % 5 == 0:
            v = 5
        else:
            v = 2
    else:
        if flag:
            v = 100 + pid
    if pid == 4:
        tl.store(o + pid, -4)
        return
    w = v if v > 5 else -v
    tl.store(o + pid, w * 10 + grade(v, 5))
)py";
  program.grid = {16, 1, 1};
  for (int n : {0, 1, 7, 16}) {
    for (int flag : {0, 1}) {
      std::vector<int64_t> want(16, static_cast<int32_t>(0xabababab));
      for (int pid = 0; pid < n; ++pid) {
        const int v = pid % 2 == 0 ? pid % 3 == 0 ? 6 : pid % 5 == 0 ? 5 : 2 : flag ? 100 + pid : 0;
        want[pid] = pid == 4 ? -4 : (v > 5 ? v : -v) * 10 + (v > 5);
      }
      Launch(program, {Arg("o", Poison(DType::kInt32, 16)), Int("n", n), Arg::Integer("flag", "i1", static_cast<uint64_t>(flag))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
    }
  }
}

TEST(Control, ConditionsInsideLoopsAndLoopsInsideConditions) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, n):
    pid = tl.program_id(0)
    even = 0
    odd = tl.zeros((8,), tl.int32)
    for i in range(n):
        if (i + pid) % 2 == 0:
            even += i
            if i > 4:
                even += 1000
        else:
            for j in range(i):
                odd += j
    while even > 1500:
        even = even - 700 if pid == 0 else even - 900
    tl.store(o + pid, even + tl.max(odd, 0) * 10000)
)py";
  program.grid = {2, 1, 1};
  for (int n : {0, 1, 2, 5, 13}) {
    std::vector<int64_t> want;
    for (int pid = 0; pid < 2; ++pid) {
      int even = 0, odd = 0;
      for (int i = 0; i < n; ++i) {
        if ((i + pid) % 2 == 0) even += i + (i > 4 ? 1000 : 0);
        else odd += i * (i - 1) / 2;
      }
      while (even > 1500) even -= pid == 0 ? 700 : 900;
      want.push_back(even + odd * 10000);
    }
    Launch(program, {Arg("o", Poison(DType::kInt32, 2)), Int("n", n)}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Control, ScalarSpecialisedToOneBehavesAsAnyOther) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, s, C: tl.constexpr):
    i = tl.arange(0, 8)
    tl.static_assert(s.dtype == tl.int32)
    wide = s.to(tl.int64) * 3
    tl.store(o + i, i * s + wide)
    n = s
    for k in range(3):
        s = s + k
        n *= 2
    tl.store(o + 8, s)
    tl.store(o + 9, n + C * s)
    if n == 8:
        tl.store(o + 10, 1)
    else:
        tl.store(o + 10, 0)
    h = tl.full((8,), 2.0, tl.float16) * n
    tl.static_assert(h.dtype == tl.float16)
    tl.store(o + 16 + i, (i.to(tl.int8) + n).to(tl.int32) + tl.cdiv(n, C))
)py";
  program.constants = "C=5";
  auto want = [](int64_t s) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < 8; ++i) values.push_back(i * s + s * 3);
    values.push_back(s + 3), values.push_back(8 * s + 5 * (s + 3)), values.push_back(s == 1);
    for (int64_t i = 11; i < 16; ++i) values.push_back(0xabababab);
    for (int64_t i = 0; i < 8; ++i) values.push_back(i + 8 * s + (8 * s + 4) / 5);
    return values;
  };
  Launch(program, {Arg("o", Poison(DType::kInt32, 24)), Arg("s", "1", 1)}, [&](const Results& r) { ExpectInts(r.at("o"), want(1)); });
  Launch(program, {Arg("o", Poison(DType::kInt32, 24)), Int("s", 1)}, [&](const Results& r) { ExpectInts(r.at("o"), want(1)); });
  Launch(program, {Arg("o", Poison(DType::kInt32, 24)), Int("s", 6)}, [&](const Results& r) { ExpectInts(r.at("o"), want(6)); });
}

TEST(Control, HelpersFunctionArgumentsAndTuples) {
  Program program;
  program.source = R"py(
SCALE = tl.constexpr(3)

@triton.jit
def square(x):
    return x * x

@triton.jit
def both(x, y=2, EXTRA: tl.constexpr = 5):
    return x + y, x * y + EXTRA

@triton.jit
def apply(F: tl.constexpr, x):
    return F(x)

@triton.jit(noinline=True)
def far(x, y):
    return x * 10 + y

@triton.jit
def pick(MODE: tl.constexpr, x):
    if MODE == "twice":
        return x * 2
    elif MODE == "none":
        return x
    else:
        return x * 0

@triton.jit
def kernel(o, n, OPTIONAL, F: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, 8)
    a, b = both(i)
    c, d = both(y=n, x=i, EXTRA=1)
    pair = (a, b + c)
    tl.store(o + i, pair[0] * 100 + pair[1])
    tl.store(o + 8 + i, d + apply(F, i) + apply(square, i))
    tl.store(o + 16 + i, far(i, n) + pick(MODE, i) * 1000)
    if OPTIONAL is not None:
        tl.store(OPTIONAL, 1)
    items = (1, n, 7)
    total = 0
    for j in tl.static_range(len(items)):
        total += items[j] * SCALE
    tl.store(o + 24 + i, total + far(n, total))
)py";
  program.constants = "OPTIONAL=None,F=jit:square,MODE=twice";
  const int n = 4;
  std::vector<int64_t> want;
  for (int i = 0; i < 8; ++i) want.push_back((i + 2) * 100 + (2 * i + 5) + (i + n));
  for (int i = 0; i < 8; ++i) want.push_back(i * n + 1 + 2 * i * i);
  for (int i = 0; i < 8; ++i) want.push_back(i * 10 + n + 2000 * i);
  const int total = (1 + n + 7) * 3;
  for (int i = 0; i < 8; ++i) want.push_back(total + n * 10 + total);
  Launch(program, {Arg("o", Poison(DType::kInt32, 32)), Int("n", n)}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Control, CompileTimeExpressions) {
  Program program;
  program.source = R"py(
from collections import namedtuple
from triton.language import constexpr_type

Pair = namedtuple("Pair", ["low", "high"])
WIDTHS = tl.constexpr((8, 16))

@triton.constexpr_function
def bits(dtype):
    return dtype.primitive_bitwidth

@tl.constexpr
def next_odd(x):
    return x + 1 if x % 2 == 0 else x + 2

@triton.jit
def incremented(values):
    return tl.tuple([v + 1 for v in values])

@triton.jit
def spread(pair):
    return pair.high - pair.low

@triton.jit
def kernel(o, x, n, OP: tl.constexpr):
    a, b, c = incremented((n, 2, n * 3))
    tl.store(o, a + 10 * b + 100 * c)
    tl.store(o + 1, spread(Pair(low=n, high=40)))
    tl.store(o + 2, getattr(tl, OP)(n, 5) + 10 * getattr(o, "missing", 3))
    tl.store(o + 3, hasattr(n, "dtype") + 2 * hasattr(tl, "no_such_function") + 4 * hasattr(None, "dtype"))
    tl.store(o + 4, isinstance(o.dtype, tl.pointer_type) + 2 * isinstance(n, tl.tensor) + 4 * isinstance(3, tl.constexpr)
             + 8 * isinstance(Pair(1, 2), Pair) + 16 * isinstance((n, n), tl.tuple) + 32 * isinstance(tl.int32, tl.pointer_type))
    block = tl.zeros([2] * 2 + [4], tl.int32) + n
    tl.static_assert(block.shape == [2, 2, 4])
    tl.store(o + 5, tl.sum(block.reshape([16]), 0))
    tl.store(o + 6, bits(x.dtype.element_ty) + next_odd(WIDTHS[1]))
    tl.store(o + 7, sum([w for w in WIDTHS if w > 8]) + max([i * j for i in range(3) for j in range(4)]))
    total = 0
    for low, high in zip((1, n), (2, 3)):
        total += low * high
    tl.store(o + 8, total)
    first = (1, *(2, n), *[4] * 2)
    tl.store(o + 9, first[0] + 10 * first[1] + 100 * first[2] + 1000 * first[3] + 10000 * len(first))
    head, *body, tail = (n, 2, 3, 4)
    left = head
    while tl.condition(left > 5):
        left -= 1
    tl.store(o + 10, left + 10 * len(body) + 100 * body[1] + 1000 * tail)
    literal: tl.constexpr = (5, 6)
    tl.static_assert(literal.type == constexpr_type((5, 6)))
    tl.static_assert(isinstance(literal[0].type, tl.constexpr_type))
    scalar = tl.full([], n, tl.int32)
    tl.static_assert(scalar[None, None].shape == [1, 1])
    tl.static_assert(scalar[None, None, :].shape == [1, 1])
    line = tl.arange(0, 4)
    tl.static_assert(line[None, None:].shape == [1, 4])
    tl.static_assert(tl.squeeze(tl.unsqueeze(line, 1), 1).shape == [4] and tl.unsqueeze(line, -1).shape == [4, 1])
    tl.static_assert(line[None, ::None, None].shape == [1, 4, 1])
    tl.store(o + 12 + line[None, :None], line[None, :])
)py";
  program.constants = "OP=maximum";
  const int n = 7;
  std::vector<int64_t> want = {(n + 1) + 10 * 3 + 100 * (n * 3 + 1), 40 - n, n + 30, 1, 1 + 2 + 4 + 8 + 16, 16 * n, 16 + 17, 16 + 6,
                               2 + 3 * n, 1 + 20 + 100 * n + 4000 + 50000, 5 + 20 + 300 + 4000, 0xabababab, 0, 1, 2, 3};
  Launch(program, {Arg("o", Poison(DType::kInt32, 16)), Arg("x", Poison(DType::kFp16, 1)), Int("n", n)}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Control, MapsFunctionsOverSeveralElements) {
  for (int pack : {1, 2, 4}) {
    Program program;
    const std::string source = R"py(
@triton.jit
def one(a, b):
    if b > 0:
        return a // b, a - b
    else:
        return 0, 1

@triton.jit
def two(a0, a1, b0, b1):
    c0, d0 = one(a0, b0)
    c1, d1 = one(a1, b1)
    return c0, c1, d0, d1

@triton.jit
def four(a0, a1, a2, a3, b0, b1, b2, b3):
    c0, c1, d0, d1 = two(a0, a1, b0, b1)
    c2, c3, d2, d3 = two(a2, a3, b2, b3)
    return c0, c1, c2, c3, d0, d1, d2, d3

@triton.jit
def kernel(x, o):
    at = tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :]
    c, d = tl.map_elementwise($function, tl.load(x + at), tl.load(x + 32 + at), pack=$pack)
    tl.store(o + at, c)
    tl.store(o + 32 + at, d)
)py";
    program.source = Substitute(source, {{"function", pack == 1 ? "one" : pack == 2 ? "two" : "four"}, {"pack", std::to_string(pack)}});
    Tensor x = RandomInts(DType::kInt32, 64, 1, 0, 50);
    std::vector<int64_t> want(64);
    for (int i = 0; i < 32; ++i) {
      const int64_t a = x.Int(i), b = x.Int(32 + i);
      want[i] = b > 0 ? a / b : 0;
      want[32 + i] = b > 0 ? a - b : 1;
    }
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 64))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Control, GridsOfThreeDimensions) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o):
    x = tl.program_id(0)
    y = tl.program_id(1)
    z = tl.program_id(axis=2)
    at = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(o + at, x + 10 * y + 100 * z)
)py";
  program.grid = {3, 4, 5};
  std::vector<int64_t> want;
  for (int z = 0; z < 5; ++z)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 3; ++x) want.push_back(x + 10 * y + 100 * z);
  Launch(program, {Arg("o", Poison(DType::kInt32, 60))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Control, AndDoesNotShortCircuit) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 16)
    keep = (i < n) and (tl.load(x + i, mask=i < n) > 0)
    tl.store(o + i, keep)
)py";
  Tensor x = Random(DType::kFp32, 11, 3);
  std::vector<int64_t> want;
  for (size_t i = 0; i < 16; ++i) want.push_back(i < 11 && x.Float(i) > 0);
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt1, 16)), Int("n", 11)}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

}  // namespace
}  // namespace tessera::conformance
