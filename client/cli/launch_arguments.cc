#include "client/cli/launch_arguments.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/command_context.h"
#include "client/cli/environment.h"
#include "client/cli/literal.h"

namespace tessera::cli {
namespace {

// "@F.npy[:DTYPE][:in|out|inout]" taken apart.
struct ArrayWord {
  std::string path, dtype;
  bool written = false;
};

absl::StatusOr<ArrayWord> ParseArrayWord(absl::string_view text) {
  ArrayWord word;
  std::vector<std::string> parts = absl::StrSplit(text.substr(1), ':');
  word.path = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "in") continue;
    if (parts[i] == "out" || parts[i] == "inout") {
      word.written = true;
      continue;
    }
    std::string error;
    std::optional<DType> dtype = ParseDType(parts[i], &error);
    if (!dtype) return absl::InvalidArgumentError(absl::StrCat("in '", text, "': ", error, "; or in, out, inout"));
    word.dtype = std::string(ShortName(*dtype));
  }
  return word;
}

absl::StatusOr<v1::Constant> ConstantOfJson(const nlohmann::json& value) {
  v1::Constant constant;
  if (value.is_boolean()) constant.set_boolean(value.get<bool>());
  else if (value.is_number_unsigned()) {
    uint64_t number = value.get<uint64_t>();
    if (number >> 63) constant.set_unsigned_integer(number);
    else constant.set_integer(number);
  } else if (value.is_number_integer()) constant.set_integer(value.get<int64_t>());
  else if (value.is_number_float()) constant.set_real(value.get<double>());
  else if (value.is_string()) constant.set_text(value.get<std::string>());
  else if (value.is_null()) constant.mutable_none();
  else return absl::InvalidArgumentError(absl::StrCat("configuration value ", value.dump(), " is no scalar"));
  return constant;
}

}  // namespace

absl::StatusOr<std::vector<v1::NamedConstant>> ParseConstexprs(const std::vector<std::string>& words) {
  std::vector<v1::NamedConstant> constants;
  for (const std::string& word : words) {
    ASSIGN_OR_RETURN(auto assignment, SplitAssignment(word));
    v1::NamedConstant constant;
    constant.set_name(assignment.first);
    ASSIGN_OR_RETURN(*constant.mutable_value(), ParseConstant(assignment.second));
    constants.push_back(std::move(constant));
  }
  return constants;
}

absl::Status SetOptions(const LaunchWords& words, v1::Options* options) {
  options->set_num_warps(words.num_warps);
  options->set_num_stages(words.num_stages);
  options->set_num_ctas(words.num_ctas);
  options->set_maxnreg(words.maxnreg);
  for (const char* name : kCodeVariables)
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) (*options->mutable_extra())[name] = value;
  for (const std::string& word : words.options) {
    ASSIGN_OR_RETURN(auto assignment, SplitAssignment(word));
    (*options->mutable_extra())[assignment.first] = assignment.second;
  }
  return absl::OkStatus();
}

