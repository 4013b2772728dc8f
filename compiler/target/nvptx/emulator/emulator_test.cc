#include "compiler/target/nvptx/emulator/emulator.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/dialect/simt/simt.h"
#include "compiler/target/interpreter/formats.h"
#include "compiler/target/interpreter/test_kernel.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::emulator {
namespace {

using interpreter::FloatToF16;
using interpreter::Launch;

absl::StatusOr<std::unique_ptr<Emulator>> Compile(const std::string& text) {
  static auto* context = [] {
    auto* c = new mlir::MLIRContext(mlir::MLIRContext::Threading::DISABLED);
    c->loadDialect<simt::SimtDialect, tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                   mlir::func::FuncDialect, mlir::vector::VectorDialect, mlir::ub::UBDialect>();
    return c;
  }();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context, "kernel");
  if (!module) return absl::InvalidArgumentError("the text does not parse");
  return Emulator::Create(*module);
}

absl::Status RunKernel(const std::string& text, const Launch& launch) {
  auto emulator = Compile(text);
  if (!emulator.ok()) return emulator.status();
  return (*emulator)->Run(launch.params.data(), launch.grid, launch.options);
}

// A kernel of `threads` threads whose body may use %t (thread_id), %t4 (4 x thread_id) and %out (address).
std::string Kernel(const std::string& body, int threads = 64, const std::string& arguments = "%out: i64") {
  return "func.func @k(" + arguments + ") attributes {simt.kernel, simt.threads = " + std::to_string(threads) +
         " : i32} {\n%t = simt.thread_id : i32\n%c4 = arith.constant 4 : i32\n%t4 = arith.muli %t, %c4 : i32\n" + body + "\nreturn\n}\n";
}

void ExpectFailure(const absl::Status& status, absl::StatusCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words) EXPECT_NE(std::string(status.message()).find(word), std::string::npos) << "no '" << word << "' in: " << status.message();
}

void ExpectSharedFailure(const std::string& body, const std::vector<std::string>& words, int threads = 64) {
  std::vector<int32_t> out(4096);
  Launch launch;
  launch.Buffer(out, "out");
  ExpectFailure(RunKernel(Kernel(body, threads), launch), absl::StatusCode::kInternal, words);
}

const char kStoreResult[] = R"(
  %w = arith.extsi %t4 : i32 to i64
  %a = arith.addi %out, %w : i64
  simt.store %a, %r : i32
)";

TEST(Emulator, MasksVectorsAndBlocks) {
  std::vector<float> x(300), y(300, -1);
  std::iota(x.begin(), x.end(), 0.f);
  Launch launch;
  launch.Buffer(x, "x", true).Buffer(y, "y").Scalar(300).Grid(2);
  const std::string text = Kernel(R"(
    %pid = tile.program_id 0 : i32
    %c256 = arith.constant 256 : i32
    %base = arith.muli %pid, %c256 : i32
    %i = arith.addi %base, %t4 : i32
    %p = arith.cmpi slt, %i, %n : i32
    %w = arith.muli %i, %c4 : i32
    %o = arith.extsi %w : i32 to i64
    %ax = arith.addi %x, %o : i64
    %ay = arith.addi %y, %o : i64
    %half = arith.constant dense<[0.5, 1.5, 2.5, 3.5]> : vector<4xf32>
    %v = simt.load %ax if %p else %half : vector<4xf32> : vector<4xf32>
    %s = arith.addf %v, %half : vector<4xf32>
    %e = vector.extract %s[3] : f32 from vector<4xf32>
    %s2 = vector.insert %e, %s[0] : f32 into vector<4xf32>
    %b = vector.bitcast %s2 : vector<4xf32> to vector<8xi16>
    %back = vector.bitcast %b : vector<8xi16> to vector<4xf32>
    simt.store %ay, %back if %p : vector<4xf32>)", 64, "%x: i64, %y: i64, %n: i32");
  for (uint64_t seed : {0, 1, 2}) {
    launch.options.program_order_seed = seed;
    ASSERT_TRUE(RunKernel(text, launch).ok()) << RunKernel(text, launch).message();
    for (int i = 0; i < 300; ++i) EXPECT_EQ(y[i], i % 4 == 0 ? i + 3 + 3.5f : i + i % 4 + 0.5f);
  }
}

