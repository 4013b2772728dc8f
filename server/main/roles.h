// What the daemon's child processes run. Their flags are internal: both ends are one binary.
#ifndef TESSERA_SERVER_MAIN_ROLES_H_
#define TESSERA_SERVER_MAIN_ROLES_H_

#include <string>
#include <vector>

namespace tessera::server {

// Whether the arguments begin with --role=worker or --role=executor.
bool IsChildRole(const std::vector<std::string>& arguments);
// Returns the process's exit status.
int RunChildRole(const std::vector<std::string>& arguments);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_MAIN_ROLES_H_
