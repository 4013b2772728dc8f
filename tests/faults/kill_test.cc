// Kill -9 of the daemon, of a compiler worker or of an executor at random points while it compiles and stores: it
// always restarts, never serves a damaged artifact, what was acknowledged is a hit, nothing is left behind.
//
// KILL_ROUNDS (default 12) sets the number of kills.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

constexpr char kPlus[] = R"py(
import triton
import triton.language as tl


@triton.jit
def plus(x_ptr, out_ptr, n, C: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    tl.store(out_ptr + i, tl.where(x > 100.0, tl.exp(x), x) + C, mask=inside)
)py";

// Processes started by a daemon on this state directory that outlived it, as "pid command".
std::vector<std::string> Orphans(const std::string& binary) {
  std::vector<std::string> orphans;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::string command((std::istreambuf_iterator<char>(file)), {});
    if (command.find("--role=") == std::string::npos) continue;
    std::ifstream status(entry.path() / "status");
    std::string line, parent, state;
    while (std::getline(status, line)) {
      if (line.rfind("PPid:", 0) == 0) parent = line.substr(6);
      if (line.rfind("State:", 0) == 0) state = line.substr(7);
    }
    std::error_code error;
    std::filesystem::path exe = std::filesystem::read_symlink(entry.path() / "exe", error);
    bool ours = !error && exe == std::filesystem::canonical(binary);
    bool parent_is_daemon = std::filesystem::read_symlink("/proc/" + parent + "/exe", error) == exe;
    if (ours && !parent_is_daemon && state[0] != 'Z') orphans.push_back(pid + " " + command);
  }
  return orphans;
}

std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

class KillTest : public DaemonFixture {
 protected:
  // Launches plus-C; OK and right, or an error. `outcome` receives hit, compiled or coalesced.
  static absl::Status LaunchPlus(Client& client, const std::string& module, int c, std::string* outcome) {
    auto buffer = client.Allocate(8192);
    if (!buffer.ok()) return buffer.status();
    float* x = (*buffer)->as<float>();
    for (int i = 0; i < 1000; ++i) x[i] = i % 50;
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("plus");
    launch.add_grid(8);
    *launch.add_arguments() = TensorArgument("x_ptr", **buffer, DType::kFp32, {1000});
    *launch.add_arguments() = TensorArgument("out_ptr", **buffer, DType::kFp32, {1000}, 4096);
    *launch.add_arguments() = IntArgument("n", 1000);
    *launch.add_arguments() = ConstexprArgument("C", IntConstant(c));
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(128));
    auto response = client.Launch(launch, absl::Seconds(60));
    if (!response.ok()) return response.status();
    *outcome = response->outcome();
    for (int i = 0; i < 1000; ++i)
      if (x[1024 + i] != i % 50 + c) return absl::DataLossError(absl::StrCat("wrong result for C=", c, " at ", i));
    return absl::OkStatus();
  }

  // Compiles ever new variants until told to stop, or until the daemon dies; acknowledged ones go into `done`.
  static void Load(const std::string& address, const std::string& module, std::atomic<int>* next, std::atomic<bool>* stop, std::mutex* mutex,
                   std::set<int>* done, std::string* wrong) {
    auto client = Client::Connect(address);
    while (client.ok() && !*stop) {
      int c = (*next)++;
      std::string outcome;
      absl::Status status = LaunchPlus(**client, module, c, &outcome);
      std::lock_guard<std::mutex> lock(*mutex);
      if (status.ok()) done->insert(c);
      if (absl::IsDataLoss(status)) *wrong = std::string(status.message());
    }
  }
};

