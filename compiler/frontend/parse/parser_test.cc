#include "compiler/frontend/parse/parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/frontend/parse/printer.h"

namespace tessera::frontend {
namespace {

std::string ReadTestData(const std::string& name) {
  std::ifstream file("compiler/frontend/parse/testdata/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

File ParseText(const std::string& text, Diagnostics* diagnostics) { return Parse(0, "k.py", text, diagnostics); }

// The canonical text of a file without errors.
std::string Reprint(const std::string& text) {
  Diagnostics diagnostics;
  std::vector<File> files;
  files.push_back(ParseText(text, &diagnostics));
  for (const Diagnostic& d : diagnostics.all()) ADD_FAILURE() << Render(d, files);
  std::string out;
  for (const StmtPtr& statement : files[0].body) out += Print(*statement, /*decorators=*/true);
  return out;
}

// All diagnostics of a text, rendered.
std::string Errors(const std::string& text) {
  Diagnostics diagnostics;
  std::vector<File> files;
  files.push_back(ParseText(text, &diagnostics));
  std::string out;
  for (const Diagnostic& d : diagnostics.all()) out += Render(d, files);
  return out;
}

struct Row {
  const char* text;
  const char* printed;
};

TEST(Parse, GroupsByPrecedence) {
  for (const Row& row : std::vector<Row>{
           {"a+b*c", "a + b * c\n"},
           {"(a+b)*c", "(a + b) * c\n"},
           {"a-(b-c)", "a - (b - c)\n"},
           {"a-b-c", "a - b - c\n"},
           {"-a**-b", "-a ** -b\n"},
           {"(-a)**b", "(-a) ** b\n"},
           {"2**3**4", "2 ** 3 ** 4\n"},
           {"(2**3)**4", "(2 ** 3) ** 4\n"},
           {"a|b^c&d<<e", "a | b ^ c & d << e\n"},
           {"((a|b)^c)&d", "((a | b) ^ c) & d\n"},
           {"a<b&c", "a < b & c\n"},
           {"(a<b)&c", "(a < b) & c\n"},
           {"not a==b", "not a == b\n"},
           {"(not a)==b", "(not a) == b\n"},
           {"a or b and not c", "a or b and not c\n"},
           {"(a or b) and c", "(a or b) and c\n"},
           {"a if b else c if d else e", "a if b else c if d else e\n"},
           {"(a if b else c) if d else e", "(a if b else c) if d else e\n"},
           {"lambda x: (x, 1)", "lambda x: (x, 1)\n"},
           {"(lambda: 1)()", "(lambda: 1)()\n"},
           {"a < b <= c != d", "a < b <= c != d\n"},
           {"a is not b not in c", "a is not b not in c\n"},
           {"x = y = a, b", "x = y = (a, b)\n"},
           {"a, *b = c,", "(a, *b) = (c,)\n"},
           {"x: int = 3", "x: int = 3\n"},
           {"x //= 2; y @= z", "x //= 2\ny @= z\n"},
           {"f(a, *b, k=1, **c)", "f(a, *b, k=1, **c)\n"},
           {"f(x for x in y)", "f((x for x in y))\n"},
           {"a[:, None, ::2, 1:]", "a[:, None, ::2, 1:]\n"},
           {"a[b,]", "a[b,]\n"},
           {"a[(b, c)]", "a[b, c]\n"},
           {"{**a, 'b': 1}", "{**a, 'b': 1}\n"},
           {"{1, 2}", "set([1, 2])\n"},
           {"[i*j for i in a if i if j for j in b]", "[i * j for i in a if i if j for j in b]\n"},
           {"{k: v for k, v in a}", "{k: v for (k, v) in a}\n"},
           {"0x10 + 0b11 + 0o7 + 1_0", "16 + 3 + 7 + 10\n"},
           {"1. + .5 + 1e3 + 1e-7 + 1e300", "1.0 + 0.5 + 1000.0 + 1e-07 + 1e+300\n"},
           {"x = 'a' \"b\" r'\\n' u'c'", "x = 'ab\\\\nc'\n"},
           {"f'a{b}c{d!r}{e:>3}' 'f'", "f'a{b}c{repr(d)}{format(e, '>3')}f'\n"},
           {"'docstrings go'", ""},
           {"from ..a.b import (c as d, e,)", "from ..a.b import c as d, e\n"},
           {"import a.b.c, d.e as f", "import a, d.e as f\n"},
           {"match = match(x)", "match = match(x)\n"},
           {"type = 1", "type = 1\n"},
       })
    EXPECT_EQ(Reprint(row.text), row.printed) << row.text;
}

TEST(Parse, SplitsFStringsIntoTextAndExpressions) {
  Diagnostics diagnostics;
  File file = ParseText("f'a{b + 1}c{d!r}{e:>{w}}{{}}' 'tail' f\"{x=}\"", &diagnostics);
  ASSERT_FALSE(diagnostics.has_errors());
  const Expr& e = *file.body[0]->value;
  ASSERT_EQ(e.kind, ExprKind::kFString);
  std::vector<std::string> parts;
  for (const ExprPtr& part : e.items) parts.push_back(Print(*part));
  EXPECT_EQ(parts, (std::vector<std::string>{"'a'", "b + 1", "'c'", "repr(d)", "format(e, f'>{w}')", "'{}tailx='", "repr(x)"}));
  EXPECT_EQ(e.items[1]->range.column, 5);
}

TEST(Parse, PrintedTextParsesToTheSameTree) {
  std::string once = Reprint(ReadTestData("kernels.py").substr(0, ReadTestData("kernels.py").find("class Linear")));
  ASSERT_GT(once.size(), 1000u);
  EXPECT_EQ(Reprint(once), once);
}

TEST(Parse, ReadsRealFilesAroundKernels) {
  std::string text = ReadTestData("kernels.py");
  ASSERT_FALSE(text.empty());
  Diagnostics diagnostics;
  File file = ParseText(text, &diagnostics);
  EXPECT_EQ(Errors(text), "");
  std::vector<std::string> functions;
  for (const StmtPtr& s : file.body) {
    EXPECT_EQ(s->text.find("could not be parsed"), std::string::npos);
    if (s->kind == StmtKind::kFunctionDef) functions.push_back(s->text);
    if (s->kind == StmtKind::kClassDef)
      for (const StmtPtr& inner : s->body) {
        EXPECT_EQ(inner->text.find("could not be parsed"), std::string::npos) << inner->range.line;
        for (const StmtPtr& deep : inner->body) EXPECT_EQ(deep->text.find("could not be parsed"), std::string::npos) << deep->range.line;
      }
  }
  EXPECT_EQ(functions, (std::vector<std::string>{"scaled_sum", "linear_gelu"}));
}

TEST(Parse, KeepsParametersAndDecorators) {
  Diagnostics diagnostics;
  File file = ParseText("@triton.autotune(configs=[], key=['n'])\n@triton.jit\ndef f(a, b: tl.int32 = -1, *, c: 'x'=2, **d) -> int:\n  return a\n", &diagnostics);
  const Stmt& f = *file.body[0];
  EXPECT_EQ(f.decorators.size(), 2u);
  ASSERT_EQ(f.parameters.size(), 4u);
  EXPECT_EQ(Print(*f.parameters[1].annotation), "tl.int32");
  EXPECT_EQ(Print(*f.parameters[1].default_value), "-1");
  EXPECT_FALSE(f.parameters[1].keyword_only);
  EXPECT_TRUE(f.parameters[2].keyword_only);
  EXPECT_TRUE(f.parameters[3].is_double_star);
  EXPECT_EQ(f.range.line, 3);
}

TEST(Parse, MarksIntegersBeyond64Bits) {
  Diagnostics diagnostics;
  File file = ParseText("18446744073709551615\n18446744073709551616\n0xFFFFFFFFFFFFFFFF1", &diagnostics);
  EXPECT_EQ(file.body[0]->value->integer, UINT64_MAX);
  EXPECT_FALSE(file.body[0]->value->integer_overflow);
  EXPECT_TRUE(file.body[1]->value->integer_overflow);
  EXPECT_TRUE(file.body[2]->value->integer_overflow);
}

TEST(Parse, ExplainsTypicalMistakesInsideKernels) {
  struct Mistake {
    const char* line;
    const char* message;
    const char* marks;
  };
  for (const Mistake& m : std::vector<Mistake>{
           {"x = tl.load(p +", "'(' was never closed", "             ^"},
           {"x = (1 + 2]", "closing ']' does not match the opening '('", "            ^"},
           {"x = 1 + 2)", "')' was never opened", "           ^"},
           {"for i range(3):", "expected 'in', found 'range'", "        ^~~~~"},
           {"x = y +", "expected an expression, found end of line", "         ^"},
           {"x = y && z", "expected an expression, found '&'; Python writes 'and'", "         ^"},
           {"x = !y", "expected an expression, found '!'; Python writes 'not'", "      ^"},
           {"x = tl.load(p q)", "expected ',' or ')', found 'q'", "                ^"},
           {"x = 3y", "invalid number", "      ^~"},
           {"x = 'abc", "unterminated string literal", "      ^~~~"},
           {"f(x) = 3", "cannot assign to a function call; '==' compares", "  ^~~~"},
           {"x = y if z", "expected 'else' of the conditional expression, found end of line", "            ^"},
           {"return x y", "expected end of line, found 'y'", "           ^"},
           {"else if x:", "'else' without a matching 'if' at this indentation", "  ^~~~"},
           {"x ++", "Python has no '++'; write '+= 1'", "     ^"},
           {"print x", "missing parentheses in the call of 'print'", "        ^"},
           {"f(a=1, b)", "a positional argument follows a keyword argument", "         ^"},
           {"x = ${y}", "unexpected character", "      ^"},
       }) {
    std::string text = absl::StrCat("@triton.jit\ndef f(p):\n  ", m.line, "\n");
    std::string got = Errors(text);
    EXPECT_EQ(got, absl::StrCat("k.py:3:", std::string(m.marks).find('^') + 1, ": error: ", m.message, "\n    ", m.line, "\n  ", m.marks, "\n"));
  }
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n  if p = 3:\n    pass\n  else:\n    pass\n"),
            "k.py:3:8: error: expected ':', found '='; '==' compares\n    if p = 3:\n         ^\n");
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n  if p\n    pass\n"),
            "k.py:3:7: error: expected ':' at the end of the 'if' statement, found end of line\n    if p\n        ^\n");
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n  if p:\n  x = 1\n"),
            "k.py:4:3: error: expected an indented block after the 'if' statement on line 3\n    x = 1\n    ^\n");
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n  x = 1\n    y = 2\n"), "k.py:4:5: error: unexpected indentation\n      y = 2\n      ^\n");
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n    x = 1\n  y = 2\n"),
            "k.py:4:3: error: unindent does not match any outer indentation level\n    y = 2\n    ^\n");
  EXPECT_EQ(Errors("@triton.jit\ndef f(p)\n  x = 1\n"),
            "k.py:2:9: error: expected ':' at the end of the function definition, found end of line\n  def f(p)\n          ^\n");
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n  if p:\n    pass\n  else if q:\n    pass\n"),
            "k.py:5:3: error: write 'elif' for 'else if'\n    else if q:\n    ^~~~\n");
}

