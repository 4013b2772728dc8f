#include "cache/bundle/bundle_import.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/bundle/entry_build.h"

namespace tessera::cache {
namespace {

// Of one transaction; more would hold up writers of the same keys.
constexpr size_t kEntriesAtOnce = 256;
constexpr uint64_t kBytesAtOnce = 8 << 20;
constexpr size_t kMaxFindings = 100;

}  // namespace

BundleImport::BundleImport(CacheStore* store, std::string compiler_build, bool replace, int64_t now_unix_seconds)
    : store_(store),
      compiler_build_(std::move(compiler_build)),
      replace_(replace),
      now_unix_seconds_(now_unix_seconds),
      parser_([this](FrameKind kind, absl::string_view key, absl::string_view payload) { Take(kind, key, payload); }) {}

absl::Status BundleImport::Feed(absl::string_view piece) {
  RETURN_IF_ERROR(parser_.Feed(piece));
  return entries_.size() >= kEntriesAtOnce || bytes_ >= kBytesAtOnce ? Flush() : absl::OkStatus();
}

absl::Status BundleImport::Finish() {
  const absl::Status whole = parser_.Finish();
  if (absl::IsInvalidArgument(whole)) return whole;
  RETURN_IF_ERROR(Flush());
  report_.entries.rejected += parser_.damaged();
  for (const std::string& finding : parser_.findings()) report_.entries.findings.push_back(finding);
  return whole;
}

void BundleImport::Take(FrameKind kind, absl::string_view key, absl::string_view payload) {
  switch (kind) {
    case FrameKind::kModule:
      return TakeModule(key, payload);
    case FrameKind::kArtifact:
      return TakeArtifact(key, payload);
    case FrameKind::kTuning:
      entries_.push_back({"tunings", std::string(key), std::string(payload)});
      bytes_ += payload.size();
      return;
    case FrameKind::kManifest:
      report_.manifest = std::string(payload);
      return;
    default:
      return;  // the header is for people; kinds to come are for readers to come
  }
}

void BundleImport::TakeArtifact(absl::string_view key, absl::string_view payload) {
  storage::ArtifactRecord record;
  ForeignEntry entry{"artifacts", std::string(key), std::string(payload)};
  if (record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    if (!compiler_build_.empty() && BuildOf(record.key()) != compiler_build_) {
      ++report_.other_build;
      return;
    }
    record.set_created_unix_seconds(now_unix_seconds_);
    entry.payload = record.SerializeAsString();
  }
  bytes_ += entry.payload.size();
  entries_.push_back(std::move(entry));  // what does not parse, the store rejects and names
}

void BundleImport::TakeModule(absl::string_view key, absl::string_view payload) {
  storage::ModuleRecord record;
  ForeignEntry entry{"modules", std::string(key), std::string(payload)};
  if (record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    record.set_registered_unix_seconds(now_unix_seconds_);
    entry.payload = record.SerializeAsString();
  }
  bytes_ += entry.payload.size();
  entries_.push_back(std::move(entry));
}

absl::Status BundleImport::Flush() {
  if (entries_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ImportReport batch, store_->Import(entries_, replace_));
  entries_.clear();
  bytes_ = 0;
  report_.entries.imported += batch.imported;
  report_.entries.already_there += batch.already_there;
  report_.entries.rejected += batch.rejected;
  for (std::string& finding : batch.findings) {
    if (report_.entries.findings.size() < kMaxFindings) report_.entries.findings.push_back(std::move(finding));
  }
  return absl::OkStatus();
}

}  // namespace tessera::cache
