// Loads and stores: masks, lanes that point nowhere, offsets of every width, bools, block pointers, barriers.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

TEST(Memory, MaskedLanesWithoutOtherReadZero) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 256)
    tl.store(o + i, tl.load(x + i, mask=i < n))
)py";
  for (DType t : {DType::kFp32, DType::kFp16, DType::kInt8, DType::kInt64, DType::kFp64}) {
    for (size_t n : {0, 1, 2, 16, 127, 128, 255}) {
      Tensor x = RandomInts(t, n, 1, -100, 100);
      std::vector<double> want(256, 0);
      for (size_t i = 0; i < n; ++i) want[i] = x.Number(i);
      Launch(program, {Arg("x", x), Arg("o", Poison(t, 256)), Arg("n", "i32", static_cast<double>(n))}, [&](const Results& r) {
        if (IsFloat(t)) ExpectFloats(r.at("o"), want, kExact);
        else ExpectInts(r.at("o"), {want.begin(), want.end()});
      });
    }
  }
}

TEST(Memory, OtherHoldsLaneByLaneAndConverts) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.load(x + i, mask=i < n, other=-1.5))
    tl.store(o + 128 + i, tl.load(x + i, mask=(i < n) & (i % 3 != 0), other=i.to(tl.float32) * 2))
    tl.store(o + 256 + i, tl.load(x + i % n, other=7))
)py";
  Tensor x = Random(DType::kFp16, 100, 2);
  std::vector<double> want;
  for (size_t i = 0; i < 128; ++i) want.push_back(i < 100 ? x.Float(i) : -1.5);
  for (size_t i = 0; i < 128; ++i) want.push_back(i < 100 && i % 3 ? x.Float(i) : 2.0 * static_cast<double>(i));
  for (size_t i = 0; i < 128; ++i) want.push_back(x.Float(i % 100));
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp32, 384)), Arg("n", "i32", 100)}, [&](const Results& r) { ExpectFloats(r.at("o"), want, kExact); });
}

TEST(Memory, MaskedOffLanesMayPointAnywhere) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, n, far):
    i = tl.arange(0, 128)
    inside = i < n
    wild = tl.where(inside, i.to(tl.int64), far + i)
    v = tl.load(x + wild, mask=inside, other=3)
    tl.store(o + wild, v, mask=inside)
    nowhere = tl.load(x + far + i, mask=i < 0, other=9)
    tl.store(o + n + i, nowhere, mask=i < 1)
    tl.store(x - far + i, v, mask=i < 0)
    scalar = tl.load(x + far, mask=n < 0, other=5)
    tl.store(o + n + 1, scalar)
    tl.store(x + far, scalar, mask=n < 0)
)py";
  for (size_t n : {1, 2, 16, 100, 127}) {
    Tensor x = RandomInts(DType::kInt32, n, 3, -99, 99);
    std::vector<int64_t> want;
    for (size_t i = 0; i < n; ++i) want.push_back(x.Int(i));
    want.push_back(9), want.push_back(5);
    Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, n + 2)), Arg("n", "i32", static_cast<double>(n)), Arg::Integer("far", "i64", uint64_t{1} << 45)},
           [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Memory, FullyMaskedStoreWritesNothing) {
  Program program;
  program.source = "@triton.jit\ndef kernel(o, n):\n    i = tl.arange(0, 64)\n    tl.store(o + i, i, mask=i >= n)\n    tl.store(o + i, i, mask=(i < n) & (i > n))\n";
  Launch(program, {Arg("o", Poison(DType::kInt32, 64)), Arg("n", "i32", 64)}, [](const Results& r) { EXPECT_EQ(r.at("o").bytes, Poison(DType::kInt32, 64).bytes); });
}

TEST(Memory, UnsignedOffsetsZeroExtend) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    i = tl.arange(0, 256)
    small = i.to(tl.uint8)
    tl.store(o + i, tl.load(x + small))
    tl.store(o + 256 + i, tl.load(x + (i + 65280).to(tl.uint16) - 65280))
    tl.store(o + 512 + i, tl.load(x + 255 + (i.to(tl.int8) | -128)))
)py";
  Tensor x = Random(DType::kInt32, 256, 5);
  std::vector<int64_t> want;
  for (size_t i = 0; i < 256; ++i) want.push_back(x.Int(i));
  for (size_t i = 0; i < 256; ++i) want.push_back(x.Int(i));
  for (size_t i = 0; i < 256; ++i) want.push_back(x.Int(static_cast<size_t>(255 + static_cast<int8_t>(i | 128))));
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 768))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

