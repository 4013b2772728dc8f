// Kill -9 of the daemon, of compiler workers and of executors while it stores what it compiled, collects, imports a bundle
// and migrates a database of the previous schema: nothing acknowledged is lost, nothing damaged is served.
//
// CACHE_KILL_ROUNDS (default 8) sets the number of kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/bundle/bundle_format.h"
#include "cache/key/canonical_text.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "cache/store/rocksdb/schema_one.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

constexpr char kPlus[] = R"py(
import triton
import triton.language as tl


@triton.jit
def plus(x_ptr, out_ptr, n, C: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + C, mask=i < n)
)py";

// Artifacts that nobody will launch, for the budget to take: together more than it allows.
std::string Ballast(const std::string& build, int round) {
  cache::FrameWriter writer;
  std::string bundle = cache::BundleStart();
  std::mt19937 random(round);
  for (int i = 0; i < 100; ++i) {
    storage::CompileJob job;
    job.set_kernel(absl::StrCat("ballast", round, "_", i));
    job.set_target("cpu");
    const cache::CompileKey key = cache::MakeCompileKey(job, "def ballast", build);
    storage::ArtifactRecord record;
    record.set_format_version(1);
    record.set_key(key.canonical);
    record.mutable_artifact()->mutable_metadata()->set_kernel(job.kernel());
    std::string code(60000, '\0');
    for (char& byte : code) byte = static_cast<char>(random());
    record.mutable_artifact()->set_code(code);
    record.set_compile_seconds(1e-6);  // worth less than anything compiled here: budgets take these first
    bundle += writer.Frame(cache::FrameKind::kArtifact, key.hash, record.SerializeAsString());
  }
  return bundle + writer.End();
}

class CacheKillTest : public DaemonFixture {
 protected:
  static absl::Status LaunchPlus(Client& client, const std::string& module, int c, std::string* outcome) {
    auto buffer = client.Allocate(8192);
    if (!buffer.ok()) return buffer.status();
    float* x = (*buffer)->as<float>();
    for (int i = 0; i < 100; ++i) x[i] = static_cast<float>(i);
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("plus");
    launch.add_grid(1);
    *launch.add_arguments() = TensorArgument("x_ptr", **buffer, DType::kFp32, {100});
    *launch.add_arguments() = TensorArgument("out_ptr", **buffer, DType::kFp32, {100}, 4096);
    *launch.add_arguments() = IntArgument("n", 100);
    *launch.add_arguments() = ConstexprArgument("C", IntConstant(c));
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(128));
    auto response = client.Launch(launch, absl::Seconds(60));
    if (!response.ok()) return response.status();
    *outcome = response->outcome();
    for (int i = 0; i < 100; ++i)
      if (x[1024 + i] != static_cast<float>(i + c)) return absl::DataLossError(absl::StrCat("wrong result for C=", c));
    return absl::OkStatus();
  }

  // The three things that go on when the kill strikes; each ends with the daemon, or when told.
  void Compile(const std::string& module) {
    auto client = Client::Connect(address_);
    while (client.ok() && !stop_) {
      const int c = next_++;
      std::string outcome;
      const absl::Status status = LaunchPlus(**client, module, c, &outcome);
      std::lock_guard<std::mutex> lock(mutex_);
      if (status.ok()) acknowledged_.insert(c);
      if (absl::IsDataLoss(status)) wrong_ = std::string(status.message());
      if (!status.ok() && daemon_dies_) return;
    }
  }
  void Import(const std::string& bundle) {
    auto client = Client::Connect(address_);
    if (!client.ok()) return;
    grpc::ClientContext context;
    v1::CacheImportResponse response;
    auto writer = (*client)->cache().Import(&context, &response);
    for (size_t at = 0; at < bundle.size(); at += 256 << 10) {
      v1::CacheImportRequest piece;
      piece.set_data(bundle.substr(at, 256 << 10));
      if (!writer->Write(piece)) break;
    }
    writer->WritesDone();
    imports_ += writer->Finish().ok();
  }
  void CollectInALoop() {
    auto client = Client::Connect(address_);
    while (client.ok() && !stop_) {
      grpc::ClientContext context;
      v1::CacheCollectResponse response;
      if (!(*client)->cache().Collect(&context, {}, &response).ok()) return;
      evicted_ += response.entries();
    }
  }

  static void KillWhileStarting(const std::string& state, absl::Duration after) {
    const std::string binary = Runfile("server/tesserad"), state_flag = "--state-dir=" + state;
    const std::string listen_flag = absl::StrCat("--listen=unix:/tmp/tessera_kill_", getpid(), ".sock");
    const char* arguments[] = {binary.c_str(), state_flag.c_str(), listen_flag.c_str(), "--metrics=off", "--log-level=off", nullptr};
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, binary.c_str(), nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
    absl::SleepFor(after);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::filesystem::remove(absl::StrCat("/tmp/tessera_kill_", getpid(), ".sock"));
    std::filesystem::remove(absl::StrCat("/tmp/tessera_kill_", getpid(), ".sock.fd"));
  }

  // What lies in the state directory while no daemon runs.
  static void CheckStore(const std::string& state) {
    std::vector<std::string> notes;
    cache::RocksdbStoreOptions options;
    options.note = [&](absl::string_view note) { notes.emplace_back(note); };
    auto store = cache::OpenRocksdbStore(state, options);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_EQ((*store)->Stats().state, "ok");
    EXPECT_THAT(*(*store)->Verify(nullptr), ::testing::IsEmpty());
    EXPECT_EQ((*store)->List("artifacts", "", 100000)->size(), (*store)->List("inventory", "", 100000)->size());
    for (const std::string& note : notes) EXPECT_THAT(note, ::testing::HasSubstr("migrated"));
  }

  std::atomic<int> next_{1};
  std::atomic<bool> stop_{false}, daemon_dies_{false};
  std::atomic<uint64_t> evicted_{0}, imports_{0};
  std::mutex mutex_;
  std::set<int> acknowledged_;
  std::string wrong_;
};

