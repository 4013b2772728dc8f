// The yardstick: row softmax in plain C++, built at -Ofast -march=native so that expf becomes libmvec's vector form.
#include <cmath>
#include <cstdint>

extern "C" void SoftmaxReference(const float* __restrict x, float* __restrict out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in_row = x + r * cols;
    float* __restrict out_row = out + r * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < cols; ++c) top = in_row[c] > top ? in_row[c] : top;
    for (int64_t c = 0; c < cols; ++c) {
      out_row[c] = expf(in_row[c] - top);
      sum += out_row[c];
    }
    float scale = 1 / sum;
    for (int64_t c = 0; c < cols; ++c) out_row[c] *= scale;
  }
}
