#include "compiler/target/nvptx/libdevice.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/target/nvptx/cuda_toolkit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Transforms/IPO/Internalize.h"

namespace tessera::compiler {
namespace {

struct File {
  std::string path;
  std::unique_ptr<llvm::MemoryBuffer> bytes;
};

absl::StatusOr<const File*> FindLibdevice() {
  static std::mutex mutex;
  static const File* found = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (found) return found;
  std::vector<std::string> tried;
  if (const char* path = std::getenv("TESSERA_LIBDEVICE"); path && *path) {
    tried.push_back(path);
  } else {
    for (const std::string& folder : CudaToolkits()) tried.push_back(folder + "/nvvm/libdevice/libdevice.10.bc");
  }
  for (const std::string& path : tried)
    if (auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false))
      return found = new File{path, std::move(*buffer)};
  return absl::FailedPreconditionError(absl::StrCat("the kernel calls math functions of NVIDIA's libdevice, and there is none at ", absl::StrJoin(tried, ", "),
                                                    "; set CUDA_HOME to a CUDA toolkit, or TESSERA_LIBDEVICE to the file libdevice.10.bc"));
}

std::string TextOf(llvm::Error error) { return llvm::toString(std::move(error)); }

}  // namespace

absl::Status LinkLibdevice(const std::set<std::string>& symbols, llvm::Module* module) {
  if (symbols.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const File* file, FindLibdevice());
  auto library = llvm::getLazyBitcodeModule(file->bytes->getMemBufferRef(), module->getContext(), /*ShouldLazyLoadMetadata=*/true);
  if (!library) return absl::InternalError(absl::StrCat("reading ", file->path, ": ", TextOf(library.takeError())));
  for (const std::string& symbol : symbols) {
    const llvm::Function* function = (*library)->getFunction(symbol);
    if (!function || (function->isDeclaration() && !function->isMaterializable()))
      return absl::UnimplementedError(absl::StrCat("not supported on GPUs: libdevice has no function ", symbol));
    if (function->getFunctionType() != module->getFunction(symbol)->getFunctionType())
      return absl::UnimplementedError(absl::StrCat("not supported on GPUs: libdevice's ", symbol, " takes other types"));
  }
  (*library)->setTargetTriple(module->getTargetTriple());
  (*library)->setDataLayout(module->getDataLayout());
  auto internalize = [](llvm::Module& linked, const llvm::StringSet<>& names) {
    llvm::internalizeModule(linked, [&](const llvm::GlobalValue& value) { return !value.hasName() || !names.contains(value.getName()); });
  };
  if (llvm::Linker::linkModules(*module, std::move(*library), llvm::Linker::LinkOnlyNeeded, internalize))
    return absl::InternalError(absl::StrCat("linking ", file->path, " failed"));
  // Math functions flush subnormals, as in Triton. The language allows that in them alone: not in the remainder.
  module->addModuleFlag(llvm::Module::Override, "nvvm-reflect-ftz", symbols.count("__nv_fmodf") ? 0u : 1u);
  return absl::OkStatus();
}

}  // namespace tessera::compiler
