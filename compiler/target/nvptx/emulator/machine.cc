#include "compiler/target/nvptx/emulator/machine.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::emulator {
namespace {

using interpreter::Bytes;

constexpr int kWarp = 32;

uint64_t Bits(const uint8_t* data, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, bytes);
  return bits;
}

}  // namespace

void Machine::ResetBlock() {
  shared.Reset();
  open_copies.clear();
  copy_groups.clear();
  matrices.clear();
  open_matrices.clear();
  matrix_groups.clear();
}

bool SimtInstruction::SharedFail(Frame& frame) const { return Fail(frame, absl::StatusCode::kInternal, Of(frame).shared.error()); }

void SimtInstruction::Gather(const Machine& m, const SlotUse& use, int thread, uint8_t* to) {
  const int bytes = Bytes(use.kind), elements = int(-use.lanes);
  const uint8_t* data = m.at[use.slot] + thread * bytes;
  for (int i = 0; i < elements; ++i) std::memcpy(to + i * bytes, data + int64_t(i) * m.threads * bytes, bytes);
}

void SimtInstruction::Scatter(const Machine& m, const SlotUse& use, int thread, const uint8_t* from) {
  const int bytes = Bytes(use.kind), elements = int(-use.lanes);
  uint8_t* data = m.at[use.slot] + thread * bytes;
  for (int i = 0; i < elements; ++i) std::memcpy(data + int64_t(i) * m.threads * bytes, from + i * bytes, bytes);
}

bool SimtInstruction::Admit(Machine& m, uint64_t address, int bytes, int thread, const char* what, bool write) const {
  const bool aligned = address % bytes == 0;
  if (aligned && m.memory.Allows(address, bytes, write)) return true;
  return Fail(m, absl::StatusCode::kOutOfRange,
              absl::StrFormat("%s of %d bytes at address 0x%x by thread %d%s%s", what, bytes, address, thread,
                              aligned ? "" : ", which is not aligned",
                              m.memory.checked() ? absl::StrCat(": ", m.memory.Explain(address, bytes, write)) : ""));
}

//===-- identity, values ----------------------------------------------------------------------===//

bool ThreadIndex::Run(Frame& frame) const {
  int32_t* r = frame.As<int32_t>(result);
  for (int t = 0; t < Of(frame).threads; ++t) r[t] = what == What::kThread ? t : what == What::kLane ? t % kWarp : t / kWarp;
  return true;
}

bool CopyElements::Run(Frame& frame) const {
  const int64_t row = int64_t(Of(frame).threads) * bytes;
  for (const Move& move : moves)
    std::memmove(frame.at[result] + move.to * row, frame.at[move.source] + move.from * row, move.elements * row);
  return true;
}

bool VectorBitcast::Run(Frame& frame) const {
  Machine& m = Of(frame);
  uint8_t bytes[64];
  for (int t = 0; t < m.threads; ++t) {
    Gather(m, source, t, bytes);
    Scatter(m, result, t, bytes);
  }
  return true;
}

bool VectorSelect::Run(Frame& frame) const {
  Machine& m = Of(frame);
  uint8_t bytes[64];
  for (int t = 0; t < m.threads; ++t) {
    SlotUse chosen = result;
    chosen.slot = m.at[condition][t] ? a : b;
    Gather(m, chosen, t, bytes);
    Scatter(m, result, t, bytes);
  }
  return true;
}

//===-- global memory -------------------------------------------------------------------------===//

bool GlobalLoad::Run(Frame& frame) const {
  Machine& m = Of(frame);
  const uint64_t* addresses = m.As<uint64_t>(address);
  uint8_t bytes[64];
  const int size = BytesOf(result);
  for (int t = 0; t < m.threads; ++t) {
    if (On(m, predicate, t)) {
      if (!Admit(m, addresses[t], size, t, "load", false)) return false;
      std::memcpy(bytes, reinterpret_cast<const void*>(addresses[t]), size);
      if (result.kind == Kind::kI1)
        for (int i = 0; i < size; ++i) bytes[i] &= 1;
    } else if (other.slot != kNoSlot) {
      Gather(m, other, t, bytes);
    } else {
      std::memset(bytes, 0, size);
    }
    Scatter(m, result, t, bytes);
  }
  return true;
}

