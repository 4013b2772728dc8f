#include "server/launch/specialise.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;
using ArgumentKind = BoundArgument::Kind;
using FactKind = ParameterFacts::Kind;

// Types that an annotation forces. As in Triton, `float`, `torch.Tensor`, `tl.tensor` and the like
// force nothing.
std::optional<DType> AnnotatedType(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0])
    text = text.substr(1, text.size() - 2);
  if (text == "int") return DType::kInt32;
  if (text == "float" || text == "long" || text == "double" || text == "half" || text == "short")
    return std::nullopt;
  return ParseDType(text);
}

absl::Status Mismatch(const ParameterModel& parameter, absl::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
               absl::StrCat("argument '", parameter.name, "': ", what),
               {{"argument", parameter.name}});
}

struct IntegerRange {
  int64_t low;
  uint64_t high;
};

IntegerRange RangeOf(DType type) {
  if (type == DType::kInt1) return {0, 1};
  int bits = 8 * ByteSize(type);
  if (IsSigned(type))
    return {bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1)),
            (uint64_t{1} << (bits - 1)) - 1};
  return {0, bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - 1};
}

DType NaturalType(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() &&
                 value <= std::numeric_limits<int32_t>::max()
             ? DType::kInt32
             : DType::kInt64;
}

absl::Status SpecialiseInteger(const ParameterModel& parameter, const BoundArgument& argument,
                               ParameterFacts* facts) {
  bool is_unsigned = argument.kind == ArgumentKind::kUnsigned;
  std::optional<DType> type = argument.forced ? argument.forced : parameter.annotated;
  if (!type) {
    if (argument.kind == ArgumentKind::kBoolean)
      type = DType::kInt1;
    else
      type = is_unsigned ? DType::kUint64 : NaturalType(argument.integer);
  }
  facts->kind = FactKind::kScalar;
  facts->type = *type;
  if (IsFloat(*type)) {
    double value = is_unsigned ? static_cast<double>(argument.unsigned_integer)
                               : static_cast<double>(argument.integer);
    facts->bits = FloatBits(value, *type);
    return absl::OkStatus();
  }
  IntegerRange range = RangeOf(*type);
  bool fits = is_unsigned ? argument.unsigned_integer <= range.high
                          : argument.integer >= range.low &&
                                (argument.integer < 0 ||
                                 static_cast<uint64_t>(argument.integer) <= range.high);
  if (!fits)
    return Mismatch(parameter, absl::StrCat(is_unsigned ? absl::StrCat(argument.unsigned_integer)
                                                        : absl::StrCat(argument.integer),
                                            " does not fit ", ShortName(*type)));
  uint64_t bits = is_unsigned ? argument.unsigned_integer : static_cast<uint64_t>(argument.integer);
  facts->bits = bits;
  if (*type == DType::kInt1) return absl::OkStatus();
  facts->equals_one = parameter.specialise_value && bits == 1;
  facts->divisible_by_16 =
      parameter.specialise_value && parameter.specialise_alignment && bits % 16 == 0;
  return absl::OkStatus();
}

absl::Status SpecialiseReal(const ParameterModel& parameter, const BoundArgument& argument,
                            ParameterFacts* facts) {
  std::optional<DType> type = argument.forced ? argument.forced : parameter.annotated;
  facts->kind = FactKind::kScalar;
  facts->type = type.value_or(DType::kFp32);
  if (!IsFloat(facts->type))
    return Mismatch(parameter,
                    absl::StrCat("a float is given where ", ShortName(facts->type), " is wanted"));
  if (ByteSize(facts->type) < 2)
    return Mismatch(parameter, absl::StrCat("scalars of type ", ShortName(facts->type),
                                            " are not passed to kernels"));
  facts->bits = FloatBits(argument.real, facts->type);
  return absl::OkStatus();
}

