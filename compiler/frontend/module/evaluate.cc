// The evaluator: expressions, and the statements of host functions.
#include "compiler/frontend/module/evaluate.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/frontend/parse/printer.h"

namespace tessera::frontend {
namespace {

// Evaluations in progress inside one another on this thread, over all Evaluators: names evaluate other names.
constexpr int kMaxNesting = 1200;
thread_local int nesting = 0;

class Nesting {
 public:
  Nesting() { ++nesting; }
  ~Nesting() { --nesting; }
  bool too_deep() const { return nesting > kMaxNesting; }
};

// Local variables of a function, lambda or comprehension.
class Frame : public Environment, public std::enable_shared_from_this<Frame> {
 public:
  explicit Frame(std::shared_ptr<const Environment> outer) : outer_(std::move(outer)) {}
  void Set(const std::string& name, Constant value) { values_[name] = std::move(value); }
  Lookup Find(absl::string_view name) const override {
    auto found = values_.find(std::string(name));
    if (found != values_.end()) return Lookup::Found(found->second);
    return outer_ ? outer_->Find(name) : Lookup{};
  }

 private:
  std::shared_ptr<const Environment> outer_;
  std::map<std::string, Constant> values_;
};

// Points at an environment that somebody else owns.
std::shared_ptr<const Environment> Borrow(const Environment& environment) {
  if (const auto* frame = dynamic_cast<const Frame*>(&environment))
    if (std::shared_ptr<const Frame> owned = frame->weak_from_this().lock()) return owned;
  return std::shared_ptr<const Environment>(std::shared_ptr<const Environment>(), &environment);
}

const char* WhatIs(ExprKind kind) {
  switch (kind) {
    case ExprKind::kEllipsis: return "'...'";
    case ExprKind::kSlice: return "a slice";
    case ExprKind::kStarred: return "a starred expression";
    default: return "this expression";
  }
}

}  // namespace

using Value = std::optional<Constant>;
using Values = std::vector<Constant>;

class Interpreter {
 public:
  explicit Interpreter(Evaluator* evaluator) : e_(*evaluator) {}

  Value Evaluate(const Expr& x, const Environment& env) {
    Nesting nested;
    if (nested.too_deep()) return Fail(x.range, "the evaluation is nested too deeply");
    if (!Step(x.range)) return std::nullopt;
    switch (x.kind) {
      case ExprKind::kName: return Name(x, env);
      case ExprKind::kInteger:
        if (x.integer_overflow) return Fail(x.range, "the integer does not fit in 64 bits");
        return Constant::Int(x.integer);
      case ExprKind::kFloat: return Constant::Float(x.real);
      case ExprKind::kString: return Constant::String(x.text);
      case ExprKind::kFString: return FString(x, env);
      case ExprKind::kBool: return Constant::Bool(x.boolean);
      case ExprKind::kNone: return Constant::None();
      case ExprKind::kTuple: case ExprKind::kList: return Display(x, env);
      case ExprKind::kDict: return Dict(x, env);
      case ExprKind::kUnary: return Unary(x, env);
      case ExprKind::kBinary: return Binary(x, env);
      case ExprKind::kBoolOp: return BoolOp(x, env);
      case ExprKind::kCompare: return Compare(x, env);
      case ExprKind::kConditional: return Conditional(x, env);
      case ExprKind::kCall: return CallExpr(x, env);
      case ExprKind::kAttribute: return Attribute(x, env);
      case ExprKind::kSubscript: return Subscript(x, env);
      case ExprKind::kLambda: return Lambda(x, env);
      case ExprKind::kComprehension: return Comprehension(x, env);
      case ExprKind::kOpaque: return Fail(x.range, absl::StrCat(x.text, " cannot be evaluated at compile time"));
      default: return Fail(x.range, absl::StrCat(WhatIs(x.kind), " has no value here"));
    }
  }

  Value Call(const Constant& callee, const Values& arguments, const NamedConstants& keywords, SourceRange call) {
    switch (callee.kind) {
      case ConstantKind::kBuiltin: case ConstantKind::kExternal: return CallByName(callee, arguments, keywords, call);
      case ConstantKind::kLambda: return CallLambda(callee, arguments, keywords, call);
      case ConstantKind::kFunction: return CallFunction(*callee.function, arguments, keywords, call);
      default: return Fail(call, absl::StrCat(KindName(callee), " is not callable"));
    }
  }

