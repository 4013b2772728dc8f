// Variables of the environment that mean to this tool what they mean to Triton.
#ifndef TESSERA_CLIENT_CLI_ENVIRONMENT_H_
#define TESSERA_CLIENT_CLI_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"

namespace tessera::cli {

// As Triton reads a flag: 1, true, on, yes, y in any case.
inline bool EnvironmentFlag(const char* name) {
  const char* value = std::getenv(name);
  const std::string text = absl::AsciiStrToLower(value == nullptr ? "" : value);
  return text == "1" || text == "true" || text == "on" || text == "yes" || text == "y";
}

// Those that change code; they travel with a request, for the daemon has an environment of its own.
inline constexpr const char* kCodeVariables[] = {"TRITON_F32_DEFAULT", "TRITON_DEBUG"};

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_ENVIRONMENT_H_
