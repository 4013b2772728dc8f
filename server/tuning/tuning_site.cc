#include "server/tuning/tuning_site.h"

#include <algorithm>
#include <utility>

namespace tessera::server {
namespace {

// Values beyond the first ones are not told apart; a bucket has few that matter. Fewer still where
// only integers outside the key differ: those may change with every launch.
constexpr size_t kMaxSamples = 16;
constexpr size_t kMaxOthers = 3;
// The mean follows changes of clock and load: older launches fade.
constexpr uint64_t kMaxTimed = 256;

std::shared_ptr<const api::LaunchRequest> Copy(const api::LaunchRequest& request) {
  auto copy = std::make_shared<api::LaunchRequest>(request);
  copy->clear_more();  // launches of their own
  return copy;
}

}  // namespace

TuningSite::TuningSite(std::string kernel, std::string module, std::string source,
                       std::string bucket, std::string device, std::string model, OnDue on_due)
    : kernel(std::move(kernel)),
      module(std::move(module)),
      source(std::move(source)),
      bucket(std::move(bucket)),
      device(std::move(device)),
      model(std::move(model)),
      on_due_(std::move(on_due)) {}

void TuningSite::Count(const std::string& exact, uint64_t others_hash,
                       absl::FunctionRef<std::string()> others,
                       const api::LaunchRequest& request) {
  absl::MutexLock lock(&mutex_);
  size_t of_these_values = 0;
  for (Sample& sample : samples_) {
    if (sample.exact != exact) continue;
    ++of_these_values;
    if (sample.others_hash != others_hash) continue;
    ++sample.calls;
    if (sample.request == nullptr) sample.request = Copy(request);
    return;
  }
  if (samples_.size() == kMaxSamples || of_these_values == kMaxOthers) return;
  samples_.push_back({exact, others(), others_hash, 1, Copy(request)});
}

void TuningSite::Launched(int config, double kernel_seconds) {
  {
    absl::MutexLock lock(&mutex_);
    if (config != timed_config_) {
      timed_config_ = config;
      timed_ = 0;
      timed_seconds_ = 0;
    }
    if (timed_ == kMaxTimed) {
      timed_ /= 2;
      timed_seconds_ /= 2;
    }
    ++timed_;
    timed_seconds_ += kernel_seconds;
  }
  uint64_t calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  uint64_t due = next_review_.load(std::memory_order_relaxed);
  // Once for each time that the tuner asked.
  if (calls >= due &&
      next_review_.compare_exchange_strong(due, UINT64_MAX, std::memory_order_relaxed))
    on_due_(shared_from_this());
}

TuningSite::InForce TuningSite::choice(const std::string& exact) const {
  absl::MutexLock lock(&mutex_);
  if (!split_.empty()) {
    auto found = split_.find(exact);
    if (found != split_.end()) return found->second;
  }
  return choice_;
}

void TuningSite::FillChoice(const std::string& exact, bool only_pinned,
                            ConfigChoices::Choice* choice) const {
  absl::MutexLock lock(&mutex_);
  const InForce* in_force = &choice_;
  if (!split_.empty()) {
    auto found = split_.find(exact);
    if (found != split_.end()) in_force = &found->second;
  }
  if (only_pinned && !in_force->pinned) return;
  choice->index = in_force->index;
  choice->config = in_force->config;
}

void TuningSite::SetChoice(uint64_t generation, InForce choice,
                           std::map<std::string, InForce> split) {
  absl::MutexLock lock(&mutex_);
  choice_ = std::move(choice);
  split_ = std::move(split);
  generation_.store(generation, std::memory_order_release);
}

double TuningSite::call_seconds() const {
  absl::MutexLock lock(&mutex_);
  return timed_ == 0 ? 0 : timed_seconds_ / static_cast<double>(timed_);
}

std::vector<TuningSite::Sample> TuningSite::Samples() const {
  std::vector<Sample> samples;
  {
    absl::MutexLock lock(&mutex_);
    samples = samples_;
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample& a, const Sample& b) { return a.calls > b.calls; });
  return samples;
}

void TuningSite::ForgetRequest(const std::string& exact, const std::string& others) {
  absl::MutexLock lock(&mutex_);
  for (Sample& sample : samples_)
    if (sample.exact == exact && sample.others == others) sample.request.reset();
}

TuningSite::Decision TuningSite::decision() const {
  absl::MutexLock lock(&mutex_);
  return decision_;
}

void TuningSite::Decide(std::string state, std::string text) {
  absl::MutexLock lock(&mutex_);
  decision_.state = std::move(state);
  decision_.text = std::move(text);
}

bool TuningSite::Warn(const std::string& warning) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& known : decision_.warnings)
    if (known == warning) return false;
  decision_.warnings.push_back(warning);
  return true;
}

}  // namespace tessera::server
