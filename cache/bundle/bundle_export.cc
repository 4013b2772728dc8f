#include "cache/bundle/bundle_export.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/bundle/bundle_format.h"
#include "cache/bundle/entry_build.h"
#include "cache/key/canonical_text.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tessera::cache {
namespace {

bool Wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Record>
std::string SameBytes(const Record& record) {
  std::string payload;
  google::protobuf::io::StringOutputStream stream(&payload);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  record.SerializeToCodedStream(&coded);
  coded.Trim();
  return payload;
}

// The functions below give the payload as it enters the bundle, or false. When and how fast something was made says
// nothing of what it is.

bool Module(const ExportFilter& filter, absl::string_view, absl::string_view payload, std::string* out) {
  storage::ModuleRecord record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return false;
  const auto& kernels = record.description().kernels();
  if (!filter.kernels.empty() && std::none_of(kernels.begin(), kernels.end(), [&](const auto& kernel) {
        return Wanted(filter.kernels, kernel.name());
      })) {
    return false;
  }
  record.clear_registered_unix_seconds();
  *out = SameBytes(record);
  return true;
}

bool Artifact(const ExportFilter& filter, absl::string_view, absl::string_view payload, std::string* out) {
  storage::ArtifactRecord record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return false;
  const storage::KernelMetadata& metadata = record.artifact().metadata();
  if (!Wanted(filter.kernels, metadata.kernel()) || !Wanted(filter.targets, metadata.target())) return false;
  if (!filter.compiler_build.empty() && BuildOf(record.key()) != filter.compiler_build) return false;
  record.clear_created_unix_seconds();
  record.clear_compile_seconds();
  record.mutable_artifact()->mutable_metadata()->clear_stage_times();
  *out = SameBytes(record);
  return true;
}

bool Tuning(const ExportFilter& filter, absl::string_view, absl::string_view payload, std::string* out) {
  storage::TuningRecord record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return false;
  if (!Wanted(filter.kernels, record.kernel())) return false;
  *out = SameBytes(record);
  return true;
}

struct Kind {
  const char* family;
  FrameKind frame;
  bool (*payload)(const ExportFilter&, absl::string_view key, absl::string_view payload, std::string* out);
};
constexpr Kind kKinds[] = {{"modules", FrameKind::kModule, Module},
                           {"artifacts", FrameKind::kArtifact, Artifact},
                           {"tunings", FrameKind::kTuning, Tuning}};

}  // namespace

absl::StatusOr<uint64_t> ExportBundle(CacheStore* store, const ExportFilter& filter,
                                      absl::FunctionRef<bool(absl::string_view piece)> sink) {
  for (const std::string& family : filter.families) {
    if (std::none_of(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return family == kind.family; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", family, "\" is not exported; modules, artifacts and tunings are"));
    }
  }
  FrameWriter writer;
  uint64_t entries = 0;
  bool going = sink(BundleStart());
  const auto put = [&](FrameKind kind, absl::string_view key, absl::string_view payload) {
    going = going && sink(writer.Frame(kind, key, payload));
    return going;
  };
  std::string header;
  AppendField("compiler", filter.compiler_build, &header);
  put(FrameKind::kHeader, "", header);
  for (const Kind& kind : kKinds) {
    if (!Wanted(filter.families, kind.family)) continue;
    RETURN_IF_ERROR(store->ForEach(kind.family, "", [&](absl::string_view key, absl::string_view stored) {
      std::string payload;
      if (!kind.payload(filter, key, stored, &payload)) return true;
      ++entries;
      return put(kind.frame, key, payload);
    }));
  }
  if (!filter.manifest.empty()) put(FrameKind::kManifest, "", filter.manifest);
  going = going && sink(writer.End());
  if (!going) return absl::CancelledError("the export was stopped");
  return entries;
}

}  // namespace tessera::cache
