#include "server/tuning/exchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

// Keeps what a file says in its order.
using Json = nlohmann::ordered_json;
using Trial = storage::TuningRecord::Trial;

constexpr size_t kMaxFileBytes = 16 << 20;
constexpr const char* kBatchNames[] = {"M", "num_tokens", "batch"};

absl::Status Bad(absl::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_TUNING_FILE", what);
}

// Python writes Infinity and NaN, which JSON has no words for: they become null.
std::string WithoutInfinity(absl::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\' && i + 1 < text.size()) {
      out += text[i++];
      out += text[i];
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    if (!in_string) {
      bool replaced = false;
      for (absl::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (!absl::StartsWith(text.substr(i), word)) continue;
        out += "null";
        i += word.size() - 1;
        replaced = true;
        break;
      }
      if (replaced) continue;
    }
    out += text[i];
  }
  return out;
}

absl::StatusOr<Json> ParseObject(absl::string_view content) {
  if (content.size() > kMaxFileBytes)
    return Bad(
        absl::StrCat("the file has ", content.size(), " bytes; the limit is ", kMaxFileBytes));
  Json json = Json::parse(WithoutInfinity(content), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("the file is no JSON");
  if (!json.is_object()) return Bad("the file is no JSON object");
  return json;
}

bool IsParameter(const storage::KernelDescription& kernel, absl::string_view name) {
  return std::any_of(
      kernel.parameters().begin(), kernel.parameters().end(),
      [&](const storage::ParameterDescription& parameter) { return parameter.name() == name; });
}

std::optional<storage::ConstantValue> ConstantOf(const Json& value) {
  storage::ConstantValue constant;
  if (value.is_boolean()) {
    constant.set_boolean(value.get<bool>());
  } else if (value.is_number_unsigned() && value.get<uint64_t>() >> 63) {
    constant.set_unsigned_integer(value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    constant.set_integer(value.get<int64_t>());
  } else if (value.is_number_float()) {
    constant.set_real(value.get<double>());
  } else if (value.is_string()) {
    constant.set_text(value.get<std::string>());
  } else if (value.is_null()) {
    constant.mutable_none();
  } else {
    return std::nullopt;
  }
  return constant;
}

Json JsonOf(const storage::ConstantValue& value) {
  switch (value.kind_case()) {
    case storage::ConstantValue::kBoolean:
      return value.boolean();
    case storage::ConstantValue::kInteger:
      return value.integer();
    case storage::ConstantValue::kUnsignedInteger:
      return value.unsigned_integer();
    case storage::ConstantValue::kReal:
      return value.real();
    case storage::ConstantValue::kText:
      return value.text();
    case storage::ConstantValue::kDtype:
      return value.dtype();
    case storage::ConstantValue::kFunction:
      return value.function();
    default:
      return nullptr;
  }
}

// With Triton's defaults filled in.
std::string Canonical(const storage::TuneConfig& config) {
  std::map<std::string, std::string> values;
  for (const storage::NamedConstant& value : config.values())
    values[value.name()] = JsonOf(value.value()).dump();
  const storage::LaunchOptions& options = config.options();
  std::string text = absl::StrJoin(values, " ", absl::PairFormatter("="));
  absl::StrAppend(&text, " warps=", options.num_warps() == 0 ? 4 : options.num_warps(),
                  " stages=", options.num_stages() == 0 ? 3 : options.num_stages(),
                  " ctas=", options.num_ctas() == 0 ? 1 : options.num_ctas(),
                  " maxnreg=", options.maxnreg());
  std::map<std::string, std::string> extra(options.extra().begin(), options.extra().end());
  return absl::StrCat(text, " ", absl::StrJoin(extra, " ", absl::PairFormatter("=")));
}

// The kernel's own configuration if it lists the same one, so that the two count as one.
storage::TuneConfig AsListed(storage::TuneConfig config, const storage::KernelDescription& kernel) {
  std::string canonical = Canonical(config);
  for (const storage::TuneConfig& listed : kernel.configs())
    if (Canonical(listed) == canonical) return listed;
  return config;
}

absl::Status SetOption(absl::string_view where, const std::string& name, const Json& value,
                       storage::LaunchOptions* options) {
  if (value.is_null()) return absl::OkStatus();
  if (name == "pre_hook" || name == "ir_override")
    return Bad(absl::StrCat(where, ": ", name, " is not supported"));
  bool number =
      value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < 1'000'000;
  uint32_t count = number ? value.get<uint32_t>() : 0;
  bool known =
      name == "num_warps" || name == "num_stages" || name == "num_ctas" || name == "maxnreg";
  if (known && !number)
    return Bad(absl::StrCat(where, ": ", name, " is ", value.dump(), ", which is no count"));
  if (name == "num_warps")
    options->set_num_warps(count);
  else if (name == "num_stages")
    options->set_num_stages(count);
  else if (name == "num_ctas")
    options->set_num_ctas(count);
  else if (name == "maxnreg")
    options->set_maxnreg(count);
  else
    (*options->mutable_extra())[name] = value.is_string() ? value.get<std::string>() : value.dump();
  return absl::OkStatus();
}

absl::Status SetValue(absl::string_view where, const std::string& name, const Json& value,
                      const storage::KernelDescription& kernel, storage::TuneConfig* config) {
  std::optional<storage::ConstantValue> constant = ConstantOf(value);
  if (!constant)
    return Bad(absl::StrCat(where, ": ", name, " is ", value.dump(),
                            ", which is no value of a configuration"));
  if (!IsParameter(kernel, name))
    return Bad(absl::StrCat(where, ": '", name, "' is no parameter of ", kernel.name(),
                            "; is the file of another kernel?"));
  storage::NamedConstant* named = config->add_values();
  named->set_name(name);
  *named->mutable_value() = *std::move(constant);
  return absl::OkStatus();
}

// An entry of a configuration. Triton passes all of them as keywords of the launch, so what is no
// parameter is an option; but a name in capitals is a constant that this kernel does not have.
absl::Status SetKeyword(absl::string_view where, const std::string& name, const Json& value,
                        const storage::KernelDescription& kernel, storage::TuneConfig* config) {
  if (IsParameter(kernel, name) || absl::AsciiStrToUpper(name) == name)
    return SetValue(where, name, value, kernel, config);
  return SetOption(where, name, value, config->mutable_options());
}

uint32_t Fastest(const std::vector<Trial>& trials) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < trials.size(); ++i)
    if (trials[i].failure().empty() && (!trials[best].failure().empty() ||
                                        trials[i].median_seconds() < trials[best].median_seconds()))
      best = i;
  return best;
}

