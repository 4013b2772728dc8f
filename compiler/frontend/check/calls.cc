// Calls: binding of arguments, inlining of jit functions, dispatch to builtins and methods.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/frontend/check/builtins.h"
#include "compiler/frontend/check/emitter.h"
#include "base/check.h"
#include "compiler/frontend/check/suggest.h"

namespace tessera::frontend {

const Arguments::Entry& Arguments::Find(absl::string_view name) const {
  auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  TESSERA_CHECK(it != entries.end(), "a builtin asks for a parameter that it does not declare");
  return *it;
}

bool Emitter::EvaluateArguments(const Expr& call, std::vector<CallArgument>* arguments) {
  for (const ExprPtr& item : call.items) {
    if (item->kind != ExprKind::kStarred) {
      arguments->push_back({"", Evaluate(*item), item->range});
    } else {
      Value tuple = Evaluate(*item->a);
      if (!failed_ && !tuple.is_tuple()) {
        Error(item->range, absl::StrCat("'*' unpacks tuples, not ", Describe(tuple)));
      }
      if (failed_) return false;
      for (const Value& value : *tuple.items) arguments->push_back({"", value, item->range});
    }
    if (failed_) return false;
  }
  for (const Keyword& keyword : call.keywords) {
    if (keyword.name.empty()) {
      Error(keyword.range, "'**' arguments are not part of the kernel language");
      return false;
    }
    arguments->push_back({keyword.name, Evaluate(*keyword.value), keyword.value->range});
    if (failed_) return false;
  }
  return true;
}

Value Emitter::CallExpr(const Expr& e) {
  Value callee = Evaluate(*e.a);
  std::vector<CallArgument> arguments;
  if (failed_ || !EvaluateArguments(e, &arguments)) return {};
  return Call(callee, std::move(arguments), e.range);
}

Value Emitter::Call(const Value& callee, std::vector<CallArgument> arguments, SourceRange call) {
  if (failed_) return {};
  At at(*this, call);
  if (callee.kind == Value::Kind::kMethod)
    return CallMethod((*callee.items)[0], callee.constant.text, std::move(arguments), call);
  if (callee.is_constant()) {
    const Constant& c = callee.constant;
    switch (c.kind) {
      case ConstantKind::kFunction:
        switch (c.function->kind) {
          case Function::Kind::kJit: return Inline(*c.function, std::move(arguments), call);
          case Function::Kind::kConstexpr: return CallCompileTime(c, arguments, call);
          case Function::Kind::kHost:
            Error(absl::StrCat("'", c.function->name, "' is a plain Python function; kernels call functions marked ",
                               "@triton.jit or @triton.constexpr_function"));
            Note(c.function->definition->range, "defined here");
            return {};
          case Function::Kind::kForeign:
            return Error(absl::StrCat("'", c.function->name, "' is written for another dialect than @triton.jit"));
        }
        return {};
      case ConstantKind::kBuiltin:
        if (absl::StartsWith(c.text, "namedtuple:")) return Construct(c.text, std::move(arguments), call);
        return CallBuiltin(c.text, std::move(arguments), call);
      case ConstantKind::kLambda: return CallCompileTime(c, arguments, call);
      case ConstantKind::kModule:
        if (absl::StartsWith(c.text, "class:")) return Construct(c.text, std::move(arguments), call);
        break;
      case ConstantKind::kDType:  // tl.float32(0.0): a conversion
        if (arguments.size() == 1) return Cast(arguments[0].value, {c.dtype, false});
        return Error(absl::StrCat(Repr(c), " converts one value"));
      case ConstantKind::kExternal:
        return Error(absl::StrCat("'", c.text, "' is defined outside of this module; submit its file too"));
      default: break;
    }
  }
  return Error(absl::StrCat(Describe(callee), " cannot be called"));
}

Value Emitter::CallCompileTime(const Constant& callee, const std::vector<CallArgument>& arguments, SourceRange call) {
  std::vector<Constant> positional;
  NamedConstants named;
  for (const CallArgument& argument : arguments) {
    std::optional<Constant> constant = ToConstant(argument.value);
    if (!constant)
      return Error(argument.range, absl::StrCat("this is evaluated at compile time and takes constants, not ",
                                                Describe(argument.value)));
    if (argument.name.empty())
      positional.push_back(*constant);
    else
      named.emplace_back(argument.name, *constant);
  }
  if (callee.is(ConstantKind::kBuiltin)) {
    std::string error;
    std::optional<Constant> result = frontend::CallBuiltin(callee.text, positional, named, &error);
    return result ? Value::Of(*result) : Error(error);
  }
  std::optional<Constant> result = evaluator_.Call(callee, positional, named, call);
  if (result) return Value::Of(*result);
  Error(call, evaluator_.error().message);
  if (evaluator_.error().range.line > 0 && evaluator_.error().range.line != call.line)
    Note(evaluator_.error().range, "while this was evaluated");
  return {};
}

//===-- jit functions -------------------------------------------------------------------------------===//

Value Emitter::Inline(const Function& function, std::vector<CallArgument> arguments, SourceRange call,
                      const std::string& result_parameter) {
  const std::vector<FunctionParameter>& parameters = function.definition->parameters;
  if (int(frames_.size()) > limits_.call_depth)
    return Error(absl::StrCat("calls are nested more than ", limits_.call_depth, " deep"));
  for (const Frame& frame : frames_)
    if (frame.function == &function)
      return Error(absl::StrCat("'", function.name, "' calls itself; recursion is not part of the kernel language"));

  std::vector<const CallArgument*> bound(parameters.size());
  size_t position = 0;
  for (const CallArgument& argument : arguments) {
    size_t slot = position;
    if (argument.name.empty()) {
      ++position;
      if (slot >= parameters.size() || parameters[slot].keyword_only || parameters[slot].is_star) {
        Error(argument.range, absl::StrCat("'", function.name, "' takes ", parameters.size(), " argument(s), but more are given"));
        Note(function.definition->range, "defined here");
        return {};
      }
    } else {
      slot = std::find_if(parameters.begin(), parameters.end(),
                          [&](const FunctionParameter& p) { return p.name == argument.name; }) - parameters.begin();
      if (slot == parameters.size()) {
        std::vector<std::string> known;
        for (const FunctionParameter& p : parameters) known.push_back(p.name);
        Error(argument.range, absl::StrCat("'", function.name, "' has no parameter '", argument.name, "'",
                                           DidYouMean(argument.name, known)));
        Note(function.definition->range, "defined here");
        return {};
      }
    }
    if (bound[slot])
      return Error(argument.range, absl::StrCat("parameter '", parameters[slot].name, "' is given twice"));
    bound[slot] = &argument;
  }

  Frame frame{&function, call, {}, 0, 0};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const FunctionParameter& parameter = parameters[i];
    if (parameter.is_star || parameter.is_double_star)
      return Error(absl::StrCat("'", function.name, "' has a '", parameter.is_star ? "*" : "**", parameter.name,
                                "' parameter, which is not part of the kernel language"));
    Value value;
    SourceRange place = parameter.range;
    if (bound[i]) {
      value = bound[i]->value;
      place = bound[i]->range;
    } else if (parameter.default_value) {
      std::optional<Constant> constant = evaluator_.Evaluate(*parameter.default_value, *function.scope);
      if (!constant) return Error(evaluator_.error().range, evaluator_.error().message);
      value = Value::Of(*constant);
    } else {
      Error(absl::StrCat("'", function.name, "' misses its argument '", parameter.name, "'"));
      Note(parameter.range, "declared here");
      return {};
    }
    frame.names.bound[parameter.name] = {std::move(value), place, false};
  }
  frames_.push_back(std::move(frame));
  Flow flow = Statements({&function.definition->body, 0, nullptr}, /*tail=*/true);
  Value result = flow.value;
  if (!failed_ && !result_parameter.empty()) {
    auto it = names().bound.find(result_parameter);
    result = it == names().bound.end() ? Value() : it->second.value;
  }
  frames_.pop_back();
  return failed_ ? Value() : result;
}

