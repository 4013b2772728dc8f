// A ring of variable-sized records in shared memory, from one producer to one consumer in different
// processes.
//
// The producer copies a record in and then publishes it by moving one counter, so a producer that
// dies leaves whole records only. Neither side believes the other: each keeps its own counter in
// private memory, and the consumer copies an entry once before it checks it. Nobody sleeps in a
// system call while the other side is busy, and nobody makes one to wake a side that is awake.
//
// Each end is to be used by one thread at a time. A ring outlives neither of its ends' memory: both
// hold it.
#ifndef TESSERA_RUNTIME_RING_RING_H_
#define TESSERA_RUNTIME_RING_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/memory/unique_fd.h"

namespace tessera::runtime {

// The shared memory of one ring.
class RingMemory {
 public:
  // A new, empty ring. `capacity` is rounded up to a power of two of at least a page.
  static absl::StatusOr<std::shared_ptr<RingMemory>> Create(uint32_t capacity);
  // Maps a ring that the peer created. INVALID_ARGUMENT: this is no ring. FAILED_PRECONDITION: it
  // could shrink.
  static absl::StatusOr<std::shared_ptr<RingMemory>> Attach(UniqueFd fd);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  int fd() const { return fd_.get(); }
  uint32_t capacity() const { return capacity_; }

  // What lies in shared memory in front of the data. One cache line for each writer.
  struct Header {
    uint64_t magic;
    uint32_t capacity;
    alignas(64) std::atomic<uint64_t> written;  // bytes ever, by the producer
    alignas(64) std::atomic<uint64_t> read;     // bytes ever, by the consumer
    alignas(64) std::atomic<uint32_t> consumer_state;
    alignas(64) std::atomic<uint32_t> producer_waits;
  };
  Header* header() const { return header_; }
  char* data() const;

 private:
  RingMemory(UniqueFd fd, Header* header, uint32_t capacity)
      : fd_(std::move(fd)), header_(header), capacity_(capacity) {}
  static absl::StatusOr<std::shared_ptr<RingMemory>> Map(UniqueFd fd, uint32_t capacity);

  UniqueFd fd_;
  Header* header_;
  uint32_t capacity_;  // our own copy: the peer may write into the header
};

class RingProducer {
 public:
  explicit RingProducer(std::shared_ptr<RingMemory> memory) : memory_(std::move(memory)) {}

  // The longest record that fits.
  uint32_t max_record_bytes() const { return memory_->capacity() / 2; }

  // Appends `parts` as one record; the consumer is not woken yet. RESOURCE_EXHAUSTED: full at the
  // moment. INVALID_ARGUMENT: longer than max_record_bytes(). DATA_LOSS: the consumer damaged the
  // ring.
  absl::Status TryWrite(absl::Span<const absl::string_view> parts);
  // Wakes the consumer if it sleeps. One call serves all records written before it. Any thread may
  // call it.
  void Notify();
  // TryWrite, waiting for room until `*stop` (CANCELLED). Wakes the consumer.
  absl::Status Write(absl::Span<const absl::string_view> parts, const std::atomic<bool>& stop);

 private:
  std::shared_ptr<RingMemory> memory_;
  uint64_t written_ = 0;
};

class RingConsumer {
 public:
  // A sleeper looks around ten times a second, should a peer forget to wake it.
  static constexpr uint64_t kWakeUpNs = 100000000;

  explicit RingConsumer(std::shared_ptr<RingMemory> memory) : memory_(std::move(memory)) {}

  // Takes the oldest record. false: there is none. DATA_LOSS: what the producer wrote is no record;
  // the ring is of no more use.
  absl::StatusOr<bool> TryRead(std::string* record);
  bool Readable() const;

  // Returns when there is something to read, or `*stop` is set and Interrupt() called: polls for
  // `poll_ns`, then sleeps for `sleep_ns` at most. Returns now and then without reason.
  void Wait(uint64_t poll_ns, const std::atomic<bool>& stop, uint64_t sleep_ns = kWakeUpNs);
  // Wakes the thread in Wait.
  void Interrupt();

  // A second thread may read in place of one that is in Wait and found nothing, which then sleeps
  // on: no system call, no switch. True: it does, until EndPolling. The two threads need a lock of
  // their own around TryRead all the same.
  bool BeginPolling();
  // `wake`: the sleeping thread has work to do even if the ring is empty.
  void EndPolling(bool wake);

 private:
  std::shared_ptr<RingMemory> memory_;
  std::atomic<uint64_t> read_{0};  // Wait may look at it while the second thread reads
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_RING_RING_H_
