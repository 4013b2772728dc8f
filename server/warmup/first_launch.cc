#include "server/warmup/first_launch.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "server/session/memory_import.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

using OnTensor = std::function<absl::Status(api::TensorRef*)>;

absl::Status VisitTensors(api::Argument* argument, const OnTensor& visit) {
  if (argument->has_tensor()) RETURN_IF_ERROR(visit(argument->mutable_tensor()));
  if (argument->has_tensor_descriptor())
    RETURN_IF_ERROR(visit(argument->mutable_tensor_descriptor()->mutable_base()));
  if (argument->has_tuple())
    for (api::Argument& item : *argument->mutable_tuple()->mutable_items())
      RETURN_IF_ERROR(VisitTensors(&item, visit));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> BytesOf(const api::TensorRef& tensor) {
  std::string error;
  std::optional<DType> dtype = ParseDType(tensor.dtype(), &error);
  if (!dtype) return absl::InvalidArgumentError(error);
  int64_t last = 0, contiguous = 1, bytes = 0;
  bool overflow = false;
  for (int i = tensor.shape_size() - 1; i >= 0; --i) {
    int64_t extent = tensor.shape(i), reach = 0;
    int64_t stride = i < tensor.strides_size() ? tensor.strides(i) : contiguous;
    if (extent < 0 || stride < 0)
      return absl::InvalidArgumentError("a first launch takes no negative extents and strides");
    if (extent == 0) return 0;
    overflow |= __builtin_mul_overflow(extent - 1, stride, &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
    overflow |= __builtin_mul_overflow(contiguous, extent, &contiguous);
  }
  overflow |= __builtin_add_overflow(last, int64_t{1}, &last);
  overflow |= __builtin_mul_overflow(last, int64_t{ByteSize(*dtype)}, &bytes);
  if (overflow) return absl::InvalidArgumentError("a tensor's extents overflow 64 bits");
  return static_cast<uint64_t>(bytes);
}

absl::Status LaunchOnScratch(api::LaunchRequest launch, uint64_t max_bytes, Launcher* launcher,
                             SessionRegistry* sessions, DeviceTable* devices) {
  ASSIGN_OR_RETURN(Device * device, devices->Find(launch.device()));
  // A peer keeps the session alive without a lease; it is ours.
  ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                   sessions->Open("warm-up", Peer{getpid(), getuid(), getgid()}));
  absl::Cleanup close = [&] { sessions->Close(session->token()); };
  launch.set_session(session->token());
  uint64_t all = 0;
  auto give_memory = [&](api::TensorRef* tensor) -> absl::Status {
    ASSIGN_OR_RETURN(uint64_t bytes, BytesOf(*tensor));
    bytes += tensor->byte_offset();
    if (bytes > max_bytes || (all += bytes) > max_bytes)
      return Error(absl::StatusCode::kResourceExhausted, "SCRATCH_LIMIT",
                   absl::StrCat("a first launch needs more than ", max_bytes,
                                " bytes (tuning_scratch_bytes)"));
    ASSIGN_OR_RETURN(
        std::shared_ptr<Region> region,
        AllocateMemory(sessions, session.get(), device, std::max<uint64_t>(bytes, 4096)));
    tensor->set_region(region->id());
    return absl::OkStatus();
  };
  for (api::Argument& argument : *launch.mutable_arguments())
    RETURN_IF_ERROR(VisitTensors(&argument, give_memory));
  LaunchWait wait;
  wait.may_compile = true;
  wait.is_traffic = false;
  api::LaunchResponse response;
  std::promise<absl::Status> ended;
  launcher->Launch(launch, wait, &response,
                   [&ended](absl::Status status) { ended.set_value(std::move(status)); });
  return ended.get_future().get();
}

}  // namespace tessera::server
