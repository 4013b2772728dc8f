#include "compiler/target/interpreter/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::interpreter {
namespace {

// Lanes that small floats are widened for at a time: the buffers stay in the first-level cache.
constexpr int64_t kChunk = 512;

int64_t SignedValue(const uint8_t* data, Kind kind) {
  switch (kind) {
    case Kind::kI8: return int8_t(*data);
    case Kind::kI16: return BitCast<int16_t>(*reinterpret_cast<const uint16_t*>(data));
    case Kind::kI32: return *reinterpret_cast<const int32_t*>(data);
    case Kind::kI64: return *reinterpret_cast<const int64_t*>(data);
    default: return *data;
  }
}

template <typename U>
void SelectLanes(const uint8_t* condition, bool one, const U* a, const U* b, U* result, int64_t lanes) {
  if (one) {
    std::memcpy(result, *condition ? a : b, lanes * sizeof(U));
    return;
  }
  for (int64_t i = 0; i < lanes; ++i) result[i] = condition[i] ? a[i] : b[i];
}

}  // namespace

bool Elementwise::Run(Frame& frame) const {
  const void* in[3];
  for (int i = 0; i < 3; ++i) in[i] = operands[i] == kNoSlot ? nullptr : frame.at[operands[i]];
  function(in, frame.at[result], LanesOf(frame, lanes));
  return true;
}

bool SmallFloatElementwise::Run(Frame& frame) const {
  float buffers[3][kChunk], computed[kChunk];
  const int64_t count = LanesOf(frame, lanes);
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t n = std::min(kChunk, count - first);
    const void* in[3] = {};
    for (int i = 0; i < 3 && operands[i] != kNoSlot; ++i) {
      const uint8_t* source = frame.at[operands[i]] + first * Bytes(kinds[i]);
      in[i] = source;
      if (!IsSmallFloat(kinds[i])) continue;
      DecodeLanes(kinds[i], source, buffers[i], n);
      in[i] = buffers[i];
    }
    uint8_t* target = frame.at[result] + first * Bytes(result_kind);
    if (IsSmallFloat(result_kind)) {
      function(in, computed, n);
      EncodeLanes(result_kind, computed, target, n);
    } else {
      function(in, target, n);
    }
  }
  return true;
}

bool FloatToFloat::Run(Frame& frame) const {
  const int64_t count = LanesOf(frame, lanes);
  const uint8_t* in = frame.at[source];
  uint8_t* out = frame.at[result];
  if (from == to) {
    std::memcpy(out, in, count * Bytes(from));
  } else if (IsSmallFloat(from) && to == Kind::kF32) {
    DecodeLanes(from, in, reinterpret_cast<float*>(out), count);
  } else if (from == Kind::kF32 && IsSmallFloat(to) && !toward_zero) {
    EncodeLanes(to, reinterpret_cast<const float*>(in), out, count);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      double value;
      if (from == Kind::kF64) value = reinterpret_cast<const double*>(in)[i];
      else if (from == Kind::kF32) value = reinterpret_cast<const float*>(in)[i];
      else value = DecodeSmallFloat(from, Bytes(from) == 1 ? in[i] : reinterpret_cast<const uint16_t*>(in)[i]);
      if (to == Kind::kF64) {
        reinterpret_cast<double*>(out)[i] = value;
      } else if (to == Kind::kF32) {
        reinterpret_cast<float*>(out)[i] = toward_zero ? TruncateToFloat(value) : float(value);
      } else {
        uint32_t bits = EncodeSmallFloat(to, value, toward_zero);
        if (Bytes(to) == 1) out[i] = uint8_t(bits);
        else reinterpret_cast<uint16_t*>(out)[i] = uint16_t(bits);
      }
    }
  }
  return true;
}

bool IntegerToSmallFloat::Run(Frame& frame) const {
  double buffer[kChunk];
  const int64_t count = LanesOf(frame, lanes);
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t n = std::min(kChunk, count - first);
    const void* in[3] = {frame.at[source] + first * Bytes(from), nullptr, nullptr};
    to_double(in, buffer, n);
    uint8_t* out = frame.at[result] + first * Bytes(to);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits = EncodeSmallFloat(to, buffer[i], false);
      if (Bytes(to) == 1) out[i] = uint8_t(bits);
      else reinterpret_cast<uint16_t*>(out)[i] = uint16_t(bits);
    }
  }
  return true;
}

