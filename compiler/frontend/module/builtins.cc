// Builtin functions and methods that host code calls at compile time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/module/well_known.h"

namespace tessera::frontend {
namespace {

constexpr Integer kMaxElements = 1'000'000;

using Values = std::vector<Constant>;
using Result = std::optional<Constant>;

// Arguments of a builtin, with the error that it reports.
struct Arguments {
  absl::string_view name;
  const Values& values;
  const NamedConstants& keywords;
  std::string* error;

  Result Fail(std::string message) const {
    *error = std::move(message);
    return std::nullopt;
  }
  // Whether the number of positional arguments is right; reports.
  bool Count(size_t least, size_t most) const {
    if (values.size() >= least && values.size() <= most) return true;
    std::string wanted = least == most ? absl::StrCat(least) : most > 100 ? absl::StrCat("at least ", least) : absl::StrCat(least, " to ", most);
    *error = absl::StrCat("'", name, "' takes ", wanted, least == 1 && most == 1 ? " argument, not " : " arguments, not ", values.size());
    return false;
  }
  const Constant* Keyword(absl::string_view keyword) const {
    for (const auto& [key, value] : keywords)
      if (key == keyword) return &value;
    return nullptr;
  }
  Result WrongKind(const Constant& value) const { return Fail(absl::StrCat("'", name, "' does not take ", KindName(value))); }
};

Result IntResult(Integer value, const Arguments& a) {
  if (InRange(value)) return Constant::Int(value);
  return a.Fail("the integer does not fit in 64 bits");
}

Result RealToInt(double value, const Arguments& a) {
  if (std::isnan(value) || std::isinf(value)) return a.Fail("inf and nan are no integers");
  if (std::fabs(value) >= 1.9e19) return a.Fail("the integer does not fit in 64 bits");
  return IntResult(static_cast<Integer>(value), a);
}

//===-- conversions ---------------------------------------------------------------------------===//

Result ToInt(const Arguments& a) {
  if (!a.Count(0, 2)) return std::nullopt;
  if (a.values.empty()) return Constant::Int(0);
  const Constant& v = a.values[0];
  if (v.is_integral()) return Constant::Int(v.as_integer());
  if (v.is(ConstantKind::kFloat)) return RealToInt(std::trunc(v.real), a);
  if (!v.is(ConstantKind::kString)) return a.WrongKind(v);
  std::string text(absl::StripAsciiWhitespace(v.text));
  int base = a.values.size() > 1 && a.values[1].is_integral() ? static_cast<int>(std::clamp<Integer>(a.values[1].as_integer(), 0, 37)) : 10;
  if (base == 1 || base > 36) return a.Fail("the base of int() is 0 or 2 to 36");
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text.c_str(), &end, base);
  if (text.empty() || *end != '\0' || errno != 0) return a.Fail(absl::StrCat("int() cannot read ", Repr(v)));
  return Constant::Int(value);
}

Result ToFloat(const Arguments& a) {
  if (!a.Count(0, 1)) return std::nullopt;
  if (a.values.empty()) return Constant::Float(0);
  const Constant& v = a.values[0];
  if (v.is_number()) return Constant::Float(v.as_real());
  if (!v.is(ConstantKind::kString)) return a.WrongKind(v);
  std::string text(absl::StripAsciiWhitespace(v.text));
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  bool hexadecimal = absl::StrContains(text, "x") || absl::StrContains(text, "X");
  if (text.empty() || *end != '\0' || hexadecimal) return a.Fail(absl::StrCat("float() cannot read ", Repr(v)));
  return Constant::Float(value);
}

std::string Str(const Constant& value) { return value.is(ConstantKind::kString) ? value.text : Repr(value); }

//===-- format(value, spec) -------------------------------------------------------------------===//

struct FormatSpec {
  std::string fill = " ";
  char align = 0, sign = 0, type = 0;
  bool zero = false, alternate = false, commas = false;
  int width = 0, precision = -1;
};

std::optional<FormatSpec> ParseSpec(absl::string_view text) {
  FormatSpec spec;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (text.size() > 1 && is_align(text[1]) && static_cast<unsigned char>(text[0]) < 0x80) {
    spec.fill = std::string(text.substr(0, 1));
    spec.align = text[1];
    text.remove_prefix(2);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  if (absl::ConsumePrefix(&text, "#")) spec.alternate = true;
  if (absl::ConsumePrefix(&text, "0")) spec.zero = true;
  auto number = [&text](int* out) {
    int value = 0;
    bool any = false;
    while (!text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) && value < 1000) {
      value = value * 10 + (text[0] - '0');
      text.remove_prefix(1);
      any = true;
    }
    if (any) *out = value;
  };
  number(&spec.width);
  if (absl::ConsumePrefix(&text, ",") || absl::ConsumePrefix(&text, "_")) spec.commas = true;
  if (absl::ConsumePrefix(&text, ".")) number(&spec.precision);
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  return spec;
}

std::string InBase(Integer magnitude, unsigned base, bool upper) {
  std::string digits;
  do {
    int digit = static_cast<int>(magnitude % base);
    digits += static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    magnitude /= base;
  } while (magnitude != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// Digits of a number without sign; nullopt: the type letter does not fit.
std::optional<std::string> FormatMagnitude(const Constant& value, const FormatSpec& spec) {
  char type = spec.type;
  bool is_real = value.is(ConstantKind::kFloat);
  if (!is_real && (type == 0 || type == 'd')) {
    Integer v = value.as_integer();
    return ToString(v < 0 ? -v : v);
  }
  if (!is_real && (type == 'x' || type == 'X' || type == 'b' || type == 'o')) {
    Integer v = value.as_integer();
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : 16;
    return InBase(v < 0 ? -v : v, base, type == 'X');
  }
  double v = std::fabs(value.as_real());
  if (type == 0 && spec.precision < 0) return Repr(Constant::Float(v));
  if (type == 0) type = 'g';
  bool percent = type == '%';
  if (percent) v *= 100, type = 'f';
  if (!absl::StrContains("fFeEgG", absl::string_view(&type, 1))) return std::nullopt;
  char pattern[8] = {'%', '.', '*', type, 0, 0, 0, 0};
  char text[512];
  std::snprintf(text, sizeof text, pattern, spec.precision < 0 ? 6 : std::min(spec.precision, 100), v);
  return std::string(text) + (percent ? "%" : "");
}

Result Format(const Arguments& a) {
  if (!a.Count(1, 2)) return std::nullopt;
  const Constant& v = a.values[0];
  if (a.values.size() == 1 || a.values[1].text.empty()) return Constant::String(Str(v));
  std::optional<FormatSpec> parsed = ParseSpec(a.values[1].text);
  if (!parsed) return a.Fail(absl::StrCat("format specification ", Repr(a.values[1]), " is not supported"));
  FormatSpec spec = *parsed;
  std::string body, sign;
  bool numeric = v.is_number() && spec.type != 's';
  if (numeric) {
    std::optional<std::string> digits = FormatMagnitude(v, spec);
    if (!digits) return a.Fail(absl::StrCat("format specification ", Repr(a.values[1]), " does not fit ", KindName(v)));
    body = *digits;
    bool negative = v.is_integral() ? v.as_integer() < 0 : std::signbit(v.real);
    sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
    bool in_base = spec.type == 'x' || spec.type == 'X' || spec.type == 'b' || spec.type == 'o';
    if (spec.alternate && in_base) sign += std::string("0") + spec.type;
    if (spec.commas) {
      size_t whole = std::min(body.find('.'), body.size());
      for (size_t i = whole; i > 3; i -= 3) body.insert(i - 3, ",");
    }
  } else {
    body = Str(v);
    if (spec.precision >= 0) {
      std::string ignored;
      body = EvaluateSlice(Constant::String(body), Constant::None(), Constant::Int(spec.precision), Constant::None(), &ignored)->text;
    }
  }
  char align = spec.align ? spec.align : spec.zero && numeric ? '=' : numeric ? '>' : '<';
  std::string fill = spec.zero && !spec.align ? "0" : spec.fill;
  size_t size = body.size() + sign.size(), width = static_cast<size_t>(spec.width);
  size_t pad = width > size ? width - size : 0;
  size_t before = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
  auto filled = [&fill](size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += fill;
    return out;
  };
  if (align == '=') return Constant::String(sign + filled(pad) + body);
  return Constant::String(filled(before) + sign + body + filled(pad - before));
}

//===-- Python's builtins ---------------------------------------------------------------------===//

Result Len(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  const Constant& v = a.values[0];
  if (v.is(ConstantKind::kDict)) return Constant::Int(static_cast<Integer>(v.items->size() / 2));
  std::optional<Values> elements = v.items || v.is(ConstantKind::kString) ? Elements(v, a.error) : std::nullopt;
  if (!elements) return a.WrongKind(v);
  return Constant::Int(static_cast<Integer>(elements->size()));
}

Result Range(const Arguments& a) {
  if (!a.Count(1, 3)) return std::nullopt;
  for (const Constant& v : a.values)
    if (!v.is_integral()) return a.WrongKind(v);
  Integer start = a.values.size() > 1 ? a.values[0].as_integer() : 0;
  Integer stop = a.values[a.values.size() > 1 ? 1 : 0].as_integer();
  Integer step = a.values.size() > 2 ? a.values[2].as_integer() : 1;
  if (step == 0) return a.Fail("the step of range() is not 0");
  Integer span = step > 0 ? stop - start : start - stop;
  if (span > 0 && span / (step > 0 ? step : -step) > kMaxElements) return a.Fail("the range is too long");
  Values items;
  for (Integer i = start; step > 0 ? i < stop : i > stop; i += step) items.push_back(Constant::Int(i));
  return Constant::List(std::move(items));
}

Result MinMax(const Arguments& a) {
  if (!a.Count(1, 1000)) return std::nullopt;
  Values elements = a.values;
  if (a.values.size() == 1) {
    std::optional<Values> of = Elements(a.values[0], a.error);
    if (!of) return std::nullopt;
    elements = std::move(*of);
  }
  if (elements.empty()) {
    if (const Constant* fallback = a.Keyword("default")) return *fallback;
    return a.Fail(absl::StrCat("'", a.name, "' of nothing"));
  }
  Constant best = elements[0];
  for (size_t i = 1; i < elements.size(); ++i) {
    Result better = EvaluateCompare(a.name == "min" ? CompareOp::kLt : CompareOp::kGt, elements[i], best, a.error);
    if (!better) return std::nullopt;
    if (better->boolean) best = elements[i];
  }
  return best;
}

Result Sum(const Arguments& a) {
  if (!a.Count(1, 2)) return std::nullopt;
  std::optional<Values> elements = Elements(a.values[0], a.error);
  if (!elements) return std::nullopt;
  const Constant* start = a.Keyword("start");
  Constant total = a.values.size() > 1 ? a.values[1] : start ? *start : Constant::Int(0);
  if (total.items && elements->size() > 1000) return a.Fail("sum() of too many lists");
  for (const Constant& element : *elements) {
    Result next = EvaluateBinary(BinaryOp::kAdd, total, element, a.error);
    if (!next) return std::nullopt;
    total = std::move(*next);
  }
  return total;
}

Result AnyAll(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  std::optional<Values> elements = Elements(a.values[0], a.error);
  if (!elements) return std::nullopt;
  bool any = a.name == "any";
  for (const Constant& element : *elements) {
    std::optional<bool> truth = Truth(element, a.error);
    if (!truth) return std::nullopt;
    if (*truth == any) return Constant::Bool(any);
  }
  return Constant::Bool(!any);
}

bool IsInstance(const Constant& v, const Constant& type) {
  if (type.is(ConstantKind::kTuple)) {
    for (const Constant& one : *type.items)
      if (IsInstance(v, one)) return true;
    return false;
  }
  if (!type.is(ConstantKind::kBuiltin)) return false;
  const std::string& t = type.text;
  switch (v.kind) {
    case ConstantKind::kBool: return t == "bool" || t == "int" || t == "object" || t == "tl.constexpr";
    case ConstantKind::kInt: return t == "int" || t == "object" || t == "tl.constexpr";
    case ConstantKind::kFloat: return t == "float" || t == "object" || t == "tl.constexpr";
    case ConstantKind::kString: return t == "str" || t == "object" || t == "tl.constexpr";
    case ConstantKind::kTuple: return t == "tuple" || t == "tl.tuple" || t == "object";
    case ConstantKind::kList: return t == "list" || t == "object";
    case ConstantKind::kDict: return t == "dict" || t == "object";
    case ConstantKind::kSet: return t == "set" || t == "object";
    case ConstantKind::kDType: return t == "tl.dtype" || t == "object";
    case ConstantKind::kPointerType: return t == "tl.pointer_type" || t == "tl.dtype" || t == "object";
    case ConstantKind::kConfig: return t == "triton.Config" || t == "object";
    default: return t == "object";
  }
}

Result IsInstanceCall(const Arguments& a) {
  if (!a.Count(2, 2)) return std::nullopt;
  return Constant::Bool(IsInstance(a.values[0], a.values[1]));
}

Result AsCollection(const Arguments& a) {
  if (!a.Count(0, 1)) return std::nullopt;
  Values elements;
  if (!a.values.empty()) {
    std::optional<Values> of = Elements(a.values[0], a.error);
    if (!of) return std::nullopt;
    elements = std::move(*of);
  }
  if (a.name == "tuple" || a.name == "tl.tuple") return Constant::Tuple(std::move(elements));
  if (a.name == "list") return Constant::List(std::move(elements));
  return Constant::Set(std::move(elements));
}

Result DictCall(const Arguments& a) {
  if (!a.Count(0, 1)) return std::nullopt;
  Constant dict = Constant::Dict({});
  if (!CallMethod(dict, "update", a.values, a.keywords, a.error)) return std::nullopt;
  return dict;
}

Result Zip(const Arguments& a) {
  std::vector<Values> columns;
  size_t rows = std::numeric_limits<size_t>::max();
  for (const Constant& v : a.values) {
    std::optional<Values> elements = Elements(v, a.error);
    if (!elements) return std::nullopt;
    rows = std::min(rows, elements->size());
    columns.push_back(std::move(*elements));
  }
  Values out;
  for (size_t i = 0; i < rows && !columns.empty(); ++i) {
    Values row;
    for (const Values& column : columns) row.push_back(column[i]);
    out.push_back(Constant::Tuple(std::move(row)));
  }
  return Constant::List(std::move(out));
}

Result Enumerate(const Arguments& a) {
  if (!a.Count(1, 2)) return std::nullopt;
  std::optional<Values> elements = Elements(a.values[0], a.error);
  if (!elements) return std::nullopt;
  const Constant* start = a.values.size() > 1 ? &a.values[1] : a.Keyword("start");
  Integer i = start && start->is_integral() ? start->as_integer() : 0;
  Values out;
  for (Constant& element : *elements) out.push_back(Constant::Tuple({Constant::Int(i++), std::move(element)}));
  return Constant::List(std::move(out));
}

// Sorts; false: two elements have no order.
bool SortValues(Values* values, bool reverse, std::string* error) {
  bool ok = true;
  auto less = [&](const Constant& x, const Constant& y) {
    if (!ok) return false;
    Result before = EvaluateCompare(CompareOp::kLt, reverse ? y : x, reverse ? x : y, error);
    if (!before) ok = false;
    return before && before->boolean;
  };
  for (const Constant& v : *values)  // NaN would break the order that std::stable_sort needs
    if (v.is(ConstantKind::kFloat) && std::isnan(v.real)) {
      *error = "nan cannot be sorted";
      return false;
    }
  std::stable_sort(values->begin(), values->end(), less);
  return ok;
}

Result Sorted(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  std::optional<Values> elements = Elements(a.values[0], a.error);
  if (!elements) return std::nullopt;
  const Constant* reverse = a.Keyword("reverse");
  std::string ignored;
  if (!SortValues(&*elements, reverse && Truth(*reverse, &ignored).value_or(false), a.error)) return std::nullopt;
  return Constant::List(std::move(*elements));
}

Result Reversed(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  std::optional<Values> elements = Elements(a.values[0], a.error);
  if (!elements) return std::nullopt;
  std::reverse(elements->begin(), elements->end());
  return Constant::List(std::move(*elements));
}

Result Abs(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  const Constant& v = a.values[0];
  if (v.is_integral()) return IntResult(v.as_integer() < 0 ? -v.as_integer() : v.as_integer(), a);
  if (v.is(ConstantKind::kFloat)) return Constant::Float(std::fabs(v.real));
  return a.WrongKind(v);
}

Result Round(const Arguments& a) {
  if (!a.Count(1, 2)) return std::nullopt;
  const Constant& v = a.values[0];
  if (!v.is_number()) return a.WrongKind(v);
  if (v.is_integral()) return Constant::Int(v.as_integer());
  if (a.values.size() == 1 || a.values[1].is_none()) return RealToInt(std::nearbyint(v.real), a);
  if (!a.values[1].is_integral()) return a.WrongKind(a.values[1]);
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(std::clamp<Integer>(a.values[1].as_integer(), 0, 30)), v.real);
  return Constant::Float(std::strtod(text, nullptr));
}

Result DivMod(const Arguments& a) {
  if (!a.Count(2, 2)) return std::nullopt;
  Result quotient = EvaluateBinary(BinaryOp::kFloorDiv, a.values[0], a.values[1], a.error);
  Result remainder = quotient ? EvaluateBinary(BinaryOp::kMod, a.values[0], a.values[1], a.error) : std::nullopt;
  if (!remainder) return std::nullopt;
  return Constant::Tuple({*quotient, *remainder});
}

Result InBaseText(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  if (!a.values[0].is_integral()) return a.WrongKind(a.values[0]);
  Integer v = a.values[0].as_integer();
  return Constant::String(absl::StrCat(v < 0 ? "-" : "", a.name == "bin" ? "0b" : "0x", InBase(v < 0 ? -v : v, a.name == "bin" ? 2 : 16, false)));
}

//===-- triton and tl -------------------------------------------------------------------------===//

Result Cdiv(const Arguments& a) {
  if (!a.Count(2, 2)) return std::nullopt;
  Result sum = EvaluateBinary(BinaryOp::kAdd, a.values[0], a.values[1], a.error);
  Result less = sum ? EvaluateBinary(BinaryOp::kSub, *sum, Constant::Int(1), a.error) : std::nullopt;
  return less ? EvaluateBinary(BinaryOp::kFloorDiv, *less, a.values[1], a.error) : std::nullopt;
}

Result NextPowerOf2(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  const Constant& v = a.values[0];
  if (!v.is_integral()) return a.WrongKind(v);
  Integer n = v.as_integer();
  if (n <= 0) return Constant::Int(n == 0 ? 0 : 1);
  Integer power = 1;
  while (power < n) power *= 2;
  return IntResult(power, a);
}

// The value itself; `tl.constexpr(v)`.
Result Identity(const Arguments& a) {
  if (a.values.empty() && a.keywords.size() == 1) return a.keywords[0].second;
  if (!a.Count(1, 1)) return std::nullopt;
  return a.values[0];
}

Result ConfigCall(const Arguments& a) {
  static constexpr absl::string_view kPositions[] = {"kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook", "ir_override"};
  if (!a.Count(0, 7)) return std::nullopt;
  Constant values = Constant::Dict({}), options = Constant::Dict({});
  auto set = [&](absl::string_view name, const Constant& value) -> bool {
    if (name != "kwargs") {
      options.items->push_back(Constant::String(std::string(name)));
      options.items->push_back(value);
      return true;
    }
    if (!value.is(ConstantKind::kDict)) return a.WrongKind(value).has_value();
    values = Constant::Dict(*value.items);
    return true;
  };
  for (size_t i = 0; i < a.values.size(); ++i)
    if (!set(kPositions[i], a.values[i])) return std::nullopt;
  for (const auto& [name, value] : a.keywords)
    if (!set(name, value)) return std::nullopt;
  for (size_t i = 0; i < values.items->size(); i += 2)
    if (!(*values.items)[i].is(ConstantKind::kString)) return a.Fail("the keys of a triton.Config are strings");
  Constant config = Constant::List({values, options});
  config.kind = ConstantKind::kConfig;
  return config;
}

Result DTypeCall(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  if (!a.values[0].is(ConstantKind::kString)) return a.WrongKind(a.values[0]);
  std::optional<DType> dtype = ParseDType(a.values[0].text, a.error);
  if (!dtype) return std::nullopt;
  return Constant::Type(*dtype);
}

Result PointerTypeCall(const Arguments& a) {
  if (!a.Count(1, 3)) return std::nullopt;
  if (!a.values[0].is(ConstantKind::kDType)) return a.WrongKind(a.values[0]);
  return Constant::PointerType(a.values[0].dtype);
}

Result IntDTypeCall(const Arguments& a) {
  const Constant* width = a.values.empty() ? a.Keyword("bitwidth") : &a.values[0];
  const Constant* is_signed = a.values.size() > 1 ? &a.values[1] : a.Keyword("signed");
  if (a.values.size() > 2 || !width || !width->is_integral() || !is_signed)
    return a.Fail("'tl.get_int_dtype' takes a bit width and whether it is signed");
  std::optional<bool> truth = Truth(*is_signed, a.error);
  if (!truth) return std::nullopt;
  std::string name = absl::StrCat(*truth || width->as_integer() == 1 ? "int" : "uint", ToString(width->as_integer()));
  std::optional<DType> dtype = ParseDType(name);
  if (!dtype) return a.Fail(absl::StrCat("there is no integer type '", name, "'"));
  return Constant::Type(*dtype);
}

// A class of named tuples, by its fields: a builtin "namedtuple:Name:a,b".
Result NamedTupleCall(const Arguments& a) {
  if (a.values.empty() || !a.values[0].is(ConstantKind::kString)) return a.Fail(absl::StrCat("'", a.name, "' wants a name and its fields"));
  const Constant* fields = a.values.size() > 1 ? &a.values[1] : a.Keyword("field_names");
  if (!fields) return a.Fail(absl::StrCat("'", a.name, "' wants a name and its fields"));
  std::vector<std::string> names;
  if (fields->is(ConstantKind::kString)) {
    names = absl::StrSplit(fields->text, absl::ByAnyChar(", "), absl::SkipEmpty());
  } else {
    std::optional<Values> elements = Elements(*fields, a.error);
    if (!elements) return std::nullopt;
    for (const Constant& element : *elements) {
      // typing.NamedTuple gives a pair of name and type.
      const Constant& name = element.is(ConstantKind::kTuple) && !element.items->empty() ? element.items->front() : element;
      if (!name.is(ConstantKind::kString)) return a.WrongKind(name);
      names.push_back(name.text);
    }
  }
  return Constant::Builtin(absl::StrCat("namedtuple:", a.values[0].text, ":", absl::StrJoin(names, ",")));
}

//===-- math, itertools -----------------------------------------------------------------------===//

Result MathCall(const Arguments& a) {
  absl::string_view name = a.name.substr(5);
  if (name == "prod") {
    if (!a.Count(1, 1)) return std::nullopt;
    std::optional<Values> elements = Elements(a.values[0], a.error);
    Result product = Constant::Int(1);
    if (!elements) return std::nullopt;
    for (const Constant& element : *elements) {
      product = EvaluateBinary(BinaryOp::kMul, *product, element, a.error);
      if (!product) return std::nullopt;
    }
    return product;
  }
  for (const Constant& v : a.values)
    if (!v.is_number()) return a.WrongKind(v);
  if (name == "gcd") {
    if (!a.Count(2, 2)) return std::nullopt;
    if (!a.values[0].is_integral() || !a.values[1].is_integral()) return a.Fail("'math.gcd' takes ints");
    Integer x = a.values[0].as_integer(), y = a.values[1].as_integer();
    for (x = x < 0 ? -x : x, y = y < 0 ? -y : y; y != 0;) {
      Integer r = x % y;
      x = y;
      y = r;
    }
    return IntResult(x, a);
  }
  if (name == "pow") {
    if (!a.Count(2, 2)) return std::nullopt;
    return Constant::Float(std::pow(a.values[0].as_real(), a.values[1].as_real()));
  }
  if (!a.Count(1, name == "log" ? 2 : 1)) return std::nullopt;
  double x = a.values[0].as_real();
  if (name == "ceil" || name == "floor" || name == "trunc") {
    if (a.values[0].is_integral()) return Constant::Int(a.values[0].as_integer());
    return RealToInt(name == "ceil" ? std::ceil(x) : name == "floor" ? std::floor(x) : std::trunc(x), a);
  }
  if (name == "isinf") return Constant::Bool(std::isinf(x));
  if (name == "isnan") return Constant::Bool(std::isnan(x));
  if (name == "exp") return Constant::Float(std::exp(x));
  if (name == "fabs") return Constant::Float(std::fabs(x));
  if (name == "sqrt" && x >= 0) return Constant::Float(std::sqrt(x));
  if (name == "isqrt" && a.values[0].is_integral() && x >= 0) {
    Integer n = a.values[0].as_integer(), root = static_cast<Integer>(std::sqrt(x));
    while (root * root > n) --root;
    while ((root + 1) * (root + 1) <= n) ++root;
    return Constant::Int(root);
  }
  if (absl::StartsWith(name, "log") && x > 0) {
    if (a.values.size() == 2) return Constant::Float(std::log(x) / std::log(a.values[1].as_real()));
    return Constant::Float(name == "log2" ? std::log2(x) : name == "log10" ? std::log10(x) : name == "log1p" ? std::log1p(x) : std::log(x));
  }
  return a.Fail(absl::StrCat("'", a.name, "' of ", Repr(a.values[0]), " is out of its domain"));
}

Result Product(const Arguments& a) {
  std::vector<Values> columns;
  Integer total = 1;
  const Constant* repeat = a.Keyword("repeat");
  Integer times = repeat && repeat->is_integral() ? std::clamp<Integer>(repeat->as_integer(), 0, 20) : 1;
  for (Integer r = 0; r < times; ++r)
    for (const Constant& v : a.values) {
      std::optional<Values> elements = Elements(v, a.error);
      if (!elements) return std::nullopt;
      total *= static_cast<Integer>(elements->size());
      if (total > kMaxElements / 10) return a.Fail("the product is too long");
      columns.push_back(std::move(*elements));
    }
  std::vector<Values> rows = {{}};
  for (const Values& column : columns) {
    std::vector<Values> next;
    for (const Values& row : rows)
      for (const Constant& element : column) {
        next.push_back(row);
        next.back().push_back(element);
      }
    rows = std::move(next);
  }
  Values out;
  for (Values& row : rows) out.push_back(Constant::Tuple(std::move(row)));
  return Constant::List(std::move(out));
}

Result Chain(const Arguments& a) {
  Values out;
  for (const Constant& v : a.values) {
    std::optional<Values> elements = Elements(v, a.error);
    if (!elements) return std::nullopt;
    out.insert(out.end(), elements->begin(), elements->end());
    if (out.size() > static_cast<size_t>(kMaxElements)) return a.Fail("the list is too long");
  }
  return Constant::List(std::move(out));
}

//===-- host things outside the module --------------------------------------------------------===//

// "3.6.0+cu130" -> (3, 6, 0).
Result VersionParse(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  if (!a.values[0].is(ConstantKind::kString)) return a.WrongKind(a.values[0]);
  Values parts;
  Integer number = -1;
  for (char c : a.values[0].text + ".") {
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      number = std::min<Integer>((number < 0 ? 0 : number) * 10 + (c - '0'), 1'000'000);
    } else if (number >= 0) {
      parts.push_back(Constant::Int(number));
      number = -1;
      if (c != '.') break;
    }
  }
  while (parts.size() > 1 && parts.back().integer == 0) parts.pop_back();  // 3.0 == 3.0.0
  return Constant::Tuple(std::move(parts));
}

Result EnvironmentVariable(const Arguments& a) {  // the daemon's environment is nobody's business: unset
  if (!a.Count(1, 2)) return std::nullopt;
  if (const Constant* fallback = a.Keyword("default")) return *fallback;
  return a.values.size() > 1 ? a.values[1] : Constant::None();
}

Result CopyCall(const Arguments& a) {
  if (!a.Count(1, 1)) return std::nullopt;
  Constant copy = a.values[0];
  if (copy.items) {
    ConstantKind kind = copy.kind;
    copy = Constant::List(*copy.items);
    copy.kind = kind;
  }
  return copy;
}

using Function = Result (*)(const Arguments&);

const std::map<std::string, Function>& Functions() {
  auto none = [](const Arguments&) -> Result { return Constant::None(); };
  static const auto* table = new std::map<std::string, Function>{
      {"len", Len}, {"range", Range}, {"min", MinMax}, {"max", MinMax}, {"sum", Sum}, {"any", AnyAll}, {"all", AnyAll},
      {"int", ToInt}, {"float", ToFloat}, {"abs", Abs}, {"round", Round}, {"divmod", DivMod}, {"bin", InBaseText}, {"hex", InBaseText},
      {"bool", [](const Arguments& a) -> Result {
         if (!a.Count(0, 1)) return std::nullopt;
         std::optional<bool> truth = a.values.empty() ? std::optional<bool>(false) : Truth(a.values[0], a.error);
         if (!truth) return std::nullopt;
         return Constant::Bool(*truth);
       }},
      {"str", [](const Arguments& a) -> Result {
         if (!a.Count(0, 1)) return std::nullopt;
         return Constant::String(a.values.empty() ? "" : Str(a.values[0]));
       }},
      {"repr", [](const Arguments& a) -> Result {
         if (!a.Count(1, 1)) return std::nullopt;
         return Constant::String(Repr(a.values[0]));
       }},
      {"pow", [](const Arguments& a) -> Result {
         if (!a.Count(2, 2)) return std::nullopt;
         return EvaluateBinary(BinaryOp::kPow, a.values[0], a.values[1], a.error);
       }},
      {"callable", [](const Arguments& a) -> Result {
         if (!a.Count(1, 1)) return std::nullopt;
         ConstantKind kind = a.values[0].kind;
         return Constant::Bool(kind == ConstantKind::kFunction || kind == ConstantKind::kLambda || kind == ConstantKind::kBuiltin);
       }},
      {"format", Format}, {"isinstance", IsInstanceCall}, {"tuple", AsCollection}, {"tl.tuple", AsCollection}, {"list", AsCollection},
      {"set", AsCollection}, {"frozenset", AsCollection}, {"dict", DictCall}, {"zip", Zip}, {"enumerate", Enumerate}, {"sorted", Sorted},
      {"reversed", Reversed}, {"print", none}, {"triton.cdiv", Cdiv}, {"tl.cdiv", Cdiv}, {"triton.next_power_of_2", NextPowerOf2},
      {"tl.constexpr", Identity}, {"triton.Config", ConfigCall}, {"tl.dtype", DTypeCall}, {"tl.pointer_type", PointerTypeCall},
      {"tl.get_int_dtype", IntDTypeCall}, {"collections.namedtuple", NamedTupleCall}, {"typing.NamedTuple", NamedTupleCall},
      {"math.ceil", MathCall}, {"math.floor", MathCall}, {"math.trunc", MathCall},
      {"math.log", MathCall}, {"math.log2", MathCall}, {"math.log10", MathCall}, {"math.log1p", MathCall}, {"math.exp", MathCall},
      {"math.sqrt", MathCall}, {"math.isqrt", MathCall}, {"math.pow", MathCall}, {"math.prod", MathCall}, {"math.gcd", MathCall},
      {"math.fabs", MathCall}, {"math.isinf", MathCall}, {"math.isnan", MathCall},
      // Outside the module; Evaluator asks for these by the names of kExternal values.
      {"itertools.product", Product}, {"itertools.chain", Chain}, {"copy.deepcopy", CopyCall}, {"copy.copy", CopyCall},
      {"packaging.version.parse", VersionParse}, {"packaging.version.Version", VersionParse},
      {"os.environ.get", EnvironmentVariable}, {"os.getenv", EnvironmentVariable},
      {"torch.cuda.is_available", [](const Arguments&) -> Result { return Constant::Bool(true); }},
      {"torch.cuda.get_device_capability", [](const Arguments&) -> Result { return Constant::Tuple({Constant::Int(9), Constant::Int(0)}); }},
      {"torch.cuda.device_count", [](const Arguments&) -> Result { return Constant::Int(1); }},
      {"torch.cuda.current_device", [](const Arguments&) -> Result { return Constant::Int(0); }},
      {"torch.cuda.get_device_name", [](const Arguments&) -> Result { return Constant::String("NVIDIA H200"); }},
      {"torch.cuda.get_device_properties", [](const Arguments&) -> Result { return Constant::External("torch.cuda.properties"); }},
      {"triton.runtime.driver.active.get_current_device", [](const Arguments&) -> Result { return Constant::Int(0); }},
      {"triton.runtime.driver.active.utils.get_device_properties", [](const Arguments&) -> Result {
         return Constant::Dict({Constant::String("max_shared_mem"), Constant::Int(232448), Constant::String("multiprocessor_count"), Constant::Int(132),
                                Constant::String("max_num_regs"), Constant::Int(65536), Constant::String("warpSize"), Constant::Int(32)});
       }},
      {"triton.runtime.driver.active.get_current_target", [](const Arguments&) -> Result { return Constant::External("triton.target"); }},
  };
  return *table;
}

//===-- methods -------------------------------------------------------------------------------===//

// "{} {1} {name!r:>4}".format(...): the names of fields are positions and keywords, without attributes or items.
Result StringFormat(const std::string& text, const Arguments& a) {
  std::string out;
  size_t automatic = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (out.size() > static_cast<size_t>(kMaxElements)) return a.Fail("the string is too long");
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      ++at;
      continue;
    }
    const size_t end = text.find('}', at);
    if (c == '}' || end == std::string::npos) return a.Fail(absl::StrCat("a single '", std::string(1, c), "' in a format string"));
    std::string field = text.substr(at + 1, end - at - 1), spec, conversion;
    if (size_t colon = field.find(':'); colon != std::string::npos) {
      spec = field.substr(colon + 1);
      field.resize(colon);
    }
    if (size_t mark = field.find('!'); mark != std::string::npos) {
      conversion = field.substr(mark + 1);
      field.resize(mark);
    }
    size_t position = automatic;
    const Constant* value = nullptr;
    if (field.empty()) ++automatic;
    if (field.empty() || absl::SimpleAtoi(field, &position))
      value = position < a.values.size() ? &a.values[position] : nullptr;
    else
      value = a.Keyword(field);
    if (value == nullptr) return a.Fail(absl::StrCat("'format' is given nothing for the field '{", field, "}'"));
    if (value->is(ConstantKind::kExternal)) return a.WrongKind(*value);
    if (!conversion.empty() && conversion != "r" && conversion != "s")
      return a.Fail(absl::StrCat("the conversion '!", conversion, "' is not supported in a format string"));
    const Values shown = {conversion == "r" ? Constant::String(Repr(*value)) : *value, Constant::String(spec)};
    const Result formatted = Format(Arguments{"format", shown, {}, a.error});
    if (!formatted) return std::nullopt;
    out += formatted->text;
    at = end;
  }
  return Constant::String(std::move(out));
}

