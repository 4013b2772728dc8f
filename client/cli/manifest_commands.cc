// warmup, and manifest record|check|expand|diff.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"

namespace tessera::cli {
namespace {

// A manifest's text and, once the daemon has said which, the files that it names.
template <typename Request>
absl::Status ReadManifest(const std::string& path, Request* request) {
  ASSIGN_OR_RETURN(*request->mutable_manifest(), ReadFile(path));
  request->set_path(path);
  return absl::OkStatus();
}

template <typename Wanted, typename Request>
absl::Status ReadWanted(const std::string& manifest, const Wanted& wanted, Request* request) {
  std::filesystem::path folder = std::filesystem::path(manifest).parent_path();
  for (const std::string& name : wanted) {
    v1::SourceFile* file = request->add_files();
    file->set_path(name);
    ASSIGN_OR_RETURN(*file->mutable_text(), ReadFile((folder / name).string()));
    // An empty file still came.
    if (file->text().empty()) file->set_text("\n");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ExpandManifestResponse> Expand(const std::string& path,
                                                  v1::ExpandManifestRequest* request,
                                                  CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  RETURN_IF_ERROR(ReadManifest(path, request));
  v1::ExpandManifestResponse response;
  grpc::ClientContext call;
  RETURN_IF_ERROR(StatusOf(client->warmup().ExpandManifest(&call, *request, &response), call));
  if (response.files_wanted_size() == 0) return response;
  RETURN_IF_ERROR(ReadWanted(path, response.files_wanted(), request));
  grpc::ClientContext again;
  RETURN_IF_ERROR(StatusOf(client->warmup().ExpandManifest(&again, *request, &response), again));
  return response;
}

absl::Status HasErrors(const google::protobuf::RepeatedPtrField<std::string>& errors) {
  for (const std::string& error : errors) std::cerr << error << "\n";
  return errors.empty() ? absl::OkStatus()
                        : absl::InvalidArgumentError(
                              absl::StrCat(errors.size(), " entries of the manifest are wrong"));
}

std::string Bar(uint32_t done, uint32_t total) {
  constexpr uint32_t kWidth = 30;
  uint32_t filled = total == 0 ? kWidth : kWidth * done / total;
  return std::string(filled, '#') + std::string(kWidth - filled, '.');
}

absl::Status FollowWarmup(std::unique_ptr<grpc::ClientReader<v1::WarmupProgress>> reader,
                          grpc::ClientContext& call, CommandContext& context) {
  v1::WarmupProgress progress;
  bool drawn = false;
  while (reader->Read(&progress)) {
    if (context.json || progress.state() == "reading") continue;
    std::cerr << absl::StrFormat("\r[%s] %d of %d (%d compiled, %d cached, %d failed)",
                                 Bar(progress.done(), progress.total()), progress.done(),
                                 progress.total(), progress.compiled(), progress.cached(),
                                 progress.failed())
              << std::flush;
    drawn = true;
  }
  if (drawn) std::cerr << "\n";
  RETURN_IF_ERROR(StatusOf(reader->Finish(), call));
  if (context.json) PrintJson(progress);
  for (const std::string& failure : progress.failures()) std::cerr << failure << "\n";
  return progress.failed() == 0
             ? absl::OkStatus()
             : absl::UnknownError(absl::StrCat(progress.failed(), " items failed"));
}

absl::Status RunWarmup(const std::string& path, bool reload, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  if (reload)
    return FollowWarmup(client->warmup().ReloadManifest(&call, v1::ReloadManifestRequest()), call,
                        context);
  // Asking what it implies first says which files to send along.
  v1::ExpandManifestRequest expand;
  expand.set_limit(1);
  RETURN_IF_ERROR(Expand(path, &expand, context).status());
  v1::WarmupRequest request;
  request.set_manifest(expand.manifest());
  request.set_path(path);
  *request.mutable_files() = expand.files();
  return FollowWarmup(client->warmup().Warmup(&call, request), call, context);
}

absl::Status RunCheck(const std::string& path, CommandContext& context) {
  v1::ExpandManifestRequest request;
  request.set_limit(1);
  ASSIGN_OR_RETURN(v1::ExpandManifestResponse expanded, Expand(path, &request, context));
  if (context.json) PrintJson(expanded);
  RETURN_IF_ERROR(HasErrors(expanded.errors()));
  if (!context.json)
    std::cout << absl::StrFormat(
        "%s is sound: %d variants (of %d combinations), %d of them in the cache\n", path,
        expanded.total(), expanded.combinations(), expanded.stored());
  return absl::OkStatus();
}

void PrintVariant(const v1::ManifestVariant& variant) {
  std::cout << absl::StrFormat(
      "%-20s %-8s %8s  %s %s%s\n", variant.where(), variant.device(),
      absl::StrFormat("%s%.0f ms", variant.estimated() ? "~" : "", variant.compile_seconds() * 1e3),
      variant.kernel(), variant.text(),
      variant.loaded()   ? "  [loaded]"
      : variant.stored() ? "  [in the cache]"
                         : "");
}

absl::Status RunExpand(const std::string& path, uint32_t limit, CommandContext& context) {
  v1::ExpandManifestRequest request;
  request.set_limit(limit);
  ASSIGN_OR_RETURN(v1::ExpandManifestResponse expanded, Expand(path, &request, context));
  if (context.json) {
    PrintJson(expanded);
    return HasErrors(expanded.errors());
  }
  for (const v1::ManifestVariant& variant : expanded.variants()) PrintVariant(variant);
  if (expanded.total() > static_cast<uint32_t>(expanded.variants_size()))
    std::cout << "(and " << expanded.total() - expanded.variants_size()
              << " more; raise --limit)\n";
  std::cout << absl::StrFormat(
      "%d variants of %d combinations; %d in the cache; about %.1f s of compiling left\n",
      expanded.total(), expanded.combinations(), expanded.stored(), expanded.compile_seconds());
  return HasErrors(expanded.errors());
}

struct RecordWords {
  std::string output, window = "0", watch;
  bool exact = false;
  uint64_t min_launches = 0;
};

absl::StatusOr<double> SecondsOf(const std::string& text) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds >= 0 && std::isfinite(seconds)) return seconds;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration())
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no time; accepted: seconds, 90s, 15m, 24h"));
  return absl::ToDoubleSeconds(duration);
}

absl::Status RunRecord(const RecordWords& words, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  v1::RecordManifestRequest request;
  request.set_exact(words.exact);
  request.set_min_launches(words.min_launches);
  ASSIGN_OR_RETURN(double window, SecondsOf(words.window));
  if (!words.watch.empty()) {
    ASSIGN_OR_RETURN(window, SecondsOf(words.watch));
    std::cerr << absl::StrFormat("watching for %s\n", words.watch);
    absl::SleepFor(absl::Seconds(window));
  }
  request.set_window_seconds(window);
  v1::RecordManifestResponse recorded;
  grpc::ClientContext call;
  RETURN_IF_ERROR(StatusOf(client->warmup().RecordManifest(&call, request, &recorded), call));
  if (words.output.empty()) {
    context.json ? PrintJson(recorded) : void(std::cout << recorded.manifest());
  } else {
    std::ofstream file(words.output, std::ios::binary | std::ios::trunc);
    file << recorded.manifest();
    file.close();
    if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", words.output));
  }
  std::cerr << absl::StrFormat("%d variants of %d kernels, %d launches, %d tunings%s\n",
                               recorded.variants(), recorded.kernels(), recorded.launches(),
                               recorded.tunings(),
                               words.output.empty() ? "" : absl::StrCat(" in ", words.output));
  if (recorded.variants() == 0) std::cerr << "nothing was launched in that time\n";
  return absl::OkStatus();
}

absl::Status RunDiff(const std::string& path, const std::string& window, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  v1::DiffManifestRequest request;
  RETURN_IF_ERROR(ReadManifest(path, &request));
  ASSIGN_OR_RETURN(double seconds, SecondsOf(window));
  request.set_window_seconds(seconds);
  v1::DiffManifestResponse difference;
  grpc::ClientContext call;
  RETURN_IF_ERROR(StatusOf(client->warmup().DiffManifest(&call, request, &difference), call));
  if (difference.files_wanted_size() > 0) {
    RETURN_IF_ERROR(ReadWanted(path, difference.files_wanted(), &request));
    grpc::ClientContext again;
    RETURN_IF_ERROR(StatusOf(client->warmup().DiffManifest(&again, request, &difference), again));
  }
  if (context.json) {
    PrintJson(difference);
  } else {
    std::cout << absl::StrFormat(
        "%d observed variants are covered; %d are not, and would compile while a launch waits:\n",
        difference.covered(), difference.missing_size());
    for (int i = 0; i < difference.missing_size(); ++i)
      std::cout << absl::StrFormat("  %s on %s, %d launches, with %s\n      %s\n",
                                   difference.missing(i).kernel(), difference.missing(i).device(),
                                   difference.missing(i).launches(), difference.missing(i).text(),
                                   difference.missing_entries(i));
    std::cout << difference.unused_size() << " variants of the manifest were not launched";
    constexpr int kShown = 20;
    std::cout << (difference.unused_size() > 0 ? ":\n" : "\n");
    for (int i = 0; i < std::min(kShown, difference.unused_size()); ++i)
      std::cout << "  " << difference.unused(i).where() << " " << difference.unused(i).kernel()
                << " " << difference.unused(i).text() << "\n";
    if (difference.unused_size() > kShown)
      std::cout << "  (and " << difference.unused_size() - kShown << " more)\n";
  }
  RETURN_IF_ERROR(HasErrors(difference.errors()));
  // As diff(1): 1 where there is a difference that matters.
  return difference.missing_size() == 0 ? absl::OkStatus()
                                        : absl::NotFoundError(absl::StrCat(
                                              difference.missing_size(), " variants are missing"));
}

}  // namespace

