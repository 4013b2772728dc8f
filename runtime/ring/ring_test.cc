#include "runtime/ring/ring.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/memory/shared_memory.h"

namespace tessera::runtime {
namespace {

constexpr uint64_t kPollNs = 5000;

std::shared_ptr<RingMemory> MakeRing(uint32_t capacity) {
  auto memory = RingMemory::Create(capacity);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *memory;
}

// A record whose contents follow from its number, of a length that varies.
std::string RecordOf(uint32_t number, uint32_t max_bytes) {
  std::string record(number * 2654435761u % (max_bytes + 1), '\0');
  for (size_t i = 0; i < record.size(); ++i) record[i] = static_cast<char>(number + i * 7);
  return record;
}

void ReadAndCheck(RingConsumer* consumer, uint32_t count, uint32_t max_bytes) {
  const std::atomic<bool> stop{false};
  std::string record;
  for (uint32_t number = 0; number < count;) {
    const auto read = consumer->TryRead(&record);
    ASSERT_TRUE(read.ok()) << read.status();
    if (!*read) {
      consumer->Wait(kPollNs, stop);
      continue;
    }
    ASSERT_EQ(record, RecordOf(number, max_bytes)) << "record " << number;
    ++number;
  }
}

TEST(RingTest, DeliversRecordsInOrderAcrossTheWrap) {
  auto memory = MakeRing(4096);
  RingProducer producer(memory);
  RingConsumer consumer(memory);
  std::string record;
  for (uint32_t number = 0; number < 10000; ++number) {
    const std::string written = RecordOf(number, 1000);
    const absl::string_view view = written;
    ASSERT_TRUE(
        producer.TryWrite({view.substr(0, view.size() / 3), view.substr(view.size() / 3)}).ok());
    ASSERT_TRUE(*consumer.TryRead(&record));
    ASSERT_EQ(record, written);
    ASSERT_FALSE(*consumer.TryRead(&record));
  }
}

TEST(RingTest, SaysFullAndGoesOnWhenRoomIsMade) {
  auto memory = MakeRing(4096);
  RingProducer producer(memory);
  RingConsumer consumer(memory);
  const std::string record(504, 'x');
  int written = 0;
  while (producer.TryWrite({record}).ok()) ++written;
  EXPECT_EQ(written, 8);
  EXPECT_EQ(producer.TryWrite({record}).code(), absl::StatusCode::kResourceExhausted);
  std::string read;
  ASSERT_TRUE(*consumer.TryRead(&read));
  EXPECT_TRUE(producer.TryWrite({record}).ok());
}

TEST(RingTest, RefusesRecordsThatNeverFit) {
  auto memory = MakeRing(4096);
  RingProducer producer(memory);
  EXPECT_EQ(producer.TryWrite({std::string(2049, 'x')}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(producer.TryWrite({std::string(2048, 'x')}).ok());
}

TEST(RingTest, WaitingWriterAndReaderWakeEachOther) {
  auto memory = MakeRing(4096);
  RingProducer producer(memory);
  RingConsumer consumer(memory);
  constexpr uint32_t kCount = 50000;
  std::thread writer([&] {
    const std::atomic<bool> stop{false};
    for (uint32_t number = 0; number < kCount; ++number) {
      ASSERT_TRUE(producer.Write({RecordOf(number, 900)}, stop).ok());
    }
  });
  ReadAndCheck(&consumer, kCount, 900);
  writer.join();
}

TEST(RingTest, WorksBetweenProcesses) {
  auto memory = MakeRing(4096);
  constexpr uint32_t kCount = 20000;
  const pid_t child = fork();
  if (child == 0) {
    auto attached = RingMemory::Attach(UniqueFd::Duplicate(memory->fd()));
    if (!attached.ok()) _exit(1);
    RingProducer producer(*attached);
    const std::atomic<bool> stop{false};
    for (uint32_t number = 0; number < kCount; ++number) {
      if (!producer.Write({RecordOf(number, 700)}, stop).ok()) _exit(2);
    }
    _exit(0);
  }
  RingConsumer consumer(memory);
  ReadAndCheck(&consumer, kCount, 700);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(RingTest, WriterThatWaitsForRoomCanBeStopped) {
  auto memory = MakeRing(4096);
  RingProducer producer(memory);
  const std::string record(2040, 'x');
  while (producer.TryWrite({record}).ok()) {
  }
  std::atomic<bool> stop{false};
  std::thread stopper([&] { stop.store(true); });
  EXPECT_EQ(producer.Write({record}, stop).code(), absl::StatusCode::kCancelled);
  stopper.join();
}

TEST(RingTest, InterruptEndsAWait) {
  auto memory = MakeRing(4096);
  RingConsumer consumer(memory);
  std::atomic<bool> stop{false};
  std::thread waiter([&] {
    while (!stop.load()) consumer.Wait(0, stop);
  });
  stop.store(true);
  consumer.Interrupt();
  waiter.join();
}

// One reader sleeps, another polls in its place for a while: nothing is lost, nothing is read
// twice.
TEST(RingTest, PollingReaderStandsInForASleepingOne) {
  auto memory = MakeRing(1 << 16);
  RingProducer producer(memory);
  RingConsumer consumer(memory);
  constexpr uint32_t kCount = 20000;
  std::atomic<bool> stop{false};
  std::mutex reader_mutex;
  std::vector<int> seen(kCount, 0);
  std::atomic<uint32_t> total{0};
  auto take = [&] {
    std::lock_guard<std::mutex> lock(reader_mutex);
    std::string record;
    while (*consumer.TryRead(&record)) {
      uint32_t number;
      std::memcpy(&number, record.data(), sizeof(number));
      ++seen[number];
      ++total;
    }
  };
  std::thread sleeper([&] {
    while (!stop.load()) {
      take();
      consumer.Wait(0, stop);
    }
  });
  std::thread writer([&] {
    for (uint32_t number = 0; number < kCount; ++number) {
      const absl::string_view bytes(reinterpret_cast<const char*>(&number), sizeof(number));
      while (!producer.TryWrite({bytes}).ok()) std::this_thread::yield();
      producer.Notify();
      if (number % 64 == 0) std::this_thread::yield();
    }
  });
  int polled = 0;
  while (total.load() < kCount) {
    if (!consumer.BeginPolling()) continue;
    ++polled;
    take();
    consumer.EndPolling(false);
  }
  writer.join();
  stop.store(true);
  consumer.Interrupt();
  sleeper.join();
  EXPECT_EQ(seen, std::vector<int>(kCount, 1));
  EXPECT_GT(polled, 0);
}

TEST(RingTest, DetectsCountersThatCannotBe) {
  auto memory = MakeRing(4096);
  RingConsumer consumer(memory);
  std::string record;
  for (uint64_t written : {uint64_t{4}, uint64_t{4104}, ~uint64_t{0}}) {
    memory->header()->written.store(written);
    EXPECT_EQ(consumer.TryRead(&record).status().code(), absl::StatusCode::kDataLoss) << written;
  }
  RingProducer producer(memory);
  memory->header()->read.store(8);
  EXPECT_EQ(producer.TryWrite({"x"}).code(), absl::StatusCode::kDataLoss);
}

// Whatever lies in the ring, the consumer neither crashes nor hands out more than the ring holds.
TEST(RingTest, SurvivesGarbage) {
  std::mt19937_64 random(7);
  int lost = 0;
  for (int round = 0; round < 3000; ++round) {
    auto memory = MakeRing(4096);
    RingProducer producer(memory);
    RingConsumer consumer(memory);
    std::string record;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(producer.TryWrite({RecordOf(round + i, 300)}).ok());
    for (int i = 0; i < 4; ++i) {
      const uint64_t bits = random();
      std::memcpy(memory->data() + random() % 128 * 8, &bits, sizeof(bits));
    }
    if (random() % 4 == 0) memory->header()->written.store(random() % 8192);
    for (;;) {
      const auto read = consumer.TryRead(&record);
      lost += !read.ok();
      if (!read.ok() || !*read) break;
      ASSERT_LE(record.size(), 4096u);
    }
  }
  EXPECT_GT(lost, 300);
}

TEST(RingTest, AttachRefusesWhatIsNoRing) {
  EXPECT_EQ(RingMemory::Attach(*CreateSealedMemory("zeros", 8192)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RingMemory::Attach(*CreateSealedMemory("odd", 10000)).status().code(),
            absl::StatusCode::kInvalidArgument);
  UniqueFd shrinkable(memfd_create("shrinkable", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(shrinkable.get(), 8192), 0);
  EXPECT_EQ(RingMemory::Attach(std::move(shrinkable)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tessera::runtime