Result StringMethod(const Constant& base, const Arguments& a) {
  const std::string& text = base.text;
  absl::string_view m = a.name;
  for (const Constant& v : a.values)
    if (v.is(ConstantKind::kExternal)) return a.WrongKind(v);
  if (m == "upper") return Constant::String(absl::AsciiStrToUpper(text));
  if (m == "lower") return Constant::String(absl::AsciiStrToLower(text));
  if (m == "strip" || m == "lstrip" || m == "rstrip") {
    if (!a.Count(0, 1)) return std::nullopt;
    std::string characters = a.values.empty() || a.values[0].is_none() ? " \t\n\r\f\v" : a.values[0].text;
    size_t begin = m == "rstrip" ? 0 : text.find_first_not_of(characters);
    if (begin == std::string::npos) return Constant::String("");
    size_t end = m == "lstrip" ? text.size() : text.find_last_not_of(characters) + 1;
    return Constant::String(end > begin ? text.substr(begin, end - begin) : "");
  }
  if (m == "startswith" || m == "endswith") {
    if (!a.Count(1, 1)) return std::nullopt;
    Values options = a.values[0].is(ConstantKind::kTuple) ? *a.values[0].items : a.values;
    for (const Constant& option : options) {
      if (!option.is(ConstantKind::kString)) return a.WrongKind(option);
      if (m == "startswith" ? absl::StartsWith(text, option.text) : absl::EndsWith(text, option.text)) return Constant::Bool(true);
    }
    return Constant::Bool(false);
  }
  if (m == "split") {
    if (!a.Count(0, 1)) return std::nullopt;
    Values parts;
    if (a.values.empty() || a.values[0].is_none()) {
      for (absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(" \t\n\r\f\v"), absl::SkipEmpty()))
        parts.push_back(Constant::String(std::string(part)));
    } else {
      if (a.values[0].text.empty()) return a.Fail("split() by an empty separator");
      for (absl::string_view part : absl::StrSplit(text, a.values[0].text)) parts.push_back(Constant::String(std::string(part)));
    }
    return Constant::List(std::move(parts));
  }
  if (m == "join") {
    if (!a.Count(1, 1)) return std::nullopt;
    std::optional<Values> elements = Elements(a.values[0], a.error);
    if (!elements) return std::nullopt;
    std::string joined;
    for (size_t i = 0; i < elements->size(); ++i) {
      if (!(*elements)[i].is(ConstantKind::kString)) return a.WrongKind((*elements)[i]);
      if (i > 0) joined += text;
      joined += (*elements)[i].text;
      if (joined.size() > static_cast<size_t>(kMaxElements)) return a.Fail("the string is too long");
    }
    return Constant::String(std::move(joined));
  }
  if (m == "replace") {
    if (!a.Count(2, 2)) return std::nullopt;
    const std::string &from = a.values[0].text, &to = a.values[1].text;
    if (from.empty()) return a.Fail("replace() of an empty string");
    std::string out;
    size_t at = 0;
    for (size_t hit; (hit = text.find(from, at)) != std::string::npos; at = hit + from.size()) {
      out += text.substr(at, hit - at) + to;
      if (out.size() > static_cast<size_t>(kMaxElements)) return a.Fail("the string is too long");
    }
    return Constant::String(out + text.substr(at));
  }
  if (m == "find" || m == "count") {
    if (!a.Count(1, 1) || a.values[0].text.empty()) return a.Fail(absl::StrCat("'", m, "' takes one string"));
    if (m == "find") {
      size_t hit = text.find(a.values[0].text);
      return Constant::Int(hit == std::string::npos ? Integer{-1} : static_cast<Integer>(hit));
    }
    Integer count = 0;
    for (size_t at = text.find(a.values[0].text); at != std::string::npos; at = text.find(a.values[0].text, at + a.values[0].text.size())) ++count;
    return Constant::Int(count);
  }
  if (m == "format") return StringFormat(text, a);
  if (m == "isdigit")
    return Constant::Bool(!text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); }));
  return a.Fail(absl::StrCat("str has no method '", m, "' here"));
}

