// Tells the service manager that started the daemon (systemd, Type=notify) how it stands.
#ifndef TESSERA_SERVER_TELEMETRY_SERVICE_MANAGER_H_
#define TESSERA_SERVER_TELEMETRY_SERVICE_MANAGER_H_

#include <string>

namespace tessera::server {

// Sends sd_notify's text ("READY=1") to the socket that NOTIFY_SOCKET names. False: there is none,
// or it cannot be reached. One datagram: not worth libsystemd, which a machine without systemd
// lacks.
bool NotifyServiceManager(const std::string& text);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_SERVICE_MANAGER_H_
