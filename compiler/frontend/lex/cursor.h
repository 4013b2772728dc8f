// A place in source text that knows its line. Private to this folder.
#ifndef TESSERA_COMPILER_FRONTEND_LEX_CURSOR_H_
#define TESSERA_COMPILER_FRONTEND_LEX_CURSOR_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tessera::frontend {

class Cursor {
 public:
  explicit Cursor(absl::string_view text) : text_(text) {}

  void Place(size_t offset, int line, size_t line_start) {
    offset_ = offset;
    line_ = line;
    line_start_ = line_start;
  }

  bool done() const { return offset_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0'; }
  absl::string_view rest() const { return text_.substr(offset_); }
  size_t offset() const { return offset_; }
  int line() const { return line_; }
  size_t line_start() const { return line_start_; }
  int column() const { return static_cast<int>(offset_ - line_start_) + 1; }

  void Skip(size_t bytes) {
    for (; bytes > 0 && offset_ < text_.size(); --bytes) {
      if (text_[offset_++] == '\n') {
        ++line_;
        line_start_ = offset_;
      }
    }
  }

 private:
  absl::string_view text_;
  size_t offset_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
};

inline bool IsIdentifierByte(char c) {  // digits apart
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Length of the prefix and opening quotes if a string literal begins here, else 0.
size_t StringStart(absl::string_view text);

enum class StringEnd { kClosed, kEndOfLine, kEndOfFile, kTooDeep };

// Moves past the string literal that begins at `cursor` with `start_length` bytes of prefix and quotes.
// `*open_fields_allowed`: replacement fields of f-strings may span lines even in single quotes; turned off for the rest of
// the file when one does not end, so that damaged text stays linear.
StringEnd SkipString(Cursor* cursor, size_t start_length, bool* open_fields_allowed);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_LEX_CURSOR_H_