// An offset of 2^31 and more elements: reached from a pointer that starts below by as much.
TEST(Memory, SixtyFourBitOffsetsReachFar) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, stride):
    i = tl.arange(0, 16)
    base = x - (tl.num_programs(0) + 2).to(tl.int64) * stride
    tl.store(o + i, tl.load(base + 3 * stride.to(tl.int64) + i))
)py";
  Tensor x = Random(DType::kInt32, 16, 6);
  std::vector<int64_t> want;
  for (size_t i = 0; i < 16; ++i) want.push_back(x.Int(i));
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 16)), Arg("stride", "i32", 2000000000)}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Memory, ThirtyTwoBitOffsetsWrap) {
  Program program;
  program.source = "@triton.jit\ndef kernel(x, o, stride):\n    i = tl.arange(0, 16)\n    tl.store(o + i, tl.load(x + (i * 4 * stride + i)))\n";
  // i * 4 * 2^30 wraps to 0.
  Tensor x = Random(DType::kInt32, 16, 6);
  std::vector<int64_t> want;
  for (size_t i = 0; i < 16; ++i) want.push_back(x.Int(i));
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 16)), Arg("stride", "i32", 1 << 30)}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Memory, BoolsAreBytes) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, counts):
    i = tl.arange(0, 128)
    b = tl.load(x + i)
    tl.static_assert(b.dtype == tl.int1)
    tl.store(o + i, not b)
    tl.store(counts + i, b.to(tl.int32) + tl.where(b, 10, 20))
    tl.store(o + 128 + i, i % 3)
)py";
  Tensor x = Random(DType::kInt1, 128, 7);
  std::vector<int64_t> inverted, counts;
  for (size_t i = 0; i < 128; ++i) inverted.push_back(!x.Int(i)), counts.push_back(x.Int(i) ? 11 : 20);
  for (size_t i = 0; i < 128; ++i) inverted.push_back(i % 3 != 0);
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt1, 256)), Arg("counts", Poison(DType::kInt32, 128))}, [&](const Results& r) {
    ExpectInts(r.at("o"), inverted);
    ExpectInts(r.at("counts"), counts);
  });
}

TEST(Memory, StoreBarrierLoadSeesTheStore) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(t, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    base = tl.program_id(0) * BLOCK
    tl.store(t + base + i, i * 3)
    tl.debug_barrier()
    a = tl.load(t + base + (BLOCK - 1 - i))
    tl.debug_barrier()
    tl.store(t + base + i, a + 1)
    tl.debug_barrier()
    tl.store(o + base + i, tl.load(t + base + (i ^ 1)) + a)
)py";
  for (int block : {16, 128, 1024}) {
    program.constants = "BLOCK=" + std::to_string(block);
    program.grid = {3, 1, 1};
    std::vector<int64_t> want;
    for (int pid = 0; pid < 3; ++pid)
      for (int i = 0; i < block; ++i) want.push_back((block - 1 - (i ^ 1)) * 3 + 1 + (block - 1 - i) * 3);
    Launch(program, {Arg("t", Poison(DType::kInt32, 3 * block)), Arg("o", Poison(DType::kInt32, 3 * block))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
  }
}

TEST(Memory, LoadBeforeAStoreKeepsTheOldValue) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    i = tl.arange(0, 128)
    old = tl.load(x + i)
    shifted = tl.load(x + (i + 1) % 128)
    tl.debug_barrier()
    tl.store(x + i, shifted)
    tl.store(o + i, old - shifted)
)py";
  Tensor x = RandomInts(DType::kInt32, 128, 8, -500, 500);
  std::vector<int64_t> moved, want;
  for (size_t i = 0; i < 128; ++i) moved.push_back(x.Int((i + 1) % 128)), want.push_back(x.Int(i) - moved.back());
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 128))}, [&](const Results& r) {
    ExpectInts(r.at("x"), moved);
    ExpectInts(r.at("o"), want);
  });
}

