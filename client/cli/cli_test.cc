// The small languages and files of the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "client/cli/literal.h"
#include "client/cli/npy.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Literal, ReadsPythonLiterals) {
  EXPECT_EQ(ParseConstant("128")->integer(), 128);
  EXPECT_EQ(ParseConstant("-0x1_0")->integer(), -16);
  EXPECT_EQ(ParseConstant("18446744073709551615")->unsigned_integer(), 18446744073709551615u);
  EXPECT_EQ(ParseConstant("-9223372036854775808")->integer(), INT64_MIN);
  EXPECT_EQ(ParseConstant("1e-5")->real(), 1e-5);
  EXPECT_EQ(ParseConstant("1.")->real(), 1.0);
  EXPECT_EQ(ParseConstant("float('-inf')")->real(), -HUGE_VAL);
  EXPECT_EQ(ParseConstant("'gelu'")->text(), "gelu");
  EXPECT_TRUE(ParseConstant("True")->boolean());
  EXPECT_TRUE(ParseConstant("None")->has_none());
  EXPECT_EQ(ParseConstant("tl.float16")->dtype(), "fp16");
  EXPECT_EQ(ParseConstant("fn:add")->function(), "add");
  EXPECT_EQ(ParseConstant("(1, (2, 3),)")->tuple().items_size(), 2);
}

TEST(Literal, RefusesWhatIsNoLiteral) {
  EXPECT_THAT(std::string(ParseConstant("gelu").status().message()), HasSubstr("cannot read 'gelu'"));
  EXPECT_FALSE(ParseConstant("").ok());
  EXPECT_FALSE(ParseConstant("1+2").ok());
  EXPECT_THAT(std::string(ParseConstant("18446744073709551616").status().message()), HasSubstr("64 bits"));
}

TEST(Literal, ForcedTypesOfScalars) {
  auto argument = ParseScalarArgument("5:i64");
  ASSERT_TRUE(argument.ok());
  EXPECT_EQ(argument->integer(), 5);
  EXPECT_EQ(argument->type(), "i64");
  EXPECT_EQ(ParseScalarArgument("1.0:fp64")->type(), "fp64");
  EXPECT_FALSE(ParseScalarArgument("5:i7").ok());
}

TEST(Literal, SplitsOutsideBracketsAndQuotes) {
  EXPECT_THAT(SplitTopLevel("a=(1, 2), b='x,y', c=tensordesc<fp16,[64,64]>"),
              ElementsAre("a=(1, 2)", "b='x,y'", "c=tensordesc<fp16,[64,64]>"));
}

TEST(Npy, RoundTripKeepsEveryByte) {
  std::string path = std::string(std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp") + "/round_trip.npy";
  NpyArray array = MakeNpy("<f4", {3, 5}, 4);
  array.data[7] = 'x';
  ASSERT_TRUE(WriteNpy(path, array).ok());
  auto read = ReadNpy(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->data, array.data);
  EXPECT_EQ(read->header.size() % 64, 0u);
  EXPECT_THAT(read->shape, ElementsAre(3, 5));
  EXPECT_THAT(read->strides(), ElementsAre(5, 1));
  EXPECT_EQ(DTypeOfDescr(read->descr), "fp32");
}

TEST(Npy, SaysWhatIsWrongWithAFile) {
  EXPECT_TRUE(absl::IsNotFound(ReadNpy("/nonexistent.npy").status()));
  EXPECT_THAT(std::string(ReadNpy("/proc/self/cmdline").status().message()), HasSubstr("magic"));
}

}  // namespace
}  // namespace tessera::cli
