#include "cache/key/compile_key.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/key/blake2b.h"
#include "cache/key/canonical_text.h"

namespace tessera::cache {
namespace {

// Raise it when the meaning of a field changes: it parts the old keys from the new.
constexpr absl::string_view kKeyVersion = "1";
constexpr size_t kHashBytes = 32;

// Boolean options beyond the first four of LaunchOptions; unset means this. The precision of dots is not here: its
// default is a setting (see Options).
struct KnownOption {
  const char* name;
  const char* default_value;
};
constexpr KnownOption kKnownOptions[] = {
    {"debug", "false"},
    {"enable_fp_fusion", "true"},
    {"launch_cooperative_grid", "false"},
    {"launch_pdl", "false"},
    {"sanitize_overflow", "true"},
};
constexpr char kDotPrecisionOption[] = "default_dot_input_precision";
constexpr char kDotPrecisionSetting[] = "TRITON_F32_DEFAULT";
constexpr char kDotPrecisionDefault[] = "tf32";

// The bits, so that -0.0 is not 0.0; every NaN is one value.
std::string RealBits(double real) {
  uint64_t bits = 0;
  if (std::isnan(real)) real = std::nan("");
  std::memcpy(&bits, &real, sizeof(bits));
  return absl::StrCat(absl::Hex(bits, absl::kZeroPad16));
}

std::string Constant(const storage::ConstantValue& value) {
  using Value = storage::ConstantValue;
  std::string text;
  switch (value.kind_case()) {
    case Value::kNone:
    case Value::KIND_NOT_SET:  // a constant without a value is None
      AppendField("none", "", &text);
      break;
    case Value::kBoolean:
      AppendField("bool", value.boolean() ? "True" : "False", &text);
      break;
    case Value::kInteger:
      AppendField("int", absl::StrCat(value.integer()), &text);
      break;
    case Value::kUnsignedInteger:
      AppendField("int", absl::StrCat(value.unsigned_integer()), &text);
      break;
    case Value::kReal:
      AppendField("real", RealBits(value.real()), &text);
      break;
    case Value::kText:
      AppendField("text", value.text(), &text);
      break;
    case Value::kDtype:
      AppendField("dtype", value.dtype(), &text);
      break;
    case Value::kFunction:
      AppendField("function", value.function(), &text);
      break;
    case Value::kTuple: {
      std::string items;
      for (const Value& item : value.tuple().items()) AppendField("item", Constant(item), &items);
      AppendField("tuple", items, &text);
      break;
    }
  }
  return text;
}

std::string Parameter(const storage::ParameterSpec& spec) {
  using Spec = storage::ParameterSpec;
  std::string text;
  AppendField("name", spec.name(), &text);
  switch (spec.kind_case()) {
    case Spec::kConstant:
      AppendField("constant", Constant(spec.constant()), &text);
      break;
    case Spec::kTuple: {
      std::string items;
      for (const Spec& item : spec.tuple().items()) AppendField("parameter", Parameter(item), &items);
      AppendField("tuple", items, &text);
      break;
    }
    case Spec::kTensorDescriptor: {
      const Spec::TensorDescriptor& descriptor = spec.tensor_descriptor();
      std::string fields;
      AppendField("element", descriptor.element_type(), &fields);
      for (int64_t extent : descriptor.block_shape()) AppendField("block", absl::StrCat(extent), &fields);
      if (descriptor.nan_padding()) AppendField("padding", "nan", &fields);
      AppendField("descriptor", fields, &text);
      break;
    }
    case Spec::kType:
    case Spec::KIND_NOT_SET:
      AppendField("type", spec.type(), &text);
      break;
  }
  // Divisible by 0 or 1: nothing is known, as if unset.
  if (spec.divisibility() > 1) AppendField("divisible", absl::StrCat(spec.divisibility()), &text);
  if (spec.equals_one()) AppendField("equals", "1", &text);
  return text;
}

void NamedField(absl::string_view field, absl::string_view name, absl::string_view value, std::string* text) {
  std::string pair;
  AppendField("name", name, &pair);
  AppendField("value", value, &pair);
  AppendField(field, pair, text);
}

std::string NormalisedBoolean(const std::string& value) {
  const std::string lower = absl::AsciiStrToLower(value);
  if (lower == "true" || lower == "1") return "true";
  if (lower == "false" || lower == "0" || lower == "none" || lower.empty()) return "false";
  return value;
}

bool IsKnownBoolean(const std::string& name) {
  return std::any_of(std::begin(kKnownOptions), std::end(kKnownOptions),
                     [&](const KnownOption& known) { return name == known.name; });
}

// What a setting says, unset or empty meaning `fallback`.
std::string SettingOr(const storage::CompileJob& job, const char* name, const char* fallback) {
  const auto found = job.settings().find(name);
  return found == job.settings().end() || found->second.empty() ? fallback : found->second;
}

void Options(const storage::CompileJob& job, std::string* text) {
  const storage::LaunchOptions& options = job.options();
  std::map<std::string, std::string> all;
  for (const KnownOption& known : kKnownOptions) all[known.name] = known.default_value;
  // Without the option the setting decides. The setting is in the key too, so that no rule of precedence between the
  // two can make one key out of two different kernels.
  all[kDotPrecisionOption] = SettingOr(job, kDotPrecisionSetting, kDotPrecisionDefault);
  for (const auto& [name, value] : options.extra()) {
    if (name == kDotPrecisionOption && value.empty()) continue;
    const bool boolean = IsKnownBoolean(name);
    if (boolean && value.empty()) continue;
    all[name] = boolean ? NormalisedBoolean(value) : value;
  }
  all["num_warps"] = absl::StrCat(options.num_warps() == 0 ? 4 : options.num_warps());
  all["num_stages"] = absl::StrCat(options.num_stages() == 0 ? 3 : options.num_stages());
  all["num_ctas"] = absl::StrCat(options.num_ctas() == 0 ? 1 : options.num_ctas());
  if (options.maxnreg() != 0) all["maxnreg"] = absl::StrCat(options.maxnreg());
  for (const auto& [name, value] : all) NamedField("option", name, value, text);
}

void Settings(const storage::CompileJob& job, std::string* text) {
  const std::map<std::string, std::string> sorted(job.settings().begin(), job.settings().end());
  for (const auto& [name, value] : sorted) {
    if (value.empty()) continue;  // as if unset
    if (name == kDotPrecisionSetting && value == kDotPrecisionDefault) continue;
    NamedField("setting", name, value, text);
  }
}

void AddFunctions(const storage::ConstantValue& value, std::set<std::string>* functions) {
  if (value.kind_case() == storage::ConstantValue::kFunction) functions->insert(value.function());
  for (const storage::ConstantValue& item : value.tuple().items()) AddFunctions(item, functions);
}

void AddFunctions(const storage::ParameterSpec& spec, std::set<std::string>* functions) {
  for (const storage::ParameterSpec& item : spec.tuple().items()) AddFunctions(item, functions);
  AddFunctions(spec.constant(), functions);
}

// Paths below the directory that all files share: moving the whole module changes nothing, moving one file within it
// does.
std::vector<std::string> RelativePaths(const google::protobuf::RepeatedPtrField<storage::SourceFile>& files) {
  if (files.empty()) return {};
  std::string common = files[0].path();
  for (const storage::SourceFile& file : files) {
    size_t same = 0;
    while (same < common.size() && same < file.path().size() && common[same] == file.path()[same]) ++same;
    common.resize(same);
  }
  const size_t slash = common.rfind('/');
  const size_t drop = slash == std::string::npos ? 0 : slash + 1;
  std::vector<std::string> paths;
  for (const storage::SourceFile& file : files) paths.push_back(file.path().substr(drop));
  return paths;
}

// The main file first, the others by name: their order has no meaning.
std::string Files(const google::protobuf::RepeatedPtrField<storage::SourceFile>& files) {
  const std::vector<std::string> paths = RelativePaths(files);
  std::vector<std::pair<std::string, const std::string*>> sorted;
  for (int i = 0; i < files.size(); ++i) sorted.emplace_back(paths[i], &files[i].text());
  if (sorted.size() > 2) {
    std::sort(sorted.begin() + 1, sorted.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    });
  }
  std::string text;
  for (const auto& [path, contents] : sorted) {
    AppendField("path", path, &text);
    AppendField("text", *contents, &text);
  }
  return text;
}

}  // namespace

