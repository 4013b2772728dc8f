#include "server/tuning/tuning_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cache/key/blake2b.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

// Bounds of memory: states of kernels, sites of one. Beyond them those launched least go.
constexpr size_t kMaxKernels = 16384;
constexpr size_t kMaxSites = 2048;
constexpr size_t kMaxPlaces = 8192;
// A key argument with more values than this is worth a word.
constexpr size_t kManyValues = 64;
// Further away than this (a factor of 16 in one argument, say) a tuned bucket is no guide.
constexpr double kFarthestNeighbour = 4;

std::string StoreKey(const storage::TuningRecord& record) {
  return cache::TuningKey(record.kernel(), record.source(), record.bucket(), record.device());
}

// Configurations are the same if they say the same, wherever they stand in the kernel's list: a list
// that was edited keeps the measurements of what stayed.
int FindConfig(const KernelModel& kernel, const storage::TuneConfig& config) {
  for (size_t i = 0; i < kernel.configs().size(); ++i)
    if (SameConfig(kernel.configs()[i].config, config)) return static_cast<int>(i) + 1;
  return 0;
}

struct ParsedBucket {
  std::vector<std::pair<absl::string_view, absl::string_view>> values;  // name, label
  absl::string_view types;
};

ParsedBucket ParseBucket(absl::string_view bucket) {
  ParsedBucket parsed;
  size_t bar = bucket.rfind('|');
  if (bar == absl::string_view::npos) bar = bucket.size();
  parsed.types = bucket.substr(bar);
  for (absl::string_view part : absl::StrSplit(bucket.substr(0, bar), ' ', absl::SkipEmpty())) {
    std::pair<absl::string_view, absl::string_view> value = absl::StrSplit(part, absl::MaxSplits('=', 1));
    parsed.values.push_back(value);
  }
  return parsed;
}

// What an imported record does not say (see exchange.h) is like every value, but not as near as the
// value itself.
constexpr absl::string_view kAnyValue = "*";
constexpr double kDistanceOfAny = 0.25;

// Sum of the binary logarithms of the ratios of sizes; infinite where something differs that is no
// size.
double Distance(const ParsedBucket& a, const ParsedBucket& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double distance = 0;
  if (a.types != b.types) {
    if (a.types != "| *") return kInfinite;
    distance += kDistanceOfAny;
  }
  if (a.values.size() != b.values.size()) return kInfinite;
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i].first != b.values[i].first) return kInfinite;
    if (a.values[i].second == b.values[i].second) continue;
    if (a.values[i].second == kAnyValue) {
      distance += kDistanceOfAny;
      continue;
    }
    int64_t left = 0, right = 0;
    if (!LabelValue(a.values[i].second, &left) || !LabelValue(b.values[i].second, &right) ||
        left <= 0 || right <= 0)
      return kInfinite;
    distance += std::abs(std::log2(static_cast<double>(left) / static_cast<double>(right)));
  }
  return distance;
}

}  // namespace

bool SharesVariants(absl::string_view a, absl::string_view b) {
  const ParsedBucket left = ParseBucket(a), right = ParseBucket(b);
  if (left.types != right.types || left.values.size() != right.values.size()) return false;
  for (size_t i = 0; i < left.values.size(); ++i) {
    if (left.values[i] == right.values[i]) continue;
    int64_t m = 0, n = 0;
    if (left.values[i].first != right.values[i].first ||
        !absl::SimpleAtoi(left.values[i].second, &m) || !absl::SimpleAtoi(right.values[i].second, &n))
      return false;
    if ((m == 1) != (n == 1) || (m % 16 == 0) != (n % 16 == 0)) return false;
  }
  return true;
}

