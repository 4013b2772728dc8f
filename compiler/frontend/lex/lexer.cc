// The lexer proper. String literals (their ends, their escapes, f-strings) are in string_literal.cc.
#include "compiler/frontend/lex/lexer.h"

#include <algorithm>
#include <cstring>

#include "compiler/frontend/lex/cursor.h"

namespace tessera::frontend {
namespace {

// As deep as Python itself goes.
constexpr size_t kMaxIndents = 100;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Longest first.
constexpr absl::string_view kOperators[] = {
    "**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", ":=", "+=", "-=",
    "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", "+",  "-",  "*",  "/",  "%",  "@",  "&",  "|",  "^",  "~",
    "<",   ">",   "(",   ")",   "[",   "]",  "{",  "}",  ",",  ":",  ".",  ";",  "=",  "!"};

// Words that may follow a number without a blank ("1if x else 2").
bool IsWordAfterNumber(absl::string_view word) {
  for (absl::string_view keyword : {"if", "else", "and", "or", "in", "is", "not", "for"})
    if (word == keyword) return true;
  return false;
}

struct LookAlike {
  absl::string_view bytes;
  const char* message;
};
constexpr LookAlike kLookAlikes[] = {
    {"\xC2\xA0", "non-breaking space (U+00A0): use an ordinary space"},
    {"\xE2\x80\x8B", "zero-width space (U+200B) in the source: remove it"},
    {"\xEF\xBB\xBF", "byte order mark (U+FEFF) inside the source: remove it"},
    {"\xE3\x80\x80", "ideographic space (U+3000): use an ordinary space"},
    {"\xE2\x80\x98", "typographic quote (U+2018): use ' or \""},
    {"\xE2\x80\x99", "typographic quote (U+2019): use ' or \""},
    {"\xE2\x80\x9C", "typographic quote (U+201C): use ' or \""},
    {"\xE2\x80\x9D", "typographic quote (U+201D): use ' or \""},
    {"\xE2\x88\x92", "minus sign (U+2212): use -"},
    {"\xE2\x80\x93", "en dash (U+2013): use -"},
};

class Lexer {
 public:
  Lexer(int file, absl::string_view text, const TextSpan& span, bool in_field)
      : file_(file), text_(text), in_field_(in_field), cursor_(text.substr(0, span.end)) {
    cursor_.Place(span.begin, span.line, span.line_start);
  }

  TokenList Run() {
    at_line_start_ = !in_field_;
    while (!stopped_ && !cursor_.done()) Step();
    if (!stopped_ && !open_.empty()) NeverClosed();
    if (!in_field_) {
      if (!list_.tokens.empty() && list_.tokens.back().kind != TokenKind::kNewline) AddEmpty(TokenKind::kNewline);
      for (; indents_.size() > 1; indents_.pop_back()) AddEmpty(TokenKind::kDedent);
    }
    AddEmpty(TokenKind::kEnd);
    return std::move(list_);
  }

 private:
  struct Indent {
    int column, column_with_narrow_tabs;
  };
  struct Bracket {
    char c;
    SourceRange range;
  };

  void Step() {
    if (at_line_start_) {
      at_line_start_ = false;
      if (!StartLine()) return;
    }
    char c = cursor_.peek();
    if (c == ' ' || c == '\t' || c == '\f') return cursor_.Skip(1);
    if (c == '#') return SkipComment();
    if (c == '\n') return EndLine();
    if (c == '\\') return Continuation();
    if (IsDigit(c) || (c == '.' && IsDigit(cursor_.peek(1)))) return Number();
    if (size_t length = StringStart(cursor_.rest())) return String(length);
    if (IsIdentifierByte(c)) return Word();
    Operator();
  }

