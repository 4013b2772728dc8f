// Python's operators on constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/parse/printer.h"

namespace tessera::frontend {
namespace {

// Longest list or string that `*` and `+` make.
constexpr size_t kMaxElements = 1'000'000;

std::optional<Constant> Fail(std::string* error, std::string message) {
  *error = std::move(message);
  return std::nullopt;
}

std::optional<Constant> CheckedInt(Integer value, std::string* error) {
  if (InRange(value)) return Constant::Int(value);
  return Fail(error, "the integer does not fit in 64 bits");
}

// Both are in range, so that the product's magnitude fits 128 bits unsigned.
std::optional<Constant> Multiply(Integer a, Integer b, std::string* error) {
  unsigned __int128 x = a < 0 ? -static_cast<unsigned __int128>(a) : a;
  unsigned __int128 y = b < 0 ? -static_cast<unsigned __int128>(b) : b;
  unsigned __int128 product = x * y;
  if (product > std::numeric_limits<uint64_t>::max()) return Fail(error, "the integer does not fit in 64 bits");
  Integer value = static_cast<Integer>(product);
  return CheckedInt((a < 0) != (b < 0) ? -value : value, error);
}

Integer FloorDivide(Integer a, Integer b) {
  Integer quotient = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::optional<Constant> Power(Integer base, Integer exponent, std::string* error) {
  if (exponent < 0) {
    if (base == 0) return Fail(error, "0 cannot be raised to a negative power");
    return Constant::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1 || base == -1) return Constant::Int(exponent == 0 || base == 1 ? 1 : base == 0 ? 0 : exponent % 2 ? -1 : 1);
  if (exponent > 64) return Fail(error, "the integer does not fit in 64 bits");
  Constant result = Constant::Int(1);
  for (Integer i = 0; i < exponent; ++i) {
    std::optional<Constant> next = Multiply(result.integer, base, error);
    if (!next) return std::nullopt;
    result = *next;
  }
  return result;
}

std::optional<Constant> IntegerBinary(BinaryOp op, Integer a, Integer b, std::string* error) {
  switch (op) {
    case BinaryOp::kAdd: return CheckedInt(a + b, error);
    case BinaryOp::kSub: return CheckedInt(a - b, error);
    case BinaryOp::kMul: return Multiply(a, b, error);
    case BinaryOp::kDiv:
      if (b == 0) return Fail(error, "division by zero");
      return Constant::Float(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDiv:
      if (b == 0) return Fail(error, "integer division by zero");
      return CheckedInt(FloorDivide(a, b), error);
    case BinaryOp::kMod:
      if (b == 0) return Fail(error, "integer remainder by zero");
      return Constant::Int(a - FloorDivide(a, b) * b);
    case BinaryOp::kPow: return Power(a, b, error);
    case BinaryOp::kBitAnd: return CheckedInt(a & b, error);
    case BinaryOp::kBitOr: return CheckedInt(a | b, error);
    case BinaryOp::kBitXor: return CheckedInt(a ^ b, error);
    case BinaryOp::kShl:
      if (b < 0) return Fail(error, "negative shift count");
      if (a == 0) return Constant::Int(0);
      if (b > 63) return Fail(error, "the integer does not fit in 64 bits");
      return Multiply(a, Integer{1} << static_cast<int>(b), error);
    case BinaryOp::kShr:
      if (b < 0) return Fail(error, "negative shift count");
      return Constant::Int(b > 100 ? (a < 0 ? -1 : 0) : a >> static_cast<int>(b));
    case BinaryOp::kMatMul: break;
  }
  return Fail(error, "'@' needs matrices");
}

std::optional<Constant> FloatBinary(BinaryOp op, double a, double b, std::string* error) {
  switch (op) {
    case BinaryOp::kAdd: return Constant::Float(a + b);
    case BinaryOp::kSub: return Constant::Float(a - b);
    case BinaryOp::kMul: return Constant::Float(a * b);
    case BinaryOp::kDiv:
      if (b == 0) return Fail(error, "float division by zero");
      return Constant::Float(a / b);
    case BinaryOp::kFloorDiv: case BinaryOp::kMod: {
      if (b == 0) return Fail(error, "float division by zero");
      double remainder = std::fmod(a, b);
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      if (remainder == 0) remainder = std::copysign(0.0, b);
      return Constant::Float(op == BinaryOp::kMod ? remainder : std::floor((a - remainder) / b + 0.5));
    }
    case BinaryOp::kPow:
      if (a == 0 && b < 0) return Fail(error, "0.0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b) return Fail(error, "a negative number raised to a fraction is complex");
      return Constant::Float(std::pow(a, b));
    default: return Fail(error, absl::StrCat("'", Spelling(op), "' does not take floats"));
  }
}

std::optional<Constant> Repeat(const Constant& sequence, Integer count, std::string* error) {
  size_t length = sequence.is(ConstantKind::kString) ? sequence.text.size() : sequence.items->size();
  if (count < 0) count = 0;
  if (count > 0 && length > 0 && count > static_cast<Integer>(kMaxElements / length)) return Fail(error, "the result is too long");
  if (sequence.is(ConstantKind::kString)) {
    std::string text;
    for (Integer i = 0; i < count && length > 0; ++i) text += sequence.text;
    return Constant::String(std::move(text));
  }
  std::vector<Constant> items;
  for (Integer i = 0; i < count && length > 0; ++i) items.insert(items.end(), sequence.items->begin(), sequence.items->end());
  return sequence.is(ConstantKind::kTuple) ? Constant::Tuple(std::move(items)) : Constant::List(std::move(items));
}

std::optional<Constant> Concatenate(const Constant& a, const Constant& b, std::string* error) {
  if (a.is(ConstantKind::kString)) {
    if (a.text.size() + b.text.size() > kMaxElements) return Fail(error, "the string is too long");
    return Constant::String(a.text + b.text);
  }
  std::vector<Constant> items = *a.items;
  items.insert(items.end(), b.items->begin(), b.items->end());
  if (items.size() > kMaxElements) return Fail(error, "the list is too long");
  return a.is(ConstantKind::kTuple) ? Constant::Tuple(std::move(items)) : Constant::List(std::move(items));
}

bool Contains(const std::vector<Constant>& items, const Constant& value, size_t step = 1) {
  for (size_t i = 0; i < items.size(); i += step)
    if (Equal(items[i], value)) return true;
  return false;
}

std::optional<Constant> SetBinary(BinaryOp op, const Constant& a, const Constant& b, std::string* error) {
  std::vector<Constant> items;
  if (op == BinaryOp::kBitOr) {
    items = *a.items;
    items.insert(items.end(), b.items->begin(), b.items->end());
  } else if (op == BinaryOp::kBitAnd || op == BinaryOp::kSub) {
    for (const Constant& item : *a.items)
      if (Contains(*b.items, item) == (op == BinaryOp::kBitAnd)) items.push_back(item);
  } else {
    return Fail(error, absl::StrCat("'", Spelling(op), "' does not take sets"));
  }
  return Constant::Set(std::move(items));
}

bool IsSequence(const Constant& value) {
  return value.is(ConstantKind::kString) || value.is(ConstantKind::kTuple) || value.is(ConstantKind::kList);
}

// -1, 0, 1; nullopt: no order between these kinds (or NaN, with *unordered).
std::optional<int> Order(const Constant& a, const Constant& b, bool* unordered, int depth = 0) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
  if (a.is_number() && b.is_number()) {
    double x = a.as_real(), y = b.as_real();
    if (std::isnan(x) || std::isnan(y)) *unordered = true;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.kind != b.kind || depth > 50) return std::nullopt;
  if (a.is(ConstantKind::kString)) return a.text < b.text ? -1 : a.text > b.text ? 1 : 0;
  if (a.is(ConstantKind::kTuple) || a.is(ConstantKind::kList)) {
    size_t common = std::min(a.items->size(), b.items->size());
    for (size_t i = 0; i < common; ++i) {
      if (Equal((*a.items)[i], (*b.items)[i])) continue;
      return Order((*a.items)[i], (*b.items)[i], unordered, depth + 1);
    }
    return a.items->size() < b.items->size() ? -1 : a.items->size() > b.items->size() ? 1 : 0;
  }
  return std::nullopt;
}

std::optional<Constant> In(const Constant& value, const Constant& container, std::string* error) {
  switch (container.kind) {
    case ConstantKind::kString:
      if (!value.is(ConstantKind::kString)) return Fail(error, absl::StrCat("'in <string>' needs a string at its left, not ", KindName(value)));
      return Constant::Bool(container.text.find(value.text) != std::string::npos);
    case ConstantKind::kTuple: case ConstantKind::kList: case ConstantKind::kSet:
      return Constant::Bool(Contains(*container.items, value));
    case ConstantKind::kDict: return Constant::Bool(Contains(*container.items, value, 2));
    default: return Fail(error, absl::StrCat("'in' does not take ", KindName(container)));
  }
}

bool Identical(const Constant& a, const Constant& b) {
  if (a.kind != b.kind) return false;
  bool shared = a.is(ConstantKind::kList) || a.is(ConstantKind::kDict) || a.is(ConstantKind::kSet);
  return shared ? a.items == b.items : Equal(a, b);
}

// A byte position for each character, and the end.
std::vector<size_t> CharacterStarts(const std::string& text) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  starts.push_back(text.size());
  return starts;
}

}  // namespace

std::optional<bool> Truth(const Constant& value, std::string* error) {
  switch (value.kind) {
    case ConstantKind::kNone: return false;
    case ConstantKind::kBool: return value.boolean;
    case ConstantKind::kInt: return value.integer != 0;
    case ConstantKind::kFloat: return value.real != 0;
    case ConstantKind::kString: return !value.text.empty();
    case ConstantKind::kTuple: case ConstantKind::kList: case ConstantKind::kDict: case ConstantKind::kSet: return !value.items->empty();
    case ConstantKind::kExternal:
      *error = absl::StrCat("'", value.text, "' is not part of the module");
      return std::nullopt;
    default: return true;
  }
}

std::optional<Constant> EvaluateUnary(UnaryOp op, const Constant& a, std::string* error) {
  if (op == UnaryOp::kNot) {
    std::optional<bool> truth = Truth(a, error);
    if (!truth) return std::nullopt;
    return Constant::Bool(!*truth);
  }
  if (a.is_integral()) {
    Integer value = a.as_integer();
    return CheckedInt(op == UnaryOp::kNeg ? -value : op == UnaryOp::kPos ? value : ~value, error);
  }
  if (a.is(ConstantKind::kFloat) && op != UnaryOp::kInvert) return Constant::Float(op == UnaryOp::kNeg ? -a.real : a.real);
  return Fail(error, absl::StrCat("unary '", op == UnaryOp::kNeg ? "-" : op == UnaryOp::kPos ? "+" : "~", "' does not take ", KindName(a)));
}

std::optional<Constant> EvaluateBinary(BinaryOp op, const Constant& a, const Constant& b, std::string* error) {
  if (a.is(ConstantKind::kBool) && b.is(ConstantKind::kBool)) {
    if (op == BinaryOp::kBitAnd) return Constant::Bool(a.boolean & b.boolean);
    if (op == BinaryOp::kBitOr) return Constant::Bool(a.boolean | b.boolean);
    if (op == BinaryOp::kBitXor) return Constant::Bool(a.boolean != b.boolean);
  }
  if (a.is_integral() && b.is_integral()) return IntegerBinary(op, a.as_integer(), b.as_integer(), error);
  if (a.is_number() && b.is_number()) return FloatBinary(op, a.as_real(), b.as_real(), error);
  if (op == BinaryOp::kAdd && a.kind == b.kind && IsSequence(a)) return Concatenate(a, b, error);
  if (op == BinaryOp::kMul && IsSequence(a) && b.is_integral()) return Repeat(a, b.as_integer(), error);
  if (op == BinaryOp::kMul && IsSequence(b) && a.is_integral()) return Repeat(b, a.as_integer(), error);
  if (a.is(ConstantKind::kSet) && b.is(ConstantKind::kSet)) return SetBinary(op, a, b, error);
  if (op == BinaryOp::kBitOr && a.is(ConstantKind::kDict) && b.is(ConstantKind::kDict)) {
    Constant merged = Constant::Dict(*a.items);
    if (!CallMethod(merged, "update", {b}, {}, error)) return std::nullopt;
    return merged;
  }
  for (const Constant* side : {&a, &b})
    if (side->is(ConstantKind::kExternal)) return Fail(error, absl::StrCat("'", side->text, "' is not part of the module"));
  return Fail(error, absl::StrCat("'", Spelling(op), "' does not take ", KindName(a), " and ", KindName(b)));
}

std::optional<Constant> EvaluateCompare(CompareOp op, const Constant& a, const Constant& b, std::string* error) {
  for (const Constant* side : {&a, &b})
    if (side->is(ConstantKind::kExternal)) return Fail(error, absl::StrCat("'", side->text, "' is not part of the module"));
  switch (op) {
    case CompareOp::kEq: return Constant::Bool(Equal(a, b));
    case CompareOp::kNe: return Constant::Bool(!Equal(a, b));
    case CompareOp::kIs: return Constant::Bool(Identical(a, b));
    case CompareOp::kIsNot: return Constant::Bool(!Identical(a, b));
    case CompareOp::kIn: return In(a, b, error);
    case CompareOp::kNotIn: {
      std::optional<Constant> found = In(a, b, error);
      if (found) found->boolean = !found->boolean;
      return found;
    }
    default: break;
  }
  bool unordered = false;
  std::optional<int> order = Order(a, b, &unordered);
  if (!order) return Fail(error, absl::StrCat("'", Spelling(op), "' does not take ", KindName(a), " and ", KindName(b)));
  if (unordered) return Constant::Bool(false);
  switch (op) {
    case CompareOp::kLt: return Constant::Bool(*order < 0);
    case CompareOp::kLe: return Constant::Bool(*order <= 0);
    case CompareOp::kGt: return Constant::Bool(*order > 0);
    default: return Constant::Bool(*order >= 0);
  }
}

std::optional<Constant> EvaluateSubscript(const Constant& base, const Constant& index, std::string* error) {
  if (base.is(ConstantKind::kDict)) {
    for (size_t i = 0; i + 1 < base.items->size(); i += 2)
      if (Equal((*base.items)[i], index)) return (*base.items)[i + 1];
    return Fail(error, absl::StrCat("the dict has no key ", Repr(index)));
  }
  if (!IsSequence(base)) return Fail(error, absl::StrCat(KindName(base), " cannot be subscripted"));
  if (!index.is_integral()) return Fail(error, absl::StrCat("an index is an int, not ", KindName(index)));
  std::vector<size_t> starts;
  if (base.is(ConstantKind::kString)) starts = CharacterStarts(base.text);
  Integer size = base.is(ConstantKind::kString) ? static_cast<Integer>(starts.size() - 1) : static_cast<Integer>(base.items->size());
  Integer i = index.as_integer();
  if (i < 0) i += size;
  if (i < 0 || i >= size)
    return Fail(error, absl::StrCat("index ", ToString(index.as_integer()), " is out of range for ", ToString(size), " elements"));
  size_t at = static_cast<size_t>(i);
  if (base.is(ConstantKind::kString)) return Constant::String(base.text.substr(starts[at], starts[at + 1] - starts[at]));
  return (*base.items)[at];
}

std::optional<Constant> EvaluateSlice(const Constant& base, const Constant& start, const Constant& stop, const Constant& step,
                                      std::string* error) {
  if (!IsSequence(base)) return Fail(error, absl::StrCat(KindName(base), " cannot be sliced"));
  for (const Constant* bound : {&start, &stop, &step})
    if (!bound->is_none() && !bound->is_integral()) return Fail(error, "the bounds of a slice are ints");
  std::vector<size_t> starts;
  if (base.is(ConstantKind::kString)) starts = CharacterStarts(base.text);
  Integer size = base.is(ConstantKind::kString) ? static_cast<Integer>(starts.size() - 1) : static_cast<Integer>(base.items->size());
  Integer by = step.is_none() ? 1 : step.as_integer();
  if (by == 0) return Fail(error, "the step of a slice is not 0");
  auto bound = [&](const Constant& value, Integer none) {
    if (value.is_none()) return none;
    Integer i = value.as_integer();
    if (i < 0) i += size;
    return by > 0 ? std::clamp<Integer>(i, 0, size) : std::clamp<Integer>(i, -1, size - 1);
  };
  Integer from = bound(start, by > 0 ? 0 : size - 1), to = bound(stop, by > 0 ? size : -1);
  std::vector<Constant> items;
  std::string text;
  for (Integer i = from; by > 0 ? i < to : i > to; i += by) {
    size_t at = static_cast<size_t>(i);
    if (base.is(ConstantKind::kString)) {
      text += base.text.substr(starts[at], starts[at + 1] - starts[at]);
    } else {
      items.push_back((*base.items)[at]);
    }
  }
  if (base.is(ConstantKind::kString)) return Constant::String(std::move(text));
  return base.is(ConstantKind::kTuple) ? Constant::Tuple(std::move(items)) : Constant::List(std::move(items));
}

std::optional<std::vector<Constant>> Elements(const Constant& value, std::string* error) {
  switch (value.kind) {
    case ConstantKind::kTuple: case ConstantKind::kList: case ConstantKind::kSet: return *value.items;
    case ConstantKind::kDict: {
      std::vector<Constant> keys;
      for (size_t i = 0; i < value.items->size(); i += 2) keys.push_back((*value.items)[i]);
      return keys;
    }
    case ConstantKind::kString: {
      std::vector<size_t> starts = CharacterStarts(value.text);
      std::vector<Constant> characters;
      for (size_t i = 0; i + 1 < starts.size(); ++i)
        characters.push_back(Constant::String(value.text.substr(starts[i], starts[i + 1] - starts[i])));
      return characters;
    }
    default:
      *error = absl::StrCat("cannot iterate over ", KindName(value));
      return std::nullopt;
  }
}

}  // namespace tessera::frontend