// A value given for a constexpr parameter becomes a constant of the code.
absl::Status SpecialiseConstexpr(const ParameterModel& parameter, const BoundArgument& argument,
                                 ParameterFacts* facts) {
  facts->kind = FactKind::kConstant;
  facts->owns_constant = true;
  facts->owned.Clear();
  switch (argument.kind) {
    case ArgumentKind::kConstant:
      facts->owns_constant = false;
      facts->constant = argument.constant;
      return absl::OkStatus();
    case ArgumentKind::kNone:
      facts->owned.mutable_none();
      return absl::OkStatus();
    case ArgumentKind::kInteger:
      facts->owned.set_integer(argument.integer);
      return absl::OkStatus();
    case ArgumentKind::kUnsigned:
      facts->owned.set_unsigned_integer(argument.unsigned_integer);
      return absl::OkStatus();
    case ArgumentKind::kReal:
      facts->owned.set_real(argument.real);
      return absl::OkStatus();
    case ArgumentKind::kBoolean:
      facts->owned.set_boolean(argument.integer != 0);
      return absl::OkStatus();
    case ArgumentKind::kTuple:
      for (const BoundArgument& item : argument.items) {
        ParameterFacts inner;
        RETURN_IF_ERROR(SpecialiseConstexpr(parameter, item, &inner));
        *facts->owned.mutable_tuple()->add_items() = inner.value();
      }
      if (argument.items.empty()) facts->owned.mutable_tuple();
      return absl::OkStatus();
    case ArgumentKind::kPointer:
    case ArgumentKind::kDescriptor:
      return Mismatch(parameter, "a tensor is given for a constexpr parameter");
    case ArgumentKind::kAbsent:
      break;
  }
  return Mismatch(parameter, "is missing");
}

// Extents are i32 and strides i64 whatever their values are: the code depends on none of them.
absl::Status SpecialiseDescriptor(const BoundArgument& argument, ParameterFacts* facts) {
  facts->kind = FactKind::kDescriptor;
  facts->type = argument.items[0].element;
  facts->block_shape = argument.block_shape;
  facts->nan_padding = argument.nan_padding;
  facts->items.resize(3);
  facts->items[0].kind = FactKind::kPointer;
  facts->items[0].type = facts->type;
  for (int list : {1, 2}) {
    facts->items[list].kind = FactKind::kTuple;
    for (const BoundArgument& number : argument.items[list].items) {
      ParameterFacts& item = facts->items[list].items.emplace_back();
      item.kind = FactKind::kScalar;
      item.type = list == 1 ? DType::kInt32 : DType::kInt64;
      item.bits = static_cast<uint64_t>(number.integer);
    }
  }
  return absl::OkStatus();
}

// Constants may stand for plain parameters where they have a value at run time: defaults,
// configurations.
absl::Status SpecialisePlainConstant(const ParameterModel& parameter, const BoundArgument& argument,
                                     ParameterFacts* facts) {
  const storage::ConstantValue& constant = *argument.constant;
  BoundArgument plain;
  plain.forced = argument.forced;
  switch (constant.kind_case()) {
    case storage::ConstantValue::kInteger:
      plain.kind = ArgumentKind::kInteger;
      plain.integer = constant.integer();
      break;
    case storage::ConstantValue::kUnsignedInteger:
      plain.kind = ArgumentKind::kUnsigned;
      plain.unsigned_integer = constant.unsigned_integer();
      break;
    case storage::ConstantValue::kReal:
      plain.kind = ArgumentKind::kReal;
      plain.real = constant.real();
      break;
    case storage::ConstantValue::kBoolean:
      plain.kind = ArgumentKind::kBoolean;
      plain.integer = constant.boolean();
      break;
    case storage::ConstantValue::kNone:
      plain.kind = ArgumentKind::kNone;
      break;
    case storage::ConstantValue::kTuple: {
      facts->kind = FactKind::kTuple;
      facts->items.clear();
      for (const storage::ConstantValue& item : constant.tuple().items()) {
        BoundArgument bound;
        bound.kind = ArgumentKind::kConstant;
        bound.constant = &item;
        facts->items.emplace_back();
        RETURN_IF_ERROR(Specialise(parameter, bound, &facts->items.back()));
      }
      return absl::OkStatus();
    }
    default:
      // Strings, dtypes and functions have no value at run time; as in Triton they are constants
      // wherever they stand.
      return SpecialiseConstexpr(parameter, argument, facts);
  }
  return Specialise(parameter, plain, facts);
}