std::string DTypeOfTorch(absl::string_view name) {
  absl::ConsumePrefix(&name, "torch.");
  std::optional<DType> dtype = ParseDType(name);
  return dtype ? std::string(ShortName(*dtype)) : "";
}

std::string TorchName(absl::string_view short_name) {
  static const auto* names =
      new std::map<std::string, std::string>{{"i1", "bool"},
                                             {"i8", "int8"},
                                             {"i16", "int16"},
                                             {"i32", "int32"},
                                             {"i64", "int64"},
                                             {"u8", "uint8"},
                                             {"u16", "uint16"},
                                             {"u32", "uint32"},
                                             {"u64", "uint64"},
                                             {"fp16", "float16"},
                                             {"bf16", "bfloat16"},
                                             {"fp32", "float32"},
                                             {"fp64", "float64"},
                                             {"fp8e4nv", "float8_e4m3fn"},
                                             {"fp8e5", "float8_e5m2"},
                                             {"fp8e4b8", "float8_e4m3fnuz"},
                                             {"fp8e5b16", "float8_e5m2fnuz"}};
  auto found = names->find(std::string(short_name));
  return absl::StrCat("torch.", found == names->end() ? std::string(short_name) : found->second);
}

// "M=16 N=512 | fp16 fp16", or a sample "M=16 N=512, lda=1": the key's values and what stands
// behind them.
struct KeyValues {
  std::map<std::string, std::string> values;
  std::vector<std::string> types;
};
KeyValues ParseKey(absl::string_view text) {
  KeyValues key;
  std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('|', 1));
  for (absl::string_view part : absl::StrSplit(parts.first, ' ', absl::SkipEmpty())) {
    bool last = absl::ConsumeSuffix(&part, ",");
    std::pair<std::string, std::string> value = absl::StrSplit(part, absl::MaxSplits('=', 1));
    key.values.insert(value);
    if (last) break;  // integers outside the key
  }
  for (absl::string_view type : absl::StrSplit(parts.second, ' ', absl::SkipEmpty()))
    key.types.emplace_back(type);
  return key;
}

// The values that a record was measured with; its bucket's where they were not written down.
// "pow2:512" is 512.
KeyValues MeasuredKey(const storage::TuningRecord& record) {
  KeyValues key = ParseKey(record.bucket());
  for (auto& [name, value] : key.values)
    if (size_t colon = value.rfind(':'); colon != std::string::npos)
      value = value.substr(colon + 1);
  for (const auto& [name, value] : ParseKey(record.sample()).values)
    if (key.values.count(name) > 0) key.values[name] = value;
  return key;
}

