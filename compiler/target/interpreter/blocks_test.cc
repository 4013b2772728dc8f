// The interpreter on operations over whole blocks, against plain loops in double precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/target/interpreter/formats.h"
#include "compiler/target/interpreter/test_kernel.h"

namespace tessera::interpreter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const int kShapes[] = {1, 2, 16, 128, 1024};

std::string Tensor(const std::string& shape, const std::string& type) { return absl::StrCat("tensor<", shape, "x", type, ">"); }

int Elements(const std::string& shape) {
  int n = 1;
  for (size_t at = 0; at < shape.size(); at = shape.find('x', at) == std::string::npos ? shape.size() : shape.find('x', at) + 1)
    n *= std::stoi(shape.substr(at));
  return n;
}

// IR that loads (or stores) a row-major block of `shape` at %pointer into %name.
std::string Addresses(const std::string& name, const std::string& shape, const std::string& type) {
  const int n = Elements(shape);
  return absl::StrReplaceAll(R"(
  %$P_i = tile.range {start = 0 : i32, end = $N : i32} : tensor<$Nxi32>
  %$P_s = tile.splat %$P : !tile.ptr<$T> -> tensor<$Nx!tile.ptr<$T>>
  %$P_a = tile.addptr %$P_s, %$P_i : tensor<$Nx!tile.ptr<$T>>, tensor<$Nxi32>
  %$P_p = tile.reshape %$P_a : tensor<$Nx!tile.ptr<$T>> -> tensor<$Sx!tile.ptr<$T>>)",
                             {{"$P", name}, {"$N", std::to_string(n)}, {"$T", type}, {"$S", shape}});
}
std::string LoadBlock(const std::string& value, const std::string& pointer, const std::string& shape, const std::string& type) {
  return absl::StrCat(Addresses(pointer, shape, type), "\n  %", value, " = tile.load %", pointer, "_p : ",
                      Tensor(shape, "!tile.ptr<" + type + ">"), " -> ", Tensor(shape, type), "\n");
}
std::string StoreBlock(const std::string& value, const std::string& pointer, const std::string& shape, const std::string& type) {
  return absl::StrCat(Addresses(pointer, shape, type), "\n  tile.store %", pointer, "_p, %", value, " : ",
                      Tensor(shape, "!tile.ptr<" + type + ">"), ", ", Tensor(shape, type), "\n");
}

// A kernel (a) -> out with `body` between.
std::string OneToOne(const std::string& shape, const std::string& type, const std::string& out_shape, const std::string& out_type,
                     const std::string& body) {
  return absl::StrCat("func.func @f(%a: !tile.ptr<", type, ">, %out: !tile.ptr<", out_type, ">) attributes {tile.kernel} {",
                      LoadBlock("x", "a", shape, type), body, StoreBlock("r", "out", out_shape, out_type), "return }");
}

std::string Combine(const std::string& op, const std::string& type) {
  return absl::StrCat(" {\n^bb0(%p: ", type, ", %q: ", type, "):\n %c = ", op, " %p, %q : ", type, "\n tile.yield %c : ", type, "\n}\n");
}

