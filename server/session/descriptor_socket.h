// The socket beside gRPC's that carries descriptors and knows its peers (messages:
// proto/tessera/v1/memory.proto).
//
// One thread serves all connections; every message is small and answered at once. A connection that
// closes ends its session: that is how a client's death is noticed.
#ifndef TESSERA_SERVER_SESSION_DESCRIPTOR_SOCKET_H_
#define TESSERA_SERVER_SESSION_DESCRIPTOR_SOCKET_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proto/tessera/v1/memory.pb.h"
#include "runtime/memory/unique_fd.h"
#include "server/session/session_registry.h"

namespace tessera::server {

class DescriptorSocket {
 public:
  // Listens at `path`. `sessions` must outlive it.
  static absl::StatusOr<std::unique_ptr<DescriptorSocket>> Listen(const std::string& path,
                                                                  mode_t mode,
                                                                  const std::string& group,
                                                                  SessionRegistry* sessions);
  // Stops, removes the socket file; the sessions of its connections end.
  ~DescriptorSocket();

 private:
  struct Connection {
    runtime::UniqueFd fd;
    Peer peer;
    std::shared_ptr<Session> session;  // after hello
  };

  explicit DescriptorSocket(SessionRegistry* sessions) : sessions_(sessions) {}
  void Loop();
  void Accept();
  // False: the connection is at its end.
  bool Serve(Connection* connection);
  tessera::v1::AttachResponse Answer(Connection* connection,
                                     const tessera::v1::AttachRequest& request,
                                     runtime::UniqueFd received, runtime::UniqueFd* attach);
  void Drop(int fd);

  SessionRegistry* const sessions_;
  std::string path_;
  runtime::UniqueFd listener_, poller_, stop_;
  absl::flat_hash_map<int, Connection> connections_;  // of the thread
  std::thread thread_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_DESCRIPTOR_SOCKET_H_
