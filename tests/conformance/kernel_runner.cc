#include "tests/conformance/kernel_runner.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/driver/driver.h"
#include "compiler/driver/test_compile.h"
#include "tests/conformance/target.h"

namespace tessera::conformance {
namespace {

constexpr size_t kPage = 4096;
constexpr uint8_t kGuard = 0x5c;

std::string TestName() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return test ? std::string(test->test_suite_name()) + "." + test->name() : "";
}

// Memory of one argument: guard, data, then a page without access. Data ends at the page where its alignment allows it.
class GuardedMemory {
 public:
  GuardedMemory(const Tensor& tensor, size_t alignment) : bytes_(tensor.bytes.size()) {
    mapped_ = (bytes_ + 2 * kPage - 1) / kPage * kPage + kPage;
    base_ = static_cast<uint8_t*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TESSERA_CHECK(base_ != MAP_FAILED, "out of memory");
    end_ = base_ + mapped_ - kPage;
    TESSERA_CHECK(mprotect(end_, kPage, PROT_NONE) == 0, "cannot protect a page");
    std::memset(base_, kGuard, end_ - base_);
    data_ = end_ - (bytes_ + alignment - 1) / alignment * alignment;
    if (bytes_) std::memcpy(data_, tensor.bytes.data(), bytes_);
  }
  ~GuardedMemory() { munmap(base_, mapped_); }
  GuardedMemory(const GuardedMemory&) = delete;

  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  std::vector<uint8_t> Contents() const { return {data_, data_ + bytes_}; }
  bool GuardsIntact() const {
    auto intact = [](uint8_t byte) { return byte == kGuard; };
    return std::all_of(base_, data_, intact) && std::all_of(data_ + bytes_, end_, intact);
  }

 private:
  size_t bytes_, mapped_;
  uint8_t *base_, *data_, *end_;
};

std::string SignatureOf(const std::vector<Arg>& args) {
  std::string signature;
  for (const Arg& arg : args) {
    if (!signature.empty()) signature += ",";
    signature += arg.name + "=";
    if (!arg.scalar_type.empty()) signature += arg.scalar_type;
    else signature += "*" + std::string(ShortName(arg.tensor.dtype));
    if (arg.divisibility) signature += ":" + std::to_string(arg.divisibility);
  }
  return signature;
}

storage::ConstantValue Constant(const std::string& text) {
  storage::ConstantValue value;
  if (text.rfind("jit:", 0) == 0) value.set_function(text.substr(4));
  else if (text.rfind("dtype:", 0) == 0) value.set_dtype(text.substr(6));
  else value = compiler::ParseConstant(text);
  return value;
}

struct Compiled {
  storage::KernelMetadata metadata;
  std::unique_ptr<LoadedProgram> program;
};

absl::StatusOr<Compiled> CompileFor(Target* target, const Program& program, const std::string& signature) {
  const std::string source = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n" + program.source;
  std::string plain;
  std::map<std::string, std::string> special;
  std::istringstream entries(program.constants);
  for (std::string entry; std::getline(entries, entry, ',');) plain += (plain.empty() ? "" : ",") + entry;
  ASSIGN_OR_RETURN(storage::CompileJob job, compiler::MakeJob(source, "kernel", signature, plain, target->name()));
  for (storage::ParameterSpec& spec : *job.mutable_parameters())
    if (spec.has_constant() && spec.constant().has_text()) *spec.mutable_constant() = Constant(spec.constant().text());
  job.set_cpu_features(target->cpu_features());
  job.mutable_options()->set_num_warps(program.num_warps);
  job.mutable_options()->set_num_stages(program.num_stages);
  for (const auto& [name, value] : program.options) (*job.mutable_options()->mutable_extra())[name] = value;
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::Artifact artifact, compiler::Compiler().Compile(job, &diagnostics));
  Compiled compiled;
  compiled.metadata = artifact.metadata();
  ASSIGN_OR_RETURN(compiled.program, target->Load(artifact));
  return compiled;
}