TEST(Emulator, GlobalAccessesOutsideTheBuffersAreRefused) {
  std::vector<int32_t> out(63);
  Launch launch;
  launch.Buffer(out, "out");
  ExpectFailure(RunKernel(Kernel(std::string("%r = arith.constant 1 : i32") + kStoreResult), launch), absl::StatusCode::kOutOfRange,
                {"by thread 63", "'out' (252 bytes)", "kernel:8"});
  ExpectFailure(RunKernel(Kernel(R"(
    %one = arith.constant 4 : i64
    %a = arith.addi %out, %one : i64
    %v = simt.load %a : vector<2xi32>)"), launch), absl::StatusCode::kOutOfRange, {"thread 0", "not aligned"});
}

const char kExchange[] = R"(
    %one = arith.constant 1 : i32
    %b = simt.alloc_shared 256 align 16
    simt.store_shared %b[%t4], %t : i32
    BARRIER
    %c252 = arith.constant 252 : i32
    %mirror = arith.subi %c252, %t4 : i32
    %r = simt.load_shared %b[%mirror] : i32
    simt.free_shared %b
)";
std::string Exchange(const std::string& barrier) {
  std::string text = kExchange;
  return text.replace(text.find("BARRIER"), 7, barrier);
}

TEST(Emulator, ThreadsExchangeThroughSharedMemory) {
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  absl::Status status = RunKernel(Kernel(Exchange("simt.barrier") + kStoreResult), launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], 63 - i);
}

TEST(Emulator, RacesAreNamed) {
  // Both places, both threads, the buffer.
  ExpectSharedFailure(Exchange(""), {"race", "thread 0 reads byte 252", "shared buffer of 256 bytes (kernel:7)", "thread 63 wrote it (kernel:8)", "(kernel:12)"});
  // Threads of one warp are not ordered without a barrier either.
  const std::string neighbours = "%b = simt.alloc_shared 256 align 16\nsimt.store_shared %b[%t4], %t : i32\n";
  const std::string read = "%n = arith.xori %t4, %c4 : i32\n%r = simt.load_shared %b[%n] : i32";
  ExpectSharedFailure(neighbours + "simt.warp_barrier\nsimt.store_shared %b[%t4], %t : i32\n" + read, {"race", "thread 0 reads byte 4", "thread 1 wrote it"});
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  EXPECT_TRUE(RunKernel(Kernel(neighbours + "simt.warp_barrier\n" + read), launch).ok());
  // Two warps are not ordered by a barrier of each warp.
  std::string other = Exchange("simt.warp_barrier");
  ExpectSharedFailure(other, {"race", "thread 0 reads byte 252", "thread 63 wrote it (kernel:8)"});
  // A write after a read of another thread, in a loop without a second barrier.
  ExpectSharedFailure(R"(
    %b = simt.alloc_shared 256 align 16
    %lo = arith.constant 0 : i32
    %hi = arith.constant 2 : i32
    %one = arith.constant 1 : i32
    %c252 = arith.constant 252 : i32
    %mirror = arith.subi %c252, %t4 : i32
    scf.for %i = %lo to %hi step %one : i32 {
      simt.store_shared %b[%t4], %t : i32
      simt.barrier
      %r = simt.load_shared %b[%mirror] : i32
    })", {"race", "writes byte", "read it (kernel:15)", "(kernel:13)"});
  // Two writers.
  ExpectSharedFailure(R"(
    %b = simt.alloc_shared 4 align 4
    %zero = arith.constant 0 : i32
    simt.store_shared %b[%zero], %t : i32)", {"race", "thread 1 writes byte 0", "thread 0 wrote it"});
}

