// Runs kernels from source text on every registered target and compares what they leave in memory.
#ifndef TESSERA_TESTS_CONFORMANCE_KERNEL_RUNNER_H_
#define TESSERA_TESTS_CONFORMANCE_KERNEL_RUNNER_H_

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/conformance/tensor.h"

namespace tessera::conformance {

// A runtime argument, by the name of its parameter.
struct Arg {
  // Memory: the kernel works on a copy of `tensor` that ends at a page without access and has a guard in front. What
  // the kernel left there is in the results of the run.
  Arg(std::string name, Tensor tensor, int divisibility = 0) : name(std::move(name)), tensor(std::move(tensor)), divisibility(divisibility) {}
  // A scalar; `type` as in signatures ("i32", "fp32", "i64"); "1" is an integer specialised to 1, not passed at launch.
  Arg(std::string name, std::string type, double value);
  static Arg Integer(std::string name, std::string type, uint64_t bits);

  std::string name;
  Tensor tensor;
  int divisibility = 0;
  std::string scalar_type;  // empty: memory
  uint64_t bits = 0;
};

struct Program {
  // Module text without the imports; the kernel is named `kernel`.
  std::string source;
  // "BLOCK=16,FLAG=True"; "F=jit:name" is a function of the module, "T=dtype:fp16" a type.
  std::string constants;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  int num_warps = 4, num_stages = 3;
  std::map<std::string, std::string> options;  // of the launch, by name: {"debug", "true"}
};

using Results = std::map<std::string, Tensor>;

// Compiles (once for a program, signature and target), runs, checks the guards, and hands the memory after the run to
// `check`, for each target in turn. Failures to compile or run are failures of the test.
void Launch(const Program& program, const std::vector<Arg>& args, const std::function<void(const Results&)>& check);

// The compiler refuses the program on every target, with a message that contains `words`.
void ExpectCompileError(const Program& program, const std::vector<Arg>& args, const std::string& words);

// The program compiles everywhere, and running it fails on every target, with a message that contains `words`.
void ExpectRunError(const Program& program, const std::vector<Arg>& args, absl::StatusCode code, const std::string& words);

// The lines of device_print, the same on every target that prints.
void ExpectPrinted(const Program& program, const std::vector<Arg>& args, const std::vector<std::string>& lines);

// `text` with each "$name" replaced.
std::string Substitute(std::string text, const std::map<std::string, std::string>& values);

// --- Comparison. Only the first wrong element is reported, with the number of wrong ones.

constexpr double kExact = 0;
// Relative tolerance of sums and of functions, as for recorded launches.
double DefaultTolerance(DType dtype);

// NaN equals NaN. kExact: `want` rounded to the type, bit for bit, signed zeros too. Else infinities equal and
// |got - want| <= rtol * (|want| + min(max|want|, 16 * median|want|)).
void ExpectFloats(const Tensor& got, const std::vector<double>& want, double rtol);
void ExpectInts(const Tensor& got, const std::vector<int64_t>& want);
// Floats: |got - want| <= rtol * |want| + the smallest normal number of the type.
void ExpectRelative(const Tensor& got, const std::vector<double>& want, double rtol);

// Expressions of the loaded blocks `x`, `y`, ... (one for each input), each with the type it must have and the value of
// lane i. Stores them to tensors "o0", "o1", ... through a mask, at the sizes of kSizes, in blocks of 256.
struct Expression {
  std::string text;
  DType type;
  std::function<double(size_t)> want;        // floats
  std::function<int64_t(size_t)> want_int;   // integers and bools: taken modulo the width
  double rtol = kExact;
  std::function<bool(size_t)> skip = nullptr;  // lanes whose value the language does not specify
};
Expression FloatExpression(std::string text, DType type, std::function<double(size_t)> want, double rtol = kExact);
Expression IntExpression(std::string text, DType type, std::function<int64_t(size_t)> want, std::function<bool(size_t)> skip = nullptr);

constexpr size_t kSizes[] = {1, 2, 16, 127, 128, 255, 1000, 1025};
constexpr size_t kLanes = 1025;  // elements that each input must have

// `prelude`: module text before the kernel.
void RunExpressions(const std::map<std::string, Tensor>& inputs, const std::vector<Expression>& expressions, const std::string& prelude = "");

}  // namespace tessera::conformance

#endif  // TESSERA_TESTS_CONFORMANCE_KERNEL_RUNNER_H_
