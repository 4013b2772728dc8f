#include "server/launch/bound_launch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

using ArgumentKind = BoundArgument::Kind;

constexpr int kMaxTupleDepth = 8;
constexpr int kMaxDescriptorRank = 5;

absl::Status BadArgument(absl::string_view name, absl::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
               absl::StrCat("argument '", name, "': ", what), {{"argument", std::string(name)}});
}

absl::Status BadTensor(absl::StatusCode code, absl::string_view reason, absl::string_view name,
                       absl::string_view what) {
  return Error(code, reason, absl::StrCat("tensor '", name, "': ", what),
               {{"tensor", std::string(name)}});
}

std::string ShapeText(const api::TensorRef& tensor, DType dtype) {
  std::string text = absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "] ", ShortName(dtype));
  if (tensor.strides_size() > 0)
    absl::StrAppend(&text, " with strides [", absl::StrJoin(tensor.strides(), ", "), "]");
  return text;
}

// First and last-plus-one byte that the declared elements touch, relative to the first element.
absl::Status DeclaredExtent(const api::TensorRef& tensor, absl::string_view name, int element_bytes,
                            int64_t* low, int64_t* high) {
  *low = 0;
  *high = element_bytes;
  if (tensor.is_scalar()) return absl::OkStatus();
  if (tensor.strides_size() != 0 && tensor.strides_size() != tensor.shape_size())
    return BadTensor(
        absl::StatusCode::kInvalidArgument, "BAD_TENSOR", name,
        absl::StrCat(tensor.shape_size(), " extents but ", tensor.strides_size(), " strides"));
  int64_t first = 0, last = 0, contiguous = 1;
  bool overflow = false, empty = false;
  for (int i = tensor.shape_size() - 1; i >= 0; --i) {
    int64_t extent = tensor.shape(i);
    if (extent < 0)
      return BadTensor(absl::StatusCode::kInvalidArgument, "BAD_TENSOR", name,
                       absl::StrCat("extent ", extent, " is negative"));
    if (extent == 0) {
      empty = true;
      continue;
    }
    int64_t stride = tensor.strides_size() > 0 ? tensor.strides(i) : contiguous;
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(extent - 1, stride, &reach);
    overflow |=
        __builtin_add_overflow(stride < 0 ? first : last, reach, stride < 0 ? &first : &last);
    overflow |= __builtin_mul_overflow(contiguous, extent, &contiguous);
  }
  if (empty) {
    *high = 0;
    return absl::OkStatus();
  }
  overflow |= __builtin_mul_overflow(first, int64_t{element_bytes}, low);
  overflow |= __builtin_mul_overflow(last, int64_t{element_bytes}, high);
  overflow |= __builtin_add_overflow(*high, int64_t{element_bytes}, high);
  if (overflow)
    return BadTensor(absl::StatusCode::kInvalidArgument, "BAD_TENSOR", name,
                     "its extents overflow 64 bits");
  return absl::OkStatus();
}

