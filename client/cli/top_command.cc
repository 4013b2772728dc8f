// top: the daemon's state in the terminal, again and again.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"

namespace tessera::cli {
namespace {

volatile std::sig_atomic_t stopped = 0;

struct Screen {
  int columns = 100, rows = 40;
  bool colours = false;
};

Screen ReadScreen() {
  Screen screen;
  winsize size{};
  screen.colours = isatty(STDOUT_FILENO) != 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    screen.columns = size.ws_col;
    screen.rows = size.ws_row;
  }
  return screen;
}

std::string Seconds(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 600) return absl::StrFormat("%.1f s", seconds);
  return absl::StrFormat("%.0f min", seconds / 60);
}

std::string Bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes)
                   : absl::StrFormat("%.1f %s", bytes, units[unit]);
}

class Painter {
 public:
  // `before` null: the first picture, without rates.
  Painter(const v1::GetStatusResponse& now, const v1::GetStatusResponse* before, double seconds,
          Screen screen)
      : now_(now), before_(before), seconds_(seconds), screen_(screen) {}

  std::string Paint() {
    Head();
    Launches();
    Compiles();
    Devices();
    Kernels();
    JitEvents();
    return text_;
  }

 private:
  template <typename Get>
  double Rate(Get get) const {
    if (before_ == nullptr || seconds_ <= 0) return 0;
    double difference = static_cast<double>(get(now_)) - static_cast<double>(get(*before_));
    return std::max(0.0, difference / seconds_);
  }
  std::string Coloured(const char* code, const std::string& text) const {
    return screen_.colours ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : text;
  }
  void Line(const std::string& line) {
    if (lines_ >= screen_.rows - 1) return;
    // Colours take no columns; only plain lines are cut.
    bool plain = line.find('\x1b') == std::string::npos;
    text_ += plain ? line.substr(0, static_cast<size_t>(screen_.columns)) : line;
    text_ += "\n";
    ++lines_;
  }

  void Head() {
    int64_t up = absl::ToUnixSeconds(absl::Now()) - now_.started_unix_seconds();
    Line(absl::StrCat(
        Coloured("1", absl::StrCat("tesserad ", now_.version())), "  pid ", now_.pid(), "  up ",
        absl::FormatDuration(absl::Seconds(std::max<int64_t>(up, 0))), "  ",
        Coloured(now_.ready() ? "32" : "31;1",
                 now_.ready() ? now_.state() : absl::StrCat("NOT SERVING: ", now_.state()))));
    const v1::WarmupProgress& warmup = now_.warmup();
    if (warmup.total() > 0 || warmup.failures_size() > 0)
      Line(absl::StrFormat("warm-up   %d of %d: %d cached, %d compiled, %d failed  (%s)",
                           warmup.done(), warmup.total(), warmup.cached(), warmup.compiled(),
                           warmup.failed(), warmup.state()));
  }
  void Launches() {
    using S = v1::GetStatusResponse;
    Line(absl::StrFormat(
        "launches  %9.1f/s  %d in all, %d in flight, %d failed (%.1f/s), %d of these refused",
        Rate([](const S& s) { return s.launches(); }), now_.launches(), now_.launches_in_flight(),
        now_.launch_failures(), Rate([](const S& s) { return s.launch_failures(); }),
        now_.launches_rejected()));
    for (const auto& latency : now_.latencies())
      if (latency.count() > 0)
        Line(absl::StrFormat("%-9s p50 %9s  p90 %9s  p99 %9s", latency.name(),
                             Seconds(latency.p50_seconds()), Seconds(latency.p90_seconds()),
                             Seconds(latency.p99_seconds())));
    Line(absl::StrFormat("memory    %d sessions, %d regions, %s", now_.sessions(), now_.regions(),
                         Bytes(static_cast<double>(now_.mapped_bytes()))));
  }
  void Compiles() {
    using S = v1::GetStatusResponse;
    const auto& requests = now_.compile_requests();
    double asked = static_cast<double>(requests.hit() + requests.miss() + requests.failed() +
                                       requests.timeout());
    int busy = 0;
    for (const auto& worker : now_.workers()) busy += worker.state() == "compiling";
    Line(absl::StrFormat(
        "compiles  %9.1f/s  %d in all, %d failed; %.0f%% found in the cache; %d of %d workers busy",
        Rate([](const S& s) { return s.compiles(); }), now_.compiles(),
        requests.failed() + requests.timeout(),
        asked > 0 ? 100 * static_cast<double>(requests.hit()) / asked : 0.0, busy,
        now_.workers_size()));
    const auto& cache = now_.cache();
    Line(absl::StrFormat("cache     %d entries, %s, %d evicted, %d damaged  %s", cache.entries(),
                         Bytes(static_cast<double>(cache.disk_bytes())), cache.evictions(),
                         cache.corrupt_entries(), cache.state()));
    std::string jit = absl::StrFormat("jit       %d compiles while serving (monitor: %s)",
                                      now_.jit_during_serving(), now_.jit_monitor());
    Line(now_.jit_during_serving() > 0 ? Coloured("33", jit) : jit);
  }
  void Devices() {
    Line("");
    Line(Coloured("1", absl::StrFormat("%-12s %-12s %8s %5s  %s", "device", "state", "restarts",
                                       "quar.", "processor or GPU")));
    for (const auto& device : now_.devices()) {
      std::string what = device.description();
      if (device.has_gpu())
        absl::StrAppend(&what, ", ", Bytes(static_cast<double>(device.gpu().memory_free_bytes())),
                        " free of ", Bytes(static_cast<double>(device.gpu().memory_bytes())), ", ",
                        device.gpu().sharing());
      Line(absl::StrFormat("%-12s %-12s %8d %5d  %s", device.name(), device.state(),
                           device.restarts(), device.quarantined_kernels_size(), what));
    }
    for (const auto& process : now_.processes()) {
      if (process.role() == "worker") continue;
      Line(absl::StrFormat("  %-20s pid %-8d %10s %5d descriptors", process.role(), process.pid(),
                           Bytes(static_cast<double>(process.resident_bytes())),
                           process.descriptors()));
    }
  }
  void Kernels() {
    Line("");
    Line(Coloured("1",
                  absl::StrFormat("%-32s %10s %7s %10s %10s %10s %4s %6s", "kernel", "launches/s",
                                  "busy", "total", "p50", "p99", "var.", "failed")));
    std::map<std::string, const v1::GetStatusResponse::Kernel*> earlier;
    if (before_ != nullptr)
      for (const auto& kernel : before_->kernels()) earlier[kernel.name()] = &kernel;
    struct Row {
      const v1::GetStatusResponse::Kernel* kernel;
      double rate, busy;
    };
    std::vector<Row> rows;
    for (const auto& kernel : now_.kernels()) {
      Row row{&kernel, 0, 0};
      if (auto found = earlier.find(kernel.name()); found != earlier.end() && seconds_ > 0) {
        row.rate = static_cast<double>(kernel.launches() - found->second->launches()) / seconds_;
        row.busy = (kernel.seconds() - found->second->seconds()) / seconds_;
      }
      rows.push_back(row);
    }
    // What is busy now comes first; before there are rates, what was busy.
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.busy > b.busy; });
    if (rows.empty()) Line("(nothing was launched yet)");
    for (const Row& row : rows)
      Line(absl::StrFormat(
          "%-32s %10.1f %6.1f%% %10s %10s %10s %4d %6d", row.kernel->name().substr(0, 32), row.rate,
          100 * row.busy, Seconds(row.kernel->seconds()), Seconds(row.kernel->p50_seconds()),
          Seconds(row.kernel->p99_seconds()), row.kernel->variants(), row.kernel->failures()));
  }
  void JitEvents() {
    if (now_.jit_events_size() == 0) return;
    Line("");
    Line(Coloured("1", "compiled while serving"));
    for (const auto& event : now_.jit_events())
      Line(absl::StrFormat("%s  %s  %s  %s",
                           absl::FormatTime("%H:%M:%S", absl::FromUnixSeconds(event.unix_seconds()),
                                            absl::LocalTimeZone()),
                           event.refused() ? "refused" : Seconds(event.seconds()), event.kernel(),
                           event.shape()));
  }

  const v1::GetStatusResponse& now_;
  const v1::GetStatusResponse* const before_;
  const double seconds_;
  const Screen screen_;
  std::string text_;
  int lines_ = 0;
};

