// What the emitter makes of kernels: operations, types and structure of the IR.
#include "compiler/frontend/check/emit_tile.h"

#include "compiler/frontend/check/testing.h"
#include "gtest/gtest.h"

namespace tessera::frontend {
namespace {

#define EXPECT_EMITS(emitted)             \
  ASSERT_EQ((emitted).error(), "");       \
  EXPECT_TRUE((emitted).verifies) << (emitted).ir

const char* const kAdd = R"(
@triton.jit
def kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x_block = tl.load(x + offsets, mask=mask, other=0.0)
    y_block = tl.load(y + offsets, mask=mask, other=0.0)
    tl.store(out + offsets, x_block + y_block, mask=mask)
)";

TEST(EmitTile, EmitsTheVectorAdd) {
  Emitted e = Emit(kAdd, "x=*fp32:16 y=*fp32:16 out=*fp32:16 n=i32 BLOCK=#256");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("func.func @kernel(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = \"x\"}")) << e.ir;
  EXPECT_TRUE(e.Has("%arg3: i32 {tile.name = \"n\"}) attributes {tile.kernel}"));
  EXPECT_TRUE(e.Has("tile.range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>"));
  EXPECT_TRUE(e.Has("arith.cmpi slt"));
  EXPECT_EQ(e.Count("tile.load"), 2);
  EXPECT_TRUE(e.Has("arith.addf"));
  EXPECT_EQ(e.Count("tile.store"), 1);
  ASSERT_EQ(e.parameters.size(), 4u);
  EXPECT_EQ(e.parameters[3].name(), "n");
  EXPECT_EQ(e.parameters[3].type(), "i32");
  EXPECT_EQ(e.parameters[2].type(), "*fp32");
  EXPECT_EQ(e.parameters[2].source_index(), 2u);
}

TEST(EmitTile, DropsOnesNoneAndConstantsFromTheArguments) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, bias, n, stride, scale: tl.constexpr):
    v = tl.load(x + stride) * scale
    if bias is not None:
        v += tl.load(bias)
    if n > 1:
        tl.store(x, v)
)", "x=*fp32 bias=#None n=i64 stride=1 scale=#2.5");
  EXPECT_EMITS(e);
  ASSERT_EQ(e.parameters.size(), 2u);
  EXPECT_EQ(e.parameters[1].name(), "n");
  EXPECT_EQ(e.parameters[1].type(), "i64");
  EXPECT_EQ(e.Count("tile.load"), 1);
  EXPECT_TRUE(e.Has("scf.if"));
}

const char* const kMatmul = R"(
@triton.jit
def kernel(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           GROUP_M: tl.constexpr, APPLY_GELU: tl.constexpr):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    group = GROUP_M * num_n
    first_m = (pid // group) * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % group) % size_m
    pid_n = (pid % group) // size_m
    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        k_mask = (k + offs_k) < K
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & k_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_mask[:, None] & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    acc = acc + bias[None, :]
    if APPLY_GELU:
        inner = 0.7978845608 * (acc + 0.044715 * acc * acc * acc)
        t = 2.0 * tl.sigmoid(2.0 * inner) - 1.0
        acc = 0.5 * acc * (1.0 + t)
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
)";

std::string MatmulSignature(const std::string& gelu) {
  return "a_ptr=*fp16:16 b_ptr=*fp16:16 bias_ptr=*fp16:16 c_ptr=*fp16:16 M=i32:16 N=i32:16 K=i32:16 stride_am=i32:16 "
         "stride_ak=1 stride_bk=i32:16 stride_bn=1 stride_cm=i32:16 stride_cn=1 BLOCK_M=#128 BLOCK_N=#64 BLOCK_K=#32 "
         "GROUP_M=#8 APPLY_GELU=#" + gelu;
}

