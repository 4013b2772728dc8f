// Kernels as textual tile IR, compiled and run in this process, against references in double precision and against the
// interpreter.
#include "compiler/target/cpu/cpu_target.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/target/cpu/jit_kernel.h"
#include "compiler/target/interpreter/interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

//===-- writing kernels --------------------------------------------------------------------------===//

std::string Tensor(const std::vector<int>& shape, const std::string& element) {
  std::string text = "tensor<";
  for (int extent : shape) absl::StrAppend(&text, extent, "x");
  return absl::StrCat(text, element, ">");
}

int Elements(const std::vector<int>& shape) {
  int n = 1;
  for (int extent : shape) n *= extent;
  return n;
}

// `%name` = the row-major block of `shape` at pointer `%pointer`.
std::string Load(const std::string& name, const std::string& pointer, const std::vector<int>& shape, const std::string& type) {
  int n = Elements(shape);
  std::string flat = Tensor({n}, type), pointers = Tensor({n}, absl::StrCat("!tile.ptr<", type, ">"));
  return absl::StrCat("%", name, "_r = tile.range {start = 0 : i32, end = ", n, " : i32} : tensor<", n, "xi32>\n",
                      "%", name, "_s = tile.splat %", pointer, " : !tile.ptr<", type, "> -> ", pointers, "\n",
                      "%", name, "_p = tile.addptr %", name, "_s, %", name, "_r : ", pointers, ", tensor<", n, "xi32>\n",
                      "%", name, "_f = tile.load %", name, "_p : ", pointers, " -> ", flat, "\n",
                      "%", name, " = tile.reshape %", name, "_f : ", flat, " -> ", Tensor(shape, type), "\n");
}

std::string Store(const std::string& value, const std::string& pointer, const std::vector<int>& shape, const std::string& type) {
  int n = Elements(shape);
  std::string flat = Tensor({n}, type), pointers = Tensor({n}, absl::StrCat("!tile.ptr<", type, ">"));
  std::string name = absl::StrCat("st_", pointer);
  return absl::StrCat("%", name, "_r = tile.range {start = 0 : i32, end = ", n, " : i32} : tensor<", n, "xi32>\n",
                      "%", name, "_s = tile.splat %", pointer, " : !tile.ptr<", type, "> -> ", pointers, "\n",
                      "%", name, "_p = tile.addptr %", name, "_s, %", name, "_r : ", pointers, ", tensor<", n, "xi32>\n",
                      "%", name, "_f = tile.reshape %", value, " : ", Tensor(shape, type), " -> ", flat, "\n",
                      "tile.store %", name, "_p, %", name, "_f : ", pointers, ", ", flat, "\n");
}

// A kernel over pointers named p0, p1, ... of the given types.
std::string Kernel(const std::vector<std::string>& pointees, const std::string& body, const std::string& more_arguments = "") {
  std::string text = "func.func @kernel(";
  for (size_t i = 0; i < pointees.size(); ++i)
    absl::StrAppend(&text, i ? ", " : "", "%p", i, ": !tile.ptr<", pointees[i], ">");
  return absl::StrCat(text, more_arguments.empty() ? "" : ", ", more_arguments, ") attributes {tile.kernel} {\n", body, "return\n}\n");
}

//===-- running kernels ----------------------------------------------------------------------------===//

using Bytes = std::vector<uint8_t>;

template <typename T>
Bytes AsBytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> As(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> RandomFloats(int n, uint32_t seed = 1, float low = -2, float high = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(n);
  for (float& v : values) v = uniform(random);
  return values;
}

std::vector<int32_t> RandomInts(int n, int low, int high, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> uniform(low, high);
  std::vector<int32_t> values(n);
  for (int32_t& v : values) v = uniform(random);
  return values;
}

// Bits of random, mostly normal values of a 16-bit or 8-bit type.
template <typename T>
std::vector<T> RandomBits(int n, T mask, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& v : values) v = T(random()) & mask;
  return values;
}

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

std::vector<uint64_t> Parameters(std::vector<Bytes>& buffers, const std::vector<uint64_t>& scalars) {
  std::vector<uint64_t> params;
  for (Bytes& buffer : buffers) params.push_back(reinterpret_cast<uint64_t>(buffer.data()));
  params.insert(params.end(), scalars.begin(), scalars.end());
  return params;
}

std::vector<Bytes> RunOnCpu(const std::string& text, std::vector<Bytes> buffers, const std::vector<uint64_t>& scalars = {},
                            Grid grid = {}, const CpuTargetOptions& options = {}) {
  auto kernel = JitKernel::Compile(text, options);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  if (!kernel.ok()) return buffers;
  absl::Status status = (*kernel)->Run(Parameters(buffers, scalars), grid.x, grid.y, grid.z);
  EXPECT_TRUE(status.ok()) << status;
  return buffers;
}

std::vector<Bytes> RunOnInterpreter(const std::string& text, std::vector<Bytes> buffers,
                                    const std::vector<uint64_t>& scalars = {}, Grid grid = {}) {
  mlir::DialectRegistry registry;
  RegisterCpuTargetDialects(&registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto interpreter = interpreter::Interpreter::Create(*module);
  EXPECT_TRUE(interpreter.ok()) << interpreter.status();
  if (!interpreter.ok()) return buffers;
  const uint32_t extents[3] = {grid.x, grid.y, grid.z};
  absl::Status status = (*interpreter)->Run(Parameters(buffers, scalars).data(), extents, InterpretOptions());
  EXPECT_TRUE(status.ok()) << status;
  return buffers;
}

// Every CPU this test compiles for and can run: the host's, and a plain AVX2 machine with 16 registers of 256 bits.
std::vector<CpuTargetOptions> Targets() {
  CpuTargetOptions host, avx2;
  avx2.cpu_features = "haswell:+avx,+avx2,+f16c,+fma";
  std::vector<CpuTargetOptions> targets{host};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) targets.push_back(avx2);
#endif
  return targets;
}

// Integers, and floats without reassociation, agree bit by bit.
void ExpectSameAsInterpreter(const std::string& text, const std::vector<Bytes>& buffers,
                             const std::vector<uint64_t>& scalars = {}, Grid grid = {}) {
  std::vector<Bytes> want = RunOnInterpreter(text, buffers, scalars, grid);
  for (CpuTargetOptions options : Targets()) {
    options.fp_fusion = false;
    std::vector<Bytes> got = RunOnCpu(text, buffers, scalars, grid, options);
    for (size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_EQ(got[i].size(), want[i].size());
      for (size_t b = 0; b < got[i].size(); ++b)
        ASSERT_EQ(got[i][b], want[i][b]) << "buffer " << i << ", byte " << b << ", cpu " << options.cpu_features << "\n" << text;
    }
  }
}

