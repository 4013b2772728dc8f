// Source text in, syntax tree out.
#ifndef TESSERA_COMPILER_FRONTEND_PARSE_PARSER_H_
#define TESSERA_COMPILER_FRONTEND_PARSE_PARSER_H_

#include "absl/strings/string_view.h"
#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

// Parses one Python file. Always returns a tree: statements that could not be read are kOpaque nodes.
//
// Errors inside functions that are not jit functions are dropped with the statement they are in; all others, in jit
// functions and at module level, are reported to `diagnostics`. File.text is `text` without a byte order mark and
// with "\n" line ends; line and column of every range count in it.
//
// Safe on any bytes: takes linear time, nesting is bounded (kMaxHeight below), so that recursion over the tree is too.
File Parse(int file_index, absl::string_view path, absl::string_view text, Diagnostics* diagnostics);

// No path from a statement or expression of the tree down to a leaf has more nodes.
constexpr int kMaxHeight = 600;

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_PARSE_PARSER_H_
