#include "server/launch/recipe.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

std::string Real(double value) {
  storage::ConstantValue constant;
  constant.set_real(value);
  return LiteralText(constant);
}

TEST(LiteralText, RealsAreAsShortAsTheyCanBe) {
  EXPECT_EQ(Real(1), "1.0");
  EXPECT_EQ(Real(0.25), "0.25");
  EXPECT_EQ(Real(1e-6), "1e-06");
  EXPECT_EQ(std::stod(Real(0.1 + 0.2)), 0.1 + 0.2);
}

TEST(LiteralText, SubnormalAndHugeRealsAreNumbersAsOthers) {
  for (double value : {2.2250738585072014e-308, 5e-324, -5e-324, 1.7976931348623157e308}) {
    EXPECT_EQ(std::strtod(Real(value).c_str(), nullptr), value) << Real(value);
  }
}

}  // namespace
}  // namespace tessera::server