  // Runs `statement`; the final value of `name` in the frame it ran in.
  Value Run(const Stmt& statement, const std::string& name, Value before, const Environment& env) {
    auto frame = std::make_shared<Frame>(Borrow(env));
    if (before) frame->Set(name, *before);
    Value returned;
    if (Execute(statement, frame.get(), &returned) == Flow::kError) return std::nullopt;
    Lookup after = frame->Find(name);
    if (!after.found()) return Fail(statement.range, absl::StrCat("'", name, "' has no value after this statement"));
    return after.value;
  }

 private:
  enum class Flow { kNext, kReturn, kBreak, kContinue, kError };

  std::nullopt_t Fail(const SourceRange& range, std::string message) {
    e_.error_ = {range, std::move(message)};
    return std::nullopt;
  }

  bool Step(const SourceRange& range, int64_t steps = 1) {
    e_.limits_.steps -= steps;
    if (e_.limits_.steps >= 0) return true;
    Fail(range, "the evaluation takes too many steps");
    return false;
  }

  // Pays for the elements of a new list or string.
  Value Made(Value value, const SourceRange& range) {
    if (!value) return value;
    size_t size = value->items ? value->items->size() : value->text.size() / 16;
    e_.limits_.elements -= static_cast<int64_t>(size);
    if (e_.limits_.elements < 0) return Fail(range, "the lists of this evaluation are too long");
    return value;
  }

  Value Checked(Value value, const std::string& error, const SourceRange& range) {
    if (!value) return Fail(range, error);
    return Made(std::move(value), range);
  }

  //===-- expressions --------------------------------------------------------------------------===//

  Value Name(const Expr& x, const Environment& env) { return FromLookup(env.Find(x.text), x.text, x.range); }

  Value FromLookup(const Lookup& found, absl::string_view name, const SourceRange& range) {
    switch (found.outcome) {
      case Lookup::Outcome::kFound: return found.value;
      case Lookup::Outcome::kUndefined: return Fail(range, absl::StrCat("name '", name, "' is not defined"));
      case Lookup::Outcome::kNotConstant: break;
    }
    std::string where = found.reason_range.line > 0 ? absl::StrCat(" (line ", found.reason_range.line, ")") : "";
    return Fail(range, absl::StrCat("'", name, "' is not known at compile time: ", found.reason, where));
  }

  Value FString(const Expr& x, const Environment& env) {
    std::string text;
    for (const ExprPtr& part : x.items) {
      Value value = Evaluate(*part, env);
      if (!value) return std::nullopt;
      text += value->is(ConstantKind::kString) ? value->text : Repr(*value);
      if (text.size() > 1'000'000) return Fail(x.range, "the string is too long");
    }
    return Made(Constant::String(std::move(text)), x.range);
  }

  // Appends the value of an element of a display or call; `*x` appends all of x.
  bool Append(const Expr& x, const Environment& env, Values* out) {
    Value value = Evaluate(x.kind == ExprKind::kStarred ? *x.a : x, env);
    if (!value) return false;
    if (x.kind != ExprKind::kStarred) {
      out->push_back(*std::move(value));
      return true;
    }
    std::string error;
    std::optional<Values> elements = Elements(*value, &error);
    if (!elements) {
      Fail(x.range, error);
      return false;
    }
    if (!Step(x.range, static_cast<int64_t>(elements->size()))) return false;
    out->insert(out->end(), elements->begin(), elements->end());
    return true;
  }

  Value Display(const Expr& x, const Environment& env) {
    Values items;
    for (const ExprPtr& item : x.items)
      if (!Append(*item, env, &items)) return std::nullopt;
    return Made(x.kind == ExprKind::kTuple ? Constant::Tuple(std::move(items)) : Constant::List(std::move(items)), x.range);
  }

  Value Dict(const Expr& x, const Environment& env) {
    Constant dict = Constant::Dict({});
    std::string error;
    for (size_t i = 0; i + 1 < x.items.size(); i += 2) {
      const Expr& key = *x.items[i];
      Value first = Evaluate(key.kind == ExprKind::kStarred ? *key.a : key, env);
      if (!first) return std::nullopt;
      Constant added = *first;
      if (key.kind != ExprKind::kStarred) {
        Value second = Evaluate(*x.items[i + 1], env);
        if (!second) return std::nullopt;
        added = Constant::Dict({*first, *second});
      }
      if (!CallMethod(dict, "update", {added}, {}, &error)) return Fail(key.range, error);
    }
    return Made(dict, x.range);
  }

