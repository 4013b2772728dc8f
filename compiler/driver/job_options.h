// Options of a job that are given by name.
#ifndef TESSERA_COMPILER_DRIVER_JOB_OPTIONS_H_
#define TESSERA_COMPILER_DRIVER_JOB_OPTIONS_H_

#include <string>

#include "absl/strings/ascii.h"
#include "proto/storage/modules.pb.h"

namespace tessera::compiler {

inline bool OptionIsOn(const storage::LaunchOptions& options, const std::string& name, bool otherwise) {
  auto it = options.extra().find(name);
  if (it == options.extra().end()) return otherwise;
  const std::string value = absl::AsciiStrToLower(it->second);
  return !(value == "0" || value == "false" || value == "no" || value == "off" || value == "none");
}

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_JOB_OPTIONS_H_
