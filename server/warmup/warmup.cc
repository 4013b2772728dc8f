#include "server/warmup/warmup.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/launch/recipe.h"
#include "server/warmup/first_launch.h"
#include "server/warmup/record_manifest.h"
#include "server/warmup/write_manifest.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;
using Clock = std::chrono::steady_clock;

// Enough to keep every compiler worker and device busy; launches of clients stand beside them in
// the same queue, not behind thousands.
constexpr size_t kItemsInFlight = 64;
constexpr int kMaxFailuresShown = 100;
constexpr uint32_t kDefaultListed = 10000;
// For what was never compiled here, until something was.
constexpr double kGuessedCompileSeconds = 0.3;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("reading ", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Status messages of source errors hold the diagnostics; a list shows their first line.
std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

// A manifest with its modules registered and its entries expanded.
struct Warmup::Resolved {
  struct Item {
    ManifestItem item;
    Launcher::PlannedVariant planned;
  };
  struct Failure {
    std::string where, kernel;
    absl::Status status;
    bool required = true;
  };
  std::shared_ptr<const ParsedManifest> parsed;
  std::vector<Item> items;  // distinct variants, required ones first
  std::vector<Failure> failures;
  uint32_t combinations = 0;
  std::map<std::string, std::string> ids_by_path, ids_by_op;
};

struct Warmup::Resolving {
  std::mutex mutex;
  size_t waiting = 1;  // modules, and the loop that asks for them
  std::shared_ptr<Resolved> resolved = std::make_shared<Resolved>();
  // By index in manifest.modules, and by op.
  std::map<int, absl::StatusOr<std::shared_ptr<const Module>>> modules;
  std::map<std::string, absl::StatusOr<std::shared_ptr<const Module>>> ops;
  OnResolved done;
};

struct Warmup::Run {
  std::mutex mutex;  // also orders the calls of on_progress
  api::WarmupProgress progress;
  OnProgress on_progress;
  Clock::time_point start = Clock::now();

  std::mutex pump_mutex;
  std::shared_ptr<Resolved> resolved;
  size_t next = 0, in_flight = 0;
  bool pumping = false;
};

absl::Status Warmup::Start(absl::string_view text, absl::string_view path,
                           const ManifestFileReader& read_file, OnProgress on_progress) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ParsedManifest> parsed,
                   ParseManifest(text, path, read_file));
  auto run = std::make_shared<Run>();
  run->on_progress = std::move(on_progress);
  run->progress.set_manifest(parsed->places.path());
  run->progress.set_state("reading");
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_ = run;
  }
  parts_.metrics->warmup_failed_manifests->Set(0);
  {
    std::lock_guard<std::mutex> lock(run->mutex);
    Announce(run);
  }
  Resolve(parsed,
          [this, run](std::shared_ptr<Resolved> resolved) { Begin(run, std::move(resolved)); });
  return absl::OkStatus();
}

absl::Status Warmup::StartFile(const std::string& path, OnProgress on_progress) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return Start(
      text, path, [folder](const std::string& file) { return ReadFile((folder / file).string()); },
      std::move(on_progress));
}

void Warmup::NoteUnreadable(const std::string& path, const absl::Status& why) {
  parts_.metrics->warmup_failed_manifests->Set(1);
  auto run = std::make_shared<Run>();
  run->progress.set_manifest(path);
  run->progress.set_finished(true);
  run->progress.set_state(absl::StrCat("failed: ", why.message()));
  run->progress.add_failures(std::string(why.message()));
  std::lock_guard<std::mutex> lock(mutex_);
  last_ = run;
}

