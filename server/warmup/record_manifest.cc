#include "server/warmup/record_manifest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "server/launch/recipe.h"
#include "server/warmup/write_manifest.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

// More rows than this for one kernel, beyond what was observed, are not worth their compiles.
constexpr size_t kMaxWidenedRows = 64;
constexpr int64_t kOtherInteger = 17;

std::string TypeText(const api::TensorRef& tensor) {
  std::optional<DType> dtype = ParseDType(tensor.dtype());
  return absl::StrCat("*", dtype ? std::string(ShortName(*dtype)) : tensor.dtype(),
                      tensor.byte_offset() % 16 == 0 ? ":16" : "");
}

void ToPattern(const api::Argument& argument, api::ArgumentPattern* pattern) {
  switch (argument.kind_case()) {
    case api::Argument::kTensor:
      pattern->set_text(TypeText(argument.tensor()));
      return;
    case api::Argument::kInteger:
      pattern->add_values()->set_integer(argument.integer());
      break;
    case api::Argument::kUnsignedInteger:
      pattern->add_values()->set_unsigned_integer(argument.unsigned_integer());
      break;
    case api::Argument::kReal:
      pattern->add_values()->set_real(argument.real());
      break;
    case api::Argument::kBoolean:
      pattern->add_values()->set_boolean(argument.boolean());
      break;
    case api::Argument::kConstant:
      *pattern->add_values() = argument.constant();
      break;
    case api::Argument::kTuple:
      for (const api::Argument& item : argument.tuple().items())
        ToPattern(item, pattern->add_tuple());
      if (argument.tuple().items_size() == 0) pattern->add_values()->mutable_tuple();
      return;
    case api::Argument::kTensorDescriptor: {
      auto* descriptor = pattern->mutable_tensor_descriptor();
      descriptor->set_type(argument.tensor_descriptor().base().dtype());
      *descriptor->mutable_block() = argument.tensor_descriptor().block_shape();
      descriptor->set_padding(argument.tensor_descriptor().padding());
      return;
    }
    case api::Argument::KIND_NOT_SET:
      return;
  }
  pattern->set_type(argument.type());
}

bool IsPlainInteger(const api::ArgumentPattern& pattern) {
  return pattern.values_size() == 1 && pattern.values(0).has_integer() && pattern.type().empty();
}

// 0: one, 1: a multiple of 16, 2: the rest.
int ClassOf(int64_t value) { return value == 1 ? 0 : value % 16 == 0 ? 1 : 2; }

// Everything but plain integers, which become rows of `shapes`.
std::string GroupKey(const api::ManifestKernel& kernel) {
  api::ManifestKernel rest = kernel;
  rest.clear_arguments();
  rest.clear_launches();
  for (const api::NamedPattern& argument : kernel.arguments()) {
    api::NamedPattern* added = rest.add_arguments();
    *added = argument;
    if (IsPlainInteger(argument.value())) added->mutable_value()->clear_values();
  }
  return KernelLine(rest);
}

using RowValues = std::map<std::string, int64_t>;

// The rows and, for arguments whose class varies among them, the same rows with the other classes.
std::vector<RowValues> Widen(const std::vector<RowValues>& rows) {
  std::map<std::string, std::map<int, int64_t>> classes;  // one value of each class
  for (const RowValues& row : rows)
    for (const auto& [name, value] : row) classes[name].emplace(ClassOf(value), value);
  // Rows that differ in no class are one variant, whatever their numbers; one of each is enough to
  // widen from.
  std::set<std::vector<int>> seen;
  auto classes_of = [](const RowValues& row) {
    std::vector<int> list;
    for (const auto& [name, value] : row) list.push_back(ClassOf(value));
    return list;
  };
  std::vector<RowValues> all;
  for (const RowValues& row : rows) {
    seen.insert(classes_of(row));
    all.push_back(row);
  }
  size_t limit = std::max(kMaxWidenedRows, rows.size());
  for (auto& [name, known] : classes) {
    if (known.size() < 2) continue;
    known.emplace(0, 1);
    known.emplace(1, 16);
    known.emplace(2, kOtherInteger);
    for (size_t i = 0, count = all.size(); i < count && all.size() < limit; ++i)
      for (const auto& [one, value] : known) {
        RowValues wider = all[i];
        wider[name] = value;
        if (all.size() < limit && seen.insert(classes_of(wider)).second) all.push_back(wider);
      }
  }
  return all;
}

