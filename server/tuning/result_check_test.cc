#include "server/tuning/result_check.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

template <typename T>
absl::Span<const char> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Compare(std::vector<float> want, std::vector<float> got) {
  return DescribeDifference(DType::kFp32, Bytes(want), Bytes(got));
}

TEST(DescribeDifference, AnotherOrderOfSumsIsTheSameFunction) {
  EXPECT_EQ(Compare({1, 2, 3}, {1.0002f, 2, 3}), "");
  EXPECT_NE(Compare({1, 2, 3}, {1.1f, 2, 3}), "");
}

TEST(DescribeDifference, OneWrongElementOfManyIsFound) {
  std::vector<float> want(4000000, 1.0f), got = want;
  got[777] = 0;  // left unwritten: an error of 1/2000 in norm
  EXPECT_NE(Compare(want, got), "");
}

TEST(DescribeDifference, NanAndInfinitiesMustMatch) {
  EXPECT_EQ(Compare({NAN, INFINITY, -INFINITY, 1}, {NAN, INFINITY, -INFINITY, 1.0001f}), "");
  EXPECT_EQ(Compare({1, 2}, {NAN, 2}), "element 0 is nan, not 1");
  EXPECT_NE(Compare({INFINITY}, {-INFINITY}), "");
  EXPECT_NE(Compare({NAN}, {1}), "");
}

TEST(DescribeDifference, AllZeroMustStayZero) {
  EXPECT_NE(Compare({0, 0}, {0, 1e-6f}), "");
  EXPECT_EQ(Compare({0.0f}, {-0.0f}), "");
}

TEST(DescribeDifference, IntegersAreExact) {
  std::vector<int32_t> want = {1, -2, 3}, got = {1, -2, 4};
  EXPECT_EQ(DescribeDifference(DType::kInt32, Bytes(want), Bytes(want)), "");
  EXPECT_EQ(DescribeDifference(DType::kInt32, Bytes(want), Bytes(got)), "element 2 is 4, not 3");
}

TEST(DescribeDifference, EightBitFloatsAreRead) {
  std::vector<uint8_t> want = {0x38, 0x40}, near = {0x38, 0x41}, far = {0x38, 0x70};  // e4m3: 1, 2; 1, 2.25; 1, 128
  EXPECT_EQ(DescribeDifference(DType::kFp8E4M3Fn, Bytes(want), Bytes(near)), "");
  EXPECT_NE(DescribeDifference(DType::kFp8E4M3Fn, Bytes(want), Bytes(far)), "");
  std::vector<uint8_t> nan = {0x7f}, one = {0x38};
  EXPECT_NE(DescribeDifference(DType::kFp8E4M3Fn, Bytes(nan), Bytes(one)), "");
}

TEST(DescribeDifference, SizesAndOddBytesCount) {
  std::vector<char> a = {1, 2, 3}, b = {1, 2, 4}, c = {1, 2};
  EXPECT_NE(DescribeDifference(DType::kInt16, Bytes(a), Bytes(b)), "");
  EXPECT_NE(DescribeDifference(DType::kInt16, Bytes(a), Bytes(c)), "");
}

TEST(SumsAgree, WithinTheNormAndWithNoElementWrong) {
  EXPECT_TRUE(SumsAgree(DType::kFp32, {0, 0, 0}));
  EXPECT_TRUE(SumsAgree(DType::kFp32, {1e-6 * 100, 100, 0})) << "at 1e-3 of the norm";
  EXPECT_FALSE(SumsAgree(DType::kFp32, {1.1e-6 * 100, 100, 0}));
  EXPECT_FALSE(SumsAgree(DType::kFp32, {0, 100, 1}));
  EXPECT_FALSE(SumsAgree(DType::kFp32, {1e-30, 0, 0})) << "all zero must stay zero";
}

TEST(SumsAgree, WhatCannotBeSummedIsLeftToTheHost) {
  EXPECT_FALSE(SumsAgree(DType::kFp64, {NAN, 1, 0}));
  EXPECT_FALSE(SumsAgree(DType::kFp64, {INFINITY, INFINITY, 0}));
}

}  // namespace
}  // namespace tessera::server