TEST_F(CacheKillTest, NothingAcknowledgedIsLostWhateverTheCacheWasDoing) {
  const char* rounds_text = std::getenv("CACHE_KILL_ROUNDS");
  const int rounds = rounds_text ? std::atoi(rounds_text) : 8;
  const std::string state = std::string(std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp") + "/cache_kill_state";
  std::filesystem::remove_all(state);
  // Room for all that may be acknowledged (a few variants of 5 KiB a round, more on a fast machine), and too little for the
  // bundles beside it: what is evicted is theirs.
  const std::vector<std::string> flags = {absl::StrCat("--cache-bytes=", 8 * 1024 + rounds * 128, "KiB"),
                                          "--cache-entries-per-kernel=0"};
  std::mt19937 random(std::random_device{}());
  std::map<std::string, int> kills;
  StartDaemon(state, flags);
  const std::string build = Status().compiler_build();
  for (int round = 0; round < rounds; ++round) {
    const std::string module = RegisterText(kPlus);
    ASSERT_FALSE(module.empty());
    const std::string bundle = Ballast(build, round);
    const int victim = round % 5;  // three times the daemon, a worker, an executor
    daemon_dies_ = victim < 3;
    stop_ = false;
    std::vector<std::thread> load;
    load.emplace_back([&] { Compile(module); });
    load.emplace_back([&] { Import(bundle); });
    load.emplace_back([&] { CollectInALoop(); });
    // The moment is random on purpose; the result must hold whatever it is.
    absl::SleepFor(absl::Milliseconds(std::uniform_int_distribution<int>(0, 400)(random)));
    if (daemon_dies_) {
      ++kills["daemon"];
      daemon_->Kill();
    } else {
      const v1::GetStatusResponse status = Status();
      if (victim == 3) {
        for (const auto& worker : status.workers()) {
          if (!KillProcess(worker.pid())) continue;
          ++kills["worker"];
          break;
        }
      } else {
        for (const auto& device : status.devices()) {
          if (!KillProcess(device.executor_pid())) continue;
          ++kills["executor"];
          break;
        }
      }
      absl::SleepFor(absl::Milliseconds(50));
    }
    stop_ = true;
    for (std::thread& thread : load) thread.join();
    ASSERT_EQ(wrong_, "");
    if (!daemon_dies_) continue;
    client_.reset();
    daemon_.reset();
    ASSERT_NO_FATAL_FAILURE(CheckStore(state));
    if (victim == 1) {
      // As after an upgrade: the database is of the previous schema, and the daemon is killed while it migrates.
      cache::MakeSchemaOne(state);
      KillWhileStarting(state, absl::Milliseconds(std::uniform_int_distribution<int>(0, 200)(random)));
      ++kills["daemon while it starts on the previous schema"];
    }
    StartDaemon(state, flags);
    const std::string again = RegisterText(kPlus);
    std::vector<int> sample(acknowledged_.begin(), acknowledged_.end());
    std::shuffle(sample.begin(), sample.end(), random);
    sample.resize(std::min<size_t>(sample.size(), 40));
    for (int c : sample) {
      std::string outcome;
      const absl::Status status = LaunchPlus(*client_, again, c, &outcome);
      ASSERT_TRUE(status.ok()) << "C=" << c << ": " << status;
      ASSERT_EQ(outcome, "hit") << "C=" << c << " was acknowledged before the kill, in round " << round;
    }
  }
  client_.reset();
  daemon_.reset();
  ASSERT_NO_FATAL_FAILURE(CheckStore(state));
  // All of them, once.
  StartDaemon(state, flags);
  const std::string module = RegisterText(kPlus);
  for (int c : acknowledged_) {
    std::string outcome;
    ASSERT_TRUE(LaunchPlus(*client_, module, c, &outcome).ok()) << c;
    ASSERT_EQ(outcome, "hit") << "C=" << c;
  }
  for (const auto& [whom, count] : kills) std::printf("%d kills of the %s; ", count, whom.c_str());
  std::printf("%zu variants acknowledged, %llu entries evicted, %llu bundles imported\n", acknowledged_.size(),
              static_cast<unsigned long long>(evicted_), static_cast<unsigned long long>(imports_));
  EXPECT_GT(acknowledged_.size(), static_cast<size_t>(rounds) / 3);
}

}  // namespace
}  // namespace tessera
