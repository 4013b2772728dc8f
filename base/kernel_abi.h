// How the host and compiled kernels talk to each other: calls of the cpu target, reports of GPU kernels. Shared by
// compiler (emits it) and runtime (uses it).
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
  // short dtype name, or "x8" to "x64" for hexadecimal digits, for blocks of several dimensions with their extents
  // behind it ("i32[4,8]"); `bits` hold the value, zero-extended. pid is the program's index (3 entries).
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

// One value that a GPU kernel printed (tl.device_print).
struct GpuPrintRecord {
  uint64_t bits;        // of the value, zero-extended
  uint32_t message;     // index in KernelMetadata.report_messages: prefix, dtype, operand
  uint32_t program[3];  // the program's index
  uint32_t element;     // which of the operand's elements, in row-major order
  uint32_t elements;    // how many the operand has; 1: a scalar
};

// What a GPU kernel tells its host. Every sm_* kernel takes the device address of one as its last parameter, of 8 bytes,
// behind one parameter for each EntryParameter at its natural size (pointers 8, i1 1 byte) and, in guarded variants, the
// first address and the one behind the last of each pointer's buffer, in the order of the pointers. The memory is mapped host
// memory, or device memory that is copied back; the host zeroes the head (all before `records`) before a launch and reads
// it once the launch is done. Compiled code writes fields by offset: only append before `records`.
struct GpuLaunchReport {
  static constexpr uint32_t kPrintRecords = 2048;

  uint32_t failed;   // nonzero: the launch failed; the next four fields say how. The first failure wins
  uint32_t kind;     // 0: a device_assert failed; 1: an access outside the bound buffers
  uint32_t message;  // index in KernelMetadata.report_messages
  uint32_t program[3];
  uint64_t address;  // of the access; 0: none
  uint32_t prints;   // values printed; may exceed kPrintRecords, then the rest is lost
  uint32_t reserved[7];
  GpuPrintRecord records[kPrintRecords];
};

}  // namespace tessera

#endif  // TESSERA_BASE_KERNEL_ABI_H_