TEST(Emulator, BuffersOneAfterAnotherInOnePlaceRace) {
  const std::string text = R"(
    %b = simt.alloc_shared 256 align 16 {offset = 0 : i32}
    simt.store_shared %b[%t4], %t : i32
    simt.barrier
    %c252 = arith.constant 252 : i32
    %mirror = arith.subi %c252, %t4 : i32
    %r = simt.load_shared %b[%mirror] : i32
    simt.free_shared %b
    %d = simt.alloc_shared 256 align 16 {offset = 0 : i32}
    simt.store_shared %d[%t4], %t : i32)";
  std::string kernel = Kernel(text);
  kernel.replace(kernel.find("simt.threads"), 0, "simt.shared_bytes = 256 : i32, ");
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  ExpectFailure(RunKernel(kernel, launch), absl::StatusCode::kInternal, {"race", "read it"});
  kernel.replace(kernel.find("simt.free_shared %b"), 0, "simt.barrier\n");
  EXPECT_TRUE(RunKernel(kernel, launch).ok()) << RunKernel(kernel, launch).message();
}

TEST(Emulator, WrongSharedAccessesAreNamed) {
  ExpectSharedFailure("%b = simt.alloc_shared 256 align 16\n%r = simt.load_shared %b[%t4] : i32", {"never written"});
  ExpectSharedFailure("%b = simt.alloc_shared 252 align 16\nsimt.store_shared %b[%t4], %t : i32", {"thread 63 writes 4 bytes at byte 252", "outside"});
  ExpectSharedFailure("%b = simt.alloc_shared 256 align 16\nsimt.store_shared %b[%t], %t : i32", {"thread 1", "not aligned"});
  ExpectSharedFailure("%b = simt.alloc_shared 256 align 16\nsimt.free_shared %b\nsimt.store_shared %b[%t4], %t : i32", {"freed"});
  ExpectSharedFailure("%b = simt.alloc_shared 256 align 16 {offset = 0 : i32}", {"outside the 0 bytes"});
}

TEST(Emulator, ControlFlowMustBeUniformUnlessMarked) {
  const std::string body = R"(
    %c7 = arith.constant 7 : i32
    %p = arith.cmpi slt, %t, %c7 : i32
    %r = scf.if %p -> i32 {
      %s = arith.addi %t, %c7 : i32
      scf.yield %s : i32
    } else {
      %lo = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %sum = scf.for %i = %lo to %t step %one iter_args(%x = %lo) -> i32 : i32 {
        %y = arith.addi %x, %i : i32
        scf.yield %y : i32
      }
      scf.yield %sum : i32
    } ATTRIBUTE)";
  auto with = [&](const std::string& attribute) {
    std::string text = body;
    return text.replace(text.find("ATTRIBUTE"), 9, attribute) + kStoreResult;
  };
  ExpectSharedFailure(with(""), {"control flow differs between threads 0 and 7"});
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  absl::Status status = RunKernel(Kernel(with("{simt.divergent}")), launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 7 ? i + 7 : i * (i - 1) / 2);
  ExpectFailure(RunKernel(Kernel("%p = arith.constant true\nscf.if %p {\nsimt.barrier\n} {simt.divergent}"), launch), absl::StatusCode::kUnimplemented,
                {"simt.barrier", "not all threads"});
}

