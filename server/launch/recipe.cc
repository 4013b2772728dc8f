#include "server/launch/recipe.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera::server {
namespace {

void StripMemory(api::TensorRef* tensor) {
  // What is left of an address is whether it is a multiple of 16.
  bool aligned = tensor->region() == 0 || tensor->byte_offset() % 16 == 0;
  tensor->clear_region();
  tensor->set_byte_offset(aligned ? 0 : 8);
}

void StripMemory(api::Argument* argument) {
  if (argument->has_tensor()) StripMemory(argument->mutable_tensor());
  if (argument->has_tensor_descriptor())
    StripMemory(argument->mutable_tensor_descriptor()->mutable_base());
  if (argument->has_tuple())
    for (api::Argument& item : *argument->mutable_tuple()->mutable_items()) StripMemory(&item);
}

std::string RealText(double value) {
  std::string text = absl::StrFormat("%.17g", value);
  std::string shorter = absl::StrFormat("%.6g", value);
  // Not std::stod, which throws for subnormal values.
  if (std::strtod(shorter.c_str(), nullptr) == value) text = shorter;
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string SpecText(const storage::ParameterSpec& spec) {
  switch (spec.kind_case()) {
    case storage::ParameterSpec::kType: {
      if (spec.equals_one()) return spec.type() == "i32" ? "1" : absl::StrCat("1:", spec.type());
      return spec.divisibility() > 1 ? absl::StrCat(spec.type(), ":", spec.divisibility())
                                     : spec.type();
    }
    case storage::ParameterSpec::kConstant:
      return LiteralText(spec.constant());
    case storage::ParameterSpec::kTuple: {
      std::vector<std::string> items;
      for (const storage::ParameterSpec& item : spec.tuple().items())
        items.push_back(SpecText(item));
      return absl::StrCat("(", absl::StrJoin(items, ","), ")");
    }
    case storage::ParameterSpec::kTensorDescriptor:
      return absl::StrCat("tensordesc<", spec.tensor_descriptor().element_type(), ",[",
                          absl::StrJoin(spec.tensor_descriptor().block_shape(), ","), "]>");
    case storage::ParameterSpec::KIND_NOT_SET:
      break;
  }
  return "?";
}

void AppendOptions(const storage::LaunchOptions& options, std::string* text) {
  auto append = [&](const char* name, uint32_t value) {
    if (value != 0) absl::StrAppend(text, " ", name, "=", value);
  };
  append("num_warps", options.num_warps());
  append("num_stages", options.num_stages());
  append("num_ctas", options.num_ctas());
  append("maxnreg", options.maxnreg());
  std::map<std::string, std::string> extra(options.extra().begin(), options.extra().end());
  for (const auto& [name, value] : extra) absl::StrAppend(text, " ", name, "=", value);
}

std::string ValueText(const api::Argument& argument) {
  switch (argument.kind_case()) {
    case api::Argument::kTensor:
      return absl::StrCat(argument.tensor().dtype(), "[",
                          absl::StrJoin(argument.tensor().shape(), ", "), "]");
    case api::Argument::kInteger:
      return absl::StrCat(argument.integer());
    case api::Argument::kUnsignedInteger:
      return absl::StrCat(argument.unsigned_integer());
    case api::Argument::kReal:
      return RealText(argument.real());
    case api::Argument::kBoolean:
      return argument.boolean() ? "True" : "False";
    case api::Argument::kConstant:
      return LiteralText(argument.constant());
    case api::Argument::kTuple: {
      std::vector<std::string> items;
      for (const api::Argument& item : argument.tuple().items()) items.push_back(ValueText(item));
      return absl::StrCat("(", absl::StrJoin(items, ", "), ")");
    }
    case api::Argument::kTensorDescriptor:
      return absl::StrCat(argument.tensor_descriptor().base().dtype(), "[",
                          absl::StrJoin(argument.tensor_descriptor().base().shape(), ", "), "]");
    case api::Argument::KIND_NOT_SET:
      break;
  }
  return "?";
}

}  // namespace

void ToWire(const storage::ConstantValue& value, api::Constant* constant) {
  switch (value.kind_case()) {
    case storage::ConstantValue::kBoolean:
      return constant->set_boolean(value.boolean());
    case storage::ConstantValue::kInteger:
      return constant->set_integer(value.integer());
    case storage::ConstantValue::kUnsignedInteger:
      return constant->set_unsigned_integer(value.unsigned_integer());
    case storage::ConstantValue::kReal:
      return constant->set_real(value.real());
    case storage::ConstantValue::kText:
      return constant->set_text(value.text());
    case storage::ConstantValue::kDtype:
      return constant->set_dtype(value.dtype());
    case storage::ConstantValue::kFunction:
      return constant->set_function(value.function());
    case storage::ConstantValue::kTuple:
      constant->mutable_tuple();
      for (const storage::ConstantValue& item : value.tuple().items())
        ToWire(item, constant->mutable_tuple()->add_items());
      return;
    default:
      constant->mutable_none();
      return;
  }
}

void ToWire(const storage::LaunchOptions& from, api::Options* to) {
  to->set_num_warps(from.num_warps());
  to->set_num_stages(from.num_stages());
  to->set_num_ctas(from.num_ctas());
  to->set_maxnreg(from.maxnreg());
  for (const auto& [name, value] : from.extra()) (*to->mutable_extra())[name] = value;
}

api::CompileRequest MakeRecipe(const api::LaunchRequest& launch, const Device& device,
                               const ConfigChoice& choice, const storage::LaunchOptions& options) {
  api::CompileRequest recipe;
  recipe.set_module(launch.module());
  recipe.set_kernel(launch.kernel());
  recipe.set_device(device.name());
  *recipe.mutable_arguments() = launch.arguments();
  for (api::Argument& argument : *recipe.mutable_arguments()) StripMemory(&argument);
  if (choice.config != nullptr)
    for (const storage::NamedConstant& value : choice.config->config.values()) {
      api::NamedConstant* named = recipe.add_constants();
      named->set_name(value.name());
      ToWire(value.value(), named->mutable_value());
    }
  ToWire(options, recipe.mutable_options());
  return recipe;
}

std::string VariantText(const storage::CompileJob& job) {
  std::string text;
  for (const storage::ParameterSpec& spec : job.parameters())
    absl::StrAppend(&text, text.empty() ? "" : " ", spec.name(), "=", SpecText(spec));
  AppendOptions(job.options(), &text);
  return text;
}

std::string ShapeText(const google::protobuf::RepeatedPtrField<api::Argument>& arguments) {
  std::string text;
  for (const api::Argument& argument : arguments) {
    if (argument.has_constant() && !argument.constant().has_none()) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", argument.name(), "=", ValueText(argument));
  }
  return text;
}

std::string LiteralText(const api::Constant& value) {
  switch (value.kind_case()) {
    case api::Constant::kBoolean:
      return value.boolean() ? "True" : "False";
    case api::Constant::kInteger:
      return absl::StrCat(value.integer());
    case api::Constant::kUnsignedInteger:
      return absl::StrCat(value.unsigned_integer());
    case api::Constant::kReal:
      return RealText(value.real());
    case api::Constant::kText:
      return absl::StrCat("\"", value.text(), "\"");
    case api::Constant::kDtype:
      return value.dtype();
    case api::Constant::kFunction:
      return absl::StrCat("fn:", value.function());
    case api::Constant::kTuple: {
      std::vector<std::string> items;
      for (const api::Constant& item : value.tuple().items()) items.push_back(LiteralText(item));
      return absl::StrCat("(", absl::StrJoin(items, ", "), ")");
    }
    default:
      return "None";
  }
}

std::string LiteralText(const storage::ConstantValue& value) {
  api::Constant constant;
  ToWire(value, &constant);
  return LiteralText(constant);
}

}  // namespace tessera::server
