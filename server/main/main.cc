// tesserad: the daemon, and in other roles its own compiler workers and executors.
#include <string>
#include <vector>

#include "server/main/roles.h"
#include "server/main/wiring.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (tessera::server::IsChildRole(arguments)) return tessera::server::RunChildRole(arguments);
  return tessera::server::RunDaemon(arguments);
}
