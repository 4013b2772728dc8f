#include "compiler/frontend/module/describe.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/frontend/lex/lexer.h"
#include "compiler/frontend/module/heuristics.h"
#include "compiler/frontend/module/prune_configs.h"
#include "compiler/frontend/parse/printer.h"
#include "compiler/frontend/parse/walk.h"

namespace tessera::frontend {
namespace {

constexpr size_t kMaxConfigs = 4096;

// Proto strings are UTF-8; what string methods cut apart may not be.
std::string Utf8(std::string text) {
  size_t ignored;
  return IsUtf8(text) ? text : NormalizeSource(text, &ignored);
}

// Whether the function gives something back, as helpers do and kernels do not.
bool ReturnsValue(const std::vector<StmtPtr>& body) {
  return std::any_of(body.begin(), body.end(), [](const StmtPtr& s) {
    if (s->kind == StmtKind::kReturn && s->value && s->value->kind != ExprKind::kNone) return true;
    if (s->kind == StmtKind::kFunctionDef) return false;
    return ReturnsValue(s->body) || ReturnsValue(s->or_else);
  });
}

class KernelDescriber {
 public:
  // `launch`: values of a launch that configurations are pruned for; null: there is none.
  KernelDescriber(const ModuleIndex& module, const Function& function, storage::KernelDescription* out, const NamedConstants* launch = nullptr)
      : module_(module), function_(function), definition_(*function.definition), out_(*out), launch_(launch) {}

  void Run() {
    out_.set_name(function_.name);
    out_.set_line(static_cast<uint32_t>(definition_.range.line));
    out_.set_is_kernel(!ReturnsValue(definition_.body));
    if (!function_.note.empty()) Note(function_.note);
    for (const FunctionParameter& parameter : definition_.parameters) Parameter(parameter);
    for (const ExprPtr& decorator : definition_.decorators) Decorator(*decorator);
    out_.set_closure(Utf8(ClosureText(module_, function_)));
    out_.set_notes(Utf8(notes_));
  }

  // The configurations that are left for the launch, by their place in the description without one.
  PrunedConfigs ForLaunch() {
    for (const ExprPtr& decorator : definition_.decorators) Decorator(*decorator);
    return pruned_;
  }

 private:
  void Note(absl::string_view text) { absl::StrAppend(&notes_, notes_.empty() ? "" : "\n", text); }

  // `subject` could not be evaluated.
  void NoteError(absl::string_view subject) {
    Note(absl::StrCat(subject, " cannot be evaluated: ", error_.message, " (line ", error_.range.line, ")"));
  }

  std::optional<Constant> Evaluate(const Expr& e) {
    Evaluator evaluator(module_);
    std::optional<Constant> value = evaluator.Evaluate(e, *function_.scope);
    error_ = evaluator.error();
    return value;
  }

  void Parameter(const FunctionParameter& parameter) {
    storage::ParameterDescription* out = out_.add_parameters();
    out->set_name(parameter.name);
    if (parameter.annotation) {
      const Expr& annotation = *parameter.annotation;
      std::string text = annotation.kind == ExprKind::kString ? annotation.text : Print(annotation);
      out->set_annotation(Utf8(text));
      out->set_is_constexpr(absl::StrContains(text, "constexpr"));
      if (!out->is_constexpr() && (annotation.kind == ExprKind::kName || annotation.kind == ExprKind::kAttribute)) {
        std::optional<Constant> meaning = Evaluate(annotation);
        out->set_is_constexpr(meaning && meaning->is_builtin("tl.constexpr"));
      }
    }
    if (parameter.is_star || parameter.is_double_star)
      Note(absl::StrCat("parameter '", parameter.name, "' collects arguments, which kernels cannot"));
    if (!parameter.default_value) return;
    out->set_has_default(true);
    std::optional<Constant> value = Evaluate(*parameter.default_value);
    std::optional<storage::ConstantValue> stored = value ? ToStorage(*value) : std::nullopt;
    if (stored) {
      *out->mutable_default_value() = *stored;
    } else if (value) {
      Note(absl::StrCat("the default of '", parameter.name, "' is no value that a kernel can take"));
    } else {
      NoteError(absl::StrCat("the default of '", parameter.name, "'"));
    }
  }