absl::StatusOr<Compiled*> CachedCompile(Target* target, const Program& program, const std::string& signature) {
  static auto* cache = new std::map<std::string, Compiled>;
  const std::string key = target->name() + "\n" + signature + "\n" + program.constants + "\n" + std::to_string(program.num_warps) + " " +
                          std::to_string(program.num_stages) + (program.options.empty() ? "" : " " + program.options.begin()->first + program.options.begin()->second) + "\n" +
                          program.source;
  auto it = cache->find(key);
  if (it == cache->end()) {
    ASSIGN_OR_RETURN(Compiled compiled, CompileFor(target, program, signature));
    it = cache->emplace(key, std::move(compiled)).first;
  }
  return &it->second;
}

// `printed` may be null; `failed` gets the status of the run, which must be OK where it is null.
void RunOn(Target* target, const Program& program, const std::vector<Arg>& args, const std::function<void(const Results&)>& check,
           std::string* printed = nullptr, absl::Status* failed = nullptr) {
  absl::StatusOr<Compiled*> compiled = CachedCompile(target, program, SignatureOf(args));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message() << "\n" << program.source;
  std::map<std::string, std::unique_ptr<GuardedMemory>> memory;
  std::vector<uint64_t> params;
  std::vector<Region> regions;
  for (const storage::EntryParameter& parameter : (*compiled)->metadata.parameters()) {
    auto arg = std::find_if(args.begin(), args.end(), [&](const Arg& a) { return a.name == parameter.name(); });
    ASSERT_TRUE(arg != args.end()) << "no argument for " << parameter.name();
    if (!arg->scalar_type.empty()) {
      params.push_back(arg->bits);
      continue;
    }
    auto& block = memory[arg->name];
    block = std::make_unique<GuardedMemory>(arg->tensor, arg->divisibility ? arg->divisibility : ByteSize(arg->tensor.dtype));
    params.push_back(block->address());
    regions.push_back({block->address(), arg->tensor.bytes.size(), arg->name});
  }
  absl::Status status = (*compiled)->program->Run(params, regions, program.grid.data());
  if (printed != nullptr) *printed = (*compiled)->program->printed;
  if (failed != nullptr) {
    *failed = status;
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << program.source;
  Results results;
  for (const Arg& arg : args) {
    auto block = memory.find(arg.name);
    if (block == memory.end()) continue;
    EXPECT_TRUE(block->second->GuardsIntact()) << "memory around " << arg.name << " was written";
    results[arg.name] = {arg.tensor.dtype, block->second->Contents()};
  }
  check(results);
}

template <typename Wrong>
void ReportFirst(const Tensor& got, size_t count, const Wrong& wrong) {
  size_t failures = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    std::string text = wrong(i);
    if (text.empty()) continue;
    if (failures++ == 0) first = "element " + std::to_string(i) + ": " + text;
  }
  if (failures) ADD_FAILURE() << LanguageName(got.dtype).data() << ": " << first << "; " << failures << " of " << count << " are wrong";
}

std::string Show(double got, double want) {
  std::ostringstream out;
  out.precision(17);
  out << "got " << got << ", want " << want;
  return out.str();
}

}  // namespace

Arg::Arg(std::string name, std::string type, double value) : name(std::move(name)), scalar_type(std::move(type)) {
  if (scalar_type == "fp32") bits = EncodeFloat(DType::kFp32, value);
  else if (scalar_type == "fp64") bits = EncodeFloat(DType::kFp64, value);
  else bits = static_cast<uint64_t>(static_cast<int64_t>(value));
}

Arg Arg::Integer(std::string name, std::string type, uint64_t bits) {
  Arg arg(std::move(name), std::move(type), 0);
  arg.bits = bits;
  return arg;
}

