// What a kernel says while it runs (device_print), what stops it (device_assert), and calls that only some targets give a
// meaning: programmatic dependent launch, inline assembly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DevicePrint, LinesComeInProgramOrderWithProgramAndLane) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x):
    i = tl.program_id(0) * 2 + tl.arange(0, 2)
    tl.device_print("value", tl.load(x + i))
    tl.device_print("id", tl.program_id(0) * 10 + tl.program_id(1))
)py";
  program.grid = {2, 2, 1};
  ExpectPrinted(program, {Arg("x", Ints(DType::kInt32, {-7, 8, 2147483647, 0}))},
                {"pid (0, 0, 0) idx (0) value: -7", "pid (0, 0, 0) idx (1) value: 8", "pid (0, 0, 0) idx () id: 0",
                 "pid (1, 0, 0) idx (0) value: 2147483647", "pid (1, 0, 0) idx (1) value: 0", "pid (1, 0, 0) idx () id: 10",
                 "pid (0, 1, 0) idx (0) value: -7", "pid (0, 1, 0) idx (1) value: 8", "pid (0, 1, 0) idx () id: 1",
                 "pid (1, 1, 0) idx (0) value: 2147483647", "pid (1, 1, 0) idx (1) value: 0", "pid (1, 1, 0) idx () id: 11"});
}

TEST(DevicePrint, EveryTypeAndHexadecimal) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(f, u, p):
    x = tl.load(f)
    tl.device_print("f32", x)
    tl.device_print("f16", x.to(tl.float16))
    tl.device_print("flag", x > 0)
    tl.device_print("u8", tl.load(u))
    tl.device_print("hex", tl.load(p), hex=True)
)py";
  ExpectPrinted(program, {Arg("f", Floats(DType::kFp32, {1.5})), Arg("u", Ints(DType::kUint8, {250})), Arg("p", Ints(DType::kInt32, {-2}))},
                {"pid (0, 0, 0) idx () f32: 1.500000", "pid (0, 0, 0) idx () f16: 1.500000", "pid (0, 0, 0) idx () flag: 1", "pid (0, 0, 0) idx () u8: 250",
                 "pid (0, 0, 0) idx () hex: 0xfffffffe"});
}

TEST(DevicePrint, BlocksOfSeveralDimensionsNameEachIndex) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x):
    i = tl.arange(0, 2)
    tl.device_print("at", i[:, None] * 10 + i[None, :])
)py";
  ExpectPrinted(program, {Arg("x", Ints(DType::kInt32, {0}))},
                {"pid (0, 0, 0) idx (0, 0) at: 0", "pid (0, 0, 0) idx (0, 1) at: 1", "pid (0, 0, 0) idx (1, 0) at: 10", "pid (0, 0, 0) idx (1, 1) at: 11"});
}

const char kAssert[] = R"py(
@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.device_assert(v >= 0, "negative input", mask=i < n)
    tl.store(out + i, v * 2, mask=i < n)
)py";

std::vector<Arg> AssertArguments(int64_t bad) {
  std::vector<int64_t> values(100, 3);
  if (bad >= 0) values[bad] = -1;
  return {Arg("x", Ints(DType::kInt32, values)), Arg("out", Poison(DType::kInt32, 100)), Arg("n", "i32", 100)};
}

TEST(DeviceAssert, AFalseLaneStopsTheLaunchWithItsMessage) {
  Program program;
  program.source = kAssert;
  program.constants = "BLOCK=32";
  program.options = {{"debug", "true"}};
  program.grid = {4, 1, 1};
  ExpectRunError(program, AssertArguments(50), absl::StatusCode::kAborted, "negative input");
}

TEST(DeviceAssert, WhatHoldsIsNotNoticedAndMaskedOffLanesDoNotCount) {
  Program program;
  program.source = kAssert;
  program.constants = "BLOCK=32";
  program.options = {{"debug", "true"}};
  program.grid = {4, 1, 1};
  Launch(program, AssertArguments(-1), [](const Results& r) { ExpectInts(r.at("out"), std::vector<int64_t>(100, 6)); });
}

TEST(DeviceAssert, PlainAssertIsOneOfTheKernel) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x):
    assert tl.load(x) == 1, f"not one"
)py";
  program.options = {{"debug", "true"}};
  ExpectRunError(program, {Arg("x", Ints(DType::kInt32, {2}))}, absl::StatusCode::kAborted, "not one");
}

TEST(DependentLaunch, ItsCallsChangeNoResult) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_wait()
    v = tl.load(x + i)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + i, v + 1)
)py";
  program.constants = "BLOCK=64";
  std::vector<int64_t> values(64), want(64);
  for (int64_t i = 0; i < 64; ++i) want[i] = (values[i] = i * i) + 1;
  Launch(program, {Arg("x", Ints(DType::kInt32, values)), Arg("out", Poison(DType::kInt32, 64))},
         [&](const Results& r) { ExpectInts(r.at("out"), want); });
}

TEST(InlineAssembly, IsRefusedWithWhatIsSupportedInstead) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x + i, v)
)py";
  program.constants = "BLOCK=16";
  ExpectCompileError(program, {Arg("x", Poison(DType::kInt32, 16))}, "inline PTX needs an NVIDIA GPU");
}

TEST(Maps, FunctionsWithControlFlowRunLaneByLane) {
  Program program;
  program.source = R"py(
@triton.jit
def collatz(x):
    steps = 0
    while x > 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps


@triton.jit
def ordered(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def kernel(x, y, steps, low, high, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m, other=1)
    b = tl.load(y + i, mask=m, other=1)
    tl.store(steps + i, tl.map_elementwise(collatz, a), mask=m)
    l, h = tl.map_elementwise(ordered, a, b)
    tl.store(low + i, l, mask=m)
    tl.store(high + i, h, mask=m)
)py";
  for (size_t n : {size_t{1}, size_t{16}, size_t{127}, size_t{1000}}) {
    program.constants = n <= 128 ? "BLOCK=128" : "BLOCK=1024";
    Tensor x = RandomInts(DType::kInt32, n, 1, 1, 1000), y = RandomInts(DType::kInt32, n, 2, -1000, 1000);
    std::vector<int64_t> steps(n), low(n), high(n);
    for (size_t i = 0; i < n; ++i) {
      for (int64_t v = x.Int(i); v > 1; ++steps[i]) v = v % 2 == 0 ? v / 2 : 3 * v + 1;
      low[i] = std::min(x.Int(i), y.Int(i));
      high[i] = std::max(x.Int(i), y.Int(i));
    }
    SCOPED_TRACE("n = " + std::to_string(n));
    Launch(program,
           {Arg("x", x), Arg("y", y), Arg("steps", Poison(DType::kInt32, n)), Arg("low", Poison(DType::kInt32, n)), Arg("high", Poison(DType::kInt32, n)),
            Arg("n", "i32", static_cast<double>(n))},
           [&](const Results& r) {
             ExpectInts(r.at("steps"), steps);
             ExpectInts(r.at("low"), low);
             ExpectInts(r.at("high"), high);
           });
  }
}

}  // namespace
}  // namespace tessera::conformance