Result ListMethod(const Constant& base, const Arguments& a) {
  Values& items = *base.items;
  absl::string_view m = a.name;
  if (m == "count" || m == "index") {
    if (!a.Count(1, 1)) return std::nullopt;
    Integer count = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!Equal(items[i], a.values[0])) continue;
      if (m == "index") return Constant::Int(static_cast<Integer>(i));
      ++count;
    }
    if (m == "count") return Constant::Int(count);
    return a.Fail(absl::StrCat(Repr(a.values[0]), " is not in the ", KindName(base)));
  }
  if (base.is(ConstantKind::kTuple)) return a.Fail(absl::StrCat("tuple has no method '", m, "'"));
  if (items.size() > static_cast<size_t>(kMaxElements)) return a.Fail("the list is too long");
  if (m == "append") {
    if (!a.Count(1, 1)) return std::nullopt;
    items.push_back(a.values[0]);
  } else if (m == "extend") {
    if (!a.Count(1, 1)) return std::nullopt;
    std::optional<Values> more = Elements(a.values[0], a.error);
    if (!more) return std::nullopt;
    if (items.size() + more->size() > static_cast<size_t>(kMaxElements)) return a.Fail("the list is too long");
    items.insert(items.end(), more->begin(), more->end());
  } else if (m == "insert") {
    if (!a.Count(2, 2)) return std::nullopt;
    if (!a.values[0].is_integral()) return a.WrongKind(a.values[0]);
    Integer at = a.values[0].as_integer(), size = static_cast<Integer>(items.size());
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(std::clamp<Integer>(at < 0 ? at + size : at, 0, size)), a.values[1]);
  } else if (m == "pop") {
    if (!a.Count(0, 1)) return std::nullopt;
    Constant index = a.values.empty() ? Constant::Int(-1) : a.values[0];
    Result popped = EvaluateSubscript(base, index, a.error);
    if (!popped) return std::nullopt;
    Integer at = index.as_integer();
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at < 0 ? at + static_cast<Integer>(items.size()) : at));
    return popped;
  } else if (m == "sort") {
    const Constant* reverse = a.Keyword("reverse");
    std::string ignored;
    if (!SortValues(&items, reverse && Truth(*reverse, &ignored).value_or(false), a.error)) return std::nullopt;
  } else if (m == "reverse") {
    std::reverse(items.begin(), items.end());
  } else if (m == "clear") {
    items.clear();
  } else if (m == "copy") {
    return Constant::List(items);
  } else {
    return a.Fail(absl::StrCat("list has no method '", m, "' here"));
  }
  return Constant::None();
}

