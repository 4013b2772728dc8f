#include "compiler/target/nvptx/emulator/shared_memory.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera::emulator {
namespace {

constexpr int kWarp = 32, kWarpGroup = 128;

}  // namespace

SharedMemory::SharedMemory(int64_t bytes, const std::vector<SharedBuffer>& buffers, const std::vector<std::string>& places)
    : buffers_(buffers), places_(places), live_(buffers.size()), data_(bytes), bytes_(bytes) {}

void SharedMemory::Reset() {
  ++epoch_;
  std::fill(live_.begin(), live_.end(), 0);
  for (Byte& byte : bytes_) {
    byte.written = false;
    byte.copy_thread = -1;
    byte.matrix_reads = 0;
  }
}

bool SharedMemory::Fail(std::string sentence) {
  error_ = std::move(sentence);
  return false;
}

std::string SharedMemory::Where(int place) const {
  return places_[place].empty() ? "" : absl::StrCat(" (", places_[place], ")");
}

std::string SharedMemory::BufferName(int buffer) const {
  return absl::StrCat("the shared buffer of ", buffers_[buffer].bytes, " bytes", Where(buffers_[buffer].place));
}

bool SharedMemory::Ordered(const Touch& touch, int thread) const {
  return touch.epoch < epoch_ || touch.thread == thread ||
         (touch.thread / kWarp == thread / kWarp && touch.warp_epoch < warp_epoch_);
}

bool SharedMemory::Allocate(int buffer) {
  const SharedBuffer& b = buffers_[buffer];
  if (b.offset < 0 || b.offset + b.bytes > int64_t(data_.size()))
    return Fail(absl::StrCat(BufferName(buffer), " at offset ", b.offset, " lies outside the ", data_.size(), " bytes of shared memory"));
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const SharedBuffer& other = buffers_[i];
    if (live_[i] && int(i) != buffer && b.offset < other.offset + other.bytes && other.offset < b.offset + b.bytes)
      return Fail(absl::StrCat(BufferName(buffer), " overlaps ", BufferName(int(i)), ", which is alive"));
  }
  live_[buffer] = 1;
  for (int64_t i = b.offset; i < b.offset + b.bytes; ++i) bytes_[i].written = false;
  return true;
}

bool SharedMemory::Free(int buffer, int place) {
  if (!live_[buffer]) return Fail(absl::StrCat(BufferName(buffer), " is freed twice"));
  const SharedBuffer& b = buffers_[buffer];
  for (int64_t i = b.offset; i < b.offset + b.bytes; ++i) {
    if (bytes_[i].copy_thread >= 0)
      return Fail(absl::StrCat(BufferName(buffer), " is freed", Where(place), " while a copy to byte ", i - b.offset, Where(bytes_[i].copy_place), " is in flight"));
    if (bytes_[i].matrix_reads)
      return Fail(absl::StrCat(BufferName(buffer), " is freed", Where(place), " while a matrix product", Where(bytes_[i].matrix_place), " reads byte ", i - b.offset));
  }
  live_[buffer] = 0;
  return true;
}

bool SharedMemory::Locate(int buffer, int64_t offset, int size, int thread, int place, absl::string_view verb) {
  const SharedBuffer& b = buffers_[buffer];
  const char* wrong = !live_[buffer]                              ? ", which is freed"
                      : offset < 0 || offset + size > b.bytes      ? ": outside of it"
                      : (b.offset + offset) % size != 0            ? ": not aligned"
                                                                   : nullptr;
  if (!wrong) return true;
  return Fail(absl::StrCat("thread ", thread, " ", verb, " ", size, " bytes at byte ", offset, " of ", BufferName(buffer), Where(place), wrong));
}

bool SharedMemory::CheckByte(int buffer, int64_t address, int thread, int place, Mode mode) {
  Byte& byte = bytes_[address];
  auto what = [&]() {
    return absl::StrCat("thread ", thread, mode == Mode::kRead ? " reads" : mode == Mode::kWrite ? " writes" : " updates", " byte ",
                        address - buffers_[buffer].offset, " of ", BufferName(buffer), Where(place));
  };
  if (byte.copy_thread >= 0)
    return Fail(absl::StrCat(what(), " while the asynchronous copy of thread ", byte.copy_thread, Where(byte.copy_place), " to it is in flight"));
  if (mode == Mode::kRead || mode == Mode::kAtomic) {
    if (!byte.written) return Fail(absl::StrCat(what(), ", which was never written"));
  }
  if (!Ordered(byte.write, thread) && !(mode == Mode::kAtomic && byte.write_is_atomic))
    return Fail(absl::StrCat("race: ", what(), " and thread ", byte.write.thread, " wrote it", Where(byte.write.place), " without a barrier between"));
  if (mode == Mode::kRead) {
    NoteRead(byte, thread, place);
    return true;
  }
  if (byte.matrix_reads) return Fail(absl::StrCat(what(), " while the matrix product", Where(byte.matrix_place), " reads it"));
  for (const Touch& read : byte.reads)
    if (!Ordered(read, thread))
      return Fail(absl::StrCat("race: ", what(), " and thread ", read.thread, " read it", Where(read.place), " without a barrier between"));
  byte.write = {epoch_, warp_epoch_, thread, place};
  byte.write_is_atomic = mode == Mode::kAtomic;
  byte.proxy_epoch = proxy_epoch_;
  byte.written = true;
  return true;
}