TEST(EmitTile, EmitsTheFusedMatmul) {
  Emitted e = Emit(kMatmul, MatmulSignature("True"));
  EXPECT_EMITS(e);
  EXPECT_EQ(e.parameters.size(), 10u);
  // Offsets are computed in 64 bits and never narrowed.
  EXPECT_TRUE(e.Has("arith.extsi %") && e.Has(": i32 to i64"));
  EXPECT_FALSE(e.Has("arith.trunci"));
  // The loop carries the pointers and the accumulator, and nothing else.
  EXPECT_TRUE(e.Has("-> (tensor<128x32x!tile.ptr<f16>>, tensor<128x64xf32>, tensor<32x64x!tile.ptr<f16>>)")) << e.ir;
  EXPECT_TRUE(e.Has("tf32 : tensor<128x32xf16> * tensor<32x64xf16> -> tensor<128x64xf32>"));
  EXPECT_EQ(e.Count("tile.dot"), 1);
  EXPECT_TRUE(e.Has("tile.divs") && e.Has("tile.rems") && e.Has("arith.minsi"));
  EXPECT_TRUE(e.Has("math.exp"));
  EXPECT_TRUE(e.Has("arith.truncf") && e.Has("tensor<128x64xf32> to tensor<128x64xf16>"));
  EXPECT_FALSE(Emit(kMatmul, MatmulSignature("False")).Has("math.exp"));
}

TEST(EmitTile, PlacesEveryOperation) {
  Emitted e = Emit(kAdd, "x=*fp32 y=*fp32 out=*fp32 n=i32 BLOCK=#256");
  EXPECT_EQ(e.Count("unknown"), 0);
}

TEST(EmitTile, EmitsTheRowSoftmax) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(out_ptr, x_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + cols, (e / tl.sum(e, axis=0)).to(out_ptr.dtype.element_ty), mask=mask)
)", "out_ptr=*fp16:16 x_ptr=*fp16:16 x_stride=i32 out_stride=i32 n_cols=i32 BLOCK=#1024");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("dense<0xFC00> : tensor<1024xf16>")) << e.ir;
  EXPECT_TRUE(e.Has("arith.maxnumf"));
  EXPECT_TRUE(e.Has("axis 0 : (tensor<1024xf32>) -> f32"));
  EXPECT_TRUE(e.Has("arith.truncf"));
}

//===-- values and types --------------------------------------------------------------------------------===//

// The IR of `v = <expression>` stored through `out`, with x, y of the given types.
Emitted Expression(const std::string& expression, const std::string& x, const std::string& y = "fp32") {
  return Emit("@triton.jit\ndef kernel(xp, yp, out, n, one, s):\n"
              "    i = tl.arange(0, 16)\n    x = tl.load(xp + i)\n    y = tl.load(yp + i)\n    v = " + expression +
              "\n    tl.static_print(v.dtype)\n",
              "xp=*" + x + " yp=*" + y + " out=*fp32 n=i32 one=1 s=fp32");
}

std::string DTypeOf(const std::string& expression, const std::string& x, const std::string& y = "fp32") {
  Emitted e = Expression(expression, x, y);
  if (!e.error().empty()) return e.error();
  return e.verifies ? e.diagnostics.back().message : e.ir;
}

