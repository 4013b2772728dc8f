// The fused operations that Tessera ships, by name.
//
// Each is a kernel file in the Triton language (kernels/*.py) and a contract: which tensors it takes, of which
// shapes, dtypes and strides. Planning checks a request against the contract and says which kernel to launch how.
// Pure functions over descriptions of tensors; no memory is touched.
#ifndef TESSERA_COMPILER_LIBRARY_CATALOG_H_
#define TESSERA_COMPILER_LIBRARY_CATALOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "proto/storage/modules.pb.h"

namespace tessera::library {

// A tensor of a request. Strides count elements; they are always given, one a dimension.
struct OpTensor {
  std::string name;  // of the contract
  DType dtype = DType::kFp32;
  std::vector<int64_t> shape, strides;
};

struct OpRequest {
  std::vector<OpTensor> tensors;  // optional tensors may be absent
  std::map<std::string, storage::ConstantValue> attributes;
};

// What a parameter of the kernel gets.
struct TensorArgument {
  std::string tensor;  // name in the request
};
using OpArgumentValue = std::variant<TensorArgument, int64_t, double, storage::ConstantValue>;
struct OpArgument {
  std::string parameter;
  OpArgumentValue value;
};

// A launch of one of the library's kernels.
struct OpPlan {
  std::string kernel;                   // in the op's source
  std::vector<OpArgument> arguments;    // constants are constexpr parameters (or None)
  std::vector<std::string> grid;        // expressions over arguments and configuration values
  storage::LaunchOptions options;
};

struct OpField {
  std::string name;
  std::string contract;  // for people: "[M, K] fp16|bf16|fp32"
};

struct OpDescription {
  std::string name, summary;
  std::vector<OpField> tensors, attributes;
  storage::SourceFile source;  // the kernel file
};

// All operations, in alphabetical order.
const std::vector<OpDescription>& ListOps();

// Checks a request and plans its launch. NOT_FOUND: no such op (the message lists them). INVALID_ARGUMENT: the
// contract is broken; the message names tensor or attribute and what is accepted.
absl::StatusOr<OpPlan> PlanOp(absl::string_view op, const OpRequest& request);

}  // namespace tessera::library

#endif  // TESSERA_COMPILER_LIBRARY_CATALOG_H_
