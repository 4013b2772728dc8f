#include "compiler/frontend/lex/lexer.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

// Tokens as text: names, numbers, strings and operators as they are, the others in capitals.
std::string Spell(absl::string_view text) {
  std::string out;
  for (const Token& token : Tokenize(0, text).tokens) {
    std::string one;
    switch (token.kind) {
      case TokenKind::kNewline: one = "NL"; break;
      case TokenKind::kIndent: one = "IN"; break;
      case TokenKind::kDedent: one = "OUT"; break;
      case TokenKind::kEnd: one = "END"; break;
      case TokenKind::kError: one = absl::StrCat("ERROR(", token.message, ")"); break;
      default: one = std::string(token.text);
    }
    absl::StrAppend(&out, out.empty() ? "" : " ", one);
  }
  return out;
}

struct Row {
  const char* text;
  const char* tokens;
};

TEST(Tokenize, SplitsOperatorsAtTheLongest) {
  for (const Row& row : std::vector<Row>{
           {"a**=b//=c>>=d<<=e", "a **= b //= c >>= d <<= e NL END"},
           {"f->g:=h@=i", "f -> g := h @= i NL END"},
           {"a!=b<=c>=d==e", "a != b <= c >= d == e NL END"},
           {"x[...,1:2]", "x [ ... , 1 : 2 ] NL END"},
           {"~a^b|c&d%e@f", "~ a ^ b | c & d % e @ f NL END"},
       })
    EXPECT_EQ(Spell(row.text), row.tokens) << row.text;
}

TEST(Tokenize, ReadsEveryFormOfNumber) {
  for (const char* number : {"0", "00", "1_000", "0xFF_ff", "0b1_0", "0o17", "1.", ".5", "1.5e10", "1e-5", "1E+5", "1_0.0_1", "3j", "1.5J", "1e3j"})
    EXPECT_EQ(Spell(number), absl::StrCat(number, " NL END")) << number;
  EXPECT_EQ(Spell("1.real"), "ERROR(invalid number) NL END");
  EXPECT_EQ(Spell("1if x else 2"), "1 if x else 2 NL END");
  EXPECT_EQ(Spell("a[1:2]"), "a [ 1 : 2 ] NL END");
}

TEST(Tokenize, RefusesMalformedNumbers) {
  for (const char* number : {"0x", "1__0", "1_", "12abc", "0b12", "1e", "0xfg"})
    EXPECT_EQ(Spell(number), "ERROR(invalid number) NL END") << number;
  EXPECT_EQ(Spell("007"), "ERROR(leading zeros in a decimal number are not permitted; an octal number begins with 0o) NL END");
}

TEST(Tokenize, KeepsStringsWhole) {
  for (const char* string :
       {"'a'", "\"a\"", "''", "rb'x'", "Rb\"x\"", "f'{a}'", "fr'{a}\\d'", "u'x'", "'''a\n'b''c'''", "\"\"\"x\"\"\"", "'it\\'s'",
        "'a\\\nb'", "f'{x!r:>{width}}'", "f'{{not a field}}'", "f\"{d['k']}\"", "f'{f'{x}'}'", "f'''{\nx\n}'''", "f'{a:{b}{c}}'",
        "f'{x != y}'", "f'{lambda_:%Y-%m}'", "f'\\N{DASH}{x}'", "f'{\nx\n}'"})
    EXPECT_EQ(Spell(string), absl::StrCat(string, " NL END")) << string;
  EXPECT_EQ(Spell("rb 'x'"), "rb 'x' NL END");
}

TEST(Tokenize, ReportsStringsThatDoNotEnd) {
  EXPECT_EQ(Spell("x = 'abc\ny"), "x = ERROR(unterminated string literal) NL y NL END");
  TokenList list = Tokenize(0, "x = 1\ny = '''abc\nz\n");
  ASSERT_GE(list.fatal, 0);
  EXPECT_EQ(list.tokens[list.fatal].range.line, 2);
  EXPECT_EQ(list.tokens[list.fatal].range.column, 5);
  EXPECT_EQ(Tokenize(0, "x = f'{a\ny = 1\n").fatal, -1);
}

TEST(Tokenize, TurnsIndentationIntoBlocks) {
  EXPECT_EQ(Spell("if a:\n  b\n\n  # c\n    # d\n  e\nf\n"), "if a : NL IN b NL e NL OUT f NL END");
  EXPECT_EQ(Spell("if a:\n\tb\n\tif c:\n\t    d"), "if a : NL IN b NL if c : NL IN d NL OUT OUT END");
  EXPECT_EQ(Spell("a\n\x0c\nb"), "a NL b NL END") << "a form feed starts the column anew";
  EXPECT_EQ(Spell("a:\n    b\n  c\nd"), "a : NL IN b NL ERROR(unindent does not match any outer indentation level) c NL OUT d NL END");
  EXPECT_EQ(Spell("if a:\n        b\n\tc"), "if a : NL IN b NL ERROR(inconsistent use of tabs and spaces in indentation) c NL OUT END");
}

