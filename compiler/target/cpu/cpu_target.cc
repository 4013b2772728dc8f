#include "compiler/target/cpu/cpu_target.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/pipeline/cpu_pipeline.h"
#include "compiler/target/cpu/object_compiler.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

constexpr int64_t kMaxScratchBytes = int64_t{1} << 30;
constexpr char kUnsupported[] = "not supported on the cpu: ";

CodegenTarget TargetOf(const CpuDescription& cpu) {
  CodegenTarget target;
  target.vector_bits = cpu.VectorBits();
  target.native_masks = cpu.Has("avx512bw") && cpu.Has("avx512vl") && target.vector_bits == 512;
  target.wide_masks = target.native_masks || cpu.Has("avx2");
  target.fma = cpu.Has("fma") || cpu.Has("neon");
  return target;
}

std::string TextOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out);
  return text;
}

std::string Place(Location location) {
  std::string text;
  llvm::raw_string_ostream out(text);
  location.print(out);
  // loc("file":1:2) -> "file":1:2
  if (text.rfind("loc(", 0) == 0) text = text.substr(4, text.size() - 5);
  return text;
}

// Runs passes; the first error becomes the status.
absl::Status Run(ModuleOp module, llvm::function_ref<void(OpPassManager*)> add) {
  std::string error;
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic& diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && error.empty())
      error = Place(diagnostic.getLocation()) + ": " + diagnostic.str();
    return success();
  });
  PassManager passes(module.getContext());
  add(&passes);
  if (succeeded(passes.run(module))) return absl::OkStatus();
  if (error.find(kUnsupported) != std::string::npos) return absl::UnimplementedError(error);
  return absl::InternalError(absl::StrCat("generating code for the cpu: ", error));
}

// An edited stage takes the place of what the passes made.
absl::Status Replace(ModuleOp module, const CpuTargetOptions& options, const char* stage) {
  auto text = options.override_stages.find(stage);
  if (text == options.override_stages.end()) return absl::OkStatus();
  std::string error;
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic& diagnostic) {
    if (error.empty()) error = Place(diagnostic.getLocation()) + ": " + diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(text->second, module.getContext(), stage);
  if (!parsed || failed(verify(*parsed)))
    return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage '", stage, "' is wrong: ", error));
  module.getBody()->clear();
  module.getBody()->getOperations().splice(module.getBody()->end(), parsed->getBody()->getOperations());
  return absl::OkStatus();
}

class Stopwatch {
 public:
  double Lap() {
    auto now = std::chrono::steady_clock::now();
    double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void RegisterCpuTargetDialects(DialectRegistry* registry) {
  registry->insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                   scf::SCFDialect, tile::TileDialect, vector::VectorDialect>();
  RegisterObjectCompilerDialects(registry);
}

absl::StatusOr<CpuObject> CompileForCpu(ModuleOp module, const CpuTargetOptions& options) {
  CpuDescription cpu = DetectHostCpu();
  if (!options.cpu_features.empty()) {
    ASSIGN_OR_RETURN(cpu, ParseCpuDescription(options.cpu_features));
  }
  auto wants = [&](const char* stage) { return std::count(options.emit.begin(), options.emit.end(), stage) > 0; };
  CpuObject object;
  Stopwatch watch;
  auto finish = [&](const char* stage) { object.stage_seconds.push_back({stage, watch.Lap()}); };

  RETURN_IF_ERROR(Run(module, [](OpPassManager* passes) { AddCpuTilePasses(passes); }));
  RETURN_IF_ERROR(Replace(module, options, "tile_cpu"));
  finish("tile_cpu");
  if (wants("tile_cpu")) object.stages["tile_cpu"] = TextOf(module);

  TileToLoopsResult loops;
  RETURN_IF_ERROR(Run(module, [&](OpPassManager* passes) { AddCpuLoopPasses(passes, TargetOf(cpu), wants("plan"), &loops); }));
  RETURN_IF_ERROR(Replace(module, options, "loops"));
  finish("loops");
  object.entry_symbol = loops.entry_symbol;
  object.scratch_bytes = loops.scratch_bytes;
  if (wants("plan")) object.stages["plan"] = loops.plan_text;
  if (wants("loops")) object.stages["loops"] = TextOf(module);
  if (loops.scratch_bytes > kMaxScratchBytes)
    return absl::ResourceExhaustedError(absl::StrCat("a program instance needs ", loops.scratch_bytes,
                                                     " bytes of scratch memory for its blocks; the limit is ", kMaxScratchBytes));

  RETURN_IF_ERROR(Run(module, [](OpPassManager* passes) { AddCpuLlvmPasses(passes); }));
  RETURN_IF_ERROR(Replace(module, options, "llvm_dialect"));
  finish("llvm_dialect");
  if (wants("llvm_dialect")) object.stages["llvm_dialect"] = TextOf(module);

  ObjectOptions object_options;
  object_options.cpu = cpu;
  object_options.contract_fp = options.fp_fusion;
  object_options.want_llvm = wants("llvm");
  object_options.want_asm = wants("asm");
  auto replacement = [&](const char* stage) {
    auto text = options.override_stages.find(stage);
    return text == options.override_stages.end() ? std::string() : text->second;
  };
  object_options.replace_llvm = replacement("llvm");
  object_options.replace_asm = replacement("asm");
  ASSIGN_OR_RETURN(CompiledObject compiled, CompileObject(module, object_options));
  object.object = std::move(compiled.object);
  if (object_options.want_llvm) object.stages["llvm"] = std::move(compiled.llvm);
  if (object_options.want_asm) object.stages["asm"] = std::move(compiled.assembly);
  object.stage_seconds.push_back({"optimize", compiled.optimize_seconds});
  object.stage_seconds.push_back({"codegen", compiled.codegen_seconds});
  return object;
}

}  // namespace tessera::compiler
