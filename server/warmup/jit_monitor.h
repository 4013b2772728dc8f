// Watches for compiles that launches wait for once the daemon is ready: off, warn or error.
#ifndef TESSERA_SERVER_WARMUP_JIT_MONITOR_H_
#define TESSERA_SERVER_WARMUP_JIT_MONITOR_H_

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "proto/tessera/v1/admin.pb.h"
#include "server/launch/launcher.h"

namespace tessera::server {

enum class JitMode { kOff, kWarn, kError };

// What a manifest covers, for messages that name the entry which comes nearest.
struct CoveredVariant {
  std::string where, kernel, device, text;
};

// Thread-safe.
class JitMonitor : public JitObserver {
 public:
  using Event = tessera::v1::GetStatusResponse::JitEvent;

  explicit JitMonitor(JitMode mode) : mode_(mode) {}

  bool refuses() const override { return mode_ == JitMode::kError; }
  std::string OnJit(const JitObserver::Event& event) override;

  const char* mode_name() const;
  void SetCovered(std::vector<CoveredVariant> covered);
  // Newest first.
  std::vector<Event> Events() const;

 private:
  std::string Nearest(const std::string& kernel, const std::string& device,
                      const std::string& text) const;

  const JitMode mode_;
  mutable std::mutex mutex_;
  std::vector<CoveredVariant> covered_;
  std::deque<Event> events_;
  std::map<std::string, int64_t> logged_;  // when, by variant: a refused launch may come in a flood
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_JIT_MONITOR_H_