TEST(Parse, NamesTheOpenBracketWhenTheNextLineGoesOn) {
  EXPECT_EQ(Errors("@triton.jit\ndef f(p):\n  x = tl.load(p\n  y = 2\n"),
            "k.py:3:14: error: '(' was never closed (or a comma is missing before line 4)\n    x = tl.load(p\n               ^\n");
}

TEST(Parse, ReportsEachMistakeOnceAndGoesOn) {
  std::string got = Errors("@triton.jit\ndef f(p):\n  x = )\n  y = 1\n  if y\n    z = $\n  w = (\n\ndef g():\n  pass\n");
  EXPECT_NE(got.find("k.py:3:7:"), std::string::npos) << got;
  EXPECT_NE(got.find("k.py:5:7:"), std::string::npos) << got;
  EXPECT_NE(got.find("k.py:7:7: error: '(' was never closed"), std::string::npos) << got;
  EXPECT_EQ(got.find("k.py:6:"), std::string::npos) << got;
}

TEST(Parse, SkipsDamageInHostFunctions) {
  Diagnostics diagnostics;
  File file = ParseText(
      "def host(a):\n  x = = 3\n  if (:\n    y\n  print 'old'\n    z = 1\n  w = 'open\n  return f(a,\n\n"
      "@triton.jit\ndef kernel(p):\n  tl.store(p, 1)\n",
      &diagnostics);
  EXPECT_TRUE(diagnostics.all().empty());
  ASSERT_EQ(file.body.size(), 2u);
  EXPECT_EQ(file.body[0]->text, "host");
  EXPECT_EQ(file.body[1]->text, "kernel");
  EXPECT_EQ(file.body[1]->body.size(), 1u);
}