std::vector<float> Normal(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

//===-- shape ---------------------------------------------------------------------------------===//

std::vector<int32_t> RunInts(const std::string& text, std::vector<int32_t> in, int out) {
  std::vector<int32_t> result(out, -77);
  absl::Status status = RunText(text, Launch().Buffer(in).Buffer(result));
  EXPECT_TRUE(status.ok()) << status << "\n" << text;
  return result;
}

TEST(Blocks, BroadcastRepeatsAndTransPermutes) {
  EXPECT_THAT(RunInts(OneToOne("2x1", "i32", "2x4", "i32", "%r = tile.broadcast %x : tensor<2x1xi32> -> tensor<2x4xi32>"), {1, 2}, 8),
              ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(RunInts(OneToOne("1x2", "i32", "4x2", "i32", "%r = tile.broadcast %x : tensor<1x2xi32> -> tensor<4x2xi32>"), {1, 2}, 8),
              ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(RunInts(OneToOne("2x4", "i32", "4x2", "i32", "%r = tile.trans %x {order = array<i32: 1, 0>} : tensor<2x4xi32> -> tensor<4x2xi32>"), {0, 1, 2, 3, 4, 5, 6, 7}, 8),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  std::vector<int32_t> in(16), want(16);
  for (int i = 0; i < 16; ++i) in[i] = i;
  // [2, 4, 2] with order (2, 0, 1): result[k, i, j] = source[i, j, k].
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 2; ++k) want[(k * 2 + i) * 4 + j] = in[(i * 4 + j) * 2 + k];
  EXPECT_EQ(RunInts(OneToOne("2x4x2", "i32", "2x2x4", "i32", "%r = tile.trans %x {order = array<i32: 2, 0, 1>} : tensor<2x4x2xi32> -> tensor<2x2x4xi32>"), in, 16), want);
}

TEST(Blocks, JoinSplitAndCatKeepTheOrder) {
  EXPECT_THAT(RunInts(OneToOne("2", "i32", "2x2", "i32", "%y = arith.addi %x, %x : tensor<2xi32>\n %r = tile.join %x, %y : tensor<2xi32> -> tensor<2x2xi32>"), {1, 5}, 4),
              ElementsAre(1, 2, 5, 10));
  EXPECT_THAT(RunInts(OneToOne("2x2", "i32", "4", "i32", "%l, %h = tile.split %x : tensor<2x2xi32> -> tensor<2xi32>, tensor<2xi32>\n %r = tile.cat %h, %l : tensor<2xi32> -> tensor<4xi32>"), {1, 2, 3, 4}, 4),
              ElementsAre(2, 4, 1, 3));
}

TEST(Blocks, GatherPicksAlongItsAxisAndChecksTheIndex) {
  const std::string text = OneToOne("2x2", "i32", "2x2", "i32", R"(%i = arith.constant dense<[[1, 1], [0, 1]]> : tensor<2x2xi32>
  %r = tile.gather %x[%i] {axis = 1 : i32} : tensor<2x2xi32>, tensor<2x2xi32> -> tensor<2x2xi32>)");
  EXPECT_THAT(RunInts(text, {10, 11, 20, 21}, 4), ElementsAre(11, 11, 20, 21));
  std::vector<int32_t> in(4), out(4);
  absl::Status status = RunText(absl::StrReplaceAll(text, {{"[1, 1]", "[2, 1]"}}), Launch().Buffer(in).Buffer(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
}

TEST(Blocks, HistogramCountsOnlyWhatFallsIntoABin) {
  EXPECT_THAT(RunInts(OneToOne("8", "i32", "4", "i32", "%r = tile.histogram %x : tensor<8xi32> -> tensor<4xi32>"), {0, 3, 3, 1, 4, -1, 3, 0}, 4),
              ElementsAre(2, 1, 0, 3));
}

TEST(Blocks, SortOrdersTheLastDimension) {
  for (int n : kShapes) {
    std::vector<float> in = Normal(2 * n, n), out(2 * n), want = in;
    std::sort(want.begin(), want.begin() + n, std::greater<float>());
    std::sort(want.begin() + n, want.end(), std::greater<float>());
    const std::string shape = absl::StrCat("2x", n), type = Tensor(shape, "f32");
    ASSERT_TRUE(RunText(OneToOne(shape, "f32", shape, "f32", "%r = tile.sort %x {descending} : " + type), Launch().Buffer(in).Buffer(out)).ok());
    EXPECT_EQ(out, want);
  }
  EXPECT_THAT(RunInts(OneToOne("4", "i32", "4", "i32", "%r = tile.sort %x {is_unsigned} : tensor<4xi32>"), {-1, 5, 0, 7}, 4), ElementsAre(0, 5, 7, -1));
}

//===-- reductions ----------------------------------------------------------------------------===//

TEST(Blocks, ReduceSumsEveryAxis) {
  for (auto [rows, columns] : {std::pair(1, 1), {1, 1024}, {16, 16}, {128, 2}, {2, 128}, {64, 64}}) {
    const std::string shape = absl::StrCat(rows, "x", columns), type = Tensor(shape, "f32");
    std::vector<float> in = Normal(rows * columns, 3);
    for (int axis : {0, 1}) {
      const int extent = axis ? columns : rows, rest = axis ? rows : columns;
      std::vector<float> out(rest);
      const std::string result = Tensor(std::to_string(rest), "f32");
      const std::string body = absl::StrCat("%r = tile.reduce(%x) axis ", axis, " : (", type, ") -> ", result, Combine("arith.addf", "f32"));
      ASSERT_TRUE(RunText(OneToOne(shape, "f32", std::to_string(rest), "f32", body), Launch().Buffer(in).Buffer(out)).ok());
      for (int r = 0; r < rest; ++r) {
        double want = 0, size = 0;
        for (int i = 0; i < extent; ++i) {
          double v = axis ? in[r * columns + i] : in[i * columns + r];
          want += v, size += std::fabs(v);
        }
        EXPECT_NEAR(out[r], want, size * 1.2e-7 * (std::log2(extent) + 1));
      }
    }
  }
}

TEST(Blocks, OrderedReduceGoesElementByElement) {
  std::vector<float> in = Normal(128, 9), out(1);
  const std::string body = R"(%s = tile.reduce(%x) axis 0 {ordered} : (tensor<128xf32>) -> f32)" + Combine("arith.addf", "f32") +
                           "%r = tile.splat %s : f32 -> tensor<1xf32>";
  ASSERT_TRUE(RunText(OneToOne("128", "f32", "1", "f32", body), Launch().Buffer(in).Buffer(out)).ok());
  float want = in[0];
  for (int i = 1; i < 128; ++i) want += in[i];
  EXPECT_EQ(out[0], want);
}

TEST(Blocks, MaximumLosesNanAndSmallFloatsStaySmall) {
  std::vector<uint16_t> in(16), out(1);
  for (int i = 0; i < 16; ++i) in[i] = FloatToF16(i == 3 ? NAN : float(i) - 100);
  auto reduce = [&](const char* op) {
    return OneToOne("16", "f16", "1", "f16", absl::StrCat("%s = tile.reduce(%x) axis 0 : (tensor<16xf16>) -> f16", Combine(op, "f16"), "%r = tile.splat %s : f16 -> tensor<1xf16>"));
  };
  ASSERT_TRUE(RunText(reduce("arith.maxnumf"), Launch().Buffer(in).Buffer(out)).ok());
  EXPECT_EQ(F16ToFloat(out[0]), -85.0f);
  ASSERT_TRUE(RunText(reduce("arith.maximumf"), Launch().Buffer(in).Buffer(out)).ok());
  EXPECT_TRUE(std::isnan(F16ToFloat(out[0])));
  for (auto& v : in) v = FloatToF16(60000);
  ASSERT_TRUE(RunText(reduce("arith.addf"), Launch().Buffer(in).Buffer(out)).ok());
  EXPECT_EQ(out[0], 0x7c00) << "sums overflow at the width of f16";
}

// Value and index together, the leftmost maximum.
const char kArgMax[] = R"(%i = tile.range {start = 0 : i32, end = $N : i32} : tensor<$Nxi32>
  %v, %k = tile.reduce(%x, %i) axis 0 : (tensor<$Nxf32>, tensor<$Nxi32>) -> (f32, i32) {
  ^bb0(%a0: f32, %i0: i32, %a1: f32, %i1: i32):
    %gt = arith.cmpf ogt, %a0, %a1 : f32
    %eq = arith.cmpf oeq, %a0, %a1 : f32
    %lt = arith.cmpi slt, %i0, %i1 : i32
    %tie = arith.andi %eq, %lt : i1
    %first = arith.ori %gt, %tie : i1
    %val = arith.select %first, %a0, %a1 : f32
    %idx = arith.select %first, %i0, %i1 : i32
    tile.yield %val, %idx : f32, i32
  }
  %r = tile.splat %k : i32 -> tensor<1xi32>)";

TEST(Blocks, ArgMaxTakesTheLeftmostOfEqualValues) {
  for (int n : kShapes) {
    std::vector<float> in = Normal(n, 31 + n);
    for (float& v : in) v = std::round(v);
    std::vector<int32_t> out(1);
    const std::string text = OneToOne(std::to_string(n), "f32", "1", "i32", absl::StrReplaceAll(kArgMax, {{"$N", std::to_string(n)}}));
    absl::Status status = RunText(text, Launch().Buffer(in).Buffer(out));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0], std::max_element(in.begin(), in.end()) - in.begin());
  }
}

TEST(Blocks, CombineRegionsMayBranchAndUseConstantsFromOutside) {
  const std::string body = R"(%seven = arith.constant 7 : i32
  %s = tile.reduce(%x) axis 0 {ordered} : (tensor<8xi32>) -> i32 {
  ^bb0(%p: i32, %q: i32):
    %c = arith.cmpi sgt, %q, %seven : i32
    %v = scf.if %c -> i32 {
      scf.yield %seven : i32
    } else {
      %t = arith.addi %p, %q : i32
      scf.yield %t : i32
    }
    tile.yield %v : i32
  }
  %r = tile.splat %s : i32 -> tensor<1xi32>)";
  EXPECT_THAT(RunInts(OneToOne("8", "i32", "1", "i32", body), {1, 2, 3, 9, 4, 5, 0, 1}, 1), ElementsAre(17));
  const std::string straight = R"(%seven = arith.constant 7 : i32
  %s = tile.reduce(%x) axis 0 : (tensor<8xi32>) -> i32 {
  ^bb0(%p: i32, %q: i32):
    %t = arith.xori %p, %q : i32
    %u = arith.andi %t, %seven : i32
    tile.yield %u : i32
  }
  %r = tile.splat %s : i32 -> tensor<1xi32>)";
  EXPECT_THAT(RunInts(OneToOne("8", "i32", "1", "i32", straight), {1, 2, 4, 8, 16, 3, 5, 64}, 1), ElementsAre((1 ^ 2 ^ 4 ^ 3 ^ 5) & 7));
}

