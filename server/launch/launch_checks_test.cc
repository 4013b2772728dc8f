#include "server/launch/launch_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"

namespace tessera::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// pid * 256 + lane, as the compiler writes it, with `n` as entry parameter 1 and the buffer as 0.
std::string Add(bool masked) {
  return std::string(R"pb(
           nodes { kind: PROGRAM_ID bits: 32 }
           nodes { kind: CONSTANT bits: 32 value: 256 }
           nodes {
             kind: MUL
             bits: 32
             operands: [ 0, 1 ]
           }
           nodes { kind: LANE bits: 32 }
           nodes {
             kind: ADD
             bits: 32
             operands: [ 2, 3 ]
           }
           nodes { kind: PARAMETER bits: 32 value: 1 }
           nodes {
             kind: LESS_SIGNED
             bits: 1
             operands: [ 4, 5 ]
           }
           accesses {
             kind: STORE
             at { place: "add.py:9:5" source_line: "tl.store(p + i, v)" }
             base: 0
             element_bytes: 4
             shape: 256
             offsets { node: 4 bytes: 4 }
             wraps {
               node: 4
               at { place: "add.py:7:9" source_line: "i = pid * BLOCK + tl.arange(0, BLOCK)" }
             }
             wraps {
               node: 2
               at { place: "add.py:7:9" source_line: "i = pid * BLOCK + tl.arange(0, BLOCK)" }
             })pb") +
         (masked ? "masked: true conditions: 6 }" : "}") +
         R"pb(tails {
                at { place: "add.py:8:12" source_line: "mask = i < n" }
                inside: 6
                extent: 256
              })pb";
}

storage::LaunchFacts Facts(const std::string& text) {
  storage::LaunchFacts facts;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &facts));
  return facts;
}

// A buffer of `elements` floats, and n.
std::vector<CheckedParameter> Parameters(uint64_t elements, int32_t n) {
  CheckedParameter buffer{"p", 0, true, 64, elements * 4}, scalar{"n", static_cast<uint32_t>(n)};
  return {buffer, scalar};
}

std::vector<std::string> Check(const std::string& text,
                               const std::vector<CheckedParameter>& parameters, uint32_t x,
                               uint32_t y = 1) {
  const uint32_t grid[3] = {x, y, 1};
  std::vector<std::string> texts;
  for (const LaunchWarning& warning : CheckLaunch(Facts(text), parameters, grid))
    texts.push_back(warning.text);
  return texts;
}

TEST(LaunchChecks, ATailWithoutAMaskIsNamedWithItsLane) {
  EXPECT_THAT(
      Check(Add(false), Parameters(1000, 1000), 4),
      ElementsAre(
          AllOf(HasSubstr("add.py:9:5: warning: no mask on the tail of this launch"),
                HasSubstr("program (3, 0, 0), lane 255 writes element 1023 of 'p', which has 1000"),
                HasSubstr("\n  tl.store(p + i, v)"))));
}

TEST(LaunchChecks, AMaskedOrAFullBlockIsFine) {
  EXPECT_THAT(Check(Add(true), Parameters(1000, 1000), 4), IsEmpty());
  EXPECT_THAT(Check(Add(false), Parameters(1024, 1024), 4), IsEmpty());
}

TEST(LaunchChecks, AMaskThatLetsTooMuchThroughIsNamed) {
  EXPECT_THAT(Check(Add(true), Parameters(1000, 1024), 4),
              ElementsAre(HasSubstr("the mask lets accesses outside the buffer through")));
}

TEST(LaunchChecks, APointerToNothingAndAnUnknownBufferAreNotChecked) {
  std::vector<CheckedParameter> parameters = Parameters(10, 1000);
  parameters[0].has_buffer = false;
  EXPECT_THAT(Check(Add(false), parameters, 4), IsEmpty());
}

TEST(LaunchChecks, OffsetsThatWrapAroundAreNamedWithTheirOperands) {
  // The last program starts at 2^31 - 256 + 256 = 2^31.
  std::vector<std::string> warnings =
      Check(Add(true), Parameters(uint64_t{3} << 30, INT32_MAX), (1u << 23) + 1);
  EXPECT_THAT(
      warnings,
      ElementsAre(AllOf(HasSubstr("add.py:7:9: warning: this offset wraps around in 32 bits"),
                        HasSubstr("8388608 * 256 gives -2147483648"), HasSubstr(".to(tl.int64)"))));
  EXPECT_THAT(Check(Add(true), Parameters(uint64_t{3} << 30, INT32_MAX), 1u << 23), IsEmpty());
}

TEST(LaunchChecks, WrappedOffsetsOfMaskedOffLanesAreFine) {
  EXPECT_THAT(Check(Add(true), Parameters(1000, INT32_MIN), (1u << 23) + 1), IsEmpty());
}