void SharedMemory::NoteRead(Byte& byte, int thread, int place) {
  const Touch now{epoch_, warp_epoch_, thread, place};
  Touch& first = byte.reads[0];
  if (first.epoch < epoch_ || first.thread == thread) {
    first = now;
    return;
  }
  if (first.thread / kWarp != thread / kWarp) {
    byte.reads[2] = now;
    return;
  }
  if (first.warp_epoch < warp_epoch_) first = now;  // the older read is ordered before this warp's later accesses, and
                                                    // as good a witness for the other warps
  else byte.reads[1] = now;
}

bool SharedMemory::Check(int buffer, int64_t offset, int size, int thread, int place, Mode mode) {
  if (!Locate(buffer, offset, size, thread, place, mode == Mode::kRead ? "reads" : mode == Mode::kWrite ? "writes" : "updates")) return false;
  const int64_t address = buffers_[buffer].offset + offset;
  for (int i = 0; i < size; ++i)
    if (!CheckByte(buffer, address + i, thread, place, mode)) return false;
  return true;
}

bool SharedMemory::Read(int buffer, int64_t offset, int size, int thread, int place, void* to) {
  if (!Check(buffer, offset, size, thread, place, Mode::kRead)) return false;
  std::memcpy(to, data_.data() + buffers_[buffer].offset + offset, size);
  return true;
}

bool SharedMemory::Write(int buffer, int64_t offset, int size, int thread, int place, const void* from) {
  if (!Check(buffer, offset, size, thread, place, Mode::kWrite)) return false;
  std::memcpy(data_.data() + buffers_[buffer].offset + offset, from, size);
  return true;
}

bool SharedMemory::AtomicBegin(int buffer, int64_t offset, int thread, int place, uint32_t* old) {
  if (!Check(buffer, offset, 4, thread, place, Mode::kAtomic)) return false;
  std::memcpy(old, data_.data() + buffers_[buffer].offset + offset, 4);
  return true;
}

void SharedMemory::AtomicEnd(int buffer, int64_t offset, uint32_t value) {
  std::memcpy(data_.data() + buffers_[buffer].offset + offset, &value, 4);
}

bool SharedMemory::BeginCopy(int buffer, int64_t offset, int size, int thread, int place) {
  if (!Check(buffer, offset, size, thread, place, Mode::kWrite)) return false;
  for (int64_t i = buffers_[buffer].offset + offset, end = i + size; i < end; ++i) {
    bytes_[i].copy_thread = thread;
    bytes_[i].copy_place = place;
  }
  return true;
}

bool SharedMemory::EndCopy(int buffer, int64_t offset, int size, int thread, int place, const void* from) {
  for (int64_t i = buffers_[buffer].offset + offset, end = i + size; i < end; ++i) bytes_[i].copy_thread = -1;
  if (!Write(buffer, offset, size, thread, place, from)) return false;
  // Copied data is in shared memory once it was waited for; only stores need a proxy fence before wgmma.
  for (int64_t i = buffers_[buffer].offset + offset, end = i + size; i < end; ++i) bytes_[i].proxy_epoch = 0;
  return true;
}

bool SharedMemory::BeginMatrixRead(int buffer, int64_t address, int thread, int place) {
  const SharedBuffer& b = buffers_[buffer];
  auto what = [&]() { return absl::StrCat("the matrix product", Where(place), " reads byte ", address - b.offset, " of ", BufferName(buffer)); };
  if (!live_[buffer]) return Fail(absl::StrCat(what(), ", which is freed"));
  if (address < b.offset || address + 16 > b.offset + b.bytes) return Fail(absl::StrCat(what(), ": outside of it"));
  if (address % 16 != 0) return Fail(absl::StrCat(what(), ": not aligned"));
  for (int64_t i = address; i < address + 16; ++i) {
    Byte& byte = bytes_[i];
    if (byte.copy_thread >= 0) return Fail(absl::StrCat(what(), " while the asynchronous copy", Where(byte.copy_place), " to it is in flight"));
    if (!byte.written) return Fail(absl::StrCat(what(), ", which was never written"));
    if (byte.write.epoch >= epoch_)
      return Fail(absl::StrCat("race: ", what(), " and thread ", byte.write.thread, " wrote it", Where(byte.write.place), " without a barrier between"));
    if (byte.proxy_epoch >= proxy_epoch_)
      return Fail(absl::StrCat(what(), ", written by thread ", byte.write.thread, Where(byte.write.place), ", without a proxy fence between"));
    ++byte.matrix_reads;
    byte.matrix_place = place;
  }
  return true;
}

void SharedMemory::EndMatrixRead(int64_t address, int thread, int place, void* to) {
  const int group = thread / kWarpGroup * kWarpGroup;
  for (int64_t i = address; i < address + 16; ++i) {
    --bytes_[i].matrix_reads;
    // Two warps of the group stand for all of it: any thread that writes before a barrier conflicts with one of them.
    NoteRead(bytes_[i], group, place);
    NoteRead(bytes_[i], group + kWarp, place);
  }
  std::memcpy(to, data_.data() + address, 16);
}

}  // namespace tessera::emulator