TEST(Blocks, ScansKeepTheOrderAlsoInReverse) {
  // a o b = 3a + b is not associative: only strict order gives this result.
  const std::string region = R"( {
  ^bb0(%p: i32, %q: i32):
    %three = arith.constant 3 : i32
    %m = arith.muli %p, %three : i32
    %s = arith.addi %m, %q : i32
    tile.yield %s : i32
  })";
  for (bool reverse : {false, true}) {
    const std::string body = absl::StrCat("%r = tile.scan(%x) axis 1 ", reverse ? "{reverse}" : "", " : (tensor<2x8xi32>) -> tensor<2x8xi32>", region);
    std::vector<int32_t> in(16), want(16);
    for (int i = 0; i < 16; ++i) in[i] = i * i - 7;
    for (int row = 0; row < 2; ++row) {
      int32_t acc = 0;
      for (int k = 0; k < 8; ++k) {
        int i = row * 8 + (reverse ? 7 - k : k);
        acc = k ? 3 * acc + in[i] : in[i];
        want[i] = acc;
      }
    }
    EXPECT_EQ(RunInts(OneToOne("2x8", "i32", "2x8", "i32", body), in, 16), want);
  }
}

TEST(Blocks, ScanAddsAlongEveryShape) {
  for (int n : kShapes) {
    std::vector<float> in = Normal(n, n + 1), out(n);
    const std::string type = Tensor(std::to_string(n), "f32");
    const std::string body = absl::StrCat("%r = tile.scan(%x) axis 0 : (", type, ") -> ", type, Combine("arith.addf", "f32"));
    ASSERT_TRUE(RunText(OneToOne(std::to_string(n), "f32", std::to_string(n), "f32", body), Launch().Buffer(in).Buffer(out)).ok());
    double want = 0, size = 0;
    for (int i = 0; i < n; ++i) {
      want += in[i], size += std::fabs(in[i]);
      EXPECT_NEAR(out[i], want, size * 1.2e-7 * (i + 1));
    }
  }
}

