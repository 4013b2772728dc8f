#include "client/cli/literal.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace tessera::cli {
namespace {

absl::Status Unreadable(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot read '", text, "': expected a Python literal (3, 0x1f, 1e-5, \"text\", True, None, (1, 2)), a dtype name or fn:NAME"));
}

// An integer of up to 64 bits with sign, base prefix and underscores. False: not an integer.
bool ParseInteger(absl::string_view text, v1::Constant* constant, bool* overflow) {
  std::string digits;
  bool negative = false;
  size_t i = 0;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
  for (; i < text.size(); ++i)
    if (text[i] != '_') digits += text[i];
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && std::isalpha(digits[1])) {
    char prefix = std::tolower(digits[1]);
    base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (base == 0) return false;
    digits = digits.substr(2);
  }
  if (digits.empty()) return false;
  char* end = nullptr;
  errno = 0;
  if (!std::isxdigit(digits[0])) return false;
  unsigned long long magnitude = std::strtoull(digits.c_str(), &end, base);
  if (*end != 0) return false;
  *overflow = errno == ERANGE || (negative && magnitude > (1ull << 63));
  if (negative) constant->set_integer(static_cast<int64_t>(0 - magnitude));
  else if (magnitude >> 63) constant->set_unsigned_integer(magnitude);
  else constant->set_integer(magnitude);
  return true;
}

bool ParseReal(absl::string_view text, v1::Constant* constant) {
  std::string word(text);
  if (absl::StartsWith(word, "float(") && word.back() == ')') {
    word = word.substr(6, word.size() - 7);
    if (word.size() >= 2 && (word[0] == '"' || word[0] == '\'')) word = word.substr(1, word.size() - 2);
  }
  char* end = nullptr;
  double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != 0 || word.find_first_of("xXpP") != std::string::npos) return false;
  constant->set_real(value);
  return true;
}

}  // namespace

std::vector<std::string> SplitTopLevel(absl::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  char quote = 0;
  std::string part;
  auto finish = [&] {
    parts.push_back(std::string(absl::StripAsciiWhitespace(part)));
    part.clear();
  };
  for (char c : text) {
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '<' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '>' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      finish();
      continue;
    }
    part += c;
  }
  if (!absl::StripAsciiWhitespace(part).empty() || !parts.empty()) finish();
  if (!parts.empty() && parts.back().empty()) parts.pop_back();  // a trailing comma
  return parts;
}

absl::StatusOr<v1::Constant> ParseConstant(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  v1::Constant constant;
  if (text.empty()) return Unreadable(text);
  if (text == "None") {
    constant.mutable_none();
    return constant;
  }
  if (text == "True" || text == "False") {
    constant.set_boolean(text == "True");
    return constant;
  }
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0]) {
    constant.set_text(std::string(text.substr(1, text.size() - 2)));
    return constant;
  }
  if ((text[0] == '(' && text.back() == ')') || (text[0] == '[' && text.back() == ']')) {
    constant.mutable_tuple();
    for (const std::string& item : SplitTopLevel(text.substr(1, text.size() - 2))) {
      ASSIGN_OR_RETURN(*constant.mutable_tuple()->add_items(), ParseConstant(item));
    }
    return constant;
  }
  if (absl::ConsumePrefix(&text, "fn:")) {
    constant.set_function(std::string(text));
    return constant;
  }
  bool overflow = false;
  if (ParseInteger(text, &constant, &overflow)) {
    if (overflow) return absl::InvalidArgumentError(absl::StrCat("integer ", text, " does not fit 64 bits"));
    return constant;
  }
  if (ParseReal(text, &constant)) return constant;
  if (std::optional<DType> dtype = ParseDType(text)) {
    constant.set_dtype(std::string(ShortName(*dtype)));
    return constant;
  }
  return Unreadable(text);
}

absl::StatusOr<std::pair<std::string, std::string>> SplitAssignment(absl::string_view text) {
  size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0)
    return absl::InvalidArgumentError(absl::StrCat("expected NAME=VALUE, got '", text, "'"));
  return std::make_pair(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
}

absl::StatusOr<v1::Argument> ParseScalarArgument(absl::string_view text) {
  v1::Argument argument;
  text = absl::StripAsciiWhitespace(text);
  if (text.size() >= 2 && text[0] == '(' && text.back() == ')') {
    argument.mutable_tuple();
    for (const std::string& item : SplitTopLevel(text.substr(1, text.size() - 2))) {
      ASSIGN_OR_RETURN(*argument.mutable_tuple()->add_items(), ParseScalarArgument(item));
    }
    return argument;
  }
  if (size_t colon = text.rfind(':'); colon != absl::string_view::npos && !absl::StartsWith(text, "fn:")) {
    std::string error;
    std::optional<DType> dtype = ParseDType(text.substr(colon + 1), &error);
    if (!dtype) return absl::InvalidArgumentError(absl::StrCat("in '", text, "': ", error));
    argument.set_type(std::string(ShortName(*dtype)));
    text = text.substr(0, colon);
  }
  ASSIGN_OR_RETURN(v1::Constant constant, ParseConstant(text));
  switch (constant.kind_case()) {
    case v1::Constant::kInteger: argument.set_integer(constant.integer()); break;
    case v1::Constant::kUnsignedInteger: argument.set_unsigned_integer(constant.unsigned_integer()); break;
    case v1::Constant::kReal: argument.set_real(constant.real()); break;
    case v1::Constant::kBoolean: argument.set_boolean(constant.boolean()); break;
    default: *argument.mutable_constant() = constant;
  }
  return argument;
}

}  // namespace tessera::cli
