#include "compiler/driver/signature/signature.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace tessera::compiler {
namespace {

std::vector<std::string> SplitOutsideBrackets(absl::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    if (c == '(' || c == '[' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '>') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(std::move(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!absl::StripAsciiWhitespace(part).empty()) parts.push_back(std::move(part));
  return parts;
}

absl::Status ParseDescriptor(absl::string_view inside, storage::ParameterSpec::TensorDescriptor* descriptor) {
  std::vector<std::string> parts = SplitOutsideBrackets(inside);
  absl::string_view shape = parts.size() == 2 ? absl::StripAsciiWhitespace(parts[1]) : "";
  if (!absl::ConsumePrefix(&shape, "[") || !absl::ConsumeSuffix(&shape, "]"))
    return absl::InvalidArgumentError("a descriptor is written tensordesc<TYPE,[BLOCK,...]>");
  ASSIGN_OR_RETURN(std::string element, NormalizeType(absl::StripAsciiWhitespace(parts[0])));
  descriptor->set_element_type(element);
  for (const std::string& extent : SplitOutsideBrackets(shape)) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(extent, &value) || value < 1)
      return absl::InvalidArgumentError(absl::StrCat("block extent '", extent, "' is no positive integer"));
    descriptor->add_block_shape(value);
  }
  return absl::OkStatus();
}

// Everything behind "NAME=".
absl::Status ParseKind(absl::string_view text, storage::ParameterSpec* spec) {
  text = absl::StripAsciiWhitespace(text);
  if (text == "None") {
    spec->mutable_constant()->mutable_none();
    return absl::OkStatus();
  }
  if (text == "1") {
    spec->set_type("i32");
    spec->set_equals_one(true);
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&text, "tensordesc<") && absl::ConsumeSuffix(&text, ">"))
    return ParseDescriptor(text, spec->mutable_tensor_descriptor());
  if (absl::ConsumePrefix(&text, "(") && absl::ConsumeSuffix(&text, ")")) {
    spec->mutable_tuple();
    for (const std::string& item : SplitOutsideBrackets(text)) RETURN_IF_ERROR(ParseKind(item, spec->mutable_tuple()->add_items()));
    return absl::OkStatus();
  }
  if (size_t colon = text.find(':'); colon != absl::string_view::npos) {
    uint32_t divisibility = 0;
    if (!absl::SimpleAtoi(text.substr(colon + 1), &divisibility) || divisibility == 0)
      return absl::InvalidArgumentError(absl::StrCat("divisibility '", text.substr(colon + 1), "' is no positive integer"));
    spec->set_divisibility(divisibility);
    text = text.substr(0, colon);
  }
  ASSIGN_OR_RETURN(std::string type, NormalizeType(text));
  spec->set_type(type);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> NormalizeType(absl::string_view type) {
  std::string stars;
  while (absl::ConsumePrefix(&type, "*")) {
    absl::ConsumePrefix(&type, "k");
    stars += '*';
  }
  std::string error;
  std::optional<DType> dtype = ParseDType(type, &error);
  if (!dtype) return absl::InvalidArgumentError(error);
  return absl::StrCat(stars, ShortName(*dtype));
}

absl::StatusOr<storage::ParameterSpec> ParseSignatureEntry(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0)
    return absl::InvalidArgumentError(absl::StrCat("signature entry '", text, "': expected NAME=TYPE, as in x=*fp16:16"));
  storage::ParameterSpec spec;
  spec.set_name(std::string(absl::StripAsciiWhitespace(text.substr(0, equals))));
  absl::Status status = ParseKind(text.substr(equals + 1), &spec);
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("signature entry '", text, "': ", status.message()));
  return spec;
}

absl::StatusOr<std::vector<storage::ParameterSpec>> ParseSignature(absl::string_view text) {
  std::vector<storage::ParameterSpec> specs;
  for (const std::string& entry : SplitOutsideBrackets(text)) {
    ASSIGN_OR_RETURN(storage::ParameterSpec spec, ParseSignatureEntry(entry));
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace tessera::compiler
