// The daemon with everything behind its interfaces. The only place that names concrete classes.
#ifndef TESSERA_SERVER_MAIN_WIRING_H_
#define TESSERA_SERVER_MAIN_WIRING_H_

#include <string>
#include <vector>

namespace tessera::server {

// Runs until SIGTERM or SIGINT. Returns the process's exit status: 0 stopped, 1 could not start, 2
// wrong usage.
int RunDaemon(const std::vector<std::string>& arguments);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_MAIN_WIRING_H_