  void Decorator(const Expr& decorator) {
    std::string name = module_.DecoratorName(decorator, *function_.scope);
    absl::string_view last = absl::string_view(name).substr(name.rfind('.') + 1);
    bool is_call = decorator.kind == ExprKind::kCall;
    if (last == "jit") {
      if (is_call) Jit(decorator);
    } else if (is_call && (absl::EndsWith(last, "autotune") || last == "libtuner")) {
      Autotune(decorator);
    } else if (is_call && last == "heuristics") {
      Heuristics(decorator);
    } else if (last != "staticmethod") {
      Note(absl::StrCat("decorator '", name, "' is ignored"));
    }
  }

  static const Expr* Argument(const Expr& call, size_t position, absl::string_view name) {
    if (position < call.items.size()) return call.items[position].get();
    for (const Keyword& keyword : call.keywords)
      if (keyword.name == name) return keyword.value.get();
    return nullptr;
  }
  static constexpr size_t kByNameOnly = 1000;

  //===-- @triton.jit --------------------------------------------------------------------------===//

  void Jit(const Expr& call) {
    MarkParameters(call, "do_not_specialize", [](storage::ParameterDescription* p) { p->set_do_not_specialize(true); });
    MarkParameters(call, "do_not_specialize_on_alignment", [](storage::ParameterDescription* p) { p->set_do_not_specialize_on_alignment(true); });
  }

  // Parameters are listed by name or index.
  template <typename Mark>
  void MarkParameters(const Expr& call, absl::string_view keyword, Mark mark) {
    const Expr* argument = Argument(call, kByNameOnly, keyword);
    if (!argument) return;
    std::optional<Constant> list = Evaluate(*argument);
    if (!list) return NoteError(keyword);
    std::vector<Constant> entries;
    if (list->items) entries = *list->items;
    if (list->is(ConstantKind::kString) || list->is_integral()) entries = {*list};
    for (const Constant& entry : entries) {
      bool found = false;
      for (int i = 0; i < out_.parameters_size(); ++i) {
        bool named = entry.is(ConstantKind::kString) && entry.text == out_.parameters(i).name();
        if (!named && !(entry.is_integral() && entry.as_integer() == i)) continue;
        mark(out_.mutable_parameters(i));
        found = true;
      }
      if (!found) Note(absl::StrCat(keyword, " names ", Repr(entry), ", which is no parameter"));
    }
  }

  //===-- @triton.autotune ---------------------------------------------------------------------===//

  void Autotune(const Expr& call) {
    if (const Expr* configs = Argument(call, 0, "configs")) Configs(*configs);
    if (const Expr* key = Argument(call, 1, "key")) Names(*key, "key", [this](const std::string& n) { out_.add_tuning_key(n); });
    if (const Expr* names = Argument(call, kByNameOnly, "reset_to_zero"))
      Names(*names, "reset_to_zero", [this](const std::string& n) { out_.add_reset_to_zero(n); });
    if (const Expr* names = Argument(call, kByNameOnly, "restore_value"))
      Names(*names, "restore_value", [this](const std::string& n) { out_.add_restore_value(n); });
    for (const char* hook : {"pre_hook", "post_hook"})
      if (const Expr* function = Argument(call, kByNameOnly, hook); function && function->kind != ExprKind::kNone) Hook(hook, Print(*function));
    if (const Expr* prune = Argument(call, kByNameOnly, "prune_configs_by"); prune && prune->kind != ExprKind::kNone) Prune(*prune);
  }

