// Splits Python source into tokens.
#ifndef TESSERA_COMPILER_FRONTEND_LEX_LEXER_H_
#define TESSERA_COMPILER_FRONTEND_LEX_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

enum class TokenKind {
  kName,  // identifiers and keywords
  kInteger, kFloat, kImaginary,
  kString,    // one literal with prefix and quotes
  kOperator,  // punctuation too
  kNewline,   // end of a logical line
  kIndent, kDedent,
  kEnd,    // always the last token
  kError,  // text that is no token; see Token::message
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;  // into the source; empty for kIndent, kDedent, kEnd
  SourceRange range;
  const char* message = nullptr;  // kError: what is wrong; static storage
  char detail[2] = {0, 0};        // kError about brackets: the brackets concerned

  bool is(absl::string_view spelling) const {
    return (kind == TokenKind::kOperator || kind == TokenKind::kName) && text == spelling;
  }
};

struct TokenList {
  std::vector<Token> tokens;
  // An error after which the rest of the file could not be read (an open triple-quoted string): index of its kError
  // token, else -1.
  int fatal = -1;
};

// Brings text into the form that the lexer wants: no byte order mark, "\n" line ends. Bytes that are not UTF-8 become
// U+FFFD; `*first_bad` is the offset of the first such place in the result, or npos.
std::string NormalizeSource(absl::string_view text, size_t* first_bad);

bool IsUtf8(absl::string_view text);

// Tokens of a whole file. `text` must outlive them. Linear time.
TokenList Tokenize(int file, absl::string_view text);

//===-- string literals ------------------------------------------------------------------------===//

// Where a piece of a file lies.
struct TextSpan {
  size_t begin = 0, end = 0;  // offsets
  int line = 1;               // of `begin`
  size_t line_start = 0;      // offset where that line begins
};

// A string literal taken apart.
struct StringLiteral {
  bool raw = false, bytes = false, formatted = false, is_template = false;
  TextSpan body;  // between the quotes
};

StringLiteral TakeApart(absl::string_view file_text, const Token& token);

// A piece of an f-string: literal text, or a replacement field.
struct FStringPart {
  bool is_field = false;
  TextSpan span;         // the text, or the field's expression
  char conversion = 0;   // 'r', 's', 'a'
  bool shows_source = false;  // {x=}
  bool has_spec = false;
  std::vector<FStringPart> spec;
};

// Pieces of the body of an f-string that the lexer accepted.
std::vector<FStringPart> SplitFString(absl::string_view file_text, const StringLiteral& literal);

// Tokens of an expression inside a replacement field: line ends do not matter. Ends with kEnd.
TokenList TokenizeField(int file, absl::string_view file_text, const TextSpan& span);

// The text that a literal piece stands for, as UTF-8. `unescape_braces` turns "{{" into "{".
std::string DecodeText(absl::string_view piece, bool raw, bool unescape_braces);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_LEX_LEXER_H_