TEST(LaunchChecks, ABlockPaddedToThePowerOfTwoIsNamed) {
  const std::string row = R"pb(
    nodes { kind: LANE bits: 32 }
    nodes { kind: PARAMETER bits: 32 value: 1 }
    nodes {
      kind: LESS_SIGNED
      bits: 1
      operands: [ 0, 1 ]
    }
    tails {
      at { place: "row.py:3:1" source_line: "cols < n" }
      inside: 2
      extent: 2048
    })pb";
  EXPECT_THAT(
      Check(row, Parameters(1, 1025), 7),
      ElementsAre(AllOf(
          HasSubstr("row.py:3:1: warning: most lanes of this block are masked off: 1025 of 2048"),
          HasSubstr("padded to the next power of two"), HasSubstr("cols < n"))));
  EXPECT_THAT(Check(row, Parameters(1, 200), 7), ElementsAre(HasSubstr("a block of 256 would do")));
  EXPECT_THAT(Check(row, Parameters(1, 1500), 7), IsEmpty());
  EXPECT_THAT(Check(row, Parameters(1, 2048), 7), IsEmpty());
}

TEST(LaunchChecks, ASmallBlockIsNamedWhereManyProgramsHaveIt) {
  EXPECT_THAT(Check(Add(true), Parameters(100, 100), 1), IsEmpty());
  const std::string row = R"pb(
    nodes { kind: LANE bits: 32 }
    nodes { kind: PARAMETER bits: 32 value: 1 }
    nodes {
      kind: LESS_SIGNED
      bits: 1
      operands: [ 0, 1 ]
    }
    tails {
      at { place: "row.py:3:1" }
      inside: 2
      extent: 256
    })pb";
  EXPECT_THAT(Check(row, Parameters(1, 100), 7), IsEmpty());
  EXPECT_THAT(Check(row, Parameters(1, 100), 8),
              ElementsAre(HasSubstr(
                  "100 of 256 are inside, in the fullest program; a block of 128 would do")));
}

TEST(LaunchChecks, TheTailOfAGridIsNoPadding) {
  EXPECT_THAT(Check(Add(true), Parameters(1025, 1025), 5), IsEmpty());
}

TEST(LaunchChecks, LoopsAreFollowedToTheirLastRound) {
  // for k in range(0, n, 64): load p + k + lane
  const std::string loop = R"pb(
    nodes { kind: CONSTANT bits: 32 }
    nodes { kind: PARAMETER bits: 32 value: 1 }
    nodes { kind: CONSTANT bits: 32 value: 64 }
    nodes { kind: ITERATION bits: 32 }
    nodes {
      kind: MUL
      bits: 32
      operands: [ 3, 2 ]
    }
    nodes { kind: LANE bits: 32 }
    nodes {
      kind: ADD
      bits: 32
      operands: [ 4, 5 ]
    }
    loops { lower: 0 upper: 1 step: 2 }
    accesses {
      at { place: "loop.py:4:1" }
      base: 0
      element_bytes: 4
      shape: 64
      loops: 0
      offsets { node: 6 bytes: 4 }
    })pb";
  EXPECT_THAT(Check(loop, Parameters(130, 130), 1),
              ElementsAre(HasSubstr("lane 63 reads element 191 of 'p', which has 130")));
  EXPECT_THAT(Check(loop, Parameters(128, 128), 1), IsEmpty());
  EXPECT_THAT(Check(loop, Parameters(0, 0), 1), IsEmpty());
}

TEST(LaunchChecks, AccessesBeforeTheBufferAreNamed) {
  const std::string back = R"pb(
    nodes { kind: CONSTANT bits: 32 value: -17 }
    accesses {
      at { place: "back.py:4:1" }
      base: 0
      element_bytes: 4
      offsets { node: 0 bytes: 4 }
    })pb";
  EXPECT_THAT(Check(back, Parameters(100, 0), 1),
              ElementsAre(HasSubstr("reads element -17 of 'p'")));
}

TEST(LaunchChecks, UnsignedOffsetsWrapAtFourGibi) {
  const std::string product = R"pb(
    nodes { kind: PARAMETER bits: 32 value: 1 }
    nodes { kind: CONSTANT bits: 32 value: 2 }
    nodes {
      kind: MUL
      bits: 32
      operands: [ 0, 1 ]
    }
    nodes { kind: ZERO_EXTEND bits: 64 operands: 2 }
    accesses {
      at { place: "u.py:1:1" }
      base: 0
      element_bytes: 1
      offsets { node: 3 bytes: 1 }
      wraps {
        node: 2
        is_unsigned: true
        at { place: "u.py:1:2" }
      }
    })pb";
  EXPECT_THAT(Check(product, Parameters(uint64_t{1} << 31, 0x7fffffff), 1), IsEmpty());
  EXPECT_THAT(Check(product, Parameters(uint64_t{1} << 31, static_cast<int32_t>(0x80000000)), 1),
              ElementsAre(HasSubstr("2147483648 * 2 gives 0")));
}

}  // namespace
}  // namespace tessera::server
