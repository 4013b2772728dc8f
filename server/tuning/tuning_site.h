// What is known of one kernel, bucket and device: how often it is launched, how long it takes, what
// was decided.
#ifndef TESSERA_SERVER_TUNING_TUNING_SITE_H_
#define TESSERA_SERVER_TUNING_TUNING_SITE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "proto/tessera/v1/launch.pb.h"
#include "server/launch/config_choices.h"

namespace tessera::server {

// Thread-safe. The launch path calls Sample, choice and Launched; the rest is the tuner's.
class TuningSite : public ConfigChoices::Observer, public std::enable_shared_from_this<TuningSite> {
 public:
  using Clock = std::chrono::steady_clock;
  using OnDue = std::function<void(std::shared_ptr<TuningSite>)>;

  // `on_due` is called, on a launch's thread, when the launches counted reach what SetNextReview
  // asked for.
  TuningSite(std::string kernel, std::string module, std::string source, std::string bucket,
             std::string device, std::string model, OnDue on_due);

  const std::string kernel, module, source, bucket;
  const std::string device;  // "cpu:0"
  const std::string model;   // what records are kept under
  const Clock::time_point first_seen = Clock::now();

  // One set of values that launches of this bucket came with: of the key, and of the other
  // integers.
  struct Sample {
    std::string exact, others;
    uint64_t others_hash = 0;
    uint64_t calls = 0;
    std::shared_ptr<const api::LaunchRequest> request;
  };
  // A launch comes with such values. Keeps a copy of the request where the tuner wants one;
  // `others` is asked for only then.
  void Count(const std::string& exact, uint64_t others_hash,
             absl::FunctionRef<std::string()> others, const api::LaunchRequest& request);
  void Launched(int config, double kernel_seconds) override;

  struct InForce {
    int index = 0;
    std::shared_ptr<const KernelModel::Config> config;
    std::string from = "default";  // "tuned", "nearest bucket M=..", "default"
    bool pinned = false;
  };
  // The choice for these values of the key.
  InForce choice(const std::string& exact) const;
  // Likewise, for the launch path; or nothing, where it is not pinned and only such are wanted.
  void FillChoice(const std::string& exact, bool only_pinned, ConfigChoices::Choice* choice) const;
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Sets what is in force as of a generation of the table; `split`: for certain values of the key.
  void SetChoice(uint64_t generation, InForce choice, std::map<std::string, InForce> split);

  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  double observed_seconds() const {
    return std::chrono::duration<double>(Clock::now() - first_seen).count();
  }
  // Mean of the launches with the configuration that ran last; 0: none yet.
  double call_seconds() const;
  // The next review is when this many launches have ended.
  void SetNextReview(uint64_t calls) { next_review_.store(calls, std::memory_order_relaxed); }
  // Now, and not by a launch. False: it is due already, or under review.
  bool BecomeDue() { return next_review_.exchange(UINT64_MAX, std::memory_order_relaxed) != UINT64_MAX; }

  // The most frequent ones first.
  std::vector<Sample> Samples() const;
  // Drops a sample's request, which no longer works; the next launch brings a new one.
  void ForgetRequest(const std::string& exact, const std::string& others);

  struct Decision {
    std::string state = "observing", text;
    std::vector<std::string> warnings;
  };
  Decision decision() const;
  void Decide(std::string state, std::string text);
  // Said once each. True: it is new.
  bool Warn(const std::string& warning);

  // The tuner's alone. Samples that it has compared with the bucket's choice; the launches that its
  // last final saw, and its last review; whether another bucket had variants compiled since, that cost
  // this one nothing.
  std::set<std::string> compared;
  uint64_t final_calls = 0;
  uint64_t reviewed_calls = 0;
  bool has_new_variants = false;

 private:
  const OnDue on_due_;
  std::atomic<uint64_t> calls_{0}, next_review_{1};
  std::atomic<uint64_t> generation_{0};
  mutable absl::Mutex mutex_;
  InForce choice_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, InForce> split_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  Decision decision_ ABSL_GUARDED_BY(mutex_);
  // Of launches with the configuration `timed_config_`.
  int timed_config_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t timed_ ABSL_GUARDED_BY(mutex_) = 0;
  double timed_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_TUNING_SITE_H_
