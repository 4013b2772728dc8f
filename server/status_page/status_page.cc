#include "server/status_page/status_page.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/status_page/line_plot.h"

namespace tessera::server {
namespace {

using Status = tessera::v1::GetStatusResponse;

constexpr int kKernelRows = 15;
constexpr int kJitRows = 8;
constexpr int kTuningRows = 10;
constexpr int kFailureRows = 10;

// Colours are named by what they mean; both schemes have enough contrast for text.
constexpr char kStyle[] = R"(
:root{--bg:#f6f7f9;--card:#fff;--ink:#1c2430;--dim:#5c6675;--rule:#e3e7ed;--accent:#2563c9;--good:#177245;--warn:#a35a00;--bad:#b3261e;--second:#b45309;--third:#7a3fb0}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2028;--ink:#e4e9f0;--dim:#93a0b1;--rule:#2b333e;--accent:#6ea8ff;--good:#5cc48d;--warn:#e6a23c;--bad:#ff7b72;--second:#f0b35e;--third:#c397ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:20px}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:6px 14px;margin-bottom:16px}
h1{font-size:22px;margin:0;letter-spacing:-.01em}
h2{font-size:15px;margin:0 0 10px}
header .meta{color:var(--dim)}
.pill{display:inline-block;padding:2px 10px;border-radius:99px;font-weight:600;font-size:13px;color:#fff;background:var(--good)}
.pill.warn{background:var(--warn)}.pill.bad{background:var(--bad)}
@media (prefers-color-scheme:dark){.pill{color:#10141a}}
section,.tile{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:14px 16px}
.tile{padding:12px}
section{margin-bottom:14px;overflow-x:auto}
.tiles{display:grid;grid-template-columns:repeat(8,1fr);gap:12px;margin-bottom:14px}
@media (max-width:1100px){.tiles{grid-template-columns:repeat(4,1fr)}}
@media (max-width:640px){.tiles{grid-template-columns:repeat(2,1fr)}}
.tile .name{color:var(--dim);font-size:12px}
.tile .value{font-size:22px;font-weight:600;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.tile .note{color:var(--dim);font-size:12px}
.tile.bad .value{color:var(--bad)}.tile.warn .value{color:var(--warn)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(360px,1fr));gap:14px;margin-bottom:14px}
.plot{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 14px}
.plot figcaption{display:flex;justify-content:space-between;gap:10px;font-weight:600;margin-bottom:4px}
.legend{font-weight:400;color:var(--dim);font-size:12px;white-space:nowrap}
.legend b{color:var(--ink);font-variant-numeric:tabular-nums}
.legend i{display:inline-block;width:9px;height:9px;border-radius:2px;margin:0 4px 0 8px;background:var(--accent)}
.legend i.second{background:var(--second)}.legend i.third{background:var(--third)}.legend i.fail{background:var(--bad)}
svg{display:block;width:100%;height:auto}
.grid{stroke:var(--rule);stroke-width:1}.tick{fill:var(--dim);font-size:10px}
.line{fill:none;stroke:var(--accent);stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.line.second{stroke:var(--second)}.line.third{stroke:var(--third)}.line.fail{stroke:var(--bad)}
.area{fill:var(--accent);opacity:.12;stroke:none}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:14px}
table{border-collapse:collapse;width:100%}
th{color:var(--dim);font-weight:500;font-size:12px;text-align:left;padding:4px 10px 4px 0;border-bottom:1px solid var(--rule);white-space:nowrap}
td{padding:5px 10px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top}
tr:last-child td{border-bottom:0}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code{font:12px/1.4 ui-monospace,"DejaVu Sans Mono",Menlo,monospace;overflow-wrap:anywhere}
.dim{color:var(--dim)}.good{color:var(--good)}.warntext{color:var(--warn)}.badtext{color:var(--bad)}
.share{display:inline-block;height:8px;border-radius:2px;background:var(--accent);vertical-align:1px;min-width:1px}
.bar{height:10px;border-radius:5px;background:var(--rule);overflow:hidden;margin:6px 0 8px;display:flex}
.bar span{display:block;height:100%}
.bar .cached{background:var(--accent)}.bar .compiled{background:var(--good)}.bar .failed{background:var(--bad)}
footer{color:var(--dim);font-size:12px;margin:16px 2px}
)";

std::string Number(double value) {
  if (value < 10 && value != std::floor(value)) return absl::StrFormat("%.1f", value);
  std::string digits = absl::StrFormat("%.0f", value), grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    // A thin space: figures of different length stay readable.
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') grouped += "\u202f";
    grouped += digits[i];
  }
  return grouped;
}

std::string Short(double value) {
  if (value >= 1e9) return absl::StrFormat("%.3gG", value / 1e9);
  if (value >= 1e6) return absl::StrFormat("%.3gM", value / 1e6);
  if (value >= 1e4) return absl::StrFormat("%.3gk", value / 1e3);
  return absl::StrFormat("%.3g", value);
}

std::string Seconds(double seconds) {
  if (seconds <= 0) return "0";
  if (seconds < 1e-3) return absl::StrFormat("%.3g \u00b5s", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  if (seconds < 120) return absl::StrFormat("%.3g s", seconds);
  return absl::StrFormat("%.0f min", seconds / 60);
}

std::string Bytes(double bytes) {
  if (bytes < 1024) return absl::StrFormat("%.0f B", bytes);
  if (bytes < 1024 * 1024) return absl::StrFormat("%.3g KiB", bytes / 1024);
  if (bytes < 1024.0 * 1024 * 1024) return absl::StrFormat("%.4g MiB", bytes / 1048576);
  return absl::StrFormat("%.4g GiB", bytes / 1073741824);
}

std::string Percent(double share) { return absl::StrFormat("%.3g %%", share * 100); }

std::string Age(int64_t unix_seconds, absl::Time now) {
  int64_t age = absl::ToUnixSeconds(now) - unix_seconds;
  if (age < 0) age = 0;
  if (age < 120) return absl::StrCat(age, " s ago");
  if (age < 7200) return absl::StrCat(age / 60, " min ago");
  if (age < 172800) return absl::StrCat(age / 3600, " h ago");
  return absl::StrCat(age / 86400, " d ago");
}

std::string Duration(int64_t seconds) {
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 7200) return absl::StrCat(seconds / 60, " min");
  if (seconds < 172800) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " d");
}

void Tile(const char* name, const std::string& value, const std::string& note,
          const char* css_class, std::string* html) {
  absl::StrAppend(html, "<div class=\"tile ", css_class, "\"><div class=\"name\">", name,
                  "</div><div class=\"value\">", value, "</div><div class=\"note\">", note,
                  "</div></div>");
}

void Header(const Status& status, absl::Time now, std::string* html) {
  const char* pill = status.ready() ? "" : status.state() == "starting" ? "warn" : "bad";
  const char* word = status.ready() ? "serving" : "not serving";
  absl::StrAppend(html, "<header><h1>Tessera</h1><span class=\"pill ", pill, "\">", word,
                  "</span>");
  if (!status.ready() || status.state() != "serving")
    absl::StrAppend(html, "<span>", EscapeHtml(status.state()), "</span>");
  absl::StrAppend(html, "<span class=\"meta\">version ", EscapeHtml(status.version()),
                  " \u00b7 pid ", status.pid(), " \u00b7 up ",
                  Duration(absl::ToUnixSeconds(now) - status.started_unix_seconds()),
                  " \u00b7 state in <code>", EscapeHtml(status.state_dir()),
                  "</code></span></header>");
}

void Tiles(const DaemonState& state, const std::vector<HistoryPoint>& points, std::string* html) {
  const Status& status = state.status;
  absl::StrAppend(html, "<div class=\"tiles\">");
  double rate = points.empty() ? 0 : points.back().launches;
  Tile("launches", Number(static_cast<double>(status.launches())),
       absl::StrCat(Short(rate), " a second now, ", status.launches_in_flight(), " in flight"), "",
       html);
  uint64_t failed = status.launch_failures();
  Tile("failed or refused", Number(static_cast<double>(failed)),
       status.launches() == 0
           ? "none yet"
           : Percent(static_cast<double>(failed) / static_cast<double>(status.launches())),
       failed > 0 ? "warn" : "", html);
  const auto& requests = status.compile_requests();
  double asked = static_cast<double>(requests.hit() + requests.miss() + requests.failed() +
                                     requests.timeout());
  Tile("found in the cache",
       asked == 0 ? "\u2013" : Percent(static_cast<double>(requests.hit()) / asked),
       absl::StrCat(requests.hit(), " of ", Short(asked), " kernels that were not loaded"), "",
       html);
  Tile("compiled", Number(static_cast<double>(status.compiles())),
       absl::StrCat(requests.failed() + requests.timeout(), " failed, ", requests.coalesced(),
                    " shared"),
       "", html);
  Tile("compiled while serving", Number(static_cast<double>(status.jit_during_serving())),
       absl::StrCat("monitor: ", status.jit_monitor()),
       status.jit_during_serving() > 0 ? "warn" : "", html);
  Tile("variants loaded", Number(status.kernel_variants()),
       absl::StrCat(status.kernels_size(), " kernels in use"), "", html);
  Tile("client memory", Bytes(static_cast<double>(status.mapped_bytes())),
       absl::StrCat(status.regions(), " regions, ", status.sessions(), " sessions"), "", html);
  bool degraded = !state.cache.state().empty() && state.cache.state() != "ok";
  Tile("cache on disk", Bytes(static_cast<double>(state.cache.disk_bytes())),
       degraded ? EscapeHtml(state.cache.state())
                : absl::StrCat(state.cache.evictions(), " evicted, ", state.cache.corrupt_entries(),
                               " damaged"),
       degraded ? "bad" : "", html);
  absl::StrAppend(html, "</div>");
}

PlotLine LineOf(const std::vector<HistoryPoint>& points, const char* name, const char* css_class,
                double HistoryPoint::*field, bool filled = false) {
  PlotLine line{name, css_class, {}, filled};
  for (const HistoryPoint& point : points)
    line.points.emplace_back(point.age_seconds, point.*field);
  return line;
}

void Plots(const std::vector<HistoryPoint>& points, std::string* html) {
  absl::StrAppend(html, "<div class=\"plots\">");
  // A young daemon's plots begin with it.
  double span = points.empty() ? 0 : points.front().age_seconds;
  span = std::clamp(60 * std::ceil(span / 60), 120.0, 900.0);
  Plot launches{"Launches a second", {}};
  launches.label = Short;
  launches.lines = {LineOf(points, "all", "", &HistoryPoint::launches, true),
                    LineOf(points, "failed", "fail", &HistoryPoint::failures)};
  launches.span_seconds = span;
  absl::StrAppend(html, RenderPlot(launches));
  Plot latency{"Device time", {}};
  latency.label = Seconds;
  latency.logarithmic = true;
  latency.lines = {LineOf(points, "p50", "", &HistoryPoint::p50_seconds),
                   LineOf(points, "p99", "second", &HistoryPoint::p99_seconds)};
  latency.span_seconds = span;
  absl::StrAppend(html, RenderPlot(latency));
  Plot compiles{"Compiles a second", {}};
  compiles.label = Short;
  compiles.lines = {LineOf(points, "all", "", &HistoryPoint::compiles, true),
                    LineOf(points, "while serving", "second", &HistoryPoint::jit)};
  compiles.span_seconds = span;
  absl::StrAppend(html, RenderPlot(compiles));
  Plot hits{"Kernels found in the cache", {}};
  hits.label = Percent;
  hits.least_top = 1;
  hits.lines = {PlotLine{"share", "", {}, true}};
  for (const HistoryPoint& point : points)
    if (point.hit_ratio >= 0) hits.lines[0].points.emplace_back(point.age_seconds, point.hit_ratio);
  hits.span_seconds = span;
  absl::StrAppend(html, RenderPlot(hits));
  Plot busy{"Devices busy", {}};
  busy.label = Percent;
  busy.least_top = 0.1;
  busy.lines = {LineOf(points, "all devices", "", &HistoryPoint::busy, true)};
  busy.span_seconds = span;
  absl::StrAppend(html, RenderPlot(busy));
  Plot memory{"Memory", {}};
  memory.label = Bytes;
  memory.least_top = 1 << 20;
  memory.binary = true;
  memory.lines = {LineOf(points, "clients'", "", &HistoryPoint::mapped_bytes, true),
                  LineOf(points, "daemon", "third", &HistoryPoint::resident_bytes)};
  memory.span_seconds = span;
  absl::StrAppend(html, RenderPlot(memory));
  absl::StrAppend(html, "</div>");
}

void WarmUp(const Status& status, std::string* html) {
  const auto& warmup = status.warmup();
  absl::StrAppend(html, "<section id=\"warmup\"><h2>Warm-up</h2>");
  if (warmup.total() == 0 && warmup.failures_size() == 0) {
    absl::StrAppend(html,
                    "<p class=\"dim\">No manifest is in force. <code>tessera manifest record"
                    "</code> writes one of what was launched.</p></section>");
    return;
  }
  double total = std::max(1u, warmup.total());
  absl::StrAppendFormat(
      html,
      "<div><b>%d of %d</b> done%s in %s <span class=\"dim\">(<code>%s</code>)</span></div>"
      "<div class=\"bar\"><span class=\"cached\" style=\"width:%.1f%%\"></span>"
      "<span class=\"compiled\" style=\"width:%.1f%%\"></span>"
      "<span class=\"failed\" style=\"width:%.1f%%\"></span></div>",
      warmup.done(), warmup.total(), warmup.finished() ? "" : ", running",
      Seconds(warmup.seconds()), EscapeHtml(warmup.manifest()), 100 * warmup.cached() / total,
      100 * warmup.compiled() / total, 100 * warmup.failed() / total);
  absl::StrAppend(html, "<div class=\"dim\">", warmup.cached(), " from the cache, ",
                  warmup.compiled(), " compiled, ", warmup.failed(), " failed; ", warmup.required(),
                  " required; ", warmup.tunings(), " tunings taken over</div>");
  for (int i = 0; i < std::min(kFailureRows, warmup.failures_size()); ++i)
    absl::StrAppend(html, "<div class=\"badtext\"><code>", EscapeHtml(warmup.failures(i)),
                    "</code></div>");
  absl::StrAppend(html, "</section>");
}

void JitEvents(const Status& status, absl::Time now, std::string* html) {
  absl::StrAppend(html, "<section id=\"jit\"><h2>Compiled while serving</h2>");
  if (status.jit_events_size() == 0) {
    absl::StrAppend(
        html, "<p class=\"good\">Nothing: no launch had to wait for a compile.</p></section>");
    return;
  }
  absl::StrAppend(html,
                  "<table><tr><th>kernel</th><th class=\"n\">when</th><th class=\"n\">took</th>"
                  "<th>launch, and the manifest line that covers it</th></tr>");
  for (int i = 0; i < std::min(kJitRows, status.jit_events_size()); ++i) {
    const Status::JitEvent& event = status.jit_events(i);
    absl::StrAppend(
        html, "<tr><td><b>", EscapeHtml(event.kernel()), "</b><br><span class=\"dim\">",
        EscapeHtml(event.device()), "</span></td><td class=\"n\">", Age(event.unix_seconds(), now),
        "</td><td class=\"n\">",
        event.refused() ? "<span class=\"badtext\">refused</span>" : Seconds(event.seconds()),
        "</td><td><code>", EscapeHtml(event.shape()), "</code><br><code class=\"dim\">",
        EscapeHtml(event.entry()),
        "</code><br><span class=\"dim\">nearest: ", EscapeHtml(event.nearest()),
        "</span></td></tr>");
  }
  absl::StrAppend(html, "</table></section>");
}

void Kernels(const Status& status, std::string* html) {
  absl::StrAppend(html, "<section id=\"kernels\"><h2>Kernels by device time</h2>");
  if (status.kernels_size() == 0) {
    absl::StrAppend(html, "<p class=\"dim\">Nothing was launched yet.</p></section>");
    return;
  }
  double most = status.kernels(0).seconds(), sum = 0;
  for (const Status::Kernel& kernel : status.kernels()) sum += kernel.seconds();
  absl::StrAppend(html,
                  "<table><tr><th>kernel</th><th>share</th><th class=\"n\">device time</th>"
                  "<th class=\"n\">launches</th><th class=\"n\">p50</th><th class=\"n\">p99</th>"
                  "<th class=\"n\">longest</th><th class=\"n\">variants</th><th class=\"n\">failed"
                  "</th></tr>");
  for (int i = 0; i < std::min(kKernelRows, status.kernels_size()); ++i) {
    const Status::Kernel& kernel = status.kernels(i);
    absl::StrAppendFormat(
        html,
        "<tr><td><b>%s</b></td><td><span class=\"share\" style=\"width:%.0fpx\"></span> %s</td>"
        "<td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s"
        "</td><td class=\"n\">%s</td><td class=\"n\">%d</td><td class=\"n\">%s</td></tr>",
        EscapeHtml(kernel.name()), most > 0 ? 90 * kernel.seconds() / most : 0,
        sum > 0 ? Percent(kernel.seconds() / sum) : "", Seconds(kernel.seconds()),
        Number(static_cast<double>(kernel.launches())), Seconds(kernel.p50_seconds()),
        Seconds(kernel.p99_seconds()), Seconds(kernel.max_seconds()), kernel.variants(),
        kernel.failures() == 0
            ? "0"
            : absl::StrCat("<span class=\"badtext\">", kernel.failures(), "</span>"));
  }
  absl::StrAppend(html, "</table></section>");
}

void Tunings(const Status& status, absl::Time now, std::string* html) {
  absl::StrAppend(html, "<section id=\"tunings\"><h2>Tuning decisions</h2>");
  if (status.tunings_size() == 0) {
    absl::StrAppend(html, "<p class=\"dim\">Nothing was tuned yet.</p></section>");
    return;
  }
  absl::StrAppend(html,
                  "<table><tr><th>kernel, bucket</th><th>configuration, reason</th>"
                  "<th class=\"n\">time</th><th class=\"n\">first one's</th>"
                  "<th class=\"n\">when</th></tr>");
  for (int i = 0; i < std::min(kTuningRows, status.tunings_size()); ++i) {
    const Status::TuningDecision& tuning = status.tunings(i);
    absl::StrAppend(
        html, "<tr><td><b>", EscapeHtml(tuning.kernel()), "</b><br><code class=\"dim\">",
        EscapeHtml(tuning.bucket()), "</code></td><td><code>", EscapeHtml(tuning.chosen()),
        "</code><br><span class=\"dim\">", tuning.pinned() ? "pinned; " : "",
        EscapeHtml(tuning.reason()), ", ", tuning.trials(), " tried</span></td><td class=\"n\">",
        tuning.seconds() > 0 ? Seconds(tuning.seconds()) : "\u2013", "</td><td class=\"n\">",
        tuning.default_seconds() > 0 ? Seconds(tuning.default_seconds()) : "\u2013",
        "</td><td class=\"n\">", Age(tuning.unix_seconds(), now), "</td></tr>");
  }
  absl::StrAppend(html, "</table></section>");
}

void Devices(const Status& status, std::string* html) {
  absl::StrAppend(html,
                  "<section id=\"devices\"><h2>Devices</h2><table><tr><th>device</th>"
                  "<th>state</th><th class=\"n\">restarts</th><th class=\"n\">quarantined"
                  "</th><th>memory, sharing</th></tr>");
  for (const Status::Device& device : status.devices()) {
    std::string memory = "\u2013";
    if (device.has_gpu())
      memory = absl::StrCat(Bytes(static_cast<double>(device.gpu().memory_bytes() -
                                                      device.gpu().memory_free_bytes())),
                            " of ", Bytes(static_cast<double>(device.gpu().memory_bytes())), ", ",
                            EscapeHtml(device.gpu().sharing()));
    bool fine = device.state() == "running" || device.state() == "not started";
    absl::StrAppend(html, "<tr><td><b>", EscapeHtml(device.name()), "</b><br><span class=\"dim\">",
                    EscapeHtml(device.description()), "</span></td><td class=\"",
                    fine ? "good" : "badtext", "\">", EscapeHtml(device.state()),
                    "</td><td class=\"n\">", device.restarts(), "</td><td class=\"n\">",
                    device.quarantined_kernels_size(), "</td><td>", memory, "</td></tr>");
  }
  absl::StrAppend(html, "</table></section>");
}

void Processes(const Status& status, std::string* html) {
  absl::StrAppend(html,
                  "<section id=\"processes\"><h2>Processes</h2><table><tr><th>process</th>"
                  "<th class=\"n\">pid</th><th class=\"n\">resident</th>"
                  "<th class=\"n\">descriptors</th><th class=\"n\">threads</th>"
                  "<th class=\"n\">processor</th></tr>");
  for (const Status::Process& process : status.processes())
    absl::StrAppend(html, "<tr><td><b>", EscapeHtml(process.role()), "</b></td><td class=\"n\">",
                    process.pid(), "</td><td class=\"n\">",
                    Bytes(static_cast<double>(process.resident_bytes())), "</td><td class=\"n\">",
                    process.descriptors(), "</td><td class=\"n\">", process.threads(),
                    "</td><td class=\"n\">", Seconds(process.cpu_seconds()), "</td></tr>");
  absl::StrAppend(html, "</table></section>");
}

void CacheFamilies(const DaemonState& state, std::string* html) {
  absl::StrAppend(html,
                  "<section id=\"cache\"><h2>Cache</h2><table><tr><th>family</th>"
                  "<th class=\"n\">entries</th><th class=\"n\">bytes</th></tr>");
  for (const auto& family : state.cache.families())
    absl::StrAppend(html, "<tr><td>", EscapeHtml(family.name()), "</td><td class=\"n\">",
                    Number(static_cast<double>(family.entries())), "</td><td class=\"n\">",
                    Bytes(static_cast<double>(family.bytes())), "</td></tr>");
  absl::StrAppend(html, "</table></section>");
}

void FailureReasons(const DaemonState& state, std::string* html) {
  if (state.status.failure_reasons_size() == 0) return;
  absl::StrAppend(html,
                  "<section id=\"failures\"><h2>Why launches failed</h2><table><tr>"
                  "<th>reason</th><th class=\"n\">launches</th></tr>");
  for (const auto& reason : state.status.failure_reasons())
    absl::StrAppend(html, "<tr><td><code>", EscapeHtml(reason.reason()),
                    "</code></td><td class=\"n\">", Number(static_cast<double>(reason.count())),
                    "</td></tr>");
  absl::StrAppend(html, "</table></section>");
}

}  // namespace

std::string RenderStatusPage(const DaemonState& state, const std::vector<HistoryPoint>& points,
                             absl::Time now) {
  std::string html = absl::StrCat(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta http-equiv=\"refresh\" content=\"5\"><title>Tessera \u00b7 ",
      state.status.ready() ? "serving" : "not serving", "</title><style>", kStyle,
      "</style></head><body><main>");
  Header(state.status, now, &html);
  Tiles(state, points, &html);
  Plots(points, &html);
  Kernels(state.status, &html);
  absl::StrAppend(&html, "<div class=\"columns\"><div>");
  WarmUp(state.status, &html);
  Tunings(state.status, now, &html);
  FailureReasons(state, &html);
  absl::StrAppend(&html, "</div><div>");
  Devices(state.status, &html);
  Processes(state.status, &html);
  CacheFamilies(state, &html);
  absl::StrAppend(&html, "</div></div>");
  JitEvents(state.status, now, &html);
  absl::StrAppend(&html, "<footer>",
                  absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", now, absl::UTCTimeZone()),
                  " \u00b7 read-only, loads again every 5 s \u00b7 compiler ",
                  EscapeHtml(state.status.compiler_build()),
                  " \u00b7 <a href=\"/metrics\">metrics</a></footer></main></body></html>\n");
  return html;
}

}  // namespace tessera::server
