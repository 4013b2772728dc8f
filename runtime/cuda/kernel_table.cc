#include "runtime/cuda/kernel_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/cuda/cuda_status.h"

namespace tessera::runtime {
namespace {

constexpr uint32_t kWarpThreads = 32;
constexpr uint32_t kStaticSharedLimit = 48 << 10;  // beyond it a kernel must opt in

}  // namespace

KernelTable::~KernelTable() {
  for (auto& entry : kernels_)
    if (entry.second->module_ != nullptr) gpu_->driver().cuModuleUnload(entry.second->module_);
}

absl::Status KernelTable::CheckLimits(const DeviceKernel& kernel) const {
  const auto most_shared =
      static_cast<uint32_t>(gpu_->Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  if (kernel.shared_bytes > most_shared)
    return absl::FailedPreconditionError(
        absl::StrCat("kernel ", kernel.name, " needs ", kernel.shared_bytes,
                     " bytes of shared memory, the GPU has ", most_shared, " a block"));
  const auto most_threads =
      static_cast<uint32_t>(gpu_->Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (kernel.threads > most_threads)
    return absl::FailedPreconditionError(absl::StrCat("kernel ", kernel.name, " needs ",
                                                      kernel.threads, " threads a block, the GPU ",
                                                      "has at most ", most_threads));
  if (kernel.cluster_blocks > 1 && gpu_->Attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0)
    return absl::FailedPreconditionError(absl::StrCat("kernel ", kernel.name, " wants clusters of ",
                                                      kernel.cluster_blocks,
                                                      " blocks, which this GPU does not have"));
  return absl::OkStatus();
}

absl::Status KernelTable::LoadModule(DeviceKernel* kernel, CUmodule* module, CUfunction* function) {
  const CudaDriver& driver = gpu_->driver();
  // Filled when the driver assembles PTX.
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  CUresult result = driver.cuModuleLoadDataEx(module, kernel->code_.data(), 2, options, values);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && UnloadIdle() > 0)
    result = driver.cuModuleLoadDataEx(module, kernel->code_.data(), 2, options, values);
  if (result != CUDA_SUCCESS) {
    log[sizeof(log) - 1] = '\0';
    const absl::string_view said = absl::StripAsciiWhitespace(log);
    return CudaStatus(
        driver, result,
        absl::StrCat("loading kernel ", kernel->name, said.empty() ? "" : ": ", said));
  }
  absl::Status status =
      CudaStatus(driver, driver.cuModuleGetFunction(function, *module, kernel->entry_.c_str()),
                 absl::StrCat("finding ", kernel->entry_, " in the code of ", kernel->name));
  // Asking for an attribute brings the code onto the GPU now rather than with the first launch.
  int most_threads = 0;
  if (status.ok())
    status = CudaStatus(driver,
                        driver.cuFuncGetAttribute(
                            &most_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *function),
                        absl::StrCat("loading kernel ", kernel->name));
  if (status.ok() && kernel->threads > static_cast<uint32_t>(most_threads))
    status = absl::FailedPreconditionError(
        absl::StrCat("kernel ", kernel->name, " has ", kernel->threads,
                     " threads a block, but its registers allow ", most_threads));
  if (status.ok() && kernel->shared_bytes > kStaticSharedLimit)
    status = CudaStatus(
        driver,
        driver.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(kernel->shared_bytes)),
        absl::StrCat("allowing kernel ", kernel->name, " ", kernel->shared_bytes,
                     " bytes of shared memory"));
  if (status.ok() && kernel->cluster_blocks > 8)
    status = CudaStatus(
        driver,
        driver.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                                  1),
        absl::StrCat("allowing kernel ", kernel->name, " clusters of ", kernel->cluster_blocks));
  if (!status.ok()) {
    driver.cuModuleUnload(*module);
    return status;
  }
  ++loaded_;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DeviceKernel>> KernelTable::Load(uint64_t id,
                                                                const storage::Artifact& artifact) {
  const storage::KernelMetadata& metadata = artifact.metadata();
  auto kernel = std::make_shared<DeviceKernel>();
  kernel->id = id;
  kernel->name = metadata.kernel();
  kernel->entry_ = metadata.entry_symbol().empty() ? metadata.kernel() : metadata.entry_symbol();
  kernel->code_ = artifact.code();  // PTX is text: a string's data ends with 0
  const uint32_t warps = metadata.options().num_warps();
  kernel->threads =
      metadata.threads() != 0 ? metadata.threads() : kWarpThreads * (warps == 0 ? 4 : warps);
  kernel->report_messages = metadata.report_messages();
  kernel->cluster_blocks = std::max<uint32_t>(metadata.options().num_ctas(), 1);
  kernel->shared_bytes = metadata.shared_bytes();
  const auto guarded = metadata.options().extra().find("guarded");
  kernel->guarded = guarded != metadata.options().extra().end() && guarded->second != "0";
  for (const storage::EntryParameter& parameter : metadata.parameters())
    kernel->parameters.push_back(
        {parameter.name(), !parameter.type().empty() && parameter.type()[0] == '*'});
  if (kernel->code_.empty())
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel->name, " has no code"));
  RETURN_IF_ERROR(CheckLimits(*kernel));
  RETURN_IF_ERROR(LoadModule(kernel.get(), &kernel->module_, &kernel->function_));
  std::lock_guard<std::mutex> lock(mutex_);
  kernel->last_use_ = ++uses_;
  if (kernels_.emplace(id, kernel).second) return kernel;
  gpu_->driver().cuModuleUnload(kernel->module_);
  --loaded_;
  return absl::AlreadyExistsError(absl::StrCat("kernel ", id, " is loaded already"));
}

