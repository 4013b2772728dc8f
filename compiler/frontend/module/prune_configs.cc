#include "compiler/frontend/module/prune_configs.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/frontend/parse/walk.h"

namespace tessera::frontend {
namespace {

void ReadNames(const Expr& e, std::set<std::string>* names) {
  if (e.kind == ExprKind::kName) names->insert(e.text);
  ForEachChild(e, [names](const Expr& child) { ReadNames(child, names); });
}
void ReadNames(const Stmt& s, std::set<std::string>* names) {
  ForEachExpression(s, [names](const Expr& e) { ReadNames(e, names); });
  ForEachStatement(s, [names](const Stmt& inner) { ReadNames(inner, names); });
}

// Whether a function of (configs, named_args, **kwargs) looks at anything but the configurations.
bool ReadsMoreThanConfigs(const Constant& callee) {
  std::set<std::string> names;
  std::vector<std::string> parameters;
  if (callee.is(ConstantKind::kLambda)) {
    ReadNames(*callee.lambda->a, &names);
    parameters = callee.lambda->lambda_parameters;
  } else if (callee.is(ConstantKind::kFunction)) {
    ReadNames(*callee.function->definition, &names);
    for (const FunctionParameter& parameter : callee.function->definition->parameters)
      parameters.push_back(parameter.name);
  } else {
    return true;
  }
  return std::any_of(parameters.begin() + std::min<std::ptrdiff_t>(
                                              1, static_cast<std::ptrdiff_t>(parameters.size())),
                     parameters.end(),
                     [&](const std::string& parameter) { return names.count(parameter) > 0; });
}

bool TakesAnyKeyword(const Constant& callee) {
  if (!callee.is(ConstantKind::kFunction)) return false;
  const std::vector<FunctionParameter>& parameters = callee.function->definition->parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const FunctionParameter& p) { return p.is_double_star; });
}

// The parameters of `callee` beyond the first `skipped`, for which there are values.
NamedConstants Keywords(const Constant& callee, size_t skipped, const NamedConstants& values) {
  if (TakesAnyKeyword(callee)) {
    // A name that a parameter takes by its place is no keyword.
    NamedConstants keywords;
    for (const auto& [name, value] : values) {
      const std::vector<FunctionParameter>& parameters = callee.function->definition->parameters;
      bool by_place = false;
      for (size_t i = 0; i < std::min(skipped, parameters.size()); ++i)
        by_place = by_place || parameters[i].name == name;
      if (!by_place) keywords.emplace_back(name, value);
    }
    return keywords;
  }
  std::set<std::string> wanted;
  if (callee.is(ConstantKind::kLambda))
    wanted.insert(callee.lambda->lambda_parameters.begin() +
                      std::min<std::ptrdiff_t>(
                          static_cast<std::ptrdiff_t>(skipped),
                          static_cast<std::ptrdiff_t>(callee.lambda->lambda_parameters.size())),
                  callee.lambda->lambda_parameters.end());
  if (callee.is(ConstantKind::kFunction))
    for (size_t i = skipped; i < callee.function->definition->parameters.size(); ++i)
      wanted.insert(callee.function->definition->parameters[i].name);
  NamedConstants keywords;
  for (const auto& [name, value] : values)
    if (wanted.count(name) > 0) keywords.emplace_back(name, value);
  return keywords;
}

const Constant* Entry(const Constant& dict, const std::string& name) {
  for (size_t i = 0; i + 1 < dict.items->size(); i += 2)
    if ((*dict.items)[i].is(ConstantKind::kString) && (*dict.items)[i].text == name) {
      const Constant& value = (*dict.items)[i + 1];
      return value.is_none() ? nullptr : &value;
    }
  return nullptr;
}

Constant DictOf(const NamedConstants& values) {
  Constant dict = Constant::Dict({});
  for (const auto& [name, value] : values) {
    dict.items->push_back(Constant::String(name));
    dict.items->push_back(value);
  }
  return dict;
}

// What a configuration passes to a launch: Triton's Config.all_kwargs().
void AppendKeywords(const Constant& config, NamedConstants* keywords) {
  for (int part : {0, 1}) {
    const std::vector<Constant>& entries = *(*config.items)[static_cast<size_t>(part)].items;
    for (size_t i = 0; i + 1 < entries.size(); i += 2)
      if (part == 0 || entries[i].text == "num_warps" || entries[i].text == "num_stages" ||
          entries[i].text == "num_ctas" || entries[i].text == "maxnreg")
        keywords->emplace_back(entries[i].text, entries[i + 1]);
  }
  for (const auto& [name, value] :
       {std::pair<const char*, int>{"num_warps", 4}, {"num_stages", 3}, {"num_ctas", 1}})
    if (std::none_of(keywords->begin(), keywords->end(),
                     [n = name](const auto& k) { return k.first == n; }))
      keywords->emplace_back(name, Constant::Int(value));
}

