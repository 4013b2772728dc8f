// Stages of compiled kernels as files.
#ifndef TESSERA_CLIENT_CLI_KERNEL_DUMP_H_
#define TESSERA_CLIENT_CLI_KERNEL_DUMP_H_

#include <map>
#include <string>

#include "absl/status/status.h"

namespace tessera::cli {

// Writes FOLDER/KERNEL.STAGE for each stage; makes the folder.
absl::Status WriteStages(const std::string& folder, const std::string& kernel, const std::map<std::string, std::string>& stages);

// TRITON_KERNEL_DUMP=1.
bool KernelDumpWanted();

// Into a folder of its own, named by the content, below TRITON_DUMP_DIR, else ~/.triton/dump. Says where.
absl::Status DumpStages(const std::string& kernel, const std::map<std::string, std::string>& stages);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_KERNEL_DUMP_H_
