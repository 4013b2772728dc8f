#include "compiler/frontend/module/module_index.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/module/well_known.h"
#include "compiler/frontend/parse/printer.h"

namespace tessera::frontend {
namespace {

// Definitions in terms of one another; more is a mistake or an attack.
constexpr int kMaxResolving = 100;

// Steps of evaluation for all look-ups of a module together.
constexpr int64_t kModuleSteps = 5'000'000;

// The `if` or `try` that a definition stands in.
struct Guard {
  enum class Kind { kIf, kTry };
  Kind kind = Kind::kIf;
  const Stmt* statement = nullptr;
  bool in_else = false;  // the else branch, or a handler
  bool body_works = true;  // kTry: the body is taken to work unless it raises
  const Guard* outer = nullptr;
};

enum class Taken { kYes, kNo, kUnknown };

// One place that gives a name its value.
struct Binding {
  enum class Kind {
    kFunction, kClass, kImport,
    kValue,      // name = expression
    kStatement,  // found by executing `statement`: loops, +=, unpacking, method calls that change a list
    kUnknown,    // a parameter, `with ... as`, a deleted name
  };
  Kind kind = Kind::kValue;
  const Stmt* statement = nullptr;
  const Expr* value = nullptr;    // kValue
  size_t imported = 0;            // kImport
  const Function* function = nullptr;
  int class_scope = -1;
  std::string reason;             // kUnknown
  SourceRange range;
  const Guard* guard = nullptr;
  bool resolving = false;
  std::optional<Lookup> known;
};

bool IsMutatingMethod(absl::string_view name) {
  for (absl::string_view method : {"append", "extend", "insert", "pop", "sort", "reverse", "clear", "update", "setdefault", "add", "remove"})
    if (name == method) return true;
  return false;
}

std::string Directory(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// "a/./b/../c.py" -> "a/c.py"; a leading "./" goes.
std::string CleanPath(absl::string_view path) {
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else {
      parts.emplace_back(part);
    }
  }
  std::string clean;
  for (const std::string& part : parts) absl::StrAppend(&clean, clean.empty() ? "" : "/", part);
  return clean;
}

bool IsPathSuffix(absl::string_view path, absl::string_view suffix) {
  return path == suffix || (absl::EndsWith(path, suffix) && path[path.size() - suffix.size() - 1] == '/');
}

}  // namespace

Lookup Lookup::Found(Constant value, SourceRange definition) {
  Lookup lookup;
  lookup.outcome = Outcome::kFound;
  lookup.value = std::move(value);
  lookup.definition = definition;
  return lookup;
}

Lookup Lookup::NotConstant(std::string reason, SourceRange at) {
  Lookup lookup;
  lookup.outcome = Outcome::kNotConstant;
  lookup.reason = std::move(reason);
  lookup.reason_range = at;
  return lookup;
}

// A file, class or function and the names bound in it.
class Scope : public Environment {
 public:
  Scope(ModuleIndex::Impl* impl, int file, const Scope* outer) : impl_(impl), file_(file), outer_(outer) {}

  Lookup Find(absl::string_view name) const override;
  // Without outer scopes and builtins.
  Lookup FindHere(absl::string_view name) const;

  ModuleIndex::Impl* impl_;
  int file_;
  const Scope* outer_;  // classes are never the outer scope of a function
  mutable std::map<std::string, std::vector<Binding>> bindings_;
  std::vector<std::pair<const Stmt*, size_t>> star_imports_;
};

struct ModuleIndex::Impl {
  Impl(const ModuleIndex* index, const std::vector<File>& files) : index_(index), files_(files) {}

  void Build() {
    for (size_t i = 0; i < files_.size(); ++i) {
      paths_.push_back(CleanPath(files_[i].path));
      scopes_.emplace_back(this, static_cast<int>(i), nullptr);
      file_scopes_.push_back(&scopes_.back());
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      std::vector<const Function*> found;
      Collect(files_[i].body, file_scopes_[i], file_scopes_[i], nullptr, false, &found);
      collected_.push_back(std::move(found));
    }
    for (const auto& found : collected_) KeepJitFunctions(found);
    // Functions of a file's top level win over those inside classes and functions, the main file's over the others'.
    for (bool top_level : {true, false})
      for (const Function* function : jit_functions_)
        if ((bound_in_[function] == file_scopes_[static_cast<size_t>(function->file)]) == top_level) by_name_.emplace(function->name, function);
  }

