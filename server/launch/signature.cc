#include "server/launch/signature.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "compiler/driver/signature/signature.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

using FactKind = ParameterFacts::Kind;

absl::Status Bad(absl::string_view entry, absl::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_SIGNATURE",
               absl::StrCat("signature '", entry, "': ", what));
}

// Splits at commas outside brackets.
std::vector<absl::string_view> SplitTopLevel(absl::string_view text) {
  std::vector<absl::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ',';
    if (c == '(' || c == '[' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '>') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    absl::string_view part = absl::StripAsciiWhitespace(text.substr(start, i - start));
    if (!part.empty()) parts.push_back(part);
    start = i + 1;
  }
  return parts;
}

std::optional<storage::ConstantValue> Literal(absl::string_view text) {
  storage::ConstantValue value;
  int64_t integer;
  double real;
  if (text == "None") {
    value.mutable_none();
  } else if (text == "True" || text == "False") {
    value.set_boolean(text == "True");
  } else if (absl::SimpleAtoi(text, &integer)) {
    value.set_integer(integer);
  } else if (absl::SimpleAtod(text, &real)) {
    value.set_real(real);
  } else if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0]) {
    value.set_text(std::string(text.substr(1, text.size() - 2)));
  } else if (std::optional<DType> dtype = ParseDType(text)) {
    value.set_dtype(std::string(ShortName(*dtype)));
  } else {
    return std::nullopt;
  }
  return value;
}

absl::Status ToFacts(absl::string_view entry, const storage::ParameterSpec& spec,
                     ParameterFacts* facts) {
  switch (spec.kind_case()) {
    case storage::ParameterSpec::kConstant:
      if (spec.constant().has_none()) {
        facts->kind = FactKind::kNone;
        return absl::OkStatus();
      }
      facts->kind = FactKind::kConstant;
      facts->owns_constant = true;
      facts->owned = spec.constant();
      return absl::OkStatus();
    case storage::ParameterSpec::kTuple:
      facts->kind = FactKind::kTuple;
      for (const storage::ParameterSpec& item : spec.tuple().items()) {
        facts->items.emplace_back();
        RETURN_IF_ERROR(ToFacts(entry, item, &facts->items.back()));
      }
      return absl::OkStatus();
    case storage::ParameterSpec::kTensorDescriptor: {
      const auto& descriptor = spec.tensor_descriptor();
      std::optional<DType> element = ParseDType(descriptor.element_type());
      if (!element)
        return Bad(entry, absl::StrCat("'", descriptor.element_type(), "' is no element type"));
      facts->kind = FactKind::kDescriptor;
      facts->type = *element;
      facts->block_shape.assign(descriptor.block_shape().begin(), descriptor.block_shape().end());
      facts->nan_padding = descriptor.nan_padding();
      return absl::OkStatus();
    }
    case storage::ParameterSpec::kType:
      break;
    case storage::ParameterSpec::KIND_NOT_SET:
      return Bad(entry, "a type is expected");
  }
  absl::string_view type = spec.type();
  bool pointer = absl::ConsumePrefix(&type, "*");
  std::optional<DType> dtype = ParseDType(type);
  if (!dtype) return Bad(entry, absl::StrCat("'", type, "' is no element type"));
  facts->kind = pointer ? FactKind::kPointer : FactKind::kScalar;
  facts->type = *dtype;
  facts->divisible_by_16 = spec.divisibility() != 0 && spec.divisibility() % 16 == 0;
  facts->equals_one = spec.equals_one();
  facts->bits = spec.equals_one() ? 1 : 0;
  return absl::OkStatus();
}

BoundArgument ArgumentFor(const ParameterFacts& facts, const ParameterFacts* stored) {
  // For heuristics: a constant has its value, None is None, and of the rest it is only known that
  // it is there.
  BoundArgument argument;
  switch (facts.kind) {
    case FactKind::kConstant:
      argument.kind = BoundArgument::Kind::kConstant;
      argument.constant = &stored->value();
      break;
    case FactKind::kNone:
      argument.kind = BoundArgument::Kind::kNone;
      break;
    case FactKind::kScalar:
      if (facts.equals_one) {
        argument.kind = BoundArgument::Kind::kInteger;
        argument.integer = 1;
        break;
      }
      [[fallthrough]];
    default:
      argument.kind = BoundArgument::Kind::kPointer;
      break;
  }
  return argument;
}

}  // namespace

