#include "client/cli/bench/device_choice.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tessera::cli {
namespace {

// Copies go through a window of this size.
constexpr uint64_t kWindowBytes = uint64_t{32} << 20;

}  // namespace

absl::StatusOr<DeviceChoice> ChooseDevice(Client& client, const std::string& wanted) {
  grpc::ClientContext call;
  v1::GetStatusResponse status;
  RETURN_IF_ERROR(StatusOf(client.admin().GetStatus(&call, {}, &status), call));
  std::string names;
  const v1::GetStatusResponse::Device* chosen = nullptr;
  for (const v1::GetStatusResponse::Device& device : status.devices()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", device.name());
    bool matches = wanted.empty() ? device.has_gpu() || device.name() == "cpu:0"
                                  : device.name() == wanted || device.uuid() == wanted ||
                                        device.name() == wanted + ":0" ||
                                        absl::StrCat("cuda:", device.uuid()) == wanted;
    if (matches &&
        (chosen == nullptr || (wanted.empty() && device.has_gpu() && !chosen->has_gpu())))
      chosen = &device;
  }
  if (chosen == nullptr)
    return absl::NotFoundError(absl::StrCat("no device '", wanted, "'; there are ", names));
  return DeviceChoice{chosen->name(), chosen->description(), chosen->has_gpu()};
}

absl::StatusOr<uint64_t> DeviceRegion(Client& client, const DeviceChoice& device, const void* data,
                                      uint64_t bytes) {
  bytes = std::max<uint64_t>(bytes, 1);
  ASSIGN_OR_RETURN(v1::AllocateMemoryResponse memory,
                   client.AllocateOn(device.is_gpu ? device.name : "cpu:0", bytes));
  if (data == nullptr) return memory.region();
  ASSIGN_OR_RETURN(std::unique_ptr<SharedBuffer> window,
                   client.Allocate(std::min(bytes, kWindowBytes)));
  for (uint64_t done = 0; done < bytes; done += window->size()) {
    uint64_t piece = std::min(window->size(), bytes - done);
    std::memcpy(window->data(), static_cast<const char*>(data) + done, piece);
    RETURN_IF_ERROR(client.Copy(window->region(), 0, memory.region(), done, piece));
  }
  return memory.region();
}

}  // namespace tessera::cli
