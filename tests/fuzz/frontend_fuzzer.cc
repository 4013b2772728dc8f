// Any bytes as a module: lexer, parser, description, and each jit function checked and emitted as
// tile IR with a small fixed signature. What must not happen: a crash, more than 5 seconds or 1 GiB
// for one input, IR that does not verify.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/frontend/check/emit_tile.h"
#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/module/describe.h"
#include "compiler/frontend/module/module_index.h"
#include "compiler/frontend/parse/parser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

namespace {

using tessera::storage::ParameterSpec;

constexpr int kKernelsPerInput = 4;
constexpr int kEmitsPerContext = 200;  // a context keeps every type and constant it has seen

mlir::MLIRContext& Context() {
  static std::unique_ptr<mlir::MLIRContext> context;
  static int uses = 0;
  if (!context || ++uses > kEmitsPerContext) {
    uses = 0;
    context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  }
  return *context;
}

// Pointers by their names, constants by annotation or default; everything else is an i32.
ParameterSpec SpecFor(const tessera::storage::ParameterDescription& parameter) {
  ParameterSpec spec;
  spec.set_name(parameter.name());
  if (parameter.has_default())
    *spec.mutable_constant() = parameter.default_value();
  else if (parameter.is_constexpr())
    spec.mutable_constant()->set_integer(16);
  else if (absl::StrContains(parameter.name(), "ptr"))
    spec.set_type("*fp32");
  else
    spec.set_type("i32");
  return spec;
}

}  // namespace

extern "C" const char* __asan_default_options() {
  return "detect_container_overflow=0:detect_leaks=0:quarantine_size_mb=32:allocator_may_return_"
         "null=0";
}

// The limits hold however the fuzzer is started; flags on the command line come later and win.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static std::vector<char*> words;
  static char timeout[] = "-timeout=5", memory[] = "-rss_limit_mb=1024",
              allocation[] = "-malloc_limit_mb=1024";
  words = {(*argv)[0], timeout, memory, allocation};
  words.insert(words.end(), *argv + 1, *argv + *argc);
  *argc = int(words.size());
  words.push_back(nullptr);
  *argv = words.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  frontend::Diagnostics parse_errors;
  std::vector<frontend::File> files;
  files.push_back(frontend::Parse(
      0, "kernel.py", absl::string_view(reinterpret_cast<const char*>(data), size), &parse_errors));
  frontend::ModuleIndex index(files);
  const storage::ModuleDescription description = frontend::Describe(index);
  for (const frontend::Diagnostic& diagnostic : parse_errors.all())
    frontend::Render(diagnostic, files);
  if (parse_errors.has_errors()) return 0;
  for (int i = 0; i < description.kernels_size() && i < kKernelsPerInput; ++i) {
    storage::CompileJob job;
    job.set_kernel(description.kernels(i).name());
    job.set_target("interpreter");
    for (const auto& parameter : description.kernels(i).parameters())
      *job.add_parameters() = SpecFor(parameter);
    mlir::MLIRContext& context = Context();
    mlir::ScopedDiagnosticHandler quiet(&context,
                                        [](mlir::Diagnostic&) { return mlir::success(); });
    frontend::Diagnostics errors;
    std::vector<storage::EntryParameter> parameters;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        frontend::EmitTile(index, job, context, &errors, &parameters);
    for (const frontend::Diagnostic& diagnostic : errors.all()) frontend::Render(diagnostic, files);
    if (!module && !errors.has_errors()) {
      std::fprintf(stderr, "kernel '%s' was refused without an error\n", job.kernel().c_str());
      std::abort();
    }
    if (module && !errors.has_errors() && mlir::failed(mlir::verify(*module))) {
      std::fprintf(stderr, "kernel '%s': the emitted tile IR does not verify\n",
                   job.kernel().c_str());
      std::abort();
    }
  }
  return 0;
}
