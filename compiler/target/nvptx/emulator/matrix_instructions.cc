// The instructions of the matrix units.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/target/nvptx/emulator/machine.h"

namespace tessera::emulator {
namespace {

constexpr int kWarp = 32, kWarpGroup = 128;

// A ticket is a signalling NaN (or an unlikely integer) that names a product and a register of its accumulator. Values
// that the program computes do not look like it.
constexpr uint32_t kTicket = 0x7fa00000, kTicketMask = 0xffe00000;
constexpr int kTickets = 1 << 13;
constexpr size_t kMatricesKept = 256;
uint32_t Ticket(int ticket, int index) { return kTicket | uint32_t(ticket) << 8 | uint32_t(index); }
bool IsTicket(uint32_t bits) { return (bits & kTicketMask) == kTicket; }
int TicketOf(uint32_t bits) { return int(bits >> 8) & (kTickets - 1); }

uint64_t Element(uint64_t bits, int e, int bytes) { return bits >> (8 * bytes * e) & (bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1); }

}  // namespace

bool SimtInstruction::CheckNoTicket(Machine& m, const SlotUse& use, int thread) const {
  if (m.matrices.empty() || (use.kind != Kind::kF32 && use.kind != Kind::kI32)) return true;
  for (int64_t i = 0; i < -use.lanes; ++i) {
    const uint32_t bits = m.As<uint32_t>(use.slot)[i * m.threads + thread];
    if (IsTicket(bits) && m.matrices.count(TicketOf(bits)))
      return Fail(m, absl::StatusCode::kInternal, absl::StrCat("thread ", thread, " uses a result of a wgmma that did not pass wgmma_wait"));
  }
  return true;
}

bool Ldmatrix::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (int warp = 0; warp < m.threads; warp += kWarp) {
    for (size_t i = 0; i < results.size(); ++i) {
      uint8_t rows[8][16];
      for (int r = 0; r < 8; ++r) {
        const int thread = warp + int(i) * 8 + r;
        if (!m.shared.Read(buffer, m.As<int32_t>(offset)[thread], 16, thread, place, rows[r])) return SharedFail(frame);
      }
      for (int lane = 0; lane < kWarp; ++lane) {
        uint8_t* to = m.at[results[i]] + (warp + lane) * 4;
        for (int e = 0; e < 2; ++e)
          std::memcpy(to + 2 * e, transpose ? &rows[lane % 4 * 2 + e][lane / 4 * 2] : &rows[lane / 4][(lane % 4 * 2 + e) * 2], 2);
      }
    }
  }
  return true;
}

bool Stmatrix::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (int warp = 0; warp < m.threads; warp += kWarp) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint8_t rows[8][16];
      for (int lane = 0; lane < kWarp; ++lane) {
        const uint8_t* from = m.at[values[i]] + (warp + lane) * 4;
        for (int e = 0; e < 2; ++e)
          std::memcpy(transpose ? &rows[lane % 4 * 2 + e][lane / 4 * 2] : &rows[lane / 4][(lane % 4 * 2 + e) * 2], from + 2 * e, 2);
      }
      for (int r = 0; r < 8; ++r) {
        const int thread = warp + int(i) * 8 + r;
        if (!m.shared.Write(buffer, m.As<int32_t>(offset)[thread], 16, thread, place, rows[r])) return SharedFail(frame);
      }
    }
  }
  return true;
}

bool Mma::Run(Frame& frame) const {
  Machine& machine = Of(frame);
  const int bytes = Bytes(a_type), per_register = bytes == 8 ? 1 : 4 / bytes, register_bytes = bytes == 8 ? 8 : 4;
  const bool pairs = accumulator == Accumulator::kF16Pair;
  const int c_bytes = accumulator == Accumulator::kF64 ? 8 : pairs ? 2 : 4, c_per_register = pairs ? 2 : 1;
  const int c_register_bytes = c_bytes * c_per_register;
  Product product{m, n, k, a_type, b_type, accumulator, std::vector<uint64_t>(m * k), std::vector<uint64_t>(k * n), std::vector<uint64_t>(m * n)};
  auto load = [&](int slot, int thread, int size) {
    uint64_t bits = 0;
    std::memcpy(&bits, machine.at[slot] + thread * size, size);
    return bits;
  };
  for (int warp = 0; warp < machine.threads; warp += kWarp) {
    for (int lane = 0; lane < kWarp; ++lane) {
      for (size_t r = 0; r < a.size(); ++r)
        for (int e = 0; e < per_register; ++e) {
          Position p = PositionInA(lane, int(r), e, per_register);
          product.a[p.row * k + p.column] = Element(load(a[r], warp + lane, register_bytes), e, bytes);
        }
      for (size_t r = 0; r < b.size(); ++r)
        for (int e = 0; e < per_register; ++e) {
          Position p = PositionInB(lane, int(r), e, per_register);
          product.b[p.row * n + p.column] = Element(load(b[r], warp + lane, register_bytes), e, bytes);
        }
      for (size_t r = 0; r < c.size(); ++r)
        for (int e = 0; e < c_per_register; ++e) {
          Position p = PositionInC(lane, int(r), e, pairs);
          product.c[p.row * n + p.column] = Element(load(c[r], warp + lane, c_register_bytes), e, c_bytes);
        }
    }
    product.Run();
    for (int lane = 0; lane < kWarp; ++lane)
      for (size_t r = 0; r < results.size(); ++r)
        for (int e = 0; e < c_per_register; ++e) {
          Position p = PositionInC(lane, int(r), e, pairs);
          std::memcpy(machine.at[results[r]] + (warp + lane) * c_register_bytes + e * c_bytes, &product.c[p.row * n + p.column], c_bytes);
        }
  }
  return true;
}