bool GlobalStore::Run(Frame& frame) const {
  Machine& m = Of(frame);
  const uint64_t* addresses = m.As<uint64_t>(address);
  uint8_t bytes[64];
  const int size = BytesOf(value);
  for (int t = 0; t < m.threads; ++t) {
    if (!On(m, predicate, t)) continue;
    if (!Admit(m, addresses[t], size, t, "store", true) || !CheckNoTicket(m, value, t)) return false;
    Gather(m, value, t, bytes);
    std::memcpy(reinterpret_cast<void*>(addresses[t]), bytes, size);
  }
  return true;
}

bool GlobalAtomic::Run(Frame& frame) const {
  Machine& m = Of(frame);
  const uint64_t* addresses = m.As<uint64_t>(address);
  const int size = Bytes(value.kind), elements = int(-value.lanes);
  for (int t = 0; t < m.threads; ++t) {
    const bool on = On(m, predicate, t);
    if (on && (!Admit(m, addresses[t], size * elements, t, "atomic access", true) || !CheckNoTicket(m, value, t))) return false;
    for (int i = 0; i < elements; ++i) {
      const int64_t at = (int64_t(i) * m.threads + t) * size;
      uint64_t old = 0;
      if (on) {  // blocks run one after another: nothing else is between the read and the write
        auto* target = reinterpret_cast<uint8_t*>(addresses[t] + i * size);
        old = Bits(target, size);
        const uint64_t operand = Bits(m.at[value.slot] + at, size);
        const uint64_t next = function ? function(old, operand) : old == Bits(m.at[compare.slot] + at, size) ? operand : old;
        std::memcpy(target, &next, size);
      }
      if (result.slot != kNoSlot) std::memcpy(m.at[result.slot] + at, &old, size);
    }
  }
  return true;
}

//===-- shared memory -------------------------------------------------------------------------===//

bool AllocShared::Run(Frame& frame) const { return Of(frame).shared.Allocate(buffer) || SharedFail(frame); }
bool FreeShared::Run(Frame& frame) const { return Of(frame).shared.Free(buffer, place) || SharedFail(frame); }

bool SharedLoad::Run(Frame& frame) const {
  Machine& m = Of(frame);
  const int32_t* offsets = m.As<int32_t>(offset);
  uint8_t bytes[64];
  const int size = BytesOf(result);
  for (int t = 0; t < m.threads; ++t) {
    if (!On(m, predicate, t)) {
      std::memset(bytes, 0, size);
    } else if (!m.shared.Read(buffer, offsets[t], size, t, place, bytes)) {
      return SharedFail(frame);
    }
    Scatter(m, result, t, bytes);
  }
  return true;
}

bool SharedStore::Run(Frame& frame) const {
  Machine& m = Of(frame);
  const int32_t* offsets = m.As<int32_t>(offset);
  uint8_t bytes[64];
  const int size = BytesOf(value);
  for (int t = 0; t < m.threads; ++t) {
    if (!On(m, predicate, t)) continue;
    if (!CheckNoTicket(m, value, t)) return false;
    Gather(m, value, t, bytes);
    if (!m.shared.Write(buffer, offsets[t], size, t, place, bytes)) return SharedFail(frame);
  }
  return true;
}

bool SharedAtomic::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (int t = 0; t < m.threads; ++t) {
    if (!On(m, predicate, t)) continue;
    const int64_t at = m.As<int32_t>(offset)[t];
    uint32_t old = 0;
    if (!m.shared.AtomicBegin(buffer, at, t, place, &old)) return SharedFail(frame);
    m.shared.AtomicEnd(buffer, at, uint32_t(function(old, m.As<uint32_t>(value)[t])));
  }
  return true;
}

bool Synchronise::Run(Frame& frame) const {
  if (what == What::kBlock) Of(frame).shared.Barrier();
  if (what == What::kWarp) Of(frame).shared.WarpBarrier();
  return true;
}

//===-- asynchronous copies -------------------------------------------------------------------===//

