#include "base/small_float.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

// The value of a half by the definition of the format.
double HalfByDefinition(uint16_t half) {
  int exponent = (half >> 10) & 31, mantissa = half & 1023;
  double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * HUGE_VAL;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(mantissa + 1024, exponent - 25);
}

TEST(SmallFloat, EveryHalfHasItsValueAndReadsBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    double want = HalfByDefinition(bits);
    float got = HalfToFloat(bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(got)))) << bits;
      continue;
    }
    EXPECT_EQ(got, want) << bits;
    EXPECT_EQ(FloatToHalf(got), bits);
  }
}

TEST(SmallFloat, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    float low = HalfToFloat(bits), high = HalfToFloat(bits + 1), middle = (low + high) / 2;
    EXPECT_EQ(FloatToHalf(middle), bits % 2 ? bits + 1 : bits) << bits;
    EXPECT_EQ(FloatToHalf(std::nextafter(middle, high)), bits + 1) << bits;
    EXPECT_EQ(FloatToHalf(std::nextafter(middle, low)), bits) << bits;
  }
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToBf16(1.0f + 0x1p-8f), FloatToBf16(1.0f));
  EXPECT_EQ(Bf16ToFloat(FloatToBf16(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(NAN))));
}

}  // namespace
}  // namespace tessera