Value Emitter::CallFunction(const Value& function, const std::vector<Value>& values) {
  std::vector<CallArgument> arguments;
  for (const Value& value : values) arguments.push_back({"", value, at_});
  return Call(function, std::move(arguments), at_);
}

//===-- builtins ------------------------------------------------------------------------------------===//

Value Emitter::CallBuiltin(const std::string& name, std::vector<CallArgument> arguments, SourceRange call) {
  bool constant = std::all_of(arguments.begin(), arguments.end(),
                              [](const CallArgument& a) { return ToConstant(a.value).has_value(); });
  if (constant && name != "isinstance" && IsCompileTimeBuiltin(name)) return CallCompileTime(Constant::Builtin(name), arguments, call);
  const Builtin* builtin = FindBuiltin(name);
  if (!builtin) {
    if (IsCompileTimeBuiltin(name)) return CallCompileTime(Constant::Builtin(name), arguments, call);  // reports
    return Error(UnknownFunction(name));
  }
  Arguments result;
  result.call = call;
  result.function = builtin->name;
  for (const BuiltinParameter& parameter : builtin->parameters)
    result.entries.push_back({parameter.name, Value::Of(parameter.default_value), call, false});
  size_t position = 0;
  std::vector<Value> star_items;
  for (const CallArgument& argument : arguments) {
    size_t slot = position;
    if (argument.name.empty()) {
      if (slot < builtin->parameters.size() && builtin->parameters[slot].star) {
        star_items.push_back(argument.value);
        result.entries[slot].given = true;
        continue;
      }
      ++position;
    } else {
      slot = std::find_if(builtin->parameters.begin(), builtin->parameters.end(),
                          [&](const BuiltinParameter& p) { return p.name == argument.name; }) -
             builtin->parameters.begin();
    }
    if (slot >= builtin->parameters.size()) {
      if (argument.name.empty())
        return Error(argument.range, absl::StrCat(name, " takes at most ", builtin->parameters.size(), " argument(s)"));
      std::string accepted;
      for (const BuiltinParameter& p : builtin->parameters) absl::StrAppend(&accepted, accepted.empty() ? "" : ", ", p.name);
      return Error(argument.range,
                   absl::StrCat(name, " has no parameter '", argument.name, "'; it takes ", accepted));
    }
    if (result.entries[slot].given)
      return Error(argument.range, absl::StrCat("parameter '", builtin->parameters[slot].name, "' is given twice"));
    result.entries[slot].value = argument.value;
    result.entries[slot].range = argument.range;
    result.entries[slot].given = true;
  }
  for (size_t i = 0; i < builtin->parameters.size(); ++i) {
    const BuiltinParameter& parameter = builtin->parameters[i];
    if (parameter.star) result.entries[i].value = Value::Tuple(star_items);
    if (parameter.required && !result.entries[i].given)
      return Error(absl::StrCat(name, " misses its argument '", parameter.name, "'"));
  }
  return builtin->emit(*this, result);
}