TEST(Values, HaveTritonsTypes) {
  struct Row {
    const char *expression, *x, *y, *dtype;
  };
  static const Row kRows[] = {
      {"x * 2.0", "fp16", "fp32", "tl.float16"},
      {"x * s", "fp16", "fp32", "tl.float32"},
      {"x * n", "fp16", "fp32", "tl.float16"},
      {"x / 2", "fp16", "fp32", "tl.float32"},
      {"x / y", "i32", "i64", "tl.float32"},
      {"x // 2", "i64", "fp32", "tl.int64"},
      {"x + one", "i8", "fp32", "tl.int32"},
      {"x + 1", "i8", "fp32", "tl.int8"},
      {"(x > 0) * 2", "fp32", "fp32", "tl.int32"},
      {"x > y", "fp32", "fp16", "tl.int1"},
      {"tl.maximum(x, 0.0)", "fp16", "fp32", "tl.float32"},
      {"tl.maximum(x, y)", "bf16", "bf16", "tl.float32"},
      {"tl.maximum(x, y)", "fp16", "fp16", "tl.float16"},
      {"tl.minimum(x, 0)", "i64", "fp32", "tl.int64"},
      {"tl.where(x > 0, x, 0.0)", "fp16", "fp32", "tl.float16"},
      {"tl.sum(x, 0)", "fp16", "fp32", "tl.float16"},
      {"tl.sum(x, 0)", "i8", "fp32", "tl.int32"},
      {"tl.sum(x, 0)", "u16", "fp32", "tl.uint32"},
      {"tl.sum(x > 0, 0)", "u16", "fp32", "tl.uint32"},
      {"tl.max(x, 0)", "fp16", "fp32", "tl.float32"},
      {"tl.max(x, 0)", "u8", "fp32", "tl.int32"},
      {"tl.max(x, 0, return_indices=True)[0]", "fp16", "fp32", "tl.float16"},
      {"tl.max(x, 0, return_indices=True)[0]", "bf16", "fp32", "tl.float32"},
      {"tl.argmax(x, 0)", "fp16", "fp32", "tl.int32"},
      {"tl.cumsum(x, 0)", "bf16", "fp32", "tl.float32"},
      {"tl.cumsum(x, 0)", "fp16", "fp32", "tl.float16"},
      {"x.to(tl.int1)", "fp32", "fp32", "tl.int1"},
      {"x + 0xFFFFFFFF", "i64", "fp32", "tl.int64"},
      {"x + 4294967296", "u64", "fp32", "tl.uint64"},
      {"tl.full([4], 7, tl.uint8)", "i64", "fp32", "tl.uint8"},
      {"float('inf') + x", "fp32", "fp32", "tl.float32"},
      {"x >> 1", "u32", "fp32", "tl.uint32"},
      {"tl.cdiv(x, 7)", "i16", "fp32", "tl.int16"},
      {"x % y", "fp16", "fp16", "tl.float32"},
      {"min(n, 4)", "fp16", "fp16", "tl.int32"},
      {"x ** 2", "fp16", "fp16", "tl.float16"},
      {"tl.rand(n, tl.arange(0, 16))", "fp16", "fp16", "tl.float32"},
      {"tl.randint(n, tl.arange(0, 16))", "fp16", "fp16", "tl.uint32"},
      {"xp + x", "u8", "fp16", "pointer_type<uint8>"},
  };
  for (const Row& row : kRows) {
    std::string got = DTypeOf(row.expression, row.x, row.y);
    if (std::string(row.dtype).rfind("pointer", 0) == 0)
      EXPECT_EQ(got.find(": "), std::string::npos) << row.expression << ": " << got;
    else
      EXPECT_EQ(got, row.dtype) << row.expression << " with x " << row.x << ", y " << row.y;
  }
}

TEST(Values, UseTheOperationsOfTheirSignedness) {
  EXPECT_TRUE(Expression("x // y", "i32", "i32").Has("tile.divs"));
  EXPECT_TRUE(Expression("x // y", "u32", "u32").Has("tile.divu"));
  EXPECT_TRUE(Expression("x % y", "u32", "u32").Has("tile.remu"));
  EXPECT_TRUE(Expression("x >> 2", "i32").Has("arith.shrsi"));
  EXPECT_TRUE(Expression("x >> 2", "u32").Has("arith.shrui"));
  EXPECT_TRUE(Expression("x < y", "u32", "u32").Has("arith.cmpi ult"));
  EXPECT_TRUE(Expression("x != y", "fp32").Has("arith.cmpf une"));
  EXPECT_TRUE(Expression("x % y", "fp32").Has("arith.remf"));
  EXPECT_TRUE(Expression("x.to(tl.float32)", "u8").Has("arith.uitofp"));
  EXPECT_TRUE(Expression("x.to(tl.uint8)", "fp32").Has("{is_unsigned} : tensor<16xf32> -> tensor<16xi8>"));
  EXPECT_TRUE(Expression("x.to(tl.float8e4nv)", "fp32").Has("tile.fp_to_fp"));
  EXPECT_TRUE(Expression("x.to(tl.float16, fp_downcast_rounding='rtz')", "fp32").Has("rtz"));
  EXPECT_TRUE(Expression("tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)", "fp32").Has("arith.maximumf"));
  EXPECT_TRUE(Expression("tl.maximum(x, y)", "u32", "u32").Has("arith.maxui"));
  // Unsigned offsets below 64 bits do not become negative.
  EXPECT_TRUE(Expression("tl.load(xp + y)", "fp32", "u32").Has("arith.extui"));
}

