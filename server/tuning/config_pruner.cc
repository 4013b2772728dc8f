#include "server/tuning/config_pruner.h"

#include <future>
#include <memory>
#include <utility>

#include "server/launch/specialise.h"
#include "spdlog/spdlog.h"

namespace tessera::server {

std::vector<storage::NamedConstant> LaunchValues(const KernelModel& kernel,
                                                 const api::LaunchRequest& launch) {
  std::vector<storage::NamedConstant> values;
  auto add = [&](const std::string& name) {
    values.emplace_back();
    values.back().set_name(name);
    return values.back().mutable_value();
  };
  for (const api::Argument& argument : launch.arguments()) {
    switch (argument.kind_case()) {
      case api::Argument::kInteger:
        add(argument.name())->set_integer(argument.integer());
        break;
      case api::Argument::kUnsignedInteger:
        add(argument.name())->set_unsigned_integer(argument.unsigned_integer());
        break;
      case api::Argument::kReal:
        add(argument.name())->set_real(argument.real());
        break;
      case api::Argument::kBoolean:
        add(argument.name())->set_boolean(argument.boolean());
        break;
      case api::Argument::kConstant:
        if (absl::StatusOr<storage::ConstantValue> constant = ToConstant(argument.constant());
            constant.ok())
          *add(argument.name()) = *std::move(constant);
        break;
      default:
        break;
    }
  }
  for (const storage::ParameterDescription& parameter : kernel.description().parameters()) {
    bool given = false;
    for (const api::Argument& argument : launch.arguments())
      given = given || argument.name() == parameter.name();
    if (!given && parameter.has_default() && parameter.has_default_value())
      *add(parameter.name()) = parameter.default_value();
  }
  return values;
}

std::vector<bool> ConfigPruner::Kept(const KernelModel& kernel,
                                     const api::LaunchRequest& launch) const {
  std::vector<bool> all(kernel.configs().size(), true);
  if (!kernel.description().prunes_by_launch()) return all;
  worker::WorkerRequest request;
  worker::PruneConfigs* prune = request.mutable_prune();
  *prune->mutable_files() = kernel.module().record.files();
  prune->set_kernel(kernel.name());
  for (storage::NamedConstant& value : LaunchValues(kernel, launch))
    *prune->add_values() = std::move(value);
  // Shared: set_value may still run when the waiter has gone on.
  auto answered = std::make_shared<std::promise<absl::StatusOr<worker::WorkerResponse>>>();
  backend_->Run(std::move(request), [answered](absl::StatusOr<worker::WorkerResponse> response) {
    answered->set_value(std::move(response));
  });
  absl::StatusOr<worker::WorkerResponse> response = answered->get_future().get();
  if (!response.ok()) {
    spdlog::warn("prune_configs_by of {}: {}; all configurations are kept", kernel.name(),
                 response.status().ToString());
    return all;
  }
  if (!response->note().empty())
    spdlog::warn("prune_configs_by of {} prunes nothing: {}", kernel.name(), response->note());
  std::vector<bool> kept(all.size(), false);
  for (uint32_t index : response->kept())
    if (index < kept.size()) kept[index] = true;
  return kept;
}

}  // namespace tessera::server