TEST(Memory, BlockPointersCheckBoundariesAndPad) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, p, M, N, stride):
    src = tl.make_block_ptr(base=x, shape=(M, N), strides=(stride, 1), offsets=(0, 0), block_shape=(16, 32), order=(1, 0))
    dst = tl.make_block_ptr(base=o, shape=(M, N), strides=(N, 1), offsets=(0, 0), block_shape=(16, 32), order=(1, 0))
    total = tl.zeros((16, 32), tl.float32)
    for k in range(0, tl.cdiv(N, 32)):
        v = tl.load(src, boundary_check=(0, 1), padding_option="zero")
        total += v
        tl.store(dst, v * 2, boundary_check=(0, 1))
        src = tl.advance(src, (0, 32))
        dst = tl.advance(dst, (0, 32))
    i = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(p + i, total)
    far = tl.make_block_ptr(base=x, shape=(M, N), strides=(stride, 1), offsets=(M - 2, -3), block_shape=(16, 32), order=(1, 0))
    tl.store(p + 512 + i, tl.load(far, boundary_check=(0, 1), padding_option="nan"))
)py";
  const std::pair<size_t, size_t> shapes[] = {{1, 1}, {2, 127}, {13, 50}, {16, 64}, {15, 16}};
  for (auto [M, N] : shapes) {
    const size_t stride = N + 3;
    Tensor x = RandomInts(DType::kFp32, M * stride, 9, -50, 50);
    std::vector<double> doubled(M * N), sums(1024, 0);
    for (size_t r = 0; r < M; ++r)
      for (size_t c = 0; c < N; ++c) doubled[r * N + c] = 2 * x.Float(r * stride + c), sums[r * 32 + c % 32] += x.Float(r * stride + c);
    for (int64_t r = 0; r < 16; ++r)
      for (int64_t c = 0; c < 32; ++c) {
        const int64_t row = static_cast<int64_t>(M) - 2 + r, column = c - 3;
        const bool inside = row >= 0 && row < static_cast<int64_t>(M) && column >= 0 && column < static_cast<int64_t>(N);
        sums[static_cast<size_t>(512 + r * 32 + c)] = inside ? x.Float(static_cast<size_t>(row) * stride + static_cast<size_t>(column)) : std::nan("");
      }
    Launch(program,
           {Arg("x", x), Arg("o", Poison(DType::kFp32, M * N)), Arg("p", Poison(DType::kFp32, 1024)), Arg("M", "i32", static_cast<double>(M)),
            Arg("N", "i32", static_cast<double>(N)), Arg("stride", "i32", static_cast<double>(stride))},
           [&](const Results& r) {
             ExpectFloats(r.at("o"), doubled, 1e-12);
             ExpectFloats(r.at("p"), sums, 1e-12);
           });
  }
}

TEST(Memory, PointersCastToOtherTypes) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o):
    i = tl.arange(0, 64)
    p = x.to(tl.pointer_type(tl.int32))
    tl.store(o + i, tl.load(p + i))
    tl.store(o + 64 + i, tl.load(x + i).to(tl.int32, bitcast=True) ^ 1)
)py";
  Tensor x = Special(DType::kFp32, 64, 10);
  std::vector<int64_t> want;
  for (size_t i = 0; i < 64; ++i) want.push_back(static_cast<int64_t>(x.Bits(i)));
  for (size_t i = 0; i < 64; ++i) want.push_back(static_cast<int64_t>(x.Bits(i) ^ 1));
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kInt32, 128))}, [&](const Results& r) { ExpectInts(r.at("o"), want); });
}

TEST(Memory, DescriptorsOfTheKernelPadWithZeros) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, M, N):
    src = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[8, 16])
    dst = tl.make_tensor_descriptor(o, shape=[M, N], strides=[N, 1], block_shape=[8, 16])
    r = tl.program_id(0) * 8
    c = tl.program_id(1) * 16
    dst.store([r, c], src.load([r, c]) + 1)
)py";
  program.grid = {2, 2, 1};
  Tensor x = RandomInts(DType::kFp32, 13 * 20, 11, -50, 50);
  std::vector<double> want;
  for (size_t i = 0; i < 13 * 20; ++i) want.push_back(x.Float(i) + 1);
  Launch(program, {Arg("x", x, 16), Arg("o", Poison(DType::kFp32, 13 * 20), 16), Arg("M", "i32", 13), Arg("N", "i32", 20)},
         [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-12); });
}

TEST(Memory, TransposedAndStridedAccess) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, o, R, C):
    i = tl.arange(0, 128)
    j = tl.arange(0, 16)
    m = (i[:, None] < R) & (j[None, :] < C)
    v = tl.load(x + i[:, None] * C + j[None, :], mask=m)
    tl.store(o + j[:, None] * R + i[None, :], tl.trans(v), mask=tl.trans(m))
)py";
  const size_t R = 127, C = 13;
  Tensor x = Random(DType::kFp16, R * C, 12);
  std::vector<double> want(R * C);
  for (size_t r = 0; r < R; ++r)
    for (size_t c = 0; c < C; ++c) want[c * R + r] = x.Float(r * C + c);
  Launch(program, {Arg("x", x), Arg("o", Poison(DType::kFp16, R * C)), Arg("R", "i32", R), Arg("C", "i32", C)}, [&](const Results& r) { ExpectFloats(r.at("o"), want, kExact); });
}

}  // namespace
}  // namespace tessera::conformance
