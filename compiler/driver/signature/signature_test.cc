#include "compiler/driver/signature/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

TEST(Signature, ReadsEveryForm) {
  auto specs = ParseSignature("x=*fp16:16, n=i32:16,m=int64,flag=i1,one=1,bias=None,t=(i32,*kfloat32),desc=tensordesc<fp16,[64,32]>");
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 8u);
  EXPECT_EQ((*specs)[0].type(), "*fp16");
  EXPECT_EQ((*specs)[0].divisibility(), 16u);
  EXPECT_EQ((*specs)[2].type(), "i64");
  EXPECT_TRUE((*specs)[4].equals_one());
  EXPECT_TRUE((*specs)[5].constant().has_none());
  EXPECT_EQ((*specs)[6].tuple().items(1).type(), "*fp32");
  EXPECT_EQ((*specs)[7].tensor_descriptor().block_shape(1), 32);
}

TEST(Signature, ErrorsNameTheEntry) {
  auto message = [](absl::string_view text) { return std::string(ParseSignature(text).status().message()); };
  EXPECT_THAT(message("x=*fp17"), HasSubstr("signature entry 'x=*fp17': 'fp17' is no element type"));
  EXPECT_THAT(message("x"), HasSubstr("expected NAME=TYPE"));
  EXPECT_THAT(message("x=i32:0"), HasSubstr("no positive integer"));
  EXPECT_THAT(message("d=tensordesc<fp16>"), HasSubstr("tensordesc<TYPE,[BLOCK,...]>"));
}

}  // namespace
}  // namespace tessera::compiler
