#include "compiler/frontend/module/heuristics.h"

#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/frontend/module/describe.h"
#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/parse/parser.h"
#include "compiler/frontend/parse/printer.h"
#include "compiler/frontend/parse/walk.h"

namespace tessera::frontend {
namespace {

// Canonical names in heuristic texts are seen through these.
constexpr char kPrelude[] = "import math, torch, triton, triton.language as tl\nfrom triton.language.extra import libdevice\n";

void BoundNames(const Expr& target, std::set<std::string>* names) {
  if (target.kind == ExprKind::kName) names->insert(target.text);
  if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList || target.kind == ExprKind::kStarred)
    ForEachChild(target, [names](const Expr& child) { BoundNames(child, names); });
}

// Names read in `e`, and names bound in it by lambdas and comprehensions.
void Names(const Expr& e, std::set<std::string>* read, std::set<std::string>* bound) {
  if (e.kind == ExprKind::kName) read->insert(e.text);
  for (const std::string& parameter : e.lambda_parameters) bound->insert(parameter);
  for (const ComprehensionClause& clause : e.clauses) BoundNames(*clause.target, bound);
  ForEachChild(e, [&](const Expr& child) { Names(child, read, bound); });
}

void Names(const Stmt& s, std::set<std::string>* read, std::set<std::string>* bound) {
  for (const FunctionParameter& parameter : s.parameters) bound->insert(parameter.name);
  for (const ExprPtr& target : s.targets) BoundNames(*target, bound);
  for (const ImportedName& imported : s.imported) bound->insert(imported.as);
  ForEachExpression(s, [&](const Expr& e) { Names(e, read, bound); });
  ForEachStatement(s, [&](const Stmt& inner) { Names(inner, read, bound); });
}

class TextBuilder {
 public:
  explicit TextBuilder(std::string* missing) : missing_(*missing) {}

  std::string Build(const Constant& function) {
    std::string last;
    if (function.is(ConstantKind::kLambda)) {
      last = Lambda(function, /*as_body=*/true);
    } else if (function.is(ConstantKind::kFunction)) {
      last = OfFunction(*function.function);
    } else {
      missing_ = absl::StrCat(KindName(function), " is no function");
    }
    return preamble_ + last;
  }

 private:
  // The body over `args`, or the whole lambda.
  std::string Lambda(const Constant& lambda, bool as_body) {
    const std::vector<std::string>& parameters = lambda.lambda->lambda_parameters;
    std::set<std::string> read, bound(parameters.begin(), parameters.end()), ignored;
    Names(*lambda.lambda->a, &ignored, &bound);
    Read(*lambda.lambda->a, *lambda.scope, bound, &read);
    std::map<std::string, std::string> names = Meanings(read, bound, *lambda.scope);
    if (as_body && parameters.size() == 1) names[parameters[0]] = "args";
    return PrintIn(as_body ? *lambda.lambda->a : *lambda.lambda, *lambda.scope, bound, names);
  }

  // A heuristic that is a function of `args`.
  std::string OfFunction(const Function& function) {
    const Expr* result = ReturnedExpression(function);
    if (result != nullptr && function.definition->parameters.size() == 1)
      return Substituted(*result, *function.scope, {{function.definition->parameters[0].name, "args"}});
    Add(function);
    return absl::StrCat(function.name, "(args)");
  }

  // What the function returns, if it does nothing else and binds no names on the way.
  static const Expr* ReturnedExpression(const Function& function) {
    const Expr* result = nullptr;
    for (const StmtPtr& statement : function.definition->body) {
      if (statement->kind == StmtKind::kExpr && statement->value && statement->value->kind == ExprKind::kString) continue;
      if (result != nullptr || statement->kind != StmtKind::kReturn || !statement->value) return nullptr;
      result = statement->value.get();
    }
    std::set<std::string> read, bound;
    if (result != nullptr) Names(*result, &read, &bound);
    return bound.empty() ? result : nullptr;
  }

  // The host function that `call` names, if the call can be replaced by what it returns.
  const Function* Inlinable(const Expr& call, const Environment& scope, const std::set<std::string>& bound) const {
    if (call.kind != ExprKind::kCall || call.a->kind != ExprKind::kName || bound.count(call.a->text) || !call.keywords.empty() ||
        depth_ > 8)
      return nullptr;
    Lookup found = scope.Find(call.a->text);
    if (!found.found() || !found.value.is(ConstantKind::kFunction)) return nullptr;
    const Function& function = *found.value.function;
    if (function.definition->parameters.size() != call.items.size() || ReturnedExpression(function) == nullptr) return nullptr;
    for (const FunctionParameter& parameter : function.definition->parameters)
      if (parameter.is_star || parameter.is_double_star || parameter.keyword_only) return nullptr;
    for (const ExprPtr& argument : call.items)
      if (argument->kind == ExprKind::kStarred) return nullptr;
    return &function;
  }

  // Names read in `e`, without those of functions whose calls are replaced.
  void Read(const Expr& e, const Environment& scope, const std::set<std::string>& bound, std::set<std::string>* read) {
    if (e.kind == ExprKind::kName) read->insert(e.text);
    if (Inlinable(e, scope, bound) != nullptr) {
      for (const ExprPtr& argument : e.items) Read(*argument, scope, bound, read);
      return;
    }
    ForEachChild(e, [&](const Expr& child) { Read(child, scope, bound, read); });
  }