absl::Status BindTensor(const api::TensorRef& tensor, absl::string_view name, Session* session,
                        BoundArgument* argument, BoundLaunch* bound) {
  std::optional<DType> dtype = ParseDType(tensor.dtype());
  if (!dtype) {
    std::string error;
    ParseDType(tensor.dtype(), &error);
    return BadTensor(absl::StatusCode::kInvalidArgument, "BAD_DTYPE", name, error);
  }
  argument->kind = ArgumentKind::kPointer;
  argument->element = *dtype;
  argument->region = tensor.region();
  argument->byte_offset = tensor.byte_offset();
  argument->extent_bytes = 0;
  argument->aligned = tensor.byte_offset() % 16 == 0;
  if (tensor.region() == 0) {
    argument->byte_offset = 0;
    // Without a session this stands for memory of a launch to come.
    argument->aligned = session != nullptr || argument->aligned;
    return absl::OkStatus();
  }
  if (session == nullptr)
    return BadTensor(absl::StatusCode::kInvalidArgument, "BAD_TENSOR", name,
                     "no memory is known here");
  std::shared_ptr<Region> region = session->FindRegionOrNull(tensor.region());
  if (region == nullptr)
    return BadTensor(absl::StatusCode::kNotFound, "REGION_UNKNOWN", name,
                     absl::StrCat("region ", tensor.region(),
                                  " was released or never belonged to this session"));
  uint64_t size = region->size(), offset = tensor.byte_offset();
  int element_bytes = ByteSize(*dtype);
  if (offset % element_bytes != 0)
    return BadTensor(absl::StatusCode::kInvalidArgument, "MISALIGNED", name,
                     absl::StrCat("byte offset ", offset, " is no multiple of the ", element_bytes,
                                  " bytes of ", ShortName(*dtype)));
  if (offset > size)
    return BadTensor(absl::StatusCode::kInvalidArgument, "REGION_TOO_SMALL", name,
                     absl::StrCat("byte offset ", offset, " lies outside region ", tensor.region(),
                                  " of ", size, " bytes"));
  if (tensor.shape_size() == 0 && !tensor.is_scalar()) {
    argument->extent_bytes = size - offset;
  } else {
    int64_t low = 0, high = 0;
    RETURN_IF_ERROR(DeclaredExtent(tensor, name, element_bytes, &low, &high));
    if (low < 0 && static_cast<uint64_t>(-low) > offset)
      return BadTensor(
          absl::StatusCode::kInvalidArgument, "REGION_TOO_SMALL", name,
          absl::StrCat(ShapeText(tensor, *dtype), " at byte ", offset, " reaches ", -low,
                       " bytes back, before the start of region ", tensor.region()));
    if (high > 0 && static_cast<uint64_t>(high) > size - offset)
      return BadTensor(absl::StatusCode::kInvalidArgument, "REGION_TOO_SMALL", name,
                       absl::StrCat(ShapeText(tensor, *dtype), " at byte ", offset, " needs ", high,
                                    " bytes, but region ", tensor.region(), " holds ",
                                    size - offset, " from there on"));
    argument->extent_bytes = static_cast<uint64_t>(high);
  }
  for (const std::shared_ptr<Region>& known : bound->regions)
    if (known == region) return absl::OkStatus();
  bound->regions.push_back(std::move(region));
  return absl::OkStatus();
}

// The rules are Triton's for descriptors made by the host.
absl::Status BindDescriptor(const api::Argument::Descriptor& descriptor, absl::string_view name,
                            Session* session, BoundArgument* argument, BoundLaunch* bound) {
  const api::TensorRef& tensor = descriptor.base();
  const int rank = descriptor.block_shape_size();
  auto bad = [&](auto... what) {
    return BadArgument(name, absl::StrCat("tensor descriptor: ", what...));
  };
  if (rank < 1 || rank > kMaxDescriptorRank)
    return bad("a block of 1 to ", kMaxDescriptorRank, " dimensions is wanted, not of ", rank);
  if (tensor.is_scalar() || tensor.shape_size() != rank)
    return bad("the tensor has ", tensor.shape_size(), " dimensions, but the block has ", rank);
  if (tensor.strides_size() != 0 && tensor.strides_size() != rank)
    return bad("the tensor has ", rank, " dimensions, but ", tensor.strides_size(), " strides");
  for (int64_t extent : descriptor.block_shape())
    if (extent < 1 || (extent & (extent - 1)) != 0)
      return bad("block shape [", absl::StrJoin(descriptor.block_shape(), ", "),
                 "] must consist of powers of two");
  if (!descriptor.padding().empty() && descriptor.padding() != "zero" &&
      descriptor.padding() != "nan")
    return bad("unknown padding '", descriptor.padding(), "'; accepted are zero and nan");
  if (tensor.region() == 0 && session != nullptr) return bad("the base is null");
  argument->items.assign(3, BoundArgument());
  BoundArgument &base = argument->items[0], &extents = argument->items[1],
                &strides = argument->items[2];
  RETURN_IF_ERROR(BindTensor(tensor, name, session, &base, bound));
  argument->kind = ArgumentKind::kDescriptor;
  extents.kind = strides.kind = ArgumentKind::kTuple;
  argument->block_shape.assign(descriptor.block_shape().begin(), descriptor.block_shape().end());
  argument->nan_padding = descriptor.padding() == "nan";
  if (base.element == DType::kInt1) return bad("bools cannot be described; view them as int8");
  if (!base.aligned)
    return bad("the base must be aligned to 16 bytes, but starts at byte ", tensor.byte_offset());
  const int bytes = ByteSize(base.element);
  int64_t contiguous = 1;
  extents.items.resize(rank);
  strides.items.resize(rank);
  for (int i = rank - 1; i >= 0; --i) {
    int64_t extent = tensor.shape(i),
            stride = tensor.strides_size() > 0 ? tensor.strides(i) : contiguous;
    if (extent < 0 || extent > std::numeric_limits<int32_t>::max())
      return bad("extent ", extent, " of dimension ", i, " is not between 0 and 2^31 - 1");
    if (i == rank - 1 && stride != 1) return bad("the last stride must be 1, not ", stride);
    if (i < rank - 1 && stride % (16 / bytes) != 0)
      return bad("stride ", stride, " of dimension ", i, " is no multiple of 16 bytes (",
                 16 / bytes, " elements of ", ShortName(base.element), ")");
    if (__builtin_mul_overflow(contiguous, std::max<int64_t>(extent, 1), &contiguous))
      return bad("its extents overflow 64 bits");
    extents.items[i].kind = strides.items[i].kind = ArgumentKind::kInteger;
    extents.items[i].integer = extent;
    strides.items[i].integer = stride;
  }
  return absl::OkStatus();
}

