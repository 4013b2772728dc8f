#include "server/tuning/result_check.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "absl/strings/str_format.h"
#include "base/small_float.h"

namespace tessera::server {
namespace {

// An 8-bit float of 1 sign, `exponent_bits` and the rest mantissa. `fn`: no infinities, one NaN (all ones); `fnuz`: no
// infinities, NaN is minus zero, bias one higher.
float Fp8ToFloat(uint8_t code, int exponent_bits, int bias, bool fn, bool fnuz) {
  int mantissa_bits = 7 - exponent_bits;
  int exponent = (code & 0x7f) >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
  float sign = code & 0x80 ? -1.0f : 1.0f;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (fnuz && code == 0x80) return kNan;
  if (fn && (code & 0x7f) == 0x7f) return kNan;
  if (!fn && !fnuz && exponent == (1 << exponent_bits) - 1)
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : kNan;
  float scale = static_cast<float>(1 << mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa) / scale, 1 - bias);
  return sign * std::ldexp(1 + static_cast<float>(mantissa) / scale, exponent - bias);
}

template <typename T>
T At(const char* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

double FloatAt(DType dtype, const char* data, size_t i) {
  switch (dtype) {
    case DType::kFp64: return At<double>(data, i);
    case DType::kFp32: return At<float>(data, i);
    case DType::kFp16: return HalfToFloat(At<uint16_t>(data, i));
    case DType::kBf16: return Bf16ToFloat(At<uint16_t>(data, i));
    case DType::kFp8E4M3Fn: return Fp8ToFloat(At<uint8_t>(data, i), 4, 7, true, false);
    case DType::kFp8E5M2: return Fp8ToFloat(At<uint8_t>(data, i), 5, 15, false, false);
    case DType::kFp8E4M3Fnuz: return Fp8ToFloat(At<uint8_t>(data, i), 4, 8, false, true);
    case DType::kFp8E4B15: return Fp8ToFloat(At<uint8_t>(data, i), 4, 15, true, false);
    case DType::kFp8E5M2Fnuz: return Fp8ToFloat(At<uint8_t>(data, i), 5, 16, false, true);
    default: return 0;
  }
}

}  // namespace

// An element's own: what is left unwritten drowns in a norm.
Tolerance ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return {1e-9, 0.1};
    case DType::kFp32: return {1e-3, 0.1};
    case DType::kFp16:
    case DType::kBf16: return {1e-2, 0.1};
    default: return {0.15, 0.4};
  }
}

bool SumsAgree(DType dtype, const DifferenceSums& sums) {
  return sums.wrong == 0 && std::isfinite(sums.error) && std::isfinite(sums.norm) &&
         std::sqrt(sums.error) <= ToleranceOf(dtype).norm * std::sqrt(sums.norm);
}

std::string DescribeDifference(DType dtype, absl::Span<const char> want, absl::Span<const char> got) {
  if (want.size() != got.size()) return absl::StrFormat("%d bytes, not %d", got.size(), want.size());
  if (std::memcmp(want.data(), got.data(), want.size()) == 0) return "";
  size_t element_bytes = static_cast<size_t>(ByteSize(dtype)), count = want.size() / element_bytes;
  for (size_t byte = count * element_bytes; byte < want.size(); ++byte)
    if (want[byte] != got[byte]) return absl::StrFormat("byte %d differs", byte);
  if (!IsFloat(dtype)) {
    for (size_t i = 0; i < count; ++i)
      if (std::memcmp(want.data() + i * element_bytes, got.data() + i * element_bytes, element_bytes) != 0) {
        int64_t a = 0, b = 0;
        std::memcpy(&a, want.data() + i * element_bytes, element_bytes);
        std::memcpy(&b, got.data() + i * element_bytes, element_bytes);
        return absl::StrFormat("element %d is %d, not %d", i, b, a);
      }
    return "";
  }
  const Tolerance tolerance = ToleranceOf(dtype);
  double error = 0, norm = 0;
  for (size_t i = 0; i < count; ++i) {
    double a = FloatAt(dtype, want.data(), i), b = FloatAt(dtype, got.data(), i);
    if (std::isfinite(a) && std::isfinite(b)) {
      error += (a - b) * (a - b);
      norm += a * a;
      continue;
    }
    bool same = std::isnan(a) ? std::isnan(b) : a == b;
    if (!same) return absl::StrFormat("element %d is %g, not %g", i, b, a);
  }
  error = std::sqrt(error);
  norm = std::sqrt(norm);
  double root_mean_square = count == 0 ? 0 : norm / std::sqrt(static_cast<double>(count));
  for (size_t i = 0; i < count; ++i) {
    double a = FloatAt(dtype, want.data(), i), b = FloatAt(dtype, got.data(), i);
    if (std::isfinite(a) && std::abs(a - b) > tolerance.element * (std::abs(a) + root_mean_square))
      return absl::StrFormat("element %d is %g, not %g", i, b, a);
  }
  if (error <= tolerance.norm * norm) return "";
  if (norm == 0) return absl::StrFormat("norm %g where all is zero", error);
  return absl::StrFormat("relative error %.3g, more than %.3g", error / norm, tolerance.norm);
}

}  // namespace tessera::server
