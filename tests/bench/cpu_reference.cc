#include "tests/bench/cpu_reference.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace {

constexpr int kLanes = 16;
typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVector __attribute__((vector_size(4 * kLanes)));

inline Vector Load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void Store(float* p, Vector v) { std::memcpy(p, &v, sizeof v); }
inline Vector Broadcast(float x) { return x - Vector{}; }
inline float ToFloat(float x) { return x; }
inline float ToFloat(uint16_t bits) { return _cvtsh_ss(bits); }
inline void FromFloat(float x, float* out) { *out = x; }
inline void FromFloat(float x, uint16_t* out) { *out = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#ifdef __AVX512F__
inline Vector LoadHalf(const uint16_t* p) { return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline void StoreHalf(uint16_t* p, Vector v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}
#else
// Sixteen halves as two vectors of eight: what AVX with F16C has.
inline Vector LoadHalf(const uint16_t* p) {
  Vector v;
  for (int i = 0; i < 2; ++i) {
    __m256 part = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i));
    std::memcpy(reinterpret_cast<char*>(&v) + 32 * i, &part, 32);
  }
  return v;
}
inline void StoreHalf(uint16_t* p, Vector v) {
  for (int i = 0; i < 2; ++i) {
    __m256 part;
    std::memcpy(&part, reinterpret_cast<char*>(&v) + 32 * i, 32);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p) + i, _mm256_cvtps_ph(part, _MM_FROUND_TO_NEAREST_INT));
  }
}
#endif
inline float Sum(Vector v) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

// e^x for |x| below 87, to one unit in the last place or so.
inline Vector Exp(Vector x) {
  x = x > 87.0f ? Broadcast(87.0f) : x;
  x = x < -87.0f ? Broadcast(-87.0f) : x;
  Vector scaled = x * 1.44269504f + 12582912.0f;  // the nearest integer in the low bits
  IntVector exponent = (IntVector)scaled << 23;
  Vector whole = scaled - 12582912.0f;
  Vector r = x - whole * 0.693145752f - whole * 1.42860677e-6f;
  Vector p = r * 1.38888889e-3f + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  return (Vector)((IntVector)p + exponent);
}

// c[MR rows][2 vectors] += a (packed, MR a step) * b (packed, 2 vectors a step).
constexpr int kRows = 6, kColumns = 2 * kLanes;

inline void Micro(const float* a, const float* b, int64_t k, Vector (&sum)[kRows][2]) {
  for (int64_t i = 0; i < k; ++i) {
    Vector b0 = Load(b + i * kColumns), b1 = Load(b + i * kColumns + kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      Vector left = Broadcast(a[i * kRows + r]);
      sum[r][0] += left * b0;
      sum[r][1] += left * b1;
    }
  }
}

inline Vector LoadAny(const float* p) { return Load(p); }
inline Vector LoadAny(const uint16_t* p) { return LoadHalf(p); }

template <typename T>
void Matmul(const T* a, const T* b, T* c, int64_t n, int64_t k, int64_t first, int64_t last) {
  constexpr int64_t kDepth = 256;
  const int64_t rows = last - first, panels = (n + kColumns - 1) / kColumns, strips = (rows + kRows - 1) / kRows;
  std::vector<float> sums(strips * kRows * panels * kColumns), packed_a(strips * kRows * kDepth), packed_b(kColumns * kDepth);
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - k0);
    for (int64_t s = 0; s < strips; ++s)
      for (int64_t i = 0; i < depth; ++i)
        for (int r = 0; r < kRows; ++r) {
          int64_t row = s * kRows + r;
          packed_a[(s * depth + i) * kRows + r] = row < rows ? ToFloat(a[(first + row) * k + k0 + i]) : 0;
        }
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t width = std::min<int64_t>(kColumns, n - p * kColumns);
      for (int64_t i = 0; width == kColumns && i < depth; ++i)
        for (int v = 0; v < 2; ++v) Store(&packed_b[i * kColumns + v * kLanes], LoadAny(b + (k0 + i) * n + p * kColumns + v * kLanes));
      for (int64_t i = 0; width < kColumns && i < depth; ++i)
        for (int j = 0; j < kColumns; ++j) packed_b[i * kColumns + j] = j < width ? ToFloat(b[(k0 + i) * n + p * kColumns + j]) : 0;
      for (int64_t s = 0; s < strips; ++s) {
        float* out = &sums[(p * strips + s) * kRows * kColumns];
        Vector sum[kRows][2];
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < 2; ++v) sum[r][v] = Load(out + r * kColumns + v * kLanes);
        Micro(&packed_a[s * depth * kRows], packed_b.data(), depth, sum);
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < 2; ++v) Store(out + r * kColumns + v * kLanes, sum[r][v]);
      }
    }
  }
  for (int64_t s = 0; s < strips; ++s)
    for (int r = 0; r < kRows && s * kRows + r < rows; ++r)
      for (int64_t p = 0; p < panels; ++p)
        for (int64_t j = 0; j < std::min<int64_t>(kColumns, n - p * kColumns); ++j)
          FromFloat(sums[((p * strips + s) * kRows + r) * kColumns + j], &c[(first + s * kRows + r) * n + p * kColumns + j]);
}

}  // namespace

