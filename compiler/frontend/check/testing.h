// Emits a kernel from source text in tests.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_TESTING_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_TESTING_H_

#include <string>
#include <vector>

#include "compiler/frontend/diagnostics/diagnostics.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::frontend {

struct Emitted {
  std::string ir;  // empty when there are errors
  std::vector<storage::EntryParameter> parameters;
  std::vector<Diagnostic> diagnostics;
  bool verifies = false;

  // "line:column: message" of the first error, "" if there is none.
  std::string error() const;
  bool Has(const std::string& text) const { return ir.find(text) != std::string::npos; }
  // How often `text` occurs in the IR.
  int Count(const std::string& text) const;
};

// `signature` is separated by spaces: "x=*fp16:16 n=i32 one=1 B=#128 act=#'gelu' bias=#None t=#fp16
// d=desc:fp32:16x32". Lines are put
// after the imports of triton and tl, which are line 1; the kernel is the function "kernel" unless named.
Emitted Emit(const std::string& source, const std::string& signature, const std::string& kernel = "kernel",
             const std::string& target = "interpreter");

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_TESTING_H_
