#include "compiler/target/interpreter/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/target/interpreter/elementwise.h"

namespace tessera::interpreter {

bool Memory::Search(uint64_t address, unsigned bytes, bool write) {
  for (size_t i = 0; i < extents_.size(); ++i) {
    if (!Inside(extents_[i], address, bytes, write)) continue;
    last_ = i;
    return true;
  }
  return false;
}

std::string Memory::Explain(uint64_t address, unsigned bytes, bool write) const {
  const compiler::Extent* nearest = nullptr;
  uint64_t nearest_distance = 0;
  for (const compiler::Extent& e : extents_) {
    uint64_t distance = address < e.address ? e.address - address
                        : address - e.address < e.bytes ? 0 : address - e.address - e.bytes;
    if (nearest && distance >= nearest_distance) continue;
    nearest = &e;
    nearest_distance = distance;
  }
  if (!nearest) return "there is no buffer";
  const std::string name = absl::StrCat("'", nearest->name, "' (", nearest->bytes, " bytes)");
  if (address < nearest->address) return absl::StrCat(nearest_distance, " bytes before the start of ", name);
  uint64_t offset = address - nearest->address;
  if (offset >= nearest->bytes) return absl::StrCat(nearest_distance, " bytes behind the end of ", name);
  if (nearest->bytes - offset < bytes) return absl::StrCat("across the end of ", name);
  return absl::StrCat("at byte ", offset, " of ", name, write && nearest->read_only ? ", which is read-only" : "");
}

bool Instruction::Fail(Frame& frame, absl::StatusCode code, absl::string_view sentence) const {
  const Program& program = *frame.program;
  std::string where = program.places[place];
  frame.failure = absl::Status(
      code, absl::StrCat(program.kernel, where.empty() ? "" : absl::StrCat(" (", where, ")"), ": program (", frame.pid[0],
                         ", ", frame.pid[1], ", ", frame.pid[2], "): ", sentence));
  return false;
}

bool Instruction::CheckUniform(Frame& frame, int slot, Kind kind, int64_t lanes) const {
  const int bytes = Bytes(kind);
  const uint8_t* data = frame.at[slot];
  for (int64_t i = 1; i < LanesOf(frame, lanes); ++i)
    if (std::memcmp(data, data + i * bytes, bytes) != 0)
      return Fail(frame, absl::StatusCode::kInternal, absl::StrCat("control flow differs between threads 0 and ", i));
  return true;
}

namespace {

// Plain accesses are relaxed atomics where they are aligned, so that programs in other threads never see torn values.
template <typename U>
U ReadElement(uint64_t address) {
  U value;
  if (address % sizeof(U) == 0) return __atomic_load_n(reinterpret_cast<const U*>(address), __ATOMIC_RELAXED);
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}
template <typename U>
void WriteElement(uint64_t address, U value) {
  if (address % sizeof(U) == 0) __atomic_store_n(reinterpret_cast<U*>(address), value, __ATOMIC_RELAXED);
  else std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

template <typename U>
uint64_t UpdateElement(uint64_t address, AtomicFunction function, uint64_t operand, int order) {
  U* target = reinterpret_cast<U*>(address);
  U old = __atomic_load_n(target, __ATOMIC_RELAXED);
  while (true) {
    U next = U(function(old, operand));
    bool done = false;
    switch (order) {  // the builtins take constants
      case __ATOMIC_RELAXED: done = __atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED); break;
      case __ATOMIC_ACQUIRE: done = __atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE); break;
      case __ATOMIC_RELEASE: done = __atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED); break;
      default: done = __atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    if (done) return old;
  }
}

uint64_t UpdateElement(int bytes, uint64_t address, AtomicFunction function, uint64_t operand, int order) {
  switch (bytes) {
    case 1: return UpdateElement<uint8_t>(address, function, operand, order);
    case 2: return UpdateElement<uint16_t>(address, function, operand, order);
    case 4: return UpdateElement<uint32_t>(address, function, operand, order);
    default: return UpdateElement<uint64_t>(address, function, operand, order);
  }
}

template <typename U>
uint64_t ExchangeElement(uint64_t address, uint64_t compare, uint64_t value) {
  U expected = U(compare);
  __atomic_compare_exchange_n(reinterpret_cast<U*>(address), &expected, U(value), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

uint64_t BitsAt(const uint8_t* data, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, bytes);
  return bits;
}

//===-- read-modify-write ---------------------------------------------------------------------===//

template <typename U> uint64_t And(uint64_t a, uint64_t b) { return U(a & b); }
template <typename U> uint64_t Or(uint64_t a, uint64_t b) { return U(a | b); }
template <typename U> uint64_t Xor(uint64_t a, uint64_t b) { return U(a ^ b); }
template <typename U> uint64_t Add(uint64_t a, uint64_t b) { return U(a + b); }
template <typename U> uint64_t UMax(uint64_t a, uint64_t b) { return U(a) > U(b) ? a : b; }
template <typename U> uint64_t UMin(uint64_t a, uint64_t b) { return U(a) < U(b) ? a : b; }
template <typename U> uint64_t SMax(uint64_t a, uint64_t b) { using S = std::make_signed_t<U>; return S(a) > S(b) ? a : b; }
template <typename U> uint64_t SMin(uint64_t a, uint64_t b) { using S = std::make_signed_t<U>; return S(a) < S(b) ? a : b; }
uint64_t Exchange(uint64_t, uint64_t b) { return b; }

template <typename U>
AtomicFunction IntegerFunction(AtomicOp op) {
  switch (op) {
    case AtomicOp::kAnd: return And<U>;
    case AtomicOp::kOr: return Or<U>;
    case AtomicOp::kXor: return Xor<U>;
    case AtomicOp::kAdd: return Add<U>;
    case AtomicOp::kMax: return SMax<U>;
    case AtomicOp::kMin: return SMin<U>;
    case AtomicOp::kUMax: return UMax<U>;
    case AtomicOp::kUMin: return UMin<U>;
    case AtomicOp::kXchg: return Exchange;
    default: return nullptr;
  }
}

template <Kind kKind>
struct FloatBits {
  static float Decode(uint64_t bits) { return DecodeSmallFloat(kKind, uint32_t(bits)); }
  static uint64_t Encode(float value) { return EncodeSmallFloat(kKind, value, false); }
};
template <>
struct FloatBits<Kind::kF32> {
  static float Decode(uint64_t bits) { return BitCast<float>(uint32_t(bits)); }
  static uint64_t Encode(float value) { return BitCast<uint32_t>(value); }
};
template <>
struct FloatBits<Kind::kF64> {
  static double Decode(uint64_t bits) { return BitCast<double>(bits); }
  static uint64_t Encode(double value) { return BitCast<uint64_t>(value); }
};

template <Kind kKind> uint64_t FAdd(uint64_t a, uint64_t b) {
  using F = FloatBits<kKind>;
  return F::Encode(F::Decode(a) + F::Decode(b));
}
template <Kind kKind> uint64_t FMax(uint64_t a, uint64_t b) {
  auto x = FloatBits<kKind>::Decode(a), y = FloatBits<kKind>::Decode(b);
  return std::isnan(x) || y > x ? b : a;
}
template <Kind kKind> uint64_t FMin(uint64_t a, uint64_t b) {
  auto x = FloatBits<kKind>::Decode(a), y = FloatBits<kKind>::Decode(b);
  return std::isnan(x) || y < x ? b : a;
}

template <Kind kKind>
AtomicFunction FloatFunction(AtomicOp op) {
  switch (op) {
    case AtomicOp::kFAdd: case AtomicOp::kAdd: return FAdd<kKind>;
    case AtomicOp::kFMax: case AtomicOp::kMax: return FMax<kKind>;
    case AtomicOp::kFMin: case AtomicOp::kMin: return FMin<kKind>;
    case AtomicOp::kXchg: return Exchange;
    default: return nullptr;
  }
}

}  // namespace

AtomicFunction FindAtomicFunction(AtomicOp op, Kind kind) {
  switch (kind) {
    case Kind::kI8: return IntegerFunction<uint8_t>(op);
    case Kind::kI16: return IntegerFunction<uint16_t>(op);
    case Kind::kI32: return IntegerFunction<uint32_t>(op);
    case Kind::kI64: return IntegerFunction<uint64_t>(op);
    case Kind::kF16: return FloatFunction<Kind::kF16>(op);
    case Kind::kBf16: return FloatFunction<Kind::kBf16>(op);
    case Kind::kF32: return FloatFunction<Kind::kF32>(op);
    case Kind::kF64: return FloatFunction<Kind::kF64>(op);
    default: return nullptr;
  }
}

//===-- accesses ------------------------------------------------------------------------------===//

bool Access::Admit(Frame& frame, uint64_t address, int64_t lane, Mode mode) const {
  const unsigned bytes = Bytes(kind);
  const bool write = mode != Mode::kRead, aligned = address % bytes == 0;
  const bool must_align = mode == Mode::kAtomic || frame.memory.checked();
  if (frame.memory.Allows(address, bytes, write) && (aligned || !must_align)) return true;
  const char* what = mode == Mode::kAtomic ? "atomic access" : write ? "store" : "load";
  std::string lane_name = LaneName(lane, shape);
  return Fail(frame, absl::StatusCode::kOutOfRange,
              absl::StrFormat("%s of %d bytes at address 0x%x%s%s%s", what, bytes, address,
                              lane_name.empty() ? "" : absl::StrCat(", lane ", lane_name),
                              aligned ? "" : ", which is not aligned",
                              frame.memory.checked() ? absl::StrCat(": ", frame.memory.Explain(address, bytes, write)) : ""));
}

template <typename U>
bool Load::RunAs(Frame& frame) const {
  const uint64_t* addresses = frame.As<uint64_t>(pointer);
  const uint8_t* lanes_on = mask == kNoSlot ? nullptr : frame.at[mask];
  const U* others = other == kNoSlot ? nullptr : frame.As<U>(other);
  U* values = frame.As<U>(result);
  for (int64_t i = 0; i < lanes; ++i) {
    if (lanes_on && !lanes_on[i]) {
      values[i] = others ? others[i] : U(0);
      continue;
    }
    if (!Admit(frame, addresses[i], i, Mode::kRead)) return false;
    values[i] = ReadElement<U>(addresses[i]);
  }
  return true;
}

bool Load::Run(Frame& frame) const {
  switch (Bytes(kind)) {
    case 1: return RunAs<uint8_t>(frame);
    case 2: return RunAs<uint16_t>(frame);
    case 4: return RunAs<uint32_t>(frame);
    default: return RunAs<uint64_t>(frame);
  }
}

template <typename U>
bool Store::RunAs(Frame& frame) const {
  const uint64_t* addresses = frame.As<uint64_t>(pointer);
  const uint8_t* lanes_on = mask == kNoSlot ? nullptr : frame.at[mask];
  const U* values = frame.As<U>(value);
  for (int64_t i = 0; i < lanes; ++i) {
    if (lanes_on && !lanes_on[i]) continue;
    if (!Admit(frame, addresses[i], i, Mode::kWrite)) return false;
    WriteElement<U>(addresses[i], values[i]);
  }
  return true;
}

bool Store::Run(Frame& frame) const {
  switch (Bytes(kind)) {
    case 1: return RunAs<uint8_t>(frame);
    case 2: return RunAs<uint16_t>(frame);
    case 4: return RunAs<uint32_t>(frame);
    default: return RunAs<uint64_t>(frame);
  }
}

bool AtomicRmw::Run(Frame& frame) const {
  const uint64_t* addresses = frame.As<uint64_t>(pointer);
  const uint8_t* lanes_on = mask == kNoSlot ? nullptr : frame.at[mask];
  const int bytes = Bytes(kind);
  for (int64_t i = 0; i < lanes; ++i) {
    uint64_t old = 0;
    if (!lanes_on || lanes_on[i]) {
      if (!Admit(frame, addresses[i], i, Mode::kAtomic)) return false;
      old = UpdateElement(bytes, addresses[i], function, BitsAt(frame.at[value] + i * bytes, bytes), order);
    }
    std::memcpy(frame.at[result] + i * bytes, &old, bytes);
  }
  return true;
}

bool AtomicCas::Run(Frame& frame) const {
  const uint64_t* addresses = frame.As<uint64_t>(pointer);
  const int bytes = Bytes(kind);
  for (int64_t i = 0; i < lanes; ++i) {
    if (!Admit(frame, addresses[i], i, Mode::kAtomic)) return false;
    uint64_t expected = BitsAt(frame.at[compare] + i * bytes, bytes), next = BitsAt(frame.at[value] + i * bytes, bytes);
    uint64_t old;
    switch (bytes) {
      case 1: old = ExchangeElement<uint8_t>(addresses[i], expected, next); break;
      case 2: old = ExchangeElement<uint16_t>(addresses[i], expected, next); break;
      case 4: old = ExchangeElement<uint32_t>(addresses[i], expected, next); break;
      default: old = ExchangeElement<uint64_t>(addresses[i], expected, next);
    }
    std::memcpy(frame.at[result] + i * bytes, &old, bytes);
  }
  return true;
}

//===-- tensor descriptors --------------------------------------------------------------------===//

bool MakeDescriptor::Run(Frame& frame) const {
  auto* value = frame.As<DescriptorValue>(result);
  value->base = *frame.As<uint64_t>(base);
  value->nan_padding = nan_padding;
  for (size_t d = 0; d < extents.size(); ++d) {
    value->extent[d] = *frame.As<int32_t>(extents[d]);
    value->stride[d] = *frame.As<int64_t>(strides[d]);
  }
  return true;
}

namespace {

uint64_t NanBits(Kind kind) {
  switch (kind) {
    case Kind::kF64: return BitCast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
    case Kind::kF32: return BitCast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
    default: return EncodeSmallFloat(kind, std::numeric_limits<double>::quiet_NaN(), false);
  }
}

}  // namespace

bool DescriptorAccess::Run(Frame& frame) const {
  const auto& desc = *frame.As<DescriptorValue>(descriptor);
  const int rank = int(shape.size()), bytes = Bytes(kind);
  const uint64_t padding = desc.nan_padding && IsFloat(kind) ? NanBits(kind) : 0;
  std::vector<int64_t> first(rank), offset(rank, 0);
  for (int d = 0; d < rank; ++d) first[d] = *frame.As<int32_t>(indices[d]);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    bool inside = true;
    uint64_t address = desc.base;
    for (int d = 0; d < rank; ++d) {
      const int64_t i = first[d] + offset[d];
      inside &= i >= 0 && i < desc.extent[d];
      address += uint64_t(i) * uint64_t(desc.stride[d]) * bytes;
    }
    uint8_t* element = frame.at[block] + lane * bytes;
    if (!inside) {
      if (!store) std::memcpy(element, &padding, bytes);
    } else {
      if (!Admit(frame, address, lane, reduce ? Mode::kAtomic : store ? Mode::kWrite : Mode::kRead)) return false;
      if (reduce) UpdateElement(bytes, address, reduce, BitsAt(element, bytes), __ATOMIC_RELAXED);
      else if (store) std::memcpy(reinterpret_cast<void*>(address), element, bytes);
      else std::memcpy(element, reinterpret_cast<const void*>(address), bytes);
    }
    for (int d = rank - 1; d >= 0 && ++offset[d] == shape[d]; --d) offset[d] = 0;
  }
  return true;
}

}  // namespace tessera::interpreter
