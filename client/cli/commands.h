// The subcommands of `tessera`. Each registers its words with the parser and a function that does the work.
#ifndef TESSERA_CLIENT_CLI_COMMANDS_H_
#define TESSERA_CLIENT_CLI_COMMANDS_H_

#include <functional>

#include "absl/status/status.h"
#include "client/cli/command_context.h"

namespace CLI {
class App;
}

namespace tessera::cli {

// What the chosen subcommand does; set by the parser. Its status decides the exit status: OK 0, else 1.
using Action = std::function<absl::Status()>;

void AddCompileCommand(CLI::App& app, CommandContext& context, Action* action);
void AddKernelCommands(CLI::App& app, CommandContext& context, Action* action);    // launch, replay
void AddTuningCommands(CLI::App& app, CommandContext& context, Action* action);    // tune, tunings
void AddBenchCommands(CLI::App& app, CommandContext& context, Action* action);     // bench kernel, bench trace
void AddCacheCommands(CLI::App& app, CommandContext& context, Action* action);
void AddOperatorCommands(CLI::App& app, CommandContext& context, Action* action);  // status, ops
void AddManifestCommands(CLI::App& app, CommandContext& context, Action* action);  // warmup, manifest
void AddTopCommand(CLI::App& app, CommandContext& context, Action* action);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_COMMANDS_H_
