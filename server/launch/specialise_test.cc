#include "server/launch/specialise.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

BoundArgument Integer(int64_t value) {
  BoundArgument argument;
  argument.kind = BoundArgument::Kind::kInteger;
  argument.integer = value;
  return argument;
}

BoundArgument Pointer(DType element, bool aligned) {
  BoundArgument argument;
  argument.kind = BoundArgument::Kind::kPointer;
  argument.element = element;
  argument.aligned = aligned;
  return argument;
}

ParameterModel Plain(const char* annotation = "") {
  storage::ParameterDescription description;
  description.set_name("n");
  description.set_annotation(annotation);
  return ModelParameter(description);
}

ParameterFacts Facts(const ParameterModel& parameter, const BoundArgument& argument) {
  ParameterFacts facts;
  absl::Status status = Specialise(parameter, argument, &facts);
  EXPECT_TRUE(status.ok()) << status;
  return facts;
}

// "i32:16", "i32=1", "*fp16:16", "i64"
std::string Signature(const ParameterFacts& facts) {
  storage::ParameterSpec spec = ToSpec(facts, "n");
  std::string text = spec.type();
  if (spec.divisibility() != 0) text += ":" + std::to_string(spec.divisibility());
  if (spec.equals_one()) text += "=1";
  return text;
}

