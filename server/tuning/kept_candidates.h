// Which kernels' candidates stay loaded in the tuning executors when their contest has ended: the
// next contest of the kernel, for a further shape, finds them there.
#ifndef TESSERA_SERVER_TUNING_KEPT_CANDIDATES_H_
#define TESSERA_SERVER_TUNING_KEPT_CANDIDATES_H_

#include <functional>
#include <list>
#include <mutex>
#include <string>

namespace tessera::server {

// Thread-safe.
class KeptCandidates {
 public:
  struct Kernel {
    std::string module, kernel;
    int device = 0;
    bool operator==(const Kernel& other) const {
      return module == other.module && kernel == other.kernel && device == other.device;
    }
  };
  struct Limits {
    size_t kernels = 8;
    int variants = 1024;  // of all kernels together
  };
  // Called under a lock.
  using Unload = std::function<void(const Kernel& kernel)>;
  KeptCandidates(Unload unload, Limits limits) : unload_(std::move(unload)), limits_(limits) {}

  // A contest of `kernel` has ended and left `variants` loaded. Kernels whose contests are longest
  // ago are unloaded until the rest is within the limits.
  void Keep(const Kernel& kernel, int variants);
  // Unloads those of a device, `kernel` in any case: its executor lost them or holds some against
  // them.
  void Drop(const Kernel& kernel);

 private:
  struct Entry {
    Kernel kernel;
    int variants;
  };
  const Unload unload_;
  const Limits limits_;
  std::mutex mutex_;
  std::list<Entry> kept_;  // the latest first
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_KEPT_CANDIDATES_H_
