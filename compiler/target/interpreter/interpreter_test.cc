// The interpreter on textual tile IR: arithmetic, conversions, control flow, memory and checks.
#include "compiler/target/interpreter/interpreter.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "compiler/target/interpreter/formats.h"
#include "compiler/target/interpreter/test_kernel.h"

namespace tessera::interpreter {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const int kShapes[] = {1, 2, 16, 128, 1024};

std::string Fill(const std::string& text, int n, const std::string& op = "", const std::string& type = "f32") {
  return absl::StrReplaceAll(text, {{"$N", std::to_string(n)}, {"$OP", op}, {"$T", type}});
}

// out[i] = OP(a[i], b[i]) for i < $N.
const char kBinary[] = R"(
func.func @binary(%a: !tile.ptr<$T>, %b: !tile.ptr<$T>, %out: !tile.ptr<$T>) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = $N : i32} : tensor<$Nxi32>
  %pa = tile.splat %a : !tile.ptr<$T> -> tensor<$Nx!tile.ptr<$T>>
  %pb = tile.splat %b : !tile.ptr<$T> -> tensor<$Nx!tile.ptr<$T>>
  %po = tile.splat %out : !tile.ptr<$T> -> tensor<$Nx!tile.ptr<$T>>
  %qa = tile.addptr %pa, %i : tensor<$Nx!tile.ptr<$T>>, tensor<$Nxi32>
  %qb = tile.addptr %pb, %i : tensor<$Nx!tile.ptr<$T>>, tensor<$Nxi32>
  %qo = tile.addptr %po, %i : tensor<$Nx!tile.ptr<$T>>, tensor<$Nxi32>
  %x = tile.load %qa : tensor<$Nx!tile.ptr<$T>> -> tensor<$Nx$T>
  %y = tile.load %qb : tensor<$Nx!tile.ptr<$T>> -> tensor<$Nx$T>
  %r = $OP %x, %y : tensor<$Nx$T>
  tile.store %qo, %r : tensor<$Nx!tile.ptr<$T>>, tensor<$Nx$T>
  return
})";

// out[i] = OP(a[i]), where OP may change the type: $S to $T.
const char kUnary[] = R"(
func.func @unary(%a: !tile.ptr<$S>, %out: !tile.ptr<$T>) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = $N : i32} : tensor<$Nxi32>
  %pa = tile.splat %a : !tile.ptr<$S> -> tensor<$Nx!tile.ptr<$S>>
  %po = tile.splat %out : !tile.ptr<$T> -> tensor<$Nx!tile.ptr<$T>>
  %qa = tile.addptr %pa, %i : tensor<$Nx!tile.ptr<$S>>, tensor<$Nxi32>
  %qo = tile.addptr %po, %i : tensor<$Nx!tile.ptr<$T>>, tensor<$Nxi32>
  %x = tile.load %qa : tensor<$Nx!tile.ptr<$S>> -> tensor<$Nx$S>
  %r = $OP
  tile.store %qo, %r : tensor<$Nx!tile.ptr<$T>>, tensor<$Nx$T>
  return
})";

std::string Unary(int n, const std::string& from, const std::string& to, const std::string& op) {
  return absl::StrReplaceAll(absl::StrReplaceAll(kUnary, {{"$OP", op}}), {{"$N", std::to_string(n)}, {"$S", from}, {"$T", to}});
}

std::vector<float> RandomFloats(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 10);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  const float specials[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, 3.4e38f};
  for (int i = 0; i < n && n >= 16; i += 5) values[i] = specials[(i / 5 + seed) % 7];
  return values;
}

bool Same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(Interpreter, FloatArithmeticRoundsTheExactResultOnce) {
  for (int n : kShapes) {
    std::vector<float> a = RandomFloats(n, 1), b = RandomFloats(n, 2), out(n);
    auto run = [&](const char* op) {
      ASSERT_TRUE(RunText(Fill(kBinary, n, op), Launch().Buffer(a).Buffer(b).Buffer(out)).ok());
    };
    run("arith.addf");
    for (int i = 0; i < n; ++i) EXPECT_TRUE(Same(out[i], float(double(a[i]) + b[i])));
    run("arith.mulf");
    for (int i = 0; i < n; ++i) EXPECT_TRUE(Same(out[i], float(double(a[i]) * b[i]))) << a[i] << " " << b[i];
    run("arith.divf");  // by a product with the reciprocal, within 2 units
    for (int i = 0; i < n; ++i) {
      const float want = float(double(a[i]) / b[i]);
      const bool plain = std::isfinite(want) && want != 0;
      EXPECT_TRUE(plain ? std::fabs(out[i] - want) <= 2.5e-7 * std::fabs(want) + 3e-45 : Same(out[i], want)) << a[i] << " " << b[i];
    }
    run("arith.remf");
    for (int i = 0; i < n; ++i) EXPECT_TRUE(Same(out[i], float(std::fmod(double(a[i]), double(b[i])))));
    run("arith.maxnumf");
    for (int i = 0; i < n; ++i) {
      float want = std::isnan(a[i]) ? b[i] : std::isnan(b[i]) ? a[i] : a[i] > b[i] ? a[i] : b[i];
      EXPECT_TRUE(std::isnan(want) ? std::isnan(out[i]) : out[i] == want);
    }
    run("arith.minimumf");
    for (int i = 0; i < n; ++i) {
      float want = std::isnan(a[i]) || std::isnan(b[i]) ? NAN : a[i] < b[i] ? a[i] : b[i];
      EXPECT_TRUE(std::isnan(want) ? std::isnan(out[i]) : out[i] == want);
    }
  }
}