TEST(Parse, ReportsDamageAtModuleLevel) {
  EXPECT_EQ(Errors("x = = 3\n"), "k.py:1:5: error: expected an expression, found '='\n  x = = 3\n      ^\n");
  EXPECT_EQ(Errors("def host():\n  x = '''open\n"), "k.py:2:7: error: unterminated triple-quoted string literal\n    x = '''open\n        ^~~\n");
  EXPECT_NE(Errors("x = '\xFF'").find("k.py:1:6: error: the file is not valid UTF-8 here"), std::string::npos);
}

TEST(Parse, ReportsDamageInKernelsInsideHostFunctions) {
  EXPECT_NE(Errors("def host():\n  @triton.jit\n  def kernel(p):\n    x = )\n").find("k.py:4:9: error:"), std::string::npos);
}

TEST(Parse, SameTreeForEveryLineEnd) {
  std::string text = ReadTestData("kernels.py"), windows, mac;
  for (char c : text) {
    windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
    mac += c == '\n' ? '\r' : c;
  }
  EXPECT_EQ(Reprint("\xEF\xBB\xBF" + windows), Reprint(text));
  EXPECT_EQ(Reprint(mac), Reprint(text));
}

TEST(Parse, BoundsEveryKindOfNesting) {
  const int kMany = 20'000;
  auto many = [](const std::string& piece) {
    std::string text;
    for (int i = 0; i < kMany; ++i) text += piece;
    return text;
  };
  std::vector<std::string> texts = {
      "x = " + many("("), "x = " + many("[") + many("]"), "x = " + many("{1:"), "x = " + many("-") + "1", "x = " + many("not ") + "1",
      "x = " + many("f(") + many(")"), "x = a" + many("[0"), "x = " + many("lambda: ") + "1", "x = " + many("1 if 1 else ") + "1",
      "x = " + many("2**") + "1", "x = a" + many(".b"), "x = a" + many("+a"), "x = a" + many("()"), "x = a" + many("<a"), "x = " + many("a=") + "1",
      "x = " + many("await "), "x = f'" + many("{f'"), "x = f'{a:" + many("{a:"), many("if a:\n") + "  pass", "if a:\n  b\n" + many("elif a:\n  b\n"),
      many("@a\n"), "x = " + many("'a' "), "x = " + many("*"), many("x;"), many("def f("), "x = [" + many("a for ") + "]", many("\\\n"), many("{"), many("'"),
      "with " + many("("), "del " + many("("), many("class A("), "x: " + many("("), "yield " + many("(yield "), "@jit\ndef f():\n  x = a" + many("+a")};
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += std::string(i, ' ') + "if a:\n";
  texts.push_back(deep);
  for (const std::string& text : texts) {
    Diagnostics diagnostics;
    File file = ParseText(text, &diagnostics);
    for (const StmtPtr& statement : file.body) Print(*statement, true);  // recursion over the tree is safe
  }
  EXPECT_NE(Errors("x = " + many("(")).find("nested too deeply"), std::string::npos);
  EXPECT_NE(Errors("@jit\ndef f():\n  x = a" + many("+a")).find("too long"), std::string::npos);
  EXPECT_EQ(Errors("x = a" + many("+a")), "") << "outside kernels a long sum is skipped";
}

