// Conversions between float formats, against values computed from the formats' definitions.
#include "compiler/target/interpreter/formats.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::interpreter {
namespace {

const Kind kFp8Kinds[] = {Kind::kF8E4M3Fn, Kind::kF8E5M2, Kind::kF8E4M3Fnuz, Kind::kF8E5M2Fnuz, Kind::kF8E4M3B11Fnuz};

// The value of an fp8 code by its definition; NaN and infinity by the tables of the formats' papers.
double Reference(Kind kind, int code) {
  const int sign = code >> 7, rest = code & 0x7f;
  const bool e5 = kind == Kind::kF8E5M2 || kind == Kind::kF8E5M2Fnuz;
  const int mantissa_bits = e5 ? 2 : 3, exponent = rest >> mantissa_bits, mantissa = rest & ((1 << mantissa_bits) - 1);
  int bias = 0;
  switch (kind) {
    case Kind::kF8E4M3Fn:
      bias = 7;
      if (rest == 0x7f) return NAN;
      break;
    case Kind::kF8E5M2:
      bias = 15;
      if (exponent == 31) return mantissa ? NAN : (sign ? -INFINITY : INFINITY);
      break;
    default:
      bias = kind == Kind::kF8E4M3Fnuz ? 8 : kind == Kind::kF8E5M2Fnuz ? 16 : 11;
      if (code == 0x80) return NAN;
  }
  double scale = 1.0 / (1 << mantissa_bits);
  double value = exponent == 0 ? mantissa * scale * std::pow(2.0, 1 - bias) : (1 + mantissa * scale) * std::pow(2.0, exponent - bias);
  return sign ? -value : value;
}

bool Same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)); }

TEST(Formats, DecodeEveryFp8Code) {
  for (Kind kind : kFp8Kinds)
    for (int code = 0; code < 256; ++code)
      EXPECT_TRUE(Same(DecodeSmallFloat(kind, code), Reference(kind, code))) << int(kind) << " code " << code;
}

TEST(Formats, EveryFp8CodeSurvivesARoundTrip) {
  for (Kind kind : kFp8Kinds)
    for (int code = 0; code < 256; ++code) {
      double value = Reference(kind, code);
      uint32_t back = EncodeSmallFloat(kind, value, false);
      if (std::isinf(value)) {
        EXPECT_EQ(back, uint32_t(code) - 1) << "infinity saturates";
      } else if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Reference(kind, back)));
      } else {
        EXPECT_EQ(back, uint32_t(code)) << int(kind);
      }
    }
}

// Nearest even among the finite values of the format, saturating; found by looking at all of them.
TEST(Formats, Fp8RoundsToTheNearestValueTiesToEvenAndSaturates) {
  std::mt19937 random(7);
  for (Kind kind : kFp8Kinds) {
    std::vector<std::pair<double, int>> positive;
    for (int code = 0; code < 128; ++code)
      if (double value = Reference(kind, code); std::isfinite(value)) positive.push_back({value, code});
    std::vector<double> inputs = {0.0, 1e-300, 1e300, INFINITY};
    for (size_t i = 0; i + 1 < positive.size(); ++i) {
      double a = positive[i].first, b = positive[i + 1].first, middle = (a + b) / 2;
      for (double x : {a, middle, std::nextafter(middle, a), std::nextafter(middle, b)}) inputs.push_back(x);
    }
    std::uniform_real_distribution<double> exponent(-25, 18);
    for (int i = 0; i < 20000; ++i) inputs.push_back(std::pow(2.0, exponent(random)));
    for (double x : inputs) {
      double clamped = std::min(x, positive.back().first);
      int nearest = 0, below = 0;
      for (size_t i = 0; i < positive.size(); ++i) {
        if (positive[i].first <= clamped) below = int(i);
        double now = std::fabs(positive[i].first - clamped), best = std::fabs(positive[nearest].first - clamped);
        if (now < best || (now == best && positive[i].second % 2 == 0)) nearest = int(i);
      }
      ASSERT_EQ(EncodeSmallFloat(kind, x, false), uint32_t(positive[nearest].second)) << int(kind) << " " << x;
      ASSERT_EQ(EncodeSmallFloat(kind, x, true), uint32_t(positive[below].second)) << int(kind) << " toward zero " << x;
      if (positive[nearest].second != 0) {
        ASSERT_EQ(EncodeSmallFloat(kind, -x, false), uint32_t(positive[nearest].second) | 0x80) << int(kind) << " " << -x;
      }
    }
  }
}