// fp32 results within `tolerance` of the largest magnitude.
void ExpectCloseToInterpreter(const std::string& text, const std::vector<Bytes>& buffers, double tolerance) {
  std::vector<Bytes> want = RunOnInterpreter(text, buffers);
  for (const CpuTargetOptions& options : Targets()) {
    std::vector<Bytes> got = RunOnCpu(text, buffers, {}, {}, options);
    for (size_t i = 0; i < buffers.size(); ++i) {
      std::vector<float> a = As<float>(got[i]), b = As<float>(want[i]);
      double scale = 0;
      for (float v : b) scale = std::max<double>(scale, std::fabs(v));
      for (size_t j = 0; j < a.size(); ++j)
        ASSERT_NEAR(a[j], b[j], tolerance * scale) << "buffer " << i << ", element " << j << ", cpu " << options.cpu_features;
    }
  }
}

//===-- elementwise kernels ---------------------------------------------------------------------------===//

constexpr char kAdd[] = R"(
func.func @kernel(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %pid = tile.program_id 0 : i32
  %size = arith.constant 64 : i32
  %start = arith.muli %pid, %size : i32
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %offs = arith.addi %starts, %r : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi slt, %offs, %ns : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %offs : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %xv = tile.load %xp mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %yp = tile.addptr %ys, %offs : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %yv = tile.load %yp mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %s = arith.addf %xv, %yv : tensor<64xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %op = tile.addptr %os, %offs : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %op, %s mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
)";

TEST(CpuTarget, WritesEveryElementUnderTheMaskAndNothingElse) {
  for (const CpuTargetOptions& options : Targets())
    for (int n : {1, 15, 16, 17, 63, 64, 65, 200}) {
      std::vector<float> x = RandomFloats(n, 1), y = RandomFloats(n, 2), o(n + 64, -1.0f);
      auto result = RunOnCpu(kAdd, {AsBytes(x), AsBytes(y), AsBytes(o)}, {Slot(n)}, {uint32_t(n + 63) / 64}, options);
      std::vector<float> got = As<float>(result[2]);
      for (int i = 0; i < n; ++i) ASSERT_EQ(got[i], x[i] + y[i]);
      for (int i = n; i < n + 64; ++i) ASSERT_EQ(got[i], -1.0f) << i;
    }
}

TEST(CpuTarget, RoundsSmallFloatsAfterEachOperation) {
  for (std::string type : {"f16", "bf16"}) {
    std::string body = Load("a", "p0", {64}, type) + Load("b", "p1", {64}, type);
    absl::StrAppend(&body, "%c = arith.mulf %a, %b : tensor<64x", type, ">\n%d = arith.addf %c, %b : tensor<64x", type, ">\n",
                    "%e = arith.maxnumf %d, %a : tensor<64x", type, ">\n");
    body += Store("e", "p2", {64}, type);
    auto bits = type == "f16" ? uint16_t(0xbbff) : uint16_t(0xbfff);
    ExpectSameAsInterpreter(Kernel({type, type, type}, body),
                            {AsBytes(RandomBits<uint16_t>(64, bits, 1)), AsBytes(RandomBits<uint16_t>(64, bits, 2)), Bytes(128)});
  }
}

TEST(CpuTarget, ComparesHalvesAsVectorsAndKeepsNan) {
  std::string body = Load("a", "p0", {256}, "f16") + Load("b", "p1", {256}, "f16") + R"(
%gt = arith.cmpf ogt, %a, %b : tensor<256xf16>
%c = arith.select %gt, %a, %b : tensor<256xi1>, tensor<256xf16>
%d = arith.maximumf %a, %b : tensor<256xf16>
%m = tile.reduce(%d) axis 0 : (tensor<256xf16>) -> f16 {
^bb0(%x: f16, %y: f16):
  %0 = arith.maximumf %x, %y : f16
  tile.yield %0 : f16
}
%ms = tile.splat %m : f16 -> tensor<256xf16>
)" + Store("c", "p2", {256}, "f16") + Store("ms", "p3", {256}, "f16");
  std::vector<uint16_t> a = RandomBits<uint16_t>(256, 0xbbff, 1), b = RandomBits<uint16_t>(256, 0xbbff, 2);
  std::string text = Kernel({"f16", "f16", "f16", "f16"}, body);
  ExpectSameAsInterpreter(text, {AsBytes(a), AsBytes(b), Bytes(512), Bytes(512)});
  for (int at : {0, 17, 100, 255}) {
    std::vector<uint16_t> with_nan = a;
    with_nan[at] = 0x7e00;
    uint16_t got = As<uint16_t>(RunOnCpu(text, {AsBytes(with_nan), AsBytes(b), Bytes(512), Bytes(512)})[3])[0];
    EXPECT_GT(got & 0x7fff, 0x7c00) << at;
  }
#if defined(__x86_64__)
  // No lane is compared on its own.
  CpuTargetOptions options;
  options.emit = {"asm"};
  auto kernel = JitKernel::Compile(text, options);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ((*kernel)->object().stages.at("asm").find("ucomiss"), std::string::npos);
#endif
}

TEST(CpuTarget, DividesIntegersWithoutTraps) {
  std::vector<int32_t> a = RandomInts(64, -1000000000, 1000000000), b = RandomInts(64, -50, 50, 2);
  for (int i = 0; i < 64; ++i)
    if (b[i] == 0) b[i] = 7;
  for (std::string op : {"divs", "divu", "rems", "remu"}) {
    std::string body = Load("a", "p0", {64}, "i32") + Load("b", "p1", {64}, "i32") +
                       absl::StrCat("%c = tile.", op, " %a, %b : tensor<64xi32>\n") + Store("c", "p2", {64}, "i32");
    ExpectSameAsInterpreter(Kernel({"i32", "i32", "i32"}, body), {AsBytes(a), AsBytes(b), Bytes(256)});
    // By zero, and the quotient that does not fit: any value, no trap.
    std::vector<int32_t> zeros(64, 0), minus(64, -1), lowest(64, std::numeric_limits<int32_t>::min());
    RunOnCpu(Kernel({"i32", "i32", "i32"}, body), {AsBytes(a), AsBytes(zeros), Bytes(256)});
    RunOnCpu(Kernel({"i32", "i32", "i32"}, body), {AsBytes(lowest), AsBytes(minus), Bytes(256)});
  }
}

TEST(CpuTarget, ConvertsFloatsToIntegersWithSaturation) {
  std::vector<float> values = RandomFloats(64, 1, -300, 300);
  values[0] = NAN, values[1] = INFINITY, values[2] = -INFINITY, values[3] = 3e9f, values[4] = -3e9f, values[5] = -0.0f;
  for (std::string type : {"i8", "i32", "i64"})
    for (std::string sign : {"", "{is_unsigned} "}) {
      std::string body = Load("a", "p0", {64}, "f32") +
                         absl::StrCat("%c = tile.fp_to_int %a ", sign, ": tensor<64xf32> -> tensor<64x", type, ">\n") +
                         Store("c", "p1", {64}, type);
      ExpectSameAsInterpreter(Kernel({"f32", type}, body), {AsBytes(values), Bytes(512)});
    }
}

