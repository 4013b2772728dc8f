#include "cache/key/canonical_text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(CanonicalText, GivesBackWhatWasWritten) {
  const std::string odd("a=1:b\n\0c", 8);
  std::string text;
  AppendField("one", odd, &text);
  AppendField("two", "", &text);
  std::vector<CanonicalField> fields;
  ASSERT_TRUE(ParseCanonical(text, &fields));
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "one");
  EXPECT_EQ(fields[0].value, odd);
  EXPECT_EQ(fields[1].name, "two");
  EXPECT_EQ(fields[1].value, "");
}

TEST(CanonicalText, TellsApartWhatConcatenationWouldJoin) {
  std::string ab_c, a_bc;
  AppendField("x", "ab", &ab_c);
  AppendField("x", "c", &ab_c);
  AppendField("x", "a", &a_bc);
  AppendField("x", "bc", &a_bc);
  EXPECT_NE(ab_c, a_bc);
}

TEST(CanonicalText, RefusesEveryTruncation) {
  std::string text;
  AppendField("name", "value", &text);
  std::vector<CanonicalField> fields;
  for (size_t size = 1; size < text.size(); ++size) {
    EXPECT_FALSE(ParseCanonical(absl::string_view(text).substr(0, size), &fields)) << size;
  }
}

TEST(CanonicalText, RefusesALengthBeyondTheEnd) {
  std::vector<CanonicalField> fields;
  EXPECT_FALSE(ParseCanonical("x=18446744073709551615:a\n", &fields));
  EXPECT_FALSE(ParseCanonical("x=2:a\n", &fields));
  EXPECT_FALSE(ParseCanonical("x=-1:a\n", &fields));
}

}  // namespace
}  // namespace tessera::cache