  Value Unary(const Expr& x, const Environment& env) {
    if (x.unary == UnaryOp::kNeg && x.a->kind == ExprKind::kInteger && !x.a->integer_overflow) {
      std::string error;
      return Checked(EvaluateUnary(UnaryOp::kNeg, Constant::Int(x.a->integer), &error), error, x.range);
    }
    Value a = Evaluate(*x.a, env);
    if (!a) return std::nullopt;
    std::string error;
    return Checked(EvaluateUnary(x.unary, *a, &error), error, x.range);
  }

  Value Binary(const Expr& x, const Environment& env) {
    Value a = Evaluate(*x.a, env);
    if (!a) return std::nullopt;
    Value b = Evaluate(*x.b, env);
    if (!b) return std::nullopt;
    std::string error;
    return Checked(EvaluateBinary(x.binary, *a, *b, &error), error, x.range);
  }

  std::optional<bool> Condition(const Expr& x, const Environment& env) {
    Value value = Evaluate(x, env);
    if (!value) return std::nullopt;
    std::string error;
    std::optional<bool> truth = Truth(*value, &error);
    if (!truth) Fail(x.range, error);
    return truth;
  }

  Value BoolOp(const Expr& x, const Environment& env) {
    Value value;
    for (size_t i = 0; i < x.items.size(); ++i) {
      value = Evaluate(*x.items[i], env);
      if (!value || i + 1 == x.items.size()) return value;
      std::string error;
      std::optional<bool> truth = Truth(*value, &error);
      if (!truth) return Fail(x.items[i]->range, error);
      if (*truth != x.is_and) return value;
    }
    return value;
  }

  Value Compare(const Expr& x, const Environment& env) {
    Value left = Evaluate(*x.items[0], env);
    Value result;
    for (size_t i = 0; left && i < x.compare_ops.size(); ++i) {
      Value right = Evaluate(*x.items[i + 1], env);
      if (!right) return std::nullopt;
      std::string error;
      result = EvaluateCompare(x.compare_ops[i], *left, *right, &error);
      if (!result) return Fail(x.range, error);
      size_t size = right->items ? right->items->size() : 0;  // `in`
      if (!Step(x.range, static_cast<int64_t>(size))) return std::nullopt;
      if (!result->boolean) return result;
      left = std::move(right);
    }
    return left ? result : std::nullopt;
  }

  Value Conditional(const Expr& x, const Environment& env) {
    std::optional<bool> condition = Condition(*x.a, env);
    if (!condition) return std::nullopt;
    return Evaluate(*condition ? *x.b : *x.c, env);
  }

  Value Attribute(const Expr& x, const Environment& env) {
    Value base = Evaluate(*x.a, env);
    if (!base) return std::nullopt;
    Lookup found = e_.module_.Attribute(*base, x.text);
    if (found.outcome == Lookup::Outcome::kNotConstant && !base->is(ConstantKind::kModule)) return Fail(x.range, found.reason);
    return FromLookup(found, Print(x), x.range);
  }

  Value Subscript(const Expr& x, const Environment& env) {
    Value base = Evaluate(*x.a, env);
    if (!base) return std::nullopt;
    std::string error;
    if (x.b->kind != ExprKind::kSlice) {
      Value index = Evaluate(*x.b, env);
      if (!index) return std::nullopt;
      return Checked(EvaluateSubscript(*base, *index, &error), error, x.range);
    }
    Constant bounds[3];
    const ExprPtr* parts[3] = {&x.b->a, &x.b->b, &x.b->c};
    for (int i = 0; i < 3; ++i) {
      if (!*parts[i]) continue;
      Value bound = Evaluate(**parts[i], env);
      if (!bound) return std::nullopt;
      bounds[i] = *bound;
    }
    return Checked(EvaluateSlice(*base, bounds[0], bounds[1], bounds[2], &error), error, x.range);
  }

  Value Lambda(const Expr& x, const Environment& env) {
    Constant lambda;
    lambda.kind = ConstantKind::kLambda;
    lambda.lambda = &x;
    lambda.scope = Borrow(env);
    return lambda;
  }