  std::string PrintIn(const Expr& e, const Environment& scope, const std::set<std::string>& bound,
                      const std::map<std::string, std::string>& names) {
    PrintOptions options;
    options.names = &names;
    options.call = [&](const Expr& call) -> std::optional<std::string> {
      const Function* function = Inlinable(call, scope, bound);
      if (function == nullptr) return std::nullopt;
      std::map<std::string, std::string> parameters;
      for (size_t i = 0; i < call.items.size(); ++i)
        parameters[function->definition->parameters[i].name] = absl::StrCat("(", Print(*call.items[i], options), ")");
      return absl::StrCat("(", Substituted(*ReturnedExpression(*function), *function->scope, parameters), ")");
    };
    return Print(e, options);
  }

  // `e` with the parameters of the function around it replaced.
  std::string Substituted(const Expr& e, const Environment& scope, const std::map<std::string, std::string>& parameters) {
    ++depth_;
    std::set<std::string> read, bound;
    for (const auto& [name, text] : parameters) bound.insert(name);
    Read(e, scope, bound, &read);
    std::map<std::string, std::string> names = Meanings(read, bound, scope);
    names.insert(parameters.begin(), parameters.end());
    std::string text = PrintIn(e, scope, bound, names);
    --depth_;
    return text;
  }

  std::map<std::string, std::string> Meanings(const std::set<std::string>& read, const std::set<std::string>& bound, const Environment& scope) {
    std::map<std::string, std::string> names;
    for (const std::string& name : read) {
      if (bound.count(name)) continue;
      Lookup found = scope.Find(name);
      if (!found.found()) {
        missing_ = found.outcome == Lookup::Outcome::kUndefined ? absl::StrCat("'", name, "' is not defined") : found.reason;
        continue;
      }
      const Constant& value = found.value;
      switch (value.kind) {
        case ConstantKind::kFunction: Add(*value.function); names[name] = value.function->name; break;
        case ConstantKind::kLambda: names[name] = absl::StrCat("(", Lambda(value, false), ")"); break;
        case ConstantKind::kModule:
          if (absl::StartsWith(value.text, "file:") || absl::StartsWith(value.text, "class:")) missing_ = absl::StrCat("'", name, "' is a module");
          names[name] = value.text;
          break;
        case ConstantKind::kBuiltin: names[name] = value.text; break;
        case ConstantKind::kExternal: missing_ = absl::StrCat("'", value.text, "' is not part of the module"); break;
        case ConstantKind::kConfig: missing_ = absl::StrCat("'", name, "' is a triton.Config"); break;
        default: names[name] = value.is_number() ? absl::StrCat("(", Repr(value), ")") : Repr(value);
      }
    }
    return names;
  }

  void Add(const Function& function) {
    auto [known, inserted] = added_.emplace(function.name, &function);
    if (!inserted) {
      if (known->second != &function) missing_ = absl::StrCat("two functions are called '", function.name, "'");
      return;
    }
    if (added_.size() > 50) {
      missing_ = "it calls too many functions";
      return;
    }
    std::set<std::string> read, bound;
    Names(*function.definition, &read, &bound);
    std::map<std::string, std::string> names = Meanings(read, bound, *function.scope);
    PrintOptions options;
    options.names = &names;
    preamble_ += Print(*function.definition, /*decorators=*/false, options);
  }

  std::string& missing_;
  std::string preamble_;
  int depth_ = 0;  // of calls replaced inside of each other
  std::map<std::string, const Function*> added_;
};

}  // namespace

std::string HeuristicText(const ModuleIndex& module, const Constant& function, std::string* missing) {
  return TextBuilder(missing).Build(function);
}

std::optional<Constant> EvaluateHeuristic(absl::string_view expression, const NamedConstants& arguments, std::string* error) {
  Diagnostics diagnostics;
  std::vector<File> files;
  files.push_back(Parse(0, "heuristic", absl::StrCat(kPrelude, expression), &diagnostics));
  auto fail = [&](const SourceRange& range, const std::string& message) {
    *error = Render({Severity::kError, range, message}, files);
    return std::nullopt;
  };
  if (diagnostics.has_errors()) return fail(diagnostics.all()[0].range, diagnostics.all()[0].message);
  const std::vector<StmtPtr>& body = files[0].body;
  if (body.empty() || body.back()->kind != StmtKind::kExpr) return fail({}, "the heuristic is no expression");
  ModuleIndex module(files);
  LocalEnvironment environment(&module.FileScope(0));
  Constant args = Constant::Dict({});
  for (const auto& [name, value] : arguments) {
    args.items->push_back(Constant::String(name));
    args.items->push_back(value);
  }
  environment.Set("args", args);
  Evaluator evaluator(module);
  std::optional<Constant> value = evaluator.Evaluate(*body.back()->value, environment);
  if (!value) return fail(evaluator.error().range, evaluator.error().message);
  return value;
}

}  // namespace tessera::frontend
