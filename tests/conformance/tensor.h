// Flat tensors of every element type, with conversions that owe nothing to the compiler under test.
#ifndef TESSERA_TESTS_CONFORMANCE_TENSOR_H_
#define TESSERA_TESTS_CONFORMANCE_TENSOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tessera::conformance {

// The value of one element. Unsigned 64-bit values come as their two's complement.
double DecodeFloat(DType dtype, uint64_t bits);
int64_t DecodeInt(DType dtype, uint64_t bits);

// Nearest even; fp16, bf16 and fp32 overflow to infinity, fp8 saturates to the largest finite value.
uint64_t EncodeFloat(DType dtype, double value);
double RoundTo(DType dtype, double value);

struct Tensor {
  DType dtype = DType::kFp32;
  std::vector<uint8_t> bytes;

  size_t size() const { return bytes.size() / ByteSize(dtype); }
  uint64_t Bits(size_t i) const;
  void SetBits(size_t i, uint64_t bits);
  double Float(size_t i) const { return DecodeFloat(dtype, Bits(i)); }
  int64_t Int(size_t i) const { return DecodeInt(dtype, Bits(i)); }
  // Float or Int, as the type wants.
  double Number(size_t i) const { return IsFloat(dtype) ? Float(i) : static_cast<double>(Int(i)); }
};

// Bytes that no kernel writes by chance.
Tensor Poison(DType dtype, size_t count);
Tensor Floats(DType dtype, const std::vector<double>& values);
Tensor Ints(DType dtype, const std::vector<int64_t>& values);

// NaN, infinities, signed zeros, subnormals, extremes; for integers 0, +-1, extremes and their neighbours.
std::vector<uint64_t> SpecialBits(DType dtype);
// Floats of a normal distribution times `scale`; integers of all widths; bools 0 and 1. No special values.
Tensor Random(DType dtype, size_t count, uint32_t seed, double scale = 1);
// Integers of [low, high], exactly representable in `dtype`.
Tensor RandomInts(DType dtype, size_t count, uint32_t seed, int64_t low, int64_t high);
// Special values first, then random ones. Those of two tensors with strides 1 and the number of special values meet
// in every pair.
Tensor Special(DType dtype, size_t count, uint32_t seed, size_t stride = 1);

}  // namespace tessera::conformance

#endif  // TESSERA_TESTS_CONFORMANCE_TENSOR_H_
