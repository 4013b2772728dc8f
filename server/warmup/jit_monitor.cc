#include "server/warmup/jit_monitor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/launch/recipe.h"
#include "server/warmup/record_manifest.h"
#include "server/warmup/write_manifest.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxEvents = 64;
constexpr size_t kMaxLogged = 4096;
constexpr int64_t kLogAgainSeconds = 60;

// "x=*fp16:16 n=i32" as a map; constants may hold blanks, and then their parts are names without
// values.
std::map<std::string, std::string> FactsOf(const std::string& text) {
  std::map<std::string, std::string> facts;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    size_t equals = word.find('=');
    std::string name(word.substr(0, equals));
    facts[name] = equals == absl::string_view::npos ? "" : std::string(word.substr(equals + 1));
  }
  return facts;
}

// "n=i32 there, i32:16 here; ..." and how many facts differ.
std::pair<std::string, int> Difference(const std::string& there, const std::string& here) {
  std::map<std::string, std::string> theirs = FactsOf(there), ours = FactsOf(here);
  std::string text;
  int count = 0;
  auto add = [&](const std::string& name, const std::string& a, const std::string& b) {
    absl::StrAppend(&text, count == 0 ? "" : "; ", name, " is ", a, " there, ", b, " here");
    ++count;
  };
  for (const auto& [name, value] : ours) {
    auto found = theirs.find(name);
    if (found == theirs.end())
      add(name, "not given", value);
    else if (found->second != value)
      add(name, found->second, value);
  }
  for (const auto& [name, value] : theirs)
    if (ours.count(name) == 0) add(name, value, "not given");
  return {text, count};
}

}  // namespace

const char* JitMonitor::mode_name() const {
  switch (mode_) {
    case JitMode::kOff:
      return "off";
    case JitMode::kWarn:
      return "warn";
    case JitMode::kError:
      return "error";
  }
  return "";
}

void JitMonitor::SetCovered(std::vector<CoveredVariant> covered) {
  std::lock_guard<std::mutex> lock(mutex_);
  covered_ = std::move(covered);
}

std::vector<JitMonitor::Event> JitMonitor::Events() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {events_.rbegin(), events_.rend()};
}

std::string JitMonitor::Nearest(const std::string& kernel, const std::string& device,
                                const std::string& text) const {
  if (covered_.empty()) return "no manifest is in force";
  const CoveredVariant* nearest = nullptr;
  std::string difference;
  int least = std::numeric_limits<int>::max();
  for (const CoveredVariant& covered : covered_) {
    if (covered.kernel != kernel) continue;
    auto [words, count] = Difference(covered.text, text);
    if (covered.device != device) {
      ++count;
      absl::StrAppend(&words, words.empty() ? "" : "; ", "the device is ", covered.device,
                      " there, ", device, " here");
    }
    if (count >= least) continue;
    least = count;
    nearest = &covered;
    difference = std::move(words);
  }
  if (nearest == nullptr) return absl::StrCat("no entry of the manifest names kernel ", kernel);
  if (difference.empty()) difference = "the source differs, or it was not loaded any more";
  return absl::StrCat(nearest->where, ": ", difference);
}

std::string JitMonitor::OnJit(const JitObserver::Event& event) {
  Event record;
  record.set_unix_seconds(absl::ToUnixSeconds(absl::Now()));
  record.set_kernel(event.kernel.name());
  record.set_device(event.device.name());
  record.set_variant(VariantText(event.job));
  record.set_shape(ShapeText(event.recipe.arguments()));
  record.set_seconds(event.seconds);
  record.set_refused(event.refused);
  record.set_entry(KernelLine(ToEntry(event.recipe)));
  bool log = mode_ != JitMode::kOff;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    record.set_nearest(Nearest(record.kernel(), record.device(), record.variant()));
    auto logged = logged_.find(event.key);
    if (event.refused && logged != logged_.end() &&
        record.unix_seconds() - logged->second < kLogAgainSeconds)
      log = false;
    if (log) {
      if (logged_.size() >= kMaxLogged) logged_.clear();
      logged_[event.key] = record.unix_seconds();
    }
    // A flood of one refused variant must not push out all others.
    bool again = !events_.empty() && events_.back().refused() && record.refused() &&
                 events_.back().variant() == record.variant() &&
                 events_.back().kernel() == record.kernel();
    if (again) events_.pop_back();
    events_.push_back(record);
    if (events_.size() > kMaxEvents) events_.pop_front();
  }
  std::string what = absl::StrCat(
      event.refused
          ? "launch refused, for it would compile while serving: "
          : absl::StrFormat("compiled for %.1f ms while a launch waited: ", event.seconds * 1e3),
      "kernel ", record.kernel(), " on ", record.device(), ", variant ", record.variant(),
      ", launched with ", record.shape(), "; this line of a manifest (module ",
      event.kernel.module().record.files_size() > 0 ? event.kernel.module().record.files(0).path()
                                                    : event.kernel.module().id,
      ") covers it: ", record.entry(), "; nearest: ", record.nearest());
  if (log) spdlog::warn("JIT during serving: {}", what);
  return what;
}

}  // namespace tessera::server
