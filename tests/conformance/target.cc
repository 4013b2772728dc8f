#include "tests/conformance/target.h"

#include <map>

namespace tessera::conformance {
namespace {

std::map<std::string, std::unique_ptr<Target>>& Registered() {
  static auto* targets = new std::map<std::string, std::unique_ptr<Target>>;
  return *targets;
}

}  // namespace

RegisterTarget::RegisterTarget(std::unique_ptr<Target> target) {
  std::string name = target->name();
  Registered()[name] = std::move(target);
}

std::vector<Target*> Targets() {
  std::vector<Target*> targets;
  for (const auto& [name, target] : Registered()) targets.push_back(target.get());
  return targets;
}

}  // namespace tessera::conformance