TEST(Values, CompareWithStrongLiterals) {
  EXPECT_TRUE(Expression("x > 0.1", "fp16").Has("arith.extf"));
  EXPECT_TRUE(Expression("x > -1", "u8").Has("arith.cmpi sgt"));
  EXPECT_TRUE(Expression("x == 300", "i8").Has("arith.extsi"));
}

TEST(Values, ReadAndWriteBoolsAsBytes) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.load(x + i) & (i < 4))
)", "x=*i1 out=*i1");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("-> tensor<8xi8>"));
  EXPECT_TRUE(e.Has("arith.cmpi ne"));
  EXPECT_TRUE(e.Has("arith.extui") && e.Has("tensor<8xi1> to tensor<8xi8>"));
}

TEST(Values, AnswerQuestionsAboutTheirTypes) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n, T: tl.constexpr):
    tl.static_assert(x.dtype.is_ptr() and not n.dtype.is_ptr())
    tl.static_assert(x.dtype.element_ty.is_fp16() and x.type.element_ty == tl.float16)
    tl.static_assert(T.is_floating() and T.primitive_bitwidth == 32 and T == tl.float32)
    v = tl.load(x + tl.arange(0, 8))
    tl.static_assert(v.dtype == tl.float16 and v.type.scalar.is_fp16() and v.type.is_block())
    tl.static_assert(v.shape[0] == 8 and len(v.shape) == 1 and v.numel == 8)
    tl.static_assert(isinstance(v, tl.tensor) and isinstance(T, tl.constexpr) and not isinstance(n, tl.constexpr))
    b = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))
    tl.static_assert(b.type.element_ty.element_ty == tl.float16)
)", "x=*fp16 n=i32 T=#fp32");
  EXPECT_EMITS(e);
}

TEST(Values, KeepAnArgumentOfOneStrong) {
  // n is 1 here, and yet x * n computes in fp16 with an int32 scalar, and the branch is a runtime one.
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n):
    if n == 1:
        tl.store(x, n.to(tl.int64) + 1)
)", "x=*i64 n=1");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("scf.if"));
}

//===-- control flow ------------------------------------------------------------------------------------===//

TEST(ControlFlow, NestsWhatFollowsAnEarlyReturn) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    v = tl.load(x + pid)
    if v > 0:
        return
    tl.store(x + pid, v)
)", "x=*fp32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_EQ(e.Count("scf.if"), 2);
  EXPECT_EQ(e.Count("} else {"), 2);
  EXPECT_FALSE(e.Has("cf.br"));
}

TEST(ControlFlow, GuardsWhatFollowsAReturnInANestedBranch) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n):
    v = tl.load(x)
    if n > 3:
        if v > 0:
            return
        v += 1
    tl.store(x, v)
)", "x=*fp32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_EQ(e.Count("tile.store"), 1) << e.ir;
  EXPECT_EQ(e.Count("scf.if"), 3) << e.ir;
}

TEST(ControlFlow, MergesReturnedValues) {
  Emitted e = Emit(R"(
@triton.jit
def pick(a, b, n):
    if n > 3:
        return a + 1, n
    b = b * 2
    return b, n + 1

@triton.jit
def kernel(x, n):
    a = tl.load(x)
    v, m = pick(a, a, n)
    tl.store(x + m, v)
)", "x=*fp32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("-> (f32, i32)")) << e.ir;
}

TEST(ControlFlow, CarriesOnlyWhatChanges) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n, FLAG: tl.constexpr):
    total = tl.zeros([16], tl.float32)
    other = tl.zeros([16], tl.float32)
    for i in range(n):
        total += i
        if FLAG:
            other += 1
    tl.store(x + tl.arange(0, 16), total + other)
)", "x=*fp32 n=i32 FLAG=#False");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("-> (tensor<16xf32>)")) << e.ir;
}

