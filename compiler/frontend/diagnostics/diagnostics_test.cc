#include "compiler/frontend/diagnostics/diagnostics.h"

#include <gtest/gtest.h>

namespace tessera::frontend {
namespace {

std::vector<File> OneFile(std::string text) {
  std::vector<File> files(1);
  files[0].path = "dir/kernel.py";
  files[0].text = std::move(text);
  return files;
}

std::string RenderAt(const std::vector<File>& files, SourceRange range) {
  return Render({Severity::kError, range, "message"}, files);
}

TEST(Render, MarksTheRangeUnderItsLine) {
  EXPECT_EQ(RenderAt(OneFile("first\n  x = tl.lood(p)\nlast\n"), {0, 2, 7, 2, 14}),
            "dir/kernel.py:2:7: error: message\n"
            "    x = tl.lood(p)\n"
            "        ^~~~~~~\n");
}

TEST(Render, ShowsOneCaretForAnEmptyRange) {
  EXPECT_EQ(RenderAt(OneFile("ab"), {0, 1, 3, 1, 3}), "dir/kernel.py:1:3: error: message\n  ab\n    ^\n");
}

TEST(Render, ExpandsTabsInBothLines) {
  EXPECT_EQ(RenderAt(OneFile("\tx\ty"), {0, 1, 4, 1, 5}), "dir/kernel.py:1:4: error: message\n      x   y\n          ^\n");
}

TEST(Render, CountsCharactersNotBytesForTheCaret) {
  // é and → are two and three bytes; the caret stands under the x.
  EXPECT_EQ(RenderAt(OneFile("\xC3\xA9\xE2\x86\x92x"), {0, 1, 6, 1, 7}),
            "dir/kernel.py:1:6: error: message\n  \xC3\xA9\xE2\x86\x92x\n    ^\n");
}

TEST(Render, ShowsAWindowOfALongLine) {
  std::string line(1000, 'a');
  line[500] = 'X';
  std::string text = RenderAt(OneFile(line), {0, 1, 501, 1, 502});
  std::string source = text.substr(text.find('\n') + 1);
  std::string marks = source.substr(source.find('\n') + 1);
  source = source.substr(0, source.find('\n'));
  EXPECT_LT(source.size(), 160u);
  EXPECT_EQ(source.substr(0, 5), "  ...");
  EXPECT_EQ(source.find('X'), marks.find('^'));
}

TEST(Render, EndsARangeOverSeveralLinesAtTheFirst) {
  EXPECT_EQ(RenderAt(OneFile("f(a,\n  b)\n"), {0, 1, 2, 2, 5}), "dir/kernel.py:1:2: error: message\n  f(a,\n   ^~~\n");
}

TEST(Render, LeavesTheSourceOutWhereThereIsNone) {
  EXPECT_EQ(RenderAt(OneFile("x"), {0, 9, 1, 9, 2}), "dir/kernel.py:9:1: error: message\n");
  EXPECT_EQ(RenderAt(OneFile("x"), {}), "dir/kernel.py: error: message\n");
  EXPECT_EQ(RenderAt({}, {0, 1, 1, 1, 2}), "error: message\n");
}

TEST(Diagnostics, OnlyErrorsCountAsErrors) {
  Diagnostics diagnostics;
  diagnostics.Warning({}, "w");
  diagnostics.Note({}, "n");
  EXPECT_FALSE(diagnostics.has_errors());
  diagnostics.Error({}, "e");
  EXPECT_TRUE(diagnostics.has_errors());
  EXPECT_EQ(diagnostics.all().size(), 3u);
}

}  // namespace
}  // namespace tessera::frontend
