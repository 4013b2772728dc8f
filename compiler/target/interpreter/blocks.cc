#include "compiler/target/interpreter/blocks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tessera::interpreter {
namespace {

// Calls `function` with a value of the unsigned type that has `bytes` bytes.
template <typename Function>
void ForSize(int bytes, Function function) {
  switch (bytes) {
    case 1: return function(uint8_t{});
    case 2: return function(uint16_t{});
    case 4: return function(uint32_t{});
    default: return function(uint64_t{});
  }
}

// Row `from` of [outer, source_extent, inner] to row `to` of [outer, result_extent, inner], for all of outer.
struct Rows {
  int64_t outer, inner;
  int bytes;

  // Rows first, first + step, ... of the source to rows 0, 1, ... of the result, which may be the source when rows
  // only move towards the front.
  void Gather(const uint8_t* source, int64_t source_extent, int64_t first, int64_t step, uint8_t* result, int64_t result_extent) const {
    if (inner == 1) {
      ForSize(bytes, [&](auto element) {
        using U = decltype(element);
        auto* s = reinterpret_cast<const U*>(source);
        auto* r = reinterpret_cast<U*>(result);
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t i = 0; i < result_extent; ++i) r[o * result_extent + i] = s[o * source_extent + first + i * step];
      });
      return;
    }
    const int64_t row = inner * bytes;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < result_extent; ++i)
        std::memmove(result + (o * result_extent + i) * row, source + (o * source_extent + first + i * step) * row, row);
  }
  // The only row of the source to row `to` of the result.
  void Put(const uint8_t* source, uint8_t* result, int64_t result_extent, int64_t to) const {
    const int64_t row = inner * bytes;
    for (int64_t o = 0; o < outer; ++o) std::memcpy(result + (o * result_extent + to) * row, source + o * row, row);
  }
};

int64_t IntegerAt(const uint8_t* data, Kind kind, int64_t i, bool is_unsigned) {
  switch (kind) {
    case Kind::kI8: return is_unsigned ? data[i] : int64_t(reinterpret_cast<const int8_t*>(data)[i]);
    case Kind::kI16: {
      uint16_t value = reinterpret_cast<const uint16_t*>(data)[i];
      return is_unsigned ? value : int64_t(int16_t(value));
    }
    case Kind::kI32: {
      uint32_t value = reinterpret_cast<const uint32_t*>(data)[i];
      return is_unsigned ? value : int64_t(int32_t(value));
    }
    case Kind::kI64: return reinterpret_cast<const int64_t*>(data)[i];
    default: return data[i];
  }
}

}  // namespace

bool Range::Run(Frame& frame) const {
  int32_t* r = frame.As<int32_t>(result);
  for (int64_t i = 0, n = int64_t(end) - start; i < n; ++i) r[i] = int32_t(start + i);
  return true;
}

bool Splat::Run(Frame& frame) const {
  ForSize(bytes, [&](auto element) {
    using U = decltype(element);
    std::fill_n(frame.As<U>(result), LanesOf(frame, lanes), *frame.As<U>(source));
  });
  return true;
}

bool Strided::Run(Frame& frame) const {
  ForSize(bytes, [&](auto element) {
    using U = decltype(element);
    const U* s = frame.As<U>(source);
    U* r = frame.As<U>(result);
    const int rank = int(shape.size());
    int64_t total = 1;
    for (int64_t extent : shape) total *= extent;
    const int64_t last = shape[rank - 1], step = strides[rank - 1];
    std::vector<int64_t> index(rank, 0);
    int64_t offset = 0;
    for (int64_t done = 0; done < total; done += last) {
      if (step == 1) std::memcpy(r + done, s + offset, last * sizeof(U));
      else if (step == 0) std::fill_n(r + done, last, s[offset]);
      else for (int64_t i = 0; i < last; ++i) r[done + i] = s[offset + i * step];
      for (int d = rank - 2; d >= 0; --d) {
        offset += strides[d];
        if (++index[d] < shape[d]) break;
        offset -= strides[d] * shape[d];
        index[d] = 0;
      }
    }
  });
  return true;
}

bool Join::Run(Frame& frame) const {
  ForSize(bytes, [&](auto element) {
    using U = decltype(element);
    const U *l = frame.As<U>(lhs), *r = frame.As<U>(rhs);
    U* out = frame.As<U>(result);
    if (concatenate) {
      std::memcpy(out, l, lanes * sizeof(U));
      std::memcpy(out + lanes, r, lanes * sizeof(U));
      return;
    }
    for (int64_t i = 0; i < lanes; ++i) {
      out[2 * i] = l[i];
      out[2 * i + 1] = r[i];
    }
  });
  return true;
}