absl::Status SetConfig(const std::string& config, v1::LaunchRequest* request) {
  if (config.empty()) return absl::OkStatus();
  int index = 0;
  if (absl::SimpleAtoi(config, &index)) {
    if (index < 0) return absl::InvalidArgumentError("--config takes an index from 0");
    request->set_config(index + 1);
    return absl::OkStatus();
  }
  nlohmann::json json = nlohmann::json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat("--config takes an index or JSON as '{\"BLOCK\": 64, \"num_warps\": 4}', got '", config, "'"));
  for (auto& [name, value] : json.items()) {
    bool is_number = value.is_number_unsigned();
    if (name == "num_warps" && is_number) request->mutable_options()->set_num_warps(value.get<uint32_t>());
    else if (name == "num_stages" && is_number) request->mutable_options()->set_num_stages(value.get<uint32_t>());
    else if (name == "num_ctas" && is_number) request->mutable_options()->set_num_ctas(value.get<uint32_t>());
    else if (name == "maxnreg" && is_number) request->mutable_options()->set_maxnreg(value.get<uint32_t>());
    else {
      v1::NamedConstant* constant = request->add_config_values();
      constant->set_name(name);
      ASSIGN_OR_RETURN(*constant->mutable_value(), ConstantOfJson(value));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ParseProgramOrder(const std::string& text) {
  if (text.empty() || text == "sequential") return 0;
  absl::string_view seed = text;
  uint64_t number = 0;
  if (text == "random") {
    std::random_device random;
    return 1 + random() % 1000000;
  }
  if (absl::ConsumePrefix(&seed, "random:") && absl::SimpleAtoi(seed, &number) && number > 0) return number;
  return absl::InvalidArgumentError(absl::StrCat("--program-order takes sequential, random or random:SEED with a seed of at least 1, not '", text, "'"));
}

absl::Status PreparedLaunch::AddArgument(Client& client, absl::string_view text) {
  ASSIGN_OR_RETURN(auto assignment, SplitAssignment(text));
  const auto& [name, value] = assignment;
  if (!absl::StartsWith(value, "@")) {
    ASSIGN_OR_RETURN(v1::Argument argument, ParseScalarArgument(value));
    argument.set_name(name);
    *request_.add_arguments() = std::move(argument);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(ArrayWord word, ParseArrayWord(value));
  // Two arguments on one file share its memory, as views of one tensor would.
  size_t at = 0;
  while (at < arrays_.size() && arrays_[at].path != word.path) ++at;
  if (at == arrays_.size()) {
    Array array;
    array.path = word.path;
    ASSIGN_OR_RETURN(array.npy, ReadNpy(word.path));
    ASSIGN_OR_RETURN(array.buffer, client.Allocate(array.npy.data.size()));
    std::memcpy(array.buffer->data(), array.npy.data.data(), array.npy.data.size());
    arrays_.push_back(std::move(array));
  }
  Array& array = arrays_[at];
  array.written |= word.written;
  std::string dtype = word.dtype.empty() ? DTypeOfDescr(array.npy.descr) : word.dtype;
  if (dtype.empty())
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", word.path, " has element type '", array.npy.descr, "'; name the dtype: @", word.path, ":bf16"));
  int64_t item_bytes = array.npy.elements() == 0 ? ByteSize(*ParseDType(dtype)) : array.npy.data.size() / array.npy.elements();
  if (ByteSize(*ParseDType(dtype)) != item_bytes)
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", dtype, " has ", ByteSize(*ParseDType(dtype)), " bytes an element, ", word.path, " has ", item_bytes));
  v1::Argument argument;
  argument.set_name(name);
  v1::TensorRef* tensor = argument.mutable_tensor();
  tensor->set_region(array.buffer->region());
  tensor->set_dtype(dtype);
  for (int64_t extent : array.npy.shape) tensor->add_shape(extent);
  for (int64_t stride : array.npy.strides()) tensor->add_strides(stride);
  tensor->set_is_scalar(array.npy.shape.empty());
  *request_.add_arguments() = std::move(argument);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PreparedLaunch>> PreparedLaunch::Make(Client& client, const LaunchWords& words) {
  auto launch = std::make_unique<PreparedLaunch>();
  ASSIGN_OR_RETURN(auto kernel, SplitKernel(words.kernel));
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> paths = {kernel.first};
  paths.insert(paths.end(), words.modules.begin(), words.modules.end());
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    files.emplace_back(path, std::move(text));
  }
  ASSIGN_OR_RETURN(v1::RegisterModuleResponse module, client.RegisterModule(files));
  for (const v1::Kernel& candidate : module.kernels())
    if (candidate.name() == kernel.second) launch->kernel_ = candidate;
  v1::LaunchRequest& request = launch->request_;
  ASSIGN_OR_RETURN(uint64_t order, ParseProgramOrder(words.program_order));
  request.set_program_order_seed(order);
  request.set_module(module.module());
  request.set_kernel(kernel.second);
  request.set_device(words.device);
  for (const std::string& extent : SplitTopLevel(words.grid)) request.add_grid_expressions(extent);
  if (request.grid_expressions_size() < 1 || request.grid_expressions_size() > 3)
    return absl::InvalidArgumentError("--grid takes one to three expressions");
  RETURN_IF_ERROR(SetOptions(words, request.mutable_options()));
  RETURN_IF_ERROR(SetConfig(words.config, &request));
  ASSIGN_OR_RETURN(auto constants, ParseConstexprs(words.constexprs));
  for (v1::NamedConstant& constant : constants) {
    v1::Argument* argument = request.add_arguments();
    argument->set_name(constant.name());
    argument->mutable_constant()->Swap(constant.mutable_value());
  }
  for (const std::string& arg : words.args) RETURN_IF_ERROR(launch->AddArgument(client, arg));
  return launch;
}

absl::Status PreparedLaunch::MoveTo(Client& client, const DeviceChoice& device) {
  for (const Array& array : arrays_) {
    ASSIGN_OR_RETURN(uint64_t region, DeviceRegion(client, device, array.npy.data.data(), array.npy.data.size()));
    for (v1::Argument& argument : *request_.mutable_arguments())
      if (argument.has_tensor() && argument.tensor().region() == array.buffer->region()) argument.mutable_tensor()->set_region(region);
  }
  return absl::OkStatus();
}

absl::Status PreparedLaunch::WriteBack() {
  for (Array& array : arrays_) {
    if (!array.written) continue;
    std::memcpy(array.npy.data.data(), array.buffer->data(), array.npy.data.size());
    RETURN_IF_ERROR(WriteNpy(array.path, array.npy));
  }
  return absl::OkStatus();
}

}  // namespace tessera::cli
