// Errors and warnings about source text, with the place they concern.
#ifndef TESSERA_COMPILER_FRONTEND_DIAGNOSTICS_DIAGNOSTICS_H_
#define TESSERA_COMPILER_FRONTEND_DIAGNOSTICS_DIAGNOSTICS_H_

#include <string>
#include <vector>

#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

enum class Severity { kError, kWarning, kNote };

struct Diagnostic {
  Severity severity;
  SourceRange range;
  std::string message;
};

// Collects diagnostics of one compilation. Not thread-safe.
class Diagnostics {
 public:
  void Error(SourceRange range, std::string message) { Add(Severity::kError, range, std::move(message)); }
  void Warning(SourceRange range, std::string message) { Add(Severity::kWarning, range, std::move(message)); }
  // Says more about the diagnostic before it, at another place.
  void Note(SourceRange range, std::string message) { Add(Severity::kNote, range, std::move(message)); }

  bool has_errors() const { return errors_ > 0; }
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  void Add(Severity severity, SourceRange range, std::string message) {
    if (severity == Severity::kError) ++errors_;
    all_.push_back({severity, range, std::move(message)});
  }
  std::vector<Diagnostic> all_;
  int errors_ = 0;
};

// "path:line:column: error: message", the source line, and a line with a caret and tildes under the range.
std::string Render(const Diagnostic& diagnostic, const std::vector<File>& files);

// The source line where `range` begins, without its end of line; empty if there is none.
std::string SourceLine(const SourceRange& range, const std::vector<File>& files);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_DIAGNOSTICS_DIAGNOSTICS_H_
