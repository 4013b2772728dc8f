#include "server/rpc/grpc_status.h"

#include <chrono>
#include <string>

#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

// gRPC peers refuse headers beyond some 8 KiB; a longer message keeps its beginning.
constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxDetailBytes = 3000;

std::string Shortened(absl::string_view message) {
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  size_t end = kMaxMessageBytes;
  while (end > 0 && (message[end] & 0xc0) == 0x80) --end;  // not inside a UTF-8 character
  return std::string(message.substr(0, end)) + " ...";
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Shortened(status.message()));
}

grpc::Status ToGrpc(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (status.ok()) return grpc::Status::OK;
  if (std::optional<api::ErrorDetail> detail = DetailOf(status)) {
    while (detail->ByteSizeLong() > kMaxDetailBytes && detail->diagnostics_size() > 0)
      detail->mutable_diagnostics()->RemoveLast();
    context->AddTrailingMetadata("tessera-error-bin", detail->SerializeAsString());
  }
  return ToGrpc(status);
}

void SetStatus(const absl::Status& status, api::LaunchResponse* response) {
  if (status.ok()) return;
  response->set_code(static_cast<int>(status.code()));
  response->set_message(std::string(status.message()));
  if (std::optional<api::ErrorDetail> detail = DetailOf(status))
    *response->mutable_error() = *std::move(detail);
}

absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteDuration();
  absl::Duration left =
      absl::FromChrono(deadline) - absl::FromChrono(std::chrono::system_clock::now());
  return left > absl::Hours(24 * 365) ? absl::InfiniteDuration() : left;
}

}  // namespace tessera::server