bool SameConfig(const storage::TuneConfig& a, const storage::TuneConfig& b) {
  // Nearly all that differ do so in a number; reflection costs microseconds.
  if (a.values_size() != b.values_size() || a.options().num_warps() != b.options().num_warps() ||
      a.options().num_stages() != b.options().num_stages())
    return false;
  for (int i = 0; i < a.values_size(); ++i)
    if (a.values(i).value().integer() != b.values(i).value().integer()) return false;
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

std::string SourceDigest(const storage::KernelDescription& description) {
  return absl::BytesToHexString(cache::Blake2b({description.closure()}, 16));
}

// Earlier versions kept tunings by module, without the digest. The module is stored too.
static void FillSource(cache::CacheStore* store, storage::TuningRecord* record) {
  if (!record->source().empty() || record->module().empty()) return;
  auto module = store->FindModule(record->module());
  if (!module.ok() || !module->found()) return;
  for (const storage::KernelDescription& kernel : module->record.description().kernels())
    if (kernel.name() == record->kernel()) record->set_source(SourceDigest(kernel));
}

TuningTable::RecordKey TuningTable::KeyOf(const storage::TuningRecord& record) {
  return {record.kernel(), record.source(), record.device(), record.bucket()};
}

absl::Status TuningTable::Load() {
  ASSIGN_OR_RETURN(std::vector<storage::TuningRecord> records, store_->ListTunings());
  absl::MutexLock lock(&mutex_);
  for (storage::TuningRecord& record : records) {
    FillSource(store_, &record);
    RecordKey key = KeyOf(record);
    records_[key] = std::move(record);
  }
  generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

std::string TuningTable::BucketOf(const KernelModel& kernel, const BoundLaunch& bound,
                                  const TuningPolicy& policy) const {
  BucketRule otherwise = policy.DefaultRule();
  return TuningBucket(kernel, bound, [&](int parameter, int64_t value) {
    const BucketRule* rule = policy.RuleOf(kernel.parameters()[parameter].name);
    return (rule == nullptr ? otherwise : *rule).Label(value);
  });
}

std::shared_ptr<TuningSite> TuningTable::SiteOf(const KernelModel& kernel,
                                                const std::string& bucket, const Device& device,
                                                KernelState* state) {
  std::string key = absl::StrCat(device.index(), " ", bucket);
  auto found = state->sites.find(key);
  if (found != state->sites.end()) return found->second;
  if (state->sites.size() >= kMaxSites) {
    std::vector<uint64_t> calls;
    for (const auto& [name, other] : state->sites) calls.push_back(other->calls());
    std::nth_element(calls.begin(), calls.begin() + calls.size() / 2, calls.end());
    uint64_t median = calls[calls.size() / 2];
    for (auto it = state->sites.begin(); it != state->sites.end();) {
      auto here = it++;
      if (here->second->calls() <= median) state->sites.erase(here);
    }
    state->places.clear();
  }
  auto site = std::make_shared<TuningSite>(kernel.name(), kernel.module().id, state->source, bucket,
                                           device.name(), device.description().model, on_due_);
  state->sites.emplace(key, site);
  if (state->sites.size() % kManyValues == 0) WarnOfManyValues(kernel, *state);
  return site;
}

std::shared_ptr<const TuningTable::Place> TuningTable::MakePlace(
    const KernelModel& kernel, const BoundLaunch& bound, const Device& device,
    const std::string& signature, std::shared_ptr<const TuningPolicy>* policy) {
  uint64_t version = policies_->version();
  *policy = policies_->Of(kernel.name());
  auto place = std::make_shared<Place>();
  place->exact = TuningBucket(kernel, bound);
  std::string bucket = BucketOf(kernel, bound, **policy);
  absl::MutexLock lock(&mutex_);
  if (kernels_.size() >= kMaxKernels && !kernels_.contains(kernel.id())) kernels_.clear();
  KernelState& state = kernels_[kernel.id()];
  if (state.source.empty()) state.source = SourceDigest(kernel.description());
  if (state.policy_version != version || state.places.size() >= kMaxPlaces) state.places.clear();
  state.policy = *policy;
  state.policy_version = version;
  place->site = SiteOf(kernel, bucket, device, &state);
  state.places[signature] = place;
  return place;
}

// Which argument of the key takes the most values, when a kernel has many buckets.
void TuningTable::WarnOfManyValues(const KernelModel& kernel, const KernelState& state) const {
  std::map<absl::string_view, std::set<absl::string_view>> values;
  for (const auto& [key, site] : state.sites)
    for (const auto& [name, label] : ParseBucket(site->bucket).values) values[name].insert(label);
  auto most = std::max_element(values.begin(), values.end(),
                               [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (most == values.end() || most->second.size() < kManyValues) return;
  std::string warning = absl::StrCat("key argument '", most->first, "' of ", kernel.name(), " took ", most->second.size(),
                                     " values so far, each a bucket of its own: give it a coarser bucket rule");
  for (const auto& [key, site] : state.sites) {
    if (site->Warn(warning)) spdlog::warn("tuning: {}", warning);
    break;
  }
}

TuningPlace TuningTable::PlaceOf(const KernelModel& kernel, const BoundLaunch& bound,
                                 const Device& device) const {
  TuningPlace place;
  place.kernel = kernel.name();
  place.module = kernel.module().id;
  place.source = SourceDigest(kernel.description());
  place.bucket = BucketOf(kernel, bound, *policies_->Of(kernel.name()));
  place.model = device.description().model;
  place.exact = TuningBucket(kernel, bound);
  place.others = OtherIntegers(kernel, bound);
  return place;
}

TuningSite::InForce TuningTable::ChoiceOf(const KernelModel& kernel,
                                          const storage::TuningRecord& record,
                                          std::string from) const {
  TuningSite::InForce choice;
  if (record.chosen() >= static_cast<uint32_t>(record.trials_size())) return choice;
  const storage::TuneConfig& chosen = record.trials(static_cast<int>(record.chosen())).config();
  absl::StatusOr<KernelModel::Config> modelled = kernel.ModelConfig(chosen);
  if (!modelled.ok()) {
    spdlog::warn("the tuning of {} for {} does not fit the kernel: {}", kernel.name(), record.bucket(),
                 modelled.status().ToString());
    return choice;
  }
  choice.index = FindConfig(kernel, chosen);
  choice.config = std::make_shared<KernelModel::Config>(*std::move(modelled));
  choice.from = std::move(from);
  choice.pinned = record.pinned();
  return choice;
}

void TuningTable::Resolve(const KernelModel& kernel, TuningSite* site) const {
  absl::ReaderMutexLock lock(&mutex_);
  uint64_t generation = generation_.load(std::memory_order_relaxed);
  TuningSite::InForce choice;
  std::map<std::string, TuningSite::InForce> split;
  ParsedBucket wanted = ParseBucket(site->bucket);
  double nearest = kFarthestNeighbour;
  for (auto it = records_.lower_bound({site->kernel, site->source, site->model, ""});
       it != records_.end(); ++it) {
    const storage::TuningRecord& record = it->second;
    if (record.kernel() != site->kernel || record.source() != site->source ||
        record.device() != site->model)
      break;
    if (record.bucket() == site->bucket) {
      choice = ChoiceOf(kernel, record, "tuned");
      nearest = -1;
      continue;
    }
    ParsedBucket other = ParseBucket(record.bucket());
    // Records of exact values are for launches of these values alone.
    if (record.split()) {
      if (other.types == wanted.types)
        split[record.bucket()] = ChoiceOf(kernel, record, "tuned");
      continue;
    }
    double distance = Distance(other, wanted);
    if (distance >= nearest) continue;
    nearest = distance;
    choice = ChoiceOf(kernel, record, absl::StrCat("nearest bucket ", record.bucket()));
  }
  site->SetChoice(generation, std::move(choice), std::move(split));
}

ConfigChoices::Choice TuningTable::Find(const KernelModel& kernel, const BoundLaunch& bound,
                                        const api::LaunchRequest* request, const Device& device) {
  thread_local std::string signature;
  signature.clear();
  signature.push_back(static_cast<char>(device.index()));
  AppendTuningSignature(kernel, bound, &signature);
  std::shared_ptr<const TuningPolicy> policy;
  std::shared_ptr<const Place> place;
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto state = kernels_.find(kernel.id());
    if (state != kernels_.end() && state->second.policy_version == policies_->version()) {
      auto found = state->second.places.find(signature);
      if (found != state->second.places.end()) {
        place = found->second;
        policy = state->second.policy;
      }
    }
  }
  if (place == nullptr) place = MakePlace(kernel, bound, device, signature, &policy);
  TuningSite* site = place->site.get();
  if (site->generation() != generation_.load(std::memory_order_acquire)) Resolve(kernel, site);
  Choice choice;
  if (request != nullptr) {
    site->Count(place->exact, HashOtherIntegers(kernel, bound),
                [&] { return OtherIntegers(kernel, bound); }, *request);
    choice.observer = place->site;
  }
  site->FillChoice(place->exact, policy->kind == TuningPolicy::Kind::kFixed, &choice);
  return choice;
}

std::optional<storage::TuningRecord> TuningTable::Record(const std::string& kernel, const std::string& source,
                                                         const std::string& bucket, const std::string& model) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = records_.find({kernel, source, model, bucket});
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::vector<storage::TuningRecord> TuningTable::RecordsOf(const std::string& kernel, const std::string& source,
                                                          const std::string& model) const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<storage::TuningRecord> records;
  for (auto it = records_.lower_bound({kernel, source, model, ""}); it != records_.end(); ++it) {
    const storage::TuningRecord& record = it->second;
    if (record.kernel() != kernel || record.source() != source || record.device() != model) break;
    records.push_back(record);
  }
  return records;
}

absl::Status TuningTable::Put(storage::TuningRecord record) {
  record.set_format_version(1);
  absl::Status stored = store_->PutTuning(StoreKey(record), record);
  absl::MutexLock lock(&mutex_);
  RecordKey key = KeyOf(record);
  records_[key] = std::move(record);
  generation_.fetch_add(1, std::memory_order_release);
  return stored;
}

std::vector<storage::TuningRecord> TuningTable::List(const std::string& kernel) const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<storage::TuningRecord> records;
  for (const auto& [key, record] : records_)
    if (kernel.empty() || record.kernel() == kernel) records.push_back(record);
  return records;
}

absl::StatusOr<uint32_t> TuningTable::Forget(const std::string& kernel, const std::string& module, const std::string& bucket) {
  std::vector<std::string> keys;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = records_.begin(); it != records_.end();) {
      auto here = it++;
      const storage::TuningRecord& record = here->second;
      bool matches = (kernel.empty() || record.kernel() == kernel) && (module.empty() || record.module() == module) &&
                     (bucket.empty() || record.bucket() == bucket);
      if (!matches) continue;
      keys.push_back(StoreKey(record));
      records_.erase(here);
    }
    generation_.fetch_add(1, std::memory_order_release);
  }
  for (const std::string& key : keys) RETURN_IF_ERROR(store_->EraseTuning(key));
  return static_cast<uint32_t>(keys.size());
}

std::vector<std::shared_ptr<TuningSite>> TuningTable::Sites(const std::string& kernel) const {
  std::vector<std::shared_ptr<TuningSite>> sites;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [id, state] : kernels_)
      for (const auto& [key, site] : state.sites)
        if (kernel.empty() || site->kernel == kernel) sites.push_back(site);
  }
  std::sort(sites.begin(), sites.end(), [](const auto& a, const auto& b) {
    return std::tie(a->kernel, a->bucket, a->device) < std::tie(b->kernel, b->bucket, b->device);
  });
  return sites;
}

}  // namespace tessera::server
