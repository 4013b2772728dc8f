#include "compiler/library/contract.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace tessera::library {
namespace {

template <typename... Parts>
absl::Status Broken(const Contract& contract, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(contract.op, ": ", parts...));
}

std::string Names(const std::vector<DType>& dtypes) {
  return absl::StrJoin(dtypes, "|", [](std::string* out, DType d) { absl::StrAppend(out, ShortName(d)); });
}

template <typename Rule>
std::string Names(const std::vector<Rule>& rules) {
  return absl::StrJoin(rules, ", ", [](std::string* out, const Rule& r) { out->append(r.name); });
}

// Elements of an output must not share memory: sorted by stride, each stride spans the dimensions below it.
bool HasOverlap(const OpTensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, extent
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    if (tensor.shape[i] > 1) dims.push_back({std::abs(tensor.strides[i]), tensor.shape[i]});
  std::sort(dims.begin(), dims.end());
  int64_t span = 1;
  for (auto [stride, extent] : dims) {
    if (stride < span) return true;
    span = stride * (extent - 1) + span;
  }
  return false;
}

absl::Status CheckTensor(const Contract& contract, const TensorRule& rule, const OpTensor& tensor,
                         CheckedRequest* checked) {
  if (std::find(rule.dtypes.begin(), rule.dtypes.end(), tensor.dtype) == rule.dtypes.end())
    return Broken(contract, "tensor '", rule.name, "' is ", ShortName(tensor.dtype), "; accepted: ", Names(rule.dtypes));
  if (tensor.shape.size() != rule.dims.size())
    return Broken(contract, "tensor '", rule.name, "' has ", tensor.shape.size(), " dimensions; it is [",
                  absl::StrJoin(rule.dims, ", "), "]");
  if (tensor.strides.size() != tensor.shape.size())
    return Broken(contract, "tensor '", rule.name, "' has ", tensor.strides.size(), " strides for ",
                  tensor.shape.size(), " dimensions");
  for (size_t i = 0; i < rule.dims.size(); ++i) {
    if (tensor.shape[i] < 0) return Broken(contract, "tensor '", rule.name, "' has a negative extent");
    auto [dim, is_new] = checked->dims.insert({rule.dims[i], tensor.shape[i]});
    if (!is_new && dim->second != tensor.shape[i])
      return Broken(contract, "tensor '", rule.name, "' has ", tensor.shape[i], " for ", rule.dims[i],
                    " (dimension ", i, "), other tensors have ", dim->second);
  }
  if (rule.unit_inner_stride && tensor.shape.back() > 1 && tensor.strides.back() != 1)
    return Broken(contract, "tensor '", rule.name, "' has stride ", tensor.strides.back(),
                  " along its last dimension; it must be 1");
  if (rule.is_output && HasOverlap(tensor))
    return Broken(contract, "tensor '", rule.name, "' is written, but its strides [",
                  absl::StrJoin(tensor.strides, ", "), "] let elements share memory");
  return absl::OkStatus();
}

absl::Status CheckAttribute(const Contract& contract, const AttributeRule& rule,
                            const storage::ConstantValue* given, CheckedRequest* checked) {
  if (rule.words.empty()) {
    double number = rule.default_number;
    if (given != nullptr) {
      if (given->kind_case() == storage::ConstantValue::kReal) number = given->real();
      else if (given->kind_case() == storage::ConstantValue::kInteger) number = given->integer();
      else return Broken(contract, "attribute '", rule.name, "' must be a number");
    }
    checked->numbers[rule.name] = number;
    return absl::OkStatus();
  }
  std::string word = rule.default_word;
  if (given != nullptr) {
    if (given->kind_case() == storage::ConstantValue::kNone) word = "none";
    else if (given->kind_case() == storage::ConstantValue::kText) word = given->text();
    else return Broken(contract, "attribute '", rule.name, "' must be one of ", absl::StrJoin(rule.words, ", "));
  }
  if (std::find(rule.words.begin(), rule.words.end(), word) == rule.words.end())
    return Broken(contract, "attribute '", rule.name, "' is '", word, "'; accepted: ", absl::StrJoin(rule.words, ", "));
  checked->words[rule.name] = word;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckedRequest> Check(const Contract& contract, const OpRequest& request) {
  CheckedRequest checked;
  for (const OpTensor& tensor : request.tensors) {
    auto is_it = [&](const TensorRule& rule) { return rule.name == tensor.name; };
    if (std::none_of(contract.tensors.begin(), contract.tensors.end(), is_it))
      return Broken(contract, "unknown tensor '", tensor.name, "'; it takes ", Names(contract.tensors));
    if (!checked.tensors.insert({tensor.name, &tensor}).second)
      return Broken(contract, "tensor '", tensor.name, "' is given twice");
  }
  for (const TensorRule& rule : contract.tensors) {
    auto found = checked.tensors.find(rule.name);
    if (found == checked.tensors.end()) {
      if (rule.optional) continue;
      return Broken(contract, "tensor '", rule.name, "' is missing; it is ", Describe(rule));
    }
    RETURN_IF_ERROR(CheckTensor(contract, rule, *found->second, &checked));
    if (rule.same_dtype_as.empty()) continue;
    auto other = checked.tensors.find(rule.same_dtype_as);
    if (other != checked.tensors.end() && other->second->dtype != found->second->dtype)
      return Broken(contract, "tensor '", rule.name, "' is ", ShortName(found->second->dtype), ", but '",
                    rule.same_dtype_as, "' is ", ShortName(other->second->dtype), "; they must agree");
  }
  for (const auto& [name, value] : request.attributes) {
    auto is_it = [&name = name](const AttributeRule& rule) { return rule.name == name; };
    if (std::none_of(contract.attributes.begin(), contract.attributes.end(), is_it))
      return Broken(contract, "unknown attribute '", name, "'; it takes ", Names(contract.attributes));
  }
  for (const AttributeRule& rule : contract.attributes) {
    auto given = request.attributes.find(rule.name);
    RETURN_IF_ERROR(CheckAttribute(contract, rule, given == request.attributes.end() ? nullptr : &given->second, &checked));
  }
  return checked;
}

std::string Describe(const TensorRule& rule) {
  std::string text = absl::StrCat("[", absl::StrJoin(rule.dims, ", "), "] ", Names(rule.dtypes));
  if (!rule.same_dtype_as.empty()) absl::StrAppend(&text, ", dtype of ", rule.same_dtype_as);
  if (rule.unit_inner_stride) absl::StrAppend(&text, ", last dimension contiguous");
  if (rule.is_output) absl::StrAppend(&text, ", written");
  if (rule.optional) absl::StrAppend(&text, ", optional");
  return text;
}

std::string Describe(const AttributeRule& rule) {
  if (rule.words.empty()) return absl::StrCat("number, default ", rule.default_number);
  return absl::StrCat(absl::StrJoin(rule.words, "|"), ", default ", rule.default_word);
}

}  // namespace tessera::library
