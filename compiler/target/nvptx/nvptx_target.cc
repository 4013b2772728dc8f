#include "compiler/target/nvptx/nvptx_target.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "compiler/target/nvptx/assembler.h"
#include "compiler/target/nvptx/libdevice.h"
#include "compiler/target/nvptx/ptx_compiler.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace tessera::compiler {

absl::StatusOr<GpuCode> CompileSimt(mlir::ModuleOp module, const NvptxOptions& options) {
  GpuCode code;
  auto last = std::chrono::steady_clock::now();
  auto finish = [&](const char* stage) {
    const auto now = std::chrono::steady_clock::now();
    code.stage_seconds.push_back({stage, std::chrono::duration<double>(now - last).count()});
    last = now;
  };
  auto wants = [&](const char* stage) { return std::count(options.emit.begin(), options.emit.end(), stage) > 0; };

  llvm::LLVMContext context;
  NvvmOptions nvvm_options;
  nvvm_options.arch = options.arch;
  nvvm_options.max_registers = options.max_registers;
  nvvm_options.contract_fp = options.fp_fusion;
  ASSIGN_OR_RETURN(NvvmModule translated, SimtToNvvm(module, nvvm_options, context));
  code.entry_symbol = translated.entry_symbol;
  code.threads = translated.threads;
  code.shared_bytes = translated.shared_bytes;
  code.messages = std::move(translated.messages);
  if (code.threads > 1024) return absl::ResourceExhaustedError(absl::StrCat("a block of ", code.threads, " threads: the limit of ", options.arch.name, " is 1024; use fewer warps"));
  if (code.shared_bytes > options.arch.block_shared_bytes)
    return absl::ResourceExhaustedError(absl::StrCat("the kernel needs ", code.shared_bytes, " bytes of shared memory for a block; the limit of ", options.arch.name, " is ",
                                                     options.arch.block_shared_bytes, ": use smaller blocks or fewer stages"));
  finish("nvvm");

  RETURN_IF_ERROR(LinkLibdevice(translated.libdevice_symbols, translated.module.get()));
  finish("libdevice");
  PtxOptions ptx_options;
  ptx_options.arch = options.arch;
  ptx_options.has_library = !translated.libdevice_symbols.empty();
  ptx_options.want_llvm = wants("llvm");
  ASSIGN_OR_RETURN(Ptx ptx, CompilePtx(*translated.module, ptx_options));
  if (wants("llvm")) code.stages["llvm"] = std::move(ptx.llvm);
  if (wants("ptx")) code.stages["ptx"] = ptx.text;
  code.stage_seconds.push_back({"llvm", ptx.optimize_seconds});
  code.stage_seconds.push_back({"ptx", ptx.codegen_seconds});
  last = std::chrono::steady_clock::now();
  code.ptx = std::move(ptx.text);
  if (!options.assemble) return code;

  ASSIGN_OR_RETURN(Cubin cubin, Assemble(code.ptx, code.entry_symbol, options.arch));
  code.cubin = std::move(cubin.code);
  code.registers = cubin.registers;
  code.spill_bytes = cubin.spill_bytes;
  code.local_bytes = cubin.local_bytes;
  code.assembler = std::move(cubin.assembler);
  for (absl::string_view line : absl::StrSplit(cubin.log, '\n'))
    if (absl::StrContains(line, "warning") || absl::StrContains(line, "Performance Loss")) code.warnings.emplace_back(line);
  finish("cubin");
  return code;
}

}  // namespace tessera::compiler