absl::Status BindConstant(const api::Constant& constant, absl::string_view name,
                          BoundArgument* argument, BoundLaunch* bound) {
  switch (constant.kind_case()) {
    case api::Constant::kNone:
      argument->kind = ArgumentKind::kNone;
      return absl::OkStatus();
    case api::Constant::kBoolean:
      argument->kind = ArgumentKind::kBoolean;
      argument->integer = constant.boolean();
      return absl::OkStatus();
    case api::Constant::kInteger:
      argument->kind = ArgumentKind::kInteger;
      argument->integer = constant.integer();
      return absl::OkStatus();
    case api::Constant::kReal:
      argument->kind = ArgumentKind::kReal;
      argument->real = constant.real();
      return absl::OkStatus();
    default:
      break;
  }
  absl::StatusOr<storage::ConstantValue> value = ToConstant(constant);
  if (!value.ok()) return BadArgument(name, value.status().message());
  bound->constants.push_back(*std::move(value));
  argument->kind = ArgumentKind::kConstant;
  argument->constant = &bound->constants.back();
  return absl::OkStatus();
}

absl::Status BindOne(const api::Argument& from, absl::string_view name, Session* session, int depth,
                     BoundArgument* argument, BoundLaunch* bound) {
  argument->forced.reset();
  if (!from.type().empty()) {
    std::string error;
    argument->forced = ParseDType(from.type(), &error);
    if (!argument->forced) return BadArgument(name, error);
  }
  switch (from.kind_case()) {
    case api::Argument::kTensor:
      return BindTensor(from.tensor(), name, session, argument, bound);
    case api::Argument::kInteger:
      argument->kind = ArgumentKind::kInteger;
      argument->integer = from.integer();
      return absl::OkStatus();
    case api::Argument::kUnsignedInteger:
      if (from.unsigned_integer() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        argument->kind = ArgumentKind::kInteger;
        argument->integer = static_cast<int64_t>(from.unsigned_integer());
      } else {
        argument->kind = ArgumentKind::kUnsigned;
        argument->unsigned_integer = from.unsigned_integer();
      }
      return absl::OkStatus();
    case api::Argument::kReal:
      argument->kind = ArgumentKind::kReal;
      argument->real = from.real();
      return absl::OkStatus();
    case api::Argument::kBoolean:
      argument->kind = ArgumentKind::kBoolean;
      argument->integer = from.boolean();
      return absl::OkStatus();
    case api::Argument::kConstant:
      return BindConstant(from.constant(), name, argument, bound);
    case api::Argument::kTuple: {
      if (depth >= kMaxTupleDepth) return BadArgument(name, "tuples nested too deep");
      argument->kind = ArgumentKind::kTuple;
      argument->items.assign(from.tuple().items_size(), BoundArgument());
      for (int i = 0; i < from.tuple().items_size(); ++i)
        RETURN_IF_ERROR(
            BindOne(from.tuple().items(i), name, session, depth + 1, &argument->items[i], bound));
      return absl::OkStatus();
    }
    case api::Argument::kTensorDescriptor:
      return BindDescriptor(from.tensor_descriptor(), name, session, argument, bound);
    case api::Argument::KIND_NOT_SET:
      break;
  }
  return BadArgument(name, "has no value");
}