TEST(CpuTarget, ConvertsBetweenAllFloatTypes) {
  const std::vector<std::string> types = {"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"};
  std::vector<float> values = RandomFloats(64, 1, -500, 500);
  values[0] = NAN, values[1] = INFINITY, values[2] = -1e6f, values[3] = 1e-7f;
  for (const std::string& from : types)
    for (const std::string& to : types) {
      if (from == to) continue;
      std::string body = Load("a", "p0", {64}, "f32");
      std::string source = "a";
      if (from != "f32") {
        absl::StrAppend(&body, "%b = tile.fp_to_fp %a : tensor<64xf32> -> tensor<64x", from, ">\n");
        source = "b";
      }
      absl::StrAppend(&body, "%c = tile.fp_to_fp %", source, " : tensor<64x", from, "> -> tensor<64x", to, ">\n");
      std::string last = "c";
      // NaN payloads are free: compare them as fp32 numbers, NaN replaced by a number.
      if (to != "f32") {
        absl::StrAppend(&body, "%d = tile.fp_to_fp %c : tensor<64x", to, "> -> tensor<64xf32>\n");
        last = "d";
      }
      absl::StrAppend(&body, "%nan = arith.cmpf uno, %", last, ", %", last, " : tensor<64xf32>\n",
                      "%k = arith.constant dense<12345.0> : tensor<64xf32>\n%e = arith.select %nan, %k, %", last,
                      " : tensor<64xi1>, tensor<64xf32>\n");
      body += Store("e", "p1", {64}, "f32");
      ExpectSameAsInterpreter(Kernel({"f32", "f32"}, body), {AsBytes(values), Bytes(256)});
    }
}

TEST(CpuTarget, GathersAndScattersWhereAddressesAreNotConsecutive) {
  // o[2 * i] = x[idx[i]] under a mask; elements of 1, 2, 4 and 8 bytes.
  for (auto [type, bytes] : std::vector<std::pair<std::string, int>>{{"i8", 1}, {"i16", 2}, {"f32", 4}, {"i64", 8}}) {
    std::string p = absl::StrCat("!tile.ptr<", type, ">");
    std::string body = Load("i", "p1", {64}, "i32");
    absl::StrAppend(&body, "%xs = tile.splat %p0 : ", p, " -> tensor<64x", p, ">\n%xp = tile.addptr %xs, %i : tensor<64x", p,
                    ">, tensor<64xi32>\n%limit = arith.constant dense<30> : tensor<64xi32>\n",
                    "%m = arith.cmpi slt, %i, %limit : tensor<64xi32>\n%v = tile.load %xp mask %m : tensor<64xi1> : tensor<64x", p,
                    "> -> tensor<64x", type, ">\n%two = arith.constant dense<2> : tensor<64xi32>\n",
                    "%r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>\n%r2 = arith.muli %r, %two : tensor<64xi32>\n",
                    "%os = tile.splat %p2 : ", p, " -> tensor<64x", p, ">\n%op = tile.addptr %os, %r2 : tensor<64x", p,
                    ">, tensor<64xi32>\ntile.store %op, %v mask %m : tensor<64xi1> : tensor<64x", p, ">, tensor<64x", type, ">\n");
    Bytes x(30 * bytes);
    for (size_t i = 0; i < x.size(); ++i) x[i] = uint8_t(i * 37 + 11);
    ExpectSameAsInterpreter(Kernel({type, "i32", type}, body),
                            {x, AsBytes(RandomInts(64, 0, 1000000) ), Bytes(128 * bytes, 0xcc)});
    ExpectSameAsInterpreter(Kernel({type, "i32", type}, body), {x, AsBytes(RandomInts(64, 0, 29)), Bytes(128 * bytes, 0xcc)});
  }
}

//===-- shapes -----------------------------------------------------------------------------------------===//

TEST(CpuTarget, MovesElementsThroughShapeOperations) {
  struct Shape {
    std::string name, body;
    std::vector<int> result;
  };
  const std::vector<Shape> cases = {
      {"trans", "%c = tile.trans %a {order = array<i32: 1, 0>} : tensor<8x32xi32> -> tensor<32x8xi32>\n", {32, 8}},
      {"reshape", "%c = tile.reshape %a : tensor<8x32xi32> -> tensor<4x4x16xi32>\n", {4, 4, 16}},
      {"reshape of trans",
       "%t = tile.trans %a {order = array<i32: 1, 0>} : tensor<8x32xi32> -> tensor<32x8xi32>\n"
       "%c = tile.reshape %t : tensor<32x8xi32> -> tensor<4x64xi32>\n",
       {4, 64}},
      {"join", "%c = tile.join %a, %b : tensor<8x32xi32> -> tensor<8x32x2xi32>\n", {8, 32, 2}},
      {"interleave",
       "%j = tile.join %a, %b : tensor<8x32xi32> -> tensor<8x32x2xi32>\n"
       "%c = tile.reshape %j : tensor<8x32x2xi32> -> tensor<8x64xi32>\n",
       {8, 64}},
      {"split",
       "%j = tile.reshape %a : tensor<8x32xi32> -> tensor<8x16x2xi32>\n"
       "%l, %r = tile.split %j : tensor<8x16x2xi32> -> tensor<8x16xi32>, tensor<8x16xi32>\n"
       "%c = arith.subi %l, %r : tensor<8x16xi32>\n",
       {8, 16}},
      {"cat",
       "%x = tile.reshape %a : tensor<8x32xi32> -> tensor<256xi32>\n"
       "%y = tile.reshape %b : tensor<8x32xi32> -> tensor<256xi32>\n"
       "%c = tile.cat %x, %y : tensor<256xi32> -> tensor<512xi32>\n",
       {512}},
      {"short cat",
       "%x0 = tile.reshape %a : tensor<8x32xi32> -> tensor<4x64xi32>\n"
       "%x = tile.reduce(%x0) axis 1 : (tensor<4x64xi32>) -> tensor<4xi32> {\n^bb0(%p: i32, %q: i32):\n"
       "  %s = arith.addi %p, %q : i32\n  tile.yield %s : i32\n}\n"
       "%c = tile.cat %x, %x : tensor<4xi32> -> tensor<8xi32>\n",
       {8}},
      {"broadcast of a column",
       "%x0 = tile.reduce(%a) axis 1 : (tensor<8x32xi32>) -> tensor<8xi32> {\n^bb0(%p: i32, %q: i32):\n"
       "  %s = arith.addi %p, %q : i32\n  tile.yield %s : i32\n}\n"
       "%x1 = tile.expand_dims %x0 {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>\n"
       "%x2 = tile.broadcast %x1 : tensor<8x1xi32> -> tensor<8x32xi32>\n"
       "%c = arith.addi %a, %x2 : tensor<8x32xi32>\n",
       {8, 32}},
      {"gather along rows",
       "%k = arith.constant dense<31> : tensor<8x32xi32>\n%i = arith.andi %b, %k : tensor<8x32xi32>\n"
       "%c = tile.gather %a[%i] {axis = 1 : i32} : tensor<8x32xi32>, tensor<8x32xi32> -> tensor<8x32xi32>\n",
       {8, 32}},
      {"gather along columns",
       "%k = arith.constant dense<7> : tensor<8x32xi32>\n%i = arith.andi %b, %k : tensor<8x32xi32>\n"
       "%c = tile.gather %a[%i] {axis = 0 : i32} : tensor<8x32xi32>, tensor<8x32xi32> -> tensor<8x32xi32>\n",
       {8, 32}},
      {"sort", "%c = tile.sort %a : tensor<8x32xi32>\n", {8, 32}},
      {"sort downwards", "%c = tile.sort %a {descending} : tensor<8x32xi32>\n", {8, 32}},
      {"histogram",
       "%k = arith.constant dense<15> : tensor<8x32xi32>\n%i = arith.andi %b, %k : tensor<8x32xi32>\n"
       "%x = tile.reshape %i : tensor<8x32xi32> -> tensor<256xi32>\n"
       "%c = tile.histogram %x : tensor<256xi32> -> tensor<16xi32>\n",
       {16}},
  };
  Bytes a = AsBytes(RandomInts(256, -1000, 1000, 1)), b = AsBytes(RandomInts(256, -1000, 1000, 2));
  for (const Shape& shape : cases) {
    SCOPED_TRACE(shape.name);
    std::string body = Load("a", "p0", {8, 32}, "i32") + Load("b", "p1", {8, 32}, "i32") + shape.body +
                       Store("c", "p2", shape.result, "i32");
    ExpectSameAsInterpreter(Kernel({"i32", "i32", "i32"}, body), {a, b, Bytes(4 * Elements(shape.result))});
  }
}

