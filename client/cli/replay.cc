#include "client/cli/replay.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/command_context.h"
#include "client/cli/comparison.h"
#include "client/cli/npy.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::json;

// Space in front of and behind each storage, filled with a pattern that no launch may change.
constexpr uint64_t kMargin = 8192;
constexpr uint8_t kPattern = 0xa5;

struct Storage {
  std::vector<uint8_t> before, after;
  std::unique_ptr<SharedBuffer> buffer;
  uint64_t offset = 0;  // of the storage in the buffer
  bool written = false;
  std::vector<bool> ignored;
};

struct View {
  std::string parameter;
  int storage;
  ElementView elements;
};

struct Case {
  Json json;
  std::vector<Storage> storages;
  std::vector<View> views;
  v1::LaunchRequest request;
};

double RealOf(const Json& value) {
  if (value.is_object()) {  // {"float": text, "bits": big-endian hex of the double}
    uint64_t bits = std::strtoull(value.at("bits").get<std::string>().c_str(), nullptr, 16);
    double real;
    std::memcpy(&real, &bits, sizeof(real));
    return real;
  }
  return value.get<double>();
}

void SetInteger(const Json& value, v1::Argument* argument) {
  if (value.is_number_unsigned() && value.get<uint64_t>() >> 63) argument->set_unsigned_integer(value.get<uint64_t>());
  else argument->set_integer(value.get<int64_t>());
}

absl::StatusOr<v1::Constant> ConstantOf(const Json& value) {
  v1::Constant constant;
  if (value.is_null()) constant.mutable_none();
  else if (value.is_boolean()) constant.set_boolean(value.get<bool>());
  else if (value.is_number_unsigned() && value.get<uint64_t>() >> 63) constant.set_unsigned_integer(value.get<uint64_t>());
  else if (value.is_number_integer()) constant.set_integer(value.get<int64_t>());
  else if (value.is_number_float()) constant.set_real(value.get<double>());
  else if (value.is_string()) constant.set_text(value.get<std::string>());
  else if (value.contains("float")) constant.set_real(RealOf(value));
  else if (value.contains("dtype")) constant.set_dtype(value["dtype"].get<std::string>());
  else if (value.contains("torch_dtype")) constant.set_dtype(value["torch_dtype"].get<std::string>());
  else if (value.contains("jit")) constant.set_function(value["jit"].get<std::string>());
  else if (value.contains("tuple")) {
    constant.mutable_tuple();
    for (const Json& item : value["tuple"]) {
      ASSIGN_OR_RETURN(*constant.mutable_tuple()->add_items(), ConstantOf(item));
    }
  } else return absl::UnimplementedError(absl::StrCat("constexpr value ", value.dump()));
  return constant;
}

absl::Status SetTensor(const Json& param, const std::string& name, Case& loaded, v1::TensorRef* tensor) {
  std::string dtype_name = param.at("dtype").get<std::string>(), error;
  std::optional<DType> dtype = ParseDType(dtype_name, &error);
  if (!dtype) return absl::UnimplementedError(error);
  size_t index = param.at("storage").get<size_t>();
  if (index >= loaded.storages.size()) return absl::InvalidArgumentError(absl::StrCat(name, " names storage ", index));
  Storage& storage = loaded.storages[index];
  ElementView view{*dtype, param.value("byte_offset", uint64_t{0}), param.at("shape").get<std::vector<int64_t>>(),
                   param.at("strides").get<std::vector<int64_t>>()};
  tensor->set_region(storage.buffer->region());
  tensor->set_byte_offset(storage.offset + view.byte_offset);
  tensor->set_dtype(std::string(ShortName(*dtype)));
  // The kernel gets the pointer only: anything inside the storage may be touched.
  tensor->add_shape((storage.before.size() - std::min<uint64_t>(view.byte_offset, storage.before.size())) / ByteSize(*dtype));
  loaded.views.push_back({name, static_cast<int>(index), std::move(view)});
  return absl::OkStatus();
}

