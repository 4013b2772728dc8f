// The `tessera` command. Exit status: 0 done, 1 the work failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <iostream>

#include "client/cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Tessera: compile, tune and launch kernels written in the Triton language", "tessera");
  app.require_subcommand(1);
  tessera::cli::CommandContext context;
  tessera::cli::Action action;
  tessera::cli::AddCompileCommand(app, context, &action);
  tessera::cli::AddKernelCommands(app, context, &action);
  tessera::cli::AddTuningCommands(app, context, &action);
  tessera::cli::AddBenchCommands(app, context, &action);
  tessera::cli::AddCacheCommands(app, context, &action);
  tessera::cli::AddOperatorCommands(app, context, &action);
  tessera::cli::AddManifestCommands(app, context, &action);
  tessera::cli::AddTopCommand(app, context, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  absl::Status status = action();
  if (status.ok()) return 0;
  if (!status.message().empty()) std::cerr << "tessera: " << status.message() << "\n";
  return 1;
}
