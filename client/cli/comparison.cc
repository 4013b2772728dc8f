#include "client/cli/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::cli {
namespace {

template <typename T>
T Read(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// A small float with the given fields. `fnuz`: the only special code is 0x80 = NaN; else the IEEE-like rules of e5m2,
// or e4m3fn's (all ones is NaN, no infinities).
double DecodeSmall(uint8_t code, int mantissa_bits, int bias, bool has_inf, bool fnuz) {
  int exponent_bits = 7 - mantissa_bits;
  int exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  int mantissa = code & ((1 << mantissa_bits) - 1);
  double sign = code & 0x80 ? -1 : 1;
  if (fnuz && code == 0x80) return std::numeric_limits<double>::quiet_NaN();
  if (!fnuz && exponent == (1 << exponent_bits) - 1) {
    if (has_inf) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
    if (mantissa == (1 << mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

double DecodeHalf(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

}  // namespace

double DecodeElement(DType dtype, const uint8_t* bytes) {
  switch (dtype) {
    case DType::kInt1: return Read<uint8_t>(bytes) != 0;
    case DType::kInt8: return Read<int8_t>(bytes);
    case DType::kInt16: return Read<int16_t>(bytes);
    case DType::kInt32: return Read<int32_t>(bytes);
    case DType::kInt64: return static_cast<double>(Read<int64_t>(bytes));
    case DType::kUint8: return Read<uint8_t>(bytes);
    case DType::kUint16: return Read<uint16_t>(bytes);
    case DType::kUint32: return Read<uint32_t>(bytes);
    case DType::kUint64: return static_cast<double>(Read<uint64_t>(bytes));
    case DType::kFp16: return DecodeHalf(Read<uint16_t>(bytes));
    case DType::kBf16: {
      uint32_t bits = static_cast<uint32_t>(Read<uint16_t>(bytes)) << 16;
      return Read<float>(reinterpret_cast<uint8_t*>(&bits));
    }
    case DType::kFp32: return Read<float>(bytes);
    case DType::kFp64: return Read<double>(bytes);
    case DType::kFp8E4M3Fn: return DecodeSmall(*bytes, 3, 7, false, false);
    case DType::kFp8E5M2: return DecodeSmall(*bytes, 2, 15, true, false);
    case DType::kFp8E4M3Fnuz: return DecodeSmall(*bytes, 3, 8, false, true);
    case DType::kFp8E5M2Fnuz: return DecodeSmall(*bytes, 2, 16, false, true);
    case DType::kFp8E4B15: {  // no special codes; bias 15
      int exponent = (*bytes >> 3) & 15, mantissa = *bytes & 7;
      double magnitude = exponent ? std::ldexp(mantissa + 8, exponent - 18) : std::ldexp(mantissa, -17);
      return *bytes & 0x80 ? -magnitude : magnitude;
    }
  }
  return 0;
}

double RelativeTolerance(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::kFp64: return 1e-12;
    case DType::kFp32: return tf32 ? 3e-3 : 1e-5;
    case DType::kFp16: return 2e-3;
    case DType::kBf16: return 1.6e-2;
    case DType::kFp8E4M3Fn: case DType::kFp8E4M3Fnuz: case DType::kFp8E4B15: return 0.13;
    case DType::kFp8E5M2: case DType::kFp8E5M2Fnuz: return 0.26;
    default: return 0;
  }
}

std::vector<uint64_t> ElementOffsets(const ElementView& view) {
  std::vector<uint64_t> offsets;
  int64_t count = 1;
  for (int64_t extent : view.shape) count *= extent;
  offsets.reserve(count);
  std::vector<int64_t> index(view.shape.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[d];
    offsets.push_back(view.byte_offset + at * ByteSize(view.dtype));
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < view.shape[d]) break;
      index[d] = 0;
    }
  }
  return offsets;
}

std::string CompareElements(const ElementView& view, const std::vector<uint8_t>& got, const std::vector<uint8_t>& want,
                            const std::vector<bool>& ignored, bool tf32) {
  std::vector<uint64_t> offsets = ElementOffsets(view);
  double rtol = RelativeTolerance(view.dtype, tf32), scale = 0;
  if (IsFloat(view.dtype)) {
    std::vector<double> magnitudes;
    for (uint64_t offset : offsets) {
      double magnitude = std::abs(DecodeElement(view.dtype, &want[offset]));
      if (std::isfinite(magnitude)) magnitudes.push_back(magnitude);
    }
    if (!magnitudes.empty()) {
      auto middle = magnitudes.begin() + magnitudes.size() / 2;
      std::nth_element(magnitudes.begin(), middle, magnitudes.end());
      double median = *middle;
      scale = std::min(*std::max_element(magnitudes.begin(), magnitudes.end()), 16 * median);
    }
  }
  size_t differing = 0, first = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    uint64_t offset = offsets[i];
    if (!ignored.empty() && ignored[offset]) continue;
    bool same;
    if (!IsFloat(view.dtype)) {
      same = std::memcmp(&got[offset], &want[offset], ByteSize(view.dtype)) == 0;
    } else {
      double g = DecodeElement(view.dtype, &got[offset]), w = DecodeElement(view.dtype, &want[offset]);
      if (std::isnan(w) || std::isnan(g)) same = std::isnan(w) && std::isnan(g);
      else if (std::isinf(w) || std::isinf(g)) same = w == g;
      else same = std::abs(g - w) <= rtol * std::abs(w) + rtol * scale;
    }
    if (!same && differing++ == 0) first = i;
  }
  if (differing == 0) return "";
  std::string index;
  for (size_t d = view.shape.size(), rest = first; d-- > 0;) {
    index = absl::StrCat(rest % view.shape[d], index.empty() ? "" : ", ", index);
    rest /= view.shape[d];
  }
  return absl::StrFormat("[%s] got %.9g, want %.9g; %d of %d differ (rtol %g)", index,
                         DecodeElement(view.dtype, &got[offsets[first]]), DecodeElement(view.dtype, &want[offsets[first]]),
                         differing, offsets.size(), rtol);
}

}  // namespace tessera::cli