  Value Comprehension(const Expr& x, const Environment& env) {
    Values items;
    auto frame = std::make_shared<Frame>(Borrow(env));
    if (!Clause(x, 0, frame.get(), &items)) return std::nullopt;
    if (x.b) {
      Constant dict = Constant::Dict({});
      std::string error;
      for (const Constant& pair : items)
        if (!CallMethod(dict, "update", {pair}, {}, &error)) return Fail(x.range, error);
      return Made(dict, x.range);
    }
    return Made(x.comprehension_bracket == '{' ? Constant::Set(std::move(items)) : Constant::List(std::move(items)), x.range);
  }

  bool Clause(const Expr& x, size_t which, Frame* frame, Values* items) {
    if (which == x.clauses.size()) {
      Value value = Evaluate(*x.a, *frame);
      Value second = value && x.b ? Evaluate(*x.b, *frame) : value;
      if (!second) return false;
      items->push_back(x.b ? Constant::Dict({*value, *second}) : *value);
      return true;
    }
    const ComprehensionClause& clause = x.clauses[which];
    std::optional<Values> elements = Iterate(*clause.iterable, *frame);
    if (!elements) return false;
    for (const Constant& element : *elements) {
      if (!Bind(*clause.target, element, frame)) return false;
      bool wanted = true;
      for (const ExprPtr& condition : clause.conditions) {
        std::optional<bool> truth = Condition(*condition, *frame);
        if (!truth) return false;
        wanted = wanted && *truth;
        if (!wanted) break;
      }
      if (wanted && !Clause(x, which + 1, frame, items)) return false;
    }
    return true;
  }

  std::optional<Values> Iterate(const Expr& x, const Environment& env) {
    Value value = Evaluate(x, env);
    if (!value) return std::nullopt;
    std::string error;
    std::optional<Values> elements = Elements(*value, &error);
    if (!elements) return Fail(x.range, error);
    if (!Step(x.range, static_cast<int64_t>(elements->size()))) return std::nullopt;
    return elements;
  }

  //===-- calls --------------------------------------------------------------------------------===//

  Value CallExpr(const Expr& x, const Environment& env) {
    if (x.a->kind == ExprKind::kAttribute) {
      Value base = Evaluate(*x.a->a, env);
      if (!base) return std::nullopt;
      bool has_methods = !base->is(ConstantKind::kModule) && !base->is(ConstantKind::kExternal) && !base->is(ConstantKind::kFunction) &&
                         !base->is(ConstantKind::kBuiltin);
      if (has_methods) return CallMethodExpr(x, *base, env);
    }
    Value callee = Evaluate(*x.a, env);
    if (!callee) return std::nullopt;
    Values arguments;
    NamedConstants keywords;
    if (!EvaluateArguments(x, env, &arguments, &keywords)) return std::nullopt;
    if (callee->is_builtin("hasattr") || callee->is_builtin("getattr")) return HasGetAttribute(*callee, arguments, x.range);
    return Call(*callee, arguments, keywords, x.range);
  }

  Value CallMethodExpr(const Expr& x, const Constant& base, const Environment& env) {
    Values arguments;
    NamedConstants keywords;
    if (!EvaluateArguments(x, env, &arguments, &keywords)) return std::nullopt;
    int64_t size = base.items ? static_cast<int64_t>(base.items->size()) : 0;
    bool constant_time = x.a->text == "append";
    if (!constant_time && !Step(x.range, size)) return std::nullopt;
    if (--e_.limits_.elements < 0) return Fail(x.range, "the lists of this evaluation are too long");
    if (x.a->text == "sort")
      for (const auto& [name, value] : keywords)
        if (name == "key" && !value.is_none()) return SortByKey(base, value, keywords, x.range);
    std::string error;
    return Checked(CallMethod(base, x.a->text, arguments, keywords, &error), error, x.range);
  }

  bool EvaluateArguments(const Expr& call, const Environment& env, Values* arguments, NamedConstants* keywords) {
    for (const ExprPtr& item : call.items)
      if (!Append(*item, env, arguments)) return false;
    for (const Keyword& keyword : call.keywords) {
      Value value = Evaluate(*keyword.value, env);
      if (!value) return false;
      if (!keyword.name.empty()) {
        keywords->emplace_back(keyword.name, *value);
        continue;
      }
      if (!value->is(ConstantKind::kDict)) {
        Fail(keyword.range, absl::StrCat("'**' needs a dict, not ", KindName(*value)));
        return false;
      }
      for (size_t i = 0; i + 1 < value->items->size(); i += 2) {
        if (!(*value->items)[i].is(ConstantKind::kString)) {
          Fail(keyword.range, "the keys of '**' are strings");
          return false;
        }
        keywords->emplace_back((*value->items)[i].text, (*value->items)[i + 1]);
      }
    }
    return true;
  }

