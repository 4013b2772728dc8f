// Options that many subcommands take.
#ifndef TESSERA_CLIENT_CLI_COMMON_OPTIONS_H_
#define TESSERA_CLIENT_CLI_COMMON_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "client/cli/command_context.h"
#include "client/cli/environment.h"
#include "client/cli/launch_arguments.h"

namespace tessera::cli {

inline void AddConnectionOptions(CLI::App& command, CommandContext& context) {
  command.add_option("--address", context.address, "where the daemon listens: unix:/path or host:port");
  command.add_flag("--json", context.json, "print JSON");
}

inline void AddPrivateOption(CLI::App& command, CommandContext& context) {
  command.add_flag("--private", context.use_private, "start a daemon for this command and stop it afterwards");
}

inline void AddKernelOptions(CLI::App& command, LaunchWords& words) {
  command.add_option("kernel", words.kernel, "FILE.py:KERNEL")->required();
  command.add_option("--module", words.modules, "another file of the module")->allow_extra_args(false);
  command.add_option("--constexpr", words.constexprs, "NAME=LITERAL, a dtype name or fn:NAME")->allow_extra_args(false);
  command.add_option("--config", words.config, "index of a configuration, or JSON");
  command.add_option("--num-warps", words.num_warps);
  command.add_option("--num-stages", words.num_stages);
  command.add_option("--num-ctas", words.num_ctas);
  command.add_option("--maxnreg", words.maxnreg);
  command.add_option("--option", words.options, "KEY=VALUE")->allow_extra_args(false);
}

// The device to name in requests: what the user said, else "interpreter" under TRITON_INTERPRET=1, else the daemon's default.
inline std::string DeviceOrDefault(const std::string& device) {
  if (!device.empty()) return device;
  return EnvironmentFlag("TRITON_INTERPRET") ? "interpreter" : "";
}

inline void AddLaunchOptions(CLI::App& command, LaunchWords& words) {
  AddKernelOptions(command, words);
  command.add_option("--grid", words.grid, "EXPR[,EXPR[,EXPR]]")->required();
  command.add_option("--arg", words.args, "NAME=VALUE; VALUE: @F.npy[:DTYPE][:in|out|inout], 5, 5:i64, 1.0, True, None, (..)")
      ->allow_extra_args(false);
  command.add_option("--device", words.device, "cpu, cpu:0, interpreter");
}

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_COMMON_OPTIONS_H_
