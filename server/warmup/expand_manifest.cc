#include "server/warmup/expand_manifest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "server/launch/expression.h"
#include "server/launch/recipe.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

// An entry that implies more is a mistake: nobody waits for so many compiles.
constexpr size_t kMaxCombinations = 100000;
constexpr uint64_t kUnaligned = 8;     // a byte offset that is no multiple of 16
constexpr int64_t kOtherInteger = 17;  // neither 1 nor a multiple of 16

// A value of one parameter, or an expression that gives it.
struct Alternative {
  api::Argument argument;
  std::string expression;
};
struct Choice {
  std::string name;
  std::vector<Alternative> alternatives;
  const google::protobuf::Message* at = nullptr;
};

void SetConstant(const api::Constant& constant, bool is_constexpr, api::Argument* argument) {
  if (is_constexpr) {
    *argument->mutable_constant() = constant;
    return;
  }
  switch (constant.kind_case()) {
    case api::Constant::kInteger:
      return argument->set_integer(constant.integer());
    case api::Constant::kUnsignedInteger:
      return argument->set_unsigned_integer(constant.unsigned_integer());
    case api::Constant::kReal:
      return argument->set_real(constant.real());
    case api::Constant::kBoolean:
      return argument->set_boolean(constant.boolean());
    case api::Constant::kTuple:
      argument->mutable_tuple();
      for (const api::Constant& item : constant.tuple().items())
        SetConstant(item, false, argument->mutable_tuple()->add_items());
      return;
    default:
      *argument->mutable_constant() = constant;
  }
}

class PatternReader {
 public:
  // `computed`: an expression or heuristic may look at the values.
  PatternReader(const YamlPlaces& places, const google::protobuf::Message& at, bool is_constexpr,
                bool computed)
      : places_(places), at_(at), is_constexpr_(is_constexpr), computed_(computed) {}