void Warmup::Resolve(std::shared_ptr<const ParsedManifest> parsed, OnResolved done) {
  auto resolving = std::make_shared<Resolving>();
  resolving->resolved->parsed = parsed;
  resolving->done = std::move(done);
  auto arrived = [this, resolving] {
    {
      std::lock_guard<std::mutex> lock(resolving->mutex);
      if (--resolving->waiting > 0) return;
    }
    // Expanding may take a while, and this may be a thread of the compiler's or of gRPC's.
    parts_.pool->Run([this, resolving] {
      ExpandEntries(resolving.get());
      resolving->done(resolving->resolved);
    });
  };
  auto wait_for = [&](auto store) {
    {
      std::lock_guard<std::mutex> lock(resolving->mutex);
      ++resolving->waiting;
    }
    return [resolving, arrived, store](absl::StatusOr<std::shared_ptr<const Module>> module) {
      {
        std::lock_guard<std::mutex> lock(resolving->mutex);
        store(std::move(module));
      }
      arrived();
    };
  };
  auto register_op = [&](const std::string& op, auto store) {
    auto when_done = wait_for(store);
    absl::StatusOr<storage::SourceFile> source = parts_.ops->Source(op);
    if (source.ok())
      parts_.modules->Register({*std::move(source)}, absl::InfiniteDuration(), when_done);
    else
      when_done(source.status());
  };
  std::set<std::string> ops;
  for (const api::ManifestOp& entry : parsed->manifest.ops()) ops.insert(entry.op());
  for (const std::string& op : ops)
    register_op(op, [resolving = resolving.get(), op](auto module) {
      resolving->ops.emplace(op, std::move(module));
    });
  for (int i = 0; i < parsed->manifest.modules_size(); ++i) {
    const api::ManifestModule& module = parsed->manifest.modules(i);
    auto store = [resolving = resolving.get(), i](auto registered) {
      resolving->modules.emplace(i, std::move(registered));
    };
    if (!module.op().empty())
      register_op(module.op(), store);
    else if (!module.id().empty())
      parts_.modules->Load(module.id(), absl::InfiniteDuration(), wait_for(store));
    else
      parts_.modules->Register(parsed->sources[i], absl::InfiniteDuration(), wait_for(store));
  }
  arrived();
}

TunedConfigs Warmup::TunedConfigsNow() const {
  return [this](const std::string& kernel, const std::string& module, const std::string& device) {
    std::vector<storage::TuneConfig> configs;
    absl::StatusOr<Device*> on = parts_.devices->Find(device);
    if (!on.ok()) return configs;  // said when the item is planned
    std::set<std::string> seen;
    for (const storage::TuningRecord& record : parts_.tunings->List(kernel)) {
      if (record.module() != module || record.device() != (*on)->description().model) continue;
      if (record.chosen() >= static_cast<uint32_t>(record.trials_size())) continue;
      const storage::TuneConfig& config = record.trials(record.chosen()).config();
      if (seen.insert(config.SerializeAsString()).second) configs.push_back(config);
    }
    return configs;
  };
}

