#include "server/tuning/tuning_table.h"

#include <utility>

#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

std::string KeyOf(const storage::TuningRecord& record) {
  return cache::TuningKey(record.kernel(), record.module(), record.bucket(), record.device());
}

// Configurations are the same if they say the same, wherever they stand in the kernel's list: a
// list that was edited keeps the measurements of what stayed.
int FindConfig(const KernelModel& kernel, const storage::TuneConfig& config) {
  for (size_t i = 0; i < kernel.configs().size(); ++i)
    if (google::protobuf::util::MessageDifferencer::Equals(kernel.configs()[i].config, config))
      return static_cast<int>(i) + 1;
  return 0;
}

}  // namespace

absl::Status TuningTable::Load() {
  ASSIGN_OR_RETURN(std::vector<storage::TuningRecord> records, store_->ListTunings());
  absl::MutexLock lock(&mutex_);
  for (storage::TuningRecord& record : records) {
    std::string key = KeyOf(record);
    Entry& entry = entries_[key];
    entry.record = std::move(record);
    entry.resolved_for = 0;  // it may have been there, before an import
  }
  return absl::OkStatus();
}

ConfigChoices::Choice TuningTable::Find(const KernelModel& kernel, absl::string_view bucket,
                                        const Device& device) const {
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (entries_.empty()) return {};
  }
  std::string key =
      cache::TuningKey(kernel.name(), kernel.module().id, bucket, device.description().model);
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto found = entries_.find(key);
    if (found == entries_.end()) return {};
    if (found->second.resolved_for == kernel.id()) return found->second.choice;
  }
  absl::MutexLock lock(&mutex_);
  auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry& entry = found->second;
  entry.resolved_for = kernel.id();
  entry.choice = {};
  if (entry.record.chosen() >= static_cast<uint32_t>(entry.record.trials_size())) return {};
  const storage::TuneConfig& chosen = entry.record.trials(entry.record.chosen()).config();
  absl::StatusOr<KernelModel::Config> modelled = kernel.ModelConfig(chosen);
  if (!modelled.ok()) {
    spdlog::warn("the tuning of {} for {} does not fit the kernel: {}", kernel.name(),
                 entry.record.bucket(), modelled.status().ToString());
    return {};
  }
  entry.choice.index = FindConfig(kernel, chosen);
  entry.choice.config = std::make_shared<KernelModel::Config>(*std::move(modelled));
  return entry.choice;
}

std::optional<storage::TuningRecord> TuningTable::Record(const std::string& kernel,
                                                         const std::string& module,
                                                         const std::string& bucket,
                                                         const std::string& device) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = entries_.find(cache::TuningKey(kernel, module, bucket, device));
  if (found == entries_.end()) return std::nullopt;
  return found->second.record;
}

absl::Status TuningTable::Put(storage::TuningRecord record) {
  record.set_format_version(1);
  std::string key = KeyOf(record);
  absl::Status stored = store_->PutTuning(key, record);
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[key];
  entry.record = std::move(record);
  entry.resolved_for = 0;
  return stored;
}

std::vector<storage::TuningRecord> TuningTable::List(const std::string& kernel) const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<storage::TuningRecord> records;
  for (const auto& [key, entry] : entries_)
    if (kernel.empty() || entry.record.kernel() == kernel) records.push_back(entry.record);
  return records;
}

absl::StatusOr<uint32_t> TuningTable::Forget(const std::string& kernel, const std::string& module,
                                             const std::string& bucket) {
  std::vector<std::string> keys;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      auto here = it++;
      const storage::TuningRecord& record = here->second.record;
      bool matches = (kernel.empty() || record.kernel() == kernel) &&
                     (module.empty() || record.module() == module) &&
                     (bucket.empty() || record.bucket() == bucket);
      if (!matches) continue;
      keys.push_back(here->first);
      entries_.erase(here);
    }
  }
  for (const std::string& key : keys) RETURN_IF_ERROR(store_->EraseTuning(key));
  return static_cast<uint32_t>(keys.size());
}

}  // namespace tessera::server
