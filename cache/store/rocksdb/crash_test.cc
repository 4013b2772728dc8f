// A process that stores entries is killed at random points; what it acknowledged is there afterwards, and whole.
//
// TESSERA_CRASH_ROUNDS sets the number of kills (default 20), TESSERA_CRASH_SEED the seed.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cache/store/conformance/temporary_directory.h"
#include "cache/store/conformance/test_records.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern char** environ;

namespace tessera::cache {
namespace {

std::string TuningName(uint64_t number) { return TuningKey("k", "m", absl::StrCat("M=", number % 7), "cpu"); }

// Sizes from a few bytes to 60 KiB, so that values lie in tables and in blob files.
storage::ArtifactRecord Artifact(uint64_t number) {
  return TestArtifact(absl::StrCat("k", number), number * 7919 % 61440);
}

// Stores entries from `first` on until it is killed, and prints each number once it was acknowledged.
int RunWriter(const std::string& directory, uint64_t first) {
  auto store = OpenRocksdbStore(directory);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t number = first + thread;; number += 3) {
        const std::string name = absl::StrCat("k", number);
        storage::TuningRecord tuning;
        tuning.set_measured_unix_seconds(number);
        if (!(*store)->PutArtifact(TestKey(name), Artifact(number)).ok()) std::_Exit(2);
        // Thread 0 alone overwrites tunings, so that their numbers only grow.
        if (thread == 0 && !(*store)->PutTuning(TuningName(number), tuning).ok()) std::_Exit(3);
        (*store)->AddUsage(TestKey(name), name, "m", 1, 1);
        const std::string line = absl::StrCat(number, "\n");
        if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// Runs a writer, kills it after `acknowledged` entries and `microseconds` more, and returns what it acknowledged.
std::vector<uint64_t> KillWriterAfter(const std::string& directory, uint64_t first, size_t acknowledged,
                                      int microseconds) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const std::string first_text = absl::StrCat(first);
  const char* arguments[] = {"crash_test", "--write", directory.c_str(), first_text.c_str(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, const_cast<char**>(arguments), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  std::string printed;
  char buffer[4096];
  const auto read_more = [&] {
    const ssize_t size = read(ends[0], buffer, sizeof(buffer));
    if (size > 0) printed.append(buffer, size);
    return size > 0;
  };
  while (static_cast<size_t>(std::count(printed.begin(), printed.end(), '\n')) < acknowledged && read_more()) {
  }
  // Where between two acknowledgements the kill strikes is the point of the test.
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the writer ended by itself: " << status;
  while (read_more()) {
  }
  close(ends[0]);
  std::vector<uint64_t> numbers;
  for (absl::string_view line : absl::StrSplit(printed.substr(0, printed.rfind('\n') + 1), '\n', absl::SkipEmpty())) {
    uint64_t number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(line, &number)) << line;
    numbers.push_back(number);
  }
  return numbers;
}

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = otherwise;
  if (text != nullptr) EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << name;
  return value;
}

TEST(RocksdbStoreCrash, KeepsWhatItAcknowledgedAndServesNothingDamaged) {
  const int rounds = FromEnvironment("TESSERA_CRASH_ROUNDS", 20);
  std::mt19937 random(FromEnvironment("TESSERA_CRASH_SEED", 1));
  TemporaryDirectory directory;
  std::vector<uint64_t> acknowledged;
  std::map<std::string, int64_t> tunings;  // the newest acknowledged number of each
  uint64_t first = 0;
  for (int round = 0; round < rounds; ++round) {
    // Also zero: killed while it opens or recovers.
    const auto now = KillWriterAfter(directory.path(), first, random() % 4 == 0 ? 0 : random() % 150, random() % 3000);
    for (uint64_t number : now) {
      acknowledged.push_back(number);
      if ((number - first) % 3 == 0) tunings[TuningName(number)] = number;
    }
    first += 1000000;

    std::vector<std::string> notes;
    RocksdbStoreOptions options;
    options.note = [&](absl::string_view note) { notes.emplace_back(note); };
    const auto store = OpenRocksdbStore(directory.path(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_EQ((*store)->Stats().state, "ok");
    // All of this round, and a sample of those before.
    std::vector<uint64_t> sample = now;
    for (int i = 0; i < 200 && !acknowledged.empty(); ++i) sample.push_back(acknowledged[random() % acknowledged.size()]);
    for (uint64_t number : sample) {
      const auto lookup = (*store)->FindArtifact(TestKey(absl::StrCat("k", number)));
      ASSERT_TRUE(lookup.ok()) << lookup.status();
      ASSERT_EQ(lookup->reason, MissReason::kFound) << "round " << round << ", entry " << number;
      ASSERT_EQ(lookup->record.artifact().code(), Artifact(number).artifact().code()) << number;
    }
    for (const auto& [name, number] : tunings) {
      const auto lookup = (*store)->FindTuning(name);
      ASSERT_TRUE(lookup.ok() && lookup->found()) << name;
      ASSERT_GE(lookup->record.measured_unix_seconds(), number) << name;
    }
    ASSERT_THAT(notes, ::testing::IsEmpty());
  }
  const auto store = OpenRocksdbStore(directory.path());
  ASSERT_TRUE(store.ok());
  uint64_t checked = 0;
  EXPECT_THAT(*(*store)->Verify(&checked), ::testing::IsEmpty());
  EXPECT_GE(checked, acknowledged.size());
  EXPECT_GT(acknowledged.size(), static_cast<size_t>(rounds));
  std::printf("%d kills, %zu acknowledged entries, %zu checked\n", rounds, acknowledged.size(),
              static_cast<size_t>(checked));
}

}  // namespace
}  // namespace tessera::cache

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--write") == 0) {
    return tessera::cache::RunWriter(argv[2], std::strtoull(argv[3], nullptr, 10));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
