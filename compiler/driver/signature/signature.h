// Reads the `--signature` language of the command line:
//   x=*fp16:16, n=i32:16, m=i32, flag=i1, one=1, bias=None, t=(i32,*fp32), desc=tensordesc<fp16,[64,64]>
#ifndef TESSERA_COMPILER_DRIVER_SIGNATURE_SIGNATURE_H_
#define TESSERA_COMPILER_DRIVER_SIGNATURE_SIGNATURE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

// One entry, "NAME=TYPE[:DIVISIBILITY]". Type spellings are all those of the command line's manual, normalised to short names.
absl::StatusOr<storage::ParameterSpec> ParseSignatureEntry(absl::string_view text);

// All entries, separated by commas outside brackets. INVALID_ARGUMENT names the entry.
absl::StatusOr<std::vector<storage::ParameterSpec>> ParseSignature(absl::string_view text);

// "*fp16" for "*float16", "*k" prefixes (const) dropped. INVALID_ARGUMENT lists the types.
absl::StatusOr<std::string> NormalizeType(absl::string_view type);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_SIGNATURE_SIGNATURE_H_