//===-- wgmma ---------------------------------------------------------------------------------===//

// Visits each 16-byte chunk of an operand in shared memory, and at the end fills in its elements ([64, k] or [k, n]).
bool Wgmma::Operand(Machine& m, bool is_a, int group, int64_t start, Step step, std::vector<uint64_t>* elements) const {
  const int bytes = Bytes(is_a ? a_type : b_type), outer_extent = is_a ? 64 : n;
  const bool transposed = is_a ? a_transpose : b_transpose;
  const Swizzle swizzle = is_a ? a_swizzle : b_swizzle;
  const int per_chunk = 16 / bytes;
  for (int outer = 0; outer < outer_extent; outer += transposed ? per_chunk : 1) {
    for (int inner = 0; inner < k; inner += transposed ? 1 : per_chunk) {
      const int64_t at = Swizzled(start + DescriptorOffset(outer, inner, bytes, transposed, swizzle, is_a ? a_leading : b_leading, is_a ? a_stride : b_stride), swizzle);
      if (step == Step::kBegin) {
        if (!m.shared.BeginMatrixRead(is_a ? a_buffer : b_buffer, at, group * kWarpGroup, place)) return SharedFail(m);
        continue;
      }
      uint8_t chunk[16];
      m.shared.EndMatrixRead(at, group * kWarpGroup, place, chunk);
      for (int e = 0; e < per_chunk; ++e) {
        uint64_t bits = 0;
        std::memcpy(&bits, chunk + e * bytes, bytes);
        const int o = outer + (transposed ? e : 0), i = inner + (transposed ? 0 : e);
        (*elements)[is_a ? o * k + i : i * n + o] = bits;
      }
    }
  }
  return true;
}

bool Wgmma::Run(Frame& frame) const {
  Machine& m = Of(frame);
  if (m.threads % kWarpGroup != 0) return Fail(frame, absl::StatusCode::kInternal, "wgmma needs whole groups of four warps");
  auto pending = std::make_shared<PendingMatrix>();
  pending->instruction = this;
  pending->ticket = m.next_ticket;
  m.next_ticket = (m.next_ticket + 1) % kTickets;
  pending->integer = accumulator == Accumulator::kI32;
  auto registers = [&](const std::vector<int>& slots) {
    std::vector<std::vector<uint32_t>> values;
    for (int slot : slots) values.emplace_back(m.As<uint32_t>(slot), m.As<uint32_t>(slot) + m.threads);
    return values;
  };
  pending->accumulators = registers(c);
  pending->a_registers = registers(a_registers);
  const uint32_t first = pending->accumulators[0][0];
  if (IsTicket(first) && m.matrices.count(TicketOf(first))) {
    pending->base = TicketOf(first);
    for (size_t i = 0; i < c.size(); ++i)
      for (uint32_t bits : pending->accumulators[i])
        if (bits != Ticket(pending->base, int(i)))
          return Fail(frame, absl::StatusCode::kInternal, absl::StrCat("accumulator ", i, " of a wgmma is not that of the product before it"));
  }
  for (int group = 0; group < m.threads / kWarpGroup; ++group) {
    auto start = [&](int buffer, int slot, int64_t* at) {
      const int32_t* offsets = m.As<int32_t>(slot) + group * kWarpGroup;
      for (int t = 1; t < kWarpGroup; ++t)
        if (offsets[t] != offsets[0]) return Fail(frame, absl::StatusCode::kInternal, "an offset of a wgmma differs within the warp group");
      *at = m.shared.buffer(buffer).offset + offsets[0];
      return true;
    };
    int64_t at = 0;
    if (a_registers.empty()) {
      if (!start(a_buffer, a_offset, &at) || !Operand(m, true, group, at, Step::kBegin, nullptr)) return false;
      pending->a_start.push_back(at);
    }
    if (!start(b_buffer, b_offset, &at) || !Operand(m, false, group, at, Step::kBegin, nullptr)) return false;
    pending->b_start.push_back(at);
  }
  for (size_t i = 0; i < results.size(); ++i) std::fill_n(m.As<uint32_t>(results[i]), m.threads, Ticket(pending->ticket, int(i)));
  m.matrices[pending->ticket] = pending;
  m.open_matrices.push_back(pending->ticket);
  return true;
}