  // Python code beside the launch: what needs it is refused when it is compiled (see PRE_HOOK in the driver).
  void Hook(const std::string& hook, const std::string& function) {
    for (storage::TuneConfig& config : *out_.mutable_configs()) (*config.mutable_options()->mutable_extra())[hook] = Utf8(function);
  }

  void Prune(const Expr& expression) {
    std::optional<Constant> prune = Evaluate(expression);
    if (!prune) return NoteError("prune_configs_by");
    pruned_ = PruneConfigs(module_, *prune, configs_, launch_, expression.range);
    out_.set_prunes_by_launch(pruned_.needs_launch);
    if (!pruned_.note.empty()) Note(absl::StrCat("prune_configs_by prunes nothing: ", pruned_.note));
    if (pruned_.kept.size() == configs_.size() || launch_ != nullptr) return;
    google::protobuf::RepeatedPtrField<storage::TuneConfig> kept;
    for (size_t index : pruned_.kept) *kept.Add() = out_.configs(static_cast<int>(index));
    out_.mutable_configs()->Swap(&kept);
  }

  template <typename Add>
  void Names(const Expr& list, absl::string_view what, Add add) {
    if (list.kind == ExprKind::kNone) return;
    std::optional<Constant> value = Evaluate(list);
    std::string error;
    std::optional<std::vector<Constant>> entries = value ? Elements(*value, &error) : std::nullopt;
    if (!entries || value->is(ConstantKind::kString)) return value ? Note(absl::StrCat(what, " is no list of names")) : NoteError(what);
    for (const Constant& entry : *entries) {
      if (entry.is(ConstantKind::kString)) {
        add(Utf8(entry.text));
      } else {
        Note(absl::StrCat(what, " holds ", Repr(entry), ", which is no name"));
      }
    }
  }

  void Configs(const Expr& expression) {
    std::optional<Constant> list = Evaluate(expression);
    if (!list) return NoteError("the list of configurations");
    std::string error;
    std::optional<std::vector<Constant>> configs = Elements(*list, &error);
    if (!configs) return Note(absl::StrCat("the list of configurations is no list but ", KindName(*list)));
    std::set<std::string> notes;  // one for each kind of trouble, not for each configuration
    for (const Constant& config : *configs) {
      if (!config.is(ConstantKind::kConfig)) {
        notes.insert(absl::StrCat("a configuration is no triton.Config but ", KindName(config)));
      } else if (static_cast<size_t>(out_.configs_size()) >= kMaxConfigs) {
        notes.insert(absl::StrCat("only the first ", kMaxConfigs, " configurations are kept"));
      } else {
        storage::TuneConfig read;
        if (!Config(config, &read, &notes)) continue;
        *out_.add_configs() = std::move(read);
        configs_.push_back(config);
      }
    }
    for (size_t i = 0; i < configs_.size(); ++i) pruned_.kept.push_back(i);
    for (const std::string& note : notes) Note(note);
  }

  bool IsParameter(absl::string_view name) const {
    return std::any_of(definition_.parameters.begin(), definition_.parameters.end(), [&](const FunctionParameter& p) { return p.name == name; });
  }

  bool Config(const Constant& config, storage::TuneConfig* out, std::set<std::string>* notes) {
    for (int part : {0, 1}) {
      const std::vector<Constant>& entries = *(*config.items)[static_cast<size_t>(part)].items;
      for (size_t i = 0; i + 1 < entries.size(); i += 2) {
        const std::string& name = entries[i].text;
        // Triton passes all of them as keywords of the launch: what is no parameter is an option.
        if (part == 0 && IsParameter(name)) {
          std::optional<storage::ConstantValue> value = ToStorage(entries[i + 1]);
          if (!value || !IsUtf8(name)) {
            notes->insert(absl::StrCat("configurations with '", name, "' = ", KindName(entries[i + 1]), " are left out"));
            return false;
          }
          storage::NamedConstant* named = out->add_values();
          named->set_name(name);
          *named->mutable_value() = *value;
        } else {
          Option(name, entries[i + 1], out->mutable_options(), notes);
        }
      }
    }
    return true;
  }

