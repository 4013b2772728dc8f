// Threads whose work is no matter of hurry.
#ifndef TESSERA_SERVER_CONCURRENCY_BACKGROUND_THREAD_H_
#define TESSERA_SERVER_CONCURRENCY_BACKGROUND_THREAD_H_

namespace tessera::server {

// Makes the calling thread yield to others: `nice` more, and time slices so short that what wakes up meanwhile need not
// wait for the end of a long one (Linux 6.12 on; earlier kernels have slices of their own). It still makes progress on a
// busy machine, so that it may hold locks, unlike threads of SCHED_IDLE.
void RunInBackground(int nice);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_CONCURRENCY_BACKGROUND_THREAD_H_
