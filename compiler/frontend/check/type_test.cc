#include "compiler/frontend/check/type.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace tessera::frontend {
namespace {

ElementType T(const char* name) { return {*ParseDType(name), false}; }
std::string Name(const ElementType& type) { return std::string(ShortName(type.dtype)); }

// The type in which two strong operands compute.
std::string Strong(const char* a, const char* b, bool div_or_mod = false) {
  std::string error;
  std::optional<ElementType> type = Promote({T(a), nullptr}, {T(b), nullptr}, div_or_mod, &error);
  return type ? Name(*type) : error;
}

// The same with a literal on the right.
std::string Weak(const char* a, const Constant& literal, bool div_or_mod = false) {
  std::string error;
  std::optional<ElementType> type = Promote({T(a), nullptr}, {LiteralType(literal), &literal}, div_or_mod, &error);
  std::string swapped_error;
  std::optional<ElementType> swapped =
      Promote({LiteralType(literal), &literal}, {T(a), nullptr}, div_or_mod, &swapped_error);
  EXPECT_EQ(type.has_value(), swapped.has_value());
  if (type && swapped) EXPECT_EQ(Name(*type), Name(*swapped));
  return type ? Name(*type) : error;
}

TEST(PromoteTest, TakesTheWiderFloat) {
  struct Row {
    const char *a, *b, *sum, *quotient;
  };
  static const Row kRows[] = {
      {"fp32", "fp64", "fp64", "fp64"},     {"fp16", "fp32", "fp32", "fp32"},     {"bf16", "fp32", "fp32", "fp32"},
      {"fp16", "fp16", "fp16", "fp32"},     {"bf16", "bf16", "bf16", "fp32"},     {"fp16", "bf16", "fp16", "fp32"},
      {"fp8e5", "fp8e5", "fp8e5", "fp8e5"}, {"fp8e5", "fp8e4nv", "fp16", "fp16"}, {"fp8e5", "fp16", "fp16", "fp32"},
      {"fp8e5", "bf16", "fp32", "fp32"},    {"i32", "fp16", "fp16", "fp32"},      {"i64", "fp32", "fp32", "fp32"},
      {"i32", "bf16", "fp32", "fp32"},      {"i1", "fp16", "fp16", "fp32"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(Strong(row.a, row.b), row.sum) << row.a << " + " << row.b;
    EXPECT_EQ(Strong(row.b, row.a), row.sum) << row.b << " + " << row.a;
    EXPECT_EQ(Strong(row.a, row.b, true), row.quotient) << row.a << " / " << row.b;
  }
}

TEST(PromoteTest, ConvertsIntegersAsC) {
  struct Row {
    const char *a, *b, *result;
  };
  static const Row kRows[] = {
      {"i8", "i16", "i16"}, {"i32", "i64", "i64"}, {"u8", "i32", "i32"}, {"u32", "i32", "u32"},
      {"u32", "i64", "i64"}, {"u64", "i64", "u64"}, {"i1", "i32", "i32"}, {"i1", "u8", "u8"},
      {"i1", "i1", "i1"},   {"u16", "i8", "u16"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(Strong(row.a, row.b), row.result) << row.a << " " << row.b;
    EXPECT_EQ(Strong(row.b, row.a), row.result) << row.b << " " << row.a;
  }
}

TEST(PromoteTest, LetsLiteralsAdapt) {
  EXPECT_EQ(Weak("fp16", Constant::Float(0.5)), "fp16");
  EXPECT_EQ(Weak("fp16", Constant::Float(0.5), true), "fp32");
  EXPECT_EQ(Weak("bf16", Constant::Int(2)), "bf16");
  EXPECT_EQ(Weak("fp32", Constant::Float(1e300)), "fp32");
  EXPECT_EQ(Weak("fp8e5", Constant::Float(2.0)), "fp8e5");
  EXPECT_EQ(Weak("i8", Constant::Int(127)), "i8");
  EXPECT_EQ(Weak("u8", Constant::Int(255)), "u8");
  EXPECT_EQ(Weak("i64", Constant::Int(7)), "i64");
  EXPECT_EQ(Weak("u32", Constant::Bool(true)), "u32");
  // A literal of a higher kind decides.
  EXPECT_EQ(Weak("i32", Constant::Float(0.5)), "fp32");
  EXPECT_EQ(Weak("i32", Constant::Float(1e300)), "fp64");
  EXPECT_EQ(Weak("i1", Constant::Int(3)), "i32");
}

TEST(PromoteTest, RefusesLiteralsThatDoNotFit) {
  EXPECT_NE(Weak("i8", Constant::Int(255)).find("255 is out of range for int8"), std::string::npos);
  EXPECT_NE(Weak("u8", Constant::Int(-1)).find("negative literal -1 meets an unsigned uint8"), std::string::npos);
  EXPECT_NE(Weak("i32", Constant::Int(Integer(1) << 40)).find("out of range for int32"), std::string::npos);
}

TEST(PromoteTest, RefusesFp8WithIntegers) {
  EXPECT_NE(Strong("fp8e5", "i32").find("cannot combine float8e5 and int32"), std::string::npos);
}

TEST(LiteralTypeTest, IsTheFirstThatHoldsTheValue) {
  EXPECT_EQ(Name(LiteralType(Constant::Bool(true))), "i1");
  EXPECT_EQ(Name(LiteralType(Constant::Int(-(Integer(1) << 31)))), "i32");
  EXPECT_EQ(Name(LiteralType(Constant::Int((Integer(1) << 31) - 1))), "i32");
  EXPECT_EQ(Name(LiteralType(Constant::Int(Integer(1) << 31))), "u32");
  EXPECT_EQ(Name(LiteralType(Constant::Int((Integer(1) << 32) - 1))), "u32");
  EXPECT_EQ(Name(LiteralType(Constant::Int(Integer(1) << 32))), "i64");
  EXPECT_EQ(Name(LiteralType(Constant::Int(-(Integer(1) << 31) - 1))), "i64");
  EXPECT_EQ(Name(LiteralType(Constant::Int(Integer(1) << 63))), "u64");
  EXPECT_EQ(Name(LiteralType(Constant::Float(1.5))), "fp32");
  EXPECT_EQ(Name(LiteralType(Constant::Float(0.0))), "fp32");
  EXPECT_EQ(Name(LiteralType(Constant::Float(-std::numeric_limits<double>::infinity()))), "fp32");
  EXPECT_EQ(Name(LiteralType(Constant::Float(1e39))), "fp64");
  EXPECT_EQ(Name(LiteralType(Constant::Float(1e-39))), "fp64");
}

TEST(AsStrongTest, RoundsFloatsToFp32) {
  EXPECT_EQ(AsStrong(Constant::Float(0.1)).real, double(0.1f));
  EXPECT_EQ(AsStrong(Constant::Float(1e300)).real, 1e300);
  EXPECT_EQ(int64_t(AsStrong(Constant::Int(7)).integer), 7);
}

TEST(CheckBlockShapeTest, SaysWhatIsWrong) {
  EXPECT_EQ(CheckBlockShape({128, 1}), "");
  EXPECT_NE(CheckBlockShape({100}).find("block dimension 100 is not a power of two"), std::string::npos);
  EXPECT_NE(CheckBlockShape({0}).find("block dimension 0"), std::string::npos);
  EXPECT_NE(CheckBlockShape({2048, 1024}).find("more than 1048576 elements"), std::string::npos);
  EXPECT_EQ(CheckBlockShape({1024, 1024}), "");
}

}  // namespace
}  // namespace tessera::frontend