bool Select::Run(Frame& frame) const {
  const int64_t n = LanesOf(frame, lanes);
  const uint8_t* c = frame.at[condition];
  switch (bytes) {
    case 1: SelectLanes(c, one_condition, frame.at[a], frame.at[b], frame.at[result], n); break;
    case 2: SelectLanes(c, one_condition, frame.As<uint16_t>(a), frame.As<uint16_t>(b), frame.As<uint16_t>(result), n); break;
    case 4: SelectLanes(c, one_condition, frame.As<uint32_t>(a), frame.As<uint32_t>(b), frame.As<uint32_t>(result), n); break;
    default: SelectLanes(c, one_condition, frame.As<uint64_t>(a), frame.As<uint64_t>(b), frame.As<uint64_t>(result), n);
  }
  return true;
}

bool AddPointer::Run(Frame& frame) const {
  int64_t buffer[kChunk];
  const int64_t count = LanesOf(frame, lanes);
  const uint64_t* p = frame.As<uint64_t>(pointer);
  uint64_t* r = frame.As<uint64_t>(result);
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t n = std::min(kChunk, count - first);
    const void* in[3] = {frame.at[offset] + first * offset_bytes, nullptr, nullptr};
    widen(in, buffer, n);
    for (int64_t i = 0; i < n; ++i) r[first + i] = p[first + i] + uint64_t(buffer[i]) * uint64_t(scale);
  }
  return true;
}

bool Copy::Run(Frame& frame) const {
  std::memmove(frame.at[result], frame.at[source], LanesOf(frame, lanes) * bytes);
  return true;
}

bool ProgramIndex::Run(Frame& frame) const {
  std::fill_n(frame.As<uint32_t>(result), LanesOf(frame, lanes), count ? frame.grid[axis] : frame.pid[axis]);
  return true;
}

//===-- control flow --------------------------------------------------------------------------===//

void ParallelCopy::Run(Frame& frame) const {
  for (const Move& move : moves)
    if (move.temporary != kNoSlot) std::memcpy(frame.at[move.temporary], frame.at[move.source], move.bytes);
  for (const Move& move : moves) {
    const uint8_t* source = frame.at[move.temporary != kNoSlot ? move.temporary : move.source];
    if (source != frame.at[move.target]) std::memcpy(frame.at[move.target], source, move.bytes);
  }
}