void Warmup::ExpandEntries(Resolving* resolving) {
  Resolved& resolved = *resolving->resolved;
  const ParsedManifest& parsed = *resolved.parsed;
  std::vector<ManifestItem> items;
  auto is_required = [&](const auto& entry) {
    if (entry.has_required()) return entry.required();
    return parsed.manifest.has_required() ? parsed.manifest.required() : true;
  };
  auto fail = [&](const auto& entry, const std::string& name, const absl::Status& status) {
    resolved.failures.push_back({parsed.places.Line(entry), name, status, is_required(entry)});
  };
  for (int i = 0; i < parsed.manifest.modules_size(); ++i) {
    const api::ManifestModule& module = parsed.manifest.modules(i);
    const auto& registered = resolving->modules.at(i);
    if (registered.ok()) {
      if (!module.op().empty()) resolved.ids_by_op[module.op()] = (*registered)->id;
      if (!parsed.sources[i].empty())
        resolved.ids_by_path[parsed.sources[i][0].path()] = (*registered)->id;
    }
  }
  for (const auto& [op, registered] : resolving->ops)
    if (registered.ok()) resolved.ids_by_op[op] = (*registered)->id;
  // Before entries are expanded: these choices are among those they imply.
  std::map<std::string, std::shared_ptr<const Module>> modules;
  for (const auto& [i, registered] : resolving->modules)
    if (registered.ok()) modules[(*registered)->id] = *registered;
  for (const auto& [op, registered] : resolving->ops)
    if (registered.ok()) modules[(*registered)->id] = *registered;
  // Choices that the manifest brings count as if they were in force already.
  TunedConfigs stored = TunedConfigsNow();
  auto brought = [&](const std::string& kernel, const std::string& module) {
    std::vector<storage::TuneConfig> configs;
    for (const api::ManifestTuning& tuning : parsed.manifest.tunings()) {
      if (tuning.kernel() != kernel) continue;
      auto of = [](const std::map<std::string, std::string>& ids, const std::string& name) {
        auto found = ids.find(name);
        return found == ids.end() ? std::string() : found->second;
      };
      std::string id = !tuning.id().empty()   ? tuning.id()
                       : !tuning.op().empty() ? of(resolved.ids_by_op, tuning.op())
                                              : of(resolved.ids_by_path, tuning.path());
      if (id != module) continue;
      storage::TuneConfig config;
      bool sound = true;
      for (const api::NamedConstant& value : tuning.values()) {
        absl::StatusOr<storage::ConstantValue> constant = ToConstant(value.value());
        sound &= constant.ok();
        if (!constant.ok()) continue;
        storage::NamedConstant* named = config.add_values();
        named->set_name(value.name());
        *named->mutable_value() = *std::move(constant);
      }
      MergeOptions(tuning.options(), ConfigChoice(), config.mutable_options());
      if (sound) configs.push_back(std::move(config));
    }
    return configs;
  };
  TunedConfigs tuned = [&](const std::string& kernel, const std::string& module,
                           const std::string& device) {
    std::vector<storage::TuneConfig> configs = stored(kernel, module, device);
    for (storage::TuneConfig& config : brought(kernel, module))
      configs.push_back(std::move(config));
    return configs;
  };
  for (int i = 0; i < parsed.manifest.modules_size(); ++i) {
    const auto& registered = resolving->modules.at(i);
    for (const api::ManifestKernel& entry : parsed.manifest.modules(i).kernels()) {
      if (!registered.ok()) {
        fail(entry, entry.name(), registered.status());
        continue;
      }
      const storage::KernelDescription* kernel = (*registered)->FindKernel(entry.name());
      if (kernel == nullptr) {
        std::string known;
        for (const auto& other : (*registered)->record.description().kernels())
          if (other.is_kernel()) absl::StrAppend(&known, known.empty() ? "" : ", ", other.name());
        fail(entry, entry.name(),
             parsed.places.At(entry, absl::StrCat("the module has no kernel '", entry.name(),
                                                  "'; it has: ", known.empty() ? "none" : known)));
        continue;
      }
      std::vector<ManifestItem> expanded;
      absl::Status status =
          ExpandKernel(parsed, entry, *kernel, (*registered)->id, tuned, &expanded);
      if (!status.ok()) {
        fail(entry, entry.name(), status);
        continue;
      }
      for (ManifestItem& item : expanded) items.push_back(std::move(item));
    }
  }
  for (const api::ManifestOp& entry : parsed.manifest.ops()) {
    const auto& registered = resolving->ops.at(entry.op());
    std::vector<ManifestItem> expanded;
    absl::Status status = registered.ok()
                              ? ExpandOp(parsed, entry, *parts_.ops, (*registered)->id, &expanded)
                              : registered.status();
    if (!status.ok()) {
      fail(entry, entry.op(), status);
      continue;
    }
    for (ManifestItem& item : expanded) items.push_back(std::move(item));
  }
  resolved.combinations = static_cast<uint32_t>(items.size());
  std::unordered_map<std::string, size_t> index;
  std::set<std::string> failed_entries;
  for (ManifestItem& item : items) {
    absl::StatusOr<Launcher::PlannedVariant> planned =
        parts_.launcher->Plan(modules.at(item.request.module()), item.request);
    if (!planned.ok()) {
      // One message an entry: a thousand combinations fail for one reason.
      if (failed_entries.insert(item.where + item.request.kernel()).second)
        resolved.failures.push_back(
            {item.where, item.request.kernel(), planned.status(), item.required});
      continue;
    }
    auto [found, is_new] = index.emplace(planned->identity, resolved.items.size());
    if (is_new)
      resolved.items.push_back({std::move(item), *std::move(planned)});
    else {
      ManifestItem& merged = resolved.items[found->second].item;
      merged.required |= item.required;
      if (merged.first_launch == nullptr) merged.first_launch = std::move(item.first_launch);
    }
  }
  std::stable_sort(resolved.items.begin(), resolved.items.end(),
                   [](const auto& a, const auto& b) { return a.item.required > b.item.required; });
}