Value Emitter::CallMethod(const Value& self, const std::string& name, std::vector<CallArgument> arguments,
                          SourceRange call) {
  using Kind = Value::Kind;
  if (name == "is_block" || name == "is_ptr") {
    Type type = self.kind == Kind::kType ? self.type
                                         : Type{{self.constant.dtype, self.is_constant(ConstantKind::kPointerType)}, {}};
    bool result = name == "is_block" ? type.is_block() : type.element.pointer && !type.is_block();
    if (self.is_pointer_to_block) result = name == "is_ptr";
    return Value::Of(Constant::Bool(result));
  }
  if (self.is_tuple() && self.of_class) {
    std::shared_ptr<const Class> keep = self.of_class;  // `self` may live in a frame that goes
    arguments.insert(arguments.begin(), {"", self, call});
    return Inline(keep->methods.at(name), std::move(arguments), call);
  }
  if (self.is_constant() && !self.is_number()) {  // strings, dtypes
    std::vector<Constant> positional;
    NamedConstants named;
    for (const CallArgument& argument : arguments) {
      std::optional<Constant> constant = ToConstant(argument.value);
      if (!constant) return Error(argument.range, absl::StrCat("'", name, "' takes compile-time values here"));
      if (argument.name.empty())
        positional.push_back(*constant);
      else
        named.emplace_back(argument.name, *constant);
    }
    std::string error;
    std::optional<Constant> result = frontend::CallMethod(self.constant, name, positional, named, &error);
    return result ? Value::Of(*result) : Error(error);
  }
  std::string function = absl::StrCat("tl.", name == "to" ? "cast" : name);
  if (self.kind == Kind::kDescriptor) {
    function = absl::StrCat("descriptor.", name);
    if (!FindBuiltin(function))
      return Error(absl::StrCat("a tensor descriptor has no method '", name, "'; it has load, store, gather, scatter"));
  }
  arguments.insert(arguments.begin(), {"", self, call});
  return CallBuiltin(function, std::move(arguments), call);
}