bool For::Run(Frame& frame) const {
  for (const SlotUse& bound : {begin, end, step})
    if (!CheckUniform(frame, bound.slot, bound.kind, bound.lanes)) return false;
  const int64_t index_lanes = LanesOf(frame, index.lanes);
  enter.Run(frame);
  const int64_t first = SignedValue(frame.at[begin.slot], begin.kind), last = SignedValue(frame.at[end.slot], end.kind);
  const int64_t by = SignedValue(frame.at[step.slot], step.kind);
  if (by <= 0) {
    if (by == 0 && first < last) return Fail(frame, absl::StatusCode::kFailedPrecondition, "the step of this loop is 0: it would never end");
    if (by < 0 && first > last && frame.options.print && !frame.remarked_negative_step) {
      frame.remarked_negative_step = true;
      frame.options.print(absl::StrCat("note: ", frame.program->places[place],
                                       ": a loop whose step is negative at run time has no iterations"));
    }
    return true;
  }
  for (int64_t i = first; i < last;) {
    for (int64_t lane = 0; lane < index_lanes; ++lane)
      std::memcpy(frame.at[index.slot] + lane * Bytes(index.kind), &i, Bytes(index.kind));
    if (!RunCode(body, frame)) return false;
    next.Run(frame);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return true;
}

bool While::Run(Frame& frame) const {
  enter.Run(frame);
  while (true) {
    if (!RunCode(before, frame)) return false;
    if (!CheckUniform(frame, condition, Kind::kI1, condition_lanes)) return false;
    const bool more = *frame.at[condition];
    pass.Run(frame);
    if (!more) return true;
    if (!RunCode(after, frame)) return false;
    next.Run(frame);
  }
}

bool If::Run(Frame& frame) const {
  if (!CheckUniform(frame, condition, Kind::kI1, condition_lanes)) return false;
  bool taken = *frame.at[condition];
  if (!RunCode(taken ? then_code : else_code, frame)) return false;
  (taken ? then_yield : else_yield).Run(frame);
  return true;
}

//===-- checks and output ---------------------------------------------------------------------===//

std::string LaneName(int64_t lane, const std::vector<int64_t>& shape) {
  if (shape.empty()) return "";
  std::vector<int64_t> index(shape.size());
  for (int d = int(shape.size()) - 1; d >= 0; --d) {
    index[d] = lane % shape[d];
    lane /= shape[d];
  }
  std::string text = "[";
  for (size_t d = 0; d < index.size(); ++d) absl::StrAppend(&text, d ? ", " : "", index[d]);
  return text + "]";
}

bool Check::Run(Frame& frame) const {
  for (int64_t i = 0; i < lanes; ++i) {
    if (frame.at[condition][i] || (mask != kNoSlot && !frame.at[mask][i])) continue;
    std::string lane = LaneName(i, shape);
    return Fail(frame, code, lane.empty() ? sentence : absl::StrCat(sentence, ", lane ", lane));
  }
  return true;
}

bool CheckHint::Run(Frame& frame) const {
  const uint8_t* data = frame.at[value.slot];
  std::memcpy(frame.at[result], data, value.bytes());
  const int size = Bytes(value.kind);
  auto at = [&](int64_t lane) { return SignedValue(data + lane * size, value.kind); };
  auto broken = [&](int64_t lane, std::string promise) {
    std::string sentence = absl::StrCat("broken promise: lane ", shape.empty() ? "[]" : LaneName(lane, shape), " = ", at(lane), " ", promise);
    if (frame.options.strict_hints) return Fail(frame, absl::StatusCode::kFailedPrecondition, sentence);
    std::vector<int>& remarked = frame.remarked_hints;
    if (frame.options.print && std::find(remarked.begin(), remarked.end(), place) == remarked.end()) {
      remarked.push_back(place);
      frame.options.print(absl::StrCat("note: ", frame.program->places[place], ": ", sentence));
    }
    return true;
  };
  if (shape.empty()) {
    int64_t by = divisibility.empty() ? 0 : divisibility[0];
    if (by > 1 && at(0) % by != 0) return broken(0, absl::StrCat("is no multiple of ", by));
    return true;
  }
  int64_t stride = 1;
  for (int d = int(shape.size()) - 1; d >= 0; stride *= shape[d--]) {
    auto entry = [&](const std::vector<int64_t>& list) { return d < int(list.size()) ? list[d] : 0; };
    const int64_t by = entry(divisibility), run = entry(contiguity), equal = entry(constancy);
    for (int64_t lane = 0; lane < value.lanes; ++lane) {
      const int64_t i = lane / stride % shape[d];
      const bool follows = i > 0 && at(lane) == at(lane - stride) + step;
      if (run > 1 && i % run != 0 && !follows)
        return broken(lane, absl::StrCat("does not follow the lane before it, but runs of ", run, " were promised along dimension ", d));
      if (equal > 1 && i % equal != 0 && at(lane) != at(lane - stride))
        return broken(lane, absl::StrCat("differs from the lane before it, but runs of ", equal, " equal values were promised along dimension ", d));
      if (by > 1 && (run > 1 ? i % run == 0 : !follows) && at(lane) % by != 0)
        return broken(lane, absl::StrCat("is no multiple of ", by));
    }
  }
  return true;
}

namespace {

std::string FormatValue(const uint8_t* data, Kind kind, bool hex, bool is_unsigned, bool is_pointer) {
  const int size = Bytes(kind);
  uint64_t bits = 0;
  std::memcpy(&bits, data, size);
  if (hex || is_pointer) return absl::StrFormat("0x%0*x", 2 * size, bits);
  if (kind == Kind::kF32) return absl::StrFormat("%f", BitCast<float>(uint32_t(bits)));
  if (kind == Kind::kF64) return absl::StrFormat("%f", BitCast<double>(bits));
  if (IsSmallFloat(kind)) return absl::StrFormat("%f", DecodeSmallFloat(kind, uint32_t(bits)));
  if (is_unsigned || kind == Kind::kI1) return absl::StrCat(bits);
  return absl::StrCat(SignedValue(data, kind));
}

}  // namespace

bool Print::Run(Frame& frame) const {
  if (!frame.options.print) return true;
  std::string program = absl::StrFormat("pid (%d, %d, %d)", frame.pid[0], frame.pid[1], frame.pid[2]);
  if (operands.empty()) frame.options.print(absl::StrCat(program, " ", prefix));
  const char* colon = absl::EndsWith(prefix, ": ") ? "" : absl::EndsWith(prefix, ":") ? " " : ": ";
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& operand = operands[k];
    for (int64_t i = 0; i < operand.use.lanes; ++i) {
      std::string lane = LaneName(i, operand.shape);
      if (!lane.empty()) {
        lane.front() = '(';
        lane.back() = ')';
      } else {
        lane = "()";
      }
      frame.options.print(absl::StrCat(
          program, " idx ", lane, " ", prefix, colon, operands.size() > 1 ? absl::StrCat("(operand ", k, ") ") : "",
          FormatValue(frame.at[operand.use.slot] + i * Bytes(operand.use.kind), operand.use.kind, hex,
                      operand.is_unsigned, operand.is_pointer)));
    }
  }
  return true;
}

}  // namespace tessera::interpreter