TEST(Blocks, MapAppliesARegionToEachLane) {
  const std::string body = R"(%r = tile.map(%x) : (tensor<4xi32>) -> tensor<4xi32> {
  ^bb0(%v: i32):
    %zero = arith.constant 0 : i32
    %c = arith.cmpi slt, %v, %zero : i32
    %w = scf.if %c -> i32 {
      scf.yield %zero : i32
    } else {
      %d = arith.addi %v, %v : i32
      scf.yield %d : i32
    }
    tile.yield %w : i32
  })";
  EXPECT_THAT(RunInts(OneToOne("4", "i32", "4", "i32", body), {-4, 0, 3, 100}, 4), ElementsAre(0, 0, 6, 200));
}

//===-- dot -----------------------------------------------------------------------------------===//

std::string DotText(int m, int n, int k, const std::string& in, const std::string& acc, const std::string& precision, int batch = 0) {
  auto shape = [&](int rows, int columns) { return batch ? absl::StrCat(batch, "x", rows, "x", columns) : absl::StrCat(rows, "x", columns); };
  const std::string a = shape(m, k), b = shape(k, n), c = shape(m, n);
  return absl::StrCat("func.func @dot(%a: !tile.ptr<", in, ">, %b: !tile.ptr<", in, ">, %c: !tile.ptr<", acc, ">) attributes {tile.kernel} {",
                      LoadBlock("x", "a", a, in), LoadBlock("y", "b", b, in), LoadBlock("z", "c", c, acc),
                      "%r = tile.dot %x, %y, %z, ", precision, " : ", Tensor(a, in), " * ", Tensor(b, in), " -> ", Tensor(c, acc), "\n",
                      "tile.store %c_p, %r : ", Tensor(c, "!tile.ptr<" + acc + ">"), ", ", Tensor(c, acc), "\nreturn }");
}

