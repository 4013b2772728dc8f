// tessera cache stats|ls|explain|gc|verify|export|import
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"

namespace tessera::cli {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

std::string Bytes(uint64_t bytes) {
  if (bytes < 10240) return absl::StrFormat("%d B", bytes);
  if (bytes < (10u << 20)) return absl::StrFormat("%.1f KiB", bytes / 1024.0);
  return absl::StrFormat("%.1f MiB", bytes / 1048576.0);
}

void PrintEntry(const v1::CacheListResponse::Entry& entry) {
  std::cout << absl::StrFormat("%-16s %10s  %s\n", entry.key().substr(0, 16), Bytes(entry.bytes()), entry.summary());
}

absl::Status RunStats(CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::CacheStatsRequest request;
  v1::CacheStatsResponse stats;
  RETURN_IF_ERROR(StatusOf(client->cache().Stats(&call, request, &stats), call));
  if (context.json) {
    PrintJson(stats);
    return absl::OkStatus();
  }
  std::cout << absl::StrFormat("%s: %s, %s on disk\n", stats.path().empty() ? "in memory" : stats.path(), stats.state(), Bytes(stats.disk_bytes()));
  for (const auto& family : stats.families())
    std::cout << absl::StrFormat("%-10s %8d entries %12s\n", family.name(), family.entries(), Bytes(family.bytes()));
  std::cout << absl::StrFormat("%d hits, %d misses, %d damaged entries dropped, %d evictions\n", stats.hits(), stats.misses(), stats.corrupt_entries(), stats.evictions());
  return absl::OkStatus();
}

absl::Status RunList(const std::string& family, const std::string& prefix, int limit, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::CacheListRequest request;
  v1::CacheListResponse list;
  request.set_family(family);
  request.set_prefix(prefix);
  request.set_limit(limit);
  RETURN_IF_ERROR(StatusOf(client->cache().List(&call, request, &list), call));
  if (context.json) {
    PrintJson(list);
    return absl::OkStatus();
  }
  for (const auto& entry : list.entries()) PrintEntry(entry);
  if (list.truncated()) std::cout << "(more; raise --limit)\n";
  return absl::OkStatus();
}

absl::Status RunExplain(const std::string& key, const std::string& other, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::CacheExplainRequest request;
  v1::CacheExplainResponse explained;
  request.set_key(key);
  request.set_other(other);
  RETURN_IF_ERROR(StatusOf(client->cache().Explain(&call, request, &explained), call));
  if (context.json) PrintJson(explained);
  else std::cout << explained.text();
  return absl::OkStatus();
}

absl::Status RunCollect(bool dry_run, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::CacheCollectRequest request;
  v1::CacheCollectResponse report;
  request.set_dry_run(dry_run);
  RETURN_IF_ERROR(StatusOf(client->cache().Collect(&call, request, &report), call));
  if (context.json) {
    PrintJson(report);
    return absl::OkStatus();
  }
  for (const auto& entry : report.evicted()) PrintEntry(entry);
  std::cout << absl::StrFormat("%d entries of %s %s; %d of %s stay", report.entries(), Bytes(report.bytes()), dry_run ? "would go" : "went", report.kept_entries(),
                               Bytes(report.kept_bytes()));
  std::cout << (report.max_bytes() ? absl::StrCat(", budget ", Bytes(report.max_bytes())) : ", no budget")
            << (report.max_entries_per_kernel() ? absl::StrCat(", ", report.max_entries_per_kernel(), " a kernel") : "") << "\n";
  return absl::OkStatus();
}

absl::Status RunVerify(CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::CacheVerifyRequest request;
  v1::CacheVerifyResponse report;
  RETURN_IF_ERROR(StatusOf(client->cache().Verify(&call, request, &report), call));
  if (context.json) {
    PrintJson(report);
  } else {
    for (const std::string& finding : report.findings()) std::cout << finding << "\n";
    std::cout << absl::StrFormat("%d entries checked, %d damaged%s\n", report.checked(), report.damaged(),
                                 report.damaged() > 0 ? " (dropped; they will be rebuilt)" : "");
  }
  return report.damaged() == 0 ? absl::OkStatus() : absl::DataLossError("");
}

struct ExportWords {
  std::string path, manifest;
  std::vector<std::string> kernels, families, targets;
};

absl::Status RunExport(const ExportWords& words, CommandContext& context) {
  v1::CacheExportRequest request;
  for (const std::string& kernel : words.kernels) request.add_kernels(kernel);
  for (const std::string& family : words.families) request.add_families(family);
  for (const std::string& target : words.targets) request.add_targets(target);
  if (!words.manifest.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_manifest(), ReadFile(words.manifest));
  }
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  // Under another name until it is whole.
  const std::string partial = words.path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", partial));
  grpc::ClientContext call;
  auto reader = client->cache().Export(&call, request);
  v1::CacheExportResponse piece;
  uint64_t bytes = 0, entries = 0;
  while (reader->Read(&piece)) {
    file.write(piece.data().data(), static_cast<std::streamsize>(piece.data().size()));
    bytes += piece.data().size();
    entries = piece.entries();
  }
  absl::Status status = StatusOf(reader->Finish(), call);
  file.close();
  if (status.ok() && !file) status = absl::UnavailableError(absl::StrCat("cannot write ", partial));
  if (status.ok() && std::rename(partial.c_str(), words.path.c_str()) != 0) status = absl::UnavailableError(absl::StrCat("cannot write ", words.path));
  if (!status.ok()) {
    std::remove(partial.c_str());
    return status;
  }
  if (context.json) std::cout << absl::StrFormat("{\"entries\": %d, \"bytes\": %d}\n", entries, bytes);
  else std::cout << absl::StrFormat("%d entries, %s, in %s\n", entries, Bytes(bytes), words.path);
  return absl::OkStatus();
}

