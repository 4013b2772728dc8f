// Polling of gRPC's sockets before the thread that watches them sleeps.
//
// A core that has gone idle takes 10 to 40 us to wake up, and a client with one launch in flight
// pays that for each of them. gRPC 1.51 has no polling of its own, so this library's epoll_wait
// stands before libc's: for a while after a launch it looks, instead of sleeping.
#ifndef TESSERA_SERVER_RPC_SOCKET_POLLING_H_
#define TESSERA_SERVER_RPC_SOCKET_POLLING_H_

#include "absl/time/time.h"

namespace tessera::server {

// How long after a launch the sockets are polled; zero: never. Without effect where the process has
// too few cores for a thread that polls (runtime::HasCoresToPoll).
void SetSocketPolling(absl::Duration after_launch);
// A launch came in: the next one is probably near.
void ExpectLaunches();

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_SOCKET_POLLING_H_