void Warmup::ImportTunings(const Resolved& resolved, const std::shared_ptr<Run>& run) {
  const ParsedManifest& parsed = *resolved.parsed;
  for (const api::ManifestTuning& tuning : parsed.manifest.tunings()) {
    const auto& ids = tuning.op().empty() ? resolved.ids_by_path : resolved.ids_by_op;
    auto found = ids.find(tuning.op().empty() ? tuning.path() : tuning.op());
    std::string module = !tuning.id().empty() ? tuning.id()
                         : found == ids.end() ? ""
                                              : found->second;
    if (module.empty()) {
      spdlog::warn("{}: the tuning of {} is of a module that the manifest does not hold",
                   parsed.places.Line(tuning), tuning.kernel());
      continue;
    }
    std::string device = tuning.device();
    if (absl::StatusOr<Device*> on = parts_.devices->Find(""); device.empty() && on.ok())
      device = (*on)->description().model;
    std::shared_ptr<const Module> loaded = parts_.modules->FindLoaded(module);
    const storage::KernelDescription* kernel =
        loaded == nullptr ? nullptr : loaded->FindKernel(tuning.kernel());
    if (kernel == nullptr) {
      spdlog::warn("{}: the module has no kernel {}", parsed.places.Line(tuning), tuning.kernel());
      continue;
    }
    std::string source = SourceDigest(*kernel);
    // What was measured here knows better.
    if (parts_.tunings->Record(tuning.kernel(), source, tuning.bucket(), device)) continue;
    storage::TuningRecord record;
    record.set_kernel(tuning.kernel());
    record.set_module(module);
    record.set_source(source);
    record.set_bucket(tuning.bucket());
    record.set_device(device);
    record.set_measured_unix_seconds(absl::ToUnixSeconds(absl::Now()));
    record.set_reason(absl::StrCat("from the manifest ", parsed.places.Line(tuning)));
    storage::TuningRecord::Trial* trial = record.add_trials();
    trial->set_median_seconds(tuning.seconds());
    absl::Status bad;
    for (const api::NamedConstant& value : tuning.values()) {
      absl::StatusOr<storage::ConstantValue> constant = ToConstant(value.value());
      bad.Update(constant.status());
      if (!constant.ok()) continue;
      storage::NamedConstant* named = trial->mutable_config()->add_values();
      named->set_name(value.name());
      *named->mutable_value() = *std::move(constant);
    }
    MergeOptions(tuning.options(), ConfigChoice(), trial->mutable_config()->mutable_options());
    if (bad.ok()) bad = parts_.tunings->Put(std::move(record));
    if (!bad.ok()) {
      spdlog::warn("{}: the tuning of {}: {}", parsed.places.Line(tuning), tuning.kernel(),
                   std::string(bad.message()));
      continue;
    }
    std::lock_guard<std::mutex> lock(run->mutex);
    run->progress.set_tunings(run->progress.tunings() + 1);
  }
}

void Warmup::NoteCovered(const std::string& path, const Resolved& resolved) {
  std::vector<CoveredVariant> covered, all;
  for (const Resolved::Item& item : resolved.items)
    covered.push_back(
        {item.item.where, item.item.request.kernel(), item.planned.device, item.planned.text});
  {
    std::lock_guard<std::mutex> lock(mutex_);
    covered_[path] = std::move(covered);
    for (const auto& [manifest, list] : covered_) all.insert(all.end(), list.begin(), list.end());
    for (const Resolved::Item& item : resolved.items) named_.insert(item.planned.key.hash);
  }
  if (parts_.jit_monitor != nullptr) parts_.jit_monitor->SetCovered(std::move(all));
}

bool Warmup::NamesArtifact(absl::string_view hash) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return named_.count(std::string(hash)) > 0;
}

void Warmup::Begin(const std::shared_ptr<Run>& run, std::shared_ptr<Resolved> resolved) {
  ImportTunings(*resolved, run);
  NoteCovered(resolved->parsed->places.path(), *resolved);
  run->resolved = resolved;
  {
    std::lock_guard<std::mutex> lock(run->mutex);
    api::WarmupProgress& progress = run->progress;
    progress.set_state("compiling");
    progress.set_total(static_cast<uint32_t>(resolved->items.size() + resolved->failures.size()));
    uint32_t required = 0;
    for (const Resolved::Item& item : resolved->items) required += item.item.required;
    for (const Resolved::Failure& failure : resolved->failures) required += failure.required;
    progress.set_required(required);
    if (progress.total() == 0) {
      progress.set_finished(true);
      progress.set_state("done");
    }
    Announce(run);
  }
  for (const Resolved::Failure& failure : resolved->failures)
    ItemDone(run, failure.where, failure.kernel, failure.required, failure.status);
  Pump(run);
}