  // Measures the indentation of the line that begins here. False: the line is blank.
  bool StartLine() {
    if (!open_.empty()) return AbandonBrackets();
    int column = 0, narrow = 0;
    for (;; cursor_.Skip(1)) {
      char c = cursor_.peek();
      if (c == ' ') {
        ++column, ++narrow;
      } else if (c == '\t') {
        column = (column / 8 + 1) * 8;
        ++narrow;
      } else if (c == '\f') {
        column = narrow = 0;
      } else {
        break;
      }
    }
    char c = cursor_.peek();
    if (cursor_.done()) return false;
    if (c == '#') SkipComment();
    if (cursor_.done()) return false;
    if (cursor_.peek() == '\n') {
      cursor_.Skip(1);
      at_line_start_ = true;
      return false;
    }
    SetIndent(column, narrow);
    return !stopped_;
  }

  void SetIndent(int column, int narrow) {
    const Indent& top = indents_.back();
    if (column == top.column) {
      if (narrow != top.column_with_narrow_tabs) ErrorHere("inconsistent use of tabs and spaces in indentation");
      return;
    }
    if (column > top.column) {
      if (narrow <= top.column_with_narrow_tabs) ErrorHere("inconsistent use of tabs and spaces in indentation");
      if (indents_.size() > kMaxIndents) {
        list_.fatal = static_cast<int>(list_.tokens.size());
        ErrorHere("too many levels of indentation (at most 100)");
        stopped_ = true;
        return;
      }
      indents_.push_back({column, narrow});
      AddEmpty(TokenKind::kIndent);
      return;
    }
    while (indents_.size() > 1 && indents_[indents_.size() - 2].column >= column) {
      indents_.pop_back();
      AddEmpty(TokenKind::kDedent);
    }
    if (indents_.back().column != column) {  // between two levels: stays in the inner block, so that the outer one is intact
      indents_.back() = {column, narrow};
      ErrorHere("unindent does not match any outer indentation level");
    }
  }

  // A line inside brackets. No expression continues with `def` or `class`: there the bracket was never closed, and the
  // rest of the file can still be read.
  bool AbandonBrackets() {
    Cursor ahead = cursor_;
    while (ahead.peek() == ' ' || ahead.peek() == '\t') ahead.Skip(1);
    absl::string_view rest = ahead.rest();
    bool statement = false;
    for (absl::string_view word : {"def ", "class ", "async def ", "@triton."})
      if (rest.substr(0, word.size()) == word) statement = true;
    if (!statement) return true;
    NeverClosed();
    open_.clear();
    AddEmpty(TokenKind::kNewline);
    at_line_start_ = true;
    return false;
  }

  void NeverClosed() {
    Token token = Make(TokenKind::kError, cursor_);
    token.range = open_.back().range;
    token.message = "bracket was never closed";
    token.detail[0] = open_.back().c;
    list_.tokens.push_back(token);
  }

  void SkipComment() {
    size_t end = cursor_.rest().find('\n');
    cursor_.Skip(end == absl::string_view::npos ? cursor_.rest().size() : end);
  }

  void EndLine() {
    if (open_.empty() && !in_field_) {
      Cursor begin = cursor_;
      cursor_.Skip(1);
      Token token = Make(TokenKind::kNewline, begin);
      token.range.end_line = token.range.line;
      token.range.end_column = token.range.column + 1;
      list_.tokens.push_back(token);
      at_line_start_ = true;
      return;
    }
    cursor_.Skip(1);
    if (!in_field_) at_line_start_ = true;
  }

  void Continuation() {
    if (cursor_.peek(1) == '\n') return cursor_.Skip(2);
    Error(1, cursor_.rest().size() == 1 ? "unexpected end of file after '\\'"
                                        : "unexpected character after the line continuation '\\'");
  }

  void Word() {
    absl::string_view rest = cursor_.rest();
    size_t length = 0;
    while (length < rest.size() && (IsIdentifierByte(rest[length]) || IsDigit(rest[length]))) {
      if (static_cast<unsigned char>(rest[length]) >= 0x80) {
        if (const LookAlike* found = FindLookAlike(rest.substr(length))) {
          if (length > 0) break;
          return Error(found->bytes.size(), found->message);
        }
      }
      ++length;
    }
    Add(TokenKind::kName, length);
  }

