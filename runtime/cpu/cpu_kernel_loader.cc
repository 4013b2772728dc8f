#include "runtime/cpu/cpu_kernel_loader.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/kernel_abi.h"
#include "base/status_macros.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/object_linker.h"

namespace tessera::runtime {
namespace {

class CpuKernelLoader : public KernelLoader {
 public:
  explicit CpuKernelLoader(ThreadPool* pool) : pool_(pool) {}

  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const storage::Artifact& artifact) override {
    const storage::KernelMetadata& metadata = artifact.metadata();
    if (metadata.target() != "cpu")
      return absl::InvalidArgumentError(
          absl::StrCat("loading kernel ", metadata.kernel(), " on the CPU: compiled for '", metadata.target(), "'"));
    if ((metadata.scratch_align() & (metadata.scratch_align() - 1)) != 0)
      return absl::InvalidArgumentError(
          absl::StrCat("loading kernel ", metadata.kernel(), ": scratch alignment ", metadata.scratch_align()));
    ASSIGN_OR_RETURN(ObjectLinker* linker, Linker());
    absl::StatusOr<LinkedObject> linked = linker->Link(artifact.code(), metadata.entry_symbol());
    if (!linked.ok())
      return absl::Status(linked.status().code(),
                          absl::StrCat("loading kernel ", metadata.kernel(), ": ", linked.status().message()));
    return std::make_unique<CpuKernel>(reinterpret_cast<KernelEntry>(linked->entry), metadata, pool_,
                                       std::move(linked->code));
  }

 private:
  // Starts with the first kernel: a process that loads none pays nothing.
  absl::StatusOr<ObjectLinker*> Linker() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (linker_ == nullptr) {
      ASSIGN_OR_RETURN(linker_, ObjectLinker::Create());
    }
    return linker_.get();
  }

  ThreadPool* const pool_;
  std::mutex mutex_;
  std::unique_ptr<ObjectLinker> linker_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<KernelLoader> CreateCpuKernelLoader(ThreadPool* pool) { return std::make_unique<CpuKernelLoader>(pool); }

}  // namespace tessera::runtime