std::string CompileKey::hex() const { return absl::BytesToHexString(hash); }

std::vector<std::string> FunctionsOf(const storage::CompileJob& job) {
  std::set<std::string> functions;
  for (const storage::ParameterSpec& spec : job.parameters()) AddFunctions(spec, &functions);
  return {functions.begin(), functions.end()};
}

CompileKey MakeCompileKey(const storage::CompileJob& job, const SourceText& source,
                          absl::string_view compiler_build) {
  CompileKey key;
  std::string* text = &key.canonical;
  AppendField("version", kKeyVersion, text);
  AppendField("compiler", compiler_build, text);
  AppendField("target", job.target(), text);
  // Other targets do not depend on the host.
  if (job.target() == "cpu" || absl::StartsWith(job.target(), "cpu:")) {
    AppendField("cpu_features", job.cpu_features(), text);
  }
  AppendField("kernel", job.kernel(), text);
  for (const storage::ParameterSpec& spec : job.parameters()) AppendField("parameter", Parameter(spec), text);
  Options(job, text);
  Settings(job, text);
  for (const std::string& stage : std::set<std::string>(job.emit().begin(), job.emit().end())) {
    AppendField("emit", stage, text);
  }
  const std::map<std::string, std::string> overrides(job.override_stages().begin(), job.override_stages().end());
  for (const auto& [stage, replacement] : overrides) NamedField("override", stage, replacement, text);
  bool complete = !source.closure.empty();
  for (const std::string& function : FunctionsOf(job)) {
    const auto found = source.functions.find(function);
    if (found == source.functions.end() || found->second.empty()) {
      complete = false;
    } else {
      NamedField("function", function, found->second, text);
    }
  }
  if (!complete) AppendField("files", Files(job.files()), text);
  AppendField("closure", source.closure, text);
  key.hash = Blake2b({key.canonical}, kHashBytes);
  return key;
}

std::string ModuleId(const storage::ModuleRecord& module) {
  return absl::BytesToHexString(Blake2b({Files(module.files())}, kHashBytes));
}

}  // namespace tessera::cache