void AddManifestCommands(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* warmup = app.add_subcommand("warmup", "compile what a manifest lists");
  auto manifest = std::make_shared<std::string>();
  auto reload = std::make_shared<bool>(false);
  auto* file = warmup->add_option("manifest", *manifest, "YAML file");
  auto* again = warmup->add_flag("--reload", *reload, "the daemon's own manifest, read again");
  file->excludes(again);
  AddConnectionOptions(*warmup, context);
  AddPrivateOption(*warmup, context);
  warmup->callback([=, &context] {
    if (manifest->empty() && !*reload) throw CLI::RequiredError("a manifest, or --reload,");
    *action = [=, &context] { return RunWarmup(*manifest, *reload, context); };
  });

  CLI::App* group = app.add_subcommand("manifest", "warm-up manifests");
  group->require_subcommand(1);
  auto path = std::make_shared<std::string>();
  auto with_file = [&](const char* name, const char* help) {
    CLI::App* command = group->add_subcommand(name, help);
    command->add_option("manifest", *path, "YAML file")->required();
    AddConnectionOptions(*command, context);
    AddPrivateOption(*command, context);
    return command;
  };
  CLI::App* check = with_file("check", "says what is wrong with a manifest, with line and column");
  check->callback([=, &context] { *action = [=, &context] { return RunCheck(*path, context); }; });
  CLI::App* expand =
      with_file("expand", "lists every variant that a manifest implies, with its cost");
  auto limit = std::make_shared<uint32_t>(0);
  expand->add_option("--limit", *limit, "list at most so many (default 10000)");
  expand->callback(
      [=, &context] { *action = [=, &context] { return RunExpand(*path, *limit, context); }; });
  CLI::App* diff =
      with_file("diff", "what observed traffic would still compile; exit status 1 if there is any");
  auto window = std::make_shared<std::string>("0");
  diff->add_option("--window", *window,
                   "only what was launched within this time: 90s, 15m, 24h (default: ever)");
  diff->callback(
      [=, &context] { *action = [=, &context] { return RunDiff(*path, *window, context); }; });

  CLI::App* record = group->add_subcommand("record", "write a manifest of what was launched");
  auto words = std::make_shared<RecordWords>();
  record->add_option("-o,--output", words->output, "file (default: standard output)");
  record->add_option("--window", words->window,
                     "only what was launched within this time: 90s, 15m, 24h (default: ever)");
  record->add_option("--watch", words->watch,
                     "watch for so long from now on, then write what was launched meanwhile");
  record->add_flag("--exact", words->exact,
                   "only the variants seen, not the other classes (1, multiples of 16, the rest) "
                   "of integers that vary");
  record->add_option("--min-launches", words->min_launches,
                     "leave out what was launched less often");
  AddConnectionOptions(*record, context);
  record->callback(
      [=, &context] { *action = [=, &context] { return RunRecord(*words, context); }; });
}

}  // namespace tessera::cli