void SetEntry(Values* items, const Constant& key, const Constant& value) {
  for (size_t i = 0; i + 1 < items->size(); i += 2)
    if (Equal((*items)[i], key)) {
      (*items)[i + 1] = value;
      return;
    }
  items->push_back(key);
  items->push_back(value);
}

Result DictMethod(const Constant& base, const Arguments& a) {
  Values& items = *base.items;
  absl::string_view m = a.name;
  if (m == "keys" || m == "values" || m == "items") {
    Values out;
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      out.push_back(m == "keys" ? items[i] : m == "values" ? items[i + 1] : Constant::Tuple({items[i], items[i + 1]}));
    return Constant::List(std::move(out));
  }
  if (m == "get" || m == "pop" || m == "setdefault") {
    if (!a.Count(1, 2)) return std::nullopt;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (!Equal(items[i], a.values[0])) continue;
      Constant found = items[i + 1];
      if (m == "pop") items.erase(items.begin() + static_cast<std::ptrdiff_t>(i), items.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      return found;
    }
    if (m == "pop" && a.values.size() == 1) return a.Fail(absl::StrCat("the dict has no key ", Repr(a.values[0])));
    Constant fallback = a.values.size() > 1 ? a.values[1] : Constant::None();
    if (m == "setdefault") SetEntry(&items, a.values[0], fallback);
    return fallback;
  }
  if (m == "update") {
    if (!a.Count(0, 1)) return std::nullopt;
    if (items.size() > 100'000) return a.Fail("the dict is too large");
    if (!a.values.empty() && a.values[0].is(ConstantKind::kDict)) {
      Values other = *a.values[0].items;
      for (size_t i = 0; i + 1 < other.size(); i += 2) SetEntry(&items, other[i], other[i + 1]);
    } else if (!a.values.empty()) {  // pairs
      std::optional<Values> pairs = Elements(a.values[0], a.error);
      if (!pairs) return std::nullopt;
      for (const Constant& pair : *pairs) {
        if (!pair.items || pair.items->size() != 2) return a.Fail("a dict is made of pairs");
        SetEntry(&items, (*pair.items)[0], (*pair.items)[1]);
      }
    }
    for (const auto& [name, value] : a.keywords) SetEntry(&items, Constant::String(name), value);
    return Constant::None();
  }
  if (m == "copy") return Constant::Dict(items);
  return a.Fail(absl::StrCat("dict has no method '", m, "' here"));
}

bool IsFp8(DType dtype) { return IsFloat(dtype) && ByteSize(dtype) == 1; }

Result TypeMethod(const Constant& base, const Arguments& a) {
  if (!a.Count(0, 1)) return std::nullopt;
  bool pointer = base.is(ConstantKind::kPointerType);
  DType d = base.dtype;
  absl::string_view m = a.name;
  auto answer = [&](bool yes) -> Result { return Constant::Bool(!pointer && yes); };
  bool is_int = !IsFloat(d);
  if (m == "is_ptr") return Constant::Bool(pointer);
  if (m == "is_block" || m == "is_void" || m == "is_const" || m == "is_tuple") return Constant::Bool(false);
  if (m == "is_fp8") return answer(IsFp8(d));
  if (m == "is_floating") return answer(IsFloat(d));
  if (m == "is_standard_floating") return answer(IsFloat(d) && !IsFp8(d));
  if (m == "is_int") return answer(is_int);
  if (m == "is_bool") return answer(d == DType::kInt1);
  if (m == "is_int_signed") return answer(IsSigned(d));
  if (m == "is_int_unsigned") return answer(is_int && !IsSigned(d));
  if (m == "is_dtype") return Constant::Bool(true);
  static constexpr struct { absl::string_view name; DType dtype; } kExact[] = {
      {"is_fp16", DType::kFp16}, {"is_bf16", DType::kBf16}, {"is_fp32", DType::kFp32}, {"is_fp64", DType::kFp64},
      {"is_fp8e4nv", DType::kFp8E4M3Fn}, {"is_fp8e5", DType::kFp8E5M2}, {"is_fp8e4b8", DType::kFp8E4M3Fnuz},
      {"is_fp8e4b15", DType::kFp8E4B15}, {"is_fp8e5b16", DType::kFp8E5M2Fnuz}, {"is_int1", DType::kInt1}, {"is_int8", DType::kInt8},
      {"is_int16", DType::kInt16}, {"is_int32", DType::kInt32}, {"is_int64", DType::kInt64}, {"is_uint8", DType::kUint8},
      {"is_uint16", DType::kUint16}, {"is_uint32", DType::kUint32}, {"is_uint64", DType::kUint64}};
  for (const auto& row : kExact)
    if (m == row.name) return answer(d == row.dtype);
  return a.Fail(absl::StrCat("tl.dtype has no method '", m, "'"));
}

int MantissaBits(DType dtype) {
  switch (dtype) {
    case DType::kFp16: return 10;
    case DType::kBf16: return 7;
    case DType::kFp32: return 23;
    case DType::kFp64: return 52;
    case DType::kFp8E5M2: case DType::kFp8E5M2Fnuz: return 2;
    default: return 3;
  }
}

Lookup TypeAttribute(const Constant& base, absl::string_view name) {
  bool pointer = base.is(ConstantKind::kPointerType);
  int bits = pointer ? 64 : base.dtype == DType::kInt1 ? 1 : ByteSize(base.dtype) * 8;
  if (name == "primitive_bitwidth" || (name == "int_bitwidth" && !IsFloat(base.dtype))) return Lookup::Found(Constant::Int(bits));
  if (name == "itemsize") return Lookup::Found(Constant::Int(pointer ? 8 : ByteSize(base.dtype)));
  if (name == "fp_mantissa_width" && IsFloat(base.dtype)) return Lookup::Found(Constant::Int(MantissaBits(base.dtype)));
  if (name == "name") return Lookup::Found(Constant::String(std::string(ShortName(base.dtype))));
  if (name == "scalar" || name == "dtype") return Lookup::Found(base);
  if (name == "element_ty" && pointer) return Lookup::Found(Constant::Type(base.dtype));
  return Lookup::NotConstant(absl::StrCat("tl.dtype has no attribute '", name, "'"), {});
}

Lookup ConfigAttribute(const Constant& base, absl::string_view name) {
  if (name == "kwargs") return Lookup::Found((*base.items)[0]);
  const Values& options = *(*base.items)[1].items;
  for (size_t i = 0; i + 1 < options.size(); i += 2)
    if (options[i].text == name) return Lookup::Found(options[i + 1]);
  if (name == "num_warps") return Lookup::Found(Constant::Int(4));
  if (name == "num_stages") return Lookup::Found(Constant::Int(3));
  if (name == "num_ctas") return Lookup::Found(Constant::Int(1));
  if (name == "maxnreg" || name == "pre_hook" || name == "ir_override") return Lookup::Found(Constant::None());
  return Lookup::NotConstant(absl::StrCat("triton.Config has no attribute '", name, "'"), {});
}

}  // namespace