//===-- reading arguments -----------------------------------------------------------------------------===//

std::optional<int64_t> Emitter::ConstantInt(const Value& value, absl::string_view what) {
  if (value.is_constant() && value.constant.is_integral()) {
    Integer integer = value.constant.as_integer();
    if (integer >= INT64_MIN && integer <= INT64_MAX) return int64_t(integer);
  }
  Error(absl::StrCat(what, " must be an integer known at compile time, not ", Describe(value),
                     value.is_tensor() ? "; declare it as tl.constexpr (an assignment makes a runtime value)" : ""));
  return std::nullopt;
}

std::optional<int64_t> Emitter::ConstantInt(const Arguments& arguments, absl::string_view name) {
  At at(*this, arguments.Range(name));
  return ConstantInt(arguments[name], absl::StrCat("'", name, "'"));
}

std::optional<bool> Emitter::ConstantBool(const Arguments& arguments, absl::string_view name) {
  At at(*this, arguments.Range(name));
  const Value& value = arguments[name];
  std::string error;
  if (value.is_constant())
    if (std::optional<bool> truth = Truth(value.constant, &error)) return truth;
  Error(absl::StrCat("'", name, "' must be True or False at compile time, not ", Describe(value)));
  return std::nullopt;
}

std::optional<std::string> Emitter::ConstantString(const Arguments& arguments, absl::string_view name) {
  const Value& value = arguments[name];
  if (value.is_none()) return "";
  if (value.is_constant(ConstantKind::kString)) return value.constant.text;
  if (value.is_constant(ConstantKind::kBuiltin)) return value.constant.text;  // an enumerator
  Error(arguments.Range(name), absl::StrCat("'", name, "' must be a string at compile time, not ", Describe(value)));
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Emitter::ConstantInts(const Value& value, absl::string_view what) {
  std::vector<int64_t> result;
  if (!value.is_tuple()) {
    std::optional<int64_t> one = ConstantInt(value, what);
    if (!one) return std::nullopt;
    return std::vector<int64_t>{*one};
  }
  for (const Value& item : *value.items) {
    std::optional<int64_t> one = ConstantInt(item, what);
    if (!one) return std::nullopt;
    result.push_back(*one);
  }
  return result;
}

std::optional<Shape> Emitter::BlockShape(const Arguments& arguments, absl::string_view name) {
  At at(*this, arguments.Range(name));
  std::optional<std::vector<int64_t>> shape = ConstantInts(arguments[name], "a block dimension");
  if (!shape) return std::nullopt;
  if (std::string why = CheckBlockShape(*shape); !why.empty()) {
    Error(why);
    return std::nullopt;
  }
  return shape;
}

std::optional<ElementType> Emitter::ElementTypeOf(const Value& value, absl::string_view what) {
  if (value.kind == Value::Kind::kType) return value.type.element;
  if (value.is_constant(ConstantKind::kDType)) return ElementType{value.constant.dtype, false};
  if (value.is_constant(ConstantKind::kPointerType)) return ElementType{value.constant.dtype, true};
  Error(absl::StrCat(what, " must be a type such as tl.float32, not ", Describe(value)));
  return std::nullopt;
}

std::optional<int> Emitter::Axis(const Value& axis, size_t rank, absl::string_view what) {
  std::optional<int64_t> i = ConstantInt(axis, what);
  if (!i) return std::nullopt;
  if (*i < -int64_t(rank) || *i >= int64_t(rank)) {
    Error(absl::StrCat(what, " is ", *i, ", but the block has ", rank, rank == 1 ? " dimension" : " dimensions"));
    return std::nullopt;
  }
  return int(*i < 0 ? *i + int64_t(rank) : *i);
}

}  // namespace tessera::frontend
