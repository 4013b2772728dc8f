// Latency of cache hits, side by side in one run: our entries in memory and in RocksDB, against files read as Triton's disk
// cache reads them, and against that cache itself where Triton is installed.
//
// usage: cache_benchmark [--artifacts=100000] [--tunings=1000000] [--lookups=5000] [--rounds=5] [--code-bytes=16384]
//                        [--files=10000] [--directory=DIR] [--keep=1] [--triton-python=PYTHON]
// `--triton-python` is an interpreter that imports triton; it reads the same files through tests/bench/triton_cache.py.
// Every lookup asks for a random entry and looks at its code. All files are read once before, so that they lie in the page
// cache. `--keep=1` leaves the directory, and uses what an earlier run left. Triton's entries are `--files` only: four files each, of which 100,000 take longer to write than all the rest, and
// fewer are to its advantage. Medians of the rounds.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cache/key/compile_key.h"
#include "cache/layer/hot_entries_store.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "nlohmann/json.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  int artifacts = 100000, tunings = 1000000, lookups = 5000, rounds = 5, code_bytes = 16384, files = 10000, keep = 0;
  std::string directory, triton_python;
};

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * values.size()))];
}

cache::CompileKey KeyOf(int number) {
  storage::CompileJob job;
  job.set_kernel(absl::StrCat("kernel_", number / 8));
  job.set_target("sm_90a");
  job.mutable_options()->set_num_warps(1 << (number % 4));
  job.mutable_options()->set_num_stages(1 + number / 4 % 2);
  // The text of a usual kernel.
  std::string closure;
  while (closure.size() < 1500) absl::StrAppend(&closure, "  acc = tl.dot(a, b, acc)  # ", number / 8, "\n");
  return cache::MakeCompileKey(job, closure, "build");
}

// Machine code compresses to something like a half.
std::string CodeOf(int number, int bytes) {
  std::mt19937 random(number);
  std::string code(bytes, '\0');
  for (int i = 0; i < bytes; i += 2) code[i] = static_cast<char>(random());
  return code;
}

storage::ArtifactRecord ArtifactOf(int number, const cache::CompileKey& key, int bytes) {
  storage::ArtifactRecord record;
  record.set_format_version(1);
  record.set_key(key.canonical);
  record.set_compile_seconds(0.5);
  storage::KernelMetadata* metadata = record.mutable_artifact()->mutable_metadata();
  metadata->set_kernel(absl::StrCat("kernel_", number / 8));
  metadata->set_target("sm_90a");
  for (int i = 0; i < 8; ++i) {
    metadata->add_parameters()->set_name(absl::StrCat("parameter_", i));
    metadata->mutable_parameters(i)->set_type("*fp16");
  }
  record.mutable_artifact()->set_code(CodeOf(number, bytes));
  return record;
}

std::string TuningKeyOf(int number) {
  return cache::TuningKey(absl::StrCat("kernel_", number / 64), std::string(64, 'a'), absl::StrCat("M=", number % 64), "H200");
}

storage::TuningRecord TuningOf(int number) {
  storage::TuningRecord record;
  record.set_format_version(1);
  record.set_kernel(absl::StrCat("kernel_", number / 64));
  record.set_bucket(absl::StrCat("M=", number % 64));
  record.set_device("H200");
  for (int i = 0; i < 3; ++i) {
    auto* trial = record.add_trials();
    trial->mutable_config()->mutable_options()->set_num_warps(1 << i);
    trial->set_median_seconds(1e-5 * (number % 97 + i));
    trial->set_samples(20);
  }
  return record;
}

uint64_t BytesWritten() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "wchar:") return value;
  }
  return 0;
}

uint64_t BytesBelow(const std::string& directory, uint64_t* files) {
  uint64_t bytes = 0;
  *files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    struct stat found;
    if (lstat(entry.path().c_str(), &found) != 0) continue;
    bytes += static_cast<uint64_t>(found.st_blocks) * 512;
    ++*files;
  }
  return bytes;
}

struct Filled {
  double seconds = 0, logical_bytes = 0, written_bytes = 0;
};

