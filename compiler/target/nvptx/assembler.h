// PTX -> cubin, by NVIDIA's assembler: in process through libnvJitLink where there is one, else by the program ptxas.
// Both are found at run time and may be absent.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_ASSEMBLER_H_
#define TESSERA_COMPILER_TARGET_NVPTX_ASSEMBLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/target/nvptx/gpu_arch.h"

namespace tessera::compiler {

struct Cubin {
  std::string code;  // ELF
  int registers = 0;    // of a thread
  int spill_bytes = 0;  // stored to local memory for want of registers
  int local_bytes = 0;  // local memory of a thread, spills included
  std::string log;      // what the assembler remarked
  std::string assembler;  // "nvJitLink 13.0" or the path of ptxas
};

// `entry`: the kernel's name. Line information of the PTX is kept. Thread-safe.
// FAILED_PRECONDITION: neither assembler is there, or it does not know the GPU. INTERNAL: it refuses the PTX; the
// message is its own.
absl::StatusOr<Cubin> Assemble(const std::string& ptx, const std::string& entry, const GpuArch& arch);

// The machine code as text, by the toolkit's nvdisasm or cuobjdump. FAILED_PRECONDITION: there is neither.
absl::StatusOr<std::string> Disassemble(const std::string& cubin);

// Loads the assembler and assembles a tiny kernel: the first use in a process takes up to 200 ms more than later ones.
void WarmUpAssembler();

// Empty where there is one; else why not.
std::string WhyNoAssembler();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_NVPTX_ASSEMBLER_H_
