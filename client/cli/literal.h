// Reads the small languages of the command line: Python literals, argument values, signatures' scalars.
#ifndef TESSERA_CLIENT_CLI_LITERAL_H_
#define TESSERA_CLIENT_CLI_LITERAL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tessera/v1/common.pb.h"

namespace tessera::cli {

// A Python literal (integer in any base, float, string, True, False, None, tuple or list of literals), a dtype
// name ("fp16", "tl.float16") or "fn:NAME" (a jit function).
absl::StatusOr<v1::Constant> ParseConstant(absl::string_view text);

// "NAME=VALUE" at its first '='. INVALID_ARGUMENT without one.
absl::StatusOr<std::pair<std::string, std::string>> SplitAssignment(absl::string_view text);

// A scalar or tuple argument: "7", "5:i64", "1.0:fp64", "True", "None", "(1, 2)". Sets all but the name.
absl::StatusOr<v1::Argument> ParseScalarArgument(absl::string_view text);

// Splits at commas outside brackets and quotes, and trims blanks.
std::vector<std::string> SplitTopLevel(absl::string_view text);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_LITERAL_H_
