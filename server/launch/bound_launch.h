// The arguments of a launch bound to the parameters of its kernel, checked, and specialised.
//
// Pure but for looking up the session's regions. A BoundLaunch is reused from launch to launch (one
// a thread), so that a launch of a known variant allocates next to nothing.
#ifndef TESSERA_SERVER_LAUNCH_BOUND_LAUNCH_H_
#define TESSERA_SERVER_LAUNCH_BOUND_LAUNCH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/tessera/v1/launch.pb.h"
#include "runtime/executor/executor_client.h"
#include "server/device/device_table.h"
#include "server/launch/kernel_model.h"
#include "server/launch/specialise.h"
#include "server/session/session_registry.h"

namespace tessera::server {

namespace api = ::tessera::v1;

// A configuration in force: `index` counts from 1, 0 is none of the kernel's own; `config` null:
// not autotuned.
struct ConfigChoice {
  int index = 0;
  const KernelModel::Config* config = nullptr;
};

struct BoundLaunch {
  std::vector<BoundArgument> arguments;          // by parameter
  std::vector<ParameterFacts> facts;             // by parameter
  std::deque<storage::ConstantValue> constants;  // what arguments of kind kConstant point to
  absl::InlinedVector<std::shared_ptr<Region>, 8> regions;  // of all tensors
  storage::LaunchOptions options;
  std::string key;  // of the variant
  std::vector<runtime::LaunchParam> params;

  void Clear();
};

// Binds the request's arguments. INVALID_ARGUMENT and NOT_FOUND name the argument: unknown, given
// twice, a dtype that is none, a region that is not the session's or is too small for the declared
// extent. `session` null (compiling without launching): tensors name no region, and a byte offset
// that is no multiple of 16 stands for an address that is none.
absl::Status BindArguments(
    const google::protobuf::RepeatedPtrField<tessera::v1::Argument>& arguments,
    const KernelModel& kernel, Session* session, BoundLaunch* bound);

// Fills in the configuration's values, defaults and heuristics; then specialises every parameter
// and makes the key. `requested` are options of the caller, which win over the configuration's.
absl::Status CompleteAndSpecialise(const KernelModel& kernel, const Device& device,
                                   const ConfigChoice& choice,
                                   const tessera::v1::Options& requested, BoundLaunch* bound);

// The parts of CompleteAndSpecialise, for callers whose facts do not come from arguments.
void MergeOptions(const tessera::v1::Options& requested, const ConfigChoice& choice,
                  storage::LaunchOptions* options);
void MakeVariantKey(const Device& device, BoundLaunch* bound);

// Which configuration names are already bound: all of them (the caller names a configuration in
// full), or none. INVALID_ARGUMENT: some.
absl::StatusOr<bool> ConfigIsGivenInFull(const KernelModel& kernel, const BoundLaunch& bound);

// Evaluates the grid into three extents; false: one is 0 and nothing is to run.
absl::StatusOr<bool> EvaluateGrid(const tessera::v1::LaunchRequest& request, KernelModel* kernel,
                                  const BoundLaunch& bound, uint32_t grid[3]);

// The slots of the compiled entry point, into bound->params.
void FillParams(const Variant& variant, BoundLaunch* bound);

// What the launch asks the compiler for.
storage::CompileJob MakeCompileJob(const KernelModel& kernel, const Device& device,
                                   const BoundLaunch& bound);

// The tuning bucket of a launch: "M=512 N=1000 | fp16 fp16 fp32" (key arguments, then the tensors'
// element types). `label` writes integers of the key; without it each value is a bucket.
using KeyLabel = absl::FunctionRef<std::string(int parameter, int64_t value)>;
std::string TuningBucket(const KernelModel& kernel, const BoundLaunch& bound, KeyLabel label);
std::string TuningBucket(const KernelModel& kernel, const BoundLaunch& bound);
// The integer arguments outside the key, constexprs left out: "lda=1000 ldb=64".
std::string OtherIntegers(const KernelModel& kernel, const BoundLaunch& bound);

// For launches of one kernel: the same bytes exactly where TuningBucket is the same. Cheap.
void AppendTuningSignature(const KernelModel& kernel, const BoundLaunch& bound, std::string* bytes);
// Likewise for OtherIntegers, save for collisions.
uint64_t HashOtherIntegers(const KernelModel& kernel, const BoundLaunch& bound);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_BOUND_LAUNCH_H_
