// Warnings about kernels: each mistake is found, with its line, and the correct kernel beside it gets none.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/driver/test_compile.h"
#include "compiler/library/catalog.h"

namespace tessera::compiler {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The warnings of a kernel `k(x, y, out, n, m, BLOCK)` with this body.
std::vector<std::string> Warnings(const std::string& body, const std::string& type = "fp32", const std::string& constants = "BLOCK=1024") {
  std::string source = "import triton\nimport triton.language as tl\n@triton.jit\ndef product(a, b): return a * b\n@triton.jit\ndef k(x, y, out, n, m, BLOCK: tl.constexpr):\n";
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) source += "    " + line + "\n";
  auto job = MakeJob(source, "k", "x=*" + type + ",y=*" + type + ",out=*fp32,n=i32,m=i32", constants);
  EXPECT_TRUE(job.ok()) << job.status();
  std::vector<storage::Diagnostic> diagnostics;
  auto artifact = Compiler().Compile(*job, &diagnostics);
  EXPECT_TRUE(artifact.ok()) << artifact.status();
  if (!artifact.ok()) return {"no artifact"};
  return {artifact->metadata().notes().begin(), artifact->metadata().notes().end()};
}

TEST(InactiveValues, ZeroBeforeAMaximumIsFoundWithItsLine) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\n"
                       "v = tl.load(x + i, mask=i < n, other=0.0)\n"
                       "tl.store(out, tl.max(v, axis=0))\n"),
              ElementsAre(AllOf(HasSubstr("kernel.py:9:"), HasSubstr("warning: lanes outside the mask hold 0 (from line 8)"),
                                HasSubstr("tl.store(out, tl.max(v, axis=0))"), HasSubstr("other=-float('inf')"))));
}

TEST(InactiveValues, AMissingOtherBeforeAMaximumIsFound) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\n"
                       "v = tl.load(x + i, mask=i < n)\n"
                       "tl.store(out, tl.max(v.to(tl.float32), axis=0))\n",
                       "fp16"),
              ElementsAre(HasSubstr("because the load has no `other`")));
}

TEST(InactiveValues, TheyAreFollowedThroughArithmeticShapesAndMinima) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)[None, :]\nr = tl.arange(0, 4)[:, None]\n"
                       "v = tl.load(x + r * n + i, mask=(i < n) & (r < m), other=0.0)\n"
                       "tl.store(out + tl.arange(0, 4), tl.min(-v * 2.0, axis=1))\n"),
              ElementsAre(HasSubstr("win this minimum")));
}

TEST(InactiveValues, ArgmaxAndProductsToo) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\n"
                       "v = tl.load(x + i, mask=i < n, other=0.0)\n"
                       "tl.store(out, tl.argmax(v, axis=0).to(tl.float32))\n"),
              ElementsAre(HasSubstr("win this maximum")));
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\n"
                       "v = tl.load(x + i, mask=i < n, other=0.0)\n"
                       "tl.store(out, tl.reduce(v, 0, product))\n"
                       "\n").size(), 1u);
}

TEST(InactiveValues, SumsOfShiftedOrTransformedLanesAreFound) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\n"
                       "v = tl.load(x + i, mask=i < n, other=0.0)\n"
                       "mean = tl.sum(v, axis=0) / n\n"
                       "d = v - mean\n"
                       "tl.store(out, tl.sum(d * d, axis=0) / n)\n"),
              ElementsAre(AllOf(HasSubstr("kernel.py:11:"), HasSubstr("0 minus the result of another reduction"))));
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\n"
                       "v = tl.load(x + i, mask=i < n, other=0.0)\n"
                       "tl.store(out, tl.sum(tl.exp(v), axis=0))\n"),
              ElementsAre(HasSubstr("hold 1 (from line 8) and are part of this sum")));
}

