#include "compiler/target/nvptx/emulator/matrix.h"

#include "compiler/target/interpreter/formats.h"

namespace tessera::emulator {
namespace {

using interpreter::BitCast;
using interpreter::Kind;

float Decode(MatrixType type, uint64_t bits) {
  switch (type) {
    case MatrixType::kF16: return interpreter::F16ToFloat(uint16_t(bits));
    case MatrixType::kBf16: return interpreter::Bf16ToFloat(uint16_t(bits));
    case MatrixType::kTf32: return BitCast<float>(uint32_t(bits) & ~uint32_t{0x1fff});  // the hardware drops these bits
    case MatrixType::kE4M3: return interpreter::DecodeSmallFloat(Kind::kF8E4M3Fn, uint32_t(bits));
    case MatrixType::kE5M2: return interpreter::DecodeSmallFloat(Kind::kF8E5M2, uint32_t(bits));
    case MatrixType::kS8: return int8_t(bits);
    case MatrixType::kU8: return uint8_t(bits);
    case MatrixType::kF64: break;
  }
  return 0;
}

template <typename T>
void Accumulate(int m, int n, int k, const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& c) {
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
}

template <typename T, typename F>
std::vector<T> Convert(const std::vector<uint64_t>& bits, F convert) {
  std::vector<T> values(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) values[i] = convert(bits[i]);
  return values;
}

}  // namespace

int Bytes(MatrixType type) {
  switch (type) {
    case MatrixType::kF16: case MatrixType::kBf16: return 2;
    case MatrixType::kTf32: return 4;
    case MatrixType::kF64: return 8;
    default: return 1;
  }
}

Position PositionInA(int lane, int r, int e, int per_register) {
  return {lane / 4 + 8 * (r & 1), (r >> 1) * 4 * per_register + (lane % 4) * per_register + e};
}
Position PositionInB(int lane, int r, int e, int per_register) {
  return {r * 4 * per_register + (lane % 4) * per_register + e, lane / 4};
}
Position PositionInC(int lane, int r, int e, bool pairs) {
  return pairs ? Position{lane / 4 + 8 * r, (lane % 4) * 2 + e} : Position{lane / 4 + 8 * (r >> 1), (lane % 4) * 2 + (r & 1)};
}
Position PositionInWarpGroupC(int thread, int r, int e, bool pairs) {
  const int per_tile = pairs ? 2 : 4;  // registers that cover 8 columns
  Position p = PositionInC(thread % 32, r % per_tile, e, pairs);
  return {thread / 32 * 16 + p.row, r / per_tile * 8 + p.column};
}

void Product::Run() {
  switch (accumulator) {
    case Accumulator::kF64: {
      auto decode = [](uint64_t bits) { return BitCast<double>(bits); };
      std::vector<double> sum = Convert<double>(c, decode);
      Accumulate(m, n, k, Convert<double>(a, decode), Convert<double>(b, decode), sum);
      for (size_t i = 0; i < c.size(); ++i) c[i] = BitCast<uint64_t>(sum[i]);
      return;
    }
    case Accumulator::kI32: {
      auto decode = [](MatrixType type) { return [type](uint64_t bits) { return uint32_t(int32_t(Decode(type, bits))); }; };
      std::vector<uint32_t> sum = Convert<uint32_t>(c, [](uint64_t bits) { return uint32_t(bits); });
      Accumulate(m, n, k, Convert<uint32_t>(a, decode(a_type)), Convert<uint32_t>(b, decode(b_type)), sum);
      for (size_t i = 0; i < c.size(); ++i) c[i] = sum[i];
      return;
    }
    case Accumulator::kF32:
    case Accumulator::kF16Pair: {
      const bool half = accumulator == Accumulator::kF16Pair;
      std::vector<float> sum = Convert<float>(c, [&](uint64_t bits) { return half ? interpreter::F16ToFloat(uint16_t(bits)) : BitCast<float>(uint32_t(bits)); });
      Accumulate(m, n, k, Convert<float>(a, [&](uint64_t bits) { return Decode(a_type, bits); }),
                 Convert<float>(b, [&](uint64_t bits) { return Decode(b_type, bits); }), sum);
      for (size_t i = 0; i < c.size(); ++i) c[i] = half ? interpreter::FloatToF16(sum[i]) : BitCast<uint32_t>(sum[i]);
      return;
    }
  }
}

int64_t DescriptorOffset(int outer, int inner, int element_bytes, bool transposed, Swizzle swizzle, int64_t leading_bytes,
                         int64_t stride_bytes) {
  const int per_chunk = 16 / element_bytes;
  const int row_chunks = 1 << int(swizzle);  // 16-byte chunks of a row of the swizzled atom
  if (!transposed) {  // rows of k; a product takes two chunks of each
    const int chunk = inner / per_chunk;
    const int64_t row = int64_t(outer % 8) * 16 * row_chunks + int64_t(outer / 8) * stride_bytes;
    return row + (swizzle == Swizzle::kNone ? chunk * leading_bytes : chunk * 16);
  }
  const int chunk = outer / per_chunk;
  if (swizzle == Swizzle::kNone) return chunk * stride_bytes + (inner % 8) * 16 + int64_t(inner / 8) * leading_bytes;
  return int64_t(chunk % row_chunks) * 16 + int64_t(chunk / row_chunks) * leading_bytes + int64_t(inner % 8) * 16 * row_chunks +
         int64_t(inner / 8) * stride_bytes;
}

int64_t Swizzled(int64_t address, Swizzle swizzle) {
  return address ^ (address >> 7 & ((1 << int(swizzle)) - 1)) << 4;
}

}  // namespace tessera::emulator
