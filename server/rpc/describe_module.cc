#include "server/rpc/describe_module.h"

namespace tessera::server {

namespace api = ::tessera::v1;

api::Constant ToWire(const storage::ConstantValue& value) {
  api::Constant constant;
  switch (value.kind_case()) {
    case storage::ConstantValue::kNone:
    case storage::ConstantValue::KIND_NOT_SET:
      constant.mutable_none();
      break;
    case storage::ConstantValue::kBoolean:
      constant.set_boolean(value.boolean());
      break;
    case storage::ConstantValue::kInteger:
      constant.set_integer(value.integer());
      break;
    case storage::ConstantValue::kUnsignedInteger:
      constant.set_unsigned_integer(value.unsigned_integer());
      break;
    case storage::ConstantValue::kReal:
      constant.set_real(value.real());
      break;
    case storage::ConstantValue::kText:
      constant.set_text(value.text());
      break;
    case storage::ConstantValue::kDtype:
      constant.set_dtype(value.dtype());
      break;
    case storage::ConstantValue::kFunction:
      constant.set_function(value.function());
      break;
    case storage::ConstantValue::kTuple:
      constant.mutable_tuple();
      for (const storage::ConstantValue& item : value.tuple().items())
        *constant.mutable_tuple()->add_items() = ToWire(item);
      break;
  }
  return constant;
}

api::Config ToWire(const storage::TuneConfig& config) {
  api::Config wire;
  for (const storage::NamedConstant& value : config.values()) {
    api::NamedConstant* named = wire.add_values();
    named->set_name(value.name());
    *named->mutable_value() = ToWire(value.value());
  }
  api::Options* options = wire.mutable_options();
  options->set_num_warps(config.options().num_warps());
  options->set_num_stages(config.options().num_stages());
  options->set_num_ctas(config.options().num_ctas());
  options->set_maxnreg(config.options().maxnreg());
  *options->mutable_extra() = config.options().extra();
  return wire;
}

api::Kernel ToWire(const storage::KernelDescription& kernel) {
  api::Kernel wire;
  wire.set_name(kernel.name());
  for (const storage::ParameterDescription& parameter : kernel.parameters()) {
    api::Parameter* to = wire.add_parameters();
    to->set_name(parameter.name());
    to->set_is_constexpr(parameter.is_constexpr());
    to->set_has_default(parameter.has_default());
    if (parameter.has_default()) *to->mutable_default_value() = ToWire(parameter.default_value());
  }
  for (const storage::TuneConfig& config : kernel.configs()) *wire.add_configs() = ToWire(config);
  *wire.mutable_tuning_key() = kernel.tuning_key();
  wire.set_line(kernel.line());
  wire.set_notes(kernel.notes());
  return wire;
}

void DescribeOnWire(const Module& module, api::RegisterModuleResponse* response) {
  response->set_module(module.id);
  for (const storage::KernelDescription& kernel : module.record.description().kernels())
    if (kernel.is_kernel()) *response->add_kernels() = ToWire(kernel);
}

}  // namespace tessera::server