//===-- reductions and scans -------------------------------------------------------------------------------===//

std::string Region(const std::string& op, const std::string& type) {
  return absl::StrCat("{\n^bb0(%u: ", type, ", %v: ", type, "):\n  %w = ", op, " %u, %v : ", type, "\n  tile.yield %w : ", type, "\n}\n");
}

TEST(CpuTarget, ReducesAlongEveryAxis) {
  const std::vector<int> shape = {4, 8, 32};
  for (auto [op, type] : std::vector<std::pair<std::string, std::string>>{
           {"arith.addi", "i32"}, {"arith.maxsi", "i32"}, {"arith.xori", "i32"}, {"arith.maxnumf", "f32"}, {"arith.minimumf", "f32"}})
    for (int axis = 0; axis < 3; ++axis) {
      SCOPED_TRACE(absl::StrCat(op, " along ", axis));
      std::vector<int> result = shape;
      result.erase(result.begin() + axis);
      std::string body = Load("a", "p0", shape, type) +
                         absl::StrCat("%c = tile.reduce(%a) axis ", axis, " : (", Tensor(shape, type), ") -> ", Tensor(result, type), " ") +
                         Region(op, type) + Store("c", "p1", result, type);
      std::vector<float> floats = RandomFloats(1024);
      floats[5] = NAN;
      Bytes input = type == "i32" ? AsBytes(RandomInts(1024, -100000, 100000)) : AsBytes(floats);
      ExpectSameAsInterpreter(Kernel({type, type}, body), {input, Bytes(4 * Elements(result))});
    }
}

TEST(CpuTarget, SumsFloatsAlongEveryAxis) {
  const std::vector<int> shape = {4, 16, 64};
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<int> result = shape;
    result.erase(result.begin() + axis);
    std::string body = Load("a", "p0", shape, "f32") +
                       absl::StrCat("%c = tile.reduce(%a) axis ", axis, " : (", Tensor(shape, "f32"), ") -> ", Tensor(result, "f32"), " ") +
                       Region("arith.addf", "f32") + Store("c", "p1", result, "f32");
    ExpectCloseToInterpreter(Kernel({"f32", "f32"}, body), {AsBytes(RandomFloats(4096)), Bytes(4 * Elements(result))}, 1e-6);
  }
}

TEST(CpuTarget, KeepsTheLeftmostOfEqualMaxima) {
  for (std::vector<int> shape : {std::vector<int>{256}, std::vector<int>{8, 32}, std::vector<int>{32, 8}}) {
    int axis = shape.size() - 1, n = shape[axis];
    std::vector<int> result(shape.begin(), shape.end() - 1);
    std::string type = Tensor(shape, "i32"), out = result.empty() ? "i32" : Tensor(result, "i32");
    std::string body = Load("a", "p0", shape, "i32");
    absl::StrAppend(&body, "%r0 = tile.range {start = 0 : i32, end = ", n, " : i32} : tensor<", n, "xi32>\n");
    if (shape.size() == 1) {
      absl::StrAppend(&body, "%r = tile.reshape %r0 : tensor<", n, "xi32> -> tensor<", n, "xi32>\n");
    } else {
      absl::StrAppend(&body, "%r1 = tile.expand_dims %r0 {axis = 0 : i32} : tensor<", n, "xi32> -> tensor<1x", n, "xi32>\n",
                      "%r = tile.broadcast %r1 : tensor<1x", n, "xi32> -> ", type, "\n");
    }
    absl::StrAppend(&body, "%m, %i = tile.reduce(%a, %r) axis ", axis, " : (", type, ", ", type, ") -> (", out, ", ", out, R"() {
^bb0(%v0: i32, %i0: i32, %v1: i32, %i1: i32):
  %gt = arith.cmpi sgt, %v0, %v1 : i32
  %eq = arith.cmpi eq, %v0, %v1 : i32
  %lt = arith.cmpi slt, %i0, %i1 : i32
  %tie = arith.andi %eq, %lt : i1
  %first = arith.ori %gt, %tie : i1
  %v = arith.select %first, %v0, %v1 : i32
  %i = arith.select %first, %i0, %i1 : i32
  tile.yield %v, %i : i32, i32
}
)");
    if (result.empty()) {
      absl::StrAppend(&body, "tile.store %p1, %m : !tile.ptr<i32>, i32\ntile.store %p2, %i : !tile.ptr<i32>, i32\n");
    } else {
      body += Store("m", "p1", result, "i32") + Store("i", "p2", result, "i32");
    }
    int bytes = 4 * Elements(result);
    ExpectSameAsInterpreter(Kernel({"i32", "i32", "i32"}, body), {AsBytes(RandomInts(256, 0, 5)), Bytes(bytes), Bytes(bytes)});
  }
}