  //===-- collecting ---------------------------------------------------------------------------===//

  // `bound` is where names are bound, `looked_up` where functions find their free names: they differ in classes.
  void Collect(const std::vector<StmtPtr>& body, Scope* bound, Scope* looked_up, const Guard* guard, bool in_class,
               std::vector<const Function*>* found) {
    for (const StmtPtr& statement : body) CollectOne(*statement, bound, looked_up, guard, in_class, found);
  }

  void CollectOne(const Stmt& s, Scope* bound, Scope* looked_up, const Guard* guard, bool in_class, std::vector<const Function*>* found) {
    switch (s.kind) {
      case StmtKind::kFunctionDef: return CollectFunction(s, bound, looked_up, guard, in_class, found);
      case StmtKind::kClassDef: {
        scopes_.emplace_back(this, bound->file_, looked_up);
        class_scopes_.push_back(&scopes_.back());
        Binding& binding = Add(bound, s.text, Binding::Kind::kClass, s, guard);
        binding.class_scope = static_cast<int>(class_scopes_.size()) - 1;
        return Collect(s.body, &scopes_.back(), looked_up, nullptr, true, found);
      }
      case StmtKind::kIf:
        Collect(s.body, bound, looked_up, NewGuard(Guard::Kind::kIf, s, false, guard), in_class, found);
        return Collect(s.or_else, bound, looked_up, NewGuard(Guard::Kind::kIf, s, true, guard), in_class, found);
      case StmtKind::kTry:
        Collect(s.body, bound, looked_up, NewGuard(Guard::Kind::kTry, s, false, guard), in_class, found);
        return Collect(s.or_else, bound, looked_up, NewGuard(Guard::Kind::kTry, s, true, guard), in_class, found);
      case StmtKind::kWith: return Collect(s.body, bound, looked_up, guard, in_class, found);
      case StmtKind::kFor: case StmtKind::kWhile: return CollectLoop(s, bound, looked_up, guard, in_class, found);
      case StmtKind::kImport: case StmtKind::kFromImport:
        for (size_t i = 0; i < s.imported.size(); ++i) {
          if (s.imported[i].name == "*") {
            bound->star_imports_.emplace_back(&s, i);
          } else {
            Add(bound, s.imported[i].as, Binding::Kind::kImport, s, guard).imported = i;
          }
        }
        return;
      case StmtKind::kAssign: case StmtKind::kAnnAssign: case StmtKind::kAugAssign: case StmtKind::kDelete:
        for (const ExprPtr& target : s.targets) CollectTarget(*target, s, bound, guard, /*whole=*/true);
        return;
      case StmtKind::kExpr: {
        const Expr& call = *s.value;
        bool mutates = call.kind == ExprKind::kCall && call.a->kind == ExprKind::kAttribute && IsMutatingMethod(call.a->text) &&
                       call.a->a->kind == ExprKind::kName;
        if (mutates) AddChange(call.a->a->text, s, bound, guard);
        return;
      }
      default: return;
    }
  }

  // A change of something that has a value already; a change of a name bound elsewhere is not ours to see.
  void AddChange(const std::string& name, const Stmt& s, Scope* bound, const Guard* guard) {
    if (bound->bindings_.count(name)) Add(bound, name, Binding::Kind::kStatement, s, guard);
  }

