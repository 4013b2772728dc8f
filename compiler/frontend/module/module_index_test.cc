#include "compiler/frontend/module/module_index.h"

#include <gtest/gtest.h>

#include "compiler/frontend/module/testing.h"

namespace tessera::frontend {
namespace {

std::string JitNames(const TestModule& module) {
  std::string names;
  for (const Function* function : module.index().jit_functions()) names += (names.empty() ? "" : " ") + function->name;
  return names;
}

TEST(ModuleIndex, FindsJitFunctionsUnderEverySpelling) {
  TestModule module(
      "import triton\nfrom triton import jit\nimport triton as T\nfrom triton.runtime.jit import jit as compiled\nfrom x.y import triton as tr\n"
      "from triton.experimental import gluon\nfrom triton.experimental.gluon import jit as gjit\nimport numba\nimport cutlass.cute as cute\n"
      "@triton.jit\ndef a(): pass\n"
      "@jit\ndef b(): pass\n"
      "@T.jit(debug=True)\ndef c(): pass\n"
      "@compiled\ndef d(): pass\n"
      "@tr.jit\ndef e(): pass\n"
      "@triton.autotune(configs=[], key=[])\n@triton.heuristics({})\n@triton.jit(do_not_specialize=['x'])\ndef f(x): pass\n"
      "@gluon.jit\ndef not_g(): pass\n"
      "@gjit\ndef not_h(): pass\n"
      "@numba.jit\ndef not_i(): pass\n"
      "@cute.jit\ndef not_l(): pass\n"
      "@triton.jit_me\ndef not_j(): pass\n"
      "def not_k(): pass\n");
  EXPECT_EQ(JitNames(module), "a b c d e f");
}

TEST(ModuleIndex, FindsJitFunctionsInsideOtherStatements) {
  TestModule module(
      "import triton\n"
      "if True:\n    @triton.jit\n    def a(): pass\n"
      "try:\n    @triton.jit\n    def b(): pass\nexcept ImportError:\n    pass\n"
      "class C:\n    SIZE = 4\n    @staticmethod\n    @triton.jit\n    def c(): pass\n"
      "def make(n):\n    @triton.jit\n    def d(): pass\n    return d\n"
      "with x:\n    @triton.jit\n    def e(): pass\n"
      "for i in y:\n    @triton.jit\n    def f(): pass\n");
  EXPECT_EQ(JitNames(module), "a b c d e f");
  EXPECT_EQ(module.Value("C"), "<module class:0>");
  EXPECT_EQ(Repr(module.index().Attribute(module.index().Resolve("C", 0).value, "SIZE").value), "4");
}

TEST(ModuleIndex, EvaluatesGlobals) {
  TestModule module(
      "import triton.language as tl\n"
      "A = 5\nB = tl.constexpr(A * 2)\nC: tl.constexpr = B + 1\nD, E = 1, 'x'\nF = G = 3\nexp = tl.exp\nH = tl.math.exp2\nI = tl.float16\n"
      "J = -A\nK = LATER\nLATER = 9\nL: int\nM = [1]\nM.append(2)\nN = 1\nN += 2\nO = P = []\nQ = tl.math.tanh\n"
      "R = []\nfor i in range(3):\n    R.append(i)\nS = {}\nS['k'] = A\nT = 1\nT = T + 1\nT = T * 5\n");
  EXPECT_EQ(module.Value("A"), "5");
  EXPECT_EQ(module.Value("B"), "10");
  EXPECT_EQ(module.Value("C"), "11");
  EXPECT_EQ(module.Value("D"), "1");
  EXPECT_EQ(module.Value("E"), "'x'");
  EXPECT_EQ(module.Value("F"), "3");
  EXPECT_EQ(module.Value("exp"), "tl.exp");
  EXPECT_EQ(module.Value("H"), "tl.exp2");
  EXPECT_EQ(module.Value("I"), "tl.float16");
  EXPECT_EQ(module.Value("J"), "-5");
  EXPECT_EQ(module.Value("K"), "9");
  EXPECT_EQ(module.Value("L"), "undefined");
  EXPECT_EQ(module.Value("M"), "[1, 2]");
  EXPECT_EQ(module.Value("N"), "3");
  EXPECT_EQ(module.Value("Q"), "libdevice.tanh");
  EXPECT_EQ(module.Value("R"), "[0, 1, 2]");
  EXPECT_EQ(module.Value("i"), "2");
  EXPECT_EQ(module.Value("S"), "{'k': 5}");
  EXPECT_EQ(module.Value("T"), "10");
  EXPECT_EQ(module.Value("range"), "range");
  EXPECT_EQ(module.Value("nothing"), "undefined");
}

TEST(ModuleIndex, SaysWhyAGlobalIsNotConstant) {
  TestModule module("import torch\nA = torch.zeros(3)\nB = A + 1\nC = C2\nC2 = C\ndef f(x):\n    @jit\n    def k(): pass\n");
  EXPECT_EQ(module.Value("A"), "not constant: 'torch.zeros' comes from outside the module and cannot be called at compile time");
  EXPECT_EQ(module.Value("B"),
            "not constant: 'A' is not known at compile time: 'torch.zeros' comes from outside the module and cannot be called at compile time (line 2)");
  EXPECT_NE(module.Value("C").find("is defined by way of itself"), std::string::npos);
  const Function* kernel = module.index().FindJitFunction("k");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->scope->Find("x").reason, "it is a parameter of 'f'");
}

TEST(ModuleIndex, TakesTheBranchWhoseConditionHolds) {
  TestModule module(
      "import torch, triton\nimport triton.language as tl\n"
      "FAST = True\n"
      "if FAST:\n    A = 1\nelse:\n    A = 2\n"
      "if not FAST:\n    B = 1\nelif A == 1:\n    B = 2\nelse:\n    B = 3\n"
      "if hasattr(tl, 'make_tensor_descriptor'):\n    C = 1\nelse:\n    C = 2\n"
      "if torch.distributed.is_initialized():\n    D = 1\nelse:\n    D = 2\n"
      "try:\n    import fast_math\n    E = 1\nexcept ImportError:\n    E = 2\n"
      "if triton.__version__ >= '3.0.0':\n    F = 1\nelse:\n    F = 2\n"
      "if __name__ == '__main__':\n    F = 3\n"
      "if torch.x:\n    @triton.jit\n    def g(): return 1\nelse:\n    @triton.jit\n    def g(): return 2\n"
      "if FAST:\n    @triton.jit\n    def h(): return 1\nelse:\n    @triton.jit\n    def h(): return 2\n");
  EXPECT_EQ(module.Value("A"), "1");
  EXPECT_EQ(module.Value("B"), "2");
  EXPECT_EQ(module.Value("C"), "1");
  EXPECT_EQ(module.Value("D"), "2");
  EXPECT_EQ(module.Value("E"), "1");
  EXPECT_EQ(module.Value("F"), "1");
  EXPECT_EQ(JitNames(module), "g h");
  EXPECT_EQ(module.index().FindJitFunction("g")->definition->range.line, 38);
  EXPECT_EQ(module.index().FindJitFunction("g")->note, "2 definitions of 'g': the one on line 38 is taken, the last whose condition is not known");
  EXPECT_EQ(module.index().FindJitFunction("h")->definition->range.line, 41);
}

TEST(ModuleIndex, ResolvesImportsBetweenFiles) {
  TestModule module({
      {"pkg/ops/main.py",
       "from .helpers import scale, SIZE as S\nfrom ..common import exp\nfrom . import helpers as h\nimport pkg.common\nimport pkg.ops.helpers as direct\n"
       "from pkg.common import *\nfrom .missing import nobody\nfrom .helpers import absent\nfrom somewhere.far import tl, libdevice\nfrom other.helpers import SIZE as by_suffix\n"
       "A = h.SIZE + pkg.common.BASE\nB = direct.SIZE\nC = BASE\nD = tl.load\nE = libdevice.tanh\nF = sub.DEEP\nfrom .. import sub\n"},
      {"pkg/ops/helpers.py", "import triton\nSIZE = 64\n@triton.jit\ndef scale(x): return x\n"},
      {"pkg/common.py", "import triton.language as tl\nexp = tl.exp\nBASE = 100\n"},
      {"pkg/sub/__init__.py", "DEEP = 1\n"},
  });
  EXPECT_EQ(module.Value("scale"), "<function scale>");
  EXPECT_EQ(module.Value("S"), "64");
  EXPECT_EQ(module.Value("exp"), "tl.exp");
  EXPECT_EQ(module.Value("A"), "164");
  EXPECT_EQ(module.Value("B"), "64");
  EXPECT_EQ(module.Value("C"), "100");
  EXPECT_EQ(module.Value("D"), "tl.load");
  EXPECT_EQ(module.Value("E"), "libdevice.tanh");
  EXPECT_EQ(module.Value("F"), "1");
  EXPECT_EQ(module.Value("by_suffix"), "64");
  EXPECT_EQ(module.Value("nobody"), "<external .missing.nobody>");
  EXPECT_EQ(module.Value("absent"), "not constant: 'pkg/ops/helpers.py' does not define 'absent'");
  EXPECT_EQ(module.index().FindJitFunction("scale")->file, 1);
}

TEST(ModuleIndex, SurvivesImportsInACircle) {
  TestModule module({{"a.py", "from b import X\nfrom b import *\nY = X\n"}, {"b.py", "from a import Y\nfrom a import *\nX = Y\n"}});
  EXPECT_NE(module.Value("X").find("not constant"), std::string::npos);
  EXPECT_EQ(module.Value("Z"), "undefined");
}

TEST(ModuleIndex, KnowsTheLanguageUnderItsImportPaths) {
  TestModule module(
      "import triton\nfrom triton import language as L\nfrom triton.language import float32, math, arange\nimport triton.language.extra.libdevice as ld\n"
      "from triton.language.extra.cuda import libdevice, gdc_wait\nfrom triton.language.extra import libdevice as ld2\nfrom triton.language.math import rsqrt, tanh\n"
      "from triton.language.standard import _log2\nfrom torch._inductor.runtime.triton_helpers import libdevice as ld3\n"
      "A = L.float8e4nv\nB = triton.language.int32\nC = ld.erf\nD = ld2.pow\nE = L.extra.cuda.libdevice.rsqrt\nF = math.exp\nG = ld3.tanh\nH = L.core.dot\nI = L.standard.cdiv\n");
  EXPECT_EQ(module.Value("A"), "tl.float8e4nv");
  EXPECT_EQ(module.Value("B"), "tl.int32");
  EXPECT_EQ(module.Value("C"), "libdevice.erf");
  EXPECT_EQ(module.Value("D"), "libdevice.pow");
  EXPECT_EQ(module.Value("E"), "libdevice.rsqrt");
  EXPECT_EQ(module.Value("F"), "tl.exp");
  EXPECT_EQ(module.Value("G"), "libdevice.tanh");
  EXPECT_EQ(module.Value("H"), "tl.dot");
  EXPECT_EQ(module.Value("I"), "tl.cdiv");
  EXPECT_EQ(module.Value("arange"), "tl.arange");
  EXPECT_EQ(module.Value("float32"), "tl.float32");
  EXPECT_EQ(module.Value("rsqrt"), "tl.rsqrt");
  EXPECT_EQ(module.Value("tanh"), "libdevice.tanh");
  EXPECT_EQ(module.Value("gdc_wait"), "tl.extra.cuda.gdc_wait");
}

TEST(ModuleIndex, BoundsChainsOfDefinitions) {
  std::string chain = "A0 = 1\n";
  for (int i = 1; i < 20000; ++i) chain += "A" + std::to_string(i) + " = A" + std::to_string(i - 1) + " + 1\n";
  TestModule module(chain);
  EXPECT_EQ(module.Value("A50"), "51");
  EXPECT_NE(module.Value("A19999").find("not constant"), std::string::npos);
}

TEST(ModuleIndex, BoundsTheWorkOfAllDefinitionsTogether) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "A" + std::to_string(i) + " = [j for j in range(400000)]\n";
  TestModule module(text);
  int constant = 0;
  for (int i = 0; i < 200; ++i) constant += module.index().Resolve("A" + std::to_string(i), 0).found();
  EXPECT_LT(constant, 20);
}

}  // namespace
}  // namespace tessera::frontend