ExpressionValue ValueOf(const storage::ConstantValue& constant) {
  switch (constant.kind_case()) {
    case storage::ConstantValue::kBoolean:
      return ExpressionValue::Boolean(constant.boolean());
    case storage::ConstantValue::kInteger:
      return ExpressionValue::Integer(constant.integer());
    case storage::ConstantValue::kReal:
      return ExpressionValue::Real(constant.real());
    case storage::ConstantValue::kText:
      return ExpressionValue::Text(constant.text());
    case storage::ConstantValue::kDtype:
      return ExpressionValue::Text(constant.dtype());
    case storage::ConstantValue::kNone:
      return ExpressionValue::None();
    default:
      return ExpressionValue::Opaque();
  }
}

ExpressionValue ValueOf(const BoundArgument& argument) {
  switch (argument.kind) {
    case ArgumentKind::kInteger:
      return ExpressionValue::Integer(argument.integer);
    case ArgumentKind::kBoolean:
      return ExpressionValue::Boolean(argument.integer != 0);
    case ArgumentKind::kReal:
      return ExpressionValue::Real(argument.real);
    case ArgumentKind::kConstant:
      return ValueOf(*argument.constant);
    case ArgumentKind::kNone:
    case ArgumentKind::kAbsent:
      return ExpressionValue::None();
    default:
      return ExpressionValue::Opaque();
  }
}

absl::StatusOr<ExpressionValue> LookUp(const KernelModel& kernel, const BoundLaunch& bound,
                                       int name) {
  switch (name) {
    case KernelModel::kNumWarps:
      return ExpressionValue::Integer(bound.options.num_warps() == 0 ? 4
                                                                     : bound.options.num_warps());
    case KernelModel::kNumStages:
      return ExpressionValue::Integer(bound.options.num_stages() == 0 ? 3
                                                                      : bound.options.num_stages());
    case KernelModel::kNumCtas:
      return ExpressionValue::Integer(bound.options.num_ctas() == 0 ? 1 : bound.options.num_ctas());
    default:
      break;
  }
  const BoundArgument& argument = bound.arguments[name];
  if (argument.kind == ArgumentKind::kAbsent)
    return Error(absl::StatusCode::kInvalidArgument, "ARGUMENT_MISSING",
                 absl::StrCat("'", kernel.parameters()[name].name, "' has no value yet"));
  return ValueOf(argument);
}

void SetFromExpression(const ExpressionValue& value, BoundLaunch* bound, BoundArgument* argument) {
  switch (value.kind) {
    case ExpressionValue::Kind::kInteger:
      argument->kind = ArgumentKind::kInteger;
      argument->integer = value.integer;
      return;
    case ExpressionValue::Kind::kBoolean:
      argument->kind = ArgumentKind::kBoolean;
      argument->integer = value.integer;
      return;
    case ExpressionValue::Kind::kReal:
      argument->kind = ArgumentKind::kReal;
      argument->real = value.real;
      return;
    case ExpressionValue::Kind::kText:
      bound->constants.emplace_back();
      bound->constants.back().set_text(std::string(value.text));
      argument->kind = ArgumentKind::kConstant;
      argument->constant = &bound->constants.back();
      return;
    default:
      argument->kind = ArgumentKind::kNone;
      return;
  }
}

absl::Status ApplyHeuristics(const KernelModel& kernel, BoundLaunch* bound) {
  for (const KernelModel::Heuristic& heuristic : kernel.heuristics()) {
    BoundArgument& argument = bound->arguments[heuristic.parameter];
    // A value given in full wins: a recorded launch repeats what ran.
    if (argument.kind != ArgumentKind::kAbsent) continue;
    absl::StatusOr<ExpressionValue> value =
        heuristic.value.Evaluate([&](int name) { return LookUp(kernel, *bound, name); });
    if (!value.ok())
      return Error(absl::StatusCode::kInvalidArgument, "BAD_HEURISTIC",
                   absl::StrCat("heuristic for '", kernel.parameters()[heuristic.parameter].name,
                                "' of ", kernel.name(), ": ", value.status().message()));
    SetFromExpression(*value, bound, &argument);
  }
  return absl::OkStatus();
}