Json ConfigJson(const storage::TuneConfig& config) {
  Json kwargs = Json::object();
  for (const storage::NamedConstant& value : config.values())
    kwargs[value.name()] = JsonOf(value.value());
  const storage::LaunchOptions& options = config.options();
  for (const auto& [name, value] : options.extra()) kwargs[name] = value;
  Json json;
  json["kwargs"] = std::move(kwargs);
  json["num_warps"] = options.num_warps() == 0 ? 4 : options.num_warps();
  json["num_ctas"] = options.num_ctas() == 0 ? 1 : options.num_ctas();
  json["num_stages"] = options.num_stages() == 0 ? 3 : options.num_stages();
  json["maxnreg"] = options.maxnreg() == 0 ? Json(nullptr) : Json(options.maxnreg());
  json["pre_hook"] = nullptr;
  json["ir_override"] = nullptr;
  return json;
}

absl::StatusOr<std::string> BatchArgument(const storage::KernelDescription& kernel,
                                          absl::string_view wanted) {
  auto in_key = [&](absl::string_view name) {
    return std::find(kernel.tuning_key().begin(), kernel.tuning_key().end(), name) !=
           kernel.tuning_key().end();
  };
  if (!wanted.empty()) {
    if (in_key(wanted)) return std::string(wanted);
    return Bad(absl::StrCat("'", wanted, "' is not in the key of ", kernel.name(), " (",
                            absl::StrJoin(kernel.tuning_key(), ", "), ")"));
  }
  for (const char* name : kBatchNames)
    if (in_key(name)) return std::string(name);
  if (kernel.tuning_key_size() == 1) return kernel.tuning_key(0);
  return Bad(absl::StrCat("which argument of the key of ", kernel.name(), " (",
                          absl::StrJoin(kernel.tuning_key(), ", "),
                          ") are the batch sizes values of? Name it as the batch argument"));
}

}  // namespace

absl::StatusOr<ForeignTunings> ReadTritonAutotune(absl::string_view content,
                                                  const storage::KernelDescription& kernel) {
  ASSIGN_OR_RETURN(Json json, ParseObject(content));
  if (!json.contains("key") || !json["key"].is_array() || !json.contains("configs_timings") ||
      !json["configs_timings"].is_array())
    return Bad("a file of Triton's autotune cache has lists \"key\" and \"configs_timings\"");
  ForeignTunings read;
  ForeignTuning tuning;
  std::vector<std::string> values, types;
  for (const Json& part : json["key"]) {
    std::string text = part.is_string() ? part.get<std::string>() : part.dump();
    if (static_cast<int>(values.size()) < kernel.tuning_key_size()) {
      values.push_back(text);
      continue;
    }
    std::string type = DTypeOfTorch(text);
    if (type.empty())
      return Bad(absl::StrCat("key: '", text, "' is no type; ", kernel.name(), " has the key (",
                              absl::StrJoin(kernel.tuning_key(), ", "), ")"));
    types.push_back(type);
  }
  if (static_cast<int>(values.size()) < kernel.tuning_key_size())
    return Bad(absl::StrCat("the key has ", values.size(), " values; ", kernel.name(),
                            " has the key (", absl::StrJoin(kernel.tuning_key(), ", "), ")"));
  for (int i = 0; i < kernel.tuning_key_size(); ++i) {
    if (absl::StartsWith(values[i], "torch."))
      return Bad(absl::StrCat("the key has fewer values than that of ", kernel.name(), " (",
                              absl::StrJoin(kernel.tuning_key(), ", "), ")"));
    tuning.key.emplace_back(kernel.tuning_key(i), values[i]);
  }
  tuning.types = absl::StrJoin(types, " ");

  size_t number = 0;
  for (const Json& entry : json["configs_timings"]) {
    std::string where = absl::StrCat("configs_timings[", number++, "]");
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_object())
      return Bad(absl::StrCat(where, " is no pair of a configuration and its times"));
    Trial trial;
    storage::TuneConfig config;
    for (const auto& [name, value] : entry[0].items()) {
      if (name != "kwargs") {
        RETURN_IF_ERROR(SetOption(where, name, value, config.mutable_options()));
        continue;
      }
      if (!value.is_object()) return Bad(absl::StrCat(where, ": kwargs is no object"));
      for (const auto& [kwarg, constant] : value.items())
        RETURN_IF_ERROR(SetKeyword(where, kwarg, constant, kernel, &config));
    }
    *trial.mutable_config() = AsListed(std::move(config), kernel);
    // A list of quantiles, or one number.
    std::vector<std::optional<double>> times;
    if (entry[1].is_number() || entry[1].is_null())
      times.push_back(entry[1].is_null() ? std::nullopt
                                         : std::optional<double>(entry[1].get<double>()));
    else if (entry[1].is_array())
      for (const Json& time : entry[1]) {
        if (!time.is_number() && !time.is_null())
          return Bad(absl::StrCat(where, ": ", time.dump(), " is no time"));
        times.push_back(time.is_null() ? std::nullopt : std::optional<double>(time.get<double>()));
      }
    if (times.empty()) return Bad(absl::StrCat(where, " has no times"));
    if (!times[0] || !(*times[0] >= 0)) {
      trial.set_failure("it did not run when Triton measured it");
    } else {
      trial.set_samples(1);
      trial.set_median_seconds(*times[0] * 1e-3);
      trial.set_low_seconds((times.size() > 1 && times[1] ? *times[1] : *times[0]) * 1e-3);
      trial.set_high_seconds((times.size() > 2 && times[2] ? *times[2] : *times[0]) * 1e-3);
    }
    trial.set_environment("imported: triton");
    tuning.trials.push_back(std::move(trial));
  }
  if (tuning.trials.empty()) return Bad("configs_timings is empty");
  tuning.chosen = Fastest(tuning.trials);
  if (!tuning.trials[tuning.chosen].failure().empty())
    return Bad("no configuration of the file ran");
  read.tunings.push_back(std::move(tuning));
  return read;
}

