#include "server/main/library_catalog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "compiler/library/catalog.h"
#include "server/launch/specialise.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

absl::Status WithReason(const absl::Status& status, absl::string_view reason) {
  return Error(status.code(), reason, status.message());
}

absl::StatusOr<library::OpTensor> ToTensor(const api::Argument& argument) {
  if (!argument.has_tensor())
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TENSOR",
                 absl::StrCat("tensor '", argument.name(), "': no tensor is given"),
                 {{"tensor", argument.name()}});
  const api::TensorRef& from = argument.tensor();
  library::OpTensor tensor;
  tensor.name = argument.name();
  std::string error;
  std::optional<DType> dtype = ParseDType(from.dtype(), &error);
  if (!dtype)
    return Error(absl::StatusCode::kInvalidArgument, "BAD_DTYPE",
                 absl::StrCat("tensor '", argument.name(), "': ", error),
                 {{"tensor", argument.name()}});
  tensor.dtype = *dtype;
  tensor.shape.assign(from.shape().begin(), from.shape().end());
  tensor.strides.assign(from.strides().begin(), from.strides().end());
  if (tensor.strides.empty()) {
    int64_t stride = 1;
    tensor.strides.resize(tensor.shape.size());
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      tensor.strides[i] = stride;
      // Overflow is caught where the extent is checked against the region.
      stride = static_cast<int64_t>(static_cast<uint64_t>(stride) *
                                    static_cast<uint64_t>(std::max<int64_t>(tensor.shape[i], 1)));
    }
  }
  if (tensor.strides.size() != tensor.shape.size())
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TENSOR",
                 absl::StrCat("tensor '", argument.name(), "': ", tensor.shape.size(),
                              " extents but ", tensor.strides.size(), " strides"),
                 {{"tensor", argument.name()}});
  return tensor;
}

// Constants of a plan: those of constexpr parameters, and None.
void ToConstant(const storage::ConstantValue& value, api::Constant* constant) {
  switch (value.kind_case()) {
    case storage::ConstantValue::kBoolean:
      constant->set_boolean(value.boolean());
      return;
    case storage::ConstantValue::kInteger:
      constant->set_integer(value.integer());
      return;
    case storage::ConstantValue::kUnsignedInteger:
      constant->set_unsigned_integer(value.unsigned_integer());
      return;
    case storage::ConstantValue::kReal:
      constant->set_real(value.real());
      return;
    case storage::ConstantValue::kText:
      constant->set_text(value.text());
      return;
    case storage::ConstantValue::kDtype:
      constant->set_dtype(value.dtype());
      return;
    case storage::ConstantValue::kFunction:
      constant->set_function(value.function());
      return;
    case storage::ConstantValue::kTuple:
      constant->mutable_tuple();
      for (const storage::ConstantValue& item : value.tuple().items())
        ToConstant(item, constant->mutable_tuple()->add_items());
      return;
    default:
      constant->mutable_none();
      return;
  }
}

}  // namespace

api::ListOpsResponse LibraryCatalog::List() const {
  api::ListOpsResponse response;
  for (const library::OpDescription& op : library::ListOps()) {
    api::ListOpsResponse::Op* to = response.add_ops();
    to->set_name(op.name);
    to->set_summary(op.summary);
    to->set_source(op.source.text());
    auto add = [](const std::vector<library::OpField>& from, auto* fields) {
      for (const library::OpField& field : from) {
        auto* added = fields->Add();
        added->set_name(field.name);
        added->set_contract(field.contract);
      }
    };
    add(op.tensors, to->mutable_tensors());
    add(op.attributes, to->mutable_attributes());
  }
  return response;
}

absl::StatusOr<storage::SourceFile> LibraryCatalog::Source(const std::string& op) const {
  for (const library::OpDescription& known : library::ListOps())
    if (known.name == op) return known.source;
  return Error(absl::StatusCode::kNotFound, "OP_UNKNOWN",
               absl::StrCat("there is no op '", op, "'"));
}

absl::StatusOr<api::LaunchRequest> LibraryCatalog::Plan(const api::LaunchOpRequest& request) const {
  library::OpRequest op;
  for (const api::Argument& argument : request.tensors()) {
    // An optional tensor may be left out, or be None.
    if (argument.has_constant() && argument.constant().has_none()) continue;
    ASSIGN_OR_RETURN(library::OpTensor tensor, ToTensor(argument));
    op.tensors.push_back(std::move(tensor));
  }
  for (const api::NamedConstant& attribute : request.attributes()) {
    absl::StatusOr<storage::ConstantValue> value = server::ToConstant(attribute.value());
    if (!value.ok())
      return Error(absl::StatusCode::kInvalidArgument, "BAD_ATTRIBUTE",
                   absl::StrCat("attribute '", attribute.name(), "': ", value.status().message()));
    op.attributes[attribute.name()] = *std::move(value);
  }
  absl::StatusOr<library::OpPlan> plan = library::PlanOp(request.op(), op);
  if (!plan.ok())
    return WithReason(plan.status(),
                      absl::IsNotFound(plan.status()) ? "OP_UNKNOWN" : "CONTRACT_BROKEN");
  api::LaunchRequest launch;
  launch.set_kernel(plan->kernel);
  for (const std::string& extent : plan->grid) launch.add_grid_expressions(extent);
  launch.mutable_options()->set_num_warps(plan->options.num_warps());
  launch.mutable_options()->set_num_stages(plan->options.num_stages());
  launch.mutable_options()->set_num_ctas(plan->options.num_ctas());
  launch.mutable_options()->set_maxnreg(plan->options.maxnreg());
  *launch.mutable_options()->mutable_extra() = plan->options.extra();
  for (const library::OpArgument& from : plan->arguments) {
    api::Argument* to = launch.add_arguments();
    to->set_name(from.parameter);
    if (const auto* tensor = std::get_if<library::TensorArgument>(&from.value)) {
      for (const api::Argument& given : request.tensors())
        if (given.name() == tensor->tensor) *to->mutable_tensor() = given.tensor();
    } else if (const auto* integer = std::get_if<int64_t>(&from.value)) {
      to->set_integer(*integer);
    } else if (const auto* real = std::get_if<double>(&from.value)) {
      to->set_real(*real);
    } else {
      ToConstant(std::get<storage::ConstantValue>(from.value), to->mutable_constant());
    }
  }
  return launch;
}

}  // namespace tessera::server