TEST(Parse, TakesLinearTime) {
  // The long text is 20 times the short one: quadratic behaviour would take 400 times as long, 100 times is allowed.
  auto seconds = [](const std::string& text) {
    auto begin = std::chrono::steady_clock::now();
    Diagnostics diagnostics;
    ParseText(text, &diagnostics);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (const char* piece : {"x = f(a, 'b', f'{c}')\n", "f'{\n", "match x:\n", "f\"{'''\n", "if a:\n b\n", "(", "def f(:\n", "f'{a:{b\n", "@jit\ndef f():\n  x = )\n"}) {
    std::string small, large;
    for (int i = 0; i < 1'000; ++i) small += piece;
    for (int i = 0; i < 20'000; ++i) large += piece;
    EXPECT_LT(seconds(large), 100 * (seconds(small) + 0.002)) << piece;
  }
}

TEST(Parse, SurvivesTruncationAtEveryByte) {
  std::string text = ReadTestData("kernels.py");
  for (size_t length = 0; length <= text.size(); ++length) {
    Diagnostics diagnostics;
    std::vector<File> files;
    files.push_back(ParseText(text.substr(0, length), &diagnostics));
    for (const Diagnostic& d : diagnostics.all()) {
      EXPECT_GE(d.range.line, 1);
      EXPECT_GE(d.range.column, 1);
      EXPECT_FALSE(Render(d, files).empty());
    }
  }
}

TEST(Parse, SurvivesAnyByteAnywhere) {
  std::string text = ReadTestData("kernels.py").substr(0, 1500);
  uint32_t random = 1;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (int j = 0; j < 3; ++j) {
      random = random * 1664525 + 1013904223;
      damaged[random % damaged.size()] = static_cast<char>(random >> 24);
    }
    Diagnostics diagnostics;
    File file = ParseText(damaged, &diagnostics);
    for (const StmtPtr& statement : file.body) Print(*statement, true);
  }
}

}  // namespace
}  // namespace tessera::frontend
