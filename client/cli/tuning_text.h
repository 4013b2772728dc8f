// How times, quantiles and configurations are printed.
#ifndef TESSERA_CLIENT_CLI_TUNING_TEXT_H_
#define TESSERA_CLIENT_CLI_TUNING_TEXT_H_

#include <string>

#include "proto/tessera/v1/modules.pb.h"

namespace tessera::cli {

std::string DurationText(double seconds);  // "12.3 us", "4.56 ms", "7.89 s"

std::string ValueText(const v1::Constant& value);
// "BLOCK_M=64 BLOCK_N=128 num_warps=8": what is stated.
std::string ShortConfigText(const v1::Config& config);
// As Triton prints a triton.Config.
std::string TritonConfigText(const v1::Config& config);

// TRITON_PRINT_AUTOTUNING=1, in Triton's words. `key` may be empty. On standard error when standard
// output is JSON's.
void PrintAutotuning(const std::string& kernel, const std::string& key, const std::string& how,
                     const v1::Config& config, bool json);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_TUNING_TEXT_H_