  absl::Status Read(const api::ArgumentPattern& pattern, std::vector<Alternative>* to) {
    size_t before = to->size();
    if (!pattern.text().empty()) RETURN_IF_ERROR(ReadText(pattern.text(), {}, false, to));
    if (!pattern.type().empty() && pattern.values_size() == 0 && !pattern.has_range() &&
        pattern.classes_size() == 0)
      RETURN_IF_ERROR(ReadText(pattern.type(), pattern.aligned(), true, to));
    for (const api::Constant& value : pattern.values()) {
      Alternative& added = to->emplace_back();
      added.argument.set_type(pattern.type());
      SetConstant(value, is_constexpr_, &added.argument);
    }
    if (pattern.has_range()) RETURN_IF_ERROR(ReadRange(pattern, to));
    for (const std::string& name : pattern.classes()) {
      int64_t value;
      if (name == "one")
        value = 1;
      else if (name == "multiple_of_16")
        value = 16;
      else if (name == "other")
        value = kOtherInteger;
      else
        return Bad(
            absl::StrCat("there is no class '", name, "'; there are: one, multiple_of_16, other"));
      AddInteger(value, pattern.type(), to);
    }
    if (!pattern.expression().empty()) to->emplace_back().expression = pattern.expression();
    if (pattern.tuple_size() > 0) RETURN_IF_ERROR(ReadTuple(pattern, to));
    if (pattern.has_tensor_descriptor())
      RETURN_IF_ERROR(ReadDescriptor(pattern.tensor_descriptor(), to));
    for (const api::ArgumentPattern& other : pattern.any_of()) RETURN_IF_ERROR(Read(other, to));
    if (to->size() == before)
      return Bad(
          "a value is expected: a type as in \"*fp16:16\", a number, a list of these, or "
          "type, values, range, classes, aligned, expression, tuple, tensor_descriptor");
    if (to->size() > kMaxCombinations) return Bad("too many values");
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(absl::string_view what) const { return places_.At(at_, what); }

  void AddInteger(int64_t value, const std::string& type, std::vector<Alternative>* to) const {
    Alternative& added = to->emplace_back();
    added.argument.set_type(type == "i32" ? "" : type);
    if (is_constexpr_)
      added.argument.mutable_constant()->set_integer(value);
    else
      added.argument.set_integer(value);
  }

  // "*fp16:16", "i64", "fp32"; for a constexpr parameter the name of a dtype. Pointers without
  // ":16" are aligned only by default of the long form: memory as allocators give it.
  absl::Status ReadText(absl::string_view text,
                        const google::protobuf::RepeatedField<bool>& aligned,
                        bool aligned_by_default, std::vector<Alternative>* to) const {
    if (is_constexpr_) {
      to->emplace_back().argument.mutable_constant()->set_dtype(std::string(text));
      return absl::OkStatus();
    }
    bool pointer = absl::ConsumePrefix(&text, "*");
    if (pointer) absl::ConsumePrefix(&text, "k");
    uint32_t divisor = 1;
    if (size_t colon = text.find(':'); colon != absl::string_view::npos) {
      if (!absl::SimpleAtoi(text.substr(colon + 1), &divisor) ||
          (divisor != 1 && divisor % 16 != 0))
        return Bad(absl::StrCat("'", text.substr(colon),
                                "': only divisibility by 16 makes a "
                                "difference, as in *fp16:16 or i32:16"));
      text = text.substr(0, colon);
    }
    std::string error;
    std::optional<DType> dtype = ParseDType(text, &error);
    if (!dtype) return Bad(error);
    std::string type(ShortName(*dtype));
    bool divisible = divisor % 16 == 0;
    if (pointer) {
      std::vector<bool> kinds(aligned.begin(), aligned.end());
      if (kinds.empty()) kinds = {divisible || aligned_by_default};
      for (bool kind : kinds) {
        api::TensorRef* tensor = to->emplace_back().argument.mutable_tensor();
        tensor->set_dtype(type);
        tensor->set_byte_offset(kind ? 0 : kUnaligned);
      }
      return absl::OkStatus();
    }
    if (*dtype == DType::kInt1) {
      to->emplace_back().argument.set_boolean(true);
      return absl::OkStatus();
    }
    if (IsFloat(*dtype)) {
      Alternative& added = to->emplace_back();
      added.argument.set_real(1.5);
      if (*dtype != DType::kFp32) added.argument.set_type(type);
      return absl::OkStatus();
    }
    AddInteger(divisible ? 16 : kOtherInteger, type, to);
    return absl::OkStatus();
  }

  absl::Status ReadRange(const api::ArgumentPattern& pattern, std::vector<Alternative>* to) const {
    const api::ArgumentPattern::Range& range = pattern.range();
    if (range.to() < range.from())
      return Bad(absl::StrCat("the range from ", range.from(), " to ", range.to(), " is empty"));
    absl::string_view by = range.by();
    std::set<int64_t> values;
    auto every = [&](int64_t first, int64_t step) -> absl::Status {
      if ((range.to() - first) / step > static_cast<int64_t>(kMaxCombinations))
        return Bad("too many values; use by: class or power_of_two");
      for (int64_t v = first; v <= range.to(); v += step)
        if (v >= range.from()) values.insert(v);
      return absl::OkStatus();
    };
    bool all = false;
    if (by.empty() || by == "class") {
      if (is_constexpr_)
        return Bad(
            "each value of a constexpr parameter is a variant of its own: say by: exact, "
            "power_of_two, multiple_of:N or step:N");
    } else if (by == "exact") {
      RETURN_IF_ERROR(every(range.from(), 1));
      all = true;
    } else if (by == "power_of_two") {
      for (int64_t v = 1; v > 0 && v <= range.to(); v *= 2)
        if (v >= range.from()) values.insert(v);
    } else if (by == "edges") {
      for (int64_t edge : range.edges())
        if (edge >= range.from() && edge <= range.to()) values.insert(edge);
    } else if (absl::ConsumePrefix(&by, "multiple_of:") || absl::ConsumePrefix(&by, "step:")) {
      int64_t step = 0;
      if (!absl::SimpleAtoi(by, &step) || step < 1)
        return Bad(absl::StrCat("'", range.by(), "': a positive number is expected"));
      bool multiple = absl::StartsWith(range.by(), "multiple");
      RETURN_IF_ERROR(
          every(multiple ? (range.from() + step - 1) / step * step : range.from(), step));
      all = true;  // the range has no other values
    } else {
      return Bad(absl::StrCat("'", range.by(),
                              "' is no rule; there are: class, exact, power_of_two, multiple_of:N, "
                              "step:N, edges"));
    }
    if (!is_constexpr_ && !all)
      for (int64_t value : ClassRepresentatives(range.from(), range.to(), computed_))
        values.insert(value);
    for (int64_t value : values) AddInteger(value, pattern.type(), to);
    return absl::OkStatus();
  }

  absl::Status ReadTuple(const api::ArgumentPattern& pattern, std::vector<Alternative>* to) {
    std::vector<Alternative> tuples(1);
    tuples[0].argument.mutable_tuple();
    for (const api::ArgumentPattern& item : pattern.tuple()) {
      std::vector<Alternative> items;
      RETURN_IF_ERROR(Read(item, &items));
      std::vector<Alternative> longer;
      if (tuples.size() * items.size() > kMaxCombinations) return Bad("too many values");
      for (const Alternative& tuple : tuples)
        for (const Alternative& next : items) {
          if (!next.expression.empty()) return Bad("expressions do not stand inside tuples");
          longer.push_back(tuple);
          *longer.back().argument.mutable_tuple()->add_items() = next.argument;
        }
      tuples = std::move(longer);
    }
    for (Alternative& tuple : tuples) to->push_back(std::move(tuple));
    return absl::OkStatus();
  }

  absl::Status ReadDescriptor(const api::ArgumentPattern::Descriptor& descriptor,
                              std::vector<Alternative>* to) const {
    std::string error;
    std::optional<DType> dtype = ParseDType(descriptor.type(), &error);
    if (!dtype) return Bad(error);
    api::Argument::Descriptor* made = to->emplace_back().argument.mutable_tensor_descriptor();
    made->mutable_base()->set_dtype(descriptor.type());
    made->set_padding(descriptor.padding());
    for (int i = 0; i < descriptor.block_size(); ++i) {
      made->add_block_shape(descriptor.block(i));
      // Rows of a multiple of 16 bytes, whatever the block is.
      int64_t extent = std::max<int64_t>(descriptor.block(i), 1);
      made->mutable_base()->add_shape(i + 1 == descriptor.block_size() ? (extent + 15) / 16 * 16
                                                                       : extent);
    }
    return absl::OkStatus();
  }

  const YamlPlaces& places_;
  const google::protobuf::Message& at_;
  const bool is_constexpr_, computed_;
};

absl::Status TooMany(const YamlPlaces& places, const google::protobuf::Message& at, size_t count) {
  return Error(absl::StatusCode::kResourceExhausted, "MANIFEST_TOO_LARGE",
               absl::StrCat(places.Place(at), ": this entry implies more than ", kMaxCombinations,
                            " combinations (", count, " and more); narrow its ranges"));
}

// All combinations of the choices, one argument each.
absl::Status Combine(const YamlPlaces& places, const google::protobuf::Message& at,
                     const std::vector<Choice>& choices,
                     std::vector<std::vector<const Alternative*>>* combinations) {
  combinations->assign(1, {});
  for (const Choice& choice : choices) {
    size_t count = combinations->size() * choice.alternatives.size();
    if (count > kMaxCombinations) return TooMany(places, at, count);
    std::vector<std::vector<const Alternative*>> longer;
    longer.reserve(count);
    for (const auto& combination : *combinations)
      for (const Alternative& alternative : choice.alternatives) {
        longer.push_back(combination);
        longer.back().push_back(&alternative);
      }
    *combinations = std::move(longer);
  }
  return absl::OkStatus();
}

std::optional<ExpressionValue> ValueOf(const api::Argument& argument) {
  if (argument.has_integer()) return ExpressionValue::Integer(argument.integer());
  if (argument.has_boolean()) return ExpressionValue::Boolean(argument.boolean());
  if (argument.has_real()) return ExpressionValue::Real(argument.real());
  if (argument.has_constant()) {
    const api::Constant& constant = argument.constant();
    if (constant.has_integer()) return ExpressionValue::Integer(constant.integer());
    if (constant.has_boolean()) return ExpressionValue::Boolean(constant.boolean());
    if (constant.has_real()) return ExpressionValue::Real(constant.real());
    if (constant.has_text()) return ExpressionValue::Text(constant.text());
    if (constant.has_none()) return ExpressionValue::None();
  }
  return ExpressionValue::Opaque();
}

// The value of `text` over named values; integers and booleans alone.
absl::StatusOr<int64_t> EvaluateOver(const std::string& text,
                                     const std::map<std::string, ExpressionValue>& values) {
  std::vector<const ExpressionValue*> used;
  ASSIGN_OR_RETURN(
      Expression expression,
      Expression::Parse(text, [&](absl::string_view name) -> absl::StatusOr<int> {
        auto found = values.find(std::string(name));
        if (found == values.end())
          return absl::InvalidArgumentError(absl::StrCat("'", name, "' has no value here"));
        used.push_back(&found->second);
        return static_cast<int>(used.size()) - 1;
      }));
  ASSIGN_OR_RETURN(ExpressionValue value,
                   expression.Evaluate(
                       [&](int name) -> absl::StatusOr<ExpressionValue> { return *used[name]; }));
  if (!value.integral()) return absl::InvalidArgumentError("gives no integer");
  return value.integer;
}

// One row of `shapes`, over what the entry says of all of them.
using Row = std::vector<const api::NamedPattern*>;

std::vector<Row> RowsOf(const google::protobuf::RepeatedPtrField<api::ShapeRow>& shapes) {
  std::vector<Row> rows;
  for (const api::ShapeRow& shape : shapes) {
    Row row;
    for (const api::NamedPattern& pattern : shape.values()) row.push_back(&pattern);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) rows.emplace_back();
  return rows;
}

std::vector<std::string> DevicesOf(const ParsedManifest& parsed, const std::string& one,
                                   const google::protobuf::RepeatedPtrField<std::string>& several) {
  if (!one.empty()) return {one};
  const auto& list = several.empty() ? parsed.manifest.devices() : several;
  if (list.empty()) return {""};
  return std::vector<std::string>(list.begin(), list.end());
}

template <typename Entry>
bool IsRequired(const ParsedManifest& parsed, const Entry& entry) {
  if (entry.has_required()) return entry.required();
  return parsed.manifest.has_required() ? parsed.manifest.required() : true;
}

// "fp16[M, K]" in its parts; a form without brackets is a scalar tensor.
absl::Status ReadTensorText(absl::string_view text, api::TensorPattern* pattern) {
  size_t open = text.find('[');
  absl::string_view dtype = absl::StripAsciiWhitespace(text.substr(0, open));
  std::string error;
  if (!ParseDType(dtype, &error)) return absl::InvalidArgumentError(error);
  pattern->add_dtypes(std::string(dtype));
  if (open == absl::string_view::npos) return absl::OkStatus();
  absl::string_view inside = text.substr(open + 1);
  if (!absl::ConsumeSuffix(&inside, "]"))
    return absl::InvalidArgumentError("a tensor is written fp16[M, K]");
  for (absl::string_view extent : absl::StrSplit(inside, ','))
    pattern->add_shape(std::string(absl::StripAsciiWhitespace(extent)));
  return absl::OkStatus();
}

absl::StatusOr<api::TensorPattern> ReadTensor(const YamlPlaces& places,
                                              const api::NamedTensor& tensor) {
  api::TensorPattern pattern = tensor.value();
  if (!pattern.text().empty()) {
    absl::Status read = ReadTensorText(pattern.text(), &pattern);
    if (!read.ok()) return places.At(tensor, read.message());
  }
  return pattern;
}

absl::Status FillShape(const YamlPlaces& places, const api::NamedTensor& at,
                       const api::TensorPattern& pattern,
                       const std::map<std::string, ExpressionValue>& values, api::TensorRef* ref) {
  auto evaluate = [&](const std::string& text) -> absl::StatusOr<int64_t> {
    absl::StatusOr<int64_t> value = EvaluateOver(text, values);
    if (!value.ok())
      return places.At(at, absl::StrCat("extent '", text, "': ", value.status().message()));
    return value;
  };
  for (const std::string& text : pattern.shape()) {
    ASSIGN_OR_RETURN(int64_t extent, evaluate(text));
    ref->add_shape(extent);
  }
  for (const std::string& text : pattern.strides()) {
    ASSIGN_OR_RETURN(int64_t stride, evaluate(text));
    ref->add_strides(stride);
  }
  ref->set_is_scalar(pattern.shape_size() == 0);
  return absl::OkStatus();
}

// The launch of the variant that `request` compiles.
std::shared_ptr<const api::LaunchRequest> FirstLaunchOf(
    const api::CompileRequest& request,
    const google::protobuf::RepeatedPtrField<std::string>& grid) {
  auto launch = std::make_shared<api::LaunchRequest>();
  launch->set_module(request.module());
  launch->set_kernel(request.kernel());
  launch->set_device(request.device());
  launch->set_config(request.config());
  *launch->mutable_grid_expressions() = grid;
  *launch->mutable_options() = request.options();
  std::set<std::string> constants;  // they win over arguments
  for (const api::NamedConstant& constant : request.constants()) constants.insert(constant.name());
  for (const api::Argument& argument : request.arguments())
    if (constants.count(argument.name()) == 0) *launch->add_arguments() = argument;
  for (const api::NamedConstant& constant : request.constants()) {
    api::Argument* argument = launch->add_arguments();
    argument->set_name(constant.name());
    *argument->mutable_constant() = constant.value();
  }
  return launch;
}

class KernelExpander {
 public:
  KernelExpander(const ParsedManifest& parsed, const api::ManifestKernel& entry,
                 const storage::KernelDescription& kernel, const std::string& module_id,
                 const TunedConfigs& tuned, std::vector<ManifestItem>* items)
      : parsed_(parsed),
        entry_(entry),
        kernel_(kernel),
        module_id_(module_id),
        tuned_(tuned),
        items_(items) {
    for (const auto& parameter : kernel.parameters())
      constexprs_[parameter.name()] = parameter.is_constexpr();
    computed_ = kernel.heuristics_size() > 0 || kernel.tuning_key_size() > 0;
    auto look = [&](const auto& named) { computed_ |= !named.value().expression().empty(); };
    for (const auto& named : entry.arguments()) look(named);
    for (const auto& row : entry.shapes())
      for (const auto& named : row.values()) look(named);
  }