bool IsCompileTimeBuiltin(absl::string_view name) { return Functions().count(std::string(name)) > 0; }

std::optional<Constant> CallBuiltin(absl::string_view name, const std::vector<Constant>& arguments, const NamedConstants& keywords,
                                    std::string* error) {
  auto found = Functions().find(std::string(name));
  if (found == Functions().end()) {
    *error = absl::StrCat("'", name, "' cannot be called at compile time");
    return std::nullopt;
  }
  return found->second(Arguments{name, arguments, keywords, error});
}

std::optional<Constant> CallMethod(const Constant& base, absl::string_view method, const std::vector<Constant>& arguments,
                                   const NamedConstants& keywords, std::string* error) {
  Arguments a{method, arguments, keywords, error};
  switch (base.kind) {
    case ConstantKind::kString: return StringMethod(base, a);
    case ConstantKind::kList: case ConstantKind::kTuple: return ListMethod(base, a);
    case ConstantKind::kDict: return DictMethod(base, a);
    case ConstantKind::kDType: case ConstantKind::kPointerType: return TypeMethod(base, a);
    case ConstantKind::kSet:
      if (method == "add" && arguments.size() == 1) {
        if (base.items->size() > 10'000) return a.Fail("the set is too large");
        bool known = std::any_of(base.items->begin(), base.items->end(), [&](const Constant& item) { return Equal(item, arguments[0]); });
        if (!known) base.items->push_back(arguments[0]);
        return Constant::None();
      }
      return a.Fail(absl::StrCat("set has no method '", method, "' here"));
    case ConstantKind::kConfig:
      if (method == "all_kwargs") return Constant::Dict(*(*base.items)[0].items);
      return a.Fail(absl::StrCat("triton.Config has no method '", method, "'"));
    default: return a.Fail(absl::StrCat(KindName(base), " has no method '", method, "'"));
  }
}

Lookup ConstantAttribute(const Constant& base, absl::string_view name) {
  if (name == "value" && (base.is_none() || base.is_number() || base.is(ConstantKind::kString) || base.is(ConstantKind::kDType)))
    return Lookup::Found(base);  // of a constexpr
  switch (base.kind) {
    case ConstantKind::kDType: case ConstantKind::kPointerType: return TypeAttribute(base, name);
    case ConstantKind::kConfig: return ConfigAttribute(base, name);
    case ConstantKind::kExternal: {
      std::string path = absl::StrCat(base.text, ".", name);
      std::optional<Constant> value = ExternalValue(path);
      return Lookup::Found(value ? *value : Constant::External(path));
    }
    case ConstantKind::kFunction:
      if (name == "__name__") return Lookup::Found(Constant::String(base.function->name));
      if (name == "fn") return Lookup::Found(base);
      break;
    default: break;
  }
  return Lookup::NotConstant(absl::StrCat(KindName(base), " has no attribute '", name, "'"), {});
}

}  // namespace tessera::frontend
