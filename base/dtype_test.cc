#include "base/dtype.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(DType, AcceptsEverySpelling) {
  EXPECT_EQ(ParseDType("float16"), DType::kFp16);
  EXPECT_EQ(ParseDType("tl.float16"), DType::kFp16);
  EXPECT_EQ(ParseDType("fp16"), DType::kFp16);
  EXPECT_EQ(ParseDType("<f2"), DType::kFp16);
  EXPECT_EQ(ParseDType("torch.bool"), DType::kInt1);
  EXPECT_EQ(ParseDType("u1"), DType::kInt1);
  EXPECT_EQ(ParseDType("i8"), DType::kInt8);
  EXPECT_EQ(ParseDType("float8_e4m3fn"), DType::kFp8E4M3Fn);
  EXPECT_EQ(ParseDType("float8e5b16"), DType::kFp8E5M2Fnuz);
}

TEST(DType, EveryNameOfATypeReadsBack) {
  for (int i = 0; i <= static_cast<int>(DType::kFp8E5M2Fnuz); ++i) {
    DType dtype = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(ShortName(dtype)), dtype);
    EXPECT_EQ(ParseDType(LanguageName(dtype)), dtype);
    EXPECT_GE(ByteSize(dtype), 1);
  }
}

TEST(DType, SaysWhatWouldBeAccepted) {
  std::string error;
  EXPECT_FALSE(ParseDType("float17", &error));
  EXPECT_NE(error.find("float17"), std::string::npos);
  EXPECT_NE(error.find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace tessera