absl::Status RunTop(double interval, int count, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  Screen screen = ReadScreen();
  bool on_terminal = isatty(STDOUT_FILENO) != 0, keys = isatty(STDIN_FILENO) != 0;
  std::signal(SIGINT, [](int) { stopped = 1; });
  std::signal(SIGTERM, [](int) { stopped = 1; });
  // One key ends it, as in other programs of this name.
  termios before{};
  if (on_terminal && keys && tcgetattr(STDIN_FILENO, &before) == 0) {
    termios raw = before;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  } else {
    keys = false;
  }
  if (on_terminal) std::cout << "\x1b[?1049h\x1b[?25l";
  absl::Cleanup restore = [&] {
    if (on_terminal) std::cout << "\x1b[?25h\x1b[?1049l" << std::flush;
    if (keys) tcsetattr(STDIN_FILENO, TCSANOW, &before);
  };
  std::optional<v1::GetStatusResponse> last;
  absl::Time last_time = absl::Now();
  for (int i = 0; (count == 0 || i < count) && !stopped; ++i) {
    grpc::ClientContext call;
    v1::GetStatusRequest request;
    v1::GetStatusResponse status;
    RETURN_IF_ERROR(StatusOf(client->admin().GetStatus(&call, request, &status), call));
    absl::Time now = absl::Now();
    if (context.json) {
      PrintJson(status);
    } else {
      screen = ReadScreen();
      if (!on_terminal) screen.rows = 1000;
      std::string picture =
          Painter(status, last ? &*last : nullptr, absl::ToDoubleSeconds(now - last_time), screen)
              .Paint();
      std::cout << (on_terminal ? "\x1b[H\x1b[2J" : i > 0 ? "\n" : "") << picture << std::flush;
    }
    last = std::move(status);
    last_time = now;
    if (count != 0 && i + 1 == count) break;
    pollfd key{keys ? STDIN_FILENO : -1, POLLIN, 0};
    char pressed = 0;
    if (poll(&key, 1, static_cast<int>(interval * 1000)) > 0 &&
        read(STDIN_FILENO, &pressed, 1) == 1 && (pressed == 'q' || pressed == 3))
      break;
  }
  return absl::OkStatus();
}

}  // namespace

void AddTopCommand(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* top = app.add_subcommand("top", "the daemon's state, again and again (q ends it)");
  auto interval = std::make_shared<double>(2);
  auto count = std::make_shared<int>(0);
  top->add_option("--interval", *interval, "seconds between pictures (default 2)")
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("--count", *count, "so many pictures, then end; 0: no end (default)")
      ->check(CLI::Range(0, 1000000));
  AddConnectionOptions(*top, context);
  AddPrivateOption(*top, context);
  top->callback(
      [=, &context] { *action = [=, &context] { return RunTop(*interval, *count, context); }; });
}

}  // namespace tessera::cli