  // `whole`: the target takes the whole value, not a part of a tuple.
  void CollectTarget(const Expr& target, const Stmt& s, Scope* bound, const Guard* guard, bool whole) {
    switch (target.kind) {
      case ExprKind::kName: {
        if (s.kind == StmtKind::kAnnAssign && !s.value) return;
        bool plain = whole && s.kind != StmtKind::kAugAssign;
        if (s.kind == StmtKind::kDelete) {
          Add(bound, target.text, Binding::Kind::kUnknown, s, guard).reason = "it is deleted";
        } else {
          Add(bound, target.text, plain ? Binding::Kind::kValue : Binding::Kind::kStatement, s, guard).value = s.value.get();
        }
        return;
      }
      case ExprKind::kTuple: case ExprKind::kList:
        for (const ExprPtr& item : target.items) CollectTarget(*item, s, bound, guard, false);
        return;
      case ExprKind::kStarred: return CollectTarget(*target.a, s, bound, guard, false);
      case ExprKind::kSubscript:
        if (target.a->kind == ExprKind::kName) AddChange(target.a->text, s, bound, guard);
        return;
      default: return;
    }
  }

  // Everything that a loop assigns or changes is found by running the loop.
  void CollectLoop(const Stmt& s, Scope* bound, Scope* looked_up, const Guard* guard, bool in_class, std::vector<const Function*>* found) {
    std::set<std::string> assigned, changed;
    CollectLoopNames(s, &assigned, &changed);
    for (const std::string& name : assigned) Add(bound, name, Binding::Kind::kStatement, s, guard);
    for (const std::string& name : changed)
      if (!assigned.count(name)) AddChange(name, s, bound, guard);
    for (const auto* body : {&s.body, &s.or_else})
      for (const StmtPtr& inner : *body)
        if (inner->kind == StmtKind::kFunctionDef || inner->kind == StmtKind::kClassDef)
          CollectOne(*inner, bound, looked_up, guard, in_class, found);
  }

  static void TargetNames(const Expr& target, std::set<std::string>* assigned, std::set<std::string>* changed) {
    if (target.kind == ExprKind::kName) assigned->insert(target.text);
    if (target.kind == ExprKind::kSubscript && target.a->kind == ExprKind::kName) changed->insert(target.a->text);
    if (target.kind == ExprKind::kStarred) TargetNames(*target.a, assigned, changed);
    if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList)
      for (const ExprPtr& item : target.items) TargetNames(*item, assigned, changed);
  }

  static void CollectLoopNames(const Stmt& s, std::set<std::string>* assigned, std::set<std::string>* changed) {
    if (s.kind == StmtKind::kFunctionDef || s.kind == StmtKind::kClassDef) return;
    if (s.kind != StmtKind::kWith && s.kind != StmtKind::kDelete)
      for (const ExprPtr& target : s.targets) TargetNames(*target, assigned, changed);
    if (s.kind == StmtKind::kExpr && s.value->kind == ExprKind::kCall && s.value->a->kind == ExprKind::kAttribute &&
        IsMutatingMethod(s.value->a->text) && s.value->a->a->kind == ExprKind::kName)
      changed->insert(s.value->a->a->text);
    for (const auto* body : {&s.body, &s.or_else})
      for (const StmtPtr& inner : *body) CollectLoopNames(*inner, assigned, changed);
  }

  void CollectFunction(const Stmt& s, Scope* bound, Scope* looked_up, const Guard* guard, bool in_class, std::vector<const Function*>* found) {
    functions_.emplace_back();
    Function& function = functions_.back();
    function.name = s.text;
    function.definition = &s;
    function.scope = looked_up;
    function.file = bound->file_;
    function.in_class = in_class;
    bound_in_[&function] = bound;
    Add(bound, s.text, Binding::Kind::kFunction, s, guard).function = &function;
    found->push_back(&function);
    // Kernels may be defined inside; they see the names bound here.
    scopes_.emplace_back(this, bound->file_, looked_up);
    Scope* inner = &scopes_.back();
    for (const FunctionParameter& p : s.parameters)
      Add(inner, p.name, Binding::Kind::kUnknown, s, nullptr).reason = absl::StrCat("it is a parameter of '", s.text, "'");
    Collect(s.body, inner, inner, nullptr, false, found);
  }

