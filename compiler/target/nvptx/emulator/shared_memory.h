// Shared memory of one block, with a record of who touched each byte since the last barrier.
//
// Errors: two threads touch a byte without a barrier between and one of them writes it; reads of bytes that were never
// written; accesses outside a buffer or not aligned to their size; use of freed buffers; touching bytes of an
// asynchronous copy in flight, or writing bytes that an asynchronous matrix product still reads.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_SHARED_MEMORY_H_
#define TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_SHARED_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera::emulator {

// A piece of shared memory, as simt.alloc_shared makes it. Offsets are those of allocate_shared.
struct SharedBuffer {
  int64_t offset = 0, bytes = 0;
  int place = 0;  // index of Program.places
};

class SharedMemory {
 public:
  // `places` must outlive this object.
  SharedMemory(int64_t bytes, const std::vector<SharedBuffer>& buffers, const std::vector<std::string>& places);

  // A new block of threads: nothing is allocated.
  void Reset();
  void Barrier() { ++epoch_; }
  void WarpBarrier() { ++warp_epoch_; }
  void ProxyFence() { ++proxy_epoch_; }

  // All return false with `error` set where the access is wrong. `place`: of the access. `size` is also the alignment.
  bool Allocate(int buffer);
  bool Free(int buffer, int place);
  bool Read(int buffer, int64_t offset, int size, int thread, int place, void* to);
  bool Write(int buffer, int64_t offset, int size, int thread, int place, const void* from);
  bool AtomicBegin(int buffer, int64_t offset, int thread, int place, uint32_t* old);
  void AtomicEnd(int buffer, int64_t offset, uint32_t value);

  // An asynchronous copy: between the two nobody may touch its bytes.
  bool BeginCopy(int buffer, int64_t offset, int size, int thread, int place);
  bool EndCopy(int buffer, int64_t offset, int size, int thread, int place, const void* from);

  // An asynchronous matrix product reads 16-byte chunks at absolute addresses for the warp group of `thread`: from
  // Begin to End nobody may write them.
  bool BeginMatrixRead(int buffer, int64_t address, int thread, int place);
  void EndMatrixRead(int64_t address, int thread, int place, void* to);

  const SharedBuffer& buffer(int index) const { return buffers_[index]; }
  const std::string& error() const { return error_; }

 private:
  enum class Mode : uint8_t { kRead, kWrite, kAtomic };
  struct Touch {
    uint32_t epoch = 0, warp_epoch = 0;  // epoch 0: never
    int thread = 0, place = 0;
  };
  struct Byte {
    Touch write;
    Touch reads[3];  // the first since the barrier; another thread of its warp; a thread of another warp
    uint32_t proxy_epoch = 0;  // when it was written
    int copy_place = 0, copy_thread = -1;  // of the copy in flight (thread -1: none)
    int matrix_reads = 0, matrix_place = 0;
    bool written = false, write_is_atomic = false;
  };

  bool Check(int buffer, int64_t offset, int size, int thread, int place, Mode mode);
  bool CheckByte(int buffer, int64_t address, int thread, int place, Mode mode);
  bool Locate(int buffer, int64_t offset, int size, int thread, int place, absl::string_view verb);
  void NoteRead(Byte& byte, int thread, int place);
  bool Ordered(const Touch& touch, int thread) const;
  bool Fail(std::string sentence);
  std::string Where(int place) const;
  std::string BufferName(int buffer) const;

  const std::vector<SharedBuffer>& buffers_;
  const std::vector<std::string>& places_;
  std::vector<uint8_t> live_;
  std::vector<uint8_t> data_;
  std::vector<Byte> bytes_;
  uint32_t epoch_ = 1, warp_epoch_ = 1, proxy_epoch_ = 1;
  std::string error_;
};

}  // namespace tessera::emulator

#endif  // TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_SHARED_MEMORY_H_
