// Tensor descriptors made in the kernel: places outside of the tensor, padding, control flow, rows, reductions. The
// guards around each tensor catch what is read or written outside of it.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

constexpr int kRows = 11, kColumns = 24;

TEST(Descriptors, PadWhatIsReadOutside) {
  for (const char* padding : {"zero", "nan"}) {
    Program program;
    program.source = Substitute(R"py(
@triton.jit
def kernel(x, o, m, n, row, column):
    d = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[8, 16], padding_option="$padding")
    tl.store(o + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :], d.load([row, column]))
)py", {{"padding", padding}});
    const int64_t kLast = std::numeric_limits<int32_t>::max();
    for (DType type : {DType::kFp32, DType::kFp16, DType::kBf16}) {
      Tensor x = Random(type, kRows * kColumns, 1);
      for (auto [row, column] : {std::pair<int64_t, int64_t>{0, 0}, {8, 16}, {-3, -5}, {4, -16}, {kRows, 0}, {kLast - 2, kLast - 3}, {-kLast, 4}}) {
        std::vector<double> want;
        for (int64_t i = row; i < row + 8; ++i)
          for (int64_t j = column; j < column + 16; ++j) {
            bool inside = i >= 0 && i < kRows && j >= 0 && j < kColumns;
            want.push_back(inside ? x.Float(i * kColumns + j) : *padding == 'n' ? std::nan("") : 0);
          }
        Launch(program, {Arg("x", x), Arg("o", Poison(type, 128)), Arg("m", "i32", kRows), Arg("n", "i32", kColumns),
                         Arg("row", "i32", row), Arg("column", "i32", column)},
               [&](const Results& r) { ExpectFloats(r.at("o"), want, kExact); });
      }
    }
  }
}

TEST(Descriptors, PadIntegersWithZeroAlways) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    d = tl.make_tensor_descriptor(x, [n], [1], [32], padding_option="nan")
    tl.store(o + tl.arange(0, 32), d.load([8]))
)py";
  std::vector<int64_t> values, want(32, 0);
  for (int i = 0; i < 20; ++i) values.push_back(i + 1);
  for (int i = 8; i < 20; ++i) want[i - 8] = i + 1;
  Launch(program, {Arg("x", Ints(DType::kInt16, values)), Arg("o", Poison(DType::kInt16, 32)), Arg("n", "i32", 20)},
         [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Descriptors, DropWhatIsWrittenOutside) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, m, n, row, column):
    d = tl.make_tensor_descriptor(o, shape=[2, m, n], strides=[m * n, n, 1], block_shape=[1, 8, 16])
    d.store([1, row, column], tl.arange(0, 128).reshape(1, 8, 16))
)py";
  for (auto [row, column] : {std::pair<int, int>{0, 0}, {8, 16}, {-3, -5}, {kRows, 0}, {2147483645, 2147483644}}) {
    std::vector<int64_t> start(2 * kRows * kColumns, -1), want = start;
    for (int64_t i = 0; i < 8; ++i)
      for (int64_t j = 0; j < 16; ++j)
        if (row + i >= 0 && row + i < kRows && column + j >= 0 && column + j < kColumns)
          want[(kRows + row + i) * kColumns + column + j] = i * 16 + j;
    Launch(program, {Arg("o", Ints(DType::kInt32, start)), Arg("m", "i32", kRows), Arg("n", "i32", kColumns),
                     Arg("row", "i32", row), Arg("column", "i32", column)},
           [&, want = want](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Descriptors, GoThroughLoopsAndBranches) {
  Program program;
  program.source = R"py(
@triton.jit
def pick(x, y, n, k):
    if k % 2 == 0:
        d = tl.make_tensor_descriptor(y, [n - k], [1], [16])
    else:
        d = tl.make_tensor_descriptor(x, [n], [1], [16])
    return d

@triton.jit
def kernel(x, y, o, n, steps):
    d = tl.make_tensor_descriptor(x, [n], [1], [16])
    sum = tl.zeros([16], tl.float32)
    for k in range(steps):
        sum += d.load([k * 8])
        d = pick(x, y, n, k)
    while steps > 0:
        sum += d.load([steps])
        d = pick(y, x, n, steps)
        steps -= 1
    tl.store(o + tl.arange(0, 16), sum)
)py";
  constexpr int kLength = 40, kSteps = 5;
  Tensor x = RandomInts(DType::kFp32, kLength, 1, -100, 100), y = RandomInts(DType::kFp32, kLength, 2, -100, 100);
  std::vector<double> want(16, 0);
  const Tensor* at = &x;
  int length = kLength;
  auto add = [&](int first) {
    for (int i = 0; i < 16; ++i)
      if (first + i < length) want[i] += at->Float(first + i);
  };
  for (int k = 0; k < kSteps; ++k) {
    add(k * 8);
    at = k % 2 == 0 ? &y : &x;
    length = k % 2 == 0 ? kLength - k : kLength;
  }
  for (int k = kSteps; k > 0; --k) {
    add(k);
    at = k % 2 == 0 ? &x : &y;
    length = k % 2 == 0 ? kLength - k : kLength;
  }
  Launch(program, {Arg("x", x), Arg("y", y), Arg("o", Poison(DType::kFp32, 16)), Arg("n", "i32", kLength), Arg("steps", "i32", kSteps)},
         [&](const Results& r) { ExpectFloats(r.at("o"), want, kExact); });
}

TEST(Descriptors, OfDifferentPaddingDoNotMeet) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, n):
    d = tl.make_tensor_descriptor(x, [n], [1], [16])
    if n > 3:
        d = tl.make_tensor_descriptor(x, [n], [1], [16], padding_option="nan")
    d.store([0], d.load([16]))
)py";
  ExpectCompileError(program, {Arg("x", Poison(DType::kFp32, 16)), Arg("n", "i32", 16)}, "padded with NaN");
}