bool CopyAsync::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (int t = 0; t < m.threads; ++t) {
    PendingCopy copy{buffer, t, bytes, place, m.As<int32_t>(offset)[t], m.As<uint64_t>(address)[t], !On(m, predicate, t)};
    if (!copy.zeros && !Admit(m, copy.address, bytes, t, "asynchronous copy", false)) return false;
    if (!m.shared.BeginCopy(buffer, copy.offset, bytes, t, place)) return SharedFail(frame);
    m.open_copies.push_back(copy);
  }
  return true;
}

bool CommitCopies::Run(Frame& frame) const {
  Machine& m = Of(frame);
  m.copy_groups.push_back(std::move(m.open_copies));
  m.open_copies.clear();
  return true;
}

bool WaitCopies::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (; int(m.copy_groups.size()) > pending; m.copy_groups.pop_front()) {
    for (const PendingCopy& copy : m.copy_groups.front()) {
      uint8_t data[16] = {};
      if (!copy.zeros) std::memcpy(data, reinterpret_cast<const void*>(copy.address), copy.bytes);
      if (!m.shared.EndCopy(copy.buffer, copy.offset, copy.bytes, copy.thread, copy.place, data)) return SharedFail(frame);
    }
  }
  return true;
}

//===-- warps ---------------------------------------------------------------------------------===//

bool Shuffle::Run(Frame& frame) const {
  Machine& m = Of(frame);
  const int bytes = Bytes(value.kind);
  for (int t = 0; t < m.threads; ++t) {
    const int own = t % kWarp, by = m.As<int32_t>(lane)[t];
    int from = own;
    switch (what) {
      case What::kXor: from = own ^ by; break;
      case What::kIndex: from = by; break;
      case What::kUp: from = own - by < 0 ? own : own - by; break;
      case What::kDown: from = own + by >= kWarp ? own : own + by; break;
    }
    if (from < 0 || from >= kWarp)
      return Fail(frame, absl::StatusCode::kInternal, absl::StrCat("thread ", t, " shuffles with lane ", from));
    if (!CheckNoTicket(m, value, t)) return false;
    std::memcpy(m.at[result.slot] + t * bytes, m.at[value.slot] + (t - own + from) * bytes, bytes);
  }
  return true;
}

bool Ballot::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (int first = 0; first < m.threads; first += kWarp) {
    uint32_t bits = 0;
    for (int lane = 0; lane < kWarp; ++lane) bits |= uint32_t(m.at[condition][first + lane] != 0) << lane;
    std::fill_n(m.As<uint32_t>(result) + first, kWarp, bits);
  }
  return true;
}

//===-- reports -------------------------------------------------------------------------------===//

bool Report::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (int t = 0; t < m.threads; ++t) {
    if (!m.Active(t) || !m.at[condition][t]) continue;
    const uint64_t at = m.As<uint64_t>(address)[t];
    if (!access) return Fail(frame, absl::StatusCode::kAborted, absl::StrCat("assertion failed: ", message, ", thread ", t));
    return Fail(frame, absl::StatusCode::kOutOfRange, absl::StrFormat("%s at address 0x%x by thread %d", message, at, t));
  }
  return true;
}

