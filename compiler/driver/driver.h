// The compiler's front door: source text in, description or artifact out.
//
// Pure: no files, no network, no CUDA driver; the same job gives the same bytes. Not safe against compiler crashes:
// the daemon calls it in worker processes only. Thread-compatible: one call at a time per Compiler object.
#ifndef TESSERA_COMPILER_DRIVER_DRIVER_H_
#define TESSERA_COMPILER_DRIVER_DRIVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/storage/modules.pb.h"

namespace tessera::compiler {

// Identifies this build of the compiler: every change that can change code changes it.
std::string CompilerBuild();

// LLVM's name and exact feature string of the host CPU, as CompileJob.cpu_features wants it.
std::string HostCpuFeatures();

class Compiler {
 public:
  Compiler();
  ~Compiler();

  // Parses a module and lists its kernels. INVALID_ARGUMENT when the text does not parse.
  absl::StatusOr<storage::ModuleDescription> Describe(
      const std::vector<storage::SourceFile>& files, std::vector<storage::Diagnostic>* diagnostics);

  // Which of the description's configurations prune_configs_by leaves for a launch with these values; see
  // KernelDescription.prunes_by_launch. `note`: why nothing was pruned. NOT_FOUND: there is no such kernel.
  absl::StatusOr<std::vector<size_t>> PruneConfigs(const std::vector<storage::SourceFile>& files, const std::string& kernel,
                                                   const std::vector<storage::NamedConstant>& values, std::string* note);

  // Compiles one variant. INVALID_ARGUMENT: the source or the signature is at fault (see diagnostics).
  // UNIMPLEMENTED: a part of the language this target does not have. FAILED_PRECONDITION, RESOURCE_EXHAUSTED: a
  // limit of the target, named. The status message is the first error, rendered with its source line and caret.
  // Stages of `emit`: ast, tile; cpu also tile_cpu, plan, loops, llvm_dialect, llvm, asm; GPUs
  // tile_gpu, simt, llvm, ptx. Names that the target does not have are left out. `override_stages` replaces "tile", for the cpu also tile_cpu, loops, llvm_dialect, llvm and asm, for GPUs simt and ptx;
  // others are ignored with a note.
  absl::StatusOr<storage::Artifact> Compile(const storage::CompileJob& job,
                                            std::vector<storage::Diagnostic>* diagnostics);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_DRIVER_H_