bool Split::Run(Frame& frame) const {
  ForSize(bytes, [&](auto element) {
    using U = decltype(element);
    const U* in = frame.As<U>(source);
    U *l = frame.As<U>(lhs), *r = frame.As<U>(rhs);
    for (int64_t i = 0; i < lanes; ++i) {
      l[i] = in[2 * i];
      r[i] = in[2 * i + 1];
    }
  });
  return true;
}

//===-- dot -----------------------------------------------------------------------------------===//

namespace {

template <typename F>
std::vector<F> ToFloats(const uint8_t* data, Kind kind, int64_t lanes) {
  std::vector<F> values(lanes);
  if (kind == Kind::kF64) {
    for (int64_t i = 0; i < lanes; ++i) values[i] = F(reinterpret_cast<const double*>(data)[i]);
  } else if (kind == Kind::kF32) {
    for (int64_t i = 0; i < lanes; ++i) values[i] = F(reinterpret_cast<const float*>(data)[i]);
  } else if constexpr (std::is_same_v<F, float>) {
    DecodeLanes(kind, data, values.data(), lanes);
  } else {
    std::vector<float> narrow(lanes);
    DecodeLanes(kind, data, narrow.data(), lanes);
    values.assign(narrow.begin(), narrow.end());
  }
  return values;
}

// acc[m, n] += a[m, k] * b[k, n], in the order of k.
template <typename F>
void MultiplyAdd(const F* a, const F* b, F* acc, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    F* row = acc + i * n;
    for (int64_t l = 0; l < k; ++l) {
      const F factor = a[i * k + l];
      const F* other = b + l * n;
      for (int64_t j = 0; j < n; ++j) row[j] += factor * other[j];
    }
  }
}

float DropLowBits(float value) { return std::isnan(value) ? value : BitCast<float>(BitCast<uint32_t>(value) & 0xffffe000u); }
float RoundToBf16(float value) { return Bf16ToFloat(FloatToBf16(value)); }