  static const LookAlike* FindLookAlike(absl::string_view rest) {
    for (const LookAlike& row : kLookAlikes)
      if (rest.substr(0, row.bytes.size()) == row.bytes) return &row;
    return nullptr;
  }

  // Digits with single underscores between them; `*good` turns false if they are malformed.
  template <typename Predicate>
  static size_t Digits(absl::string_view rest, size_t begin, Predicate is_digit, bool* good) {
    size_t i = begin;
    while (i < rest.size() && (is_digit(rest[i]) || rest[i] == '_')) {
      if (rest[i] == '_' && (i + 1 >= rest.size() || !is_digit(rest[i + 1]))) *good = false;
      ++i;
    }
    return i;
  }

  void Number() {
    absl::string_view rest = cursor_.rest();
    bool good = true;
    TokenKind kind = TokenKind::kInteger;
    size_t i = 0;
    char marker = rest.size() > 1 && rest[0] == '0' ? static_cast<char>(rest[1] | 0x20) : 0;
    if (marker == 'x' || marker == 'o' || marker == 'b') {
      auto is_digit = [marker](char c) {
        if (marker == 'x') return IsDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
        return c >= '0' && c <= (marker == 'o' ? '7' : '1');
      };
      i = Digits(rest, 2, is_digit, &good);
      if (i == 2) good = false;
    } else {
      i = Digits(rest, 0, IsDigit, &good);
      if (i < rest.size() && rest[i] == '.') {
        kind = TokenKind::kFloat;
        ++i;
        if (i < rest.size() && IsDigit(rest[i])) i = Digits(rest, i, IsDigit, &good);
      }
      if (i < rest.size() && (rest[i] | 0x20) == 'e') {
        size_t sign = i + 1 < rest.size() && (rest[i + 1] == '+' || rest[i + 1] == '-') ? 1 : 0;
        if (i + 1 + sign < rest.size() && IsDigit(rest[i + 1 + sign])) {
          kind = TokenKind::kFloat;
          i = Digits(rest, i + 1 + sign, IsDigit, &good);
        }
      }
      if (i < rest.size() && (rest[i] | 0x20) == 'j') {
        kind = TokenKind::kImaginary;
        ++i;
      }
      if (kind == TokenKind::kInteger && i > 1 && rest[0] == '0' &&
          rest.substr(0, i).find_first_not_of("0_") != absl::string_view::npos)
        return Error(i, "leading zeros in a decimal number are not permitted; an octal number begins with 0o");
    }
    size_t word = i;
    while (word < rest.size() && (IsIdentifierByte(rest[word]) || IsDigit(rest[word]))) ++word;
    if (word > i && !IsWordAfterNumber(rest.substr(i, word - i))) return Error(word, "invalid number");
    if (!good) return Error(i, "invalid number");
    Add(kind, i);
  }

  void String(size_t start_length) {
    Cursor begin = cursor_;
    StringEnd end = SkipString(&cursor_, start_length, &open_fields_allowed_);
    if (end == StringEnd::kClosed) {
      list_.tokens.push_back(Make(TokenKind::kString, begin));
      return;
    }
    Token token = Make(TokenKind::kError, begin);
    token.message = end == StringEnd::kEndOfLine ? "unterminated string literal" : "unterminated triple-quoted string literal";
    if (end == StringEnd::kTooDeep) token.message = "f-strings are nested too deeply";
    if (end != StringEnd::kEndOfLine) {  // mark the opening quotes only
      token.range.end_line = token.range.line;
      token.range.end_column = token.range.column + static_cast<int>(start_length);
      list_.fatal = static_cast<int>(list_.tokens.size());
      stopped_ = true;
    }
    list_.tokens.push_back(token);
  }