TEST(ControlFlow, CountsDownWithAConstantNegativeStepOnly) {
  const char* source = R"(
@triton.jit
def kernel(x, n, step, D: tl.constexpr):
    total = 0
    for i in range(n, 0, -D if D > 0 else -step):
        total = total * 3 + i
    tl.store(x, total)
)";
  Emitted constant = Emit(source, "x=*i32 n=i32 step=i32 D=#2");
  EXPECT_EMITS(constant);
  EXPECT_TRUE(constant.Has("scf.for %arg3 = %c0_i32")) << constant.ir;
  EXPECT_TRUE(constant.Has("to %arg1"));
  Emitted runtime = Emit(source, "x=*i32 n=i32 step=i32 D=#0");
  EXPECT_EMITS(runtime);
  EXPECT_TRUE(runtime.Has("arith.select")) << runtime.ir;  // no trip where the step is not positive
  EXPECT_TRUE(runtime.Has("arith.maxsi"));
  // Triton knows the value of an argument that is 1.
  Emitted one = Emit(source, "x=*i32 n=i32 step=1 D=#0");
  EXPECT_EMITS(one);
  EXPECT_TRUE(one.Has("to %arg1")) << one.ir;
}

TEST(ControlFlow, UnrollsStaticRangesWithConstantIndices) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, SIZES: tl.constexpr):
    for i in tl.static_range(3):
        tl.store(x + tl.arange(0, 2 ** i), i)
)", "x=*i32 SIZES=#1");
  EXPECT_EMITS(e);
  EXPECT_EQ(e.Count("tile.store"), 3);
  EXPECT_TRUE(e.Has("tensor<4xi32>"));
}

TEST(ControlFlow, PromotesTheLoopVariable) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n):
    for i in range(0, n, 4):
        tl.store(x + i, i)
)", "x=*i64 n=i64");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has(": i64 {")) << e.ir;
}

TEST(ControlFlow, WritesWhileLoops) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(x, n):
    left = n
    while left > 3:
        left = left // 2
    tl.store(x, left)
)", "x=*i32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("scf.while (%arg2 = %arg1) : (i32) -> i32")) << e.ir;
}

//===-- calls -------------------------------------------------------------------------------------------===//

TEST(Calls, BindDefaultsKeywordsAndFunctions) {
  Emitted e = Emit(R"(
@triton.jit
def scale(x, by=2.0, *, plus: tl.constexpr = 1):
    return x * by + plus

@triton.jit
def apply(f: tl.constexpr, x, args):
    return f(x, *args)

@triton.jit
def kernel(p, F: tl.constexpr):
    x = tl.load(p)
    tl.store(p, apply(F, scale(x, plus=3), (4.0,)))
)", "p=*fp16 F=#fn:scale");
  EXPECT_EMITS(e);
  EXPECT_EQ(e.Count("arith.mulf"), 2);
  EXPECT_FALSE(e.Has("f32"));  // literals stayed weak through the calls
}

TEST(Calls, CombineInReductionsAndScans) {
  Emitted e = Emit(R"(
@triton.jit
def first(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2

@triton.jit
def add(a, b):
    return a + b

@triton.jit
def kernel(p):
    x = tl.load(p + tl.arange(0, 16))
    a, b = tl.associative_scan((x, x), 0, first, reverse=True)
    tl.store(p, tl.reduce(a + b, 0, add))
)", "p=*fp32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("tile.scan") && e.Has("{reverse}")) << e.ir;
  EXPECT_TRUE(e.Has("tile.reduce"));
}

TEST(Calls, MakeNamedTuplesAndAggregates) {
  Emitted e = Emit(R"(
from typing import NamedTuple
class Pair(NamedTuple):
    a: tl.tensor
    b: tl.tensor = 7

@tl.core._aggregate
class Counter:
    total: tl.tensor
    STEP: tl.constexpr

    @triton.jit
    def __init__(self, start, STEP: tl.constexpr = 4):
        self.total = start
        self.STEP = STEP

    @triton.jit
    def next(self, by):
        tl.static_assert(self.STEP == 4)
        return Counter(self.total + by * self.STEP)

@triton.jit
def make(x):
    return Pair(x, b=x + 1)

@triton.jit
def kernel(x, n):
    p = make(n)
    tl.static_assert(Pair(1).b == 7 and len(p) == 2)
    c = Counter(p.a)
    for i in range(n):
        c = c.next(i)
        p = Pair(p.b, p.a)
    c.total += 1
    tl.store(x, c.total + p.a)
)", "x=*i32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("-> (i32, i32, i32)")) << e.ir;
}

