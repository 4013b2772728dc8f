#include "runtime/cpu/print_lines.h"

#include "gtest/gtest.h"

namespace tessera::runtime {
namespace {

constexpr uint32_t kPid[3] = {4, 5, 6};

std::string Value(absl::string_view kind, uint64_t bits) {
  const std::string line = PrintLine(kPid, "x", kind, bits, 0, 1);
  return line.substr(line.rfind(' ') + 1);
}

TEST(PrintLineTest, NamesProgramLaneAndPrefix) {
  EXPECT_EQ(PrintLine(kPid, "acc", "i32", 7, 0, 1), "pid (4, 5, 6) idx () acc: 7");
  EXPECT_EQ(PrintLine(kPid, "acc", "i32", 7, 3, 8), "pid (4, 5, 6) idx (3) acc: 7");
}

TEST(PrintLineTest, NamesAnIndexForEachDimension) {
  EXPECT_EQ(PrintLine(kPid, "acc", "i32[4,8]", 7, 21, 32), "pid (4, 5, 6) idx (2, 5) acc: 7");
  EXPECT_EQ(PrintLine(kPid, "acc", "x32[2,2,2]", 7, 6, 8), "pid (4, 5, 6) idx (1, 1, 0) acc: 0x00000007");
}

TEST(PrintLineTest, TakesPrefixesWithTheirColon) {
  EXPECT_EQ(PrintLine(kPid, " acc: ", "i32", 7, 0, 1), "pid (4, 5, 6) idx () acc: 7");
}

TEST(PrintLineTest, ReadsIntegersBySignAndWidth) {
  EXPECT_EQ(Value("i8", 0xff), "-1");
  EXPECT_EQ(Value("u8", 0xff), "255");
  EXPECT_EQ(Value("i16", 0x8000), "-32768");
  EXPECT_EQ(Value("i32", 0xfffffffe), "-2");
  EXPECT_EQ(Value("u32", 0xfffffffe), "4294967294");
  EXPECT_EQ(Value("i64", ~uint64_t{0}), "-1");
  EXPECT_EQ(Value("u64", ~uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(Value("i1", 1), "1");
}

TEST(PrintLineTest, ReadsFloatsOfEveryKind) {
  EXPECT_EQ(Value("fp32", 0x3fc00000), "1.500000");
  EXPECT_EQ(Value("fp64", 0xc004000000000000), "-2.500000");
  EXPECT_EQ(Value("fp16", 0x3e00), "1.500000");
  EXPECT_EQ(Value("fp16", 0x7c00), "inf");
  EXPECT_EQ(Value("bf16", 0xbfc0), "-1.500000");
  EXPECT_EQ(Value("bf16", 0x7fc0), "nan");
  EXPECT_EQ(Value("fp8e4nv", 0x7e), "448.000000");
  EXPECT_EQ(Value("fp8e4nv", 0xff), "nan");
  EXPECT_EQ(Value("fp8e5", 0x7b), "57344.000000");
  EXPECT_EQ(Value("fp8e5", 0xfc), "-inf");
  EXPECT_EQ(Value("fp8e4b8", 0x7f), "240.000000");
  EXPECT_EQ(Value("fp8e4b8", 0x80), "nan");
  EXPECT_EQ(Value("fp8e4b15", 0x78), "1.000000");
  EXPECT_EQ(Value("fp8e5b16", 0x7f), "57344.000000");
}

TEST(PrintLineTest, PrintsHexadecimalDigitsAndAddresses) {
  EXPECT_EQ(Value("x8", 0xa), "0x0a");
  EXPECT_EQ(Value("x32", 0xff), "0x000000ff");
  EXPECT_EQ(Value("x64", 0xff), "0x00000000000000ff");
  EXPECT_EQ(Value("*fp16", 0x7000), "0x0000000000007000");
}

}  // namespace
}  // namespace tessera::runtime
