// Prints trees as canonical Python text: the same for equal trees, without comments, docstrings or positions.
#ifndef TESSERA_COMPILER_FRONTEND_PARSE_PRINTER_H_
#define TESSERA_COMPILER_FRONTEND_PARSE_PRINTER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

struct PrintOptions {
  // Text to print for a name, parenthesised already where that matters.
  const std::map<std::string, std::string>* names = nullptr;
  // Text to print for a call, parenthesised likewise; nullopt: the call as it is.
  std::function<std::optional<std::string>(const Expr& call)> call;
};

// One line that parses to an equal tree (kOpaque apart, printed as <what it is>).
std::string Print(const Expr& expression, const PrintOptions& options = {});

// Lines, each with its "\n", indented by a blank a level. Expression statements of a lone string are left out.
// Decorators are printed only where `decorators` says so.
std::string Print(const Stmt& statement, bool decorators, const PrintOptions& options = {});

// Python's repr of a float, of which inf and nan are printed as "float('inf')"; and of a string, in single quotes.
std::string FloatText(double value);
std::string StringText(absl::string_view value);

const char* Spelling(BinaryOp op);
const char* Spelling(CompareOp op);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_PARSE_PRINTER_H_