absl::Status RunImport(const std::string& path, bool replace, const std::string& manifest, CommandContext& context) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::CacheImportResponse report;
  auto writer = client->cache().Import(&call, &report);
  v1::CacheImportRequest piece;
  piece.set_replace(replace);
  std::string buffer(kPieceBytes, '\0');
  do {
    file.read(&buffer[0], static_cast<std::streamsize>(buffer.size()));
    piece.set_data(buffer.data(), static_cast<size_t>(file.gcount()));
  } while (writer->Write(piece) && file);
  writer->WritesDone();
  RETURN_IF_ERROR(StatusOf(writer->Finish(), call));
  if (context.json) {
    PrintJson(report);
  } else {
    for (const std::string& finding : report.findings()) std::cerr << finding << "\n";
    std::cout << absl::StrFormat("%d entries imported, %d were there, %d rejected, %d of another compiler build left out\n", report.entries(), report.already_there(),
                                 report.rejected(), report.other_build());
  }
  if (!manifest.empty()) {
    std::ofstream out(manifest, std::ios::binary);
    if (!(out << report.manifest())) return absl::UnavailableError(absl::StrCat("cannot write ", manifest));
  }
  if (!report.complete()) return absl::DataLossError("the bundle is damaged; what is sound was imported");
  return report.rejected() == 0 ? absl::OkStatus() : absl::DataLossError("");
}

}  // namespace

void AddCacheCommands(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* cache = app.add_subcommand("cache", "the compile and tuning cache");
  cache->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, std::function<absl::Status()> run) {
    CLI::App* command = cache->add_subcommand(name, help);
    AddConnectionOptions(*command, context);
    AddPrivateOption(*command, context);
    command->callback([=] { *action = run; });
    return command;
  };
  add("stats", "sizes, hits, misses", [&context] { return RunStats(context); });

  auto family = std::make_shared<std::string>("artifacts"), prefix = std::make_shared<std::string>();
  auto limit = std::make_shared<int>(0);
  CLI::App* list = add("ls", "list entries", [=, &context] { return RunList(*family, *prefix, *limit, context); });
  list->add_option("family", *family, "modules, artifacts, inventory, failures, tunings, usage, meta, quarantine");
  list->add_option("--family", *family, "the same");
  list->add_option("--prefix", *prefix, "only keys that begin so (hex)");
  list->add_option("--limit", *limit, "at most so many (default 1000)");

  auto key = std::make_shared<std::string>(), other = std::make_shared<std::string>();
  CLI::App* explain = add("explain", "what a key holds, and why another entry is not the same", [=, &context] { return RunExplain(*key, *other, context); });
  explain->add_option("key", *key, "hex; the first digits will do")->required();
  explain->add_option("other", *other, "say how the two differ");

  auto dry_run = std::make_shared<bool>(false);
  CLI::App* collect = add("gc", "bring the cache within its budget", [=, &context] { return RunCollect(*dry_run, context); });
  collect->add_flag("--dry-run", *dry_run, "say what would go, and touch nothing");

  add("verify", "read and check every entry; damaged ones are dropped (exit status 1 if there were any)", [&context] { return RunVerify(context); });

  auto words = std::make_shared<ExportWords>();
  CLI::App* out = add("export", "write artifacts, tunings and their modules into a file", [=, &context] { return RunExport(*words, context); });
  out->add_option("file", words->path)->required();
  out->add_option("--kernel", words->kernels, "only this kernel")->allow_extra_args(false);
  out->add_option("--family", words->families, "only modules, artifacts or tunings")->allow_extra_args(false);
  out->add_option("--target", words->targets, "only artifacts for this target")->allow_extra_args(false);
  out->add_option("--manifest", words->manifest, "a warm-up manifest that goes along");

  auto path = std::make_shared<std::string>(), manifest = std::make_shared<std::string>();
  auto replace = std::make_shared<bool>(false);
  CLI::App* in = add("import", "bring a bundle into the cache; every entry is checked", [=, &context] { return RunImport(*path, *replace, *manifest, context); });
  in->add_option("file", *path)->required();
  in->add_flag("--replace", *replace, "also what is there already");
  in->add_option("--manifest", *manifest, "where to write the manifest that came along");
}

}  // namespace tessera::cli