void Warmup::Pump(const std::shared_ptr<Run>& run) {
  std::unique_lock<std::mutex> lock(run->pump_mutex);
  if (run->pumping) return;  // the loop below goes on
  run->pumping = true;
  const std::vector<Resolved::Item>& items = run->resolved->items;
  while (run->next < items.size() && run->in_flight < kItemsInFlight) {
    const ManifestItem& item = items[run->next++].item;
    ++run->in_flight;
    lock.unlock();
    parts_.launcher->Compile(
        item.request, absl::InfiniteDuration(),
        [this, run, &item](absl::StatusOr<Launcher::CompiledVariant> compiled) {
          FirstLaunch(run, item, std::move(compiled));
        });
    lock.lock();
  }
  run->pumping = false;
}

void Warmup::FirstLaunch(const std::shared_ptr<Run>& run, const ManifestItem& item,
                         absl::StatusOr<Launcher::CompiledVariant> compiled) {
  if (!compiled.ok() || item.first_launch == nullptr) return ItemEnded(run, item, compiled);
  first_launches_.Run([this, run, &item, compiled = *std::move(compiled)] {
    absl::Status launched = LaunchOnScratch(*item.first_launch, parts_.scratch_bytes,
                                            parts_.launcher, parts_.sessions, parts_.devices);
    if (!launched.ok())
      return ItemEnded(run, item,
                       absl::Status(launched.code(),
                                    absl::StrCat("its first launch: ", launched.message())));
    {
      std::lock_guard<std::mutex> lock(run->mutex);
      run->progress.set_first_launches(run->progress.first_launches() + 1);
    }
    ItemEnded(run, item, compiled);
  });
}

void Warmup::ItemEnded(const std::shared_ptr<Run>& run, const ManifestItem& item,
                       const absl::StatusOr<Launcher::CompiledVariant>& compiled) {
  ItemDone(run, item.where, item.request.kernel(), item.required, compiled);
  {
    std::lock_guard<std::mutex> done(run->pump_mutex);
    --run->in_flight;
  }
  Pump(run);
}

void Warmup::ItemDone(const std::shared_ptr<Run>& run, const std::string& where,
                      const std::string& kernel, bool required,
                      const absl::StatusOr<Launcher::CompiledVariant>& compiled) {
  std::lock_guard<std::mutex> lock(run->mutex);
  api::WarmupProgress& progress = run->progress;
  progress.set_done(progress.done() + 1);
  if (required) progress.set_required_done(progress.required_done() + 1);
  if (!compiled.ok()) {
    progress.set_failed(progress.failed() + 1);
    if (required) progress.set_required_failed(progress.required_failed() + 1);
    if (progress.failures_size() < kMaxFailuresShown)
      progress.add_failures(absl::StrCat(where, ": ", kernel, required ? " (required)" : "", ": ",
                                         compiled.status().message()));
    spdlog::warn("warm-up of {} ({}{}): {}", kernel, where, required ? ", required" : "",
                 std::string(compiled.status().message()));
  } else if (compiled->outcome == CompileOutcome::kHit) {
    progress.set_cached(progress.cached() + 1);
  } else {
    progress.set_compiled(progress.compiled() + 1);
  }
  if (progress.done() == progress.total()) {
    progress.set_finished(true);
    progress.set_state(
        progress.required_failed() == 0
            ? "done"
            : absl::StrCat("failed: ", progress.required_failed(),
                           " of the required items; the first: ", FirstLine(progress.failures(0))));
  }
  Announce(run);
}

void Warmup::Announce(const std::shared_ptr<Run>& run) {
  api::WarmupProgress& progress = run->progress;
  progress.set_seconds(std::chrono::duration<double>(Clock::now() - run->start).count());
  Metrics& metrics = *parts_.metrics;
  metrics.warmup_total->Set(progress.total());
  metrics.warmup_done->Set(progress.done());
  metrics.warmup_failed->Set(progress.failed());
  metrics.warmup_compiled->Set(progress.compiled());
  metrics.warmup_cached->Set(progress.cached());
  metrics.warmup_required->Set(progress.required());
  metrics.warmup_seconds->Set(progress.seconds());
  if (run->on_progress) run->on_progress(progress);
}