// Entries that differ in integers alone, as one entry with rows.
api::ManifestKernel Merge(const std::vector<api::ManifestKernel>& group, bool exact) {
  std::vector<RowValues> rows;
  uint64_t launches = 0;
  for (const api::ManifestKernel& kernel : group) {
    RowValues row;
    for (const api::NamedPattern& argument : kernel.arguments())
      if (IsPlainInteger(argument.value()))
        row[argument.name()] = argument.value().values(0).integer();
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
    launches += kernel.launches();
  }
  if (!exact) rows = Widen(rows);
  api::ManifestKernel merged = group[0];
  merged.set_launches(launches);
  if (rows.size() < 2) return merged;
  std::set<std::string> varying;
  for (const auto& [name, value] : rows[0])
    for (const RowValues& row : rows)
      if (row.at(name) != value) varying.insert(name);
  merged.clear_arguments();
  for (const api::NamedPattern& argument : group[0].arguments())
    if (varying.count(argument.name()) == 0) *merged.add_arguments() = argument;
  std::set<RowValues> written;
  for (const RowValues& row : rows) {
    RowValues shown;
    for (const auto& [name, value] : row)
      if (varying.count(name) > 0) shown[name] = value;
    if (!written.insert(shown).second) continue;
    api::ShapeRow* to = merged.add_shapes();
    for (const auto& [name, value] : shown) {
      api::NamedPattern* pattern = to->add_values();
      pattern->set_name(name);
      pattern->mutable_value()->add_values()->set_integer(value);
    }
  }
  return merged;
}

void ToTuning(const storage::TuningRecord& record, const api::ManifestModule& module,
              api::Manifest* manifest) {
  if (record.chosen() >= static_cast<uint32_t>(record.trials_size())) return;
  const storage::TuningRecord::Trial& chosen = record.trials(record.chosen());
  if (chosen.config().values_size() == 0) return;
  api::ManifestTuning* tuning = manifest->add_tunings();
  tuning->set_kernel(record.kernel());
  if (!module.op().empty())
    tuning->set_op(module.op());
  else if (!module.path().empty())
    tuning->set_path(module.path());
  else
    tuning->set_path(module.files(0).path());
  tuning->set_bucket(record.bucket());
  tuning->set_device(record.device());
  for (const storage::NamedConstant& value : chosen.config().values()) {
    api::NamedConstant* to = tuning->add_values();
    to->set_name(value.name());
    ToWire(value.value(), to->mutable_value());
  }
  ToWire(chosen.config().options(), tuning->mutable_options());
  tuning->set_seconds(chosen.median_seconds());
  tuning->set_reason(record.reason());
}

}  // namespace

api::ManifestKernel ToEntry(const api::CompileRequest& recipe) {
  api::ManifestKernel kernel;
  kernel.set_name(recipe.kernel());
  *kernel.mutable_signature() = recipe.signature();
  std::set<std::string> constants;
  for (const api::NamedConstant& constant : recipe.constants()) {
    constants.insert(constant.name());
    *kernel.add_constants() = constant;
  }
  for (const api::Argument& argument : recipe.arguments()) {
    if (constants.count(argument.name()) > 0) continue;
    if (argument.has_constant() && !argument.constant().has_none()) {
      api::NamedConstant* constant = kernel.add_constants();
      constant->set_name(argument.name());
      *constant->mutable_value() = argument.constant();
      continue;
    }
    api::NamedPattern* pattern = kernel.add_arguments();
    pattern->set_name(argument.name());
    ToPattern(argument, pattern->mutable_value());
  }
  *kernel.mutable_options() = recipe.options();
  kernel.set_config(recipe.config());
  kernel.set_device(recipe.device());
  return kernel;
}

api::Manifest RecordManifest(const std::vector<ObservedVariant>& traffic,
                             const std::vector<storage::TuningRecord>& tunings,
                             const DescribeModule& describe, const RecordOptions& options) {
  api::Manifest manifest;
  std::vector<std::string> order;  // of modules, as they come: busiest first
  std::map<std::string, std::vector<const ObservedVariant*>> by_module;
  for (const ObservedVariant& variant : traffic) {
    std::vector<const ObservedVariant*>& list = by_module[variant.recipe->module()];
    if (list.empty()) order.push_back(variant.recipe->module());
    list.push_back(&variant);
  }
  for (const std::string& id : order) {
    api::ManifestModule module;
    if (!describe(id, &module)) continue;
    std::set<std::string> kernels;
    std::vector<std::string> groups;
    std::map<std::string, std::vector<api::ManifestKernel>> by_group;
    for (const ObservedVariant* variant : by_module[id]) {
      api::ManifestKernel entry = ToEntry(*variant->recipe);
      entry.set_launches(variant->launches);
      kernels.insert(entry.name());
      std::string key = GroupKey(entry);
      if (by_group[key].empty()) groups.push_back(key);
      by_group[key].push_back(std::move(entry));
    }
    for (const std::string& key : groups)
      *module.add_kernels() = Merge(by_group[key], options.exact);
    for (const storage::TuningRecord& record : tunings)
      if (record.module() == id && kernels.count(record.kernel()) > 0)
        ToTuning(record, module, &manifest);
    *manifest.add_modules() = std::move(module);
  }
  return manifest;
}

}  // namespace tessera::server
