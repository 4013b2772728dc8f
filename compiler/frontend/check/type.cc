#include "compiler/frontend/check/type.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

ElementType Of(DType dtype) { return {dtype, false}; }

std::string Language(DType dtype) { return std::string(LanguageName(dtype)); }

enum class Rank { kBool, kInteger, kFloat };
Rank RankOf(const ElementType& type) {
  if (type.is_bool()) return Rank::kBool;
  return type.is_int() ? Rank::kInteger : Rank::kFloat;
}

// Two types of which none decides through being a weak literal.
std::optional<ElementType> PromoteStrong(const ElementType& a, const ElementType& b, bool div_or_mod,
                                         std::string* error) {
  auto either = [&](DType d) { return a.is(d) || b.is(d); };
  if (either(DType::kFp64)) return Of(DType::kFp64);
  if (either(DType::kFp32)) return Of(DType::kFp32);
  if (either(DType::kFp16)) return Of(div_or_mod ? DType::kFp32 : DType::kFp16);
  if (a.is(DType::kBf16) && b.is(DType::kBf16)) return Of(div_or_mod ? DType::kFp32 : DType::kBf16);
  if (either(DType::kBf16)) return Of(DType::kFp32);
  if (a.is_fp8() && b.is_fp8()) return a == b ? a : Of(DType::kFp16);
  if (a.is_int() && b.is_int()) return PromoteIntegers(a, b);
  *error = absl::StrCat("cannot combine ", ToString(a), " and ", ToString(b),
                        "; convert the fp8 operand first, for example with .to(tl.float32)");
  return std::nullopt;
}

// A weak integer must fit an integer type it adapts to.
bool CheckWeak(const Operand& operand, const ElementType& result, std::string* error) {
  if (!operand.weak || !operand.weak->is_integral() || !result.is_int()) return true;
  Integer value = operand.weak->as_integer();
  if (value < 0 && !result.is_signed()) {
    *error = absl::StrCat("the negative literal ", ToString(value), " meets an unsigned ", ToString(result),
                          "; convert the other operand to a signed type first");
    return false;
  }
  if (!Fits(value, result)) {
    *error = absl::StrCat("the literal ", ToString(value), " is out of range for ", ToString(result),
                          "; convert the other operand to a wider type first");
    return false;
  }
  return true;
}

}  // namespace

int64_t Type::elements() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string ToString(const ElementType& type) {
  return type.pointer ? absl::StrCat("pointer to ", Language(type.dtype)) : Language(type.dtype);
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&text, i ? ", " : "", shape[i]);
  return text + "]";
}

std::string ToString(const Type& type) {
  if (!type.is_block()) return ToString(type.element) + (type.element.pointer ? "" : " scalar");
  return absl::StrCat(type.element.pointer ? "block of " : "", ToString(type.element),
                      type.element.pointer ? " " : " block ", ToString(type.shape));
}

std::string CheckBlockShape(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t d : shape) {
    if (d <= 0 || (d & (d - 1)) != 0)
      return absl::StrCat("block dimension ", d, " is not a power of two; round it up (triton.next_power_of_2) and mask",
                          " what lies outside");
    if (d > kMaxBlockElements || (elements *= d) > kMaxBlockElements)
      return absl::StrCat("a block of shape ", ToString(shape), " has more than ", kMaxBlockElements,
                          " elements; use smaller blocks and a loop");
  }
  return "";
}

ElementType LiteralType(const Constant& number) {
  if (number.is(ConstantKind::kBool)) return Of(DType::kInt1);
  if (number.is(ConstantKind::kInt)) {
    for (DType d : {DType::kInt32, DType::kUint32, DType::kInt64})
      if (Fits(number.integer, Of(d))) return Of(d);
    return Of(DType::kUint64);
  }
  double x = std::fabs(number.real);
  bool fits = std::isinf(x) || std::isnan(x) || x == 0 ||
              (x >= double(std::numeric_limits<float>::min()) && x <= double(std::numeric_limits<float>::max()));
  return Of(fits ? DType::kFp32 : DType::kFp64);
}

Constant AsStrong(const Constant& number) {
  if (!number.is(ConstantKind::kFloat) || LiteralType(number).dtype != DType::kFp32) return number;
  return Constant::Float(double(float(number.real)));
}

bool Fits(Integer value, const ElementType& type) {
  int bits = type.bits();
  Integer one = 1;
  if (type.is_signed()) return value >= -(one << (bits - 1)) && value < (one << (bits - 1));
  return value >= 0 && value < (one << bits);
}

ElementType PromoteIntegers(const ElementType& a, const ElementType& b) {
  if (a.is_signed() == b.is_signed()) return a.bits() > b.bits() ? a : b;
  const ElementType& u = a.is_signed() ? b : a;
  const ElementType& s = a.is_signed() ? a : b;
  return u.bits() >= s.bits() ? u : s;
}

std::optional<ElementType> Promote(const Operand& a, const Operand& b, bool div_or_mod, std::string* error) {
  std::optional<ElementType> result;
  if (!a.weak != !b.weak) {
    const ElementType& weak = a.weak ? a.type : b.type;
    const ElementType& strong = a.weak ? b.type : a.type;
    if (RankOf(weak) <= RankOf(strong)) {
      bool half = strong.is(DType::kFp16) || strong.is(DType::kBf16);
      result = div_or_mod && half ? Of(DType::kFp32) : strong;
    }
  }
  if (!result) result = PromoteStrong(a.type, b.type, div_or_mod, error);
  if (!result || !CheckWeak(a, *result, error) || !CheckWeak(b, *result, error)) return std::nullopt;
  return result;
}

}  // namespace tessera::frontend