absl::StatusOr<ForeignTunings> ReadServingEngineFile(absl::string_view name,
                                                     absl::string_view content,
                                                     const storage::KernelDescription& kernel,
                                                     absl::string_view batch_argument) {
  name = name.substr(name.rfind('/') + 1);
  if (!absl::ConsumeSuffix(&name, ".json") || !absl::StrContains(name, "device_name="))
    return Bad(absl::StrCat(
        "'", name, "': a serving engine's file is called NAME=VALUE,...,device_name=DEVICE.json"));
  if (kernel.tuning_key().empty())
    return Bad(absl::StrCat(kernel.name(), " has no key that batch sizes could be values of"));
  ASSIGN_OR_RETURN(std::string batch, BatchArgument(kernel, batch_argument));
  ForeignTunings read;
  std::map<std::string, std::string> of_file;
  int depth = 0;
  std::string part;
  std::vector<std::string> parts;
  for (char c : name) {  // commas inside block_shape=[128,128] are no ends
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  parts.push_back(part);
  for (const std::string& word : parts) {
    std::pair<std::string, std::string> value = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (value.first == "device_name") {
      read.device_name = value.second;
    } else if (std::find(kernel.tuning_key().begin(), kernel.tuning_key().end(), value.first) !=
               kernel.tuning_key().end()) {
      of_file.insert(value);
    } else {
      read.notes.push_back(absl::StrCat("'", word, "' in the name is not in the key of ",
                                        kernel.name(), ": the file counts whatever it is"));
    }
  }
  ASSIGN_OR_RETURN(Json json, ParseObject(content));
  for (const auto& [size, entry] : json.items()) {
    int64_t batch_size = 0;
    if (!absl::SimpleAtoi(size, &batch_size) || batch_size < 0) {
      if (entry.is_object()) return Bad(absl::StrCat("'", size, "' is no batch size"));
      continue;  // "triton_version"
    }
    std::string where = absl::StrCat("batch size ", size);
    if (!entry.is_object())
      return Bad(absl::StrCat(where, ": ", entry.dump(), " is no configuration"));
    ForeignTuning tuning;
    for (const std::string& argument : kernel.tuning_key()) {
      auto found = of_file.find(argument);
      tuning.key.emplace_back(argument, argument == batch        ? size
                                        : found != of_file.end() ? found->second
                                                                 : kAnyValue);
    }
    tuning.types = kAnyValue;
    Trial trial;
    storage::TuneConfig config;
    for (const auto& [key, value] : entry.items())
      RETURN_IF_ERROR(SetKeyword(where, key, value, kernel, &config));
    *trial.mutable_config() = AsListed(std::move(config), kernel);
    trial.set_environment("imported: serving engine");
    tuning.trials.push_back(std::move(trial));
    read.tunings.push_back(std::move(tuning));
  }
  if (read.tunings.empty()) return Bad("the file has no batch size");
  return read;
}

std::string BucketText(const ForeignTuning& tuning, const BucketLabel& label) {
  std::string text;
  for (const auto& [name, value] : tuning.key) {
    int64_t number = 0;
    bool integer = absl::SimpleAtoi(value, &number);
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=",
                    integer ? label(name, number) : value);
  }
  return absl::StrCat(text, " |", tuning.types.empty() ? "" : " ", tuning.types);
}