  const Guard* NewGuard(Guard::Kind kind, const Stmt& s, bool in_else, const Guard* outer) {
    Guard guard;
    guard.kind = kind;
    guard.statement = &s;
    guard.in_else = in_else;
    guard.outer = outer;
    guard.body_works = std::none_of(s.body.begin(), s.body.end(), [](const StmtPtr& inner) { return inner->kind == StmtKind::kRaise; });
    guards_.push_back(guard);
    return &guards_.back();
  }

  Binding& Add(Scope* scope, const std::string& name, Binding::Kind kind, const Stmt& s, const Guard* guard) {
    std::vector<Binding>& bindings = scope->bindings_[name];
    bindings.emplace_back();
    Binding& binding = bindings.back();
    binding.kind = kind;
    binding.statement = &s;
    binding.range = s.range;
    binding.guard = guard;
    return binding;
  }

  // Kinds need all names, so they come in a second pass.
  void KeepJitFunctions(const std::vector<const Function*>& found) {
    for (const Function* f : found) {
      Function* function = const_cast<Function*>(f);
      function->kind = KindOf(*function);
    }
    std::map<const std::vector<Binding>*, const Function*> chosen;  // of each name
    for (const Function* f : found) {
      if (f->kind != Function::Kind::kJit) continue;
      std::vector<Binding>& bindings = bound_in_[f]->bindings_[f->name];
      auto [known, inserted] = chosen.emplace(&bindings, nullptr);
      if (inserted) known->second = ChooseJitFunction(*bound_in_[f], bindings);
      if (known->second == f) jit_functions_.push_back(f);
    }
  }

  // Of the definitions of one name, the jit function in force: a later value (`kernel = wrap(kernel)`) does not hide it.
  const Function* ChooseJitFunction(const Scope& scope, std::vector<Binding>& bindings) {
    bool undecided = false;
    const Binding* binding = Choose(scope, bindings, bindings.size(), &undecided);
    const Function* chosen = binding ? binding->function : nullptr;
    size_t definitions = 0;
    for (const Binding& other : bindings) {
      if (!other.function) continue;
      ++definitions;
      bool is_jit = other.function->kind == Function::Kind::kJit;
      if (is_jit && !(binding && binding->function && binding->function->kind == Function::Kind::kJit)) chosen = other.function;
    }
    if (chosen && definitions > 1)
      const_cast<Function*>(chosen)->note =
          absl::StrCat(definitions, " definitions of '", chosen->name, "': the one on line ", chosen->definition->range.line,
                       undecided ? " is taken, the last whose condition is not known" : " is taken");
    return chosen;
  }

  // The name a decorator has in canonical terms: "triton.jit".
  std::string DecoratorName(const Expr& decorator, const Environment& scope) {
    const Expr* callee = decorator.kind == ExprKind::kCall ? decorator.a.get() : &decorator;
    if (callee->kind != ExprKind::kName && callee->kind != ExprKind::kAttribute) return "";
    Evaluator evaluator = NewEvaluator();
    std::optional<Constant> value = evaluator.Evaluate(*callee, scope);
    Settle(evaluator);
    if (value && (value->is(ConstantKind::kBuiltin) || value->is(ConstantKind::kExternal))) return value->text;
    return Print(*callee);  // never imported here: judged by its spelling
  }

  // Other compilers whose decorator is called jit, too.
  static bool IsForeignDialect(absl::string_view name) {
    for (absl::string_view dialect : {"gluon", "numba", "jax", "torch", "cutlass", "cute.", "cupyx", "tilelang", "pallas"})
      if (absl::StrContains(name, dialect)) return true;
    return false;
  }

  Function::Kind KindOf(const Function& function) {
    Function::Kind kind = Function::Kind::kHost;
    for (const ExprPtr& decorator : function.definition->decorators) {
      std::string name = DecoratorName(*decorator, *function.scope);
      absl::string_view last = absl::string_view(name).substr(name.rfind('.') + 1);
      bool foreign = IsForeignDialect(name);
      if (last == "jit") return foreign ? Function::Kind::kForeign : Function::Kind::kJit;
      if (last == "constexpr_function" || name == "tl.constexpr") kind = Function::Kind::kConstexpr;
    }
    return kind;
  }