  absl::Status Expand() {
    for (const Row& row : RowsOf(entry_.shapes())) RETURN_IF_ERROR(ExpandRow(row));
    return absl::OkStatus();
  }

 private:
  absl::Status ExpandRow(const Row& row) {
    std::vector<Choice> choices;
    std::set<std::string> named;
    for (const api::NamedPattern* pattern : row) {
      RETURN_IF_ERROR(AddChoice(*pattern, &choices));
      named.insert(pattern->name());
    }
    for (const api::NamedPattern& pattern : entry_.arguments())
      if (named.insert(pattern.name()).second) RETURN_IF_ERROR(AddChoice(pattern, &choices));
    for (const api::NamedConstant& constant : entry_.constants())
      RETURN_IF_ERROR(CheckParameter(constant.name(), constant));
    std::vector<std::vector<const Alternative*>> combinations;
    RETURN_IF_ERROR(Combine(parsed_.places, entry_, choices, &combinations));
    for (const auto& combination : combinations) {
      api::CompileRequest request;
      request.set_module(module_id_);
      request.set_kernel(entry_.name());
      *request.mutable_signature() = entry_.signature();
      *request.mutable_constants() = entry_.constants();
      *request.mutable_options() = entry_.options();
      RETURN_IF_ERROR(FillArguments(choices, combination, &request));
      RETURN_IF_ERROR(AddItems(std::move(request)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckParameter(const std::string& name, const google::protobuf::Message& at) const {
    if (constexprs_.count(name) > 0) return absl::OkStatus();
    std::string known;
    for (const auto& parameter : kernel_.parameters())
      absl::StrAppend(&known, known.empty() ? "" : ", ", parameter.name());
    return parsed_.places.At(at, absl::StrCat("kernel ", kernel_.name(), " has no parameter '",
                                              name, "'; it has: ", known));
  }

  absl::Status AddChoice(const api::NamedPattern& pattern, std::vector<Choice>* choices) {
    RETURN_IF_ERROR(CheckParameter(pattern.name(), pattern));
    Choice choice;
    choice.name = pattern.name();
    choice.at = &pattern;
    PatternReader reader(parsed_.places, pattern, constexprs_.at(pattern.name()), computed_);
    RETURN_IF_ERROR(reader.Read(pattern.value(), &choice.alternatives));
    choices->push_back(std::move(choice));
    return absl::OkStatus();
  }

  absl::Status FillArguments(const std::vector<Choice>& choices,
                             const std::vector<const Alternative*>& combination,
                             api::CompileRequest* request) const {
    std::map<std::string, ExpressionValue> values;
    for (const api::NamedConstant& constant : request->constants()) {
      api::Argument argument;
      *argument.mutable_constant() = constant.value();
      values[constant.name()] = *ValueOf(argument);
    }
    for (size_t i = 0; i < choices.size(); ++i)
      if (combination[i]->expression.empty())
        values[choices[i].name] = *ValueOf(combination[i]->argument);
    for (size_t i = 0; i < choices.size(); ++i) {
      api::Argument* argument = request->add_arguments();
      *argument = combination[i]->argument;
      argument->set_name(choices[i].name);
      if (combination[i]->expression.empty()) continue;
      absl::StatusOr<int64_t> value = EvaluateOver(combination[i]->expression, values);
      if (!value.ok())
        return parsed_.places.At(*choices[i].at,
                                 absl::StrCat("expression '", combination[i]->expression,
                                              "': ", value.status().message()));
      argument->set_integer(*value);
      if (constexprs_.at(choices[i].name)) argument->mutable_constant()->set_integer(*value);
      values[choices[i].name] = ExpressionValue::Integer(*value);
    }
    return entry_.has_first_launch() ? FillShapes(values, request) : absl::OkStatus();
  }

  // The memory that the first launch needs behind each pointer.
  absl::Status FillShapes(const std::map<std::string, ExpressionValue>& values,
                          api::CompileRequest* request) const {
    std::map<std::string, api::TensorRef*> pointers;
    for (api::Argument& argument : *request->mutable_arguments())
      if (argument.has_tensor()) pointers[argument.name()] = argument.mutable_tensor();
    for (const api::NamedTensor& tensor : entry_.first_launch().tensors()) {
      auto found = pointers.find(tensor.name());
      if (found == pointers.end())
        return parsed_.places.At(
            tensor, absl::StrCat("'", tensor.name(), "' is no pointer among the arguments"));
      ASSIGN_OR_RETURN(api::TensorPattern pattern, ReadTensor(parsed_.places, tensor));
      for (const std::string& dtype : pattern.dtypes())
        if (ParseDType(dtype) != ParseDType(found->second->dtype()))
          return parsed_.places.At(tensor, absl::StrCat("'", tensor.name(), "' points to ",
                                                        found->second->dtype(), ", not ", dtype));
      RETURN_IF_ERROR(FillShape(parsed_.places, tensor, pattern, values, found->second));
      pointers.erase(found);
    }
    if (pointers.empty()) return absl::OkStatus();
    return parsed_.places.At(
        entry_.first_launch(),
        absl::StrCat("a first launch needs the extents of '", pointers.begin()->first, "'"));
  }

  // One item for each device and configuration.
  absl::Status AddItems(api::CompileRequest request) {
    for (const std::string& device : DevicesOf(parsed_, entry_.device(), entry_.devices())) {
      request.set_device(device);
      if (kernel_.configs_size() == 0 && entry_.config() == 0 && entry_.configs_size() == 0) {
        Add(request);
        continue;
      }
      std::vector<std::string> which(entry_.configs().begin(), entry_.configs().end());
      if (entry_.config() != 0) which = {absl::StrCat(entry_.config())};
      if (which.empty()) which = {"tuned"};
      for (const std::string& one : which) RETURN_IF_ERROR(AddConfig(request, one, device));
    }
    return absl::OkStatus();
  }

  absl::Status AddConfig(const api::CompileRequest& request, const std::string& which,
                         const std::string& device) {
    int32_t number = 0;
    if (absl::SimpleAtoi(which, &number)) {
      if (number < 1 || number > kernel_.configs_size())
        return parsed_.places.At(
            entry_, absl::StrCat("kernel ", kernel_.name(), " has ", kernel_.configs_size(),
                                 " configurations; there is no number ", number));
      AddNumbered(request, number);
    } else if (which == "all") {
      for (int i = 1; i <= kernel_.configs_size(); ++i) AddNumbered(request, i);
    } else if (which == "default" || which == "tuned") {
      Add(request);  // what is in force for these arguments
      if (which == "tuned" && !GivesConfigValues(request))
        for (const storage::TuneConfig& config : tuned_(kernel_.name(), module_id_, device))
          AddValues(request, config);
    } else {
      return parsed_.places.At(
          entry_, absl::StrCat("'", which,
                               "' is no configuration; there are: numbers from 1, all, "
                               "default, tuned"));
    }
    return absl::OkStatus();
  }

  bool GivesConfigValues(const api::CompileRequest& request) const {
    if (kernel_.configs_size() == 0) return true;
    for (const auto& value : kernel_.configs(0).values())
      for (const api::NamedConstant& given : request.constants())
        if (given.name() == value.name()) return true;
    return false;
  }

  void AddNumbered(api::CompileRequest request, int number) {
    request.set_config(number);
    Add(request);
  }

  void AddValues(api::CompileRequest request, const storage::TuneConfig& config) {
    for (const storage::NamedConstant& value : config.values()) {
      api::NamedConstant* constant = request.add_constants();
      constant->set_name(value.name());
      ToWire(value.value(), constant->mutable_value());
    }
    api::Options options;
    ToWire(config.options(), &options);
    // What the entry says wins, as in a launch.
    options.MergeFrom(request.options());
    *request.mutable_options() = options;
    Add(request);
  }

  void Add(const api::CompileRequest& request) {
    ManifestItem& item = items_->emplace_back();
    item.where = parsed_.places.Line(entry_);
    item.request = request;
    item.required = IsRequired(parsed_, entry_);
    if (entry_.has_first_launch())
      item.first_launch = FirstLaunchOf(request, entry_.first_launch().grid());
  }

  const ParsedManifest& parsed_;
  const api::ManifestKernel& entry_;
  const storage::KernelDescription& kernel_;
  const std::string& module_id_;
  const TunedConfigs& tuned_;
  std::vector<ManifestItem>* const items_;
  std::map<std::string, bool> constexprs_;
  bool computed_ = false;
};

class OpExpander {
 public:
  OpExpander(const ParsedManifest& parsed, const api::ManifestOp& entry, const OpCatalog& catalog,
             const std::string& module_id, std::vector<ManifestItem>* items)
      : parsed_(parsed), entry_(entry), catalog_(catalog), module_id_(module_id), items_(items) {}

  absl::Status Expand() {
    for (const api::NamedTensor& tensor : entry_.tensors()) {
      ASSIGN_OR_RETURN(api::TensorPattern pattern, ReadTensor(parsed_.places, tensor));
      tensors_.emplace_back(&tensor, std::move(pattern));
    }
    for (const Row& row : RowsOf(entry_.shapes())) RETURN_IF_ERROR(ExpandRow(row));
    return absl::OkStatus();
  }

 private:
  absl::Status ExpandRow(const Row& row) {
    std::vector<Choice> choices;
    auto add = [&](const std::string& name, const google::protobuf::Message& at) -> Choice& {
      Choice& choice = choices.emplace_back();
      choice.name = name;
      choice.at = &at;
      return choice;
    };
    for (const api::NamedPattern* pattern : row) {
      // Extents reach the kernel through arithmetic of the op's own.
      PatternReader reader(parsed_.places, *pattern, false, true);
      RETURN_IF_ERROR(reader.Read(pattern->value(), &add(pattern->name(), *pattern).alternatives));
    }
    size_t names = choices.size();
    for (const api::NamedPattern& attribute : entry_.attributes()) {
      PatternReader reader(parsed_.places, attribute, true, false);
      RETURN_IF_ERROR(
          reader.Read(attribute.value(), &add(attribute.name(), attribute).alternatives));
    }
    size_t attributes = choices.size();
    for (const auto& [tensor, pattern] : tensors_) {
      Choice& dtypes = add(tensor->name(), *tensor);
      for (const std::string& dtype : pattern.dtypes()) {
        std::vector<bool> aligned(pattern.aligned().begin(), pattern.aligned().end());
        if (aligned.empty()) aligned = {true};
        for (bool one : aligned) {
          api::TensorRef* ref = dtypes.alternatives.emplace_back().argument.mutable_tensor();
          ref->set_dtype(dtype);
          ref->set_byte_offset(one ? 0 : kUnaligned);
        }
      }
    }
    std::vector<std::vector<const Alternative*>> combinations;
    RETURN_IF_ERROR(Combine(parsed_.places, entry_, choices, &combinations));
    size_t failed = 0;
    absl::Status first;
    for (const auto& combination : combinations) {
      std::map<std::string, ExpressionValue> values;
      for (size_t i = 0; i < names; ++i)
        values[choices[i].name] = *ValueOf(combination[i]->argument);
      api::LaunchOpRequest request;
      request.set_op(entry_.op());
      for (size_t i = names; i < attributes; ++i) {
        api::NamedConstant* attribute = request.add_attributes();
        attribute->set_name(choices[i].name);
        *attribute->mutable_value() = combination[i]->argument.constant();
      }
      for (size_t t = 0; t < tensors_.size(); ++t) {
        api::Argument* tensor = request.add_tensors();
        *tensor = combination[attributes + t]->argument;
        tensor->set_name(tensors_[t].first->name());
        RETURN_IF_ERROR(FillShape(parsed_.places, *tensors_[t].first, tensors_[t].second, values,
                                  tensor->mutable_tensor()));
      }
      // Of several dtypes and attributes not all need fit together; one must.
      if (absl::Status planned = AddPlan(request); !planned.ok()) {
        if (failed++ == 0) first = planned;
      }
    }
    if (failed == combinations.size() && failed > 0)
      return parsed_.places.At(entry_, first.message());
    return absl::OkStatus();
  }

  absl::Status AddPlan(const api::LaunchOpRequest& request) {
    ASSIGN_OR_RETURN(api::LaunchRequest launch, catalog_.Plan(request));
    for (const std::string& device : DevicesOf(parsed_, entry_.device(), entry_.devices())) {
      ManifestItem item;
      item.where = parsed_.places.Line(entry_);
      item.required = IsRequired(parsed_, entry_);
      item.request.set_module(module_id_);
      item.request.set_kernel(launch.kernel());
      item.request.set_device(device);
      *item.request.mutable_arguments() = launch.arguments();
      *item.request.mutable_options() = launch.options();
      if (entry_.first_launch()) {
        auto first = std::make_shared<api::LaunchRequest>(launch);
        first->set_module(module_id_);
        first->set_device(device);
        item.first_launch = std::move(first);
      }
      items_->push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  const ParsedManifest& parsed_;
  const api::ManifestOp& entry_;
  const OpCatalog& catalog_;
  const std::string& module_id_;
  std::vector<ManifestItem>* const items_;
  std::vector<std::pair<const api::NamedTensor*, api::TensorPattern>> tensors_;
};

}  // namespace

std::vector<int64_t> ClassRepresentatives(int64_t from, int64_t to, bool beyond_classes) {
  std::set<int64_t> values;
  auto add = [&](int64_t value) {
    if (value >= from && value <= to) values.insert(value);
  };
  auto first_multiple = [&](int64_t of) {
    int64_t least = std::max<int64_t>(from, 2);
    return (least + of - 1) / of * of;
  };
  add(1);
  if (from <= 0) add(0);
  if (from < 0) add(from % 16 == 0 ? from + 1 : from);
  add(first_multiple(16));
  int64_t other = std::max<int64_t>(from, 2);
  add(other % 16 == 0 ? other + 1 : other);
  if (beyond_classes) {
    for (int64_t residue = 0; residue < 16; ++residue) add(std::max<int64_t>(from, 2) + residue);
    for (int64_t power = 32; power <= 256; power *= 2) add(first_multiple(power));
    add(to);
  }
  // Beyond 32 bits an integer has another type.
  constexpr int64_t kFirst64 = int64_t{1} << 31;
  if (to >= kFirst64) {
    add(std::max(from, kFirst64));
    add(std::max(from, kFirst64) + 1);
  }
  return {values.begin(), values.end()};
}

absl::Status ExpandKernel(const ParsedManifest& parsed, const api::ManifestKernel& entry,
                          const storage::KernelDescription& kernel, const std::string& module_id,
                          const TunedConfigs& tuned, std::vector<ManifestItem>* items) {
  return KernelExpander(parsed, entry, kernel, module_id, tuned, items).Expand();
}

absl::Status ExpandOp(const ParsedManifest& parsed, const api::ManifestOp& entry,
                      const OpCatalog& catalog, const std::string& module_id,
                      std::vector<ManifestItem>* items) {
  return OpExpander(parsed, entry, catalog, module_id, items).Expand();
}

}  // namespace tessera::server