TEST(Formats, MinusZeroKeepsItsSignWhereTheFormatHasOne) {
  EXPECT_EQ(EncodeSmallFloat(Kind::kF8E4M3Fn, -0.0, false), 0x80u);
  EXPECT_EQ(EncodeSmallFloat(Kind::kF8E5M2, -1e-30, false), 0x80u);
  EXPECT_EQ(EncodeSmallFloat(Kind::kF8E4M3Fnuz, -0.0, false), 0u);
  EXPECT_EQ(EncodeSmallFloat(Kind::kF8E5M2Fnuz, -1e-30, false), 0u);
}

TEST(Formats, EveryF16AndBf16CodeSurvivesARoundTrip) {
  for (uint32_t code = 0; code < 65536; ++code) {
    float half = F16ToFloat(uint16_t(code));
    int exponent = code >> 10 & 31, mantissa = code & 1023;
    double want = exponent == 31 ? (mantissa ? NAN : INFINITY)
                  : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                 : std::ldexp(mantissa, -24);
    if (code >> 15) want = -want;
    ASSERT_TRUE(std::isnan(want) ? std::isnan(half) : Same(half, want)) << code;
    uint32_t quiet = std::isnan(half) ? 0x200u : 0;
    ASSERT_EQ(FloatToF16(half), code | quiet);
    ASSERT_EQ(EncodeSmallFloat(Kind::kF16, half, false), code | quiet);
    float brain = Bf16ToFloat(uint16_t(code));
    ASSERT_EQ(FloatToBf16(brain), code | (std::isnan(brain) ? 0x40u : 0));
    if (!std::isnan(brain)) {
      ASSERT_EQ(EncodeSmallFloat(Kind::kBf16, brain, false), code);
    }
  }
}

// The fast conversions agree with the general one, which works on doubles.
TEST(Formats, FastF16AndBf16RoundingAgreesWithTheGeneralOne) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000000; ++i) {
    float value = BitCast<float>(uint32_t(random()));
    if (i % 2) value = std::ldexp(1 + (random() & 0xffffff) / 16777216.0f, int(random() % 48) - 30);
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToF16(value), EncodeSmallFloat(Kind::kF16, value, false)) << value;
    ASSERT_EQ(FloatToBf16(value), EncodeSmallFloat(Kind::kBf16, value, false)) << value;
  }
  for (float tie : {65519.996f, 65520.0f, 65504.0f, 5.9604645e-8f, 2.9802322e-8f, 2.98023224e-8f, 6.097555e-5f})
    EXPECT_EQ(FloatToF16(tie), EncodeSmallFloat(Kind::kF16, tie, false)) << tie;
}

TEST(Formats, DoublesAreRoundedOnceNotThroughFloat) {
  // 1 + 2^-11 + 2^-40: above the tie of f16, but its nearest float is the tie itself, which would go to even.
  EXPECT_EQ(EncodeSmallFloat(Kind::kF16, 1 + std::pow(2.0, -11) + std::pow(2.0, -40), false), 0x3c01u);
  EXPECT_EQ(EncodeSmallFloat(Kind::kF16, 1 + std::pow(2.0, -11), false), 0x3c00u);
}

TEST(Formats, TowardZeroNeverGrows) {
  EXPECT_EQ(EncodeSmallFloat(Kind::kF16, 1e9, true), 0x7bffu);
  EXPECT_EQ(EncodeSmallFloat(Kind::kBf16, -1.9999999, true), 0xbfffu);
  EXPECT_EQ(TruncateToFloat(1.0000001), 1.0f);
  EXPECT_EQ(TruncateToFloat(-0.1), std::nextafter(-0.1f, 0.0f));
  EXPECT_EQ(TruncateToFloat(1e300), std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace tessera::interpreter