  // Every evaluation here draws on one budget, so that many small ones cannot add up to a hang.
  Evaluator NewEvaluator() {
    EvaluationLimits limits;
    limits.steps = std::min<int64_t>(500'000, steps_);
    return Evaluator(*index_, limits);
  }
  void Settle(const Evaluator& evaluator) { steps_ = std::max<int64_t>(0, steps_ - evaluator.steps_used()); }

  //===-- resolving ----------------------------------------------------------------------------===//

  Taken IsTaken(const Scope& scope, const Guard* guard) {
    Taken all = Taken::kYes;
    for (; guard; guard = guard->outer) {
      Taken one = Taken::kYes;
      if (guard->kind == Guard::Kind::kTry) {
        one = guard->in_else != guard->body_works ? Taken::kYes : Taken::kNo;
      } else {
        auto [known, inserted] = conditions_.emplace(guard->statement, Taken::kUnknown);  // unknown while it is evaluated
        if (inserted) {
          Evaluator evaluator = NewEvaluator();
          std::optional<Constant> value = evaluator.Evaluate(*guard->statement->value, scope);
          Settle(evaluator);
          std::string error;
          std::optional<bool> truth = value ? Truth(*value, &error) : std::nullopt;
          conditions_[guard->statement] = !truth ? Taken::kUnknown : *truth ? Taken::kYes : Taken::kNo;
        }
        one = conditions_[guard->statement];
        if (one != Taken::kUnknown && guard->in_else) one = one == Taken::kYes ? Taken::kNo : Taken::kYes;
      }
      if (one == Taken::kNo) return Taken::kNo;
      if (one == Taken::kUnknown) all = Taken::kUnknown;
    }
    return all;
  }

  // The binding in force among the first `count`: the last one that is taken. One whose condition is not known wins only
  // where no later one is taken.
  Binding* Choose(const Scope& scope, std::vector<Binding>& bindings, size_t count, bool* undecided) {
    Binding* last_unknown = nullptr;
    for (size_t i = count; i > 0; --i) {
      Binding& binding = bindings[i - 1];
      Taken taken = IsTaken(scope, binding.guard);
      if (taken == Taken::kUnknown && !last_unknown) last_unknown = &binding;
      if (taken == Taken::kYes) {
        if (!last_unknown) return &binding;
        break;
      }
    }
    *undecided = last_unknown != nullptr;
    return last_unknown;
  }

  Lookup FindIn(const Scope& scope, absl::string_view name) {
    auto found = scope.bindings_.find(std::string(name));
    if (found == scope.bindings_.end()) return FindInStarImports(scope, name);
    // While a binding is evaluated, its name means what was bound before it: X = X + 1.
    std::vector<Binding>& bindings = found->second;
    size_t count = bindings.size();
    bool cut = false;
    for (size_t i = 0; i < bindings.size(); ++i)
      if (bindings[i].resolving) {
        count = i;
        cut = true;
        break;
      }
    bool undecided = false;
    Binding* binding = Choose(scope, bindings, count, &undecided);
    if (binding) return Resolve(scope, found->first, binding);
    if (!cut) return FindInStarImports(scope, name);
    ++cuts_;
    return Lookup::NotConstant(absl::StrCat("'", name, "' is defined by way of itself"), bindings[0].range);
  }

  Lookup Resolve(const Scope& scope, const std::string& name, Binding* binding) {
    if (binding->known) return *binding->known;
    if (resolving_ >= kMaxResolving) {
      ++cuts_;
      return Lookup::NotConstant("its definition refers to too many others", binding->range);
    }
    int cuts_before = cuts_;
    binding->resolving = true;
    ++resolving_;
    Lookup result = Compute(scope, name, *binding);
    --resolving_;
    binding->resolving = false;
    if (result.found()) result.definition = binding->range;
    // What was computed while a cycle was cut depends on where the look-up began.
    if (cuts_ == cuts_before || resolving_ == 0) binding->known = result;
    return result;
  }

  Lookup Compute(const Scope& scope, const std::string& name, const Binding& binding) {
    switch (binding.kind) {
      case Binding::Kind::kFunction: return Lookup::Found(Constant::Of(binding.function));
      case Binding::Kind::kClass: return Lookup::Found(Constant::Module(absl::StrCat("class:", binding.class_scope)));
      case Binding::Kind::kImport: return Imported(*binding.statement, binding.imported, scope.file_);
      case Binding::Kind::kUnknown: return Lookup::NotConstant(binding.reason, binding.range);
      case Binding::Kind::kValue: case Binding::Kind::kStatement: break;
    }
    Evaluator evaluator = NewEvaluator();
    std::optional<Constant> value;
    if (binding.kind == Binding::Kind::kValue) {
      value = evaluator.Evaluate(*binding.value, scope);
    } else {
      std::optional<Constant> before;
      bool known_before = true;
      std::string reason;
      SourceRange reason_range;
      std::vector<Binding>& all = scope.bindings_[name];
      if (&binding != &all[0]) {  // `resolving` cuts the look-up down to what was before
        Lookup earlier = FindIn(scope, name);
        if (earlier.found()) before = Copy(earlier.value, 0);
        known_before = earlier.found();
        reason = earlier.reason;
        reason_range = earlier.reason_range;
      }
      if (!known_before && binding.statement->kind != StmtKind::kAssign && binding.statement->kind != StmtKind::kFor)
        return Lookup::NotConstant(reason, reason_range);
      value = evaluator.Run(*binding.statement, name, before, scope);
    }
    Settle(evaluator);
    if (value) return Lookup::Found(*std::move(value));
    return Lookup::NotConstant(evaluator.error().message, evaluator.error().range);
  }

  // Lists are shared by reference; a statement that changes one must not change what earlier bindings remember.
  static Constant Copy(const Constant& value, int depth) {
    if (!value.items || value.is(ConstantKind::kTuple) || depth > 20) return value;
    std::vector<Constant> items;
    for (const Constant& item : *value.items) items.push_back(Copy(item, depth + 1));
    Constant copy = Constant::List(std::move(items));
    copy.kind = value.kind;
    return copy;
  }

  Lookup FindInStarImports(const Scope& scope, absl::string_view name) {
    for (size_t i = scope.star_imports_.size(); i > 0; --i) {
      const Stmt& import = *scope.star_imports_[i - 1].first;
      int file = FindFile(import.text, scope.file_);
      if (file >= 0 && file != scope.file_) {
        if (resolving_ >= kMaxResolving) return {};
        ++resolving_;
        Lookup found = file_scopes_[file]->FindHere(name);
        --resolving_;
        if (found.outcome != Lookup::Outcome::kUndefined) return found;
      }
      std::optional<Constant> module = WellKnownModule(import.text);
      if (!module) continue;
      bool exported = module->text != "tl" || IsLanguageName(name);
      std::optional<Constant> member = exported ? WellKnownMember(module->text, name) : std::nullopt;
      if (member && !member->is(ConstantKind::kExternal)) return Lookup::Found(*member);
    }
    return {};
  }

  //===-- imports ------------------------------------------------------------------------------===//

  // The file that an import path names ("..utils", "pkg.ops.scale"), seen from file number `from`; -1: not submitted.
  int FindFile(const std::string& module, int from) const {
    size_t dots = module.find_first_not_of('.');
    if (dots == std::string::npos) dots = module.size();
    std::string rest = module.substr(dots);
    std::replace(rest.begin(), rest.end(), '.', '/');
    if (dots > 0) {
      std::string base = Directory(paths_[from]);
      for (size_t i = 1; i < dots; ++i) base = Directory(base);
      int exact = FindPath(base.empty() ? rest : absl::StrCat(base, "/", rest), from, /*suffix=*/false);
      if (exact >= 0 || rest.empty()) return exact;
    }
    if (dots == 0 && IsForeignRoot(rest.substr(0, rest.find('/')))) return -1;
    // The longest part of the path that some file ends with: submitted files need not carry their package's path.
    for (;;) {
      int found = FindPath(rest, from, /*suffix=*/true);
      if (found >= 0) return found;
      size_t slash = rest.find('/');
      if (slash == std::string::npos) return -1;
      rest = rest.substr(slash + 1);
    }
  }

  static bool IsForeignRoot(absl::string_view root) {
    for (absl::string_view known : {"triton", "torch", "numpy", "os", "sys", "math", "typing", "functools", "itertools", "dataclasses", "enum",
                                    "collections", "warnings", "logging", "json", "re", "copy", "packaging", "abc", "contextlib", "inspect", "random", "time"})
      if (root == known) return true;
    return false;
  }

  int FindPath(const std::string& stem, int from, bool suffix) const {
    int best = -1;
    size_t best_common = 0;
    for (size_t i = 0; i < paths_.size(); ++i) {
      for (const char* ending : {".py", "/__init__.py"}) {
        std::string wanted = stem.empty() ? "__init__.py" : stem + ending;
        if (suffix ? !IsPathSuffix(paths_[i], wanted) : paths_[i] != wanted) continue;
        size_t common = 0;  // prefer neighbours
        while (common < paths_[i].size() && common < paths_[from].size() && paths_[i][common] == paths_[from][common]) ++common;
        if (best < 0 || common > best_common) {
          best = static_cast<int>(i);
          best_common = common;
        }
      }
    }
    return best;
  }

  Lookup Imported(const Stmt& import, size_t which, int file) {
    const ImportedName& name = import.imported[which];
    if (import.kind == StmtKind::kImport) return ModuleValue(name.name, file);
    // from a.b import c: the attribute c of a.b, or the module a.b.c.
    std::string path = import.text;
    std::string submodule = absl::StrCat(path, path.back() == '.' ? "" : ".", name.name);
    int from = FindFile(path, file);
    if (from >= 0 && from != file) {
      Lookup found = file_scopes_[from]->FindHere(name.name);
      if (found.outcome != Lookup::Outcome::kUndefined) return found;
    }
    int as_file = FindFileExactly(submodule, file);
    if (as_file >= 0) return Lookup::Found(Constant::Module(absl::StrCat("file:", as_file)));
    if (std::optional<Constant> module = WellKnownModule(path))
      if (std::optional<Constant> member = WellKnownMember(module->text, name.name)) return Lookup::Found(*member);
    if (std::optional<Constant> module = WellKnownModule(submodule)) return Lookup::Found(*module);
    if (std::optional<Constant> known = WellKnownName(name.name)) return Lookup::Found(*known);
    if (from >= 0 && from != file)
      return Lookup::NotConstant(absl::StrCat("'", files_[from].path, "' does not define '", name.name, "'"), import.range);
    std::optional<Constant> value = ExternalValue(submodule);
    return Lookup::Found(value ? *value : Constant::External(submodule));
  }

  // A submodule must be found under its whole name, not under any suffix of it.
  int FindFileExactly(const std::string& module, int from) const {
    int file = FindFile(module, from);
    if (file < 0) return -1;
    std::string last = module.substr(module.rfind('.') + 1);
    return IsPathSuffix(paths_[file], last + ".py") || IsPathSuffix(paths_[file], last + "/__init__.py") ? file : -1;
  }

  Lookup ModuleValue(const std::string& path, int file) {
    if (std::optional<Constant> module = WellKnownModule(path)) return Lookup::Found(*module);
    int found = FindFile(path, file);
    if (found >= 0) return Lookup::Found(Constant::Module(absl::StrCat("file:", found)));
    return Lookup::Found(Constant::External(path));
  }

  // The scope behind a kModule of ours: "file:2", "class:3".
  const Scope* ScopeOf(const Constant& module) const {
    absl::string_view text = module.text;
    bool is_file = absl::ConsumePrefix(&text, "file:");
    if (!is_file && !absl::ConsumePrefix(&text, "class:")) return nullptr;
    size_t number = static_cast<size_t>(std::atoi(std::string(text).c_str()));
    if (is_file) return number < file_scopes_.size() ? file_scopes_[number] : nullptr;
    return number < class_scopes_.size() ? class_scopes_[number] : nullptr;
  }

  Lookup Attribute(const Constant& base, absl::string_view name) {
    if (base.is(ConstantKind::kModule)) {
      if (const Scope* scope = ScopeOf(base)) {
        Lookup found = scope->FindHere(name);
        if (found.outcome != Lookup::Outcome::kUndefined || !absl::StartsWith(base.text, "file:")) return found;
        int file = FindFileExactly(absl::StrCat(".", name), scope->file_);  // a submodule of a package
        return file >= 0 ? Lookup::Found(Constant::Module(absl::StrCat("file:", file))) : Lookup{};
      }
      std::optional<Constant> member = WellKnownMember(base.text, name);
      return member ? Lookup::Found(*member) : Lookup{};
    }
    if (base.is(ConstantKind::kExternal)) {
      std::string path = absl::StrCat(base.text, ".", name);
      int file = FindFileExactly(path, 0);
      if (file >= 0) return Lookup::Found(Constant::Module(absl::StrCat("file:", file)));
      if (std::optional<Constant> module = WellKnownModule(path)) return Lookup::Found(*module);
      if (std::optional<Constant> known = WellKnownName(name)) return Lookup::Found(*known);
    }
    return ConstantAttribute(base, name);
  }

  const ModuleIndex* index_;
  const std::vector<File>& files_;
  std::vector<std::string> paths_;
  std::deque<Scope> scopes_;
  std::vector<const Scope*> class_scopes_;
  std::vector<Scope*> file_scopes_;
  std::deque<Guard> guards_;
  std::deque<Function> functions_;
  std::map<const Function*, Scope*> bound_in_;
  std::vector<std::vector<const Function*>> collected_;
  std::vector<const Function*> jit_functions_;
  std::map<std::string, const Function*> by_name_;
  std::map<const Stmt*, Taken> conditions_;
  int64_t steps_ = kModuleSteps;
  int resolving_ = 0;
  int cuts_ = 0;  // look-ups answered early because they met themselves
};

Lookup Scope::FindHere(absl::string_view name) const { return impl_->FindIn(*this, name); }

Lookup Scope::Find(absl::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->outer_) {
    Lookup found = scope->FindHere(name);
    if (found.outcome != Lookup::Outcome::kUndefined) return found;
  }
  if (name == "__name__") {
    const std::string& path = impl_->paths_[file_];
    std::string stem = path.substr(path.rfind('/') + 1);
    return Lookup::Found(Constant::String(stem.substr(0, stem.rfind('.'))));
  }
  std::optional<Constant> builtin = PythonBuiltin(name);
  return builtin ? Lookup::Found(*builtin) : Lookup{};
}

