#include "compiler/frontend/check/testing.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/frontend/check/emit_tile.h"
#include "compiler/frontend/parse/parser.h"
#include "mlir/IR/Verifier.h"

namespace tessera::frontend {
namespace {

storage::ParameterSpec ParseSpec(absl::string_view text) {
  std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  storage::ParameterSpec spec;
  spec.set_name(sides.first);
  const std::string& value = sides.second;
  int64_t integer;
  double real;
  if (value == "1") {
    spec.set_type("i32");
    spec.set_equals_one(true);
  } else if (!value.empty() && value[0] == '#') {
    std::string literal = value.substr(1);
    storage::ConstantValue* constant = spec.mutable_constant();
    if (literal == "None") constant->mutable_none();
    else if (literal == "True" || literal == "False") constant->set_boolean(literal == "True");
    else if (literal[0] == '\'') constant->set_text(literal.substr(1, literal.size() - 2));
    else if (absl::SimpleAtoi(literal, &integer)) constant->set_integer(integer);
    else if (absl::SimpleAtod(literal, &real)) constant->set_real(real);
    else if (literal.substr(0, 3) == "fn:") constant->set_function(literal.substr(3));
    else constant->set_dtype(literal);
  } else if (absl::StartsWith(value, "desc:")) {
    std::vector<std::string> parts = absl::StrSplit(value, ':');
    spec.mutable_tensor_descriptor()->set_element_type(parts[1]);
    for (absl::string_view extent : absl::StrSplit(parts[2], 'x'))
      spec.mutable_tensor_descriptor()->add_block_shape(std::stoi(std::string(extent)));
  } else {
    std::vector<std::string> parts = absl::StrSplit(value, ':');
    spec.set_type(parts[0]);
    if (parts.size() > 1) spec.set_divisibility(std::stoi(parts[1]));
  }
  return spec;
}

}  // namespace

std::string Emitted::error() const {
  for (const Diagnostic& d : diagnostics)
    if (d.severity == Severity::kError) return absl::StrCat(d.range.line, ":", d.range.column, ": ", d.message);
  return "";
}

int Emitted::Count(const std::string& text) const {
  int n = 0;
  for (size_t i = ir.find(text); i != std::string::npos; i = ir.find(text, i + text.size())) ++n;
  return n;
}

Emitted Emit(const std::string& source, const std::string& signature, const std::string& kernel,
             const std::string& target) {
  Diagnostics diagnostics;
  std::vector<File> files;
  files.push_back(Parse(0, "kernel.py", "import triton, triton.language as tl\n" + source, &diagnostics));
  ModuleIndex index(files);
  storage::CompileJob job;
  job.set_kernel(kernel);
  job.set_target(target);
  for (absl::string_view part : absl::StrSplit(signature, ' ', absl::SkipEmpty())) *job.add_parameters() = ParseSpec(part);

  Emitted result;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = EmitTile(index, job, context, &diagnostics, &result.parameters);
  result.diagnostics = diagnostics.all();
  if (!module) return result;
  result.verifies = mlir::succeeded(mlir::verify(*module));
  llvm::raw_string_ostream stream(result.ir);
  module->print(stream);
  return result;
}

}  // namespace tessera::frontend