api::WarmupProgress Warmup::Progress() const {
  std::shared_ptr<Run> last;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last = last_;
  }
  if (last == nullptr) {
    api::WarmupProgress nothing;
    nothing.set_finished(true);
    nothing.set_state("none");
    return nothing;
  }
  std::lock_guard<std::mutex> lock(last->mutex);
  return last->progress;
}

void Warmup::FillVariants(const Resolved& resolved, uint32_t limit,
                          api::ExpandManifestResponse* response) const {
  response->set_combinations(resolved.combinations);
  response->set_total(static_cast<uint32_t>(resolved.items.size()));
  std::map<std::string, uint64_t> launches;
  for (const ObservedVariant& variant : parts_.traffic->Since(0))
    launches[absl::StrCat(variant.key, "/", variant.recipe->device())] = variant.launches;
  std::map<std::string, std::pair<double, int>> known;  // seconds and count, by kernel
  std::vector<double> seconds(resolved.items.size(), -1);
  for (size_t i = 0; i < resolved.items.size(); ++i) {
    const Resolved::Item& item = resolved.items[i];
    auto found = parts_.store->FindArtifact(item.planned.key);
    if (!found.ok() || !found->found()) continue;
    seconds[i] = found->record.compile_seconds();
    auto& [sum, count] = known[item.item.request.kernel()];
    sum += seconds[i];
    ++count;
  }
  double usual = parts_.metrics->compile_latency.Read().Quantile(0.5);
  if (usual <= 0) usual = kGuessedCompileSeconds;
  double rest = 0;
  uint32_t stored = 0;
  for (size_t i = 0; i < resolved.items.size(); ++i) {
    const Resolved::Item& item = resolved.items[i];
    bool is_stored = seconds[i] >= 0;
    double cost = seconds[i];
    if (!is_stored) {
      auto of_kernel = known.find(item.item.request.kernel());
      cost = of_kernel == known.end() ? usual : of_kernel->second.first / of_kernel->second.second;
      rest += cost;
    }
    stored += is_stored;
    if (i >= limit) continue;
    api::ManifestVariant* to = response->add_variants();
    to->set_where(item.item.where);
    to->set_kernel(item.item.request.kernel());
    to->set_device(item.planned.device);
    to->set_text(item.planned.text);
    to->set_key(item.planned.key_hex);
    to->set_required(item.item.required);
    to->set_stored(is_stored);
    to->set_loaded(item.planned.loaded);
    to->set_compile_seconds(cost);
    to->set_estimated(!is_stored);
    to->set_config(item.planned.config);
    auto seen = launches.find(absl::StrCat(item.planned.key_hex, "/", item.planned.device));
    if (seen != launches.end()) to->set_launches(seen->second);
  }
  response->set_stored(stored);
  response->set_compile_seconds(rest);
  for (const Resolved::Failure& failure : resolved.failures)
    response->add_errors(
        absl::StrCat(failure.where, ": ", failure.kernel, ": ", failure.status.message()));
}

void Warmup::Expand(const api::ExpandManifestRequest& request,
                    Done<api::ExpandManifestResponse> done) {
  std::vector<std::string> wanted;
  absl::StatusOr<std::shared_ptr<const ParsedManifest>> parsed =
      ParseManifest(request.manifest(), request.path(), FilesOfRequest(request.files(), &wanted));
  if (!parsed.ok()) {
    done(parsed.status());
    return;
  }
  if (!wanted.empty()) {
    api::ExpandManifestResponse response;
    for (const std::string& path : wanted) response.add_files_wanted(path);
    done(std::move(response));
    return;
  }
  uint32_t limit = request.limit() == 0 ? kDefaultListed : request.limit();
  Resolve(*parsed, [this, limit, done](std::shared_ptr<Resolved> resolved) {
    api::ExpandManifestResponse response;
    FillVariants(*resolved, limit, &response);
    done(std::move(response));
  });
}