TEST(InactiveValues, AMaximumCarriedByALoopIsFound) {
  EXPECT_THAT(Warnings("best = tl.full([BLOCK], -float('inf'), tl.float32)\n"
                       "for start in range(0, n, BLOCK):\n"
                       "    i = start + tl.arange(0, BLOCK)\n"
                       "    v = tl.load(x + i, mask=i < n, other=0.0)\n"
                       "    best = tl.maximum(best, v)\n"
                       "tl.store(out, tl.max(best, axis=0))\n"),
              ElementsAre(HasSubstr("hold at least 0")));
}

TEST(InactiveValues, CorrectKernelsGetNoWarning) {
  const char* const bodies[] = {
      // The neutral value.
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=-float('inf'))\ntl.store(out, tl.max(v, axis=0))\n",
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=-1e9)\ntl.store(out, tl.max(v, axis=0))\n",
      // Put right with the same mask.
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=0.0)\ntl.store(out, tl.max(tl.where(i < n, v, -float('inf')), axis=0))\n",
      // No negative values.
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=0.0)\ntl.store(out, tl.max(tl.abs(v), axis=0))\n",
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=0.0)\ntl.store(out, tl.max(v * v, axis=0))\n",
      // Rows that are masked off as a whole.
      "r = tl.arange(0, 16)\ni = tl.arange(0, BLOCK)\nv = tl.load(x + r[:, None] * BLOCK + i[None, :], mask=r[:, None] < n, other=0.0)\n"
      "tl.store(out + r, tl.max(v, axis=1), mask=r < n)\n",
      // Sums of zeros, and a variance as it should be.
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=0.0)\nmean = tl.sum(v, axis=0) / n\n"
      "d = tl.where(i < n, v - mean, 0.0)\ntl.store(out, tl.sum(d * d, axis=0) / n)\n",
      // Softmax.
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=-float('inf'))\ne = tl.exp(v - tl.max(v, axis=0))\n"
      "tl.store(out + i, e / tl.sum(e, axis=0), mask=i < n)\n",
      // The largest of absolute values, carried by a loop.
      "best = tl.zeros([BLOCK], tl.float32)\nfor start in range(0, n, BLOCK):\n    i = start + tl.arange(0, BLOCK)\n"
      "    v = tl.load(x + i, mask=i < n, other=0.0)\n    best = tl.maximum(tl.abs(v), best)\ntl.store(out, tl.max(best, axis=0))\n",
      // A block without a mask, and values that other data choose.
      "i = tl.arange(0, BLOCK)\ntl.store(out, tl.max(tl.load(x + i), axis=0))\n",
      "i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=0.0)\nw = tl.load(y + i, mask=i < n, other=0.0)\n"
      "tl.store(out, tl.max(tl.where(w > 0.5, v, -float('inf')), axis=0))\n",
  };
  for (const char* body : bodies) EXPECT_THAT(Warnings(body), IsEmpty()) << body;
  // The largest of counts: 0 is meant.
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\nv = tl.load(x + i, mask=i < n, other=0)\ntl.store(out, tl.max(v, axis=0).to(tl.float32))\n", "i32"), IsEmpty());
}

TEST(NarrowAccumulators, LongSumsInHalfPrecisionAreFound) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\ntl.store(out, tl.sum(tl.load(x + i), axis=0).to(tl.float32))\n", "fp16"),
              ElementsAre(AllOf(HasSubstr("kernel.py:8:"), HasSubstr("a sum of 1024 fp16 values is accumulated in fp16"))));
  EXPECT_THAT(Warnings("acc = tl.zeros([BLOCK], tl.float16)\n"
                       "for start in range(0, n):\n"
                       "    acc += tl.load(x + start * BLOCK + tl.arange(0, BLOCK))\n"
                       "tl.store(out + tl.arange(0, BLOCK), acc.to(tl.float32))\n",
                       "fp16", "BLOCK=64"),
              ElementsAre(HasSubstr("this loop's sum is accumulated in fp16")));
}