TEST(Emulator, DivergentWhileLoopsEndThreadByThread) {
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  absl::Status status = RunKernel(Kernel(std::string(R"(
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %r, %n = scf.while (%x = %zero, %i = %zero) : (i32, i32) -> (i32, i32) {
      %p = arith.cmpi slt, %i, %t : i32
      scf.condition(%p) %x, %i : i32, i32
    } do {
    ^bb0(%x: i32, %i: i32):
      %y = arith.addi %x, %t : i32
      %j = arith.addi %i, %one : i32
      scf.yield %y, %j : i32, i32
    } attributes {simt.divergent})") + kStoreResult), launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i * i);
}

TEST(Emulator, ShufflesAndBallots) {
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  absl::Status status = RunKernel(Kernel(std::string(R"(
    %one = arith.constant 1 : i32
    %five = arith.constant 5 : i32
    %x = simt.shuffle xor, %t, %one : i32
    %u = simt.shuffle up, %x, %five : i32
    %d = simt.shuffle down, %u, %one : i32
    %p = arith.cmpi sgt, %t, %five : i32
    %b = simt.ballot %p
    %r = arith.addi %d, %b : i32)") + kStoreResult), launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 64; ++i) {
    auto xored = [&](int l) { return i / 32 * 32 + (l ^ 1); };
    auto up = [&](int l) { return xored(l < 5 ? l : l - 5); };
    const int lane = i % 32, want = up(lane == 31 ? lane : lane + 1);
    EXPECT_EQ(out[i], int32_t(want + (i < 32 ? 0xffffffc0u : 0xffffffffu)));
  }
}

const char kCopy[] = R"(
    %b = simt.alloc_shared 256 align 16
    %w0 = arith.extsi %t4 : i32 to i64
    %from = arith.addi %out, %w0 : i64
    %c32 = arith.constant 32 : i32
    %p = arith.cmpi slt, %t, %c32 : i32
    simt.copy_async %b[%t4], %from bytes 4 if %p
    simt.commit_copies
)";

TEST(Emulator, AsynchronousCopiesArriveAtTheWait) {
  const std::string read_own = "%r = simt.load_shared %b[%t4] : i32\n";
  const std::string read_other = "%c252 = arith.constant 252 : i32\n%m = arith.subi %c252, %t4 : i32\n%r = simt.load_shared %b[%m] : i32\n";
  ExpectSharedFailure(kCopy + read_own, {"asynchronous copy of thread 0 (kernel:11)", "in flight"});
  ExpectSharedFailure(std::string(kCopy) + "simt.wait_copies 1\n" + read_own, {"in flight"});
  ExpectSharedFailure(std::string(kCopy) + "simt.free_shared %b", {"freed", "in flight"});
  ExpectSharedFailure(std::string(kCopy) + "simt.wait_copies 0\n" + read_other, {"race"});
  std::vector<int32_t> out(64);
  std::iota(out.begin(), out.end(), 100);
  Launch launch;
  launch.Buffer(out, "out");
  absl::Status status = RunKernel(Kernel(std::string(kCopy) + "simt.wait_copies 0\nsimt.barrier\n" + read_other + kStoreResult), launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 32 ? 0 : 100 + 63 - i);
}

TEST(Emulator, AtomicsInSharedMemoryDoNotRaceWithEachOther) {
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  const std::string start = R"(
    %b = simt.alloc_shared 4 align 4
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %first = arith.cmpi eq, %t, %zero : i32
    simt.store_shared %b[%zero], %zero if %first : i32
    simt.barrier
    simt.atomic_shared add, %b[%zero], %one
)";
  absl::Status status = RunKernel(Kernel(start + "simt.barrier\n%r = simt.load_shared %b[%zero] : i32" + kStoreResult), launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int32_t value : out) EXPECT_EQ(value, 64);
  ExpectSharedFailure(start + "%r = simt.load_shared %b[%zero] : i32", {"race"});
}

TEST(Emulator, ReportsFailTheLaunch) {
  std::vector<int32_t> out(64);
  Launch launch;
  launch.Buffer(out, "out");
  ExpectFailure(RunKernel(Kernel("%p = arith.cmpi eq, %t, %c4 : i32\n%z = arith.constant 0 : i64\nsimt.report assert, \"x > 0\", %z if %p"), launch),
                absl::StatusCode::kAborted, {"x > 0", "thread 4"});
}

//===-- matrix units ------------------------------------------------------------------------===//

float Small(int i) { return float(i * 7 % 11 - 5); }

// a [16, 16] and b [16, 8] of f16, row-major, through ldmatrix and mma.
TEST(Emulator, LdmatrixAndMmaMultiply) {
  std::vector<uint16_t> ab(16 * 16 + 16 * 8);
  for (size_t i = 0; i < ab.size(); ++i) ab[i] = FloatToF16(Small(int(i)));
  std::vector<float> out(16 * 8);
  Launch launch;
  launch.Buffer(ab, "ab").Buffer(out, "out");
  const std::string text = Kernel(R"(
    %b = simt.alloc_shared 768 align 16
    %c24 = arith.constant 24 : i32
    %o = arith.muli %t, %c24 : i32
    %three = arith.constant 3 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    scf.for %i = %zero to %three step %one : i32 {
      %e = arith.muli %i, %c8 : i32
      %at = arith.addi %o, %e : i32
      %w = arith.extsi %at : i32 to i64
      %g = arith.addi %ab, %w : i64
      %v = simt.load %g : vector<4xi16>
      simt.store_shared %b[%at], %v : vector<4xi16>
    }
    simt.barrier
    %c16 = arith.constant 16 : i32
    %c32 = arith.constant 32 : i32
    %row = arith.remui %t, %c16 : i32
    %half = arith.divui %t, %c16 : i32
    %ra = arith.muli %row, %c32 : i32
    %ca = arith.muli %half, %c16 : i32
    %oa = arith.addi %ra, %ca : i32
    %a:4 = simt.ldmatrix %b[%oa] : i32, i32, i32, i32
    %c512 = arith.constant 512 : i32
    %rb = arith.muli %row, %c16 : i32
    %ob = arith.addi %rb, %c512 : i32
    %bb:2 = simt.ldmatrix %b[%ob] {transpose} : i32, i32
    %z = arith.constant 0.5 : f32
    %c:4 = simt.mma 16 x 8 x 16, f16 (%a#0, %a#1, %a#2, %a#3), f16 (%bb#0, %bb#1), (%z, %z, %z, %z) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
    %g4 = arith.divui %t, %c4 : i32
    %l4 = arith.remui %t, %c4 : i32
    %rc = arith.muli %g4, %c32 : i32
    %cc = arith.muli %l4, %c8 : i32
    %oc = arith.addi %rc, %cc : i32
    %wc = arith.extsi %oc : i32 to i64
    %p0 = arith.addi %out, %wc : i64
    %v0 = vector.from_elements %c#0, %c#1 : vector<2xf32>
    simt.store %p0, %v0 : vector<2xf32>
    %c256 = arith.constant 256 : i64
    %p1 = arith.addi %p0, %c256 : i64
    %v1 = vector.from_elements %c#2, %c#3 : vector<2xf32>
    simt.store %p1, %v1 : vector<2xf32>)", 32, "%ab: i64, %out: i64");
  absl::Status status = RunKernel(text, launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      float want = 0.5;
      for (int k = 0; k < 16; ++k) want += Small(m * 16 + k) * Small(256 + k * 8 + n);
      EXPECT_EQ(out[m * 8 + n], want) << m << ", " << n;
    }
}

// wgmma 64 x 16 x 16 of f16 on operands in shared memory, laid out by the host as matrix descriptors want them.
struct WgmmaCase {
  std::string a_swizzle, b_swizzle;
  bool a_transpose, b_transpose;
  int a_leading, a_stride, b_leading, b_stride;
};

// Byte of element (outer, inner) for operands that fit one swizzled atom in their contiguous dimension.
int ImageOffset(int outer, int inner, const std::string& swizzle, bool transpose, int leading, int stride) {
  const int row_bytes = swizzle == "none" ? 16 : std::stoi(swizzle.substr(1));
  const int contiguous = (transpose ? outer : inner) * 2, row = transpose ? inner : outer;
  int at;
  if (swizzle == "none")
    at = contiguous % 16 + row % 8 * 16 + (transpose ? contiguous / 16 * stride + row / 8 * leading : contiguous / 16 * leading + row / 8 * stride);
  else
    at = contiguous % row_bytes + contiguous / row_bytes * leading + row % 8 * row_bytes + row / 8 * stride;
  if (row_bytes == 32) at ^= (at >> 7 & 1) << 4;
  if (row_bytes == 64) at ^= (at >> 7 & 3) << 4;
  if (row_bytes == 128) at ^= (at >> 7 & 7) << 4;
  return at;
}

std::string WgmmaKernel(const WgmmaCase& c, const std::string& fence, const std::string& results) {
  std::string registers, types;
  for (int i = 0; i < 8; ++i) {
    registers += (i ? ", %z" : "%z");
    types += (i ? ", f32" : "f32");
  }
  auto integer = [](const char* name, int value) { return std::string(name) + " = " + std::to_string(value) + " : i32"; };
  std::string text = R"(
    %a = simt.alloc_shared 8192 align 1024
    %b = simt.alloc_shared 4096 align 1024
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %c6 = arith.constant 6 : i32
    %c16 = arith.constant 16 : i32
    %c2048 = arith.constant 2048 : i32
    %c4096 = arith.constant 4096 : i32
    %c8192 = arith.constant 8192 : i32
    %t16 = arith.muli %t, %c16 : i32
    scf.for %i = %zero to %c4 step %one : i32 {
      %o = arith.muli %i, %c2048 : i32
      %at = arith.addi %o, %t16 : i32
      %w = arith.extsi %at : i32 to i64
      %g = arith.addi %ab, %w : i64
      simt.copy_async %a[%at], %g bytes 16
    }
    %two = arith.constant 2 : i32
    scf.for %i = %zero to %two step %one : i32 {
      %o = arith.muli %i, %c2048 : i32
      %at = arith.addi %o, %t16 : i32
      %s = arith.addi %at, %c8192 : i32
      %w = arith.extsi %s : i32 to i64
      %g = arith.addi %ab, %w : i64
      simt.copy_async %b[%at], %g bytes 16
    }
    simt.commit_copies
    simt.wait_copies 0
    simt.barrier
    )" + fence + R"(
    %z = arith.constant 0.25 : f32
    %d:8 = "simt.wgmma"(%a, %zero, %b, %zero, )" + registers + ") {n = 16 : i32, k = 16 : i32, a_type = #simt<matrix_type f16>, b_type = #simt<matrix_type f16>, " +
      (c.a_transpose ? "a_transpose, " : "") + (c.b_transpose ? "b_transpose, " : "") + "a_swizzle = #simt<swizzle " + c.a_swizzle + ">, b_swizzle = #simt<swizzle " + c.b_swizzle +
      ">, " + integer("a_leading_bytes", c.a_leading) + ", " + integer("a_stride_bytes", c.a_stride) + ", " + integer("b_leading_bytes", c.b_leading) + ", " +
      integer("b_stride_bytes", c.b_stride) + ", operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 8>} : (!simt.buffer, i32, !simt.buffer, i32, " + types + ") -> (" + types + ")\n" +
      "simt.wgmma_commit\n" + results;
  return text;
}

std::string StoreWgmma(const std::string& value) {
  std::string text = R"(
    %c128 = arith.constant 128 : i32
    %c512 = arith.constant 512 : i32
  )";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    text += "%o" + n + " = arith.constant " + std::to_string(i * 512) + " : i32\n%s" + n + " = arith.addi %o" + n + ", %t4 : i32\n%w" + n + " = arith.extsi %s" + n +
            " : i32 to i64\n%p" + n + " = arith.addi %out, %w" + n + " : i64\nsimt.store %p" + n + ", " + value + "#" + n + " : f32\n";
  }
  return text;
}