void AppendNumber(uint32_t number, std::string* key) {
  key->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

const ParameterFacts& Inside(const ParameterFacts& facts, const EntrySlot& slot) {
  const ParameterFacts* at = &facts;
  for (uint32_t step : slot.path) {
    if (step >= at->items.size()) return *at;
    at = &at->items[step];
  }
  return *at;
}

const BoundArgument& Inside(const BoundArgument& argument, const EntrySlot& slot) {
  const BoundArgument* at = &argument;
  for (uint32_t step : slot.path) {
    if (step >= at->items.size()) return *at;
    at = &at->items[step];
  }
  return *at;
}

void AppendElementTypes(const BoundArgument& argument, std::string* text) {
  if (argument.kind == ArgumentKind::kPointer)
    absl::StrAppend(text, " ", ShortName(argument.element));
  for (const BoundArgument& item : argument.items) AppendElementTypes(item, text);
}

std::string PrintValue(const ExpressionValue& value) {
  switch (value.kind) {
    case ExpressionValue::Kind::kInteger:
      return absl::StrCat(value.integer);
    case ExpressionValue::Kind::kBoolean:
      return value.integer ? "True" : "False";
    case ExpressionValue::Kind::kReal:
      return absl::StrCat(value.real);
    case ExpressionValue::Kind::kText:
      return std::string(value.text);
    case ExpressionValue::Kind::kNone:
      return "None";
    case ExpressionValue::Kind::kOpaque:
      return "tensor";
  }
  return "";
}

}  // namespace

void BoundLaunch::Clear() {
  constants.clear();
  regions.clear();
  options.Clear();
  key.clear();
  params.clear();
}