ModuleIndex::ModuleIndex(const std::vector<File>& files) : impl_(std::make_unique<Impl>(this, files)) { impl_->Build(); }
ModuleIndex::~ModuleIndex() = default;

const std::vector<File>& ModuleIndex::files() const { return impl_->files_; }
const std::vector<const Function*>& ModuleIndex::jit_functions() const { return impl_->jit_functions_; }

const Function* ModuleIndex::FindJitFunction(absl::string_view name) const {
  auto found = impl_->by_name_.find(std::string(name));
  return found == impl_->by_name_.end() ? nullptr : found->second;
}

Lookup ModuleIndex::Resolve(absl::string_view name, int file) const { return FileScope(file).Find(name); }
const Environment& ModuleIndex::FileScope(int file) const { return *impl_->file_scopes_[file]; }
Lookup ModuleIndex::Attribute(const Constant& base, absl::string_view name) const { return impl_->Attribute(base, name); }
Lookup ModuleIndex::Imported(const Stmt& import, size_t which, int file) const { return impl_->Imported(import, which, file); }

bool ModuleIndex::HasAttribute(const Constant& base, absl::string_view name) const {
  if (base.is(ConstantKind::kModule) && base.text == "tl") return IsLanguageName(name);
  return impl_->Attribute(base, name).found();
}


std::string ModuleIndex::DecoratorName(const Expr& decorator, const Environment& scope) const {
  return impl_->DecoratorName(decorator, scope);
}

}  // namespace tessera::frontend
