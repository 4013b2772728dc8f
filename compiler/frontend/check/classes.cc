// Instances of the module's classes: named tuples, and aggregates with fields, __init__ and methods. An instance is a
// tuple with names; assigning a field binds the name of the instance to a changed copy.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/frontend/check/emitter.h"

namespace tessera::frontend {
namespace {

const Stmt* FindClassStatement(const std::vector<StmtPtr>& body, const SourceRange& place) {
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::kClassDef && stmt->range.line == place.line && stmt->range.column == place.column)
      return stmt.get();
    for (const auto* list : {&stmt->body, &stmt->or_else})
      if (const Stmt* found = FindClassStatement(*list, place)) return found;
  }
  return nullptr;
}

bool IsNamed(const ExprPtr& expr, absl::string_view suffix) {
  const Expr* e = expr.get();
  if (e->kind == ExprKind::kCall) e = e->a.get();
  return (e->kind == ExprKind::kName || e->kind == ExprKind::kAttribute) && absl::EndsWith(e->text, suffix);
}

}  // namespace

std::shared_ptr<const Class> Emitter::FindClass(const std::string& key) {
  auto known = classes_.find(key);
  if (known != classes_.end()) return known->second;
  auto place = class_places_.find(key);
  const Stmt* definition = nullptr;
  if (place != class_places_.end() && place->second.line > 0)
    definition = FindClassStatement(index_.files()[place->second.file].body, place->second);
  if (!definition) {
    Error("this class cannot be used in a kernel");
    return nullptr;
  }
  auto result = std::make_shared<Class>();
  result->name = definition->text;
  result->scope = &index_.FileScope(place->second.file);
  auto any = [](const std::vector<ExprPtr>& list, absl::string_view suffix) {
    return std::any_of(list.begin(), list.end(), [&](const ExprPtr& e) { return IsNamed(e, suffix); });
  };
  result->is_named_tuple = any(definition->targets, "NamedTuple");
  if (!result->is_named_tuple && !any(definition->decorators, "aggregate")) {
    Error(absl::StrCat("'", definition->text, "' is a plain Python class; kernels make instances of a NamedTuple or of a ",
                       "class marked as an aggregate"));
    Note(definition->range, "defined here");
    return nullptr;
  }
  for (const StmtPtr& stmt : definition->body) {
    if (stmt->kind == StmtKind::kAnnAssign && stmt->targets[0]->kind == ExprKind::kName)
      result->fields.push_back(
          {stmt->targets[0]->text, stmt->value.get(), stmt->extra && IsNamed(stmt->extra, "constexpr")});
    if (stmt->kind != StmtKind::kFunctionDef) continue;
    Function method;
    method.kind = Function::Kind::kJit;
    method.name = stmt->text;
    method.definition = stmt.get();
    method.scope = result->scope;
    method.file = place->second.file;
    method.in_class = true;
    result->methods.emplace(stmt->text, std::move(method));
  }
  classes_[key] = result;
  return result;
}

Value Emitter::Construct(const std::string& key, std::vector<CallArgument> arguments, SourceRange call) {
  std::shared_ptr<const Class> of_class = FindClass(key);
  if (!of_class) return {};
  Value instance = Value::Tuple(std::vector<Value>(of_class->fields.size(), Value::None()));
  instance.of_class = of_class;
  instance.fields = std::make_shared<std::vector<std::string>>();
  for (const Class::Field& field : of_class->fields) instance.fields->push_back(field.name);

  auto init = of_class->methods.find("__init__");
  if (!of_class->is_named_tuple && init != of_class->methods.end()) {
    if (init->second.definition->parameters.empty()) return Error(absl::StrCat(of_class->name, ".__init__ takes no self"));
    arguments.insert(arguments.begin(), {"", instance, call});
    return Inline(init->second, std::move(arguments), call, init->second.definition->parameters[0].name);
  }
  std::vector<bool> given(of_class->fields.size());
  size_t position = 0;
  for (const CallArgument& argument : arguments) {
    size_t slot = position;
    if (argument.name.empty()) ++position;
    else slot = std::find(instance.fields->begin(), instance.fields->end(), argument.name) - instance.fields->begin();
    if (slot >= given.size())
      return Error(argument.range, argument.name.empty()
                                       ? absl::StrCat(of_class->name, " has ", given.size(), " field(s), but more are given")
                                       : absl::StrCat(of_class->name, " has no field '", argument.name, "'"));
    if (given[slot]) return Error(argument.range, absl::StrCat("field '", of_class->fields[slot].name, "' is given twice"));
    given[slot] = true;
    (*instance.items)[slot] = argument.value;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i]) continue;
    const Class::Field& field = of_class->fields[i];
    if (!field.default_value) return Error(absl::StrCat(of_class->name, " misses its field '", field.name, "'"));
    std::optional<Constant> constant = evaluator_.Evaluate(*field.default_value, *of_class->scope);
    if (!constant) return Error(evaluator_.error().range, evaluator_.error().message);
    (*instance.items)[i] = Value::Of(*constant);
  }
  return instance;
}

void Emitter::AssignField(const Expr& target, const Value& value) {
  auto it = target.a->kind == ExprKind::kName ? names().bound.find(target.a->text) : names().bound.end();
  bool fits = it != names().bound.end() && it->second.value.is_tuple() && it->second.value.of_class;
  if (!fits || it->second.value.of_class->is_named_tuple) {
    Error(target.range, "only the fields of an aggregate can be assigned, through its name");
    return;
  }
  Value changed = it->second.value;
  size_t slot = std::find(changed.fields->begin(), changed.fields->end(), target.text) - changed.fields->begin();
  if (slot == changed.fields->size()) {
    Error(target.range, absl::StrCat("a ", changed.of_class->name, " has no field '", target.text, "'"));
    return;
  }
  changed.items = std::make_shared<std::vector<Value>>(*changed.items);
  (*changed.items)[slot] = changed.of_class->fields[slot].is_constexpr ? value : Strong(value);
  it->second.value = std::move(changed);
  it->second.place = target.range;
}

}  // namespace tessera::frontend
