// Matrix instructions as the PTX ISA defines them: where each lane holds which element, and the products.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_MATRIX_H_
#define TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_MATRIX_H_

#include <cstdint>
#include <vector>

namespace tessera::emulator {

// By simt::MatrixType.
enum class MatrixType : uint8_t { kF16, kBf16, kTf32, kE4M3, kE5M2, kS8, kU8, kF64 };
enum class Accumulator : uint8_t { kF32, kI32, kF64, kF16Pair };
enum class Swizzle : uint8_t { kNone, k32, k64, k128 };

int Bytes(MatrixType type);

struct Position {
  int row, column;
};

// Element `e` of register `r` of a lane. A fragments are [m, k], B fragments [k, n], accumulators [m, n].
// `per_register`: elements in one register (2 for 16 bits, 4 for 8, 1 for tf32 and f64).
Position PositionInA(int lane, int r, int e, int per_register);
Position PositionInB(int lane, int r, int e, int per_register);
// Accumulators of mma.sync: one element a register, or two of f16.
Position PositionInC(int lane, int r, int e, bool pairs);
// The same of wgmma, [64, n], for a thread of the warp group.
Position PositionInWarpGroupC(int thread, int r, int e, bool pairs);

// c += a [m, k] x b [k, n], row-major. Elements come as raw bits; products are exact, sums in the accumulator's type.
struct Product {
  int m, n, k;
  MatrixType a_type, b_type;
  Accumulator accumulator;
  std::vector<uint64_t> a, b, c;  // bits of the elements
  void Run();
};

// Bytes from the start address of a wgmma matrix descriptor to the 16-byte chunk that holds `element_bytes` bytes of an
// element, before swizzling. `outer`: row of a, column of b; `inner`: index along k.
int64_t DescriptorOffset(int outer, int inner, int element_bytes, bool transposed, Swizzle swizzle, int64_t leading_bytes,
                         int64_t stride_bytes);
// The swizzle permutes 16-byte chunks by bits of the absolute address.
int64_t Swizzled(int64_t address, Swizzle swizzle);

}  // namespace tessera::emulator

#endif  // TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_MATRIX_H_