bool SameDeviceName(absl::string_view a, absl::string_view b) {
  return absl::StrReplaceAll(a, {{" ", "_"}, {"/", "_"}}) ==
         absl::StrReplaceAll(b, {{" ", "_"}, {"/", "_"}});
}

std::vector<ExchangeFile> WriteTritonAutotune(const std::vector<storage::TuningRecord>& records,
                                              const storage::KernelDescription& kernel,
                                              std::vector<std::string>* notes) {
  std::vector<ExchangeFile> files;
  for (const storage::TuningRecord& record : records) {
    KeyValues key = MeasuredKey(record);
    Json json;
    json["key"] = Json::array();
    bool complete = true;
    std::vector<std::string> folder;
    for (const std::string& name : kernel.tuning_key()) {
      complete = complete && key.values.count(name) > 0 && key.values[name] != kAnyValue;
      json["key"].push_back(key.values[name]);
      folder.push_back(absl::StrCat(name, "=", key.values[name]));
    }
    complete =
        complete && std::find(key.types.begin(), key.types.end(), kAnyValue) == key.types.end();
    for (const std::string& type : key.types) json["key"].push_back(TorchName(type));
    json["configs_timings"] = Json::array();
    for (const Trial& trial : record.trials()) {
      if (trial.failure().empty() && trial.samples() == 0) continue;
      Json times = Json::array();
      for (double seconds : {trial.median_seconds(), trial.low_seconds(), trial.high_seconds()})
        times.push_back(trial.failure().empty() ? Json(seconds * 1e3) : Json("\x01"));
      json["configs_timings"].push_back({ConfigJson(trial.config()), times});
    }
    if (!complete || json["configs_timings"].empty()) {
      notes->push_back(absl::StrCat(
          "bucket '", record.bucket(),
          "' is left out: ", complete ? "it has no times" : "not all of its values are known"));
      continue;
    }
    // JSON has no word for what Python reads here.
    std::string content = absl::StrReplaceAll(json.dump(), {{"\"\\u0001\"", "Infinity"}});
    std::string file = absl::StrCat(kernel.name().substr(0, 150), ".autotune.json");
    if (records.size() > 1)
      file = absl::StrCat(absl::StrJoin(folder, ","), key.types.empty() ? "" : ",",
                          absl::StrJoin(key.types, "-"), "/", file);
    files.push_back({file, content});
  }
  return files;
}

absl::StatusOr<std::vector<ExchangeFile>> WriteServingEngineFiles(
    const std::vector<storage::TuningRecord>& records, const storage::KernelDescription& kernel,
    absl::string_view batch_argument, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(std::string batch, BatchArgument(kernel, batch_argument));
  std::map<std::string, std::map<int64_t, Json>> files;
  for (const storage::TuningRecord& record : records) {
    KeyValues key = MeasuredKey(record);
    int64_t size = 0;
    if (!absl::SimpleAtoi(key.values[batch], &size) ||
        record.chosen() >= static_cast<uint32_t>(record.trials_size())) {
      notes->push_back(
          absl::StrCat("bucket '", record.bucket(), "' is left out: it has no value of ", batch));
      continue;
    }
    std::string name;
    for (const std::string& argument : kernel.tuning_key())
      if (argument != batch && key.values[argument] != kAnyValue)
        absl::StrAppend(&name, argument, "=", key.values[argument], ",");
    absl::StrAppend(&name,
                    "device_name=", absl::StrReplaceAll(record.device(), {{" ", "_"}, {"/", "_"}}),
                    ".json");
    Json full = ConfigJson(record.trials(static_cast<int>(record.chosen())).config());
    Json entry = full["kwargs"];
    for (const char* option : {"num_warps", "num_stages"}) entry[option] = full[option];
    if (full["num_ctas"] != 1) entry["num_ctas"] = full["num_ctas"];
    if (!full["maxnreg"].is_null()) entry["maxnreg"] = full["maxnreg"];
    if (!files[name].emplace(size, entry).second)
      notes->push_back(absl::StrCat("bucket '", record.bucket(), "' is left out: ", name,
                                    " has batch size ", size, " already, for other types"));
  }
  std::vector<ExchangeFile> written;
  for (const auto& [name, sizes] : files) {
    Json json = Json::object();
    for (const auto& [size, entry] : sizes) json[absl::StrCat(size)] = entry;
    written.push_back({name, json.dump(4) + "\n"});
  }
  return written;
}

}  // namespace tessera::server
