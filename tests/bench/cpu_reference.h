// Hand-written, vectorised C++ for the kernels of cpu_benchmark.cc. Built apart, at -O3 -march=native.
#ifndef TESSERA_TESTS_BENCH_CPU_REFERENCE_H_
#define TESSERA_TESTS_BENCH_CPU_REFERENCE_H_

#include <cstdint>

extern "C" {

uint16_t ReferenceToHalf(float x);
float ReferenceFromHalf(uint16_t bits);

void ReferenceAdd(const float* x, const float* y, float* out, int64_t n);
// tanh form.
void ReferenceGelu(const float* x, float* out, int64_t n);
// x * sigmoid(x) * y, in fp32 between fp16 loads and stores.
void ReferenceSiluMul(const uint16_t* x, const uint16_t* y, uint16_t* out, int64_t n);
void ReferenceRowSum(const float* x, float* out, int64_t rows, int64_t cols);
// Over columns `first` to `last` of a row-major matrix with `cols` columns.
void ReferenceColumnSum(const float* x, float* out, int64_t rows, int64_t cols, int64_t first, int64_t last);
void ReferenceLayerNorm(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t cols, float eps);
// Rows `first` to `last` of c = a @ b; row-major, fp32.
void ReferenceMatmul(const float* a, const float* b, float* c, int64_t n, int64_t k, int64_t first, int64_t last);
// The same with fp16 operands; sums in fp32, result fp16.
void ReferenceMatmulHalf(const uint16_t* a, const uint16_t* b, uint16_t* c, int64_t n, int64_t k, int64_t first, int64_t last);

}  // extern "C"

#endif  // TESSERA_TESTS_BENCH_CPU_REFERENCE_H_
