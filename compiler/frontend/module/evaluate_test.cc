#include "compiler/frontend/module/evaluate.h"

#include <gtest/gtest.h>

#include "compiler/frontend/module/testing.h"

namespace tessera::frontend {
namespace {

constexpr char kImports[] = "import math, os, itertools\nimport torch, triton\nimport triton.language as tl\n";

// repr of an expression's value in a module that starts with kImports and `before`, or "error: ...".
std::string Eval(const std::string& expression, const std::string& before = "") {
  TestModule module(kImports + before + "RESULT = (" + expression + ")\n");
  const Stmt& last = *module.files()[0].body.back();
  Evaluator evaluator(module.index());
  std::optional<Constant> value = evaluator.Evaluate(*last.value, module.index().FileScope(0));
  return value ? Repr(*value) : "error: " + evaluator.error().message;
}

struct Row {
  const char* expression;
  const char* value;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) EXPECT_EQ(Eval(row.expression), row.value) << row.expression;
}

TEST(Evaluate, ArithmeticIsPythons) {
  Check({{"7 // 2, -7 // 2, 7 // -2, -7 // -2", "(3, -4, -4, 3)"},
         {"7 % 3, -7 % 3, 7 % -3, -7 % -3", "(1, 2, -2, -1)"},
         {"7.5 // 2, -7.5 // 2, -7.5 % 2, 7.5 % -2", "(3.0, -4.0, 0.5, -0.5)"},
         {"7 / 2, 4 / 2", "(3.5, 2.0)"},
         {"2 ** 10, 2 ** -1, (-2) ** 3, 0 ** 0, 2.0 ** 0.5", "(1024, 0.5, -8, 1, 1.4142135623730951)"},
         {"-2 ** 2, ~5, +True, -True", "(-4, -6, 1, -1)"},
         {"6 & 3, 6 | 3, 6 ^ 3, 1 << 40, -8 >> 1, 1 >> 200", "(2, 7, 5, 1099511627776, -4, 0)"},
         {"True & False, True | 2, True + True", "(False, 3, 2)"},
         {"18446744073709551615, -9223372036854775808", "(18446744073709551615, -9223372036854775808)"},
         {"4294967295 * 4294967295, -4294967296 * 2147483648", "(18446744065119617025, -9223372036854775808)"},
         {"1e3, 1.5e-7, 0.1 + 0.2, 1e16, 123456789.0, float('inf')", "(1000.0, 1.5e-07, 0.30000000000000004, 1e+16, 123456789.0, float('inf'))"}});
}

TEST(Evaluate, ReportsWhatHasNoValue) {
  Check({{"1 // 0", "error: integer division by zero"},
         {"1 % 0", "error: integer remainder by zero"},
         {"1 / 0", "error: division by zero"},
         {"1.0 // 0", "error: float division by zero"},
         {"18446744073709551615 + 1", "error: the integer does not fit in 64 bits"},
         {"-9223372036854775808 - 1", "error: the integer does not fit in 64 bits"},
         {"2 ** 64", "error: the integer does not fit in 64 bits"},
         {"1 << 64", "error: the integer does not fit in 64 bits"},
         {"1 << -1", "error: negative shift count"},
         {"18446744073709551616", "error: the integer does not fit in 64 bits"},
         {"1 + 'a'", "error: '+' does not take int and str"},
         {"1.5 & 1", "error: '&' does not take floats"},
         {"1 < 'a'", "error: '<' does not take int and str"},
         {"[1][3]", "error: index 3 is out of range for 1 elements"},
         {"{}['a']", "error: the dict has no key 'a'"},
         {"nothing", "error: name 'nothing' is not defined"},
         {"len(1)", "error: 'len' does not take int"},
         {"min()", "error: 'min' takes at least 1 arguments, not 0"},
         {"3(4)", "error: int is not callable"},
         {"torch.zeros(3)", "error: 'torch.zeros' comes from outside the module and cannot be called at compile time"},
         {"tl.load(1)", "error: 'tl.load' cannot be called at compile time"},
         {"(yield 1)", "error: yield expression cannot be evaluated at compile time"}});
}

TEST(Evaluate, ErrorsNameTheirPlace) {
  TestModule module("X = [1, 2 + (3 // 0)]\n");
  Evaluator evaluator(module.index());
  Diagnostics diagnostics;
  EXPECT_FALSE(evaluator.Evaluate(*module.files()[0].body[0]->value, module.index().FileScope(0), &diagnostics));
  ASSERT_EQ(diagnostics.all().size(), 1u);
  EXPECT_EQ(Render(diagnostics.all()[0], module.files()),
            "main.py:1:14: error: integer division by zero\n  X = [1, 2 + (3 // 0)]\n               ^~~~~~\n");
}

TEST(Evaluate, ComparisonsAndLogicArePythons) {
  Check({{"1 < 2 < 3, 1 < 3 < 2, 3 > 2 == 2", "(True, False, True)"},
         {"0 or 'a', 1 and 2, [] or None, not []", "('a', 2, None, True)"},
         {"1 == 1.0, True == 1, 'a' == 1, None is None, None == 0", "(True, True, False, True, False)"},
         {"tl.float16 == tl.float16, torch.bfloat16 == tl.bfloat16, tl.int8 != tl.uint8", "(True, True, True)"},
         {"'b' in 'abc', 2 in (1, 2), 3 not in [1], 'k' in {'k': 1}, 1 in {2}", "(True, True, True, True, False)"},
         {"(1, 2) < (1, 3), 'a' < 'b', [2] > [1, 5]", "(True, True, True)"},
         {"1 if [] else 2", "2"},
         {"False and nothing", "False"},
         {"float('nan') == float('nan'), float('nan') < 1", "(False, False)"},
         {"2 ** 63 > 1e18, 2 ** 63 == 2.0 ** 63", "(True, True)"}});
}

TEST(Evaluate, CollectionsWorkAsInConfigLists) {
  Check({{"[m * n for m in [1, 2] for n in (3, 4) if m * n > 3]", "[4, 6, 8]"},
         {"[(a, b) for a, b in zip([1, 2], 'xy')]", "[(1, 'x'), (2, 'y')]"},
         {"{k: v for k, v in [('a', 1), ('b', 2)]}", "{'a': 1, 'b': 2}"},
         {"{x % 2 for x in range(5)}", "{0, 1}"},
         {"{**{'a': 1, 'b': 2}, 'b': 3}", "{'a': 1, 'b': 3}"},
         {"[*range(2), *(5, 6)]", "[0, 1, 5, 6]"},
         {"list(range(5, 0, -2)), len(range(3)), sum([1, 2.5]), max(3, 1), min([4, 2])", "([5, 3, 1], 3, 3.5, 3, 2)"},
         {"any([0, 1]), all([]), sorted([3, 1, 2], reverse=True), list(reversed((1, 2)))", "(True, True, [3, 2, 1], [2, 1])"},
         {"sorted(['bb', 'a'], key=len), max([1, -5], key=lambda x: x * x), list(map(lambda x: x + 1, [1]))", "(['a', 'bb'], -5, [2])"},
         {"list(filter(lambda x: x > 1, [1, 2, 3])), dict(a=1), list(enumerate('ab', 1))", "([2, 3], {'a': 1}, [(1, 'a'), (2, 'b')])"},
         {"(1, 2)[-1], [1, 2, 3][::-1], 'abc'[1:], (1, 2, 3)[:2]", "(2, [3, 2, 1], 'bc', (1, 2))"},
         {"[1] + [2], (1,) * 3, 'ab' * 2, [0] * 0", "([1, 2], (1, 1, 1), 'abab', [])"},
         {"isinstance(1, int), isinstance(True, int), isinstance('a', (int, str)), isinstance(1.0, int)", "(True, True, True, False)"},
         {"list(itertools.product([1, 2], ['a']))", "[(1, 'a'), (2, 'a')]"},
         {"abs(-3), int('12'), int(3.9), float('1.5'), bool([]), str(1.0), round(2.5), divmod(-7, 2)", "(3, 12, 3, 1.5, False, '1.0', 2, (-4, 1))"}});
}

TEST(Evaluate, StringsFormatAsPythons) {
  Check({{"f'{1 + 1}-{\"a\"!r}-{3.14159:.2f}'", "'2-\\'a\\'-3.14'"},
         {"f'{255:x} {255:#06x} {7:03d} {-7:+} {1234567:,} {0.25:.0%} {\"a\":>3} {\"a\":^3}|{1.5:8.3e}'", "'ff 0x00ff 007 -7 1,234,567 25%   a  a |1.500e+00'"},
         {"'aBc'.upper(), ' x '.strip(), 'a,b'.split(','), '-'.join(['a', 'b']), 'abab'.replace('a', 'x')", "('ABC', 'x', ['a', 'b'], 'a-b', 'xbxb')"},
         {"'${} {1:03d} {{{b!r}}} {b}'.format(1, 2, b='x'), 'mov ${out}, ${src};'.format(out=0, src=1 + 1)", "('$1 002 {\\'x\\'} x', 'mov $0, $2;')"},
         {"'float16'.startswith(('fp', 'float')), 'a.py'.endswith('.py')", "(True, True)"}});
}

TEST(Evaluate, KnowsTritonsHelpersAndTypes) {
  Check({{"triton.cdiv(7, 2), tl.cdiv(8, 2), triton.next_power_of_2(5), triton.next_power_of_2(8)", "(4, 4, 8, 8)"},
         {"tl.constexpr(5) + 1", "6"},
         {"tl.float16.primitive_bitwidth, tl.float8e5.itemsize, tl.int1.primitive_bitwidth, tl.int64.itemsize", "(16, 1, 1, 8)"},
         {"tl.float8e4nv.is_fp8(), tl.float16.is_fp8(), tl.bfloat16.is_bf16(), tl.int8.is_int(), tl.uint8.is_int_signed()", "(True, False, True, True, False)"},
         {"tl.get_int_dtype(16, True), tl.get_int_dtype(bitwidth=32, signed=False)", "(tl.int16, tl.uint32)"},
         {"tl.pointer_type(tl.float16), tl.pointer_type(tl.int8).element_ty, tl.dtype('fp32')", "(tl.pointer_type(tl.float16), tl.int8, tl.float32)"},
         {"math.ceil(1.2), math.log2(8), math.sqrt(4), math.prod([2, 3]), math.pi", "(2, 3.0, 2.0, 6, 3.141592653589793)"},
         {"triton.Config({'B': 64}, num_warps=8).kwargs['B'], triton.Config({}).num_stages", "(64, 3)"},
         {"hasattr(tl, 'make_tensor_descriptor'), hasattr(tl, 'no_such_thing')", "(True, False)"},
         {"torch.version.hip is None, os.environ.get('X', '1') == '1'", "(True, True)"},
         {"triton.runtime.driver.active.get_current_target().backend", "'cuda'"},
         {"torch.cuda.get_device_properties(0).multi_processor_count, torch.cuda.get_device_capability()[0]", "(132, 9)"}});
}

TEST(Evaluate, RunsHostFunctions) {
  const char* kFunctions =
      "def configs(sizes, *rest, stages=(2,), **extra):\n"
      "    '''docstring'''\n"
      "    out = []\n"
      "    for m in sizes:\n"
      "        if m > 64:\n"
      "            continue\n"
      "        for s in stages:\n"
      "            out.append((m, s))\n"
      "    total, *others = rest or (0,)\n"
      "    out += [total, others, extra]\n"
      "    while len(out) > 3:\n"
      "        out.pop(0)\n"
      "    d = {}\n"
      "    d['a'] = 1; d['a'] += 1\n"
      "    out[0] = d\n"
      "    return out\n"
      "def fact(n):\n"
      "    return 1 if n <= 1 else n * fact(n - 1)\n"
      "@triton.constexpr_function\n"
      "def half(x: tl.constexpr):\n"
      "    assert x % 2 == 0\n"
      "    return x // 2\n";
  EXPECT_EQ(Eval("configs([32, 128, 64], 7, 8, stages=(1, 2), k=5)", kFunctions), "[{'a': 2}, [8], {'k': 5}]");
  EXPECT_EQ(Eval("fact(10), half(8)", kFunctions), "(3628800, 4)");
  EXPECT_EQ(Eval("half(3)", kFunctions), "error: the assertion fails");
  EXPECT_EQ(Eval("fact()", kFunctions), "error: the call of 'fact' lacks the argument 'n'");
  EXPECT_EQ(Eval("fact(1, 2)", kFunctions), "error: 'fact' is called with too many arguments");
  EXPECT_EQ(Eval("fact(n=3, m=1)", kFunctions), "error: 'fact' has no parameter 'm' left");
  EXPECT_EQ(Eval("f()", "def f():\n    raise ValueError('no')\n"), "error: raises ValueError('no')");
}

TEST(Evaluate, EndsRunawayEvaluations) {
  EXPECT_EQ(Eval("f()", "def f():\n    while True: pass\n"), "error: the evaluation takes too many steps");
  EXPECT_EQ(Eval("f(0)", "def f(n):\n    return f(n + 1)\n"), "error: calls are nested too deeply");
  EXPECT_EQ(Eval("range(10 ** 12)"), "error: the range is too long");
  EXPECT_EQ(Eval("[0] * 10 ** 9"), "error: the result is too long");
  EXPECT_EQ(Eval("[i for i in range(900000) for j in range(900000)]"), "error: the lists of this evaluation are too long");
  EXPECT_EQ(Eval("(lambda f: f(f))(lambda f: f(f))"), "error: the evaluation is nested too deeply");
  EXPECT_NE(Eval("f()", "def f():\n    x = []\n    while True: x = [x, x]\n").find("error:"), std::string::npos);
  // Values that hold themselves, or are nested a million deep, are neither printed nor freed recursively.
  EXPECT_NE(Eval("f()", "def f():\n    x = []\n    x.append(x)\n    return x\n").find("..."), std::string::npos);
  EXPECT_EQ(Eval("f() is None", "def f():\n    x = []\n    for i in range(150000): x = [x]\n    return x\n"), "False");
}

TEST(Evaluate, TakesValuesFromItsEnvironment) {
  TestModule module("F = lambda args: args['n'] * SCALE\nSCALE = 3\n");
  Evaluator evaluator(module.index());
  Lookup f = module.index().Resolve("F", 0);
  ASSERT_TRUE(f.found());
  std::optional<Constant> value = evaluator.Call(f.value, {Constant::Dict({Constant::String("n"), Constant::Int(5)})}, {}, {});
  ASSERT_TRUE(value) << evaluator.error().message;
  EXPECT_EQ(Repr(*value), "15");
  LocalEnvironment local(&module.index().FileScope(0));
  local.Set("SCALE", Constant::Int(7));
  EXPECT_EQ(Repr(local.Find("SCALE").value), "7");
  EXPECT_EQ(local.Find("F").outcome, Lookup::Outcome::kFound);
}

TEST(Constant, GoesThroughStorage) {
  TestModule module("import triton\n@triton.jit\ndef helper(x):\n    return x\n");
  std::vector<Constant> values = {Constant::None(), Constant::Bool(true), Constant::Int(-5), Constant::Int(Integer{UINT64_MAX}), Constant::Float(0.1),
                                  Constant::String("a\xC3\xA9"), Constant::Type(DType::kBf16), Constant::PointerType(DType::kFp16),
                                  Constant::Of(module.index().FindJitFunction("helper")), Constant::Tuple({Constant::Int(1), Constant::Tuple({})})};
  for (const Constant& value : values) {
    std::optional<storage::ConstantValue> stored = ToStorage(value);
    ASSERT_TRUE(stored) << Repr(value);
    std::string error;
    std::optional<Constant> read = FromStorage(*stored, module.index(), &error);
    ASSERT_TRUE(read) << error;
    EXPECT_TRUE(Equal(*read, value) && read->kind == value.kind) << Repr(value) << " " << Repr(*read);
  }
  EXPECT_FALSE(ToStorage(Constant::Dict({})));
  EXPECT_FALSE(ToStorage(Constant::Module("tl")));
  storage::ConstantValue unknown;
  unknown.set_function("nobody");
  std::string error;
  EXPECT_FALSE(FromStorage(unknown, module.index(), &error));
  EXPECT_EQ(error, "the module has no jit function 'nobody'");
}

}  // namespace
}  // namespace tessera::frontend
