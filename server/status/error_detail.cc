#include "server/status/error_detail.h"

#include "absl/strings/cord.h"

namespace tessera::server {
namespace {

constexpr char kTypeUrl[] = "type.googleapis.com/tessera.v1.ErrorDetail";

absl::Status WithDetail(absl::Status status, const api::ErrorDetail& detail) {
  status.SetPayload(kTypeUrl, absl::Cord(detail.SerializeAsString()));
  return status;
}

}  // namespace

absl::Status Error(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                   std::initializer_list<std::pair<std::string, std::string>> metadata) {
  api::ErrorDetail detail;
  detail.set_reason(std::string(reason));
  for (const auto& [name, value] : metadata) (*detail.mutable_metadata())[name] = value;
  return WithDetail(absl::Status(code, message), detail);
}

absl::Status SourceError(
    absl::StatusCode code, absl::string_view message,
    const google::protobuf::RepeatedPtrField<storage::Diagnostic>& diagnostics) {
  api::ErrorDetail detail;
  detail.set_reason(code == absl::StatusCode::kInvalidArgument ? "SOURCE_DOES_NOT_COMPILE"
                                                               : "COMPILE_FAILED");
  for (const storage::Diagnostic& from : diagnostics) {
    api::Diagnostic* to = detail.add_diagnostics();
    to->set_severity(from.severity());
    to->set_file(from.file());
    to->set_line(from.line());
    to->set_column(from.column());
    to->set_message(from.message());
    to->set_source_line(from.source_line());
  }
  return WithDetail(absl::Status(code, message), detail);
}

std::optional<api::ErrorDetail> DetailOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kTypeUrl);
  api::ErrorDetail detail;
  if (!payload || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

std::string SerializedDetailOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kTypeUrl);
  return payload ? std::string(*payload) : "";
}

absl::Status StatusWithDetail(absl::StatusCode code, absl::string_view message,
                              absl::string_view serialized_detail) {
  absl::Status status(code, message);
  if (!status.ok() && !serialized_detail.empty())
    status.SetPayload(kTypeUrl, absl::Cord(serialized_detail));
  return status;
}

}  // namespace tessera::server
