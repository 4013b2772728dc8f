// Keeps LLVM's errors: its default handler ends the process.
#ifndef TESSERA_COMPILER_TARGET_LLVM_ERRORS_H_
#define TESSERA_COMPILER_TARGET_LLVM_ERRORS_H_

#include <string>

#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera::compiler {

// For LLVMContext::setDiagnosticHandler. Appends each error, and a line end, to `errors`, which must outlive it.
class LlvmErrorCollector : public llvm::DiagnosticHandler {
 public:
  explicit LlvmErrorCollector(std::string* errors) : errors_(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(*errors_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    stream << "\n";
    return true;
  }

 private:
  std::string* const errors_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_LLVM_ERRORS_H_