TEST(Specialise, TypesIntegersByValueAnnotationOrForce) {
  struct {
    int64_t value;
    const char* annotation;
    const char* want;
  } cases[] = {
      {0, "", "i32:16"},
      {1, "", "i32=1"},
      {2, "", "i32"},
      {-1, "", "i32"},
      {16, "", "i32:16"},
      {-32, "", "i32:16"},
      {17, "", "i32"},
      {2147483647, "", "i32"},
      {2147483648, "", "i64:16"},
      {-2147483648, "", "i32:16"},
      {-2147483649, "", "i64"},
      {5, "tl.int64", "i64"},
      {1, "tl.int64", "i64=1"},
      {5, "int", "i32"},
      {5, "'i64'", "i64"},
      {5, "torch.Tensor", "i32"},
      {5, "float", "i32"},
      {5, "tl.float32", "fp32"},
      {200, "tl.uint8", "u8"},
      {1, "tl.int1", "i1"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(Signature(Facts(Plain(c.annotation), Integer(c.value))), c.want)
        << c.value << " " << c.annotation;
  BoundArgument forced = Integer(5);
  forced.forced = DType::kInt64;
  EXPECT_EQ(Signature(Facts(Plain("tl.int32"), forced)), "i64");
  BoundArgument large;
  large.kind = BoundArgument::Kind::kUnsigned;
  large.unsigned_integer = uint64_t{1} << 63;
  EXPECT_EQ(Signature(Facts(Plain(), large)), "u64:16");
}

TEST(Specialise, HonoursDoNotSpecialize) {
  ParameterModel none = Plain();
  none.specialise_value = false;
  EXPECT_EQ(Signature(Facts(none, Integer(1))), "i32");
  EXPECT_EQ(Signature(Facts(none, Integer(16))), "i32");
  EXPECT_EQ(Signature(Facts(none, Pointer(DType::kFp16, true))), "*fp16");
  ParameterModel value_only = Plain();
  value_only.specialise_alignment = false;
  EXPECT_EQ(Signature(Facts(value_only, Integer(1))), "i32=1");
  EXPECT_EQ(Signature(Facts(value_only, Integer(16))), "i32");
}

TEST(Specialise, KnowsPointersByElementAndAlignment) {
  EXPECT_EQ(Signature(Facts(Plain(), Pointer(DType::kBf16, true))), "*bf16:16");
  EXPECT_EQ(Signature(Facts(Plain(), Pointer(DType::kBf16, false))), "*bf16");
}

TEST(Specialise, PassesScalarsAsTheKernelAbiSays) {
  EXPECT_EQ(Facts(Plain(), Integer(-2)).bits, ~uint64_t{1});
  EXPECT_EQ(Facts(Plain("tl.uint8"), Integer(255)).bits, 255u);
  BoundArgument half;
  half.kind = BoundArgument::Kind::kReal;
  half.real = 1.5;
  EXPECT_EQ(Facts(Plain(), half).bits, 0x3fc00000u);
  half.forced = DType::kFp64;
  EXPECT_EQ(Facts(Plain(), half).bits, 0x3ff8000000000000u);
  half.forced = DType::kFp16;
  EXPECT_EQ(Facts(Plain(), half).bits, 0x3e00u);
  BoundArgument flag;
  flag.kind = BoundArgument::Kind::kBoolean;
  flag.integer = 1;
  EXPECT_EQ(Signature(Facts(Plain(), flag)), "i1");
  EXPECT_EQ(Facts(Plain(), flag).bits, 1u);
}

TEST(Specialise, NamesTheArgumentThatDoesNotFit) {
  ParameterFacts facts;
  absl::Status status = Specialise(Plain("tl.int8"), Integer(300), &facts);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "argument 'n': 300 does not fit i8");
  BoundArgument real;
  real.kind = BoundArgument::Kind::kReal;
  EXPECT_EQ(Specialise(Plain("tl.int32"), real, &facts).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Specialise(Plain(), BoundArgument(), &facts).message(), "argument 'n': is missing");
  ParameterModel constant = Plain();
  constant.is_constexpr = true;
  EXPECT_EQ(Specialise(constant, Pointer(DType::kFp32, true), &facts).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Specialise, TurnsArgumentsOfConstexprParametersIntoConstants) {
  ParameterModel constant = Plain();
  constant.is_constexpr = true;
  storage::ParameterSpec spec = ToSpec(Facts(constant, Integer(64)), "n");
  EXPECT_EQ(spec.constant().integer(), 64);
  BoundArgument none;
  none.kind = BoundArgument::Kind::kNone;
  EXPECT_TRUE(ToSpec(Facts(constant, none), "n").constant().has_none());
  EXPECT_TRUE(ToSpec(Facts(Plain(), none), "n").constant().has_none());
}

TEST(Specialise, KeysDifferExactlyWhereTheCodeDoes) {
  auto key = [](const ParameterModel& parameter, const BoundArgument& argument) {
    std::string text;
    AppendKey(Facts(parameter, argument), &text);
    return text;
  };
  EXPECT_EQ(key(Plain(), Integer(17)), key(Plain(), Integer(19)));
  EXPECT_NE(key(Plain(), Integer(17)), key(Plain(), Integer(32)));
  EXPECT_NE(key(Plain(), Integer(17)), key(Plain(), Integer(1)));
  EXPECT_NE(key(Plain(), Integer(17)), key(Plain("tl.int64"), Integer(17)));
  ParameterModel constant = Plain();
  constant.is_constexpr = true;
  EXPECT_NE(key(constant, Integer(17)), key(constant, Integer(19)));
  BoundArgument tuple;
  tuple.kind = BoundArgument::Kind::kTuple;
  tuple.items = {Integer(3), Pointer(DType::kFp32, true)};
  BoundArgument other = tuple;
  other.items[0] = Integer(1);
  EXPECT_NE(key(Plain(), tuple), key(Plain(), other));
}

TEST(Specialise, KeepsOnlyTypeBlockAndPaddingOfADescriptor) {
  BoundArgument descriptor;
  descriptor.kind = BoundArgument::Kind::kDescriptor;
  descriptor.block_shape = {16, 32};
  descriptor.items.resize(3);
  descriptor.items[0] = Pointer(DType::kFp16, true);
  descriptor.items[1].items = {Integer(100), Integer(1)};
  descriptor.items[2].items = {Integer(64), Integer(1)};
  ParameterFacts facts = Facts(Plain(), descriptor);
  EXPECT_EQ(facts.items[1].items[0].bits, 100u);
  EXPECT_EQ(facts.items[1].items[0].type, DType::kInt32);
  EXPECT_EQ(facts.items[2].items[0].bits, 64u);
  EXPECT_EQ(facts.items[2].items[0].type, DType::kInt64);
  storage::ParameterSpec spec = ToSpec(facts, "d");
  EXPECT_EQ(spec.tensor_descriptor().element_type(), "fp16");
  ASSERT_EQ(spec.tensor_descriptor().block_shape_size(), 2);
  EXPECT_EQ(spec.tensor_descriptor().block_shape(1), 32);
  EXPECT_FALSE(spec.tensor_descriptor().nan_padding());

  auto key = [](const BoundArgument& argument) {
    std::string text;
    AppendKey(Facts(Plain(), argument), &text);
    return text;
  };
  BoundArgument larger = descriptor, nan = descriptor, wider = descriptor, other_type = descriptor;
  larger.items[1].items[0] = Integer(128);
  EXPECT_EQ(key(larger), key(descriptor));
  nan.nan_padding = true;
  EXPECT_NE(key(nan), key(descriptor));
  wider.block_shape = {16, 64};
  EXPECT_NE(key(wider), key(descriptor));
  other_type.items[0].element = DType::kBf16;
  EXPECT_NE(key(other_type), key(descriptor));
}

TEST(FloatBits, RoundsToNearestEvenOnce) {
  EXPECT_EQ(FloatBits(1.0, DType::kFp16), 0x3c00u);
  EXPECT_EQ(FloatBits(-2.0, DType::kFp16), 0xc000u);
  EXPECT_EQ(FloatBits(65504, DType::kFp16), 0x7bffu);
  EXPECT_EQ(FloatBits(65519.99, DType::kFp16), 0x7bffu);
  EXPECT_EQ(FloatBits(65520, DType::kFp16), 0x7c00u);
  EXPECT_EQ(FloatBits(std::ldexp(1, -24), DType::kFp16), 0x0001u);
  EXPECT_EQ(FloatBits(std::ldexp(1, -25), DType::kFp16), 0x0000u);
  EXPECT_EQ(FloatBits(std::ldexp(1023.75, -24), DType::kFp16),
            0x0400u);  // subnormal rounds up to normal
  EXPECT_EQ(FloatBits(1 + std::ldexp(1, -11), DType::kFp16), 0x3c00u);  // tie to even
  EXPECT_EQ(FloatBits(1 + 3 * std::ldexp(1, -11), DType::kFp16), 0x3c02u);
  EXPECT_EQ(FloatBits(1.0, DType::kBf16), 0x3f80u);
  EXPECT_EQ(FloatBits(3.4e38, DType::kBf16), 0x7f80u);
  EXPECT_EQ(FloatBits(-0.0, DType::kFp16), 0x8000u);
  EXPECT_EQ(FloatBits(std::numeric_limits<double>::quiet_NaN(), DType::kFp16), 0x7e00u);
}

}  // namespace
}  // namespace tessera::server