  Value HasGetAttribute(const Constant& callee, const Values& arguments, const SourceRange& range) {
    if (arguments.size() < 2 || !arguments[1].is(ConstantKind::kString)) return Fail(range, absl::StrCat("'", callee.text, "' takes a value and a name"));
    if (arguments[0].is(ConstantKind::kExternal))
      return Fail(range, absl::StrCat("'", arguments[0].text, "' is not part of the module"));
    bool has = e_.module_.HasAttribute(arguments[0], arguments[1].text);
    if (callee.is_builtin("hasattr")) return Constant::Bool(has);
    Lookup found = has || arguments.size() < 3 ? e_.module_.Attribute(arguments[0], arguments[1].text) : Lookup::Found(arguments[2]);
    return FromLookup(found, arguments[1].text, range);
  }

  Value CallByName(const Constant& callee, const Values& arguments, const NamedConstants& keywords, const SourceRange& call) {
    const std::string& name = callee.text;
    for (const auto& [keyword, value] : keywords)
      if (keyword == "key" && !value.is_none() && (name == "sorted" || name == "min" || name == "max")) return WithKey(name, arguments, value, keywords, call);
    if (name == "map" || name == "filter") return MapFilter(name, arguments, call);
    if (name == "functools.partial" || !IsCompileTimeBuiltin(name)) {
      if (callee.is(ConstantKind::kExternal))
        return Fail(call, absl::StrCat("'", name, "' comes from outside the module and cannot be called at compile time"));
      return Fail(call, absl::StrCat("'", name, "' cannot be called at compile time"));
    }
    int64_t cost = 0;
    for (const Constant& argument : arguments)
      if (argument.items) cost += static_cast<int64_t>(argument.items->size());
    if (!Step(call, cost)) return std::nullopt;
    std::string error;
    return Checked(CallBuiltin(name, arguments, keywords, &error), error, call);
  }

  Value MapFilter(const std::string& name, const Values& arguments, const SourceRange& call) {
    if (arguments.size() != 2) return Fail(call, absl::StrCat("'", name, "' takes a function and a list here"));
    std::string error;
    std::optional<Values> elements = Elements(arguments[1], &error);
    if (!elements) return Fail(call, error);
    Values out;
    for (const Constant& element : *elements) {
      Value value = arguments[0].is_none() ? element : Call(arguments[0], {element}, {}, call);
      if (!value) return std::nullopt;
      if (name == "map") {
        out.push_back(*value);
        continue;
      }
      std::optional<bool> keep = Truth(*value, &error);
      if (!keep) return Fail(call, error);
      if (*keep) out.push_back(element);
    }
    return Made(Constant::List(std::move(out)), call);
  }

  // sorted, min and max with a key function: through pairs of key and index.
  Value WithKey(const std::string& name, const Values& arguments, const Constant& key, const NamedConstants& keywords, const SourceRange& call) {
    std::string error;
    Values elements = arguments;
    if (arguments.size() == 1) {
      std::optional<Values> of = Elements(arguments[0], &error);
      if (!of) return Fail(call, error);
      elements = *of;
    }
    Values pairs;
    bool reverse = false;
    for (const auto& [keyword, value] : keywords)
      if (keyword == "reverse") reverse = Truth(value, &error).value_or(false);
    bool from_end = reverse || name == "max";  // ties keep the first
    for (size_t i = 0; i < elements.size(); ++i) {
      Value of = Call(key, {elements[i]}, {}, call);
      if (!of) return std::nullopt;
      Integer index = static_cast<Integer>(i);
      pairs.push_back(Constant::Tuple({*of, Constant::Int(from_end ? -index : index)}));
    }
    auto original = [&](const Constant& pair) {
      Integer index = (*pair.items)[1].integer;
      return elements[static_cast<size_t>(index < 0 ? -index : index)];
    };
    NamedConstants order;
    if (reverse) order.emplace_back("reverse", Constant::Bool(true));
    Value sorted = CallBuiltin(name, {Constant::List(std::move(pairs))}, order, &error);
    if (!sorted) return Fail(call, error);
    if (name != "sorted") return original(*sorted);
    Values out;
    for (const Constant& pair : *sorted->items) out.push_back(original(pair));
    return Made(Constant::List(std::move(out)), call);
  }