absl::Status SetArgument(const Json& param, const std::string& name, Case& loaded, v1::Argument* argument) {
  std::string kind = param.at("kind").get<std::string>();
  argument->set_name(param.value("name", std::string()));
  if (kind == "tensor") return SetTensor(param, name, loaded, argument->mutable_tensor());
  if (kind == "none") {
    argument->mutable_constant()->mutable_none();
  } else if (kind == "constexpr") {
    ASSIGN_OR_RETURN(*argument->mutable_constant(), ConstantOf(param.at("value")));
  } else if (kind == "scalar") {
    const Json& value = param.at("value");
    std::string type = param.value("ty", std::string());
    if (value.is_boolean()) argument->set_boolean(value.get<bool>());
    else if (value.is_number_integer()) SetInteger(value, argument);
    else argument->set_real(RealOf(value));
    if (type != "constexpr") argument->set_type(type);
  } else if (kind == "tuple") {
    argument->mutable_tuple();
    for (const Json& item : param.at("items"))
      RETURN_IF_ERROR(SetArgument(item, absl::StrCat(name, ".", argument->tuple().items_size()), loaded, argument->mutable_tuple()->add_items()));
  } else if (kind == "tensordesc") {
    auto* descriptor = argument->mutable_tensor_descriptor();
    RETURN_IF_ERROR(SetTensor(param.at("base"), name, loaded, descriptor->mutable_base()));
    descriptor->mutable_base()->clear_shape();
    for (int64_t extent : param.at("shape").get<std::vector<int64_t>>()) descriptor->mutable_base()->add_shape(extent);
    for (int64_t stride : param.at("strides").get<std::vector<int64_t>>()) descriptor->mutable_base()->add_strides(stride);
    for (int64_t extent : param.at("block_shape").get<std::vector<int64_t>>()) descriptor->add_block_shape(extent);
    descriptor->set_padding(param.value("padding", std::string("zero")));
  } else {
    return absl::UnimplementedError(absl::StrCat("parameter kind '", kind, "'"));
  }
  return absl::OkStatus();
}

absl::Status LoadStorages(Client& client, const std::string& folder, Case& loaded) {
  for (size_t i = 0; i < loaded.json.at("storages").size(); ++i) {
    const Json& json = loaded.json["storages"][i];
    Storage storage;
    ASSIGN_OR_RETURN(NpyArray before, ReadNpy(absl::StrCat(folder, "/in_", i, ".npy")));
    ASSIGN_OR_RETURN(NpyArray after, ReadNpy(absl::StrCat(folder, "/out_", i, ".npy")));
    storage.before.assign(before.data.begin(), before.data.end());
    storage.after.assign(after.data.begin(), after.data.end());
    storage.written = json.value("written", true);
    // The recorded alignment, and no better: it decides the variant.
    uint64_t align = json.value("align", uint64_t{4096});
    storage.offset = kMargin + (align < 4096 ? align : 0);
    ASSIGN_OR_RETURN(storage.buffer, client.Allocate(storage.offset + storage.before.size() + kMargin));
    std::memset(storage.buffer->data(), kPattern, storage.buffer->size());
    std::copy(storage.before.begin(), storage.before.end(), storage.buffer->as<uint8_t>() + storage.offset);
    loaded.storages.push_back(std::move(storage));
  }
  if (loaded.json.contains("ignore"))
    for (const Json& entry : loaded.json["ignore"]) {
      Storage& storage = loaded.storages.at(entry[0].get<size_t>());
      storage.ignored.resize(storage.before.size());
      for (uint64_t b = 0; b < entry[2].get<uint64_t>(); ++b) storage.ignored.at(entry[1].get<uint64_t>() + b) = true;
    }
  return absl::OkStatus();
}

void SetOptions(const Json& options, v1::Options* out) {
  for (auto& [name, value] : options.items()) {
    if (value.is_null()) continue;
    if (name == "num_warps") out->set_num_warps(value.get<uint32_t>());
    else if (name == "num_stages") out->set_num_stages(value.get<uint32_t>());
    else if (name == "num_ctas") out->set_num_ctas(value.get<uint32_t>());
    else if (name == "maxnreg") out->set_maxnreg(value.get<uint32_t>());
    else if (name == "enable_fp_fusion" && value.is_boolean() && !value.get<bool>()) (*out->mutable_extra())[name] = "false";
    else if (name == "default_dot_input_precision" && value != "tf32") (*out->mutable_extra())[name] = value.get<std::string>();
  }
}

// Whether a dot of the kernel multiplies fp32 in TF32, which widens the tolerance.
bool UsesTf32(const Case& loaded, const std::string& source) {
  if (!absl::StrContains(source, "dot(")) return false;
  bool fp32 = std::any_of(loaded.views.begin(), loaded.views.end(), [](const View& v) { return v.elements.dtype == DType::kFp32; });
  for (const Json& param : loaded.json.at("params"))
    if (param.value("kind", "") == "constexpr" && param["value"].is_string())
      for (const char* exact : {"ieee", "tf32x3", "bf16x6"})
        if (param["value"] == exact) return false;
  return fp32 && !absl::StrContains(source, "\"ieee\"") && !absl::StrContains(source, "allow_tf32=False");
}

