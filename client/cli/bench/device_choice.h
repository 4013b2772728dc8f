// The device that a benchmark runs on, as the daemon knows it.
#ifndef TESSERA_CLIENT_CLI_BENCH_DEVICE_CHOICE_H_
#define TESSERA_CLIENT_CLI_BENCH_DEVICE_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace tessera::cli {

struct DeviceChoice {
  std::string name;         // "cuda:0"
  std::string description;  // "NVIDIA H200, ..."
  bool is_gpu = false;
};

// `wanted`: a name, a kind ("cuda") or a UUID; empty: the first GPU, else cpu:0. NOT_FOUND lists
// what there is.
absl::StatusOr<DeviceChoice> ChooseDevice(Client& client, const std::string& wanted);

// Memory that the device reaches at full speed: its own on a GPU, else shared memory. Filled with
// `bytes` of `data`, or zeros where it is null.
absl::StatusOr<uint64_t> DeviceRegion(Client& client, const DeviceChoice& device, const void* data,
                                      uint64_t bytes);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_DEVICE_CHOICE_H_