TEST_F(KillTest, NothingAcknowledgedIsLost) {
  const char* rounds_text = std::getenv("KILL_ROUNDS");
  const int rounds = rounds_text ? std::atoi(rounds_text) : 12;
  std::string state = std::string(std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp") + "/kill_state";
  std::filesystem::remove_all(state);
  const std::set<std::string> shm_before = SharedMemoryFiles();
  std::mt19937 random(std::random_device{}());
  std::mutex mutex;
  std::set<int> done;
  std::string wrong;
  std::atomic<int> next{1};
  std::map<std::string, int> kills;
  StartDaemon(state);
  for (int round = 0; round < rounds; ++round) {
    std::string module = RegisterText(kPlus);
    ASSERT_FALSE(module.empty());
    std::atomic<bool> stop{false};
    std::vector<std::thread> load;
    for (int t = 0; t < 2; ++t) load.emplace_back(Load, daemon_->address(), module, &next, &stop, &mutex, &done, &wrong);
    // The moment is random on purpose; the result must hold whatever it is.
    absl::SleepFor(absl::Milliseconds(std::uniform_int_distribution<int>(0, 200)(random)));
    v1::GetStatusResponse status = Status();
    int victim = round % 3;
    bool daemon_killed = victim == 0;
    if (daemon_killed) {
      ++kills["daemon"];
      daemon_->Kill();
    } else if (victim == 1) {
      const int first = static_cast<int>(random() % std::max(status.workers_size(), 1));
      for (int i = 0; i < status.workers_size(); ++i) {
        if (!KillProcess(status.workers((first + i) % status.workers_size()).pid())) continue;
        ++kills["worker"];
        break;
      }
    } else {
      ASSERT_GT(status.devices_size(), 0);
      for (const auto& device : status.devices()) {
        if (!KillProcess(device.executor_pid())) continue;
        ++kills["executor"];
        break;
      }
    }
    if (!daemon_killed) absl::SleepFor(absl::Milliseconds(50));
    stop = true;
    for (std::thread& thread : load) thread.join();
    if (daemon_killed) {
      absl::Time deadline = absl::Now() + absl::Seconds(5);
      while (!Orphans(Runfile("server/tesserad")).empty() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
      EXPECT_TRUE(Orphans(Runfile("server/tesserad")).empty()) << Orphans(Runfile("server/tesserad"))[0];
      StartDaemon(state);
      module = RegisterText(kPlus);
    }
    // An executor may still be starting again: a launch that arrives then fails with UNAVAILABLE or waits.
    std::string outcome;
    absl::Status after;
    for (int attempt = 0; attempt < 100; ++attempt) {
      after = LaunchPlus(*client_, module, next++, &outcome);
      if (after.code() != absl::StatusCode::kUnavailable) break;
      absl::SleepFor(absl::Milliseconds(20));
    }
    ASSERT_TRUE(after.ok()) << "round " << round << ": " << after;
    ASSERT_EQ(wrong, "");
    if (daemon_killed)
      for (int c : done) {
        ASSERT_TRUE(LaunchPlus(*client_, module, c, &outcome).ok()) << "C=" << c;
        ASSERT_EQ(outcome, "hit") << "C=" << c << " was acknowledged before the kill";
      }
  }
  EXPECT_GT(done.size(), static_cast<size_t>(rounds) / 3);
  client_.reset();
  daemon_.reset();
  EXPECT_TRUE(Orphans(Runfile("server/tesserad")).empty());
  EXPECT_EQ(SharedMemoryFiles(), shm_before);
  std::printf("%d kills of the daemon, %d of a worker, %d of an executor; %zu variants acknowledged\n", kills["daemon"], kills["worker"], kills["executor"], done.size());
}

TEST_F(KillTest, AClientThatDiesGivesItsMemoryBack) {
  StartDaemon();
  {
    auto other = Client::Connect(daemon_->address());
    ASSERT_TRUE(other.ok());
    auto buffer = (*other)->Allocate(1 << 20);
    ASSERT_TRUE(buffer.ok());
    EXPECT_GE(Status().mapped_bytes(), 1u << 20);
    // Neither released nor closed in order: the socket's EOF is all the daemon sees of a death.
    buffer->release();
  }
  absl::Time deadline = absl::Now() + absl::Seconds(5);
  while (Status().regions() > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(Status().regions(), 0u);
  EXPECT_EQ(Status().mapped_bytes(), 0u);
}

}  // namespace
}  // namespace tessera
