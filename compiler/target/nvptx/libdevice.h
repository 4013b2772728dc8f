// NVIDIA's math library as LLVM bitcode: found at run time, linked into kernels that call it.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_LIBDEVICE_H_
#define TESSERA_COMPILER_TARGET_NVPTX_LIBDEVICE_H_

#include <set>
#include <string>

#include "absl/status/status.h"

namespace llvm {
class Module;
}

namespace tessera::compiler {

// Links the definitions of `symbols` ("__nv_expf"), and what they call, into `module` as internal functions. The file is
// read once a process: TESSERA_LIBDEVICE names it, else it is nvvm/libdevice/libdevice.10.bc below CUDA_HOME or
// /usr/local/cuda*. Function bodies are parsed as they are needed. Thread-safe for modules of different contexts.
// FAILED_PRECONDITION: there is no such file; the message says where it was looked for. UNIMPLEMENTED: a symbol that
// libdevice does not have. INTERNAL: the file cannot be read as bitcode.
absl::Status LinkLibdevice(const std::set<std::string>& symbols, llvm::Module* module);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_NVPTX_LIBDEVICE_H_
