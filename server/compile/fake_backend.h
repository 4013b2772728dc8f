// A compiler for tests: describes and "compiles" by made-up rules, at once or when the test says.
#ifndef TESSERA_SERVER_COMPILE_FAKE_BACKEND_H_
#define TESSERA_SERVER_COMPILE_FAKE_BACKEND_H_

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/compile/compile_backend.h"

namespace tessera::server {

class FakeBackend : public CompileBackend {
 public:
  // What modules are found to hold, by their first file's text.
  std::map<std::string, storage::ModuleDescription> descriptions;
  // Answers for compiles, in turn; when used up, compiles succeed.
  std::deque<absl::Status> failures;
  // Guarded variants do not compile.
  bool refuse_guarded = false;
  // Keep requests instead of answering them.
  bool hold = false;

  void Run(worker::WorkerRequest request, Callback done) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (request.has_compile()) jobs_.push_back(request.compile());
    if (hold) {
      held_.emplace_back(std::move(request), std::move(done));
      return;
    }
    absl::StatusOr<worker::WorkerResponse> response = AnswerLocked(request);
    lock.unlock();
    done(std::move(response));
  }

  // Answers what was held.
  void Release() {
    std::unique_lock<std::mutex> lock(mutex_);
    hold = false;
    while (!held_.empty()) {
      auto [request, done] = std::move(held_.front());
      held_.pop_front();
      absl::StatusOr<worker::WorkerResponse> response = AnswerLocked(request);
      lock.unlock();
      done(std::move(response));
      lock.lock();
    }
  }

  std::vector<BackendWorker> Workers() const override { return {}; }

  std::vector<storage::CompileJob> jobs() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return jobs_;
  }

 private:
  absl::StatusOr<worker::WorkerResponse> AnswerLocked(const worker::WorkerRequest& request) {
    worker::WorkerResponse response;
    if (request.has_describe()) {
      auto found = descriptions.find(request.describe().files(0).text());
      if (found == descriptions.end()) return absl::InvalidArgumentError("the text does not parse");
      *response.mutable_description() = found->second;
      return response;
    }
    if (!failures.empty()) {
      absl::Status failure = failures.front();
      failures.pop_front();
      return failure;
    }
    const storage::CompileJob& job = request.compile();
    if (refuse_guarded && job.options().extra().count("guarded") != 0)
      return absl::UnimplementedError("no room for its checks");
    storage::Artifact* artifact = response.mutable_artifact();
    artifact->set_format_version(1);
    artifact->set_code("code");
    artifact->mutable_metadata()->set_kernel(job.kernel());
    artifact->mutable_metadata()->set_target(job.target());
    *artifact->mutable_metadata()->mutable_options() = job.options();
    for (int i = 0; i < job.parameters_size(); ++i) {
      const storage::ParameterSpec& spec = job.parameters(i);
      if (spec.has_tensor_descriptor()) AddDescriptor(spec, i, artifact->mutable_metadata());
      if (spec.kind_case() != storage::ParameterSpec::kType || spec.equals_one()) continue;
      storage::EntryParameter* parameter = artifact->mutable_metadata()->add_parameters();
      parameter->set_name(spec.name());
      parameter->set_type(spec.type());
      parameter->set_source_index(i);
    }
    return response;
  }

  // The base, extents and strides but for the last.
  static void AddDescriptor(const storage::ParameterSpec& spec, int index,
                            storage::KernelMetadata* metadata) {
    auto add = [&](const std::string& type, std::vector<uint32_t> path) {
      storage::EntryParameter* parameter = metadata->add_parameters();
      parameter->set_name(spec.name());
      parameter->set_type(type);
      parameter->set_source_index(index);
      for (uint32_t step : path) parameter->add_path(step);
    };
    const uint32_t rank = spec.tensor_descriptor().block_shape_size();
    add("*" + spec.tensor_descriptor().element_type(), {0});
    for (uint32_t d = 0; d < rank; ++d) add("i32", {1, d});
    for (uint32_t d = 0; d + 1 < rank; ++d) add("i64", {2, d});
  }

  mutable std::mutex mutex_;
  std::vector<storage::CompileJob> jobs_;
  std::deque<std::pair<worker::WorkerRequest, Callback>> held_;
};

// A module with one kernel: pointers x and y, integer n, constexpr BLOCK.
inline storage::ModuleDescription DescribeAddKernel() {
  storage::ModuleDescription module;
  storage::KernelDescription* kernel = module.add_kernels();
  kernel->set_name("add_kernel");
  kernel->set_is_kernel(true);
  kernel->set_closure("add_kernel closure");
  for (const char* name : {"x", "y", "n", "BLOCK"}) {
    storage::ParameterDescription* parameter = kernel->add_parameters();
    parameter->set_name(name);
    parameter->set_is_constexpr(std::string(name) == "BLOCK");
  }
  return module;
}

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_FAKE_BACKEND_H_