  Value SortByKey(const Constant& base, const Constant& key, const NamedConstants& keywords, const SourceRange& call) {
    if (!base.is(ConstantKind::kList)) return Fail(call, absl::StrCat(KindName(base), " has no method 'sort'"));
    Value sorted = WithKey("sorted", {base}, key, keywords, call);
    if (!sorted) return std::nullopt;
    *base.items = *sorted->items;
    return Constant::None();
  }

  Value CallLambda(const Constant& callee, const Values& arguments, const NamedConstants& keywords, const SourceRange& call) {
    const std::vector<std::string>& parameters = callee.lambda->lambda_parameters;
    if (arguments.size() + keywords.size() != parameters.size())
      return Fail(call, absl::StrCat("the lambda takes ", parameters.size(), " arguments, not ", arguments.size() + keywords.size()));
    auto frame = std::make_shared<Frame>(callee.scope);
    for (size_t i = 0; i < arguments.size(); ++i) frame->Set(parameters[i], arguments[i]);
    for (const auto& [name, value] : keywords) {
      if (std::find(parameters.begin() + static_cast<std::ptrdiff_t>(arguments.size()), parameters.end(), name) == parameters.end())
        return Fail(call, absl::StrCat("the lambda has no parameter '", name, "' left"));
      frame->Set(name, value);
    }
    return Evaluate(*callee.lambda->a, *frame);
  }

  Value CallFunction(const Function& function, const Values& arguments, const NamedConstants& keywords, const SourceRange& call) {
    if (function.kind == Function::Kind::kForeign) return Fail(call, absl::StrCat("'", function.name, "' belongs to another dialect"));
    if (function.kind == Function::Kind::kJit) return Fail(call, absl::StrCat("'", function.name, "' is a jit function; it cannot be called at compile time"));
    if (e_.limits_.depth <= 0) return Fail(call, "calls are nested too deeply");
    auto frame = std::make_shared<Frame>(Borrow(*function.scope));
    if (!BindParameters(function, arguments, keywords, call, frame.get())) return std::nullopt;
    --e_.limits_.depth;
    Value returned = Constant::None();
    Flow flow = Execute(function.definition->body, frame.get(), &returned);
    ++e_.limits_.depth;
    if (flow == Flow::kError) return std::nullopt;
    return flow == Flow::kReturn ? returned : Constant::None();
  }

  bool BindParameters(const Function& function, const Values& arguments, const NamedConstants& keywords, const SourceRange& call, Frame* frame) {
    size_t next = 0;
    NamedConstants rest = keywords;
    auto take_keyword = [&rest](const std::string& name) -> Value {
      for (auto it = rest.begin(); it != rest.end(); ++it)
        if (it->first == name) {
          Constant value = it->second;
          rest.erase(it);
          return value;
        }
      return std::nullopt;
    };
    bool takes_any_keyword = false;
    for (const FunctionParameter& p : function.definition->parameters) {
      if (p.is_star) {
        frame->Set(p.name, Constant::Tuple(Values(arguments.begin() + static_cast<std::ptrdiff_t>(std::min(next, arguments.size())), arguments.end())));
        next = arguments.size();
        continue;
      }
      if (p.is_double_star) {
        Constant dict = Constant::Dict({});
        for (const auto& [name, value] : rest) {
          dict.items->push_back(Constant::String(name));
          dict.items->push_back(value);
        }
        frame->Set(p.name, dict);
        takes_any_keyword = true;
        continue;
      }
      Value value;
      if (!p.keyword_only && next < arguments.size()) {
        value = arguments[next++];
      } else if (Value given = take_keyword(p.name)) {
        value = given;
      } else if (p.default_value) {
        value = Evaluate(*p.default_value, *function.scope);
        if (!value) return false;
      } else {
        Fail(call, absl::StrCat("the call of '", function.name, "' lacks the argument '", p.name, "'"));
        return false;
      }
      frame->Set(p.name, *value);
    }
    if (next < arguments.size()) {
      Fail(call, absl::StrCat("'", function.name, "' is called with too many arguments"));
      return false;
    }
    if (!rest.empty() && !takes_any_keyword) {
      Fail(call, absl::StrCat("'", function.name, "' has no parameter '", rest[0].first, "' left"));
      return false;
    }
    return true;
  }

  //===-- statements ---------------------------------------------------------------------------===//

  Flow Error(const SourceRange& range, std::string message) {
    Fail(range, std::move(message));
    return Flow::kError;
  }