TEST(CpuTarget, ScansInOrderAlongEveryAxis) {
  // a, b -> a * 3 + b does not commute.
  std::string region = R"({
^bb0(%u: i32, %v: i32):
  %k = arith.constant 3 : i32
  %t = arith.muli %u, %k : i32
  %w = arith.addi %t, %v : i32
  tile.yield %w : i32
}
)";
  const std::vector<int> shape = {4, 8, 16};
  for (int axis = 0; axis < 3; ++axis)
    for (std::string reverse : {"", " {reverse}"}) {
      std::string body = Load("a", "p0", shape, "i32") +
                         absl::StrCat("%c = tile.scan(%a) axis ", axis, reverse, " : (", Tensor(shape, "i32"), ") -> ", Tensor(shape, "i32"), " ", region) +
                         Store("c", "p1", shape, "i32");
      ExpectSameAsInterpreter(Kernel({"i32", "i32"}, body), {AsBytes(RandomInts(512, -9, 9)), Bytes(2048)});
    }
}

TEST(CpuTarget, ReducesWithControlFlowInTheCombineFunction) {
  std::string body = Load("a", "p0", {64}, "i32") + R"(%c = tile.reduce(%a) axis 0 : (tensor<64xi32>) -> i32 {
^bb0(%u: i32, %v: i32):
  %gt = arith.cmpi sgt, %u, %v : i32
  %w = scf.if %gt -> i32 {
    scf.yield %u : i32
  } else {
    scf.yield %v : i32
  }
  tile.yield %w : i32
}
tile.store %p1, %c : !tile.ptr<i32>, i32
)";
  ExpectSameAsInterpreter(Kernel({"i32", "i32"}, body), {AsBytes(RandomInts(64, -900, 900)), Bytes(4)});
}

constexpr char kSoftmax[] = R"(
func.func @kernel(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %row = tile.program_id 0 : i32
  %cols = tile.range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %ns = tile.splat %n : i32 -> tensor<128xi32>
  %m = arith.cmpi slt, %cols, %ns : tensor<128xi32>
  %start = arith.muli %row, %n : i32
  %xr = tile.addptr %x, %start : !tile.ptr<f32>, i32
  %xs = tile.splat %xr : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %cols : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
  %ninf = arith.constant dense<0xFF800000> : tensor<128xf32>
  %xv = tile.load %xp mask %m : tensor<128xi1> other %ninf : tensor<128xf32> : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
  %mx = tile.reduce(%xv) axis 0 : (tensor<128xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.maxnumf %a, %b : f32
    tile.yield %0 : f32
  }
  %mxs = tile.splat %mx : f32 -> tensor<128xf32>
  %d = arith.subf %xv, %mxs : tensor<128xf32>
  %e = math.exp %d : tensor<128xf32>
  %sum = tile.reduce(%e) axis 0 : (tensor<128xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  }
  %ss = tile.splat %sum : f32 -> tensor<128xf32>
  %q = arith.divf %e, %ss : tensor<128xf32>
  %or = tile.addptr %o, %start : !tile.ptr<f32>, i32
  %os = tile.splat %or : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
  %op = tile.addptr %os, %cols : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
  tile.store %op, %q mask %m : tensor<128xi1> : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
  return
}
)";

TEST(CpuTarget, ComputesSoftmaxOfRowsOfAnyWidth) {
  for (const CpuTargetOptions& options : Targets())
    for (int n : {1, 3, 16, 100, 127, 128}) {
      const int rows = 5;
      std::vector<float> x = RandomFloats(rows * n, 3, -20, 20);
      auto result = RunOnCpu(kSoftmax, {AsBytes(x), AsBytes(std::vector<float>(rows * n + 64, -1))}, {Slot(n)}, {rows}, options);
      std::vector<float> got = As<float>(result[1]);
      for (int r = 0; r < rows; ++r) {
        double largest = -1e30, sum = 0;
        for (int c = 0; c < n; ++c) largest = std::max<double>(largest, x[r * n + c]);
        for (int c = 0; c < n; ++c) sum += std::exp(x[r * n + c] - largest);
        // exp is good to 2 ulp and sums to about log2(n) more.
        for (int c = 0; c < n; ++c) ASSERT_NEAR(got[r * n + c], std::exp(x[r * n + c] - largest) / sum, 1e-6);
      }
      for (int i = rows * n; i < rows * n + 64; ++i) ASSERT_EQ(got[i], -1);
    }
}

//===-- products ---------------------------------------------------------------------------------------------===//

// c = a @ b + c over whole blocks; `b` may be given transposed.
std::string DotKernel(int m, int n, int k, const std::string& type, const std::string& sum, const std::string& precision, bool transposed, int batch) {
  auto shape = [&](std::vector<int> s) {
    if (batch > 1) s.insert(s.begin(), batch);
    return s;
  };
  std::string body = Load("a", "p0", shape({m, k}), type);
  if (transposed) {
    std::string order = batch > 1 ? "0, 2, 1" : "1, 0";
    body += Load("bt", "p1", shape({n, k}), type) +
            absl::StrCat("%b = tile.trans %bt {order = array<i32: ", order, ">} : ", Tensor(shape({n, k}), type), " -> ", Tensor(shape({k, n}), type), "\n");
  } else {
    body += Load("b", "p1", shape({k, n}), type);
  }
  body += Load("c", "p2", shape({m, n}), sum);
  absl::StrAppend(&body, "%d = tile.dot %a, %b, %c, ", precision, " : ", Tensor(shape({m, k}), type), " * ", Tensor(shape({k, n}), type), " -> ", Tensor(shape({m, n}), sum), "\n");
  return Kernel({type, type, sum}, body + Store("d", "p2", shape({m, n}), sum));
}

TEST(CpuTarget, MultipliesBlocksOfAllShapes) {
  struct Size {
    int m, n, k, batch;
  };
  for (const CpuTargetOptions& options : Targets())
    for (Size s : {Size{1, 1, 1, 1}, Size{1, 32, 16, 1}, Size{16, 1, 8, 1}, Size{2, 4, 32, 1}, Size{64, 64, 16, 1}, Size{32, 128, 64, 1}, Size{16, 16, 16, 4}})
      for (bool transposed : {false, true}) {
        SCOPED_TRACE(absl::StrCat(s.m, "x", s.n, "x", s.k, " ", transposed));
        std::vector<float> a = RandomFloats(s.batch * s.m * s.k, 1), b = RandomFloats(s.batch * s.k * s.n, 2), c = RandomFloats(s.batch * s.m * s.n, 3);
        auto result = RunOnCpu(DotKernel(s.m, s.n, s.k, "f32", "f32", "ieee", transposed, s.batch), {AsBytes(a), AsBytes(b), AsBytes(c)}, {}, {}, options);
        std::vector<float> got = As<float>(result[2]);
        for (int t = 0; t < s.batch; ++t)
          for (int i = 0; i < s.m; ++i)
            for (int j = 0; j < s.n; ++j) {
              double want = c[(t * s.m + i) * s.n + j];
              for (int l = 0; l < s.k; ++l)
                want += double(a[(t * s.m + i) * s.k + l]) * (transposed ? b[(t * s.n + j) * s.k + l] : b[(t * s.k + l) * s.n + j]);
              // k products of magnitude up to 4, each sum rounded once.
              ASSERT_NEAR(got[(t * s.m + i) * s.n + j], want, 6e-8 * 4 * (s.k + 1) * 4);
            }
      }
}