TEST(Interpreter, MaximumOfZerosIsPlusZero) {
  std::vector<float> a = {0.0f, -0.0f}, b = {-0.0f, 0.0f}, out(2);
  ASSERT_TRUE(RunText(Fill(kBinary, 2, "arith.maximumf"), Launch().Buffer(a).Buffer(b).Buffer(out)).ok());
  EXPECT_FALSE(std::signbit(out[0]) || std::signbit(out[1]));
  ASSERT_TRUE(RunText(Fill(kBinary, 2, "arith.minnumf"), Launch().Buffer(a).Buffer(b).Buffer(out)).ok());
  EXPECT_TRUE(std::signbit(out[0]) && std::signbit(out[1]));
}

TEST(Interpreter, SmallFloatsAreRoundedAfterEachOperation) {
  struct { const char* type; Kind kind; } formats[] = {
      {"f16", Kind::kF16}, {"bf16", Kind::kBf16}, {"f8E4M3FN", Kind::kF8E4M3Fn}, {"f8E5M2", Kind::kF8E5M2}};
  for (auto [type, kind] : formats) {
    const int n = 1024;
    std::mt19937 random(3);
    const bool wide = Bytes(kind) == 2;
    std::vector<uint16_t> a16(n), b16(n), out16(n);
    std::vector<uint8_t> a8(n), b8(n), out8(n);
    for (int i = 0; i < n; ++i) {
      a16[i] = uint16_t(random()), b16[i] = uint16_t(random());
      a8[i] = uint8_t(random()), b8[i] = uint8_t(random());
    }
    for (const char* op : {"arith.addf", "arith.mulf", "arith.divf"}) {
      Launch launch;
      if (wide) launch.Buffer(a16).Buffer(b16).Buffer(out16);
      else launch.Buffer(a8).Buffer(b8).Buffer(out8);
      ASSERT_TRUE(RunText(Fill(kBinary, n, op, type), launch).ok()) << op << " " << type;
      for (int i = 0; i < n; ++i) {
        double x = DecodeSmallFloat(kind, wide ? a16[i] : a8[i]), y = DecodeSmallFloat(kind, wide ? b16[i] : b8[i]);
        double exact = std::strcmp(op, "arith.addf") == 0 ? x + y : std::strcmp(op, "arith.mulf") == 0 ? x * y : x / y;
        uint32_t want = EncodeSmallFloat(kind, exact, false), got = wide ? out16[i] : out8[i];
        if (std::isnan(exact)) ASSERT_TRUE(std::isnan(DecodeSmallFloat(kind, got)));
        else ASSERT_EQ(got, want) << type << " " << op << " " << x << " " << y;
      }
    }
  }
}

TEST(Interpreter, IntegersWrapAndDivisionNeverTraps) {
  std::vector<int32_t> a = {INT_MAX, INT_MIN, -7, 7, 5, INT_MIN, 0, -1}, b = {1, -1, 2, -2, 0, 0, 3, 31}, out(8);
  auto run = [&](const char* op) {
    ASSERT_TRUE(RunText(Fill(kBinary, 8, op, "i32"), Launch().Buffer(a).Buffer(b).Buffer(out)).ok()) << op;
  };
  run("arith.addi");
  EXPECT_EQ(out[0], INT_MIN);
  run("arith.muli");
  EXPECT_EQ(out[1], INT_MIN);
  run("tile.divs");
  EXPECT_EQ(out[2], -3);
  EXPECT_EQ(out[3], -3);
  run("tile.rems");
  EXPECT_EQ(out[2], -1);
  EXPECT_EQ(out[3], 1);
  run("tile.divu");
  EXPECT_EQ(uint32_t(out[2]), (0u - 7) / 2);
  run("arith.shrsi");
  EXPECT_EQ(out[7], -1);
  run("arith.shrui");
  EXPECT_EQ(out[7], 1);
  run("tile.mulhiu");
  EXPECT_EQ(uint32_t(out[1]), uint32_t((uint64_t(0x80000000u) * 0xffffffffu) >> 32));
  run("arith.minsi");
  EXPECT_EQ(out[0], 1);
  run("arith.maxui");
  EXPECT_EQ(out[1], -1);
}