  Flow Execute(const std::vector<StmtPtr>& body, Frame* frame, Value* returned) {
    for (const StmtPtr& statement : body) {
      Flow flow = Execute(*statement, frame, returned);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow Execute(const Stmt& s, Frame* frame, Value* returned) {
    Nesting nested;
    if (nested.too_deep()) return Error(s.range, "the evaluation is nested too deeply");
    if (!Step(s.range)) return Flow::kError;
    switch (s.kind) {
      case StmtKind::kPass: case StmtKind::kGlobal: return Flow::kNext;
      case StmtKind::kExpr: return Evaluate(*s.value, *frame) ? Flow::kNext : Flow::kError;
      case StmtKind::kAssign: case StmtKind::kAnnAssign: return Assign(s, frame);
      case StmtKind::kAugAssign: return AugAssign(s, frame);
      case StmtKind::kReturn:
        *returned = s.value ? Evaluate(*s.value, *frame) : Constant::None();
        return *returned ? Flow::kReturn : Flow::kError;
      case StmtKind::kBreak: return Flow::kBreak;
      case StmtKind::kContinue: return Flow::kContinue;
      case StmtKind::kIf: {
        std::optional<bool> condition = Condition(*s.value, *frame);
        if (!condition) return Flow::kError;
        return Execute(*condition ? s.body : s.or_else, frame, returned);
      }
      case StmtKind::kFor: return For(s, frame, returned);
      case StmtKind::kWhile: return While(s, frame, returned);
      case StmtKind::kAssert: {
        std::optional<bool> condition = Condition(*s.value, *frame);
        if (!condition) return Flow::kError;
        return *condition ? Flow::kNext : Error(s.range, "the assertion fails");
      }
      case StmtKind::kRaise: return Error(s.range, s.value ? absl::StrCat("raises ", Print(*s.value)) : "raises an exception");
      case StmtKind::kImport: case StmtKind::kFromImport: return Import(s, frame);
      case StmtKind::kTry: return Execute(s.body, frame, returned);  // an error in the body is one of the evaluation
      case StmtKind::kFunctionDef: return Error(s.range, "a function inside a function cannot be evaluated at compile time");
      case StmtKind::kOpaque: return Error(s.range, absl::StrCat("'", s.text, "' cannot be evaluated at compile time"));
      default: return Error(s.range, "this statement cannot be evaluated at compile time");
    }
  }

  Flow Assign(const Stmt& s, Frame* frame) {
    if (!s.value) return Flow::kNext;
    Value value = Evaluate(*s.value, *frame);
    if (!value) return Flow::kError;
    for (const ExprPtr& target : s.targets)
      if (!Bind(*target, *value, frame)) return Flow::kError;
    return Flow::kNext;
  }

  Flow AugAssign(const Stmt& s, Frame* frame) {
    Value before = Evaluate(*s.targets[0], *frame);
    Value value = before ? Evaluate(*s.value, *frame) : std::nullopt;
    if (!value) return Flow::kError;
    std::string error;
    bool in_place = s.binary == BinaryOp::kAdd && before->is(ConstantKind::kList);
    if (in_place) {
      if (!CallMethod(*before, "extend", {*value}, {}, &error)) return Error(s.range, error);
      return Made(before, s.range) ? Flow::kNext : Flow::kError;
    }
    Value after = Checked(EvaluateBinary(s.binary, *before, *value, &error), error, s.range);
    return after && Bind(*s.targets[0], *after, frame) ? Flow::kNext : Flow::kError;
  }

  Flow For(const Stmt& s, Frame* frame, Value* returned) {
    std::optional<Values> elements = Iterate(*s.value, *frame);
    if (!elements) return Flow::kError;
    for (const Constant& element : *elements) {
      if (!Bind(*s.targets[0], element, frame)) return Flow::kError;
      Flow flow = Execute(s.body, frame, returned);
      if (flow == Flow::kBreak) return Flow::kNext;
      if (flow == Flow::kReturn || flow == Flow::kError) return flow;
    }
    return Execute(s.or_else, frame, returned);
  }

  Flow While(const Stmt& s, Frame* frame, Value* returned) {
    for (;;) {
      std::optional<bool> condition = Condition(*s.value, *frame);
      if (!condition) return Flow::kError;
      if (!*condition) return Execute(s.or_else, frame, returned);
      Flow flow = Execute(s.body, frame, returned);
      if (flow == Flow::kBreak) return Flow::kNext;
      if (flow == Flow::kReturn || flow == Flow::kError) return flow;
    }
  }

  Flow Import(const Stmt& s, Frame* frame) {
    for (size_t i = 0; i < s.imported.size(); ++i) {
      Lookup found = e_.module_.Imported(s, i, s.range.file);
      if (found.found()) frame->Set(s.imported[i].as, found.value);
    }
    return Flow::kNext;
  }

  bool Bind(const Expr& target, const Constant& value, Frame* frame) {
    if (target.kind == ExprKind::kName) {
      frame->Set(target.text, value);
      return true;
    }
    std::string error;
    if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList) {
      std::optional<Values> elements = Elements(value, &error);
      if (!elements) return Fail(target.range, error), false;
      return Unpack(target, *elements, frame);
    }
    if (target.kind == ExprKind::kSubscript && target.b->kind != ExprKind::kSlice) {
      Value base = Evaluate(*target.a, *frame);
      Value index = base ? Evaluate(*target.b, *frame) : std::nullopt;
      if (!index) return false;
      if (base->is(ConstantKind::kDict)) {
        if (!Step(target.range, static_cast<int64_t>(base->items->size()))) return false;
        return CallMethod(*base, "update", {Constant::Dict({*index, value})}, {}, &error) || (Fail(target.range, error), false);
      }
      if (base->is(ConstantKind::kList)) {
        if (!EvaluateSubscript(*base, *index, &error)) return Fail(target.range, error), false;
        Integer i = index->as_integer();
        (*base->items)[static_cast<size_t>(i < 0 ? i + static_cast<Integer>(base->items->size()) : i)] = value;
        return true;
      }
    }
    Fail(target.range, "this cannot be assigned to at compile time");
    return false;
  }

  bool Unpack(const Expr& target, const Values& elements, Frame* frame) {
    size_t star = target.items.size();
    for (size_t i = 0; i < target.items.size(); ++i)
      if (target.items[i]->kind == ExprKind::kStarred) star = i;
    bool has_star = star < target.items.size();
    if (has_star ? elements.size() + 1 < target.items.size() : elements.size() != target.items.size()) {
      Fail(target.range, absl::StrCat("cannot unpack ", elements.size(), " values into ", target.items.size(), " names"));
      return false;
    }
    size_t extra = elements.size() - (target.items.size() - (has_star ? 1 : 0));  // taken by the starred one
    size_t next = 0;
    for (size_t i = 0; i < target.items.size(); ++i) {
      if (i == star) {
        auto begin = elements.begin() + static_cast<std::ptrdiff_t>(next);
        if (!Bind(*target.items[i]->a, Constant::List(Values(begin, begin + static_cast<std::ptrdiff_t>(extra))), frame)) return false;
        next += extra;
      } else if (!Bind(*target.items[i], elements[next++], frame)) {
        return false;
      }
    }
    return true;
  }

  Evaluator& e_;
};

Evaluator::Evaluator(const ModuleIndex& module, EvaluationLimits limits) : module_(module), limits_(limits), granted_steps_(limits.steps) {}

std::optional<Constant> Evaluator::Evaluate(const Expr& expression, const Environment& environment) {
  return Interpreter(this).Evaluate(expression, environment);
}

std::optional<Constant> Evaluator::Evaluate(const Expr& expression, const Environment& environment, Diagnostics* diagnostics) {
  std::optional<Constant> value = Evaluate(expression, environment);
  if (!value) diagnostics->Error(error_.range, error_.message);
  return value;
}

std::optional<Constant> Evaluator::Call(const Constant& callee, const std::vector<Constant>& arguments, const NamedConstants& keywords,
                                        SourceRange call) {
  return Interpreter(this).Call(callee, arguments, keywords, call);
}

std::optional<Constant> Evaluator::Run(const Stmt& statement, const std::string& name, std::optional<Constant> before,
                                       const Environment& environment) {
  return Interpreter(this).Run(statement, name, std::move(before), environment);
}

void LocalEnvironment::Set(absl::string_view name, Constant value) {
  for (auto& [known, old] : values_)
    if (known == name) {
      old = std::move(value);
      return;
    }
  values_.emplace_back(std::string(name), std::move(value));
}

Lookup LocalEnvironment::Find(absl::string_view name) const {
  for (const auto& [known, value] : values_)
    if (known == name) return Lookup::Found(value);
  return outer_ ? outer_->Find(name) : Lookup{};
}

}  // namespace tessera::frontend