// In transactions of 256.
absl::Status Fill(cache::CacheStore* store, const Options& options, int artifacts, int tunings, Filled* filled) {
  const Clock::time_point start = Clock::now();
  const uint64_t before = BytesWritten();
  std::vector<cache::ForeignEntry> batch;
  const auto flush = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(cache::ImportReport report, store->Import(batch, true));
    if (report.rejected > 0) return absl::InternalError(report.findings[0]);
    batch.clear();
    return absl::OkStatus();
  };
  const auto add = [&](const char* family, std::string key, std::string payload) -> absl::Status {
    filled->logical_bytes += key.size() + payload.size();
    batch.push_back({family, std::move(key), std::move(payload)});
    return batch.size() < 256 ? absl::OkStatus() : flush();
  };
  for (int i = 0; i < artifacts; ++i) {
    const cache::CompileKey key = KeyOf(i);
    RETURN_IF_ERROR(add("artifacts", key.hash, ArtifactOf(i, key, options.code_bytes).SerializeAsString()));
  }
  for (int i = 0; i < tunings; ++i) RETURN_IF_ERROR(add("tunings", TuningKeyOf(i), TuningOf(i).SerializeAsString()));
  RETURN_IF_ERROR(flush());
  filled->seconds = std::chrono::duration<double>(Clock::now() - start).count();
  filled->written_bytes = BytesWritten() - before;
  return absl::OkStatus();
}

// As Triton lays an entry out: a directory by hash with the binary, its metadata, and a group file that names both.
std::string EntryDirectory(const std::string& root, const cache::CompileKey& key) { return absl::StrCat(root, "/", key.hex()); }

void WriteTritonEntry(const std::string& root, int number, int code_bytes) {
  const std::string directory = EntryDirectory(root, KeyOf(number));
  fs::create_directories(directory);
  std::ofstream(directory + "/k.cubin", std::ios::binary) << CodeOf(number, code_bytes);
  nlohmann::json metadata = {{"name", absl::StrCat("kernel_", number / 8)}, {"hash", KeyOf(number).hex()}, {"shared", 0}, {"num_warps", 4},
                             {"num_ctas", 1}, {"num_stages", 3}, {"cluster_dims", {1, 1, 1}}, {"maxnreg", nullptr}, {"tmem_size", 0},
                             {"global_scratch_size", 0}, {"global_scratch_align", 1}, {"profile_scratch_size", 0}, {"profile_scratch_align", 1},
                             {"launch_pdl", false}, {"launch_cooperative_grid", false}, {"enable_fp_fusion", true}, {"debug", false},
                             {"backend_name", "cuda"}, {"sanitize_overflow", true}, {"arch", "sm90"}, {"triton_version", "3.6.0"},
                             {"target", {{"backend", "cuda"}, {"arch", 90}, {"warp_size", 32}}}};
  std::ofstream(directory + "/k.json") << metadata.dump();
  nlohmann::json group = {{"child_paths", {{"k.cubin", directory + "/k.cubin"}, {"k.json", directory + "/k.json"}}}};
  std::ofstream(directory + "/__grp__k.json") << group.dump();
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// What Triton's FileCacheManager and CompiledKernel do, without Python.
bool ReadTritonEntry(const std::string& root, int number, int code_bytes) {
  const std::string group_path = EntryDirectory(root, KeyOf(number)) + "/__grp__k.json";
  if (!fs::exists(group_path)) return false;
  const nlohmann::json group = nlohmann::json::parse(ReadAll(group_path));
  std::map<std::string, std::string> paths;
  for (const auto& [name, path] : group["child_paths"].items()) {
    if (fs::exists(path.get<std::string>())) paths[name] = path;
  }
  const nlohmann::json metadata = nlohmann::json::parse(ReadAll(paths["k.json"]));
  return metadata["num_warps"] == 4 && ReadAll(paths["k.cubin"]).size() == static_cast<size_t>(code_bytes);
}

void ReadIntoPageCache(const std::string& directory) {
  std::string buffer(1 << 20, '\0');
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    while (file.read(&buffer[0], static_cast<std::streamsize>(buffer.size()))) {
    }
  }
}

