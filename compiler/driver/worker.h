// The compiler worker process: answers WorkerRequests on a socket until it closes.
#ifndef TESSERA_COMPILER_DRIVER_WORKER_H_
#define TESSERA_COMPILER_DRIVER_WORKER_H_

namespace tessera::compiler {

// Messages are framed by a 4-byte little-endian length. Returns the process's exit status.
int RunWorker(int socket_fd);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_WORKER_H_