void AppendConstant(const storage::ConstantValue& value, std::string* key) {
  auto append = [key](const void* data, size_t size) {
    key->append(static_cast<const char*>(data), size);
  };
  auto append_text = [&](const std::string& text) {
    uint32_t size = static_cast<uint32_t>(text.size());
    append(&size, sizeof(size));
    *key += text;
  };
  *key += static_cast<char>(value.kind_case());
  switch (value.kind_case()) {
    case storage::ConstantValue::kBoolean:
      *key += value.boolean() ? '\1' : '\0';
      break;
    case storage::ConstantValue::kInteger: {
      int64_t integer = value.integer();
      append(&integer, sizeof(integer));
      break;
    }
    case storage::ConstantValue::kUnsignedInteger: {
      uint64_t integer = value.unsigned_integer();
      append(&integer, sizeof(integer));
      break;
    }
    case storage::ConstantValue::kReal: {
      double real = value.real();
      append(&real, sizeof(real));
      break;
    }
    case storage::ConstantValue::kText:
      append_text(value.text());
      break;
    case storage::ConstantValue::kDtype:
      append_text(value.dtype());
      break;
    case storage::ConstantValue::kFunction:
      append_text(value.function());
      break;
    case storage::ConstantValue::kTuple: {
      uint32_t count = value.tuple().items_size();
      append(&count, sizeof(count));
      for (const storage::ConstantValue& item : value.tuple().items()) AppendConstant(item, key);
      break;
    }
    default:
      break;
  }
}

}  // namespace

ParameterModel ModelParameter(const storage::ParameterDescription& description) {
  ParameterModel model;
  model.name = description.name();
  model.is_constexpr = description.is_constexpr();
  model.specialise_value = !description.do_not_specialize();
  model.specialise_alignment = !description.do_not_specialize_on_alignment();
  if (!model.is_constexpr) model.annotated = AnnotatedType(description.annotation());
  model.has_default = description.has_default();
  model.default_value = description.default_value();
  return model;
}

absl::Status Specialise(const ParameterModel& parameter, const BoundArgument& argument,
                        ParameterFacts* facts) {
  facts->divisible_by_16 = facts->equals_one = facts->owns_constant = false;
  facts->constant = nullptr;
  facts->bits = 0;
  facts->items.clear();
  if (parameter.is_constexpr) return SpecialiseConstexpr(parameter, argument, facts);
  switch (argument.kind) {
    case ArgumentKind::kPointer:
      facts->kind = FactKind::kPointer;
      facts->type = argument.element;
      facts->divisible_by_16 =
          argument.aligned && parameter.specialise_value && parameter.specialise_alignment;
      return absl::OkStatus();
    case ArgumentKind::kInteger:
    case ArgumentKind::kUnsigned:
    case ArgumentKind::kBoolean:
      return SpecialiseInteger(parameter, argument, facts);
    case ArgumentKind::kReal:
      return SpecialiseReal(parameter, argument, facts);
    case ArgumentKind::kConstant:
      return SpecialisePlainConstant(parameter, argument, facts);
    case ArgumentKind::kNone:
      facts->kind = FactKind::kNone;
      return absl::OkStatus();
    case ArgumentKind::kTuple:
      facts->kind = FactKind::kTuple;
      for (const BoundArgument& item : argument.items) {
        facts->items.emplace_back();
        RETURN_IF_ERROR(Specialise(parameter, item, &facts->items.back()));
      }
      return absl::OkStatus();
    case ArgumentKind::kDescriptor:
      return SpecialiseDescriptor(argument, facts);
    case ArgumentKind::kAbsent:
      break;
  }
  return Mismatch(parameter, "is missing");
}

void AppendKey(const ParameterFacts& facts, std::string* key) {
  *key += static_cast<char>(facts.kind);
  switch (facts.kind) {
    case FactKind::kPointer:
    case FactKind::kScalar:
      *key += static_cast<char>(facts.type);
      *key += static_cast<char>((facts.divisible_by_16 ? 1 : 0) | (facts.equals_one ? 2 : 0));
      break;
    case FactKind::kConstant:
      AppendConstant(facts.value(), key);
      break;
    case FactKind::kNone:
      break;
    case FactKind::kTuple: {
      uint32_t count = static_cast<uint32_t>(facts.items.size());
      key->append(reinterpret_cast<const char*>(&count), sizeof(count));
      for (const ParameterFacts& item : facts.items) AppendKey(item, key);
      break;
    }
    case FactKind::kDescriptor: {
      *key += static_cast<char>(facts.type);
      *key += facts.nan_padding ? '\1' : '\0';
      *key += static_cast<char>(facts.block_shape.size());
      for (int64_t extent : facts.block_shape)
        key->append(reinterpret_cast<const char*>(&extent), sizeof(extent));
      break;
    }
  }
}