struct Latency {
  std::vector<double> p50, p99;  // microseconds, of each round
  double P50() const { return Quantile(p50, 0.5); }
  double P99() const { return Quantile(p99, 0.5); }
};

// One round: `lookup` gets a random number below `entries`.
absl::Status Round(const Options& options, int entries, uint32_t seed, const std::function<bool(int)>& lookup, Latency* latency) {
  std::mt19937 random(seed);
  std::vector<double> micros;
  for (int i = 0; i < options.lookups; ++i) {
    const int number = static_cast<int>(random() % entries);
    const Clock::time_point start = Clock::now();
    const bool hit = lookup(number);
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (!hit) return absl::InternalError(absl::StrCat("entry ", number, " was no hit"));
  }
  latency->p50.push_back(Quantile(micros, 0.5));
  latency->p99.push_back(Quantile(micros, 0.99));
  return absl::OkStatus();
}

// The keys are made before the clock starts: a daemon has them.
struct Keys {
  explicit Keys(int count) {
    for (int i = 0; i < count; ++i) keys.push_back(KeyOf(i));
  }
  std::vector<cache::CompileKey> keys;
};

std::function<bool(int)> Lookup(cache::CacheStore* store, const Keys& keys, const Options& options) {
  return [store, &keys, &options](int number) {
    const auto found = store->FindArtifact(keys.keys[number]);
    return found.ok() && found->found() && found->record.artifact().code().size() == static_cast<size_t>(options.code_bytes);
  };
}

// Triton's own cache on the same files, in Python. Empty: it cannot be run.
std::vector<double> TritonRound(const Options& options, const std::string& root, uint32_t seed) {
  const std::string command = absl::StrCat("TRITON_CACHE_DIR=", root, " ", options.triton_python, " tests/bench/triton_cache.py ", root, " ",
                                           options.lookups, " ", seed);
  std::vector<double> quantiles;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    double p50 = 0, p99 = 0;
    if (std::fscanf(pipe, "%lf %lf", &p50, &p99) == 2) quantiles = {p50, p99};
    pclose(pipe);
  }
  return quantiles;
}

void Print(const char* name, const Latency& latency, const Latency& yardstick) {
  std::printf("%-44s %9.1f %9.1f %12.2f %12.2f\n", name, latency.P50(), latency.P99(), latency.P50() / yardstick.P50(), latency.P99() / yardstick.P99());
}