std::string CompareStorage(const Case& loaded, int index, bool tf32) {
  const Storage& storage = loaded.storages[index];
  const uint8_t* memory = storage.buffer->as<uint8_t>();
  for (uint64_t i = 0; i < storage.buffer->size(); ++i) {
    bool inside = i >= storage.offset && i < storage.offset + storage.before.size();
    if (!inside && memory[i] != kPattern)
      return absl::StrCat("storage ", index, ": memory outside it was written at byte ", static_cast<int64_t>(i) - static_cast<int64_t>(storage.offset));
  }
  std::vector<uint8_t> got(memory + storage.offset, memory + storage.offset + storage.before.size());
  const std::vector<uint8_t>& want = storage.written ? storage.after : storage.before;
  std::vector<bool> covered(got.size(), false);
  std::vector<std::string> differences;
  if (storage.written) {
    for (const View& view : loaded.views) {
      if (view.storage != index) continue;
      for (uint64_t offset : ElementOffsets(view.elements))
        std::fill_n(covered.begin() + offset, ByteSize(view.elements.dtype), true);
      std::string difference = CompareElements(view.elements, got, want, storage.ignored, tf32);
      if (!difference.empty()) differences.push_back(absl::StrCat(view.parameter, " ", difference));
    }
  }
  for (size_t i = 0; i < got.size() && differences.empty(); ++i)
    if (!covered[i] && got[i] != want[i] && (storage.ignored.empty() || !storage.ignored[i]))
      differences.push_back(absl::StrCat("storage ", index, ": byte ", i, " must be unchanged: got ", got[i], ", want ", want[i]));
  return absl::StrJoin(differences, "; ");
}

absl::StatusOr<std::string> Replay(Client& client, const std::string& folder, const std::string& device, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(std::string source, ReadFile(folder + "/kernel.py"));
  ASSIGN_OR_RETURN(std::string text, ReadFile(folder + "/case.json"));
  Case loaded;
  loaded.json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!loaded.json.is_object()) return absl::InvalidArgumentError("case.json is no JSON object");
  if (loaded.json.value("replay", std::string()) != "exact") return absl::CancelledError("its recording does not repeat exactly");
  RETURN_IF_ERROR(LoadStorages(client, folder, loaded));
  ASSIGN_OR_RETURN(v1::RegisterModuleResponse module, client.RegisterModule({{"kernel.py", source}}));
  loaded.request.set_module(module.module());
  loaded.request.set_kernel(loaded.json.at("entry").get<std::string>());
  loaded.request.set_device(device);
  for (const Json& extent : loaded.json.at("grid")) loaded.request.add_grid(extent.get<uint64_t>());
  SetOptions(loaded.json.value("options", Json::object()), loaded.request.mutable_options());
  for (const Json& param : loaded.json.at("params"))
    RETURN_IF_ERROR(SetArgument(param, param.at("name").get<std::string>(), loaded, loaded.request.add_arguments()));
  ASSIGN_OR_RETURN(v1::LaunchResponse response, client.Launch(loaded.request, absl::Seconds(120)));
  notes->assign(response.notes().begin(), response.notes().end());
  std::vector<std::string> differences;
  bool tf32 = UsesTf32(loaded, source);
  for (size_t i = 0; i < loaded.storages.size(); ++i)
    if (std::string difference = CompareStorage(loaded, i, tf32); !difference.empty()) differences.push_back(difference);
  return absl::StrJoin(differences, "; ");
}

}  // namespace

ReplayResult ReplayCase(Client& client, const std::string& folder, const std::string& device) {
  absl::StatusOr<std::string> differences;
  std::vector<std::string> notes;
  try {
    differences = Replay(client, folder, device, &notes);
  } catch (const std::exception& error) {  // the JSON library's, and vector::at on a broken case
    return {ReplayOutcome::kFailed, absl::StrCat("broken case: ", error.what())};
  }
  if (absl::IsCancelled(differences.status())) return {ReplayOutcome::kSkipped, std::string(differences.status().message())};
  // A target names the reasons that CASE-FORMAT allows with this prefix; anything else it cannot do is a failure.
  if (absl::IsUnimplemented(differences.status()) && absl::StrContains(differences.status().message(), "not on this target:"))
    return {ReplayOutcome::kSkipped, std::string(differences.status().message())};
  if (!differences.ok()) return {ReplayOutcome::kFailed, differences.status().ToString()};
  if (!differences->empty()) return {ReplayOutcome::kFailed, *differences, notes};
  return {ReplayOutcome::kPassed, "", notes};
}

std::vector<std::string> FindCases(const std::vector<std::string>& paths) {
  std::vector<std::string> cases;
  std::error_code ignored;
  for (const std::string& path : paths) {
    if (std::filesystem::exists(path + "/case.json", ignored)) {
      cases.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
      if (std::filesystem::exists(entry.path() / "case.json", ignored)) cases.push_back(entry.path().string());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

}  // namespace tessera::cli