TEST(CpuTarget, MultipliesIntegersExactly) {
  std::mt19937 random(7);
  std::vector<int8_t> a(32 * 32), b(32 * 32);
  for (auto& v : a) v = random();
  for (auto& v : b) v = random();
  ExpectSameAsInterpreter(DotKernel(32, 32, 32, "i8", "i32", "ieee", false, 1), {AsBytes(a), AsBytes(b), AsBytes(RandomInts(1024, -5, 5))});
}

TEST(CpuTarget, MultipliesSmallFloatsWithExactProducts) {
  for (std::string type : {"f16", "bf16", "f8E4M3FN", "f8E5M2"}) {
    bool byte = type[1] == '8';
    auto bits16 = type == "f16" ? uint16_t(0xbbff) : uint16_t(0xbfff);
    Bytes a = byte ? AsBytes(RandomBits<uint8_t>(256, 0xb7, 1)) : AsBytes(RandomBits<uint16_t>(256, bits16, 1));
    Bytes b = byte ? AsBytes(RandomBits<uint8_t>(256, 0xb7, 2)) : AsBytes(RandomBits<uint16_t>(256, bits16, 2));
    std::string text = DotKernel(16, 16, 16, type, "f32", "ieee", false, 1);
    std::vector<Bytes> buffers{a, b, AsBytes(RandomFloats(256))};
    std::vector<float> want = As<float>(RunOnInterpreter(text, buffers)[2]);
    for (const CpuTargetOptions& options : Targets()) {
      std::vector<float> got = As<float>(RunOnCpu(text, buffers, {}, {}, options)[2]);
      for (int i = 0; i < 256; ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::fabs(want[i]))) << type << " " << i;
    }
  }
}

TEST(CpuTarget, SplitsOperandsAsThePrecisionSays) {
  // Relative to the magnitude of the sums: tf32 keeps 10 bits of each operand, the split ones nearly all.
  struct Precision {
    std::string name;
    double tolerance;
  };
  std::vector<float> a = RandomFloats(32 * 64, 1), b = RandomFloats(64 * 32, 2), c(32 * 32, 0.0f);
  for (Precision p : {Precision{"ieee", 2e-6}, Precision{"tf32", 6e-3}, Precision{"tf32x3", 5e-6}, Precision{"bf16x3", 3e-4}, Precision{"bf16x6", 5e-6}}) {
    auto result = RunOnCpu(DotKernel(32, 32, 64, "f32", "f32", p.name, false, 1), {AsBytes(a), AsBytes(b), AsBytes(c)});
    std::vector<float> got = As<float>(result[2]);
    double worst = 0;
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j) {
        double want = 0;
        for (int l = 0; l < 64; ++l) want += double(a[i * 64 + l]) * b[l * 32 + j];
        worst = std::max(worst, std::fabs(got[i * 32 + j] - want) / 10);
      }
    EXPECT_LT(worst, p.tolerance) << p.name;
    if (p.name == "tf32") EXPECT_GT(worst, 1e-5);
  }
  // Infinity times a number stays infinite.
  std::fill(a.begin(), a.end(), 1.0f);
  a[0] = INFINITY;
  std::fill(b.begin(), b.end(), 0.25f);
  for (std::string name : {"tf32", "tf32x3", "bf16x3", "bf16x6"}) {
    auto result = RunOnCpu(DotKernel(32, 32, 64, "f32", "f32", name, false, 1), {AsBytes(a), AsBytes(b), AsBytes(c)});
    EXPECT_EQ(As<float>(result[2])[0], INFINITY) << name;
    EXPECT_EQ(As<float>(result[2])[40], 16.0f) << name;
  }
}

//===-- control flow and memory ---------------------------------------------------------------------------------===//

TEST(CpuTarget, CarriesBlocksThroughLoops) {
  // Swaps two blocks and adds to one, n times; also with n = 0.
  std::string body = Load("a", "p0", {64}, "i32") + Load("b", "p1", {64}, "i32") + R"(
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%u, %v = scf.for %i = %zero to %n step %one iter_args(%x = %a, %y = %b) -> (tensor<64xi32>, tensor<64xi32>) : i32 {
  %is = tile.splat %i : i32 -> tensor<64xi32>
  %z = arith.addi %x, %is : tensor<64xi32>
  scf.yield %y, %z : tensor<64xi32>, tensor<64xi32>
}
)" + Store("u", "p2", {64}, "i32") + Store("v", "p3", {64}, "i32");
  std::string text = Kernel({"i32", "i32", "i32", "i32"}, body, "%n: i32");
  for (int n : {0, 1, 2, 7})
    ExpectSameAsInterpreter(text, {AsBytes(RandomInts(64, 0, 9, 1)), AsBytes(RandomInts(64, 0, 9, 2)), Bytes(256), Bytes(256)}, {Slot(n)});
}

TEST(CpuTarget, KeepsOldValuesOfCarriedBlocksAlive) {
  // The carried block is read after its next value was made, at the same and at another index.
  std::string body = Load("a", "p0", {8, 8}, "i32") + R"(
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%three = arith.constant 3 : i32
%u, %v = scf.for %i = %zero to %three step %one iter_args(%x = %a, %s = %a) -> (tensor<8x8xi32>, tensor<8x8xi32>) : i32 {
  %r = tile.reduce(%x) axis 1 : (tensor<8x8xi32>) -> tensor<8xi32> {
  ^bb0(%p: i32, %q: i32):
    %0 = arith.addi %p, %q : i32
    tile.yield %0 : i32
  }
  %r1 = tile.expand_dims %r {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
  %r2 = tile.broadcast %r1 : tensor<8x1xi32> -> tensor<8x8xi32>
  %next = arith.subi %r2, %x : tensor<8x8xi32>
  %t = tile.trans %x {order = array<i32: 1, 0>} : tensor<8x8xi32> -> tensor<8x8xi32>
  %s1 = arith.addi %s, %t : tensor<8x8xi32>
  scf.yield %next, %s1 : tensor<8x8xi32>, tensor<8x8xi32>
}
)" + Store("u", "p1", {8, 8}, "i32") + Store("v", "p2", {8, 8}, "i32");
  ExpectSameAsInterpreter(Kernel({"i32", "i32", "i32"}, body), {AsBytes(RandomInts(64, 0, 9)), Bytes(256), Bytes(256)});
}

