#include "compiler/frontend/check/builtins.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "compiler/frontend/check/suggest.h"

namespace tessera::frontend {
namespace {

Constant ParseDefault(absl::string_view text) {
  int64_t integer;
  if (text == "None") return Constant::None();
  if (text == "True" || text == "False") return Constant::Bool(text == "True");
  if (text == "()") return Constant::Tuple({});
  if (absl::SimpleAtoi(text, &integer)) return Constant::Int(integer);
  TESSERA_CHECK(text.size() >= 2 && text.front() == '\'' && text.back() == '\'', "a default in a builtin's signature is malformed");
  return Constant::String(std::string(text.substr(1, text.size() - 2)));
}

std::vector<BuiltinParameter> ParseSignature(absl::string_view signature) {
  std::vector<BuiltinParameter> parameters;
  for (absl::string_view part : absl::StrSplit(signature, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    BuiltinParameter parameter;
    parameter.star = absl::ConsumePrefix(&part, "*");
    std::vector<absl::string_view> sides = absl::StrSplit(part, absl::MaxSplits('=', 1));
    parameter.name = std::string(sides[0]);
    parameter.required = sides.size() == 1 && !parameter.star;
    if (sides.size() == 2) parameter.default_value = ParseDefault(sides[1]);
    if (parameter.star) parameter.default_value = Constant::Tuple({});
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

const BuiltinTable& Table() {
  static const BuiltinTable& table = *[] {
    auto* t = new BuiltinTable;
    AddMemoryBuiltins(t);
    AddMathBuiltins(t);
    AddLibdeviceBuiltins(t);
    AddRoundingBuiltins(t);
    AddSpecialBuiltins(t);
    AddReductionBuiltins(t);
    AddShapeBuiltins(t);
    AddRandomBuiltins(t);
    AddProgramBuiltins(t);
    AddDescriptorBuiltins(t);
    return t;
  }();
  return table;
}

const std::set<std::string>& Methods() {
  static const std::set<std::string>& methods = *new std::set<std::string>{
      "to",         "cast",       "abs",        "advance",    "argmax",     "argmin",     "associative_scan",
      "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",  "atomic_xchg",
      "atomic_xor", "broadcast_to", "cdiv",     "ceil",       "cos",        "cumprod",    "cumsum",
      "erf",        "exp",        "exp2",       "expand_dims", "flip",      "floor",      "gather",
      "histogram",  "item",       "log",        "log2",       "logical_and", "logical_or", "logical_not",
      "max",        "min",        "permute",    "ravel",      "reduce",     "reshape",    "rsqrt",
      "sigmoid",    "sin",        "softmax",    "sort",       "split",      "sqrt",       "sqrt_rn",
      "store",      "load",       "sum",        "trans",      "view",       "xor_sum",    "reduce_or",
      "join",       "topk",
  };
  return methods;
}

}  // namespace

void BuiltinTable::Add(absl::string_view names, absl::string_view signature,
                       std::function<Value(Emitter&, const Arguments&)> emit) {
  for (absl::string_view name : absl::StrSplit(names, ' ', absl::SkipEmpty())) {
    std::string canonical = absl::ConsumePrefix(&name, ".")             ? std::string(name)
                            : absl::StrContains(name, '.') ? std::string(name)
                                                           : absl::StrCat("tl.", name);
    builtins_[canonical] = {canonical, ParseSignature(signature), emit};
  }
}

const Builtin* BuiltinTable::Find(const std::string& name) const {
  auto it = builtins_.find(name);
  return it == builtins_.end() ? nullptr : &it->second;
}

const Builtin* FindBuiltin(const std::string& name) {
  if (const Builtin* found = Table().Find(name)) return found;
  // Submodules repeat what tl has: tl.math.exp, tl.core.load, tl.standard.sum, tl.random.rand.
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "tl.")) return nullptr;
  size_t dot = rest.rfind('.');
  return dot == absl::string_view::npos ? nullptr : Table().Find(absl::StrCat("tl.", rest.substr(dot + 1)));
}

bool IsTensorMethod(const std::string& name) { return Methods().count(name) > 0; }

std::vector<std::string> TensorMethods() { return {Methods().begin(), Methods().end()}; }

std::string UnknownFunction(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [canonical, builtin] : Table().all()) known.push_back(canonical);
  return absl::StrCat("unknown function ", name, DidYouMean(name, known));
}

}  // namespace tessera::frontend