const char kWait[] = "%r:8 = simt.wgmma_wait 0, %d#0, %d#1, %d#2, %d#3, %d#4, %d#5, %d#6, %d#7 : f32, f32, f32, f32, f32, f32, f32, f32 -> f32, f32, f32, f32, f32, f32, f32, f32\n";

TEST(Emulator, WgmmaReadsDescriptorsOfEveryKind) {
  const WgmmaCase cases[] = {
      {"none", "none", false, false, 1024, 128, 256, 128}, {"b32", "b32", false, false, 0, 256, 0, 256},
      {"b64", "b128", false, false, 0, 512, 0, 1024},      {"b128", "b32", true, true, 0, 1024, 0, 256},
      {"b32", "b64", true, false, 512, 256, 0, 512},       {"none", "none", true, true, 1024, 128, 256, 128},
      {"b64", "none", true, true, 1024, 512, 256, 128},
  };
  for (const WgmmaCase& c : cases) {
    SCOPED_TRACE(c.a_swizzle + " " + c.b_swizzle + " " + std::to_string(c.a_transpose) + std::to_string(c.b_transpose));
    std::vector<uint16_t> image(6144);
    for (int m = 0; m < 64; ++m)
      for (int k = 0; k < 16; ++k) image[ImageOffset(m, k, c.a_swizzle, c.a_transpose, c.a_leading, c.a_stride) / 2] = FloatToF16(Small(m * 16 + k));
    for (int n = 0; n < 16; ++n)
      for (int k = 0; k < 16; ++k) image[4096 + ImageOffset(n, k, c.b_swizzle, c.b_transpose, c.b_leading, c.b_stride) / 2] = FloatToF16(Small(5000 + k * 16 + n));
    std::vector<float> out(8 * 128);
    Launch launch;
    launch.Buffer(image, "ab").Buffer(out, "out");
    absl::Status status = RunKernel(Kernel(WgmmaKernel(c, "simt.wgmma_fence {proxy}", kWait + StoreWgmma("%r")), 128, "%ab: i64, %out: i64"), launch);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int t = 0; t < 128; ++t)
      for (int r = 0; r < 8; ++r) {
        const int m = t / 32 * 16 + t % 32 / 4 + 8 * (r / 2 % 2), n = r / 4 * 8 + t % 4 * 2 + r % 2;
        float want = 0.25;
        for (int k = 0; k < 16; ++k) want += Small(m * 16 + k) * Small(5000 + k * 16 + n);
        ASSERT_EQ(out[r * 128 + t], want) << m << ", " << n;
      }
  }
}

