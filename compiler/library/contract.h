// Checks tensors and attributes of an op request, with messages that name what is wrong.
#ifndef TESSERA_COMPILER_LIBRARY_CONTRACT_H_
#define TESSERA_COMPILER_LIBRARY_CONTRACT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/library/catalog.h"

namespace tessera::library {

struct TensorRule {
  std::string name;
  std::vector<std::string> dims;  // symbols: the same symbol has the same extent everywhere
  std::vector<DType> dtypes;
  bool optional = false;
  std::string same_dtype_as;      // another tensor's name, or empty
  bool unit_inner_stride = false;  // the last dimension must be contiguous
  bool is_output = false;          // no two elements may share memory
};

struct AttributeRule {
  std::string name;
  std::vector<std::string> words;  // accepted words; empty: a number
  std::string default_word;
  double default_number = 0;
};

struct Contract {
  std::string op;
  std::vector<TensorRule> tensors;
  std::vector<AttributeRule> attributes;
};

// A request that keeps the contract.
struct CheckedRequest {
  std::map<std::string, const OpTensor*> tensors;
  std::map<std::string, int64_t> dims;
  std::map<std::string, std::string> words;
  std::map<std::string, double> numbers;
};

absl::StatusOr<CheckedRequest> Check(const Contract& contract, const OpRequest& request);

// "[M, K] fp16|bf16|fp32, optional"
std::string Describe(const TensorRule& rule);
std::string Describe(const AttributeRule& rule);

}  // namespace tessera::library

#endif  // TESSERA_COMPILER_LIBRARY_CONTRACT_H_