TEST(Descriptors, GatherAndScatterRows) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, rows, o, m, n):
    src = tl.make_tensor_descriptor(x, [m, n], [n, 1], [1, 16])
    dst = tl.make_tensor_descriptor(o, [m, n], [n, 1], [1, 16])
    r = tl.load(rows + tl.arange(0, 8))
    dst.scatter(src.gather(r, 12) + 1, r, 4)
)py";
  const std::vector<int64_t> rows = {3, -1, 0, 10, kRows, 7, 1 << 30, 5};
  Tensor x = RandomInts(DType::kInt32, kRows * kColumns, 1, -100, 100);
  std::vector<int64_t> start(kRows * kColumns, 7), want = start;
  for (int64_t row : rows)
    for (int j = 0; j < 16 && row >= 0 && row < kRows; ++j)
      want[row * kColumns + 4 + j] = 1 + (12 + j < kColumns ? x.Int(row * kColumns + 12 + j) : 0);
  Launch(program, {Arg("x", x), Arg("rows", Ints(DType::kInt32, rows)), Arg("o", Ints(DType::kInt32, start)), Arg("m", "i32", kRows), Arg("n", "i32", kColumns)},
         [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Descriptors, ReduceIntoMemory) {
  struct Reduction {
    const char* name;
    int64_t (*combine)(int64_t, int64_t);
  };
  for (const Reduction& reduction : std::vector<Reduction>{
           {"add", [](int64_t a, int64_t b) { return a + b; }},
           {"min", [](int64_t a, int64_t b) { return std::min(a, b); }},
           {"max", [](int64_t a, int64_t b) { return std::max(a, b); }},
           {"and", [](int64_t a, int64_t b) { return a & b; }},
           {"or", [](int64_t a, int64_t b) { return a | b; }},
           {"xor", [](int64_t a, int64_t b) { return a ^ b; }}}) {
    Program program;
    program.grid = {3, 1, 1};
    program.source = Substitute(R"py(
@triton.jit
def kernel(o, m, n):
    d = tl.make_tensor_descriptor(o, [m, n], [n, 1], [8, 16])
    d.atomic_$op([6, 12], tl.arange(0, 128).reshape(8, 16) - 50 + tl.program_id(0))
)py", {{"op", reduction.name}});
    Tensor start = RandomInts(DType::kInt32, kRows * kColumns, 1, -100, 100);
    std::vector<int64_t> want;
    for (size_t i = 0; i < start.size(); ++i) want.push_back(start.Int(i));
    for (int program_id = 0; program_id < 3; ++program_id)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 16; ++j)
          if (6 + i < kRows && 12 + j < kColumns) {
            int64_t& element = want[(6 + i) * kColumns + 12 + j];
            element = reduction.combine(element, i * 16 + j - 50 + program_id);
          }
    Launch(program, {Arg("o", start), Arg("m", "i32", kRows), Arg("n", "i32", kColumns)},
           [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

}  // namespace
}  // namespace tessera::conformance