TEST(Interpreter, NarrowIntegersWrapAtTheirWidth) {
  std::vector<int8_t> a = {127, -128, 100, -1}, b = {1, -1, 100, -1}, out(4);
  ASSERT_TRUE(RunText(Fill(kBinary, 4, "arith.addi", "i8"), Launch().Buffer(a).Buffer(b).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(-128, 127, -56, -2));
  ASSERT_TRUE(RunText(Fill(kBinary, 4, "arith.muli", "i8"), Launch().Buffer(a).Buffer(b).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(127, -128, 16, 1));
  std::vector<uint16_t> c = {65535, 40000}, d = {65535, 40000}, wide(2);
  ASSERT_TRUE(RunText(Fill(kBinary, 2, "arith.muli", "i16"), Launch().Buffer(c).Buffer(d).Buffer(wide)).ok());
  EXPECT_THAT(wide, ::testing::ElementsAre(1, uint16_t(40000u * 40000u)));
}

TEST(Interpreter, FloatToIntegerTruncatesAndSaturates) {
  std::vector<float> a = {1.9f, -1.9f, NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 255.5f};
  std::vector<int32_t> out(8);
  ASSERT_TRUE(RunText(Unary(8, "f32", "i32", "tile.fp_to_int %x : tensor<8xf32> -> tensor<8xi32>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(1, -1, 0, INT_MAX, INT_MIN, INT_MAX, INT_MIN, 255));
  std::vector<uint8_t> bytes(8);
  ASSERT_TRUE(RunText(Unary(8, "f32", "i8", "tile.fp_to_int %x {is_unsigned} : tensor<8xf32> -> tensor<8xi8>"), Launch().Buffer(a).Buffer(bytes)).ok());
  EXPECT_THAT(bytes, ::testing::ElementsAre(1, 0, 0, 255, 0, 255, 0, 255));
  std::vector<int64_t> longs(8);
  ASSERT_TRUE(RunText(Unary(8, "f32", "i64", "tile.fp_to_int %x : tensor<8xf32> -> tensor<8xi64>"), Launch().Buffer(a).Buffer(longs)).ok());
  EXPECT_THAT(longs, ::testing::ElementsAre(1, -1, 0, INT64_MAX, INT64_MIN, 3000000000, -3000000000, 255));
}

TEST(Interpreter, IntegerToSmallFloatRoundsOnce) {
  // 2^60 + 2^52 + 1: a double drops the 1, and what is left would be a tie of bf16 that goes to even.
  std::vector<int64_t> a = {(int64_t{1} << 60) + (int64_t{1} << 52) + 1, -3, 0, 70000};
  std::vector<uint16_t> out(4);
  ASSERT_TRUE(RunText(Unary(4, "i64", "bf16", "arith.sitofp %x : tensor<4xi64> to tensor<4xbf16>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_EQ(Bf16ToFloat(out[0]), std::ldexp(1.0f + 1 / 128.0f, 60));
  EXPECT_EQ(Bf16ToFloat(out[1]), -3.0f);
  ASSERT_TRUE(RunText(Unary(4, "i64", "f16", "arith.uitofp %x : tensor<4xi64> to tensor<4xf16>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_EQ(out[3], 0x7c00);
}

TEST(Interpreter, ConversionsToFp8SaturateAndBackAreExact) {
  std::vector<float> a = {500.0f, -1e9f, NAN, INFINITY, 0.0f, -0.0f, 1.0625f, 1.1875f};
  std::vector<uint8_t> out(8);
  ASSERT_TRUE(RunText(Unary(8, "f32", "f8E4M3FN", "tile.fp_to_fp %x : tensor<8xf32> -> tensor<8xf8E4M3FN>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(0x7e, 0xfe, 0x7f, 0x7e, 0x00, 0x80, 0x38, 0x3a));
  ASSERT_TRUE(RunText(Unary(8, "f32", "f8E4M3FN", "tile.fp_to_fp %x {rounding = #tile<rounding rtz>} : tensor<8xf32> -> tensor<8xf8E4M3FN>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(0x7e, 0xfe, 0x7f, 0x7e, 0x00, 0x80, 0x38, 0x39));
  std::vector<uint8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[i] = uint8_t(i);
  std::vector<float> values(256);
  for (auto [type, kind] : std::initializer_list<std::pair<const char*, Kind>>{
           {"f8E4M3FN", Kind::kF8E4M3Fn}, {"f8E5M2", Kind::kF8E5M2}, {"f8E4M3FNUZ", Kind::kF8E4M3Fnuz}, {"f8E5M2FNUZ", Kind::kF8E5M2Fnuz}}) {
    std::string op = absl::StrReplaceAll("tile.fp_to_fp %x : tensor<256x$T> -> tensor<256xf32>", {{"$T", type}});
    ASSERT_TRUE(RunText(Unary(256, type, "f32", op), Launch().Buffer(codes).Buffer(values)).ok());
    for (int i = 0; i < 256; ++i) EXPECT_TRUE(Same(values[i], DecodeSmallFloat(kind, i))) << type << " " << i;
  }
}

TEST(Interpreter, MathFollowsLibmWithinOneUnitInTheLastPlace) {
  struct { const char* op; double (*reference)(double); } functions[] = {
      {"math.exp", std::exp}, {"math.log", std::log}, {"math.sqrt", std::sqrt}, {"math.sin", std::sin},
      {"math.tanh", std::tanh}, {"math.erf", std::erf}, {"math.exp2", std::exp2}, {"math.floor", std::floor}};
  const int n = 128;
  std::vector<float> a = RandomFloats(n, 5), out(n);
  for (auto [op, reference] : functions) {
    ASSERT_TRUE(RunText(Unary(n, "f32", "f32", std::string(op) + " %x : tensor<128xf32>"), Launch().Buffer(a).Buffer(out)).ok());
    for (int i = 0; i < n; ++i) {
      float want = float(reference(a[i]));
      if (std::isnan(want)) EXPECT_TRUE(std::isnan(out[i])) << op << a[i];
      else if (std::isinf(want)) EXPECT_EQ(out[i], want);
      else EXPECT_NEAR(out[i], want, std::fabs(want) * 1.2e-7 + 1e-45) << op << " " << a[i];
    }
  }
}

TEST(Interpreter, FloorAndCeilFlushSubnormals) {
  std::vector<float> a = {1e-40f, -1e-40f, 0.5f, -0.5f}, out(4);
  ASSERT_TRUE(RunText(Unary(4, "f32", "f32", "math.ceil %x : tensor<4xf32>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(0.0f, 0.0f, 1.0f, 0.0f));
  ASSERT_TRUE(RunText(Unary(4, "f32", "f32", "math.floor %x : tensor<4xf32>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(0.0f, 0.0f, 0.0f, -1.0f));
}

TEST(Interpreter, LibdeviceFunctionsAreCalledByName) {
  std::vector<float> a = {0.5f, -2.0f}, out(2);
  ASSERT_TRUE(RunText(Unary(2, "f32", "f32", "tile.extern \"__nv_tanhf\"(%x) : (tensor<2xf32>) -> tensor<2xf32>"), Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_NEAR(out[0], std::tanh(0.5), 1e-7);
  absl::Status unknown = RunText(Unary(2, "f32", "f32", "tile.extern \"__nv_nothing\"(%x) : (tensor<2xf32>) -> tensor<2xf32>"), Launch().Buffer(a).Buffer(out));
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("__nv_nothing"));
}

TEST(Interpreter, BooleansAreOneBit) {
  std::vector<int32_t> a = {0, 1, 2, -1}, out(4);
  const std::string text = Unary(4, "i32", "i32", R"(arith.extsi %and : tensor<4xi1> to tensor<4xi32>)");
  const std::string with_compare = absl::StrReplaceAll(text, {{"%r = ", R"(%zero = arith.constant dense<0> : tensor<4xi32>
  %one = arith.constant dense<1> : tensor<4xi32>
  %true = arith.constant dense<true> : tensor<4xi1>
  %c = arith.cmpi sgt, %x, %zero : tensor<4xi32>
  %d = arith.cmpi ule, %x, %one : tensor<4xi32>
  %sum = arith.addi %c, %true : tensor<4xi1>
  %or = arith.ori %sum, %d : tensor<4xi1>
  %and = arith.xori %or, %true : tensor<4xi1>
  %r = )"}});
  ASSERT_TRUE(RunText(with_compare, Launch().Buffer(a).Buffer(out)).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(0, 0, -1, 0));  // not (not (x > 0) or unsigned x <= 1)
}

//===-- memory --------------------------------------------------------------------------------===//

const char kMaskedCopy[] = R"(
func.func @masked(%a: !tile.ptr<f32> {tile.name = "x_ptr"}, %out: !tile.ptr<f32> {tile.name = "y_ptr"}, %n: i32) attributes {tile.kernel} {
  %pid = tile.program_id 0 : i32
  %size = arith.constant $N : i32
  %start = arith.muli %pid, %size : i32
  %s = tile.splat %start : i32 -> tensor<$Nxi32>
  %r = tile.range {start = 0 : i32, end = $N : i32} : tensor<$Nxi32>
  %i = arith.addi %s, %r : tensor<$Nxi32>
  %limit = tile.splat %n : i32 -> tensor<$Nxi32>
  %mask = arith.cmpi slt, %i, %limit : tensor<$Nxi32>
  %other = arith.constant dense<-1.0> : tensor<$Nxf32>
  %pa = tile.splat %a : !tile.ptr<f32> -> tensor<$Nx!tile.ptr<f32>>
  %qa = tile.addptr %pa, %i : tensor<$Nx!tile.ptr<f32>>, tensor<$Nxi32>
  %x = tile.load %qa mask %mask : tensor<$Nxi1> other %other : tensor<$Nxf32> : tensor<$Nx!tile.ptr<f32>> -> tensor<$Nxf32> loc("k.py":14:9)
  %po = tile.splat %out : !tile.ptr<f32> -> tensor<$Nx!tile.ptr<f32>>
  %qo = tile.addptr %po, %i : tensor<$Nx!tile.ptr<f32>>, tensor<$Nxi32>
  tile.store %qo, %x : tensor<$Nx!tile.ptr<f32>>, tensor<$Nxf32> loc("k.py":15:5)
  return
})";

TEST(Interpreter, MaskedOffLanesAreNotTouchedAndYieldOther) {
  for (int n : kShapes) {
    // Everything behind the first element is outside the extent, and beyond `in` is no memory of ours at all.
    std::vector<float> in = {42.0f}, out(n, 7.0f);
    absl::Status status = RunText(Fill(kMaskedCopy, n), Launch().Buffer(in).Buffer(out).Scalar(1));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0], 42.0f);
    for (int i = 1; i < n; ++i) EXPECT_EQ(out[i], -1.0f);
  }
}

TEST(Interpreter, MaskedOffLanesMayPointAtUnmappedMemory) {
  std::vector<float> out(16);
  Launch launch;
  launch.Scalar(8).Buffer(out).Scalar(0);  // a pointer to nowhere, no lane on
  launch.options.extents.clear();
  ASSERT_TRUE(RunText(Fill(kMaskedCopy, 16), launch).ok());
  EXPECT_EQ(out[15], -1.0f);
}

TEST(Interpreter, AccessesOutsideTheExtentsNameEverythingNeeded) {
  std::vector<float> in(30), out(32);
  absl::Status status = RunText(Fill(kMaskedCopy, 16), Launch().Buffer(in, "x_ptr").Buffer(out, "y_ptr").Scalar(32).Grid(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  char address[32];
  std::snprintf(address, sizeof address, "0x%lx", reinterpret_cast<unsigned long>(in.data() + 30));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("masked (k.py:14)"), HasSubstr("program (1, 0, 0)"), HasSubstr("load of 4 bytes"),
                    HasSubstr("lane [14]"), HasSubstr(address), HasSubstr("0 bytes behind the end of 'x_ptr' (120 bytes)")));
}

TEST(Interpreter, StoresToReadOnlyBuffersAreRefused) {
  std::vector<float> in(16), out(16);
  absl::Status status = RunText(Fill(kMaskedCopy, 16), Launch().Buffer(in, "x_ptr").Buffer(out, "y_ptr", true).Scalar(16));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("k.py:15"), HasSubstr("store"), HasSubstr("read-only")));
}

TEST(Interpreter, MisalignedAccessesAreRefused) {
  std::vector<float> in(17), out(16);
  Launch launch;
  launch.Buffer(in, "x_ptr").Buffer(out, "y_ptr").Scalar(16);
  launch.params[0] += 2;
  absl::Status status = RunText(Fill(kMaskedCopy, 16), launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not aligned"));
}

TEST(Interpreter, ArgumentsMustKeepTheDivisibilityTheyWereCompiledFor) {
  const std::string text = R"(func.func @f(%n: i32 {tile.name = "n", tile.divisibility = 16 : i64}) attributes {tile.kernel} { return })";
  EXPECT_TRUE(RunText(text, Launch().Scalar(48)).ok());
  absl::Status status = RunText(text, Launch().Scalar(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'n' = 50 is no multiple of 16"));
}

const char kAtomics[] = R"(
func.func @count(%p: !tile.ptr<$T>, %old: !tile.ptr<$T>) attributes {tile.kernel} {
  %c = arith.constant dense<$V> : tensor<64x$T>
  %q = tile.splat %p : !tile.ptr<$T> -> tensor<64x!tile.ptr<$T>>
  %r = tile.atomic_rmw $OP, acq_rel, gpu, %q, %c : tensor<64x!tile.ptr<$T>>, tensor<64x$T> -> tensor<64x$T>
  %i = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %o = tile.splat %old : !tile.ptr<$T> -> tensor<64x!tile.ptr<$T>>
  %oo = tile.addptr %o, %i : tensor<64x!tile.ptr<$T>>, tensor<64xi32>
  tile.store %oo, %r : tensor<64x!tile.ptr<$T>>, tensor<64x$T>
  return
})";

std::string Atomics(const std::string& op, const std::string& type, const std::string& value) {
  return absl::StrReplaceAll(kAtomics, {{"$OP", op}, {"$T", type}, {"$V", value}});
}

TEST(Interpreter, AtomicsAccumulateDuplicateAddressesAndYieldTheOldValues) {
  std::vector<int32_t> sum = {5}, old(64);
  ASSERT_TRUE(RunText(Atomics("add", "i32", "3"), Launch().Buffer(sum).Buffer(old)).ok());
  EXPECT_EQ(sum[0], 5 + 3 * 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(old[i], 5 + 3 * i);
  std::vector<float> fsum = {0.5f}, fold(64);
  ASSERT_TRUE(RunText(Atomics("fadd", "f32", "2.0"), Launch().Buffer(fsum).Buffer(fold)).ok());
  EXPECT_EQ(fsum[0], 128.5f);
  std::vector<uint16_t> hsum = {0}, hold(64);
  ASSERT_TRUE(RunText(Atomics("fadd", "f16", "0.25"), Launch().Buffer(hsum).Buffer(hold)).ok());
  EXPECT_EQ(F16ToFloat(hsum[0]), 16.0f);
  std::vector<int64_t> most = {-5}, mold(64);
  ASSERT_TRUE(RunText(Atomics("max", "i64", "-2"), Launch().Buffer(most).Buffer(mold)).ok());
  EXPECT_EQ(most[0], -2);
  ASSERT_TRUE(RunText(Atomics("umin", "i64", "7"), Launch().Buffer(most).Buffer(mold)).ok());
  EXPECT_EQ(most[0], 7);
  ASSERT_TRUE(RunText(Atomics("xchg", "i64", "1"), Launch().Buffer(most).Buffer(mold)).ok());
  EXPECT_EQ(most[0], 1);
  EXPECT_EQ(mold[0], 7);
  EXPECT_EQ(mold[1], 1);
}

TEST(Interpreter, AtomicsOfProgramsInSeveralThreadsAddUp) {
  auto kernel = CompileText(Atomics("add", "i32", "1"));
  ASSERT_TRUE(kernel.ok());
  std::vector<int32_t> sum = {0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      std::vector<int32_t> old(64);
      Launch launch;
      ASSERT_TRUE(launch.Buffer(sum).Buffer(old).Grid(100).Run(**kernel).ok());
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sum[0], 4 * 100 * 64);
}

TEST(Interpreter, CompareAndSwapStoresOnceOnly) {
  std::vector<int32_t> lock = {0}, out(2, -1);
  ASSERT_TRUE(RunText(R"(
func.func @cas(%p: !tile.ptr<i32>, %out: !tile.ptr<i32>) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = tile.atomic_cas acq_rel, gpu, %p, %zero, %one : !tile.ptr<i32>, i32
  %b = tile.atomic_cas acq_rel, gpu, %p, %zero, %one : !tile.ptr<i32>, i32
  tile.store %out, %a : !tile.ptr<i32>, i32
  %q = tile.addptr %out, %one : !tile.ptr<i32>, i32
  tile.store %q, %b : !tile.ptr<i32>, i32
  return
})", Launch().Buffer(lock).Buffer(out)).ok());
  EXPECT_EQ(lock[0], 1);
  EXPECT_THAT(out, ::testing::ElementsAre(0, 1));
}

//===-- control flow --------------------------------------------------------------------------===//

const char kLoop[] = R"(
func.func @loop(%out: !tile.ptr<i32>, %n: i32, %step: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // (a, b) -> (b, a + i): the carried values change places.
  %r:2 = scf.for %i = %zero to %n step %step iter_args(%a = %one, %b = %zero) -> (i32, i32) : i32 {
    %s = arith.addi %a, %i : i32
    scf.yield %b, %s : i32, i32
  }
  tile.store %out, %r#0 : !tile.ptr<i32>, i32
  %q = tile.addptr %out, %one : !tile.ptr<i32>, i32
  tile.store %q, %r#1 : !tile.ptr<i32>, i32
  return
})";

TEST(Interpreter, LoopsCarryValuesInParallel) {
  for (int n : {-3, 0, 1, 2, 7, 100}) {
    std::vector<int32_t> out(2);
    ASSERT_TRUE(RunText(kLoop, Launch().Buffer(out).Scalar(uint64_t(int64_t(n))).Scalar(3)).ok());
    int a = 1, b = 0;
    for (int i = 0; i < n; i += 3) {
      int s = a + i;
      a = b, b = s;
    }
    EXPECT_THAT(out, ::testing::ElementsAre(a, b)) << n;
  }
}

TEST(Interpreter, ANegativeStepAtRunTimeIsAZeroTripLoopWithARemark) {
  std::vector<int32_t> out(2);
  std::string remark;
  Launch launch;
  launch.Buffer(out).Scalar(uint64_t(-4)).Scalar(uint64_t(-1));
  launch.options.print = [&](const std::string& line) { remark = line; };
  ASSERT_TRUE(RunText(kLoop, launch).ok());
  EXPECT_THAT(out, ::testing::ElementsAre(1, 0));
  EXPECT_THAT(remark, HasSubstr("negative"));
}

TEST(Interpreter, WhileLoopsAndBranchesRunStructured) {
  const char text[] = R"(
func.func @collatz(%out: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %three = arith.constant 3 : i32
  %r:2 = scf.while (%x = %n, %steps = %zero) : (i32, i32) -> (i32, i32) {
    %go = arith.cmpi ne, %x, %one : i32
    scf.condition(%go) %steps, %x : i32, i32
  } do {
  ^bb0(%steps: i32, %x: i32):
    %bit = arith.andi %x, %one : i32
    %odd = arith.cmpi eq, %bit, %one : i32
    %next = scf.if %odd -> i32 {
      %m = arith.muli %x, %three : i32
      %p = arith.addi %m, %one : i32
      scf.yield %p : i32
    } else {
      %h = tile.divs %x, %two : i32
      scf.yield %h : i32
    }
    %s = arith.addi %steps, %one : i32
    scf.yield %next, %s : i32, i32
  }
  tile.store %out, %r#0 : !tile.ptr<i32>, i32
  return
})";
  std::vector<int32_t> out(1);
  ASSERT_TRUE(RunText(text, Launch().Buffer(out).Scalar(27)).ok());
  EXPECT_EQ(out[0], 111);
  ASSERT_TRUE(RunText(text, Launch().Buffer(out).Scalar(1)).ok());
  EXPECT_EQ(out[0], 0);
}

TEST(Interpreter, CallsAreExpandedAndRecursionIsRefused) {
  std::vector<int32_t> out(1);
  ASSERT_TRUE(RunText(R"(
func.func @double(%x: i32) -> i32 {
  %r = arith.addi %x, %x : i32
  return %r : i32
}
func.func @main(%out: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  %a = func.call @double(%n) : (i32) -> i32
  %b = func.call @double(%a) : (i32) -> i32
  %c = arith.addi %a, %b : i32
  tile.store %out, %c : !tile.ptr<i32>, i32
  return
})", Launch().Buffer(out).Scalar(5)).ok());
  EXPECT_EQ(out[0], 30);
  absl::Status status = RunText(R"(
func.func @f() attributes {tile.kernel} { func.call @f() : () -> () return })", Launch());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
}

TEST(Interpreter, ProgramsRunInAnyOrderWithEveryIndexOnce) {
  const char text[] = R"(
func.func @ids(%next: !tile.ptr<i32>, %order: !tile.ptr<i32>) attributes {tile.kernel} {
  %one = arith.constant 1 : i32
  %x = tile.program_id 0 : i32
  %y = tile.program_id 1 : i32
  %w = tile.num_programs 0 : i32
  %m = arith.muli %y, %w : i32
  %id = arith.addi %m, %x : i32
  %at = tile.atomic_rmw add, relaxed, gpu, %next, %one : !tile.ptr<i32>, i32 -> i32
  %p = tile.addptr %order, %at : !tile.ptr<i32>, i32
  tile.store %p, %id : !tile.ptr<i32>, i32
  return
})";
  std::vector<int32_t> want(12);
  for (int i = 0; i < 12; ++i) want[i] = i;
  std::vector<int32_t> next = {0}, order(12);
  ASSERT_TRUE(RunText(text, Launch().Buffer(next).Buffer(order).Grid(4, 3)).ok());
  EXPECT_EQ(order, want);
  Launch shuffled;
  next[0] = 0;
  shuffled.Buffer(next).Buffer(order).Grid(4, 3);
  shuffled.options.program_order_seed = 99;
  ASSERT_TRUE(RunText(text, shuffled).ok());
  EXPECT_NE(order, want);
  EXPECT_THAT(order, ::testing::UnorderedElementsAreArray(want));
}

//===-- checks and output ---------------------------------------------------------------------===//

TEST(Interpreter, AssertionsStopTheLaunchWithTheirLane) {
  const char text[] = R"(
func.func @check(%n: i32) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
  %l = tile.splat %n : i32 -> tensor<8xi32>
  %c = arith.cmpi slt, %i, %l : tensor<8xi32>
  tile.assert %c, "index within n" : tensor<8xi1> loc("a.py":3:5)
  return
})";
  EXPECT_TRUE(RunText(text, Launch().Scalar(8)).ok());
  absl::Status status = RunText(text, Launch().Scalar(5).Grid(1, 2));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("index within n"), HasSubstr("a.py:3"), HasSubstr("lane [5]")));
}

TEST(Interpreter, BrokenPromisesAreCaught) {
  auto hint = [](const std::string& attributes) {
    return absl::StrReplaceAll(R"(
func.func @hint(%n: i32) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
  %l = tile.splat %n : i32 -> tensor<8xi32>
  %s = arith.addi %i, %l : tensor<8xi32>
  %h = tile.hint %s {$A} : tensor<8xi32>
  return
})", {{"$A", attributes}});
  };
  auto strict = [](int64_t n) {
    Launch launch;
    launch.Scalar(n);
    launch.options.strict_hints = true;
    return launch;
  };
  const std::string divisible = hint("divisibility = array<i64: 8>");
  EXPECT_TRUE(RunText(divisible, strict(16)).ok());
  EXPECT_EQ(RunText(divisible, strict(12)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RunText(hint("contiguity = array<i64: 8>"), strict(3)).ok());
  EXPECT_EQ(RunText(hint("constancy = array<i64: 2>"), strict(3)).code(), absl::StatusCode::kFailedPrecondition);
  // By default the launch goes on, and each place is remarked once.
  std::vector<std::string> remarks;
  Launch lenient;
  lenient.Scalar(12).Grid(3);
  lenient.options.print = [&](const std::string& line) { remarks.push_back(line); };
  EXPECT_TRUE(RunText(divisible, lenient).ok());
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0], HasSubstr("lane [0] = 12 is no multiple of 8"));
  const char assume[] = R"(
func.func @assume(%n: i32) attributes {tile.kernel} {
  %z = arith.constant 0 : i32
  %c = arith.cmpi sgt, %n, %z : i32
  tile.assume %c
  return
})";
  EXPECT_TRUE(RunText(assume, Launch().Scalar(1)).ok());
  EXPECT_EQ(RunText(assume, Launch().Scalar(0)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Interpreter, PrintsLaneByLane) {
  std::vector<std::string> lines;
  Launch launch;
  launch.Scalar(uint64_t(-3)).Grid(2);
  launch.options.print = [&](const std::string& line) { lines.push_back(line); };
  absl::Status status = RunText(R"(
func.func @show(%n: i32) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 2 : i32} : tensor<2xi32>
  tile.print "i: "(%i) {hex = false, is_unsigned = array<i1: false>} : tensor<2xi32>
  tile.print "n: "(%n) {hex = true, is_unsigned = array<i1: false>} : i32
  return
})", launch);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(lines, ::testing::ElementsAre("pid (0, 0, 0) idx (0) i: 0", "pid (0, 0, 0) idx (1) i: 1", "pid (0, 0, 0) idx () n: 0xfffffffd",
                                            "pid (1, 0, 0) idx (0) i: 0", "pid (1, 0, 0) idx (1) i: 1", "pid (1, 0, 0) idx () n: 0xfffffffd"));
}

TEST(Interpreter, UnknownOperationsAreNamedWithTheirPlace) {
  absl::Status status = RunText(R"(
func.func @asm(%n: i32) attributes {tile.kernel} {
  %r = tile.inline_asm "mov.u32 $0, $1;", "=r,r" (%n) {is_pure = true, pack = 1 : i32} : (i32) -> i32 loc("p.py":9:1)
  return
})", Launch().Scalar(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("tile.inline_asm"), HasSubstr("p.py:9")));
}

}  // namespace
}  // namespace tessera::interpreter
