#include "runtime/cpu/print_lines.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"

namespace tessera::runtime {
namespace {

template <typename To>
To BitCast(uint64_t bits) {
  To value;
  std::memcpy(&value, &bits, sizeof(value));  // little-endian hosts: the low bytes
  return value;
}

// How a float below 32 bits is laid out. The highest exponent holds infinities and NaN only where `ieee`.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  bool ieee;
  std::optional<uint64_t> nan;  // the code that is NaN where not `ieee`; with the sign bit cleared if `any_sign`
  bool any_sign = false;
};

double Decode(const SmallFloat& format, uint64_t bits) {
  const int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  const uint64_t magnitude = bits & ((uint64_t{1} << magnitude_bits) - 1);
  if (format.nan && *format.nan == (format.any_sign ? magnitude : bits)) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint64_t mantissa = magnitude & ((uint64_t{1} << format.mantissa_bits) - 1);
  double value;
  if (format.ieee && exponent == (1 << format.exponent_bits) - 1)
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  else
    value = std::ldexp(mantissa + (uint64_t{1} << format.mantissa_bits), exponent - format.bias - format.mantissa_bits);
  return (bits >> magnitude_bits & 1) != 0 ? -value : value;
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  return absl::StrFormat("%f", value);
}

std::string FormatValue(absl::string_view kind, uint64_t bits) {
  if (kind == "x8") return absl::StrFormat("0x%02x", bits);
  if (kind == "x16") return absl::StrFormat("0x%04x", bits);
  if (kind == "x32") return absl::StrFormat("0x%08x", bits);
  const std::optional<DType> dtype = ParseDType(kind);
  if (!dtype) return absl::StrFormat("0x%016x", bits);
  switch (*dtype) {
    case DType::kInt1: return absl::StrCat(bits & 1);
    case DType::kInt8: return absl::StrCat(static_cast<int>(BitCast<int8_t>(bits)));
    case DType::kInt16: return absl::StrCat(BitCast<int16_t>(bits));
    case DType::kInt32: return absl::StrCat(BitCast<int32_t>(bits));
    case DType::kInt64: return absl::StrCat(BitCast<int64_t>(bits));
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64: return absl::StrCat(bits);
    case DType::kFp16: return FormatFloat(Decode({5, 10, 15, true, {}}, bits));
    case DType::kBf16: return FormatFloat(Decode({8, 7, 127, true, {}}, bits));
    case DType::kFp32: return FormatFloat(BitCast<float>(bits));
    case DType::kFp64: return FormatFloat(BitCast<double>(bits));
    case DType::kFp8E4M3Fn: return FormatFloat(Decode({4, 3, 7, false, 0x7f, true}, bits));
    case DType::kFp8E5M2: return FormatFloat(Decode({5, 2, 15, true, {}}, bits));
    case DType::kFp8E4M3Fnuz: return FormatFloat(Decode({4, 3, 8, false, 0x80}, bits));
    case DType::kFp8E4B15: return FormatFloat(Decode({4, 3, 15, false, {}}, bits));
    case DType::kFp8E5M2Fnuz: return FormatFloat(Decode({5, 2, 16, false, 0x80}, bits));
  }
  return absl::StrFormat("0x%016x", bits);
}

// Row-major lane of a block with these extents ("4,8"): "2, 5".
std::string LaneText(uint64_t lane, absl::string_view extents) {
  std::string text;
  std::vector<absl::string_view> words = absl::StrSplit(extents, ',');
  for (size_t d = words.size(); d-- > 0;) {
    uint64_t extent = 1;
    if (!absl::SimpleAtoi(words[d], &extent) || extent == 0) extent = 1;
    text = absl::StrCat(d == 0 ? lane : lane % extent, text.empty() ? "" : ", ", text);
    lane /= extent;
  }
  return text;
}

}  // namespace

std::string PrintLine(const uint32_t* pid, absl::string_view prefix, absl::string_view kind, uint64_t bits,
                      uint64_t lane, uint64_t lanes) {
  std::string index = lanes == 1 ? "" : absl::StrCat(lane);
  if (const size_t bracket = kind.find('['); bracket != absl::string_view::npos) {
    index = LaneText(lane, absl::StripSuffix(kind.substr(bracket + 1), "]"));
    kind = kind.substr(0, bracket);
  }
  prefix = absl::StripPrefix(prefix, " ");
  prefix = absl::StripSuffix(prefix, " ");
  prefix = absl::StripSuffix(prefix, ":");
  return absl::StrCat("pid (", pid[0], ", ", pid[1], ", ", pid[2], ") idx (", index, ") ",
                      prefix, ": ", FormatValue(kind, bits));
}

}  // namespace tessera::runtime
