#include "server/warmup/observed_traffic.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/storage/traffic.pb.h"

namespace tessera::server {
namespace {

constexpr uint32_t kFormat = 1;

}  // namespace

std::string ObservedTraffic::Key(const std::string& key,
                                 const tessera::v1::CompileRequest& recipe) const {
  return absl::StrCat(key, "/", recipe.device());
}

void ObservedTraffic::Add(const std::string& key,
                          const std::shared_ptr<const tessera::v1::CompileRequest>& recipe,
                          uint64_t launches, int64_t unix_seconds) {
  if (recipe == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex_);
  ObservedVariant& variant = variants_[Key(key, *recipe)];
  if (variant.recipe == nullptr) {
    variant.key = key;
    variant.first_unix_seconds = unix_seconds;
  }
  // The newest: its module is still known, and a launch's own says more than a manifest's sample.
  variant.recipe = recipe;
  variant.launches += launches;
  variant.last_unix_seconds = unix_seconds;
  changed_ = true;
  TrimLocked();
}

void ObservedTraffic::TrimLocked() {
  if (variants_.size() <= limit_) return;
  std::vector<int64_t> times;
  for (const auto& [key, variant] : variants_) times.push_back(variant.last_unix_seconds);
  // An eighth at a time, so that this is rare.
  size_t drop = variants_.size() - limit_ + limit_ / 8;
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(drop - 1), times.end());
  int64_t oldest_kept = times[drop - 1];
  for (auto it = variants_.begin(); it != variants_.end() && drop > 0;) {
    if (it->second.last_unix_seconds <= oldest_kept) {
      it = variants_.erase(it);
      --drop;
    } else {
      ++it;
    }
  }
}

std::vector<ObservedVariant> ObservedTraffic::Since(int64_t since) const {
  std::vector<ObservedVariant> found;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, variant] : variants_)
      if (variant.last_unix_seconds >= since) found.push_back(variant);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.launches > b.launches; });
  return found;
}

absl::Status ObservedTraffic::WriteFile(const std::string& path) {
  storage::TrafficRecord record;
  record.set_format_version(kFormat);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!changed_) return absl::OkStatus();
    changed_ = false;
    for (const auto& [key, variant] : variants_) {
      storage::TrafficRecord::Variant* to = record.add_variants();
      to->set_key(variant.key);
      variant.recipe->SerializeToString(to->mutable_recipe());
      to->set_launches(variant.launches);
      to->set_first_unix_seconds(variant.first_unix_seconds);
      to->set_last_unix_seconds(variant.last_unix_seconds);
    }
  }
  std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  record.SerializeToOstream(&file);
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    absl::Status failed = absl::ErrnoToStatus(errno, absl::StrCat("writing ", path));
    unlink(beside.c_str());
    return failed;
  }
  return absl::OkStatus();
}

absl::Status ObservedTraffic::ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::OkStatus();
  storage::TrafficRecord record;
  if (!record.ParseFromIstream(&file) || record.format_version() != kFormat)
    return absl::DataLossError(absl::StrCat(path, " is no record of traffic; it is left out"));
  std::lock_guard<std::mutex> lock(mutex_);
  for (const storage::TrafficRecord::Variant& from : record.variants()) {
    auto recipe = std::make_shared<tessera::v1::CompileRequest>();
    if (!recipe->ParseFromString(from.recipe())) continue;
    ObservedVariant& variant = variants_[Key(from.key(), *recipe)];
    variant.key = from.key();
    variant.recipe = std::move(recipe);
    variant.launches = from.launches();
    variant.first_unix_seconds = from.first_unix_seconds();
    variant.last_unix_seconds = from.last_unix_seconds();
  }
  TrimLocked();
  return absl::OkStatus();
}

}  // namespace tessera::server
