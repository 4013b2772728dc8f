// Specialisation: from the arguments of a launch to the facts that its code may rely on.
//
// Pure. The same facts give the same variant; a variant's key is their encoding, and a CompileJob's
// parameters are their long form. Rules as Triton's (== 1, divisible by 16, constants), except that
// an integer equal to 1 keeps its type.
#ifndef TESSERA_SERVER_LAUNCH_SPECIALISE_H_
#define TESSERA_SERVER_LAUNCH_SPECIALISE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/storage/modules.pb.h"
#include "proto/tessera/v1/common.pb.h"

namespace tessera::server {

// A parameter of a kernel, as far as specialisation cares.
struct ParameterModel {
  std::string name;
  bool is_constexpr = false;
  bool specialise_value = true;      // false: do_not_specialize
  bool specialise_alignment = true;  // false: also do_not_specialize_on_alignment
  std::optional<DType> annotated;    // `n: tl.int64`
  bool has_default = false;
  storage::ConstantValue default_value;
};
ParameterModel ModelParameter(const storage::ParameterDescription& description);

// A value given for a parameter.
struct BoundArgument {
  enum class Kind : uint8_t {
    kAbsent,
    kPointer,
    kInteger,
    kUnsigned,
    kReal,
    kBoolean,
    kConstant,
    kNone,
    kTuple,
    kDescriptor
  };
  Kind kind = Kind::kAbsent;
  std::optional<DType> forced;    // scalars: `5:i64`
  DType element = DType::kFp32;   // pointers
  bool aligned = false;           // pointers: the address is a multiple of 16
  int64_t integer = 0;            // kInteger, kBoolean
  uint64_t unsigned_integer = 0;  // kUnsigned: 2^63 and above
  double real = 0;
  const storage::ConstantValue* constant = nullptr;  // kConstant; lives elsewhere
  // kTuple. kDescriptor: the base, a tuple of the extents and a tuple of the strides, as entry
  // parameters' paths count.
  std::vector<BoundArgument> items;
  std::vector<int64_t> block_shape;  // kDescriptor
  bool nan_padding = false;          // kDescriptor

  // Where the pointer points; specialisation does not look at these.
  uint64_t region = 0, byte_offset = 0, extent_bytes = 0;
};

// What the code of a variant knows of one parameter.
struct ParameterFacts {
  enum class Kind : uint8_t { kPointer, kScalar, kConstant, kNone, kTuple, kDescriptor };
  Kind kind = Kind::kNone;
  DType type = DType::kInt32;  // element type of a pointer or descriptor, type of a scalar
  bool divisible_by_16 = false;
  bool equals_one = false;
  uint64_t bits = 0;  // scalars: the slot's value (base/kernel_abi.h); no part of the key
  const storage::ConstantValue* constant = nullptr;  // kConstant
  storage::ConstantValue owned;  // the constant that an argument was turned into
  bool owns_constant = false;
  // kTuple. kDescriptor: as in BoundArgument; the values in there are no facts.
  std::vector<ParameterFacts> items;
  std::vector<int64_t> block_shape;  // kDescriptor
  bool nan_padding = false;          // kDescriptor

  const storage::ConstantValue& value() const { return owns_constant ? owned : *constant; }
};

// INVALID_ARGUMENT names the parameter: a value that does not fit its type, a tensor for a
// constexpr, ...
absl::Status Specialise(const ParameterModel& parameter, const BoundArgument& argument,
                        ParameterFacts* facts);

// Appends an unambiguous encoding of everything in `facts` that the code depends on.
void AppendKey(const ParameterFacts& facts, std::string* key);

// The long form, for the compiler.
storage::ParameterSpec ToSpec(const ParameterFacts& facts, absl::string_view name);

// From the wire; dtypes get their short name. INVALID_ARGUMENT: a dtype that is none.
absl::StatusOr<storage::ConstantValue> ToConstant(const tessera::v1::Constant& constant);

// A float as the low bits of a slot: rounded to nearest even, overflow to infinity.
uint64_t FloatBits(double value, DType type);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_SPECIALISE_H_
