#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/driver_location.h"

namespace tessera::runtime {
namespace {

constexpr int kMpsTries = 500;
constexpr useconds_t kMpsPauseUs = 10000;

absl::Status Resolve(void* library, const char* symbol, const char* older, void** function) {
  *function = dlsym(library, symbol);
  if (*function == nullptr && older != nullptr) *function = dlsym(library, older);
  if (*function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("libcuda has no ", symbol, "; a driver of CUDA 12 or later is needed"));
}

#define TESSERA_TEXT_OF(name) #name
#define TESSERA_SYMBOL(name) TESSERA_TEXT_OF(name)

absl::Status ResolveAll(void* library, CudaDriver* driver) {
  absl::Status status;
#define X(name)    \
  if (status.ok()) \
    status = Resolve(library, TESSERA_SYMBOL(name), #name, reinterpret_cast<void**>(&driver->name));
  TESSERA_CUDA_FUNCTIONS(X)
#undef X
  return status;
}

// The driver opens this one by its name alone when it is given PTX; where libcuda lies outside the
// loader's path it would not be found.
void OpenPtxCompilerBeside(const std::string& libcuda) {
  const size_t slash = libcuda.rfind('/');
  if (slash == std::string::npos) return;
  for (const char* name : {"libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"})
    dlopen(absl::StrCat(libcuda.substr(0, slash + 1), name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

absl::StatusOr<const CudaDriver*> Load() {
  void* library = nullptr;
  std::string problem;
  for (const std::string& path : LibcudaCandidates()) {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) {
      OpenPtxCompilerBeside(path);
      break;
    }
    if (problem.empty()) problem = dlerror();
  }
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("no CUDA driver: ", problem));
  static CudaDriver driver;
  absl::Status resolved = ResolveAll(library, &driver);
  if (!resolved.ok()) return resolved;
  // After a fault under MPS the server ends and is started again.
  CUresult result = CUDA_SUCCESS;
  for (int tries = 0; tries < kMpsTries; ++tries) {
    result = driver.cuInit(0);
    if (result != CUDA_ERROR_MPS_SERVER_NOT_READY) break;
    usleep(kMpsPauseUs);
  }
  if (result != CUDA_SUCCESS)
    return absl::UnavailableError(
        absl::StrCat("the CUDA driver does not start: ", CudaErrorText(driver, result)));
  return &driver;
}

}  // namespace

absl::StatusOr<const CudaDriver*> LoadCudaDriver() {
  static const absl::StatusOr<const CudaDriver*>* loaded =
      new absl::StatusOr<const CudaDriver*>(Load());
  return *loaded;
}

}  // namespace tessera::runtime
