// Errors of the emitter: what they say and where.
#include "compiler/frontend/check/testing.h"
#include "gtest/gtest.h"

namespace tessera::frontend {
namespace {

struct Row {
  const char* name;
  const char* body;  // statements of the kernel, from line 4 on, indented by 4
  int line, column;
  const char* message;  // a part of it
};

const Row kRows[] = {
    {"unknown function", "y = tl.laod(x)", 4, 9, "unknown function tl.laod; did you mean 'tl.load'?"},
    {"unknown name", "y = nn + 1", 4, 9, "name 'nn' is not defined; did you mean 'n'?"},
    {"unknown keyword", "y = tl.load(x, msk=None)", 4, 24, "tl.load has no parameter 'msk'; it takes pointer, mask, other"},
    {"missing argument", "tl.store(x)", 4, 5, "tl.store misses its argument 'value'"},
    {"too many arguments", "tl.program_id(0, 1)", 4, 22, "tl.program_id takes at most 1 argument"},
    {"no power of two", "y = tl.arange(0, 100)", 4, 9, "block dimension 100 is not a power of two"},
    {"too large", "y = tl.zeros([2048, 1024], tl.float32)", 4, 18, "has more than 1048576 elements"},
    {"runtime size", "y = tl.arange(0, n)", 4, 22, "'end' must be an integer known at compile time, not int32 scalar"},
    {"block as condition", "if tl.arange(0, 4) > n:\n        return", 4, 8, "a block cannot decide a branch"},
    {"dot shapes", "a = tl.zeros([16, 32], tl.float16)\n    c = tl.dot(a, a)", 5, 9,
     "the shapes [16, 32] and [16, 32] do not multiply: the first has 32 columns, the second 16 rows"},
    {"dot types", "a = tl.zeros([16, 16], tl.float16)\n    c = tl.dot(a, a.to(tl.float32))", 5, 9,
     "both operands of tl.dot must have one type, not float16 and float32"},
    {"dot accumulator", "a = tl.zeros([16, 16], tl.float16)\n    c = tl.dot(a, a, a)", 5, 22,
     "'acc' must be a float32 block [16, 16], not float16 block [16, 16]"},
    {"broadcast", "y = tl.arange(0, 128) + tl.arange(0, 64)", 4, 9,
     "shapes [128] and [64] do not broadcast: dimension 0 is 128 and 64"},
    {"literal out of range", "y = tl.arange(0, 4).to(tl.int8) + 255", 4, 9, "the literal 255 is out of range for int8"},
    {"float floor division", "y = 1.5 // n", 4, 9, "'//' is for integers"},
    {"mixed signs", "y = n.to(tl.uint32) % n", 4, 9, "mixes signed and unsigned"},
    {"exp of fp16", "y = tl.exp(tl.zeros([4], tl.float16))", 4, 16,
     "tl.exp wants float32 or float64, not float16 block [4]; convert with .to(tl.float32)"},
    {"load of a number", "y = tl.load(n)", 4, 17, "tl.load wants a pointer or a block of pointers, not int32 scalar"},
    {"mask shape", "y = tl.load(x + tl.arange(0, 4), mask=tl.arange(0, 8) < n)", 4, 43, "shapes [4] and [8] do not broadcast"},
    {"block through scalar pointer", "tl.store(x, tl.arange(0, 4))", 4, 17,
     "int32 block [4] cannot be stored through a scalar pointer"},
    {"type change in a loop", "a = 0\n    for i in range(n):\n        a = a + 0.5", 6, 9,
     "'a' changes its type in the loop: int32 scalar before it, float32 scalar at the end of its body"},
    {"constant assigned in a loop", "a = None\n    for i in range(n):\n        a = i", 6, 9,
     "'a' is None, known at compile time, and cannot be assigned inside a loop"},
    {"constexpr parameter in a loop", "for i in range(n):\n        B = B + 1", 5, 9, "'B' is the constant 16, known at compile time"},
    {"type differs between branches", "a = 0\n    if n > 1:\n        a = 1.5\n    tl.store(x, a)", 5, 5,
     "'a' differs in type after the two branches: float32 scalar and int32 scalar"},
    {"name of a branch", "if n > 1:\n        a = 1\n    tl.store(x, a)", 6, 17,
     "'a' does not exist here: it is only assigned inside a branch or loop body that has ended"},
    {"name of a loop body", "for i in range(n):\n        a = i\n    tl.store(x, a)", 6, 17, "'a' does not exist here"},
    {"return in a loop", "for i in range(n):\n        return", 5, 9, "'return' inside a loop is not supported"},
    {"break", "for i in range(n):\n        break", 5, 9, "'break' is not part of the kernel language"},
    {"kernel returns", "return n", 4, 5, "a kernel returns nothing, but this one returns int32 scalar"},
    {"static assert", "tl.static_assert(B == 4, \"B must be 4\")", 4, 5, "static assertion failed: B must be 4"},
    {"lambda", "f = lambda a: a", 4, 9, "lambdas are not part of the kernel language"},
    {"subscript store", "a = tl.arange(0, 4)\n    a[0] = 1", 5, 5, "a block or tuple cannot be changed in place"},
    {"indexing", "a = tl.arange(0, 4)[0]", 4, 25, "a block is indexed with ':' and None only"},
    {"pointers added", "y = x + x", 4, 9, "two pointers cannot be combined with '+'"},
    {"float offset", "y = x + 1.5", 4, 9, "a pointer offset must be an integer"},
    {"and of integers", "if n and n > 1:\n        return", 4, 8, "'and' wants conditions (int1), not int32 scalar"},
    {"fp8 from integer", "y = n.to(tl.float8e5)", 4, 9, "there is no conversion from int32 to float8e5"},
    {"axis", "y = tl.sum(tl.arange(0, 4), 1)", 4, 9, "'axis' is 1, but the block has 1 dimension"},
    {"unpacking", "a, b = 1, 2, 3", 4, 5, "a tuple of 3 cannot be unpacked into 2 names"},
    {"atomic on int8", "tl.atomic_add(x.to(tl.pointer_type(tl.int8)), 1)", 4, 5, "tl.atomic_add does not work on int8"},
    {"host function", "host()", 4, 5, "'host' is a plain Python function"},
    {"infinite loop", "while True:\n        pass", 4, 11, "this loop never ends"},
    {"unrolled too far", "for i in tl.static_range(1000000):\n        pass", 4, 5, "unrolled loops take more than 100000 steps"},
    {"reshape", "y = tl.reshape(tl.arange(0, 8), [4, 4])", 4, 9, "tl.reshape keeps the number of elements: [8] has 8, [4, 4] has 16"},
    {"raise", "raise ValueError(\"no\")", 4, 5, "the kernel raises an error here: no"},
    {"attribute", "y = n.foo", 4, 9, "int32 scalar has no attribute or method 'foo'"},
};

TEST(Errors, SayWhatIsWrongAndWhere) {
  for (const Row& row : kRows) {
    Emitted e = Emit(std::string("def host(): pass\n@triton.jit\ndef kernel(x, n, B: tl.constexpr):\n    ") + row.body + "\n",
                     "x=*fp32 n=i32 B=#16");
    std::string got = e.error();
    // Line 1 holds the imports: the body starts at line 5.
    std::string place = std::to_string(row.line + 1) + ":" + std::to_string(row.column) + ": ";
    EXPECT_EQ(got.substr(0, place.size()), place) << row.name << ": " << got;
    EXPECT_NE(got.find(row.message), std::string::npos) << row.name << ": " << got;
  }
}

TEST(Errors, NameTheCallsThatLeadThere) {
  Emitted e = Emit(R"(@triton.jit
def inner(a):
    return tl.exp(a)
@triton.jit
def outer(a):
    return inner(a)
@triton.jit
def kernel(x):
    tl.store(x, outer(1))
)", "x=*fp32");
  ASSERT_EQ(e.diagnostics.size(), 3u);
  EXPECT_EQ(e.diagnostics[0].range.line, 4);
  EXPECT_EQ(e.diagnostics[1].range.line, 7);
  EXPECT_EQ(e.diagnostics[1].message, "in the call of inner from here");
  EXPECT_EQ(e.diagnostics[2].range.line, 10);
  EXPECT_EQ(e.diagnostics[2].severity, Severity::kNote);
}

TEST(Errors, RefuseRecursion) {
  Emitted e = Emit("@triton.jit\ndef f(a):\n    return f(a)\n@triton.jit\ndef kernel(x):\n    f(x)\n", "x=*fp32");
  EXPECT_NE(e.error().find("'f' calls itself"), std::string::npos) << e.error();
}

TEST(Errors, EndARunawayOfCalls) {
  std::string source = "@triton.jit\ndef f0(a):\n    return a + 1\n";
  for (int i = 1; i < 40; ++i) {
    std::string callee = "f" + std::to_string(i - 1);
    source += "@triton.jit\ndef f" + std::to_string(i) + "(a):\n    return " + callee + "(a) * " + callee + "(a)\n";
  }
  Emitted e = Emit(source + "@triton.jit\ndef kernel(x):\n    tl.store(x, f39(tl.load(x)))\n", "x=*fp32");
  EXPECT_NE(e.error().find("this kernel becomes too large"), std::string::npos) << e.error();
}

TEST(Errors, NameBothPlacesOfAConflict) {
  Emitted e = Emit("@triton.jit\ndef kernel(x, n):\n    a = 0\n    if n > 1:\n        a = 1.5\n    tl.store(x, a)\n", "x=*fp32 n=i32");
  ASSERT_EQ(e.diagnostics.size(), 3u);
  EXPECT_EQ(e.diagnostics[1].range.line, 6);
  EXPECT_EQ(e.diagnostics[2].range.line, 4);
}

TEST(Errors, NameUnknownKernelsAndParameters) {
  EXPECT_NE(Emit("@triton.jit\ndef other(x):\n    pass\n", "x=*fp32").error().find("no kernel 'kernel'; it has other"), std::string::npos);
  EXPECT_NE(Emit("@triton.jit\ndef kernel(x):\n    pass\n", "x=*fp32 y=i32").error().find("has no parameter 'y'"), std::string::npos);
  EXPECT_NE(Emit("@triton.jit\ndef kernel(x, y):\n    pass\n", "x=*fp32").error().find("parameter 'y' is given neither"), std::string::npos);
  EXPECT_NE(Emit("@triton.jit\ndef kernel(x):\n    pass\n", "x=*fp12").error().find("unknown type '*fp12'"), std::string::npos);
}

TEST(Errors, LeaveAWrongKernelThatIsNotLaunchedAlone) {
  Emitted e = Emit("@triton.jit\ndef wrong(x):\n    y = nonsense(x)\n@triton.jit\ndef kernel(x):\n    pass\n", "x=*fp32");
  EXPECT_EQ(e.error(), "");
}

TEST(Errors, WantADeepDotOnTheGpuOnly) {
  const char* source = "@triton.jit\ndef kernel(x):\n    a = tl.zeros([16, 8], tl.float16)\n    b = tl.zeros([8, 16], tl.float16)\n    c = tl.dot(a, b)\n";
  EXPECT_EQ(Emit(source, "x=*fp32", "kernel", "cpu").error(), "");
  EXPECT_NE(Emit(source, "x=*fp32", "kernel", "sm_90a").error().find("wants a K of at least 16"), std::string::npos);
}

}  // namespace
}  // namespace tessera::frontend