storage::ParameterSpec ToSpec(const ParameterFacts& facts, absl::string_view name) {
  storage::ParameterSpec spec;
  spec.set_name(std::string(name));
  switch (facts.kind) {
    case FactKind::kPointer:
      spec.set_type(absl::StrCat("*", ShortName(facts.type)));
      break;
    case FactKind::kScalar:
      spec.set_type(std::string(ShortName(facts.type)));
      spec.set_equals_one(facts.equals_one);
      break;
    case FactKind::kConstant:
      *spec.mutable_constant() = facts.value();
      break;
    case FactKind::kNone:
      spec.mutable_constant()->mutable_none();
      break;
    case FactKind::kTuple:
      spec.mutable_tuple();
      for (const ParameterFacts& item : facts.items)
        *spec.mutable_tuple()->add_items() = ToSpec(item, "");
      break;
    case FactKind::kDescriptor: {
      auto* descriptor = spec.mutable_tensor_descriptor();
      descriptor->set_element_type(std::string(ShortName(facts.type)));
      for (int64_t extent : facts.block_shape) descriptor->add_block_shape(extent);
      descriptor->set_nan_padding(facts.nan_padding);
      break;
    }
  }
  if (facts.divisible_by_16) spec.set_divisibility(16);
  return spec;
}

absl::StatusOr<storage::ConstantValue> ToConstant(const api::Constant& constant) {
  storage::ConstantValue value;
  switch (constant.kind_case()) {
    case api::Constant::kNone:
      value.mutable_none();
      break;
    case api::Constant::kBoolean:
      value.set_boolean(constant.boolean());
      break;
    case api::Constant::kInteger:
      value.set_integer(constant.integer());
      break;
    case api::Constant::kUnsignedInteger:
      if (constant.unsigned_integer() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        value.set_integer(static_cast<int64_t>(constant.unsigned_integer()));
      else
        value.set_unsigned_integer(constant.unsigned_integer());
      break;
    case api::Constant::kReal:
      value.set_real(constant.real());
      break;
    case api::Constant::kText:
      value.set_text(constant.text());
      break;
    case api::Constant::kDtype: {
      absl::string_view text = constant.dtype();
      bool pointer = absl::ConsumePrefix(&text, "*");
      std::string error;
      std::optional<DType> dtype = ParseDType(text, &error);
      if (!dtype) return Error(absl::StatusCode::kInvalidArgument, "BAD_DTYPE", error);
      value.set_dtype(absl::StrCat(pointer ? "*" : "", ShortName(*dtype)));
      break;
    }
    case api::Constant::kFunction:
      value.set_function(constant.function());
      break;
    case api::Constant::kTuple:
      value.mutable_tuple();
      for (const api::Constant& item : constant.tuple().items()) {
        ASSIGN_OR_RETURN(*value.mutable_tuple()->add_items(), ToConstant(item));
      }
      break;
    case api::Constant::KIND_NOT_SET:
      return Error(absl::StatusCode::kInvalidArgument, "BAD_CONSTANT",
                   "a constant without a value");
  }
  return value;
}

uint64_t FloatBits(double value, DType type) {
  if (type == DType::kFp64) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  if (type == DType::kFp32) {
    float narrow = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof(bits));
    return bits;
  }
  // fp16 and bf16: round the double once, by scaling to units of the last place.
  int mantissa = type == DType::kFp16 ? 10 : 7;
  int exponent_bits = type == DType::kFp16 ? 5 : 8;
  int bias = (1 << (exponent_bits - 1)) - 1;
  uint64_t sign = std::signbit(value) ? uint64_t{1} << (mantissa + exponent_bits) : 0;
  uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa;
  if (std::isnan(value)) return sign | infinity | (uint64_t{1} << (mantissa - 1));
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);
  int unit = std::max(exponent - 1, 1 - bias) -
             mantissa;  // exponent of the last place; subnormals share the least
  uint64_t steps = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // Normal numbers carry the hidden bit in `steps`; adding it to the exponent field carries over
  // where rounding did.
  uint64_t bits = steps + (static_cast<uint64_t>(unit + mantissa + bias - 1) << mantissa);
  return sign | (bits >= infinity ? infinity : bits);
}

}  // namespace tessera::server