void Warmup::Diff(const api::DiffManifestRequest& request, Done<api::DiffManifestResponse> done) {
  std::vector<std::string> wanted;
  absl::StatusOr<std::shared_ptr<const ParsedManifest>> parsed =
      ParseManifest(request.manifest(), request.path(), FilesOfRequest(request.files(), &wanted));
  if (!parsed.ok()) {
    done(parsed.status());
    return;
  }
  if (!wanted.empty()) {
    api::DiffManifestResponse response;
    for (const std::string& path : wanted) response.add_files_wanted(path);
    done(std::move(response));
    return;
  }
  // Counted since the last time, so that a launch of a moment ago is in.
  parts_.launcher->FlushUsage();
  int64_t since = request.window_seconds() <= 0
                      ? 0
                      : absl::ToUnixSeconds(absl::Now() - absl::Seconds(request.window_seconds()));
  Resolve(*parsed, [this, since, done](std::shared_ptr<Resolved> resolved) {
    api::ExpandManifestResponse expanded;
    FillVariants(*resolved, UINT32_MAX, &expanded);
    api::DiffManifestResponse response;
    *response.mutable_errors() = expanded.errors();
    std::set<std::string> listed, used;
    for (const api::ManifestVariant& variant : expanded.variants())
      listed.insert(absl::StrCat(variant.key(), "/", variant.device()));
    for (const ObservedVariant& variant : parts_.traffic->Since(since)) {
      std::string key = absl::StrCat(variant.key, "/", variant.recipe->device());
      used.insert(key);
      if (listed.count(key) > 0) {
        response.set_covered(response.covered() + 1);
        continue;
      }
      api::ManifestVariant* missing = response.add_missing();
      missing->set_kernel(variant.recipe->kernel());
      missing->set_device(variant.recipe->device());
      missing->set_key(variant.key);
      missing->set_launches(variant.launches);
      missing->set_text(ShapeText(variant.recipe->arguments()));
      response.add_missing_entries(KernelLine(ToEntry(*variant.recipe)));
    }
    for (api::ManifestVariant& variant : *expanded.mutable_variants())
      if (used.count(absl::StrCat(variant.key(), "/", variant.device())) == 0)
        *response.add_unused() = std::move(variant);
    done(std::move(response));
  });
}

bool Warmup::Describe(const std::string& module, api::ManifestModule* to) const {
  const api::ListOpsResponse ops = parts_.ops->List();
  for (const api::ListOpsResponse::Op& op : ops.ops()) {
    absl::StatusOr<storage::SourceFile> source = parts_.ops->Source(op.name());
    if (!source.ok()) continue;
    storage::ModuleRecord record;
    *record.add_files() = *std::move(source);
    if (cache::ModuleId(record) != module) continue;
    to->set_op(op.name());
    return true;
  }
  auto found = parts_.store->FindModule(module);
  if (!found.ok() || !found->found()) return false;
  const storage::ModuleRecord& record = found->record;
  if (record.files_size() == 1) {
    to->set_path(record.files(0).path());
    to->set_source(record.files(0).text());
    return true;
  }
  for (const storage::SourceFile& file : record.files()) {
    api::SourceFile* added = to->add_files();
    added->set_path(file.path());
    added->set_text(file.text());
  }
  return record.files_size() > 0;
}

absl::StatusOr<api::RecordManifestResponse> Warmup::Record(
    const api::RecordManifestRequest& request) {
  parts_.launcher->FlushUsage();
  int64_t now = absl::ToUnixSeconds(absl::Now());
  int64_t since = request.window_seconds() <= 0
                      ? 0
                      : now - static_cast<int64_t>(request.window_seconds() + 0.999);
  std::vector<ObservedVariant> traffic = parts_.traffic->Since(since);
  traffic.erase(std::remove_if(traffic.begin(), traffic.end(),
                               [&](const ObservedVariant& variant) {
                                 return variant.launches < request.min_launches();
                               }),
                traffic.end());
  RecordOptions options;
  options.exact = request.exact();
  api::Manifest manifest = RecordManifest(
      traffic, parts_.tunings->List(""),
      [this](const std::string& module, api::ManifestModule* to) { return Describe(module, to); },
      options);
  api::RecordManifestResponse response;
  std::set<std::string> kernels;
  for (const ObservedVariant& variant : traffic) {
    response.set_variants(response.variants() + 1);
    response.set_launches(response.launches() + variant.launches);
    kernels.insert(variant.recipe->module() + variant.recipe->kernel());
  }
  response.set_kernels(static_cast<uint32_t>(kernels.size()));
  response.set_tunings(static_cast<uint32_t>(manifest.tunings_size()));
  manifest.set_comment(
      absl::StrCat("recorded from ", response.launches(), " launches of ", response.variants(),
                   " variants until ",
                   absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone())));
  response.set_manifest(WriteManifest(manifest));
  return response;
}

}  // namespace tessera::server