  static void Option(const std::string& name, const Constant& value, storage::LaunchOptions* out, std::set<std::string>* notes) {
    if (value.is_none()) return;
    if (name == "pre_hook") notes->insert("configurations with a pre_hook do not run: it is Python code");
    uint32_t number = value.is_integral() && value.as_integer() > 0 && value.as_integer() < 1'000'000 ? static_cast<uint32_t>(value.as_integer()) : 0;
    if (name == "num_warps") return out->set_num_warps(number);
    if (name == "num_stages") return out->set_num_stages(number);
    if (name == "num_ctas") return out->set_num_ctas(number);
    if (name == "maxnreg") return out->set_maxnreg(number);
    (*out->mutable_extra())[Utf8(name)] = Utf8(value.is(ConstantKind::kString) ? value.text : Repr(value));
  }

  //===-- @triton.heuristics -------------------------------------------------------------------===//

  void Heuristics(const Expr& call) {
    const Expr* argument = Argument(call, 0, "values");
    if (!argument) return;
    std::optional<Constant> values = Evaluate(*argument);
    if (!values) return NoteError("the heuristics");
    if (!values->is(ConstantKind::kDict)) return Note(absl::StrCat("the heuristics are no dict but ", KindName(*values)));
    for (size_t i = 0; i + 1 < values->items->size(); i += 2) {
      const Constant& name = (*values->items)[i];
      if (!name.is(ConstantKind::kString)) {
        Note(absl::StrCat("a heuristic is named by ", KindName(name)));
        continue;
      }
      std::string missing;
      std::string text = HeuristicText(module_, (*values->items)[i + 1], &missing);
      if (!missing.empty()) Note(absl::StrCat("heuristic '", name.text, "': ", missing));
      if (text.empty()) continue;
      storage::KernelDescription::Heuristic* out = out_.add_heuristics();
      out->set_name(Utf8(name.text));
      out->set_expression(Utf8(text));
    }
  }

  const ModuleIndex& module_;
  const Function& function_;
  const Stmt& definition_;
  storage::KernelDescription& out_;
  const NamedConstants* const launch_;
  std::vector<Constant> configs_;  // what out_.configs() was read from
  PrunedConfigs pruned_;
  EvaluationError error_;  // of the last Evaluate
  std::string notes_;
};

}  // namespace

std::optional<std::vector<size_t>> ConfigsForLaunch(const ModuleIndex& module, absl::string_view kernel, const NamedConstants& launch, std::string* note) {
  const Function* function = module.FindJitFunction(kernel);
  if (function == nullptr) return std::nullopt;
  storage::KernelDescription ignored;
  PrunedConfigs pruned = KernelDescriber(module, *function, &ignored, &launch).ForLaunch();
  *note = pruned.note;
  return pruned.kept;
}

storage::ModuleDescription Describe(const ModuleIndex& module) {
  storage::ModuleDescription description;
  std::map<std::string, storage::KernelDescription*> by_name;
  for (const Function* function : module.jit_functions()) {
    // Names are all that a launch has: of several functions of one name, it means FindJitFunction's.
    if (module.FindJitFunction(function->name) != function) continue;
    storage::KernelDescription* out = description.add_kernels();
    KernelDescriber(module, *function, out).Run();
    by_name[function->name] = out;
  }
  for (const Function* function : module.jit_functions()) {
    if (module.FindJitFunction(function->name) == function) continue;
    storage::KernelDescription* taken = by_name[function->name];
    std::string note = absl::StrCat("another '", function->name, "' in ", module.files()[static_cast<size_t>(function->file)].path, " line ",
                                    function->definition->range.line, " cannot be launched by name");
    taken->set_notes(absl::StrCat(taken->notes(), taken->notes().empty() ? "" : "\n", note));
  }
  return description;
}

}  // namespace tessera::frontend