class Pruner {
 public:
  Pruner(const ModuleIndex& module, const std::vector<Constant>& configs,
         const NamedConstants* launch, SourceRange at)
      : module_(module), configs_(configs), launch_(launch), at_(at) {
    result_.kept.resize(configs.size());
    std::iota(result_.kept.begin(), result_.kept.end(), 0);
  }

  PrunedConfigs Run(const Constant& prune) {
    if (!prune.is(ConstantKind::kDict))
      return Keep(absl::StrCat("it is no dict but ", KindName(prune)));
    std::vector<size_t> all = result_.kept;
    const Constant* early = Entry(prune, "early_config_prune");
    const Constant* model = Entry(prune, "perf_model");
    bool ok = (early == nullptr || Early(*early)) &&
              (model == nullptr || Model(*model, Entry(prune, "top_k")));
    if (!ok) result_.kept = all;
    return std::move(result_);
  }

 private:
  PrunedConfigs Keep(std::string why) {
    result_.note = std::move(why);
    return std::move(result_);
  }
  bool Fail(absl::string_view what, std::string why) {
    result_.note = absl::StrCat(what, " cannot be evaluated: ", why);
    return false;
  }
  bool NeedsLaunch() {
    result_.needs_launch = true;
    return false;
  }

  bool Early(const Constant& early) {
    if (launch_ == nullptr && ReadsMoreThanConfigs(early)) return NeedsLaunch();
    NamedConstants none;
    const NamedConstants& values = launch_ == nullptr ? none : *launch_;
    Evaluator evaluator(module_);
    std::optional<Constant> kept = evaluator.Call(early, {Constant::List(configs_), DictOf(values)},
                                                  Keywords(early, 2, values), at_);
    if (!kept) return Fail("early_config_prune", evaluator.error().message);
    std::string error;
    std::optional<std::vector<Constant>> items = Elements(*kept, &error);
    if (!items) return Fail("early_config_prune", error);
    if (items->empty()) return Fail("early_config_prune", "it keeps no configuration");
    std::vector<size_t> indices;
    for (const Constant& item : *items) {
      auto found = std::find_if(configs_.begin(), configs_.end(),
                                [&](const Constant& config) { return Equal(config, item); });
      if (found == configs_.end())
        return Fail("early_config_prune", "it gives a configuration that the list does not have");
      indices.push_back(static_cast<size_t>(found - configs_.begin()));
    }
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    result_.kept = std::move(indices);
    return true;
  }

  // Keeps the top_k configurations with the lowest estimates.
  bool Model(const Constant& model, const Constant* top_k) {
    size_t count = result_.kept.size();
    if (top_k != nullptr && top_k->is(ConstantKind::kFloat) && top_k->real <= 1 && top_k->real > 0)
      count = std::max<size_t>(1, static_cast<size_t>(static_cast<double>(count) * top_k->real));
    else if (top_k != nullptr && top_k->is(ConstantKind::kInt) && top_k->integer > 0)
      count = static_cast<size_t>(top_k->integer);
    else if (top_k != nullptr)
      return Fail("top_k", absl::StrCat(Repr(*top_k), " is neither a share up to 1.0 nor a count"));
    if (count >= result_.kept.size()) return true;
    if (launch_ == nullptr) return NeedsLaunch();
    std::vector<std::pair<double, size_t>> estimates;
    Evaluator evaluator(module_);
    for (size_t index : result_.kept) {
      NamedConstants values;
      AppendKeywords(configs_[index], &values);
      for (const auto& value : *launch_)
        if (std::none_of(values.begin(), values.end(),
                         [&](const auto& known) { return known.first == value.first; }))
          values.push_back(value);
      std::optional<Constant> estimate = evaluator.Call(model, {}, Keywords(model, 0, values), at_);
      if (!estimate) return Fail("perf_model", evaluator.error().message);
      if (!estimate->is_number())
        return Fail("perf_model", absl::StrCat("it gives ", KindName(*estimate), ", no number"));
      estimates.emplace_back(estimate->as_real(), index);
    }
    std::stable_sort(estimates.begin(), estimates.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    result_.kept.clear();
    for (size_t i = 0; i < count; ++i) result_.kept.push_back(estimates[i].second);
    std::sort(result_.kept.begin(), result_.kept.end());
    return true;
  }

  const ModuleIndex& module_;
  const std::vector<Constant>& configs_;
  const NamedConstants* const launch_;
  const SourceRange at_;
  PrunedConfigs result_;
};

}  // namespace

PrunedConfigs PruneConfigs(const ModuleIndex& module, const Constant& prune,
                           const std::vector<Constant>& configs, const NamedConstants* launch,
                           SourceRange at) {
  return Pruner(module, configs, launch, at).Run(prune);
}

}  // namespace tessera::frontend