TEST(Blocks, DotMultipliesInTheStatedPrecision) {
  const int k = 128;
  for (auto [m, n] : {std::pair(1, 1), {2, 16}, {64, 32}}) {
    const std::vector<float> a = Normal(m * k, 1), b = Normal(k * n, 2), c = Normal(m * n, 3);
    // Largest error relative to the sum of magnitudes: accumulation in fp32 plus what the operands lose.
    struct { const char* name; double tolerance; double at_least; } precisions[] = {
        {"ieee", 1e-6, 0}, {"tf32", 2e-3, 1e-6}, {"tf32x3", 2e-6, 0}, {"bf16x3", 3e-5, 0}, {"bf16x6", 2e-6, 0}};
    for (auto [name, tolerance, at_least] : precisions) {
      std::vector<float> x = a, y = b, out = c;
      absl::Status status = RunText(DotText(m, n, k, "f32", "f32", name), Launch().Buffer(x).Buffer(y).Buffer(out));
      ASSERT_TRUE(status.ok()) << status;
      double worst = 0;
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          double want = c[i * n + j], size = std::fabs(want);
          for (int l = 0; l < k; ++l) {
            double p = double(a[i * k + l]) * b[l * n + j];
            want += p, size += std::fabs(p);
          }
          worst = std::max(worst, std::fabs(out[i * n + j] - want) / size);
        }
      EXPECT_LE(worst, tolerance) << name;
      EXPECT_GE(worst, at_least) << name << " should lose the low bits";
    }
  }
}

TEST(Blocks, Tf32DropsTheLowThirteenBits) {
  std::vector<float> a(16, 0.0f), b(16, 0.0f), c = {0.0f};
  a[0] = 1.0f + std::ldexp(1.0f, -10) + std::ldexp(1.0f, -11);  // the last bit goes, without rounding up
  b[0] = 1.0f;
  ASSERT_TRUE(RunText(DotText(1, 1, 16, "f32", "f32", "tf32"), Launch().Buffer(a).Buffer(b).Buffer(c)).ok());
  EXPECT_EQ(c[0], 1.0f + std::ldexp(1.0f, -10));
}

TEST(Blocks, SplitPrecisionsPassInfinitiesAndNan) {
  for (const char* precision : {"tf32x3", "bf16x3", "bf16x6"}) {
    std::vector<float> a(16, 1.0f), b(16, 1.0f), c = {0.0f};
    a[3] = INFINITY;
    ASSERT_TRUE(RunText(DotText(1, 1, 16, "f32", "f32", precision), Launch().Buffer(a).Buffer(b).Buffer(c)).ok());
    EXPECT_EQ(c[0], INFINITY) << precision;
    a[4] = NAN;
    c[0] = 0;
    ASSERT_TRUE(RunText(DotText(1, 1, 16, "f32", "f32", precision), Launch().Buffer(a).Buffer(b).Buffer(c)).ok());
    EXPECT_TRUE(std::isnan(c[0])) << precision;
  }
}