// Terms whose sum is (nearly) the value, the largest first.
template <typename Round>
std::vector<std::vector<float>> SplitTerms(const std::vector<float>& values, int terms, Round round) {
  std::vector<std::vector<float>> parts;
  std::vector<float> rest = values;
  for (int t = 0; t < terms; ++t) {
    std::vector<float> part(rest.size());
    for (size_t i = 0; i < rest.size(); ++i) {
      part[i] = round(rest[i]);
      rest[i] -= part[i];
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void MultiplySplit(const std::vector<float>& a, const std::vector<float>& b, DotPrecision precision, float* sum,
                   int64_t m, int64_t n, int64_t k) {
  // Which part of a meets which part of b: small corrections first, the leading product last.
  static const std::vector<std::pair<int, int>> kThree = {{1, 0}, {0, 1}};
  static const std::vector<std::pair<int, int>> kSix = {{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}};
  const bool tf32 = precision == DotPrecision::kTf32x3;
  const auto& corrections = precision == DotPrecision::kBf16x6 ? kSix : kThree;
  const int terms = precision == DotPrecision::kBf16x6 ? 3 : 2;
  auto split = [&](const std::vector<float>& v) {
    return tf32 ? SplitTerms(v, terms, DropLowBits) : SplitTerms(v, terms, RoundToBf16);
  };
  const auto as = split(a), bs = split(b);
  for (auto [i, j] : corrections) MultiplyAdd(as[i].data(), bs[j].data(), sum, m, n, k);
  // Infinite operands have no correction: infinity minus itself is NaN.
  for (int64_t i = 0; i < m * n; ++i)
    if (std::isnan(sum[i])) sum[i] = 0;
  MultiplyAdd(as[0].data(), bs[0].data(), sum, m, n, k);
}

}  // namespace

template <typename F>
void Dot::RunFloat(Frame& frame) const {
  const int64_t a_size = m * k, b_size = k * n, c_size = m * n;
  for (int64_t p = 0; p < batch; ++p) {
    std::vector<F> left = ToFloats<F>(frame.at[a.slot] + p * a_size * Bytes(a.kind), a.kind, a_size);
    std::vector<F> right = ToFloats<F>(frame.at[b.slot] + p * b_size * Bytes(b.kind), b.kind, b_size);
    std::vector<F> sum = ToFloats<F>(frame.at[c.slot] + p * c_size * Bytes(c.kind), c.kind, c_size);
    bool plain = true;
    if constexpr (std::is_same_v<F, float>) {
      if (a.kind == Kind::kF32 && precision == DotPrecision::kTf32) {
        for (float& value : left) value = DropLowBits(value);
        for (float& value : right) value = DropLowBits(value);
      } else if (a.kind == Kind::kF32 && precision != DotPrecision::kIeee) {
        plain = false;
        std::vector<float> product(c_size, 0.0f);
        MultiplySplit(left, right, precision, product.data(), m, n, k);
        for (int64_t i = 0; i < c_size; ++i) sum[i] += product[i];
      }
    }
    if (plain) MultiplyAdd(left.data(), right.data(), sum.data(), m, n, k);
    uint8_t* out = frame.at[result] + p * c_size * Bytes(c.kind);
    if constexpr (std::is_same_v<F, float>) {
      if (IsSmallFloat(c.kind)) {
        EncodeLanes(c.kind, sum.data(), out, c_size);
        continue;
      }
      std::memcpy(out, sum.data(), c_size * sizeof(float));
    } else {
      for (int64_t i = 0; i < c_size; ++i) {
        if (c.kind == Kind::kF64) reinterpret_cast<double*>(out)[i] = sum[i];
        else reinterpret_cast<float*>(out)[i] = float(sum[i]);
      }
    }
  }
}

void Dot::RunInteger(Frame& frame) const {
  for (int64_t p = 0; p < batch; ++p)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = (p * m + i) * n + j;
        uint64_t sum = uint64_t(IntegerAt(frame.at[c.slot], c.kind, at, false));
        for (int64_t l = 0; l < k; ++l)
          sum += uint64_t(IntegerAt(frame.at[a.slot], a.kind, (p * m + i) * k + l, false)) *
                 uint64_t(IntegerAt(frame.at[b.slot], b.kind, (p * k + l) * n + j, false));
        std::memcpy(frame.at[result] + at * Bytes(c.kind), &sum, Bytes(c.kind));
      }
}

bool Dot::Run(Frame& frame) const {
  if (!IsFloat(a.kind)) RunInteger(frame);
  else if (a.kind == Kind::kF64 || c.kind == Kind::kF64) RunFloat<double>(frame);
  else RunFloat<float>(frame);
  return true;
}

//===-- reductions ----------------------------------------------------------------------------===//

bool Region::Apply(Frame& frame, const std::vector<const uint8_t*>& in, const std::vector<uint8_t*>& out, int64_t lanes) const {
  if (by_lanes) {
    const int64_t before = frame.region_lanes;
    frame.region_lanes = lanes;
    for (size_t i = 0; i < arguments.size(); ++i) frame.at[arguments[i].slot] = const_cast<uint8_t*>(in[i]);
    if (!RunCode(code, frame)) return false;
    for (size_t i = 0; i < results.size(); ++i)
      std::memcpy(out[i], frame.at[results[i].slot], lanes * Bytes(results[i].kind));
    frame.region_lanes = before;
    return true;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const int bytes = Bytes(arguments[i].kind);
      std::memcpy(frame.at[arguments[i].slot], in[i] + lane * bytes, bytes);
    }
    if (!RunCode(code, frame)) return false;
    for (size_t i = 0; i < results.size(); ++i) {
      const int bytes = Bytes(results[i].kind);
      std::memcpy(out[i] + lane * bytes, frame.at[results[i].slot], bytes);
    }
  }
  return true;
}

bool Reduce::Run(Frame& frame) const {
  const size_t count = sources.size();
  std::vector<const uint8_t*> in(2 * count), current(count);
  std::vector<uint8_t*> out(count);
  for (size_t i = 0; i < count; ++i) {
    current[i] = frame.at[sources[i].slot];
    out[i] = frame.at[left[i]];
    in[i] = out[i];
    in[count + i] = frame.at[right[i]];
  }
  auto rows = [&](size_t i) { return Rows{outer, inner, Bytes(sources[i].kind)}; };
  if (ordered) {
    for (size_t i = 0; i < count; ++i) rows(i).Gather(current[i], extent, 0, 1, out[i], 1);
    for (int64_t row = 1; row < extent; ++row) {
      for (size_t i = 0; i < count; ++i) rows(i).Gather(current[i], extent, row, 1, frame.at[right[i]], 1);
      if (!region.Apply(frame, in, out, outer * inner)) return false;
    }
    for (size_t i = 0; i < count; ++i) current[i] = out[i];
  } else {
    for (int64_t rest = extent; rest > 1; rest /= 2) {
      for (size_t i = 0; i < count; ++i) {
        rows(i).Gather(current[i], rest, 1, 2, frame.at[right[i]], rest / 2);
        rows(i).Gather(current[i], rest, 0, 2, out[i], rest / 2);
        current[i] = out[i];
      }
      if (!region.Apply(frame, in, out, outer * (rest / 2) * inner)) return false;
    }
  }
  for (size_t i = 0; i < count; ++i)
    std::memcpy(frame.at[results[i]], current[i], outer * inner * Bytes(sources[i].kind));
  return true;
}