TEST(NarrowAccumulators, ProductsOfMatricesInHalfPrecisionAreFound) {
  const std::string loop =
      "i = tl.arange(0, 32)\n"
      "acc = tl.zeros([32, 32], TYPE)\n"
      "for k in range(0, n, 32):\n"
      "    a = tl.load(x + i[:, None] * n + k + i[None, :])\n"
      "    b = tl.load(y + (k + i[:, None]) * 32 + i[None, :])\n"
      "    acc = tl.dot(a, b, acc, out_dtype=TYPE)\n"
      "tl.store(out + i[:, None] * 32 + i[None, :], acc.to(tl.float32))\n";
  auto with = [&](const std::string& type) {
    std::string text = loop;
    for (size_t at; (at = text.find("TYPE")) != std::string::npos;) text.replace(at, 4, type);
    return text;
  };
  EXPECT_THAT(Warnings(with("tl.float16"), "fp16"), ElementsAre(AllOf(HasSubstr("product of matrices is accumulated in fp16"), HasSubstr("fp32"))));
  EXPECT_THAT(Warnings(with("tl.float32"), "fp16"), IsEmpty());
}

TEST(NarrowAccumulators, ShortOrWideSumsGetNoWarning) {
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\ntl.store(out, tl.sum(tl.load(x + i).to(tl.float32), axis=0))\n", "fp16"), IsEmpty());
  EXPECT_THAT(Warnings("i = tl.arange(0, BLOCK)\ntl.store(out, tl.sum(tl.load(x + i), axis=0).to(tl.float32))\n", "fp16", "BLOCK=64"), IsEmpty());
  EXPECT_THAT(Warnings("acc = tl.zeros([BLOCK], tl.float16)\n"
                       "for start in range(0, 4):\n"
                       "    acc += tl.load(x + start * BLOCK + tl.arange(0, BLOCK))\n"
                       "tl.store(out + tl.arange(0, BLOCK), acc.to(tl.float32))\n",
                       "fp16", "BLOCK=64"),
              IsEmpty());
}

TEST(Lints, ShippedKernelsGetNone) {
  const std::string row = "x_ptr=*fp16:16,out_ptr=*fp16:16,x_stride=i32,out_stride=i32,cols=i32";
  const std::string norm = "x_ptr=*fp16:16,weight_ptr=*fp16:16,out_ptr=*fp16:16,x_stride=i32,out_stride=i32,cols=i32,eps=fp32";
  const std::string linear =
      "x_ptr=*fp16:16,w_ptr=*fp16:16,bias_ptr=*fp16:16,out_ptr=*fp16:16,M=i32,N=i32,K=i32,stride_xm=i32,stride_xk=1,stride_wk=i32,stride_wn=1,"
      "stride_bias=1,stride_om=i32,stride_on=1";
  struct Case {
    std::string op, kernel, signature, constants;
  };
  const Case cases[] = {{"softmax", "softmax_row", row, "BLOCK=2048"},
                        {"softmax", "softmax_blocks", row, "BLOCK=2048"},
                        {"rmsnorm", "rmsnorm_row", norm, "BLOCK=2048"},
                        {"rmsnorm", "rmsnorm_blocks", norm, "BLOCK=2048"},
                        {"linear", "linear", linear, "ACTIVATION=gelu,PRECISION=tf32,BLOCK_M=64,BLOCK_N=128,BLOCK_K=64,GROUP_M=8"}};
  int compiled = 0;
  for (const Case& c : cases)
    for (const library::OpDescription& op : library::ListOps()) {
      if (op.name != c.op) continue;
      ++compiled;
      auto job = MakeJob(std::string(op.source.text()), c.kernel, c.signature, c.constants);
      ASSERT_TRUE(job.ok()) << job.status();
      std::vector<storage::Diagnostic> diagnostics;
      auto artifact = Compiler().Compile(*job, &diagnostics);
      ASSERT_TRUE(artifact.ok()) << artifact.status();
      EXPECT_THAT(std::vector<std::string>(artifact->metadata().notes().begin(), artifact->metadata().notes().end()), IsEmpty()) << c.kernel;
      EXPECT_GT(artifact->metadata().launch_facts().accesses_size(), 1) << c.kernel;
    }
  EXPECT_EQ(compiled, 5);
}

}  // namespace
}  // namespace tessera::compiler