void Wgmma::Complete(Machine& machine, PendingMatrix& pending) const {
  const int bytes = Bytes(a_type), per_register = 4 / bytes;
  const bool pairs = accumulator == Accumulator::kF16Pair;
  const int c_bytes = pairs ? 2 : 4, c_per_register = pairs ? 2 : 1;
  if (pending.base >= 0) pending.accumulators = machine.matrices.at(pending.base)->accumulators;
  Product product{64, n, k, a_type, b_type, accumulator, std::vector<uint64_t>(64 * k), std::vector<uint64_t>(k * n), std::vector<uint64_t>(64 * n)};
  for (int group = 0; group < machine.threads / kWarpGroup; ++group) {
    if (!pending.a_start.empty()) Operand(machine, true, group, pending.a_start[group], Step::kEnd, &product.a);
    Operand(machine, false, group, pending.b_start[group], Step::kEnd, &product.b);
    for (int t = 0; t < kWarpGroup; ++t) {
      const int thread = group * kWarpGroup + t;
      for (size_t r = 0; r < pending.a_registers.size(); ++r)
        for (int e = 0; e < per_register; ++e) {
          Position p = PositionInA(t % kWarp, int(r), e, per_register);
          product.a[(t / kWarp * 16 + p.row) * k + p.column] = Element(pending.a_registers[r][thread], e, bytes);
        }
      for (size_t r = 0; r < pending.accumulators.size(); ++r)
        for (int e = 0; e < c_per_register; ++e) {
          Position p = PositionInWarpGroupC(t, int(r), e, pairs);
          product.c[p.row * n + p.column] = Element(pending.accumulators[r][thread], e, c_bytes);
        }
    }
    product.Run();
    for (int t = 0; t < kWarpGroup; ++t)
      for (size_t r = 0; r < pending.accumulators.size(); ++r) {
        uint32_t bits = 0;
        for (int e = 0; e < c_per_register; ++e) {
          Position p = PositionInWarpGroupC(t, int(r), e, pairs);
          bits |= uint32_t(product.c[p.row * n + p.column]) << (8 * c_bytes * e);
        }
        pending.accumulators[r][group * kWarpGroup + t] = bits;
      }
  }
  pending.done = true;
}

bool WgmmaFence::Run(Frame& frame) const {
  if (proxy) Of(frame).shared.ProxyFence();
  return true;
}

bool WgmmaCommit::Run(Frame& frame) const {
  Machine& m = Of(frame);
  m.matrix_groups.push_back(std::move(m.open_matrices));
  m.open_matrices.clear();
  return true;
}

bool WgmmaWait::Run(Frame& frame) const {
  Machine& m = Of(frame);
  for (; int(m.matrix_groups.size()) > pending; m.matrix_groups.pop_front())
    for (int ticket : m.matrix_groups.front()) {
      auto found = m.matrices.find(ticket);
      if (found == m.matrices.end()) continue;
      PendingMatrix& matrix = *found->second;
      matrix.instruction->Complete(m, matrix);
    }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t* in = m.As<uint32_t>(values[i]);
    uint32_t* out = m.As<uint32_t>(results[i]);
    for (int t = 0; t < m.threads; ++t) {
      uint32_t bits = in[t];
      if (IsTicket(bits)) {
        auto matrix = m.matrices.find(TicketOf(bits));
        if (matrix != m.matrices.end() && matrix->second->done) bits = matrix->second->accumulators[bits & 0xff][t];
      }
      out[t] = bits;
    }
  }
  while (m.matrices.size() > kMatricesKept) {
    auto oldest = m.matrices.end();
    for (auto it = m.matrices.begin(); it != m.matrices.end(); ++it)
      if (it->second->done && (oldest == m.matrices.end() || (m.next_ticket - it->first + kTickets) % kTickets > (m.next_ticket - oldest->first + kTickets) % kTickets)) oldest = it;
    if (oldest == m.matrices.end()) break;
    m.matrices.erase(oldest);
  }
  return true;
}

}  // namespace tessera::emulator
