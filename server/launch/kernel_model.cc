#include "server/launch/kernel_model.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxGridExpressions = 256;

// Keys of variants begin with the device's index (MakeVariantKey).
bool IsOfDevice(const std::string& key, int device) { return key[0] == static_cast<char>(device); }

std::vector<EntrySlot> SlotsOf(const storage::KernelMetadata& metadata) {
  std::vector<EntrySlot> slots;
  for (const storage::EntryParameter& parameter : metadata.parameters()) {
    EntrySlot slot;
    slot.parameter = parameter.source_index();
    slot.pointer = absl::StartsWith(parameter.type(), "*");
    slot.path.assign(parameter.path().begin(), parameter.path().end());
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::vector<std::string> SlotNames(const storage::KernelMetadata& metadata) {
  std::vector<std::string> names;
  for (const storage::EntryParameter& parameter : metadata.parameters())
    names.push_back(parameter.name());
  return names;
}

uint64_t NextModelId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Variant::Variant(uint64_t id, cache::CompileKey key, const storage::KernelMetadata& metadata,
                 runtime::ExecutorClient* executor, TaskPool* pool)
    : id(id),
      key(std::move(key)),
      slots(SlotsOf(metadata)),
      notes(metadata.notes().begin(), metadata.notes().end()),
      facts(metadata.launch_facts()),
      slot_names(SlotNames(metadata)),
      guarded(IsGuarded(metadata.options())),
      executor_(executor),
      pool_(pool) {}

Variant::~Variant() {
  pool_->Run([executor = executor_, id = id] { executor->UnloadKernel(id); });
}

absl::StatusOr<std::shared_ptr<KernelModel>> KernelModel::Create(
    std::shared_ptr<const Module> module, absl::string_view kernel) {
  const storage::KernelDescription* description = module->FindKernel(kernel);
  if (description == nullptr) {
    std::string known;
    for (const storage::KernelDescription& other : module->record.description().kernels())
      if (other.is_kernel()) absl::StrAppend(&known, known.empty() ? "" : ", ", other.name());
    return Error(absl::StatusCode::kNotFound, "KERNEL_UNKNOWN",
                 absl::StrCat("the module has no kernel '", kernel,
                              "'; it has: ", known.empty() ? "none" : known),
                 {{"kernel", std::string(kernel)}});
  }
  std::shared_ptr<KernelModel> model(new KernelModel);
  model->module_ = std::move(module);
  model->description_ = description;
  model->id_ = NextModelId();
  for (const storage::ParameterDescription& parameter : description->parameters()) {
    model->index_[parameter.name()] = static_cast<int>(model->parameters_.size());
    model->parameters_.push_back(ModelParameter(parameter));
  }
  for (const storage::TuneConfig& config : description->configs()) {
    ASSIGN_OR_RETURN(Config modelled, model->ModelConfig(config));
    model->configs_.push_back(std::move(modelled));
  }
  for (const std::string& name : description->tuning_key())
    if (int at = model->FindParameter(name); at >= 0) model->tuning_key_.push_back(at);
  for (const auto& heuristic : description->heuristics()) {
    int parameter = model->FindParameter(heuristic.name());
    if (parameter < 0)
      return Error(absl::StatusCode::kInvalidArgument, "BAD_HEURISTIC",
                   absl::StrCat("the heuristic '", heuristic.name(), "' names no parameter of ",
                                model->name()));
    absl::StatusOr<Expression> value = Expression::Parse(
        heuristic.expression(), [&](absl::string_view name) -> absl::StatusOr<int> {
          if (name == "num_warps") return static_cast<int>(kNumWarps);
          if (name == "num_stages") return static_cast<int>(kNumStages);
          if (name == "num_ctas") return static_cast<int>(kNumCtas);
          int at = model->FindParameter(name);
          if (at < 0)
            return absl::InvalidArgumentError(
                absl::StrCat("'", name, "' is no parameter of ", model->name()));
          return at;
        });
    if (!value.ok())
      return Error(absl::StatusCode::kInvalidArgument, "BAD_HEURISTIC",
                   absl::StrCat("heuristic '", heuristic.name(), "' of ", model->name(), ": ",
                                value.status().message()));
    model->heuristics_.push_back({parameter, *std::move(value)});
  }
  return model;
}

int KernelModel::FindParameter(absl::string_view name, int hint) const {
  if (static_cast<size_t>(hint) < parameters_.size() && name == parameters_[hint].name) return hint;
  auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

absl::Status KernelModel::UnknownParameter(absl::string_view name) const {
  std::string known;
  for (const ParameterModel& parameter : parameters_)
    absl::StrAppend(&known, known.empty() ? "" : ", ", parameter.name);
  return Error(
      absl::StatusCode::kInvalidArgument, "ARGUMENT_UNKNOWN",
      absl::StrCat("kernel ", this->name(), " has no parameter '", name, "'; it has: ", known),
      {{"argument", std::string(name)}});
}

absl::StatusOr<KernelModel::Config> KernelModel::ModelConfig(storage::TuneConfig config) const {
  Config modelled;
  modelled.config = std::move(config);
  for (const storage::NamedConstant& value : modelled.config.values()) {
    int parameter = FindParameter(value.name());
    if (parameter < 0) return UnknownParameter(value.name());
    // The repeated field's elements keep their addresses when the message moves.
    modelled.values.emplace_back(parameter, &value.value());
  }
  return modelled;
}

absl::StatusOr<std::shared_ptr<const Expression>> KernelModel::GridExpression(
    const std::string& text) {
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto found = grid_expressions_.find(text);
    if (found != grid_expressions_.end()) return found->second;
  }
  absl::StatusOr<Expression> parsed =
      Expression::Parse(text, [&](absl::string_view name) -> absl::StatusOr<int> {
        int at = FindParameter(name);
        if (at >= 0) return at;
        if (name == "num_warps") return static_cast<int>(kNumWarps);
        if (name == "num_stages") return static_cast<int>(kNumStages);
        if (name == "num_ctas") return static_cast<int>(kNumCtas);
        return absl::InvalidArgumentError(
            absl::StrCat("'", name, "' is no argument, constexpr or configuration value"));
      });
  if (!parsed.ok()) return parsed.status();
  auto shared = std::make_shared<const Expression>(*std::move(parsed));
  absl::MutexLock lock(&mutex_);
  if (grid_expressions_.size() >= kMaxGridExpressions) grid_expressions_.clear();
  grid_expressions_[text] = shared;
  return std::shared_ptr<const Expression>(shared);
}

std::shared_ptr<Variant> KernelModel::FindVariant(absl::string_view key) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = variants_.find(key);
  return found == variants_.end() ? nullptr : found->second;
}

void KernelModel::AddVariant(const std::string& key, std::shared_ptr<Variant> variant) {
  variant->guard = GuardRecordOf(key);
  absl::MutexLock lock(&mutex_);
  variants_[key] = std::move(variant);
}

std::shared_ptr<GuardRecord> KernelModel::GuardRecordOf(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<GuardRecord>& record = guards_[key];
  if (record == nullptr) record = std::make_shared<GuardRecord>();
  return record;
}

int KernelModel::DropVariantsUnusedSince(uint64_t count) {
  std::vector<std::shared_ptr<Variant>> dropped;
  absl::MutexLock lock(&mutex_);
  for (auto it = variants_.begin(); it != variants_.end();) {
    auto here = it++;
    // A launch in flight holds the variant too.
    if (here->second.use_count() > 1 ||
        here->second->last_use.load(std::memory_order_relaxed) >= count)
      continue;
    dropped.push_back(std::move(here->second));
    guards_.erase(here->first);
    variants_.erase(here);
  }
  return static_cast<int>(dropped.size());
}

int KernelModel::DropVariantsOf(int device) {
  std::vector<std::shared_ptr<Variant>> dropped;
  absl::MutexLock lock(&mutex_);
  for (auto it = variants_.begin(); it != variants_.end();) {
    auto here = it++;
    if (!IsOfDevice(here->first, device) || here->second.use_count() > 1) continue;
    dropped.push_back(std::move(here->second));
    variants_.erase(here);
  }
  return static_cast<int>(dropped.size());
}

int KernelModel::CountVariantsOf(int device) const {
  absl::ReaderMutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(variants_.begin(), variants_.end(), [&](const auto& entry) {
    return IsOfDevice(entry.first, device);
  }));
}

void KernelModel::ForEachVariant(absl::FunctionRef<void(Variant&)> visit) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [key, variant] : variants_) visit(*variant);
}

bool KernelModel::Usable(int config, const Device& device) const {
  absl::ReaderMutexLock lock(&mutex_);
  return std::find(unusable_.begin(), unusable_.end(), std::make_pair(config, device.index())) ==
         unusable_.end();
}

void KernelModel::MarkUnusable(int config, const Device& device) {
  absl::MutexLock lock(&mutex_);
  unusable_.emplace_back(config, device.index());
}

}  // namespace tessera::server