absl::Status BindArguments(const google::protobuf::RepeatedPtrField<api::Argument>& arguments,
                           const KernelModel& kernel, Session* session, BoundLaunch* bound) {
  size_t count = kernel.parameters().size();
  bound->arguments.resize(count);
  bound->facts.resize(count);
  for (BoundArgument& argument : bound->arguments) {
    argument.kind = ArgumentKind::kAbsent;
    argument.forced.reset();
    argument.items.clear();
  }
  for (int i = 0; i < arguments.size(); ++i) {
    const api::Argument& from = arguments[i];
    int at = kernel.FindParameter(from.name(), i);
    if (at < 0) return kernel.UnknownParameter(from.name());
    BoundArgument& argument = bound->arguments[at];
    if (argument.kind != ArgumentKind::kAbsent) return BadArgument(from.name(), "is given twice");
    RETURN_IF_ERROR(BindOne(from, from.name(), session, 0, &argument, bound));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ConfigIsGivenInFull(const KernelModel& kernel, const BoundLaunch& bound) {
  if (kernel.configs().empty()) return false;
  const std::string* given = nullptr;
  const std::string* absent = nullptr;
  for (const auto& [parameter, value] : kernel.configs()[0].values) {
    const std::string& name = kernel.parameters()[parameter].name;
    (bound.arguments[parameter].kind == ArgumentKind::kAbsent ? absent : given) = &name;
  }
  if (given != nullptr && absent != nullptr)
    return Error(absl::StatusCode::kInvalidArgument, "CONFIG_CONFLICT",
                 absl::StrCat("'", *given, "' belongs to the configurations of ", kernel.name(),
                              ", and so does '", *absent,
                              "', which is not given; give all of them or none"));
  return given != nullptr;
}

void MergeOptions(const api::Options& requested, const ConfigChoice& choice,
                  storage::LaunchOptions* options) {
  if (choice.config != nullptr) *options = choice.config->config.options();
  if (requested.num_warps() != 0) options->set_num_warps(requested.num_warps());
  if (requested.num_stages() != 0) options->set_num_stages(requested.num_stages());
  if (requested.num_ctas() != 0) options->set_num_ctas(requested.num_ctas());
  if (requested.maxnreg() != 0) options->set_maxnreg(requested.maxnreg());
  for (const auto& [name, value] : requested.extra()) (*options->mutable_extra())[name] = value;
}

void MakeVariantKey(const Device& device, BoundLaunch* bound) {
  std::string* key = &bound->key;
  key->clear();
  *key += static_cast<char>(device.index());
  const storage::LaunchOptions& options = bound->options;
  AppendNumber(options.num_warps(), key);
  AppendNumber(options.num_stages(), key);
  AppendNumber(options.num_ctas(), key);
  AppendNumber(options.maxnreg(), key);
  AppendNumber(static_cast<uint32_t>(options.extra_size()), key);
  if (options.extra_size() > 0) {
    std::vector<std::pair<std::string, std::string>> extra(options.extra().begin(),
                                                           options.extra().end());
    std::sort(extra.begin(), extra.end());
    for (const auto& [name, value] : extra) {
      AppendNumber(static_cast<uint32_t>(name.size()), key);
      *key += name;
      AppendNumber(static_cast<uint32_t>(value.size()), key);
      *key += value;
    }
  }
  for (const ParameterFacts& facts : bound->facts) AppendKey(facts, key);
}

absl::Status CompleteAndSpecialise(const KernelModel& kernel, const Device& device,
                                   const ConfigChoice& choice, const api::Options& requested,
                                   BoundLaunch* bound) {
  MergeOptions(requested, choice, &bound->options);
  if (choice.config != nullptr)
    for (const auto& [parameter, value] : choice.config->values) {
      BoundArgument& argument = bound->arguments[parameter];
      argument.kind = ArgumentKind::kConstant;
      argument.constant = value;
    }
  RETURN_IF_ERROR(ApplyHeuristics(kernel, bound));
  for (size_t i = 0; i < bound->arguments.size(); ++i) {
    const ParameterModel& parameter = kernel.parameters()[i];
    BoundArgument& argument = bound->arguments[i];
    if (argument.kind == ArgumentKind::kAbsent) {
      if (!parameter.has_default)
        return Error(absl::StatusCode::kInvalidArgument, "ARGUMENT_MISSING",
                     absl::StrCat("argument '", parameter.name, "' of kernel ", kernel.name(),
                                  " is missing"),
                     {{"argument", parameter.name}});
      argument.kind = ArgumentKind::kConstant;
      argument.constant = &parameter.default_value;
    }
    RETURN_IF_ERROR(Specialise(parameter, argument, &bound->facts[i]));
  }
  MakeVariantKey(device, bound);
  return absl::OkStatus();
}

absl::StatusOr<bool> EvaluateGrid(const api::LaunchRequest& request, KernelModel* kernel,
                                  const BoundLaunch& bound, uint32_t grid[3]) {
  int count =
      request.grid_expressions_size() > 0 ? request.grid_expressions_size() : request.grid_size();
  if (count < 1 || count > 3)
    return Error(absl::StatusCode::kInvalidArgument, "BAD_GRID",
                 absl::StrCat("a grid has one to three extents, not ", count));
  if (request.grid_size() > 0 && request.grid_expressions_size() > 0)
    return Error(absl::StatusCode::kInvalidArgument, "BAD_GRID",
                 "give the grid as numbers or as expressions, not both");
  bool runs = true;
  for (int i = 0; i < 3; ++i) grid[i] = 1;
  for (int i = 0; i < count; ++i) {
    int64_t extent = 0;
    if (request.grid_size() > 0) {
      uint64_t given = request.grid(i);
      extent = given > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                   ? std::numeric_limits<int64_t>::max()
                   : static_cast<int64_t>(given);
    } else {
      ASSIGN_OR_RETURN(std::shared_ptr<const Expression> expression,
                       kernel->GridExpression(request.grid_expressions(i)));
      ASSIGN_OR_RETURN(ExpressionValue value, expression->Evaluate([&](int name) {
        return LookUp(*kernel, bound, name);
      }));
      if (!value.integral())
        return Error(absl::StatusCode::kInvalidArgument, "BAD_GRID",
                     absl::StrCat("grid expression '", expression->text(), "' gives no integer"));
      extent = value.integer;
    }
    int64_t limit = i == 0 ? std::numeric_limits<int32_t>::max() : 65535;
    if (extent < 0 || extent > limit)
      return Error(absl::StatusCode::kInvalidArgument, "BAD_GRID",
                   absl::StrCat("grid extent ",
                                i == 0   ? "x"
                                : i == 1 ? "y"
                                         : "z",
                                " is ", extent, "; it must lie between 0 and ", limit));
    if (extent == 0) runs = false;
    grid[i] = static_cast<uint32_t>(extent);
  }
  return runs;
}

void FillParams(const Variant& variant, BoundLaunch* bound) {
  bound->params.resize(variant.slots.size());
  for (size_t i = 0; i < variant.slots.size(); ++i) {
    const EntrySlot& slot = variant.slots[i];
    runtime::LaunchParam& param = bound->params[i];
    param = runtime::LaunchParam();
    if (!slot.pointer) {
      param.value = Inside(bound->facts[slot.parameter], slot).bits;
      continue;
    }
    const BoundArgument& argument = Inside(bound->arguments[slot.parameter], slot);
    param.region = argument.region;
    param.value = argument.byte_offset;
    param.extent_bytes = argument.extent_bytes;
  }
}

storage::CompileJob MakeCompileJob(const KernelModel& kernel, const Device& device,
                                   const BoundLaunch& bound) {
  storage::CompileJob job;
  *job.mutable_files() = kernel.module().record.files();
  job.set_kernel(kernel.name());
  for (size_t i = 0; i < bound.facts.size(); ++i)
    *job.add_parameters() = ToSpec(bound.facts[i], kernel.parameters()[i].name);
  *job.mutable_options() = bound.options;
  // TRITON_... variables of the client travel as options; they are settings of the compiler.
  for (const auto& [name, value] : bound.options.extra())
    if (absl::StartsWith(name, "TRITON_")) (*job.mutable_settings())[name] = value;
  for (const auto& [name, value] : job.settings())
    job.mutable_options()->mutable_extra()->erase(name);
  job.set_target(device.description().target);
  job.set_cpu_features(device.description().cpu_features);
  return job;
}

std::string TuningBucket(const KernelModel& kernel, const BoundLaunch& bound, KeyLabel label) {
  std::string text;
  for (int parameter : kernel.tuning_key()) {
    const BoundArgument& argument = bound.arguments[parameter];
    absl::StrAppend(&text, text.empty() ? "" : " ", kernel.parameters()[parameter].name, "=",
                    argument.kind == ArgumentKind::kInteger ? label(parameter, argument.integer)
                                                            : PrintValue(ValueOf(argument)));
  }
  text += " |";
  for (const BoundArgument& argument : bound.arguments) AppendElementTypes(argument, &text);
  return text;
}

std::string TuningBucket(const KernelModel& kernel, const BoundLaunch& bound) {
  return TuningBucket(kernel, bound, [](int, int64_t value) { return absl::StrCat(value); });
}

namespace {

// Calls `visit` with every integer argument outside the key.
template <typename Visit>
void VisitOtherIntegers(const KernelModel& kernel, const BoundLaunch& bound, Visit visit) {
  const std::vector<int>& key = kernel.tuning_key();
  for (int i = 0; i < static_cast<int>(bound.arguments.size()); ++i)
    if (bound.arguments[i].kind == ArgumentKind::kInteger && !kernel.parameters()[i].is_constexpr &&
        std::find(key.begin(), key.end(), i) == key.end())
      visit(i, bound.arguments[i].integer);
}

void AppendElementCodes(const BoundArgument& argument, std::string* bytes) {
  if (argument.kind == ArgumentKind::kPointer)
    bytes->push_back(static_cast<char>(1 + static_cast<int>(argument.element)));
  for (const BoundArgument& item : argument.items) AppendElementCodes(item, bytes);
}

}  // namespace

std::string OtherIntegers(const KernelModel& kernel, const BoundLaunch& bound) {
  std::string text;
  VisitOtherIntegers(kernel, bound, [&](int parameter, int64_t value) {
    absl::StrAppend(&text, text.empty() ? "" : " ", kernel.parameters()[parameter].name, "=",
                    value);
  });
  return text;
}

uint64_t HashOtherIntegers(const KernelModel& kernel, const BoundLaunch& bound) {
  uint64_t hash = 1469598103934665603u;
  VisitOtherIntegers(kernel, bound, [&](int, int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  });
  return hash;
}

void AppendTuningSignature(const KernelModel& kernel, const BoundLaunch& bound,
                           std::string* bytes) {
  for (int parameter : kernel.tuning_key()) {
    const BoundArgument& argument = bound.arguments[parameter];
    bytes->push_back(static_cast<char>(argument.kind));
    if (argument.kind == ArgumentKind::kInteger || argument.kind == ArgumentKind::kBoolean) {
      bytes->append(reinterpret_cast<const char*>(&argument.integer), sizeof(argument.integer));
    } else if (argument.kind == ArgumentKind::kReal) {
      bytes->append(reinterpret_cast<const char*>(&argument.real), sizeof(argument.real));
    } else {
      std::string text = PrintValue(ValueOf(argument));
      uint32_t size = static_cast<uint32_t>(text.size());
      bytes->append(reinterpret_cast<const char*>(&size), sizeof(size));
      bytes->append(text);
    }
  }
  bytes->push_back('\0');
  for (const BoundArgument& argument : bound.arguments) AppendElementCodes(argument, bytes);
}

}  // namespace tessera::server
