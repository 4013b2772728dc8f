// Instances of the module's classes: named tuples, and aggregates with fields, __init__ and methods. An instance is a
// tuple with names; assigning a field binds the name of the instance to a changed copy.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/frontend/check/emitter.h"

namespace tessera::frontend {
namespace {

constexpr absl::string_view kNamedTuplePrefix = "namedtuple:";

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

// Whether `value` is what isinstance calls a `name`.
bool IsOfKind(const Value& value, const std::string& name) {
  if (name == "tl.tensor") return value.is_tensor();
  if (name == "tl.constexpr") return value.is_constant();
  if (name == "tl.tuple" || name == "tuple" || name == "list") return value.is_tuple();
  if (name == "tl.constexpr_type") return value.is_type_of_constant();
  if (name == "tl.tuple_type") return value.is_tuple() || (value.is_type_of_constant() && (*value.items)[0].is_tuple());
  if (name == "tl.block_type") return value.kind == Value::Kind::kType && value.type.is_block();
  if (name == "tl.dtype" || name == "tl.pointer_type") {
    bool pointer = value.is_constant(ConstantKind::kPointerType) ||
                   (value.kind == Value::Kind::kType && value.type.element.pointer && !value.type.is_block());
    return pointer || (name == "tl.dtype" && (value.is_constant(ConstantKind::kDType) ||
                                             (value.kind == Value::Kind::kType && !value.is_type_of_constant())));
  }
  if (name == "int") return value.is_constant() && value.constant.is_integral();
  if (name == "bool") return value.is_constant(ConstantKind::kBool);
  if (name == "float") return value.is_constant(ConstantKind::kFloat);
  if (name == "str") return value.is_constant(ConstantKind::kString);
  if (absl::EndsWith(name, "tensor_descriptor") || absl::EndsWith(name, "tensor_descriptor_base"))
    return value.kind == Value::Kind::kDescriptor;
  if (absl::StartsWith(name, kNamedTuplePrefix) || absl::StartsWith(name, "class:"))
    return value.is_tuple() && value.of_class && value.of_class->key == name;
  return false;
}

}  // namespace

bool Emitter::IsInstance(const Value& value, const Value& type) {
  if (type.is_tuple())
    return std::any_of(type.items->begin(), type.items->end(), [&](const Value& one) { return IsInstance(value, one); });
  return type.is_constant() && IsOfKind(value, type.constant.text);
}

std::shared_ptr<const Class> Emitter::FindClass(const std::string& key) {
  auto known = classes_.find(key);
  if (known != classes_.end()) return known->second;
  if (absl::StartsWith(key, kNamedTuplePrefix)) {  // made by a call of namedtuple: "namedtuple:Name:a,b"
    std::vector<std::string> parts = absl::StrSplit(key, ':');
    auto result = std::make_shared<Class>();
    result->key = key;
    result->name = parts[1];
    result->is_named_tuple = true;
    for (absl::string_view field : absl::StrSplit(parts[2], ',', absl::SkipEmpty()))
      result->fields.push_back({std::string(field), nullptr, false});
    return classes_[key] = result;
  }
  auto place = class_places_.find(key);
  const Stmt* definition = nullptr;
  if (place != class_places_.end() && place->second.line > 0)
    definition = FindClassStatement(index_.files()[place->second.file].body, place->second);
  if (!definition) {
    Error("this class cannot be used in a kernel");
    return nullptr;
  }
  auto result = std::make_shared<Class>();
  result->key = key;
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
