// Compares the elements that a launch wrote with recorded ones.
#ifndef TESSERA_CLIENT_CLI_COMPARISON_H_
#define TESSERA_CLIENT_CLI_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tessera::cli {

// The element at `bytes` as a double (floats) or as itself (integers, rounded to double where above 2^53).
double DecodeElement(DType dtype, const uint8_t* bytes);

// rtol by dtype; `tf32` where the kernel multiplies fp32 in TF32.
double RelativeTolerance(DType dtype, bool tf32);

struct ElementView {
  DType dtype = DType::kFp32;
  uint64_t byte_offset = 0;                // of the first element in the storage
  std::vector<int64_t> shape, strides;     // in elements
};

// Byte offsets of every element of the view, row-major.
std::vector<uint64_t> ElementOffsets(const ElementView& view);

// Empty if all elements agree, else the first difference and how many there are. Integers and bools must be equal;
// floats: NaN equals NaN, infinities with their sign, else |got - want| <= rtol |want| + rtol min(max|want|, 16 median|want|).
// Elements at offsets where `ignored` is set are left out.
std::string CompareElements(const ElementView& view, const std::vector<uint8_t>& got, const std::vector<uint8_t>& want,
                            const std::vector<bool>& ignored, bool tf32);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_COMPARISON_H_