absl::Status Run(const Options& options) {
  const std::string root = options.directory.empty() ? "/tmp/tessera_cache_benchmark" : options.directory;
  const bool reused = options.keep != 0 && fs::exists(root + "/few");
  if (!reused) fs::remove_all(root);
  fs::create_directories(root);
  const Keys keys(options.artifacts);

  ASSIGN_OR_RETURN(std::unique_ptr<cache::CacheStore> store, cache::OpenRocksdbStore(root + "/store"));
  Filled filled;
  if (!reused) RETURN_IF_ERROR(Fill(store.get(), options, options.artifacts, options.tunings, &filled));

  const std::string files = root + "/files";
  const Clock::time_point start = Clock::now();
  const int triton_entries = std::min(options.artifacts, options.files);
  for (int i = 0; !reused && i < triton_entries; ++i) WriteTritonEntry(files, i, options.code_bytes);
  const double files_seconds = std::chrono::duration<double>(Clock::now() - start).count();

  ASSIGN_OR_RETURN(std::unique_ptr<cache::CacheStore> behind, cache::OpenRocksdbStore(root + "/few"));
  const int few_entries = std::min(options.artifacts, 1000);
  Filled few_filled;
  if (!reused) RETURN_IF_ERROR(Fill(behind.get(), options, few_entries, 0, &few_filled));
  cache::CacheStore* const few_store = behind.get();
  std::unique_ptr<cache::CacheStore> hot = cache::NewHotEntriesStore(std::move(behind));

  Latency memory, rocksdb, few, tunings, as_triton, triton;
  const auto tuning = [&](int number) {
    const auto found = store->FindTuning(TuningKeyOf(number));
    return found.ok() && found->found() && found->record.trials_size() == 3;
  };
  ReadIntoPageCache(root);
  for (int round = -1; round < options.rounds; ++round) {
    if (round == 0) memory = rocksdb = few = tunings = as_triton = triton = Latency();  // the first was to warm up
    const uint32_t seed = static_cast<uint32_t>(100 + round);
    RETURN_IF_ERROR(Round(options, few_entries, seed, Lookup(hot.get(), keys, options), &memory));
    RETURN_IF_ERROR(Round(options, few_entries, seed, Lookup(few_store, keys, options), &few));
    RETURN_IF_ERROR(Round(options, options.artifacts, seed, Lookup(store.get(), keys, options), &rocksdb));
    if (options.tunings > 0) RETURN_IF_ERROR(Round(options, options.tunings, seed, tuning, &tunings));
    RETURN_IF_ERROR(Round(options, triton_entries, seed,
                          [&](int number) { return ReadTritonEntry(files, number, options.code_bytes); }, &as_triton));
    if (options.triton_python.empty()) continue;
    const std::vector<double> quantiles = TritonRound(options, files, seed);
    if (quantiles.size() != 2) return absl::FailedPreconditionError(options.triton_python + " does not run tests/bench/triton_cache.py");
    triton.p50.push_back(quantiles[0]);
    triton.p99.push_back(quantiles[1]);
  }

  const Latency& yardstick = triton.p50.empty() ? as_triton : triton;
  std::printf("%d artifacts of %d bytes of code, %d tunings; %d rounds of %d lookups of random entries\n", options.artifacts, options.code_bytes,
              options.tunings, options.rounds, options.lookups);
  std::printf("%-44s %9s %9s %12s %12s\n", "hit", "p50 us", "p99 us", "p50 / Triton", "p99 / Triton");
  Print("memory", memory, yardstick);
  Print("RocksDB", rocksdb, yardstick);
  if (!tunings.p50.empty()) Print("RocksDB, a tuning", tunings, yardstick);
  Print("files as Triton's cache, read in C++", as_triton, yardstick);
  if (!triton.p50.empty()) Print("Triton's cache (Python)", triton, yardstick);
  std::printf("RocksDB with %d entries: p50 %.1f us, p99 %.1f us; growth to %d: %.2f x p50, %.2f x p99 (goal: below 2)\n", few_entries, few.P50(), few.P99(),
              options.artifacts, rocksdb.P50() / few.P50(), rocksdb.P99() / few.P99());
  store.reset();
  hot.reset();
  uint64_t store_files = 0, triton_files = 0;
  const uint64_t store_bytes = BytesBelow(root + "/store", &store_files), triton_bytes = BytesBelow(files, &triton_files);
  if (!reused) std::printf("store: %.0f MiB of keys and values, %.0f MiB on disk in %llu files; filled in %.1f s\n", filled.logical_bytes / 1048576,
              store_bytes / 1048576.0, static_cast<unsigned long long>(store_files), filled.seconds);
  std::printf("Triton's: %d entries, %.0f MiB on disk in %llu files and directories; filled in %.1f s\n", triton_entries, triton_bytes / 1048576.0,
              static_cast<unsigned long long>(triton_files), files_seconds);
  if (!reused) std::printf("write amplification: %.2f bytes written for each byte stored\n", filled.written_bytes / filled.logical_bytes);
  std::fflush(stdout);
  if (options.keep == 0) fs::remove_all(root);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::Options options;
  const std::map<std::string, int*> numbers = {{"--artifacts", &options.artifacts}, {"--tunings", &options.tunings}, {"--lookups", &options.lookups},
                                               {"--rounds", &options.rounds}, {"--code-bytes", &options.code_bytes}, {"--files", &options.files}, {"--keep", &options.keep}};
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> word = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    const auto number = numbers.find(word.first);
    if (number != numbers.end() && absl::SimpleAtoi(word.second, number->second)) continue;
    if (word.first == "--directory") options.directory = word.second;
    else if (word.first == "--triton-python") options.triton_python = word.second;
    else return std::fprintf(stderr, "cache_benchmark: '%s' is not understood\n", argv[i]), 2;
  }
  const absl::Status status = tessera::Run(options);
  if (!status.ok()) std::fprintf(stderr, "cache_benchmark: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