bool Scan::Run(Frame& frame) const {
  const size_t count = sources.size();
  std::vector<const uint8_t*> in(2 * count);
  std::vector<uint8_t*> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = frame.at[prefix[i]];
    in[i] = out[i];
    in[count + i] = frame.at[next[i]];
  }
  for (int64_t step = 0; step < extent; ++step) {
    const int64_t row = reverse ? extent - 1 - step : step;
    for (size_t i = 0; i < count; ++i) {
      Rows rows{outer, inner, Bytes(sources[i].kind)};
      rows.Gather(frame.at[sources[i].slot], extent, row, 1, step == 0 ? out[i] : frame.at[next[i]], 1);
    }
    if (step > 0 && !region.Apply(frame, in, out, outer * inner)) return false;
    for (size_t i = 0; i < count; ++i)
      Rows{outer, inner, Bytes(sources[i].kind)}.Put(out[i], frame.at[results[i]], extent, row);
  }
  return true;
}

bool Map::Run(Frame& frame) const {
  std::vector<const uint8_t*> in;
  std::vector<uint8_t*> out;
  for (int slot : sources) in.push_back(frame.at[slot]);
  for (int slot : results) out.push_back(frame.at[slot]);
  return region.Apply(frame, in, out, lanes);
}

//===-- order ---------------------------------------------------------------------------------===//

namespace {

// Triton's bitonic network, so that NaN ends up where it does there.
template <typename Key, typename U>
void SortRow(std::vector<std::pair<Key, U>>& row, bool descending) {
  const size_t n = row.size();
  for (size_t block = 2; block <= n; block *= 2)
    for (size_t distance = block / 2; distance > 0; distance /= 2)
      for (size_t i = 0; i < n; ++i) {
        if (i & distance) continue;
        const bool flip = block == n ? descending : (i & block) != 0;
        if ((row[i].first > row[i + distance].first) != flip) std::swap(row[i], row[i + distance]);
      }
}

template <typename Key, typename U, typename KeyOf>
void SortRows(const U* source, U* result, int64_t lanes, int64_t extent, bool descending, KeyOf key_of) {
  std::vector<std::pair<Key, U>> row(extent);
  for (int64_t first = 0; first < lanes; first += extent) {
    for (int64_t i = 0; i < extent; ++i) row[i] = {Key(key_of(first + i)), source[first + i]};
    SortRow(row, descending);
    for (int64_t i = 0; i < extent; ++i) result[first + i] = row[i].second;
  }
}

}  // namespace

bool Sort::Run(Frame& frame) const {
  const uint8_t* data = frame.at[source.slot];
  ForSize(Bytes(source.kind), [&](auto element) {
    using U = decltype(element);
    const U* in = reinterpret_cast<const U*>(data);
    U* out = frame.As<U>(result);
    if (!IsFloat(source.kind)) {
      auto key = [&](int64_t i) { return IntegerAt(data, source.kind, i, is_unsigned); };
      if (is_unsigned) SortRows<uint64_t>(in, out, source.lanes, extent, descending, key);
      else SortRows<int64_t>(in, out, source.lanes, extent, descending, key);
      return;
    }
    SortRows<double>(in, out, source.lanes, extent, descending, [&](int64_t i) -> double {
      if (source.kind == Kind::kF64) return reinterpret_cast<const double*>(data)[i];
      if (source.kind == Kind::kF32) return reinterpret_cast<const float*>(data)[i];
      return DecodeSmallFloat(source.kind, uint32_t(in[i]));
    });
  });
  return true;
}

bool Gather::Run(Frame& frame) const {
  const int bytes = Bytes(source.kind);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < index_extent; ++i)
      for (int64_t n = 0; n < inner; ++n) {
        const int64_t at = (o * index_extent + i) * inner + n;
        const int64_t from = IntegerAt(frame.at[index.slot], index.kind, at, false);
        if (from < 0 || from >= source_extent)
          return Fail(frame, absl::StatusCode::kOutOfRange,
                      absl::StrCat("gather: index ", from, " of element ", at, " is outside the extent ", source_extent));
        std::memcpy(frame.at[result] + at * bytes, frame.at[source.slot] + ((o * source_extent + from) * inner + n) * bytes, bytes);
      }
  return true;
}

bool Histogram::Run(Frame& frame) const {
  uint32_t* counts = frame.As<uint32_t>(result);
  std::fill_n(counts, bins, 0);
  for (int64_t i = 0; i < source.lanes; ++i) {
    if (mask != kNoSlot && !frame.at[mask][i]) continue;
    const int64_t value = IntegerAt(frame.at[source.slot], source.kind, i, true);
    if (value >= 0 && value < bins) ++counts[value];
  }
  return true;
}

}  // namespace tessera::interpreter
