// How the host calls a kernel that the cpu target compiled. Shared by compiler (emits it) and runtime (calls it).
#ifndef TESSERA_BASE_KERNEL_ABI_H_
#define TESSERA_BASE_KERNEL_ABI_H_

#include <cstdint>

namespace tessera {

// What a running kernel may ask of its host. Compiled code reads fields by offset: only append.
struct KernelContext {
  // KernelMetadata.scratch_bytes of memory, aligned to scratch_align (at least 64), for this call alone.
  void* scratch;
  // Set by a failed device_assert: the message, and a nonzero flag; the kernel returns early.
  const char* failure_message;
  uint64_t failed;
  // tl.device_print: one call for each value of an operand, in lane order. `prefix` ends with 0. `kind` is the
  // short dtype name; `bits` hold the value, zero-extended. pid is the program's index (3 entries).
  void (*print)(KernelContext* context, const uint32_t* pid, const char* prefix, const char* kind, uint64_t bits,
                uint64_t lane, uint64_t lanes);
  void* host;  // of the caller
};

// Runs the program instances first <= linear index < last, where
// linear = x + grid[0] * (y + grid[1] * z). `params` has one 8-byte slot for each EntryParameter:
//   pointers: the address. Integers: two's complement, sign-extended if signed, else zero-extended.
//   fp32: the bits in the low 4 bytes. fp64: the bits. fp16, bf16: the bits in the low 2 bytes. i1: 0 or 1.
using KernelEntry = void (*)(const uint64_t* params, const uint32_t* grid, uint64_t first, uint64_t last,
                             KernelContext* context);

}  // namespace tessera

#endif  // TESSERA_BASE_KERNEL_ABI_H_