TEST(Emulator, WgmmaMustBeFencedAndWaitedFor) {
  const WgmmaCase c = {"none", "none", false, false, 1024, 128, 256, 128};
  std::vector<uint16_t> image(6144);
  std::vector<float> out(8 * 128);
  Launch launch;
  launch.Buffer(image, "ab").Buffer(out, "out");
  auto expect = [&](const std::string& fence, const std::string& results, const std::vector<std::string>& words) {
    ExpectFailure(RunKernel(Kernel(WgmmaKernel(c, fence, results), 128, "%ab: i64, %out: i64"), launch), absl::StatusCode::kInternal, words);
  };
  expect("simt.store_shared %a[%t4], %t : i32\nsimt.barrier\nsimt.wgmma_fence", kWait, {"without a proxy fence"});
  expect("simt.wgmma_fence {proxy}", StoreWgmma("%d"), {"did not pass wgmma_wait"});
  expect("simt.wgmma_fence {proxy}", "simt.store_shared %a[%t4], %t : i32", {"while the matrix product", "reads it"});
  expect("simt.wgmma_fence {proxy}", std::string(kWait) + "simt.store_shared %a[%t4], %t : i32", {"race", "read it"});
  expect("simt.wgmma_fence {proxy}", "simt.free_shared %a", {"freed", "matrix product"});
  ExpectFailure(RunKernel(Kernel(WgmmaKernel(c, "simt.wgmma_fence", kWait), 64, "%ab: i64, %out: i64"), launch), absl::StatusCode::kUnimplemented,
                {"groups of four warps"});
}

}  // namespace
}  // namespace tessera::emulator