uint16_t ReferenceToHalf(float x) {
  uint16_t bits;
  FromFloat(x, &bits);
  return bits;
}
float ReferenceFromHalf(uint16_t bits) { return ToFloat(bits); }

void ReferenceAdd(const float* x, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void ReferenceGelu(const float* x, float* out, int64_t n) {
  int64_t i = 0;
  auto gelu = [](Vector v) {
    Vector inner = 1.5957691216f * (v + 0.044715f * v * v * v);  // twice
    return v / (1.0f + Exp(-inner));                             // 0.5 * (1 + tanh(u)) = 1 / (1 + e^-2u)
  };
  for (; i + kLanes <= n; i += kLanes) Store(out + i, gelu(Load(x + i)));
  for (; i < n; ++i) out[i] = gelu(Broadcast(x[i]))[0];
}

void ReferenceSiluMul(const uint16_t* x, const uint16_t* y, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) {
    Vector v = LoadHalf(x + i);
    StoreHalf(out + i, v / (1.0f + Exp(-v)) * LoadHalf(y + i));
  }
}

void ReferenceRowSum(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    Vector sum[4] = {};
    int64_t c = 0;
    for (; c + 4 * kLanes <= cols; c += 4 * kLanes)
      for (int v = 0; v < 4; ++v) sum[v] += Load(x + c + v * kLanes);
    float rest = 0;
    for (; c < cols; ++c) rest += x[c];
    out[r] = Sum(sum[0] + sum[1] + sum[2] + sum[3]) + rest;
  }
}

void ReferenceColumnSum(const float* x, float* out, int64_t rows, int64_t cols, int64_t first, int64_t last) {
  for (int64_t c = first; c + 4 * kLanes <= last; c += 4 * kLanes) {
    Vector sum[4] = {};
    for (int64_t r = 0; r < rows; ++r)
      for (int v = 0; v < 4; ++v) sum[v] += Load(x + r * cols + c + v * kLanes);
    for (int v = 0; v < 4; ++v) Store(out + c + v * kLanes, sum[v]);
  }
}

void ReferenceLayerNorm(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t cols, float eps) {
  for (int64_t r = 0; r < rows; ++r, x += cols, out += cols) {
    float mean = 0;
    ReferenceRowSum(x, &mean, 1, cols);
    mean /= cols;
    Vector squares[2] = {};
    int64_t c = 0;
    for (; c + 2 * kLanes <= cols; c += 2 * kLanes)
      for (int v = 0; v < 2; ++v) {
        Vector d = Load(x + c + v * kLanes) - mean;
        squares[v] += d * d;
      }
    float rest = 0;
    for (; c < cols; ++c) rest += (x[c] - mean) * (x[c] - mean);
    const float scale = 1 / std::sqrt((Sum(squares[0] + squares[1]) + rest) / cols + eps);
    c = 0;
    for (; c + kLanes <= cols; c += kLanes) Store(out + c, (Load(x + c) - mean) * scale * Load(weight + c) + Load(bias + c));
    for (; c < cols; ++c) out[c] = (x[c] - mean) * scale * weight[c] + bias[c];
  }
}

void ReferenceMatmul(const float* a, const float* b, float* c, int64_t n, int64_t k, int64_t first, int64_t last) { Matmul(a, b, c, n, k, first, last); }
void ReferenceMatmulHalf(const uint16_t* a, const uint16_t* b, uint16_t* c, int64_t n, int64_t k, int64_t first, int64_t last) {
  Matmul(a, b, c, n, k, first, last);
}