  void Operator() {
    absl::string_view rest = cursor_.rest();
    for (absl::string_view spelling : kOperators) {
      if (rest.substr(0, spelling.size()) != spelling) continue;
      char c = spelling[0];
      if (spelling.size() == 1 && (c == '(' || c == '[' || c == '{')) {
        open_.push_back({c, Range(1)});
      } else if (spelling.size() == 1 && (c == ')' || c == ']' || c == '}')) {
        if (!Close(c)) return;
      }
      return Add(TokenKind::kOperator, spelling.size());
    }
    if (rest[0] == '\0') return Error(1, "the source contains a NUL byte");
    Error(1, "unexpected character");
  }

  bool Close(char c) {
    char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (!open_.empty() && open_.back().c == wanted) {
      open_.pop_back();
      return true;
    }
    Token token = Make(TokenKind::kError, cursor_);
    token.range = Range(1);
    token.message = open_.empty() ? "closing bracket was never opened" : "closing bracket does not match the opening one";
    token.detail[0] = c;
    if (!open_.empty()) {
      token.detail[1] = open_.back().c;
      open_.pop_back();
    }
    cursor_.Skip(1);
    list_.tokens.push_back(token);
    return false;
  }

  SourceRange Range(size_t length) const {
    return {file_, cursor_.line(), cursor_.column(), cursor_.line(), cursor_.column() + static_cast<int>(length)};
  }

  Token Make(TokenKind kind, const Cursor& begin) const {
    Token token;
    token.kind = kind;
    token.text = text_.substr(begin.offset(), cursor_.offset() - begin.offset());
    token.range = {file_, begin.line(), begin.column(), cursor_.line(), cursor_.column()};
    return token;
  }

  void Add(TokenKind kind, size_t length) {
    Cursor begin = cursor_;
    cursor_.Skip(length);
    list_.tokens.push_back(Make(kind, begin));
  }

  void AddEmpty(TokenKind kind) { list_.tokens.push_back(Make(kind, cursor_)); }

  void Error(size_t length, const char* message) {
    Cursor begin = cursor_;
    cursor_.Skip(length);
    Token token = Make(TokenKind::kError, begin);
    token.message = message;
    list_.tokens.push_back(token);
  }

  void ErrorHere(const char* message) {
    Token token = Make(TokenKind::kError, cursor_);
    token.message = message;
    token.range.end_column += 1;
    list_.tokens.push_back(token);
  }

  int file_;
  absl::string_view text_;
  bool in_field_;
  Cursor cursor_;
  bool at_line_start_ = true, stopped_ = false;
  bool open_fields_allowed_ = true;
  std::vector<Indent> indents_ = {{0, 0}};
  std::vector<Bracket> open_;
  TokenList list_;
};

// Length of the UTF-8 sequence at the beginning of `text`, 0 if it is none.
size_t Utf8Length(absl::string_view text) {
  unsigned char c = text[0];
  if (c < 0x80) return 1;
  size_t length = c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  unsigned char next = text[1];
  if ((c == 0xE0 && next < 0xA0) || (c == 0xED && next >= 0xA0) || (c == 0xF0 && next < 0x90) || (c == 0xF4 && next >= 0x90))
    return 0;  // overlong, a surrogate, or past U+10FFFF
  return length;
}

}  // namespace

std::string NormalizeSource(absl::string_view text, size_t* first_bad) {
  *first_bad = std::string::npos;
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text[0] == '\r') {
      out += '\n';
      text.remove_prefix(text.size() > 1 && text[1] == '\n' ? 2 : 1);
      continue;
    }
    size_t length = Utf8Length(text);
    if (length == 0) {
      if (*first_bad == std::string::npos) *first_bad = out.size();
      out += "\xEF\xBF\xBD";
      length = 1;
    } else {
      out.append(text.data(), length);
    }
    text.remove_prefix(length);
  }
  return out;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

TokenList Tokenize(int file, absl::string_view text) {
  TextSpan all;
  all.end = text.size();
  return Lexer(file, text, all, /*in_field=*/false).Run();
}

TokenList TokenizeField(int file, absl::string_view file_text, const TextSpan& span) {
  return Lexer(file, file_text, span, /*in_field=*/true).Run();
}

}  // namespace tessera::frontend
