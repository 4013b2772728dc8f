#include "base/dtype.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

struct Row {
  DType dtype;
  int bytes;
  absl::string_view short_name, language_name;
  absl::string_view others[4];  // torch and .npy spellings
};

// "u1" is the short spelling of int1 in signatures and of uint8 in .npy headers. The signature wins
// here; readers of .npy files do not come through this table for it.
constexpr Row kRows[] = {
    {DType::kInt1, 1, "i1", "int1", {"bool", "u1", "?", ""}},
    {DType::kInt8, 1, "i8", "int8", {}},
    {DType::kInt16, 2, "i16", "int16", {"i2", "short"}},
    {DType::kInt32, 4, "i32", "int32", {"i4", "int"}},
    {DType::kInt64, 8, "i64", "int64", {"long"}},
    {DType::kUint8, 1, "u8", "uint8", {}},
    {DType::kUint16, 2, "u16", "uint16", {"u2"}},
    {DType::kUint32, 4, "u32", "uint32", {"u4"}},
    {DType::kUint64, 8, "u64", "uint64", {}},
    {DType::kFp16, 2, "fp16", "float16", {"f2", "half"}},
    {DType::kBf16, 2, "bf16", "bfloat16", {}},
    {DType::kFp32, 4, "fp32", "float32", {"f4", "float"}},
    {DType::kFp64, 8, "fp64", "float64", {"f8", "double"}},
    {DType::kFp8E4M3Fn, 1, "fp8e4nv", "float8e4nv", {"float8_e4m3fn"}},
    {DType::kFp8E5M2, 1, "fp8e5", "float8e5", {"float8_e5m2"}},
    {DType::kFp8E4M3Fnuz, 1, "fp8e4b8", "float8e4b8", {"float8_e4m3fnuz"}},
    {DType::kFp8E4B15, 1, "fp8e4b15", "float8e4b15", {}},
    {DType::kFp8E5M2Fnuz, 1, "fp8e5b16", "float8e5b16", {"float8_e5m2fnuz"}},
};

const Row& RowOf(DType dtype) { return kRows[static_cast<int>(dtype)]; }

}  // namespace

int ByteSize(DType dtype) { return RowOf(dtype).bytes; }
bool IsFloat(DType dtype) { return dtype >= DType::kFp16; }
bool IsSigned(DType dtype) { return dtype >= DType::kInt8 && dtype <= DType::kInt64; }
absl::string_view ShortName(DType dtype) { return RowOf(dtype).short_name; }
absl::string_view LanguageName(DType dtype) { return RowOf(dtype).language_name; }

std::optional<DType> ParseDType(absl::string_view text) {
  for (absl::string_view prefix : std::initializer_list<absl::string_view>{"torch.", "tl.", "triton.language.", "np.", "numpy."})
    if (absl::ConsumePrefix(&text, prefix)) break;
  if (!text.empty() && (text[0] == '<' || text[0] == '|' || text[0] == '=')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  for (const Row& row : kRows) {
    if (text == row.short_name || text == row.language_name) return row.dtype;
    for (absl::string_view other : row.others)
      if (!other.empty() && text == other) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> ParseDType(absl::string_view text, std::string* error) {
  std::optional<DType> dtype = ParseDType(text);
  if (!dtype) {
    *error = absl::StrCat("'", text, "' is no element type; accepted:");
    for (const Row& row : kRows) absl::StrAppend(error, " ", row.short_name);
  }
  return dtype;
}

}  // namespace tessera