void Launch(const Program& program, const std::vector<Arg>& args, const std::function<void(const Results&)>& check) {
  ASSERT_FALSE(Targets().empty());
  for (Target* target : Targets()) {
    if (!target->WhySkipped(TestName()).empty()) continue;
    SCOPED_TRACE("target " + target->name());
    RunOn(target, program, args, check);
  }
}

void ExpectRunError(const Program& program, const std::vector<Arg>& args, absl::StatusCode code, const std::string& words) {
  for (Target* target : Targets()) {
    if (!target->WhySkipped(TestName()).empty()) continue;
    SCOPED_TRACE("target " + target->name());
    absl::Status status;
    RunOn(target, program, args, nullptr, nullptr, &status);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(std::string(status.message()).find(words), std::string::npos) << status;
  }
}

void ExpectPrinted(const Program& program, const std::vector<Arg>& args, const std::vector<std::string>& lines) {
  std::string want;
  for (const std::string& line : lines) want += line + "\n";
  for (Target* target : Targets()) {
    if (!target->WhySkipped(TestName()).empty()) continue;
    SCOPED_TRACE("target " + target->name());
    std::string printed;
    RunOn(target, program, args, [](const Results&) {}, &printed);
    EXPECT_EQ(printed, want);
  }
}

void ExpectCompileError(const Program& program, const std::vector<Arg>& args, const std::string& words) {
  for (Target* target : Targets()) {
    if (!target->WhySkipped(TestName()).empty()) continue;
    SCOPED_TRACE("target " + target->name());
    absl::StatusOr<Compiled> compiled = CompileFor(target, program, SignatureOf(args));
    ASSERT_FALSE(compiled.ok()) << "it compiles:\n" << program.source;
    EXPECT_NE(std::string(compiled.status().message()).find(words), std::string::npos) << compiled.status().message();
  }
}

std::string Substitute(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    const std::string key = "$" + name;
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size())) text.replace(at, key.size(), value);
  }
  return text;
}

double DefaultTolerance(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return 1e-12;
    case DType::kFp32: return 1e-5;
    case DType::kFp16: return 2e-3;
    case DType::kBf16: return 1.6e-2;
    case DType::kFp8E4M3Fn: case DType::kFp8E4M3Fnuz: case DType::kFp8E4B15: return 0.13;
    case DType::kFp8E5M2: case DType::kFp8E5M2Fnuz: return 0.26;
    default: return 0;
  }
}

void ExpectFloats(const Tensor& got, const std::vector<double>& want, double rtol) {
  ASSERT_EQ(got.size(), want.size());
  double allowed_absolute = 0;
  if (rtol > 0) {
    std::vector<double> magnitudes;
    for (double value : want)
      if (std::isfinite(value)) magnitudes.push_back(std::fabs(value));
    if (!magnitudes.empty()) {
      std::sort(magnitudes.begin(), magnitudes.end());
      allowed_absolute = rtol * std::min(magnitudes.back(), 16 * magnitudes[magnitudes.size() / 2]);
    }
  }
  ReportFirst(got, want.size(), [&](size_t i) -> std::string {
    const double value = got.Float(i), rounded = RoundTo(got.dtype, want[i]);
    if (std::isnan(value) && std::isnan(rounded)) return "";
    if (value == rounded && (rtol > 0 || std::signbit(value) == std::signbit(rounded))) return "";
    if (rtol > 0 && std::isfinite(value) && std::isfinite(want[i]) && std::fabs(value - want[i]) <= rtol * std::fabs(want[i]) + allowed_absolute) return "";
    return Show(value, rounded);
  });
}

void ExpectRelative(const Tensor& got, const std::vector<double>& want, double rtol) {
  ASSERT_EQ(got.size(), want.size());
  const double smallest = got.dtype == DType::kFp64 ? 2.3e-308 : got.dtype == DType::kFp16 ? 6.2e-5 : 1.2e-38;
  ReportFirst(got, want.size(), [&](size_t i) -> std::string {
    const double value = got.Float(i), rounded = RoundTo(got.dtype, want[i]);
    if ((std::isnan(value) && std::isnan(rounded)) || value == rounded) return "";
    if (std::isfinite(value) && std::fabs(value - want[i]) <= rtol * std::fabs(want[i]) + smallest) return "";
    return Show(value, want[i]);
  });
}

