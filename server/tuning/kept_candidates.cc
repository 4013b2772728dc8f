#include "server/tuning/kept_candidates.h"

namespace tessera::server {

void KeptCandidates::Keep(const Kernel& kernel, int variants) {
  std::lock_guard<std::mutex> lock(mutex_);
  kept_.remove_if([&](const Entry& entry) { return entry.kernel == kernel; });
  kept_.push_front({kernel, variants});
  int all = 0;
  for (const Entry& entry : kept_) all += entry.variants;
  while (!kept_.empty() && (kept_.size() > limits_.kernels || all > limits_.variants)) {
    all -= kept_.back().variants;
    unload_(kept_.back().kernel);
    kept_.pop_back();
  }
}

void KeptCandidates::Drop(const Kernel& kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  unload_(kernel);
  kept_.remove_if([&](const Entry& entry) {
    if (entry.kernel.device != kernel.device) return false;
    if (!(entry.kernel == kernel)) unload_(entry.kernel);
    return true;
  });
}

}  // namespace tessera::server