TEST(Calls, IndexAggregatesThroughTheirMethodAndSliceTuples) {
  Emitted e = Emit(R"(
@tl.core._aggregate
class Box:
    a: tl.tensor
    b: tl.tensor
    @triton.jit
    def __init__(self, a, b):
        self.a = a
        self.b = b
    @triton.jit
    def __getitem__(self, i):
        return self.b + i

@triton.jit
def kernel(x, n, m):
    items: tl.constexpr = (1, 2, 3, 4, 5)[1::2]
    tl.static_assert(len(items) == 2 and items[1] == 4)
    squares: tl.constexpr = [i * i for i in tl.static_range(3)]
    tl.static_assert(squares[2] == 4)
    tl.store(x, Box(n, m)[7])
)", "x=*i32 n=i32 m=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("arith.addi %arg2, %c7_i32")) << e.ir;
}

//===-- memory ------------------------------------------------------------------------------------------===//

TEST(Memory, TurnsBlockPointersIntoPointersAndMasks) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(p, m, n, sm):
    a = tl.make_block_ptr(p, (m, n), (sm, 1), (0, 16), (8, 16), (1, 0))
    for _ in range(3):
        x = tl.load(a, boundary_check=(1,), padding_option="nan")
        tl.store(a, (x + 1).to(tl.float64).to(a.dtype.element_ty))
        a = tl.advance(a, (8, 0))
)", "p=*fp32 m=i32 n=i32 sm=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("tile.load") && e.Has("0x7FC00000")) << e.ir;
  EXPECT_TRUE(e.Has("-> (i64)")) << e.ir;  // only the moving offset is carried
}

TEST(Memory, ChoosesTheAtomicOfTheElementType) {
  auto atomic = [](const char* call, const char* type) {
    return Emit(std::string("@triton.jit\ndef kernel(p, v):\n    tl.") + call + "\n", std::string("p=*") + type + " v=i32");
  };
  Emitted add = atomic("atomic_add(p, v)", "fp16");
  EXPECT_TRUE(add.Has(" fadd,") && add.Has(" acq_rel,") && add.Has(" gpu,")) << add.ir;
  Emitted max = atomic("atomic_max(p, v, sem='relaxed', scope='cta')", "u32");
  EXPECT_TRUE(max.Has(" umax,") && max.Has(" relaxed,") && max.Has(" cta,")) << max.ir;
  EXPECT_TRUE(atomic("atomic_min(p, v)", "fp32").Has("fmin"));
  EXPECT_TRUE(atomic("atomic_cas(p, v, 3)", "i64").Has("tile.atomic_cas"));
}

TEST(Memory, ReadsTensorDescriptors) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(p, m, n):
    d = tl.make_tensor_descriptor(p, [m, n], [n, 1], [16, 32])
    x = d.load([16, 0])
    d.store([0, 32], x + 1)
)", "p=*fp16 m=i32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("tile.desc_load") && e.Has("tile.desc_store")) << e.ir;
}

TEST(Memory, TakesTensorDescriptorsAsParts) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(d, n):
    for i in range(0, n):
        d.store([i, 0], d.load([0, i]) + 1)
)", "d=desc:fp16:16x32 n=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("tile.desc_load") && e.Has("tile.desc_store")) << e.ir;
  std::string parameters;
  for (const storage::EntryParameter& p : e.parameters) {
    parameters += p.name() + " " + p.type();
    for (uint32_t step : p.path()) parameters += " " + std::to_string(step);
    parameters += "\n";
  }
  EXPECT_EQ(parameters, "d *fp16 0\nd.shape.0 i32 1 0\nd.shape.1 i32 1 1\nd.strides.0 i64 2 0\nn i32\n");
}

TEST(Memory, CarriesTensorDescriptorsThroughLoopsAsParts) {
  Emitted e = Emit(R"(
@triton.jit
def kernel(p, q, n):
    d = tl.make_tensor_descriptor(p, [n, n], [n, 1], [16, 32])
    for i in range(0, n):
        d.store([i, 0], d.load([0, i]) + 1)
        d = tl.make_tensor_descriptor(q, [i, n], [n, 1], [16, 32])
)", "p=*fp16 q=*fp16 n=i32");
  EXPECT_EMITS(e);
  EXPECT_TRUE(e.Has("-> (!tile.ptr<f16>, i32, i64, i64)")) << e.ir;  // the second extent stays
}

}  // namespace
}  // namespace tessera::frontend
