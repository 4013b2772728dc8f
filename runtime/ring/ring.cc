#include "runtime/ring/ring.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/memory/system_status.h"
#include "runtime/ring/futex.h"

namespace tessera::runtime {
namespace {

constexpr uint64_t kMagic = 0x31676e6972737400;  // "\0tsring1"
constexpr uint32_t kHeaderBytes = 4096;  // a page, so that the data can be looked at on its own
constexpr uint32_t kMinCapacity = 4096;
constexpr uint32_t kMaxCapacity = 1u << 30;
constexpr uint64_t kWakeUpNs = RingConsumer::kWakeUpNs;

// Values of Header::consumer_state.
enum ConsumerState : uint32_t {
  kAwake = 0,     // reads, and will look at the ring again before it sleeps
  kSleeping = 1,  // must be woken
  kPolled = 2,    // a second reader polls in its place: no wake-up wanted
  kDozing = 3,  // polls, about to sleep: no wake-up needed, and a second reader may take its place
};

// Stands before each record, at a multiple of 8.
struct RecordHeader {
  uint32_t bytes;
  uint32_t check;  // tells a record from garbage; not a checksum of the contents
};

uint32_t CheckOf(uint32_t bytes, uint64_t position) {
  return bytes * 0x9E3779B1u ^ static_cast<uint32_t>(position >> 3) * 0x85EBCA6Bu ^ 0x7E55E6A1u;
}

uint64_t SpaceOf(uint64_t bytes) { return sizeof(RecordHeader) + (bytes + 7) / 8 * 8; }

void CopyIn(char* data, uint32_t capacity, uint64_t position, absl::string_view bytes) {
  const uint32_t start = static_cast<uint32_t>(position) & (capacity - 1);
  const size_t first = std::min<size_t>(bytes.size(), capacity - start);
  std::memcpy(data + start, bytes.data(), first);
  std::memcpy(data, bytes.data() + first, bytes.size() - first);
}

void CopyOut(const char* data, uint32_t capacity, uint64_t position, char* to, size_t bytes) {
  const uint32_t start = static_cast<uint32_t>(position) & (capacity - 1);
  const size_t first = std::min<size_t>(bytes, capacity - start);
  std::memcpy(to, data + start, first);
  std::memcpy(to + first, data, bytes - first);
}

}  // namespace

char* RingMemory::data() const { return reinterpret_cast<char*>(header_) + kHeaderBytes; }

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::Map(UniqueFd fd, uint32_t capacity) {
  static_assert(sizeof(Header) <= kHeaderBytes, "the ring's header has one page");
  void* mapped = mmap(nullptr, uint64_t{kHeaderBytes} + capacity, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return SystemStatus(errno, "mapping a ring");
  return std::shared_ptr<RingMemory>(
      new RingMemory(std::move(fd), static_cast<Header*>(mapped), capacity));
}

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::Create(uint32_t capacity) {
  if (capacity > kMaxCapacity)
    return absl::InvalidArgumentError(absl::StrCat("a ring of ", capacity, " bytes is too large"));
  uint32_t rounded = kMinCapacity;
  while (rounded < capacity) rounded *= 2;
  ASSIGN_OR_RETURN(UniqueFd fd,
                   CreateSealedMemory("tessera-ring", uint64_t{kHeaderBytes} + rounded));
  ASSIGN_OR_RETURN(std::shared_ptr<RingMemory> memory, Map(std::move(fd), rounded));
  memory->header_->magic = kMagic;
  memory->header_->capacity = rounded;
  return memory;
}

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::Attach(UniqueFd fd) {
  ASSIGN_OR_RETURN(const uint64_t bytes, AdmitMemfd(fd.get()));
  const uint64_t capacity = bytes < kHeaderBytes ? 0 : bytes - kHeaderBytes;
  if (capacity < kMinCapacity || capacity > kMaxCapacity || (capacity & (capacity - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("memory of ", bytes, " bytes is no ring"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<RingMemory> memory,
                   Map(std::move(fd), static_cast<uint32_t>(capacity)));
  if (memory->header_->magic != kMagic || memory->header_->capacity != capacity) {
    return absl::InvalidArgumentError("the memory does not begin with a ring's header");
  }
  return memory;
}

RingMemory::~RingMemory() { munmap(header_, uint64_t{kHeaderBytes} + capacity_); }

absl::Status RingProducer::TryWrite(absl::Span<const absl::string_view> parts) {
  uint64_t bytes = 0;
  for (absl::string_view part : parts) bytes += part.size();
  if (bytes > max_record_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("a record of ", bytes,
                                                   " bytes is longer than the ", max_record_bytes(),
                                                   " that fit the ring"));
  }
  RingMemory::Header* header = memory_->header();
  const uint64_t used = written_ - header->read.load(std::memory_order_acquire);
  if (used > memory_->capacity())
    return absl::DataLossError("the ring is damaged: its reader is ahead of its writer");
  const uint64_t space = SpaceOf(bytes);
  if (space > memory_->capacity() - used) return absl::ResourceExhaustedError("the ring is full");

  const RecordHeader record = {static_cast<uint32_t>(bytes),
                               CheckOf(static_cast<uint32_t>(bytes), written_)};
  char* data = memory_->data();
  CopyIn(data, memory_->capacity(), written_,
         {reinterpret_cast<const char*>(&record), sizeof(record)});
  uint64_t position = written_ + sizeof(record);
  for (absl::string_view part : parts) {
    CopyIn(data, memory_->capacity(), position, part);
    position += part.size();
  }
  written_ += space;
  // Sequentially consistent with the consumer's store of kSleeping: one of the two sees the other.
  header->written.store(written_, std::memory_order_seq_cst);
  return absl::OkStatus();
}

void RingProducer::Notify() {
  std::atomic<uint32_t>& state = memory_->header()->consumer_state;
  uint32_t expected = kSleeping;
  if (state.load(std::memory_order_seq_cst) == kSleeping &&
      state.compare_exchange_strong(expected, kAwake, std::memory_order_seq_cst)) {
    FutexWake(&state);
  }
}

absl::Status RingProducer::Write(absl::Span<const absl::string_view> parts,
                                 const std::atomic<bool>& stop) {
  RingMemory::Header* header = memory_->header();
  for (;;) {
    absl::Status status = TryWrite(parts);
    if (status.code() != absl::StatusCode::kResourceExhausted) {
      if (status.ok()) Notify();
      return status;
    }
    if (stop.load(std::memory_order_acquire))
      return absl::CancelledError("stopped while the ring was full");
    Notify();
    const uint64_t seen = header->read.load(std::memory_order_seq_cst);
    header->producer_waits.store(1, std::memory_order_seq_cst);
    if (header->read.load(std::memory_order_seq_cst) == seen)
      FutexWait(&header->producer_waits, 1, kWakeUpNs);
    header->producer_waits.store(0, std::memory_order_seq_cst);
  }
}

bool RingConsumer::Readable() const {
  return memory_->header()->written.load(std::memory_order_seq_cst) !=
         read_.load(std::memory_order_relaxed);
}

absl::StatusOr<bool> RingConsumer::TryRead(std::string* record) {
  RingMemory::Header* header = memory_->header();
  const uint64_t position = read_.load(std::memory_order_relaxed);
  const uint64_t available = header->written.load(std::memory_order_acquire) - position;
  if (available == 0) return false;
  if (available > memory_->capacity() || available < sizeof(RecordHeader)) {
    return absl::DataLossError(
        absl::StrCat("the ring is damaged: it claims ", available, " bytes"));
  }
  RecordHeader entry;
  CopyOut(memory_->data(), memory_->capacity(), position, reinterpret_cast<char*>(&entry),
          sizeof(entry));
  if (entry.check != CheckOf(entry.bytes, position) || entry.bytes > memory_->capacity() ||
      SpaceOf(entry.bytes) > available) {
    return absl::DataLossError("the ring is damaged: where a record should begin there is none");
  }
  record->resize(entry.bytes);
  CopyOut(memory_->data(), memory_->capacity(), position + sizeof(entry), &(*record)[0],
          entry.bytes);
  read_.store(position + SpaceOf(entry.bytes), std::memory_order_relaxed);
  header->read.store(position + SpaceOf(entry.bytes), std::memory_order_seq_cst);
  if (header->producer_waits.load(std::memory_order_seq_cst) != 0 &&
      header->producer_waits.exchange(0, std::memory_order_seq_cst) != 0) {
    FutexWake(&header->producer_waits);
  }
  return true;
}

void RingConsumer::Wait(uint64_t poll_ns, const std::atomic<bool>& stop, uint64_t sleep_ns) {
  std::atomic<uint32_t>& state = memory_->header()->consumer_state;
  state.store(kDozing, std::memory_order_seq_cst);
  PollFor(poll_ns, [&] {
    return Readable() || stop.load(std::memory_order_relaxed) ||
           state.load(std::memory_order_relaxed) != kDozing;
  });
  uint32_t seen = kDozing;
  if (!Readable() && state.compare_exchange_strong(seen, kSleeping, std::memory_order_seq_cst)) {
    seen = kSleeping;
    if (!Readable() && !stop.load(std::memory_order_seq_cst)) {
      FutexWait(&state, kSleeping, sleep_ns);
      seen = state.load(std::memory_order_seq_cst);
    }
  }
  for (;;) {
    // kPolled: the second reader has the ring and hands it back by kSleeping or kAwake.
    if (seen == kPolled && !stop.load(std::memory_order_seq_cst)) {
      FutexWait(&state, kPolled, kWakeUpNs);
      seen = state.load(std::memory_order_seq_cst);
    } else if (seen == kAwake ||
               state.compare_exchange_strong(seen, kAwake, std::memory_order_seq_cst)) {
      return;
    }
  }
}

void RingConsumer::Interrupt() {
  std::atomic<uint32_t>& state = memory_->header()->consumer_state;
  state.store(kAwake, std::memory_order_seq_cst);
  FutexWake(&state);
}

bool RingConsumer::BeginPolling() {
  std::atomic<uint32_t>& state = memory_->header()->consumer_state;
  uint32_t seen = state.load(std::memory_order_relaxed);
  return (seen == kSleeping || seen == kDozing) &&
         state.compare_exchange_strong(seen, kPolled, std::memory_order_seq_cst);
}

void RingConsumer::EndPolling(bool wake) {
  std::atomic<uint32_t>& state = memory_->header()->consumer_state;
  uint32_t expected = kPolled;
  if (!state.compare_exchange_strong(expected, kSleeping, std::memory_order_seq_cst))
    return;  // interrupted
  expected = kSleeping;
  if ((wake || Readable()) &&
      state.compare_exchange_strong(expected, kAwake, std::memory_order_seq_cst)) {
    FutexWake(&state);
  }
}

}  // namespace tessera::runtime