bool PrintValue::Run(Frame& frame) const {
  Machine& m = Of(frame);
  if (!m.options.print) return true;
  const int bytes = Bytes(value.kind);
  for (int t = 0; t < m.threads; ++t) {
    if (!On(m, predicate, t)) continue;
    const uint64_t bits = Bits(m.at[value.slot] + t * bytes, bytes);
    std::string text;
    if (hex) text = absl::StrFormat("0x%0*x", 2 * bytes, bits);
    else if (value.kind == Kind::kF32) text = absl::StrFormat("%f", interpreter::BitCast<float>(uint32_t(bits)));
    else if (value.kind == Kind::kF64) text = absl::StrFormat("%f", interpreter::BitCast<double>(bits));
    else if (interpreter::IsFloat(value.kind)) text = absl::StrFormat("%f", interpreter::DecodeSmallFloat(value.kind, uint32_t(bits)));
    else if (is_unsigned || value.kind == Kind::kI1) text = absl::StrCat(bits);
    else text = absl::StrCat(int64_t(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
    m.options.print(absl::StrFormat("pid (%d, %d, %d) idx (%s) %s%s%s", m.pid[0], m.pid[1], m.pid[2],
                                    elements > 1 ? absl::StrCat(m.As<int32_t>(element)[t]) : "", prefix,
                                    operand > 0 ? absl::StrCat("(operand ", operand, ") ") : "", text));
  }
  return true;
}

//===-- control flow that differs between threads -----------------------------------------------===//

namespace {

// Runs code for some threads only.
class ActiveThreads {
 public:
  ActiveThreads(Machine& m, const std::vector<uint8_t>& active) : machine_(m), outer_(m.active) { m.active = active.data(); }
  ~ActiveThreads() { machine_.active = outer_; }

 private:
  Machine& machine_;
  const uint8_t* outer_;
};

bool Any(const std::vector<uint8_t>& active) { return std::find(active.begin(), active.end(), 1) != active.end(); }

int64_t SignedAt(const Machine& m, const SlotUse& use, int thread) {
  const int bytes = Bytes(use.kind);
  return int64_t(Bits(m.at[use.slot] + thread * bytes, bytes) << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

}  // namespace

void MaskedCopy::Run(Machine& m) const {
  std::vector<std::vector<uint8_t>> sources;
  for (const Move& move : moves) {
    const uint8_t* data = m.at[move.source];
    sources.emplace_back(data, data + move.elements * m.threads * move.bytes);
  }
  for (size_t k = 0; k < moves.size(); ++k) {
    const Move& move = moves[k];
    for (int64_t i = 0; i < move.elements * m.threads; ++i)
      if (m.Active(int(i % m.threads))) std::memcpy(m.at[move.target] + i * move.bytes, sources[k].data() + i * move.bytes, move.bytes);
  }
}

bool DivergentIf::Run(Frame& frame) const {
  Machine& m = Of(frame);
  std::vector<uint8_t> then_threads(m.threads), else_threads(m.threads);
  for (int t = 0; t < m.threads; ++t) (m.at[condition][t] ? then_threads : else_threads)[t] = m.Active(t);
  for (bool taken : {true, false}) {
    const std::vector<uint8_t>& threads = taken ? then_threads : else_threads;
    if (!Any(threads)) continue;
    ActiveThreads scope(m, threads);
    if (!RunCode(taken ? then_code : else_code, frame)) return false;
    (taken ? then_yield : else_yield).Run(m);
  }
  return true;
}

bool DivergentFor::Run(Frame& frame) const {
  Machine& m = Of(frame);
  enter.Run(m);
  std::vector<int64_t> i(m.threads), last(m.threads), by(m.threads);
  for (int t = 0; t < m.threads; ++t) {
    i[t] = SignedAt(m, begin, t);
    last[t] = SignedAt(m, end, t);
    by[t] = SignedAt(m, step, t);
  }
  const int bytes = Bytes(index.kind);
  while (true) {
    std::vector<uint8_t> threads(m.threads);
    for (int t = 0; t < m.threads; ++t) {
      threads[t] = m.Active(t) && i[t] < last[t] && by[t] > 0;
      if (threads[t]) std::memcpy(m.at[index.slot] + t * bytes, &i[t], bytes);
    }
    if (!Any(threads)) return true;
    ActiveThreads scope(m, threads);
    if (!RunCode(body, frame)) return false;
    next.Run(m);
    for (int t = 0; t < m.threads; ++t)
      if (threads[t] && __builtin_add_overflow(i[t], by[t], &i[t])) i[t] = last[t];
  }
}

bool DivergentWhile::Run(Frame& frame) const {
  Machine& m = Of(frame);
  enter.Run(m);
  std::vector<uint8_t> threads(m.threads);
  for (int t = 0; t < m.threads; ++t) threads[t] = m.Active(t);
  while (Any(threads)) {
    ActiveThreads scope(m, threads);
    if (!RunCode(before, frame)) return false;
    pass.Run(m);
    std::vector<uint8_t> going(m.threads);
    for (int t = 0; t < m.threads; ++t) going[t] = threads[t] && m.at[condition][t];
    ActiveThreads inner(m, going);
    if (Any(going)) {
      if (!RunCode(after, frame)) return false;
      next.Run(m);
    }
    threads = std::move(going);
  }
  return true;
}

}  // namespace tessera::emulator
