// Element types of the kernel language and their spellings.
#ifndef TESSERA_BASE_DTYPE_H_
#define TESSERA_BASE_DTYPE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

enum class DType {
  kInt1, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64,
  kFp16, kBf16, kFp32, kFp64,
  kFp8E4M3Fn,    // float8e4nv, torch float8_e4m3fn
  kFp8E5M2,      // float8e5, torch float8_e5m2
  kFp8E4M3Fnuz,  // float8e4b8, torch float8_e4m3fnuz
  kFp8E4B15,     // float8e4b15
  kFp8E5M2Fnuz,  // float8e5b16, torch float8_e5m2fnuz
};

// Bytes of one element in memory; int1 takes one.
int ByteSize(DType dtype);

bool IsFloat(DType dtype);
bool IsSigned(DType dtype);  // signed integers; false for floats, int1 and unsigned

// The spelling used in signatures: "i32", "u8", "fp16", "bf16", "fp8e4nv", "i1".
absl::string_view ShortName(DType dtype);
// The spelling of the kernel language: "int32", "uint8", "float16", "bfloat16", "float8e4nv", "int1".
absl::string_view LanguageName(DType dtype);

// Accepts every spelling of the command line's manual: tl ("float16", "tl.float16"), torch
// ("torch.bool", "float8_e4m3fn"), short ("fp16", "u1") and unambiguous .npy ("f2", "<i4"). nullopt: unknown.
// "u1", "i8", "u8" and "f8" are read as short names (int1, int8, uint8) or fp64; a .npy header, where "i8"
// means eight bytes, is not for this function.
std::optional<DType> ParseDType(absl::string_view text);

// Like ParseDType, and if `text` is no type, `error` says which would be accepted.
std::optional<DType> ParseDType(absl::string_view text, std::string* error);

}  // namespace tessera

#endif  // TESSERA_BASE_DTYPE_H_