TEST(CpuTarget, TransposesACarriedBlockInPlace) {
  std::string body = Load("a", "p0", {8, 8}, "i32") + R"(
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%u = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> (tensor<8x8xi32>) : i32 {
  %t = tile.trans %x {order = array<i32: 1, 0>} : tensor<8x8xi32> -> tensor<8x8xi32>
  scf.yield %t : tensor<8x8xi32>
}
)" + Store("u", "p1", {8, 8}, "i32");
  for (int n : {1, 2})
    ExpectSameAsInterpreter(Kernel({"i32", "i32"}, body, "%n: i32"), {AsBytes(RandomInts(64, 0, 9)), Bytes(256)}, {Slot(n)});
}

TEST(CpuTarget, AccumulatesProductsOfALoop) {
  std::string body = Load("a", "p0", {16, 16}, "f32") + Load("b", "p1", {16, 16}, "f32") + R"(
%c = arith.constant dense<0.0> : tensor<16x16xf32>
%half = arith.constant dense<0.5> : tensor<16x16xf32>
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%four = arith.constant 4 : i32
%u = scf.for %i = %zero to %four step %one iter_args(%x = %c) -> (tensor<16x16xf32>) : i32 {
  %h = arith.mulf %x, %half : tensor<16x16xf32>
  %d = tile.dot %a, %b, %c, ieee : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
  %s = arith.addf %h, %d : tensor<16x16xf32>
  scf.yield %s : tensor<16x16xf32>
}
)" + Store("u", "p2", {16, 16}, "f32");
  ExpectCloseToInterpreter(Kernel({"f32", "f32", "f32"}, body), {AsBytes(RandomFloats(256, 1)), AsBytes(RandomFloats(256, 2)), Bytes(1024)}, 1e-5);
}

TEST(CpuTarget, ChoosesBlocksByBranches) {
  std::string body = Load("a", "p0", {64}, "i32") + Load("b", "p1", {64}, "i32") + R"(
%five = arith.constant 5 : i32
%c = arith.cmpi slt, %n, %five : i32
%u, %k = scf.if %c -> (tensor<64xi32>, i32) {
  %s = arith.addi %a, %b : tensor<64xi32>
  scf.yield %s, %n : tensor<64xi32>, i32
} else {
  scf.yield %b, %five : tensor<64xi32>, i32
}
%ks = tile.splat %k : i32 -> tensor<64xi32>
%v = arith.muli %u, %ks : tensor<64xi32>
)" + Store("v", "p2", {64}, "i32");
  for (int n : {3, 9})
    ExpectSameAsInterpreter(Kernel({"i32", "i32", "i32"}, body, "%n: i32"),
                            {AsBytes(RandomInts(64, 0, 9, 1)), AsBytes(RandomInts(64, 0, 9, 2)), Bytes(256)}, {Slot(n)});
}

TEST(CpuTarget, RunsWhileLoopsOverBlocks) {
  std::string body = Load("a", "p0", {64}, "i32") + R"(
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%u:2 = scf.while (%i = %zero, %x = %a) : (i32, tensor<64xi32>) -> (i32, tensor<64xi32>) {
  %more = arith.cmpi slt, %i, %n : i32
  scf.condition(%more) %i, %x : i32, tensor<64xi32>
} do {
^bb0(%i: i32, %x: tensor<64xi32>):
  %j = arith.addi %i, %one : i32
  %y = arith.addi %x, %x : tensor<64xi32>
  scf.yield %j, %y : i32, tensor<64xi32>
}
)" + Store("u#1", "p1", {64}, "i32");
  for (int n : {0, 3})
    ExpectSameAsInterpreter(Kernel({"i32", "i32"}, body, "%n: i32"), {AsBytes(RandomInts(64, 0, 9)), Bytes(256)}, {Slot(n)});
}

TEST(CpuTarget, LoadsBeforeALaterStoreToTheSameMemory) {
  // b = a[i]; a[i] = 0; out = b
  std::string body = Load("a", "p0", {64}, "i32") + "%z = arith.constant dense<0> : tensor<64xi32>\n" + Store("z", "p0", {64}, "i32") +
                     Store("a", "p1", {64}, "i32");
  ExpectSameAsInterpreter(Kernel({"i32", "i32"}, body), {AsBytes(RandomInts(64, 1, 9)), Bytes(256)});
}

TEST(CpuTarget, ReadsAWholeBlockBeforeWritingItShifted) {
  std::string body = Load("a", "p0", {64}, "i32") + R"(
%one = arith.constant 1 : i32
%q = tile.addptr %p0, %one : !tile.ptr<i32>, i32
)" + Store("a", "q", {64}, "i32");
  ExpectSameAsInterpreter(Kernel({"i32"}, body), {AsBytes(RandomInts(65, 1, 99))});
}

TEST(CpuTarget, AddsAtomicallyToRepeatedAddresses) {
  for (auto [kind, type] : std::vector<std::pair<std::string, std::string>>{{"add", "i32"}, {"max", "i32"}, {"fadd", "f32"}, {"fadd", "f16"}, {"xchg", "i64"}}) {
    std::string p = absl::StrCat("!tile.ptr<", type, ">");
    bool wide = type == "i64", half = type == "f16";
    std::string body = Load("i", "p1", {64}, "i32") +
                       absl::StrCat("%s = tile.splat %p0 : ", p, " -> tensor<64x", p, ">\n%q = tile.addptr %s, %i : tensor<64x", p,
                                    ">, tensor<64xi32>\n%k = arith.constant dense<", type[0] == 'f' ? "1.0" : "1", "> : tensor<64x", type, ">\n",
                                    "%lim = arith.constant dense<6> : tensor<64xi32>\n%m = arith.cmpi slt, %i, %lim : tensor<64xi32>\n",
                                    "%old = tile.atomic_rmw ", kind, ", acq_rel, gpu, %q, %k mask %m : tensor<64xi1> : tensor<64x", p, ">, tensor<64x", type, "> -> tensor<64x", type, ">\n") +
                       Store("old", "p2", {64}, type);
    int bytes = wide ? 8 : half ? 2 : 4;
    ExpectSameAsInterpreter(Kernel({type, "i32", type}, body), {Bytes(8 * bytes), AsBytes(RandomInts(64, 0, 7)), Bytes(64 * bytes)});
  }
}

TEST(CpuTarget, AppliesAScalarFunctionToEachLane) {
  std::string body = Load("a", "p0", {64}, "i32") + R"(
%c = tile.map(%a) : (tensor<64xi32>) -> tensor<64xi32> {
^bb0(%x: i32):
  %zero = arith.constant 0 : i32
  %neg = arith.cmpi slt, %x, %zero : i32
  %y = scf.if %neg -> i32 {
    %m = arith.subi %zero, %x : i32
    scf.yield %m : i32
  } else {
    scf.yield %x : i32
  }
  tile.yield %y : i32
}
)" + Store("c", "p1", {64}, "i32");
  ExpectSameAsInterpreter(Kernel({"i32", "i32"}, body), {AsBytes(RandomInts(64, -9, 9)), Bytes(256)});
}