void ExpectInts(const Tensor& got, const std::vector<int64_t>& want) {
  ASSERT_EQ(got.size(), want.size());
  ReportFirst(got, want.size(), [&](size_t i) -> std::string {
    const int64_t wrapped = got.dtype == DType::kInt1 ? want[i] : DecodeInt(got.dtype, static_cast<uint64_t>(want[i]));
    if (got.Int(i) == wrapped) return "";
    return "got " + std::to_string(got.Int(i)) + ", want " + std::to_string(wrapped);
  });
}

Expression FloatExpression(std::string text, DType type, std::function<double(size_t)> want, double rtol) {
  return {std::move(text), type, std::move(want), nullptr, rtol};
}
Expression IntExpression(std::string text, DType type, std::function<int64_t(size_t)> want, std::function<bool(size_t)> skip) {
  return {std::move(text), type, nullptr, std::move(want), kExact, std::move(skip)};
}

void RunExpressions(const std::map<std::string, Tensor>& inputs, const std::vector<Expression>& expressions, const std::string& prelude) {
  std::string parameters, loads, stores;
  std::vector<Arg> args;
  for (const auto& [name, tensor] : inputs) {
    ASSERT_EQ(tensor.size(), kLanes);
    parameters += name + "_ptr, ";
    loads += "    " + name + " = tl.load(" + name + "_ptr + i, mask=m)\n";
    args.emplace_back(name + "_ptr", tensor);
  }
  for (size_t k = 0; k < expressions.size(); ++k) {
    const std::string out = "o" + std::to_string(k), value = "v" + std::to_string(k);
    const std::string type(LanguageName(expressions[k].type).data(), LanguageName(expressions[k].type).size());
    parameters += out + ", ";
    stores += "    " + value + " = " + expressions[k].text + "\n    tl.static_assert(" + value + ".dtype == tl." + type + ")\n    tl.store(" + out + " + i, " +
              value + ", mask=m)\n";
    args.emplace_back(out, Poison(expressions[k].type, kLanes));
  }
  Program program;
  program.source = prelude + "\n@triton.jit\ndef kernel(" + parameters +
                   "n, BLOCK: tl.constexpr):\n    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    m = i < n\n" + loads + stores;
  program.constants = "BLOCK=256";
  for (size_t n : kSizes) {
    program.grid = {static_cast<uint32_t>((n + 255) / 256), 1, 1};
    std::vector<Arg> all = args;
    all.emplace_back("n", "i32", static_cast<double>(n));
    SCOPED_TRACE("n = " + std::to_string(n));
    Launch(program, all, [&](const Results& results) {
      for (size_t k = 0; k < expressions.size(); ++k) {
        const Expression& e = expressions[k];
        SCOPED_TRACE(e.text);
        Tensor got = results.at("o" + std::to_string(k));
        const Tensor poison = Poison(e.type, kLanes);
        for (size_t i = n; i < kLanes; ++i) ASSERT_EQ(got.Bits(i), poison.Bits(i)) << "masked-off element " << i << " was written";
        got.bytes.resize(n * ByteSize(e.type));
        if (e.want) {
          std::vector<double> want(n);
          for (size_t i = 0; i < n; ++i) want[i] = e.skip && e.skip(i) ? got.Float(i) : e.want(i);
          if (e.rtol == kExact) ExpectFloats(got, want, kExact);
          else ExpectRelative(got, want, e.rtol);
        } else {
          std::vector<int64_t> want(n);
          for (size_t i = 0; i < n; ++i) want[i] = e.skip && e.skip(i) ? got.Int(i) : e.want_int(i);
          ExpectInts(got, want);
        }
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace tessera::conformance