TEST(Blocks, DotOfSmallFloatsIsExactInItsProducts) {
  for (auto [type, kind] : {std::pair("f16", Kind::kF16), {"bf16", Kind::kBf16}}) {
    const int m = 16, n = 16, k = 64, batch = 2;
    std::vector<float> fa = Normal(batch * m * k, 5), fb = Normal(batch * k * n, 6), out(batch * m * n, 0.0f);
    std::vector<uint16_t> a(fa.size()), b(fb.size());
    EncodeLanes(kind, fa.data(), a.data(), a.size());
    EncodeLanes(kind, fb.data(), b.data(), b.size());
    ASSERT_TRUE(RunText(DotText(m, n, k, type, "f32", "ieee", batch), Launch().Buffer(a).Buffer(b).Buffer(out)).ok());
    for (int p = 0; p < batch; ++p)
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          double want = 0, size = 0;
          for (int l = 0; l < k; ++l) {
            double x = double(DecodeSmallFloat(kind, a[(p * m + i) * k + l])) * DecodeSmallFloat(kind, b[(p * k + l) * n + j]);
            want += x, size += std::fabs(x);
          }
          EXPECT_NEAR(out[(p * m + i) * n + j], want, size * 6e-8 * k);
        }
  }
}

TEST(Blocks, DotOfBytesIsExactAndWraps) {
  const int k = 64;
  std::vector<int8_t> a(k), b(k);
  int64_t want = 2147483000;
  for (int i = 0; i < k; ++i) {
    a[i] = int8_t(i * 37), b[i] = int8_t(i * 91 + 5);
    want += a[i] * b[i];
  }
  std::vector<int32_t> c = {2147483000};
  ASSERT_TRUE(RunText(DotText(1, 1, k, "i8", "i32", "ieee"), Launch().Buffer(a).Buffer(b).Buffer(c)).ok());
  EXPECT_EQ(c[0], int32_t(want));
}

//===-- descriptors ---------------------------------------------------------------------------===//

TEST(Blocks, DescriptorsPadAndDropWhatLiesOutside) {
  const char text[] = R"(
func.func @desc(%a: !tile.ptr<f32>, %out: !tile.ptr<f32>) attributes {tile.kernel} {
  %three = arith.constant 3 : i32
  %two = arith.constant 2 : i32
  %zero = arith.constant 0 : i32
  %minus = arith.constant -1 : i32
  %s = arith.constant 3 : i64
  %one = arith.constant 1 : i64
  %in = tile.make_desc %a, [%two, %three], [%s, %one] {nan_padding = true} : !tile.ptr<f32> -> !tile.desc<[2, 2], f32>
  %to = tile.make_desc %out, [%two, %three], [%s, %one] : !tile.ptr<f32> -> !tile.desc<[2, 2], f32>
  %x = tile.desc_load %in[%zero, %two] : !tile.desc<[2, 2], f32> -> tensor<2x2xf32>
  tile.desc_store %to[%zero, %minus], %x : !tile.desc<[2, 2], f32>, tensor<2x2xf32>
  %y = tile.desc_load %in[%zero, %zero] : !tile.desc<[2, 2], f32> -> tensor<2x2xf32>
  tile.desc_store %to[%zero, %zero], %y reduce fadd : !tile.desc<[2, 2], f32>, tensor<2x2xf32>
  return
})";
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, out(6, 0.0f);
  absl::Status status = RunText(text, Launch().Buffer(a).Buffer(out));
  ASSERT_TRUE(status.ok()) << status;
  // Column 3 of the source is padding (NaN): it is stored to column 0, where 1 and 4 are added to it.
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[3]));
  EXPECT_EQ(out[1], 2.0f);
  EXPECT_EQ(out[4], 5.0f);
  EXPECT_EQ(out[2], 0.0f);
}

}  // namespace
}  // namespace tessera::interpreter
