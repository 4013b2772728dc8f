// Philox and what is made of it, against the published test vectors and a plain implementation.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

using Words = std::array<uint32_t, 4>;

// Philox4x32 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
Words Philox(Words counter, uint32_t key0, uint32_t key1, int rounds = 10) {
  for (int i = 0; i < rounds; ++i) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9, key1 += 0xBB67AE85;
  }
  return counter;
}

double Uniform(uint32_t word) {
  int32_t x = static_cast<int32_t>(word);
  if (x < 0) x = -x - 1;
  return static_cast<double>(RoundTo(DType::kFp32, x)) * RoundTo(DType::kFp32, 4.6566127342e-10);
}

TEST(Random, ReferenceGivesThePublishedVectors) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, PhiloxRandintRandAndRandnAreTritons) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(ints, four, uniform, normal, seed):
    i = tl.arange(0, 256)
    tl.store(ints + i, tl.randint(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(four + i, a)
    tl.store(four + 256 + i, b)
    tl.store(four + 512 + i, c)
    tl.store(four + 768 + i, d)
    tl.store(uniform + i, tl.rand(seed, i))
    tl.store(normal + i, tl.randn(seed, i))
    tl.store(ints + 256 + i, tl.randint(seed, i, n_rounds=7))
)py";
  for (int64_t seed : {int64_t{0}, int64_t{42}, int64_t{0x123456789abcdef}}) {
    const uint32_t low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32);
    std::vector<int64_t> ints(512), four(1024);
    std::vector<double> uniform(256), normal(256);
    for (uint32_t i = 0; i < 256; ++i) {
      const Words words = Philox({i, 0, 0, 0}, low, high);
      ints[i] = words[0], ints[256 + i] = Philox({i, 0, 0, 0}, low, high, 7)[0];
      for (size_t k = 0; k < 4; ++k) four[k * 256 + i] = words[k];
      uniform[i] = Uniform(words[0]);
      normal[i] = std::sqrt(-2 * std::log(std::max(1e-7, uniform[i]))) * std::cos(6.283185307179586 * Uniform(words[1]));
    }
    Launch(program,
           {Arg("ints", Poison(DType::kInt32, 512)), Arg("four", Poison(DType::kInt32, 1024)), Arg("uniform", Poison(DType::kFp32, 256)), Arg("normal", Poison(DType::kFp32, 256)),
            Arg::Integer("seed", "i64", static_cast<uint64_t>(seed))},
           [&](const Results& r) {
             ExpectInts(r.at("ints"), ints);
             ExpectInts(r.at("four"), four);
             ExpectFloats(r.at("uniform"), uniform, kExact);
             ExpectFloats(r.at("normal"), normal, 1e-5);
           });
  }
}

}  // namespace
}  // namespace tessera::conformance