absl::StatusOr<SignatureEntry> ParseSignatureEntry(absl::string_view text, bool is_constexpr) {
  size_t equals = text.find('=');
  if (equals == absl::string_view::npos) return Bad(text, "NAME=TYPE is expected");
  SignatureEntry entry;
  entry.name = std::string(absl::StripAsciiWhitespace(text.substr(0, equals)));
  absl::string_view type = absl::StripAsciiWhitespace(text.substr(equals + 1));
  if (entry.name.empty() || type.empty()) return Bad(text, "NAME=TYPE is expected");
  if (!is_constexpr) {
    absl::StatusOr<storage::ParameterSpec> spec = compiler::ParseSignatureEntry(text);
    if (!spec.ok()) return Bad(text, spec.status().message());
    RETURN_IF_ERROR(ToFacts(text, *spec, &entry.facts));
    return entry;
  }
  std::optional<storage::ConstantValue> literal = Literal(type);
  if (!literal) return Bad(text, "a literal is expected for a constexpr parameter");
  entry.facts.kind = FactKind::kConstant;
  entry.facts.owns_constant = true;
  entry.facts.owned = *std::move(literal);
  return entry;
}

absl::StatusOr<ConfigChoice> BindSignature(const api::CompileRequest& request,
                                           const KernelModel& kernel, const Device& device,
                                           ConfigChooser choose, BoundLaunch* bound) {
  size_t count = kernel.parameters().size();
  bound->arguments.assign(count, BoundArgument());
  bound->facts.assign(count, ParameterFacts());
  RETURN_IF_ERROR(BindArguments(request.arguments(), kernel, nullptr, bound));
  std::vector<bool> typed(count, false);
  for (const std::string& line : request.signature())
    for (absl::string_view text : SplitTopLevel(line)) {
      absl::string_view name = absl::StripAsciiWhitespace(text.substr(0, text.find('=')));
      int at = kernel.FindParameter(name);
      if (at < 0) return kernel.UnknownParameter(name);
      ASSIGN_OR_RETURN(SignatureEntry entry,
                       ParseSignatureEntry(text, kernel.parameters()[at].is_constexpr));
      bound->facts[at] = std::move(entry.facts);
      bound->arguments[at] = ArgumentFor(bound->facts[at], &bound->facts[at]);
      typed[at] = true;
    }
  for (const api::NamedConstant& given : request.constants()) {
    int at = kernel.FindParameter(given.name());
    if (at < 0) return kernel.UnknownParameter(given.name());
    ASSIGN_OR_RETURN(storage::ConstantValue value, ToConstant(given.value()));
    bound->constants.push_back(std::move(value));
    bound->arguments[at] = BoundArgument();
    bound->arguments[at].kind = BoundArgument::Kind::kConstant;
    bound->arguments[at].constant = &bound->constants.back();
    typed[at] = false;
  }
  ConfigChoice choice;
  int configs = static_cast<int>(kernel.configs().size());
  if (request.config() < 0 || request.config() > configs)
    return Error(absl::StatusCode::kInvalidArgument, "CONFIG_UNKNOWN",
                 absl::StrCat("kernel ", kernel.name(), " has ", configs,
                              " configurations; there is no number ", request.config()));
  ASSIGN_OR_RETURN(bool given_in_full, ConfigIsGivenInFull(kernel, *bound));
  if (request.config() > 0)
    choice = {request.config(), &kernel.configs()[request.config() - 1]};
  else if (configs > 0 && !given_in_full) {
    ASSIGN_OR_RETURN(choice, choose(*bound));
  }
  // Parameters with a type keep their facts; the others are completed as a launch's are.
  std::vector<ParameterFacts> facts = bound->facts;
  for (size_t i = 0; i < count; ++i)
    if (typed[i] && facts[i].kind == FactKind::kConstant)
      bound->arguments[i].constant = &facts[i].value();
  RETURN_IF_ERROR(CompleteAndSpecialise(kernel, device, choice, request.options(), bound));
  for (size_t i = 0; i < count; ++i) {
    bool by_config = false;
    if (choice.config != nullptr)
      for (const auto& [parameter, value] : choice.config->values)
        by_config |= parameter == static_cast<int>(i);
    if (typed[i] && !by_config) bound->facts[i] = facts[i];
  }
  // What the facts point to must outlive this function's copies.
  for (ParameterFacts& fact : bound->facts)
    if (fact.kind == FactKind::kConstant && !fact.owns_constant) {
      fact.owned = *fact.constant;
      fact.owns_constant = true;
    }
  MakeVariantKey(device, bound);
  return choice;
}

}  // namespace tessera::server
