// Tunings in formats of others: Triton's autotune cache, and the per-device files of serving
// engines. Pure.
//
// Triton (TRITON_CACHE_AUTOTUNING=1 or cache_results=True) keeps a file KERNEL.autotune.json for
// every key:
//   {"key": ["16", "512", "torch.float16", ...],                     values of the key, then types
//   of the tensors
//    "configs_timings": [[{"kwargs": {"BLOCK_M": 64}, "num_warps": 4, ...}, [0.11, 0.10, 0.12]],
//    ...]}
// with the median, the 20 % and the 80 % quantile in milliseconds, `Infinity` where a configuration
// does not run.
//
// Serving engines keep a file for every layer and device,
// NAME=VALUE,...,device_name=NVIDIA_H200[,dtype=..].json:
//   {"1": {"BLOCK_SIZE_M": 16, "num_warps": 4, ...}, "16": ..., "triton_version": "3.6.0"}
// by batch size, without times.
#ifndef TESSERA_SERVER_TUNING_EXCHANGE_H_
#define TESSERA_SERVER_TUNING_EXCHANGE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/storage/modules.pb.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::server {

// A key argument of which a file does not say the value, or the types where it does not say them.
constexpr char kAnyValue[] = "*";

// What a file says for one key.
struct ForeignTuning {
  std::vector<std::pair<std::string, std::string>>
      key;            // name and value, in the order of the kernel's key
  std::string types;  // "fp16 fp16", of the tensors
  std::vector<storage::TuningRecord::Trial> trials;
  uint32_t chosen = 0;
};
struct ForeignTunings {
  std::vector<ForeignTuning> tunings;
  std::string device_name;         // as the file has it, "NVIDIA_H200"; empty: it has none
  std::vector<std::string> notes;  // what was left out, and why
};

// INVALID_ARGUMENT: it is no such file, or not of this kernel; the message says what is wrong
// where.
absl::StatusOr<ForeignTunings> ReadTritonAutotune(absl::string_view content,
                                                  const storage::KernelDescription& kernel);
// `name`: of the file, with or without folders. `batch_argument`: see ImportTuningsRequest.
absl::StatusOr<ForeignTunings> ReadServingEngineFile(absl::string_view name,
                                                     absl::string_view content,
                                                     const storage::KernelDescription& kernel,
                                                     absl::string_view batch_argument);

// "M=16 N=* | fp16 fp16" for a tuning; `label` puts a value of an argument into its bucket.
using BucketLabel = std::function<std::string(absl::string_view argument, int64_t value)>;
std::string BucketText(const ForeignTuning& tuning, const BucketLabel& label);

// Whether a file's device name means a device model: "NVIDIA_H200" and "NVIDIA H200".
bool SameDeviceName(absl::string_view a, absl::string_view b);

struct ExchangeFile {
  std::string name, content;
};
// Of records of one kernel on one device model. A file for each bucket; where there are several, in
// folders by key. `notes`: buckets that cannot be told in the format.
std::vector<ExchangeFile> WriteTritonAutotune(const std::vector<storage::TuningRecord>& records,
                                              const storage::KernelDescription& kernel,
                                              std::vector<std::string>* notes);
// A file for each set of values of the other key arguments. INVALID_ARGUMENT: there is no batch
// argument.
absl::StatusOr<std::vector<ExchangeFile>> WriteServingEngineFiles(
    const std::vector<storage::TuningRecord>& records, const storage::KernelDescription& kernel,
    absl::string_view batch_argument, std::vector<std::string>* notes);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_EXCHANGE_H_