TEST(Tokenize, JoinsLinesInsideBracketsAndAfterBackslashes) {
  EXPECT_EQ(Spell("f(a,\n   # comment\n b)\nc"), "f ( a , b ) NL c NL END");
  EXPECT_EQ(Spell("a = b + \\\n    c\nd"), "a = b + c NL d NL END");
  EXPECT_EQ(Spell("a \\ b"), "a ERROR(unexpected character after the line continuation '\\') b NL END");
}

TEST(Tokenize, RecoversFromAnOpenBracketAtTheNextDefinition) {
  EXPECT_EQ(Spell("x = f(a,\ndef g():\n  pass"),
            "x = f ( a , ERROR(bracket was never closed) NL def g ( ) : NL IN pass NL OUT END");
}

TEST(Tokenize, ReportsBracketsThatDoNotMatch) {
  TokenList list = Tokenize(0, "(a]");
  EXPECT_EQ(list.tokens[2].kind, TokenKind::kError);
  EXPECT_EQ(list.tokens[2].detail[0], ']');
  EXPECT_EQ(list.tokens[2].detail[1], '(');
  EXPECT_EQ(Spell(")"), "ERROR(closing bracket was never opened) NL END");
}

TEST(Tokenize, AcceptsTextBeyondAscii) {
  EXPECT_EQ(Spell("\xCE\xB1 = '\xE2\x82\xAC'  # \xF0\x9F\x98\x80"), "\xCE\xB1 = '\xE2\x82\xAC' NL END");
  EXPECT_EQ(Spell("a\xC2\xA0= 1"), "a ERROR(non-breaking space (U+00A0): use an ordinary space) = 1 NL END");
  EXPECT_EQ(Spell(absl::string_view("a\0b", 3)), "a ERROR(the source contains a NUL byte) b NL END");
}

TEST(Tokenize, CountsLinesAndColumnsFromOneInBytes) {
  TokenList list = Tokenize(3, "ab\n  '\xC3\xA9' c");
  const Token& c = list.tokens[4];
  ASSERT_EQ(c.text, "c");
  EXPECT_EQ(c.range.file, 3);
  EXPECT_EQ(c.range.line, 2);
  EXPECT_EQ(c.range.column, 8);
  EXPECT_EQ(c.range.end_column, 9);
}

TEST(Tokenize, EndsEveryBlockAtTheEndOfTheFile) {
  EXPECT_EQ(Spell(""), "END");
  EXPECT_EQ(Spell("\n\n# only\n"), "END");
  EXPECT_EQ(Spell("if a:\n if b:\n  c"), "if a : NL IN if b : NL IN c NL OUT OUT END");
}

TEST(Tokenize, StopsWhereIndentationGetsTooDeep) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += std::string(i, ' ') + "if a:\n";
  EXPECT_GE(Tokenize(0, text).fatal, 0);
}

TEST(NormalizeSource, UnifiesLineEndsAndDropsTheByteOrderMark) {
  size_t bad;
  EXPECT_EQ(NormalizeSource("\xEF\xBB\xBF" "a\r\nb\rc\n", &bad), "a\nb\nc\n");
  EXPECT_EQ(bad, std::string::npos);
}

TEST(NormalizeSource, ReplacesBytesThatAreNotUtf8) {
  size_t bad;
  EXPECT_EQ(NormalizeSource("ab\xFF" "c\xC3", &bad), "ab\xEF\xBF\xBD" "c\xEF\xBF\xBD");
  EXPECT_EQ(bad, 2u);
  NormalizeSource("\xED\xA0\x80", &bad);  // a surrogate
  EXPECT_EQ(bad, 0u);
}

TEST(DecodeText, KnowsPythonsEscapes) {
  EXPECT_EQ(DecodeText("a\\n\\t\\\\\\'\\x41\\101\\u00e9\\U0001F600\\q", false, false), "a\n\t\\'AA\xC3\xA9\xF0\x9F\x98\x80\\q");
  EXPECT_EQ(DecodeText("a\\\nb", false, false), "ab");
  EXPECT_EQ(DecodeText("a\\n", true, false), "a\\n");
  EXPECT_EQ(DecodeText("{{a}}", false, true), "{a}");
}

}  // namespace
}  // namespace tessera::frontend