TEST(CpuTarget, ReadsAndWritesThroughDescriptors) {
  std::string body = R"(
%one = arith.constant 1 : i64
%stride = arith.constant 20 : i64
%rows = arith.constant 11 : i32
%columns = arith.constant 20 : i32
%i = arith.constant 4 : i32
%j = arith.constant -3 : i32
%d = tile.make_desc %p0, [%rows, %columns], [%stride, %one] : !tile.ptr<f32> -> !tile.desc<[8, 32], f32>
%e = tile.make_desc %p1, [%rows, %columns], [%stride, %one] : !tile.ptr<f32> -> !tile.desc<[8, 32], f32>
%v = tile.desc_load %d[%i, %j] : !tile.desc<[8, 32], f32> -> tensor<8x32xf32>
tile.desc_store %e[%i, %j], %v : !tile.desc<[8, 32], f32>, tensor<8x32xf32>
tile.desc_store %e[%i, %j], %v reduce fadd : !tile.desc<[8, 32], f32>, tensor<8x32xf32>
)";
  ExpectSameAsInterpreter(Kernel({"f32", "f32"}, body), {AsBytes(RandomFloats(220)), Bytes(880, 0)});
}

TEST(CpuTarget, CallsMathFunctionsByTheirLibdeviceNames) {
  for (std::string name : {"tanhf", "erfcf", "exp10f", "lgammaf", "tgammaf", "rcbrtf", "normcdff", "j0f"}) {
    std::string body = Load("a", "p0", {64}, "f32") +
                       absl::StrCat("%c = tile.extern \"__nv_", name, "\"(%a) : (tensor<64xf32>) -> tensor<64xf32>\n") +
                       Store("c", "p1", {64}, "f32");
    ExpectCloseToInterpreter(Kernel({"f32", "f32"}, body), {AsBytes(RandomFloats(64, 1, 0.1f, 3)), Bytes(256)}, 1e-6);
  }
  for (std::string name : {"hypotf", "fdimf", "nextafterf"}) {
    std::string body = Load("a", "p0", {64}, "f32") + Load("b", "p1", {64}, "f32") +
                       absl::StrCat("%c = tile.extern \"__nv_", name, "\"(%a, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>\n") +
                       Store("c", "p2", {64}, "f32");
    ExpectCloseToInterpreter(Kernel({"f32", "f32", "f32"}, body), {AsBytes(RandomFloats(64, 1)), AsBytes(RandomFloats(64, 2)), Bytes(256)}, 1e-6);
  }
  std::string body = Load("a", "p0", {64}, "i32") +
                     "%r = tile.extern \"__nv_brev\"(%a) : (tensor<64xi32>) -> tensor<64xi32>\n"
                     "%f = tile.extern \"__nv_ffs\"(%a) : (tensor<64xi32>) -> tensor<64xi32>\n" +
                     Store("r", "p1", {64}, "i32") + Store("f", "p2", {64}, "i32");
  std::vector<int32_t> values = RandomInts(64, 0, 1 << 30);
  values[0] = 0;
  auto result = RunOnCpu(Kernel({"i32", "i32", "i32"}, body), {AsBytes(values), Bytes(256), Bytes(256)});
  std::vector<uint32_t> reversed = As<uint32_t>(result[1]);
  for (int i = 0; i < 64; ++i) {
    uint32_t want = 0;
    for (int b = 0; b < 32; ++b) want |= (uint32_t(values[i]) >> b & 1) << (31 - b);
    ASSERT_EQ(reversed[i], want);
    ASSERT_EQ(As<int32_t>(result[2])[i], __builtin_ffs(values[i]));
  }
}

//===-- the host, and errors -------------------------------------------------------------------------------------===//

TEST(CpuTarget, StopsAtAFailedAssertionWithItsMessage) {
  std::string body = Load("a", "p0", {64}, "i32") + R"(
%z = arith.constant dense<0> : tensor<64xi32>
%ok = arith.cmpi ne, %a, %z : tensor<64xi32>
tile.assert %ok, "a must not be zero" : tensor<64xi1>
)" + Store("a", "p1", {64}, "i32");
  auto kernel = JitKernel::Compile(Kernel({"i32", "i32"}, body));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<int32_t> good(64, 1), bad(64, 1), out(64, 0);
  bad[63] = 0;
  EXPECT_TRUE((*kernel)->Run({Slot(good.data()), Slot(out.data())}, 1).ok());
  EXPECT_EQ(out[0], 1);
  out[0] = 0;
  EXPECT_EQ((*kernel)->Run({Slot(bad.data()), Slot(out.data())}, 1).message(), "a must not be zero");
  EXPECT_EQ(out[0], 0);
}

TEST(CpuTarget, PrintsLanesThroughTheHost) {
  std::string body = Load("a", "p0", {4}, "f32") + R"(tile.print "a: "(%a) {hex = false, is_unsigned = array<i1: false>} : tensor<4xf32>
)";
  body = Load("a", "p0", {4}, "f32") + "tile.print \"a: \" (%a) {hex = false, is_unsigned = array<i1: false>} : tensor<4xf32>\n";
  auto kernel = JitKernel::Compile(Kernel({"f32"}, body));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  static std::vector<std::string> lines;
  lines.clear();
  (*kernel)->context().print = [](KernelContext*, const uint32_t* pid, const char* prefix, const char* kind, uint64_t bits,
                                  uint64_t lane, uint64_t lanes) {
    float value;
    std::memcpy(&value, &bits, 4);
    lines.push_back(absl::StrCat(pid[0], pid[1], pid[2], " ", prefix, kind, " ", value, " ", lane, "/", lanes));
  };
  std::vector<float> a = {1, 2.5, -3, 4};
  ASSERT_TRUE((*kernel)->Run({Slot(a.data())}, 1).ok());
  EXPECT_THAT(lines, ::testing::ElementsAre("000 a: fp32 1 0/4", "000 a: fp32 2.5 1/4", "000 a: fp32 -3 2/4", "000 a: fp32 4 3/4"));
}

TEST(CpuTarget, NamesOperationsItDoesNotHave) {
  std::string body = Load("a", "p0", {64}, "i32") + R"(
%c = tile.inline_asm "mov", "=r,r" (%a) {is_pure = true, pack = 1 : i32} : (tensor<64xi32>) -> tensor<64xi32> loc("kernel.py":7:3)
)" + Store("c", "p1", {64}, "i32");
  absl::Status status = JitKernel::Compile(Kernel({"i32", "i32"}, body)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"kernel.py\":7:3: not supported on the cpu: tile.inline_asm"));
}

TEST(CpuTarget, GivesEqualBytesEachTime) {
  auto first = JitKernel::Compile(kSoftmax), second = JitKernel::Compile(kSoftmax);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->object().object, (*second)->object().object);
}

}  // namespace
}  // namespace tessera::compiler
