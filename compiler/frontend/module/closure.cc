// The canonical text of a function and of everything that it uses.
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/frontend/module/describe.h"
#include "compiler/frontend/parse/printer.h"
#include "compiler/frontend/parse/walk.h"

namespace tessera::frontend {
namespace {

// "a.b.c" if the expression is nothing but names and dots, else "".
std::string DottedName(const Expr& e) {
  if (e.kind == ExprKind::kName) return e.text;
  if (e.kind != ExprKind::kAttribute) return "";
  std::string base = DottedName(*e.a);
  return base.empty() ? "" : absl::StrCat(base, ".", e.text);
}

class ClosureBuilder {
 public:
  explicit ClosureBuilder(const ModuleIndex& module) : module_(module) {}

  std::string Build(const Function& root) {
    Number(root);
    std::string text;
    for (size_t i = 0; i < functions_.size(); ++i) absl::StrAppend(&text, Section(*functions_[i], i));
    return text;
  }

 private:
  size_t Number(const Function& function) {
    auto [known, inserted] = numbers_.emplace(&function, functions_.size());
    if (inserted) functions_.push_back(&function);
    return known->second;
  }

  // "function 1 jit", what its free names stand for, its text.
  std::string Section(const Function& function, size_t number) {
    const Stmt& definition = *function.definition;
    uses_.clear();
    names_.clear();
    locals_.clear();
    for (const FunctionParameter& parameter : definition.parameters) locals_.insert(parameter.name);
    scope_ = function.scope;
    See(definition);
    // Arguments of the jit decorator can change the code (noinline, debug).
    std::string decorators;
    for (const ExprPtr& decorator : definition.decorators)
      if (decorator->kind == ExprKind::kCall && DottedName(*decorator->a).find("jit") != std::string::npos)
        for (const Keyword& keyword : decorator->keywords)
          if (keyword.name == "noinline" || keyword.name == "debug") absl::StrAppend(&decorators, " ", keyword.name, "=", Print(*keyword.value));
    std::string text = absl::StrCat("function ", number, function.kind == Function::Kind::kJit ? " jit" : " host", decorators, "\n");
    for (const auto& [name, meaning] : uses_) absl::StrAppend(&text, name, " is ", meaning, "\n");
    return absl::StrCat(text, Print(definition, /*decorators=*/false));
  }

  void See(const Stmt& s) {
    ForEachExpression(s, [this](const Expr& e) { See(e); });
    ForEachStatement(s, [this](const Stmt& inner) { See(inner); });
  }

  void See(const Expr& e) {
    if (e.kind == ExprKind::kName) return Use(e.text, [&] { return scope_->Find(e.text); });
    if (e.kind == ExprKind::kAttribute) {
      std::string name = DottedName(e);
      if (!name.empty()) {
        Use(name, [&] { return Member(e); });
        if (uses_.count(name)) return;  // resolved as a whole
      }
    }
    ForEachChild(e, [this](const Expr& child) { See(child); });
  }

  // The value of a dotted name.
  Lookup Member(const Expr& e) {
    if (e.kind == ExprKind::kName) return locals_.count(e.text) ? Lookup{} : scope_->Find(e.text);
    Lookup base = Member(*e.a);
    if (!base.found()) return base;
    return module_.Attribute(base.value, e.text);
  }

  template <typename Find>
  void Use(const std::string& name, Find find) {
    if (locals_.count(name) || !names_.insert(name).second) return;
    Lookup found = find();
    if (found.outcome == Lookup::Outcome::kNotConstant) uses_[name] = "not constant";
    if (!found.found()) return;
    const Constant& value = found.value;
    if (value.is(ConstantKind::kModule)) return;  // what matters is what is taken from it
    if (value.is(ConstantKind::kBuiltin) && value.text == name) return;
    uses_[name] = Meaning(value);
  }

  std::string Meaning(const Constant& value) {
    if (value.is(ConstantKind::kFunction)) return absl::StrCat("function ", Number(*value.function));
    if (value.is(ConstantKind::kLambda)) return Print(*value.lambda);
    if (value.items) {  // functions in tuples
      std::string text = absl::StrCat(KindName(value), "(");
      for (const Constant& item : *value.items) {
        absl::StrAppend(&text, Meaning(item), ", ");
        if (text.size() > 100'000) break;
      }
      return text + ")";
    }
    return absl::StrCat(KindName(value), " ", Repr(value));
  }

  const ModuleIndex& module_;
  std::vector<const Function*> functions_;
  std::map<const Function*, size_t> numbers_;
  // Of the function at hand:
  std::map<std::string, std::string> uses_;
  std::set<std::string> names_, locals_;
  const Environment* scope_ = nullptr;
};

}  // namespace

std::string ClosureText(const ModuleIndex& module, const Function& function) { return ClosureBuilder(module).Build(function); }

}  // namespace tessera::frontend
