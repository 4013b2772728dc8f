// prune_configs_by for a launch: what the worker is asked, and what its answers mean.
#include "server/tuning/config_pruner.h"

#include <gtest/gtest.h>

#include <map>

namespace tessera::server {
namespace {

// Answers what it is told to, and keeps the last request.
class OneAnswer : public CompileBackend {
 public:
  void Run(worker::WorkerRequest request, Callback done) override {
    last = std::move(request);
    ++requests;
    done(answer);
  }
  std::vector<BackendWorker> Workers() const override { return {}; }

  absl::StatusOr<worker::WorkerResponse> answer = worker::WorkerResponse();
  worker::WorkerRequest last;
  int requests = 0;
};

std::shared_ptr<KernelModel> Model(bool prunes_by_launch) {
  auto module = std::make_shared<Module>();
  module->id = "0123";
  module->record.add_files()->set_text("the source");
  storage::KernelDescription* kernel = module->record.mutable_description()->add_kernels();
  kernel->set_name("k");
  kernel->set_is_kernel(true);
  kernel->set_prunes_by_launch(prunes_by_launch);
  for (const char* name : {"x", "n", "FLAG", "eps", "BLOCK"}) {
    kernel->add_parameters()->set_name(name);
    kernel->mutable_parameters()->rbegin()->set_is_constexpr(std::string(name) == "FLAG" ||
                                                             std::string(name) == "BLOCK");
  }
  storage::ParameterDescription* eps = kernel->mutable_parameters(3);
  eps->set_has_default(true);
  eps->mutable_default_value()->set_real(0.5);
  kernel->add_tuning_key("n");
  for (int block : {64, 128, 256}) {
    storage::NamedConstant* value = kernel->add_configs()->add_values();
    value->set_name("BLOCK");
    value->mutable_value()->set_integer(block);
  }
  return *KernelModel::Create(module, "k");
}

api::LaunchRequest Launch() {
  api::LaunchRequest launch;
  api::Argument* x = launch.add_arguments();
  x->set_name("x");
  x->mutable_tensor()->set_region(1);
  api::Argument* n = launch.add_arguments();
  n->set_name("n");
  n->set_integer(100);
  api::Argument* flag = launch.add_arguments();
  flag->set_name("FLAG");
  flag->mutable_constant()->set_boolean(true);
  return launch;
}

TEST(ConfigPruner, AsksNobodyWhereNothingDependsOnTheLaunch) {
  OneAnswer backend;
  EXPECT_EQ(ConfigPruner(&backend).Kept(*Model(false), Launch()),
            (std::vector<bool>{true, true, true}));
  EXPECT_EQ(backend.requests, 0);
}

TEST(ConfigPruner, TellsTheWorkerEveryValueButTensors) {
  OneAnswer backend;
  ConfigPruner(&backend).Kept(*Model(true), Launch());
  const worker::PruneConfigs& asked = backend.last.prune();
  EXPECT_EQ(asked.kernel(), "k");
  EXPECT_EQ(asked.files(0).text(), "the source");
  std::map<std::string, storage::ConstantValue> values;
  for (const storage::NamedConstant& value : asked.values()) values[value.name()] = value.value();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values["n"].integer(), 100);
  EXPECT_TRUE(values["FLAG"].boolean());
  EXPECT_EQ(values["eps"].real(), 0.5);  // its default
}

TEST(ConfigPruner, KeepsWhatTheWorkerNames) {
  OneAnswer backend;
  backend.answer->add_kept(2);
  backend.answer->add_kept(7);  // there is none
  EXPECT_EQ(ConfigPruner(&backend).Kept(*Model(true), Launch()),
            (std::vector<bool>{false, false, true}));
}

TEST(ConfigPruner, KeepsAllWhereTheWorkerFails) {
  OneAnswer backend;
  backend.answer = absl::UnavailableError("the worker ended");
  EXPECT_EQ(ConfigPruner(&backend).Kept(*Model(true), Launch()),
            (std::vector<bool>{true, true, true}));
}

}  // namespace
}  // namespace tessera::server
