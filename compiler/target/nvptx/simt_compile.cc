// simt-compile: simt IR from standard input or a file to PTX on standard output, for tests and for looking.
//
// usage: simt-compile [--target=sm_90a] [--emit=ptx|llvm] [--assemble] [file]
// --assemble also runs the assembler and prints a line "// registers: N, ..." behind the PTX; where there is no
// assembler the line is "// not assembled: WHY". Exit status 1: it does not compile; the reason is on standard error.
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "compiler/dialect/simt/simt.h"
#include "compiler/target/nvptx/assembler.h"
#include "compiler/target/nvptx/nvptx_target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

int Run(int argc, char** argv) {
  std::string target = "sm_90a", emit = "ptx", file = "-";
  bool assemble = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (absl::StartsWith(word, "--target=")) target = word.substr(9);
    else if (absl::StartsWith(word, "--emit=")) emit = word.substr(7);
    else if (word == "--assemble") assemble = true;
    else file = word;
  }
  auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  };
  absl::StatusOr<GpuArch> arch = ParseGpuArch(target);
  if (!arch.ok()) return fail(arch.status());
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect,
                  simt::SimtDialect, tile::TileDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
  if (!module) return 1;
  NvptxOptions options;
  options.arch = *arch;
  options.emit = {emit};
  options.assemble = assemble && WhyNoAssembler().empty();
  absl::StatusOr<GpuCode> code = CompileSimt(*module, options);
  if (!code.ok()) return fail(code.status());
  std::fputs(code->stages[emit].c_str(), stdout);
  for (const ReportMessage& message : code->messages)
    std::printf("// message: '%s' kind '%s' operand %d at %s\n", message.text.c_str(), message.kind.c_str(), message.operand, message.where.c_str());
  if (options.assemble)
    std::printf("// registers: %d, spills: %d bytes, local: %d bytes, shared: %d bytes, threads: %d\n", code->registers, code->spill_bytes, code->local_bytes,
                code->shared_bytes, code->threads);
  else if (assemble) std::printf("// not assembled: %s\n", WhyNoAssembler().c_str());
  return 0;
}

}  // namespace
}  // namespace tessera::compiler

int main(int argc, char** argv) { return tessera::compiler::Run(argc, argv); }