std::shared_ptr<DeviceKernel> KernelTable::Find(uint64_t id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = kernels_.find(id);
  return found == kernels_.end() ? nullptr : found->second;
}

// Called behind the launches of the kernel, so none needs the module any more, save those that are
// still on the GPU; their Release unloads it then.
void KernelTable::Remove(uint64_t id) {
  CUmodule module = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = kernels_.find(id);
    if (found == kernels_.end()) return;
    std::shared_ptr<DeviceKernel> kernel = std::move(found->second);
    kernels_.erase(found);
    if (kernel->launches_ == 0) module = std::exchange(kernel->module_, nullptr);
  }
  if (module == nullptr) return;
  gpu_->driver().cuModuleUnload(module);
  --loaded_;
}

absl::StatusOr<CUfunction> KernelTable::Acquire(DeviceKernel* kernel) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++kernel->launches_;
    kernel->last_use_ = ++uses_;
    if (kernel->module_ != nullptr) return kernel->function_;
  }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  absl::Status loaded = LoadModule(kernel, &module, &function);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!loaded.ok()) {
    --kernel->launches_;
    return loaded;
  }
  kernel->module_ = module;
  kernel->function_ = function;
  return function;
}

void KernelTable::Release(DeviceKernel* kernel) {
  CUmodule module = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--kernel->launches_ == 0 && kernels_.count(kernel->id) == 0)
      module = std::exchange(kernel->module_, nullptr);
  }
  if (module == nullptr) return;
  gpu_->driver().cuModuleUnload(module);
  --loaded_;
}

uint32_t KernelTable::UnloadIdle() {
  std::vector<CUmodule> modules;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<DeviceKernel*> idle;
    for (auto& entry : kernels_)
      if (entry.second->module_ != nullptr && entry.second->launches_ == 0)
        idle.push_back(entry.second.get());
    std::sort(idle.begin(), idle.end(), [](const DeviceKernel* a, const DeviceKernel* b) {
      return a->last_use_ < b->last_use_;
    });
    idle.resize((idle.size() + 1) / 2);
    for (DeviceKernel* kernel : idle) modules.push_back(std::exchange(kernel->module_, nullptr));
  }
  for (CUmodule module : modules) gpu_->driver().cuModuleUnload(module);
  loaded_ -= static_cast<uint32_t>(modules.size());
  unloaded_ += modules.size();
  return static_cast<uint32_t>(modules.size());
}

}  // namespace tessera::runtime
