// When kernels are tuned while they serve, and how their key arguments fall into buckets.
#ifndef TESSERA_SERVER_TUNING_POLICY_H_
#define TESSERA_SERVER_TUNING_POLICY_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/tuning/bucket_rule.h"

namespace tessera::server {

struct TuningPolicy {
  enum class Kind {
    kFixed,       // the first configuration that fits
    kBucketed,    // all configurations, once for every bucket
    kCandidates,  // a few configurations, once for every value of the key
    kExhaustive,  // all configurations, once for every value of the key
    kAmortised,   // what repays, when it repays (amortisation.h)
  };
  Kind kind = Kind::kAmortised;
  int candidates = 4;  // of kCandidates
  bool frozen = false;  // stored choices are used, nothing is measured
  std::map<std::string, BucketRule> buckets;  // by argument; others by DefaultRule

  // "fixed", "bucketed", "candidates(4)", "exhaustive", "amortised".
  static absl::Status ParseKind(absl::string_view text, TuningPolicy* policy);
  std::string KindText() const;
  BucketRule DefaultRule() const;  // exact for exhaustive and candidates, else pow2
  const BucketRule* RuleOf(const std::string& argument) const;  // null: DefaultRule
};

// The policies of all kernels, by name. Thread-safe.
class TuningPolicies {
 public:
  explicit TuningPolicies(TuningPolicy otherwise) : otherwise_(std::make_shared<TuningPolicy>(std::move(otherwise))) {}

  std::shared_ptr<const TuningPolicy> Of(const std::string& kernel) const;
  // An empty kernel: all that have none of their own.
  void Set(const std::string& kernel, TuningPolicy policy);
  // Grows with every Set.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const TuningPolicy> otherwise_;
  absl::flat_hash_map<std::string, std::shared_ptr<const TuningPolicy>> by_kernel_;
  std::atomic<uint64_t> version_{1};
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_POLICY_H_
