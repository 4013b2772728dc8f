// String literals: where they end, what they mean, the pieces of f-strings.
#include <cstdint>

#include "compiler/frontend/lex/cursor.h"
#include "compiler/frontend/lex/lexer.h"

namespace tessera::frontend {
namespace {

// f-strings inside replacement fields of f-strings; real code has one or two.
constexpr int kMaxNesting = 12;

struct Style {
  char quote = '"';
  bool triple = false, raw = false, formatted = false;
};

bool AtQuotes(const Cursor& cursor, const Style& style) {
  if (cursor.peek() != style.quote) return false;
  return !style.triple || (cursor.peek(1) == style.quote && cursor.peek(2) == style.quote);
}

Style StyleOf(absl::string_view start) {
  Style style;
  size_t i = 0;
  for (; IsIdentifierByte(start[i]); ++i) {
    char c = static_cast<char>(start[i] | 0x20);
    if (c == 'r') style.raw = true;
    if (c == 'f' || c == 't') style.formatted = true;
  }
  style.quote = start[i];
  style.triple = start.size() - i == 3;
  return style;
}

// Walks through string literals, f-strings recursively.
class Scanner {
 public:
  Scanner(Cursor* cursor, bool* open_fields_allowed) : cursor_(*cursor), open_fields_allowed_(*open_fields_allowed) {}

  // From inside the quotes past the closing ones.
  StringEnd Body(const Style& style, int depth) {
    if (!style.formatted) return Plain(style);
    if (depth > kMaxNesting) return StringEnd::kTooDeep;
    StringEnd end = Formatted(style, depth, /*in_spec=*/false, nullptr);
    if (end == StringEnd::kClosed) cursor_.Skip(style.triple ? 3 : 1);
    return end;
  }

  // Literal text and fields, up to the closing quotes, or up to the closing brace of a format specification.
  StringEnd Formatted(const Style& style, int depth, bool in_spec, std::vector<FStringPart>* parts) {
    Cursor begin = cursor_;
    auto end_text = [&] {
      if (parts && cursor_.offset() > begin.offset()) parts->push_back(Part(begin, cursor_.offset(), false));
    };
    while (!cursor_.done()) {
      char c = cursor_.peek();
      if (AtQuotes(cursor_, style) || (in_spec && c == '}')) {
        end_text();
        return StringEnd::kClosed;
      }
      if (c == '\n' && !style.triple) return StringEnd::kEndOfLine;
      if (c == '\\') {
        Escape(style);
      } else if (c == '{' && cursor_.peek(1) == '{' && !in_spec) {
        cursor_.Skip(2);
      } else if (c == '{') {
        end_text();
        StringEnd end = Field(style, depth, parts);
        if (end != StringEnd::kClosed) return end;
        begin = cursor_;
      } else {
        cursor_.Skip(1);
      }
    }
    end_text();
    return parts ? StringEnd::kClosed : StringEnd::kEndOfFile;
  }

  const Cursor& cursor() const { return cursor_; }

 private:
  static FStringPart Part(const Cursor& begin, size_t end, bool is_field) {
    FStringPart part;
    part.is_field = is_field;
    part.span = {begin.offset(), end, begin.line(), begin.line_start()};
    return part;
  }

  StringEnd Plain(const Style& style) {
    while (!cursor_.done()) {
      if (AtQuotes(cursor_, style)) {
        cursor_.Skip(style.triple ? 3 : 1);
        return StringEnd::kClosed;
      }
      if (cursor_.peek() == '\\') {
        cursor_.Skip(2);
      } else if (cursor_.peek() == '\n' && !style.triple) {
        return StringEnd::kEndOfLine;
      } else {
        cursor_.Skip(1);
      }
    }
    return style.triple ? StringEnd::kEndOfFile : StringEnd::kEndOfLine;
  }

  // A backslash in the literal text of an f-string.
  void Escape(const Style& style) {
    if (cursor_.peek(1) == '{' || cursor_.peek(1) == '}') return cursor_.Skip(1);
    if (!style.raw && cursor_.peek(1) == 'N' && cursor_.peek(2) == '{') {
      size_t end = cursor_.rest().substr(0, 100).find('}');
      if (end != absl::string_view::npos) return cursor_.Skip(end + 1);
    }
    cursor_.Skip(2);
  }

  // "{expression!r:specification}".
  StringEnd Field(const Style& style, int depth, std::vector<FStringPart>* parts) {
    cursor_.Skip(1);
    Cursor begin = cursor_;
    int brackets = 0;
    for (;; ) {
      if (cursor_.done()) return StringEnd::kEndOfFile;
      char c = cursor_.peek();
      if (brackets == 0 && (c == '}' || c == ':' || (c == '!' && cursor_.peek(1) != '='))) break;
      if (c == '\n' && !style.triple && !open_fields_allowed_) return StringEnd::kEndOfLine;
      if (c == '#' && cursor_.line() != begin.line()) {
        size_t end = cursor_.rest().find('\n');
        if (end == absl::string_view::npos) return StringEnd::kEndOfFile;
        cursor_.Skip(end);
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++brackets;
      if (c == ')' || c == ']' || c == '}') --brackets;
      size_t start = StringStart(cursor_.rest());
      if (start > 0) {
        Style inner = StyleOf(cursor_.rest().substr(0, start));
        cursor_.Skip(start);
        StringEnd end = Body(inner, depth + 1);
        if (end != StringEnd::kClosed) return end;
      } else if (IsIdentifierByte(c)) {
        while (IsIdentifierByte(cursor_.peek()) || (cursor_.peek() >= '0' && cursor_.peek() <= '9')) cursor_.Skip(1);
      } else {
        cursor_.Skip(1);
      }
    }
    FStringPart part = Part(begin, cursor_.offset(), true);
    if (cursor_.peek() == '!') {
      part.conversion = cursor_.peek(1);
      cursor_.Skip(2);
    }
    if (cursor_.peek() == ':') {
      if (depth >= kMaxNesting) return StringEnd::kTooDeep;
      cursor_.Skip(1);
      part.has_spec = true;
      StringEnd end = Formatted(style, depth + 1, /*in_spec=*/true, parts ? &part.spec : nullptr);
      if (end != StringEnd::kClosed) return end;
    }
    if (cursor_.peek() != '}') return style.triple ? StringEnd::kEndOfFile : StringEnd::kEndOfLine;
    cursor_.Skip(1);
    if (parts) parts->push_back(std::move(part));
    return StringEnd::kClosed;
  }

  Cursor cursor_;
  bool open_fields_allowed_;
};

void AppendUtf8(uint32_t code, std::string* out) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xC0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xE0 | code >> 12);
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | code >> 18);
    *out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Decodes the escape after a backslash; returns the bytes it takes behind the backslash, 0 if it is none.
size_t DecodeEscape(absl::string_view rest, std::string* out) {
  if (rest.empty()) return 0;
  static constexpr absl::string_view kLetters = "\n\\'\"abfnrtv";
  static constexpr const char* kMeanings[] = {"", "\\", "'", "\"", "\a", "\b", "\f", "\n", "\r", "\t", "\v"};
  size_t found = kLetters.find(rest[0]);
  if (found != absl::string_view::npos) {
    *out += kMeanings[found];
    return 1;
  }
  if (rest[0] >= '0' && rest[0] <= '7') {
    uint32_t code = 0;
    size_t i = 0;
    for (; i < 3 && i < rest.size() && rest[i] >= '0' && rest[i] <= '7'; ++i) code = code * 8 + (rest[i] - '0');
    AppendUtf8(code, out);
    return i;
  }
  size_t digits = rest[0] == 'x' ? 2 : rest[0] == 'u' ? 4 : rest[0] == 'U' ? 8 : 0;
  if (digits == 0 || rest.size() < digits + 1) return 0;
  uint32_t code = 0;
  for (size_t i = 1; i <= digits; ++i) {
    int digit = HexDigit(rest[i]);
    if (digit < 0) return 0;
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  AppendUtf8(code, out);
  return digits + 1;
}

}  // namespace

size_t StringStart(absl::string_view text) {
  size_t i = 0;
  bool raw = false, kind = false;
  for (; i < text.size() && i < 3; ++i) {
    char c = static_cast<char>(text[i] | 0x20);
    if (text[i] == '"' || text[i] == '\'') break;
    if (c == 'r' && !raw) {
      raw = true;
    } else if ((c == 'b' || c == 'u' || c == 'f' || c == 't') && !kind) {
      kind = true;
    } else {
      return 0;
    }
  }
  if (i >= text.size() || (text[i] != '"' && text[i] != '\'')) return 0;
  bool triple = i + 2 < text.size() && text[i + 1] == text[i] && text[i + 2] == text[i];
  return i + (triple ? 3 : 1);
}

StringEnd SkipString(Cursor* cursor, size_t start_length, bool* open_fields_allowed) {
  Style style = StyleOf(cursor->rest().substr(0, start_length));
  cursor->Skip(start_length);
  Scanner scanner(cursor, open_fields_allowed);
  StringEnd end = scanner.Body(style, 0);
  if (end != StringEnd::kClosed && style.formatted) {
    // Damaged fields: see whether the quotes at least end somewhere.
    *open_fields_allowed = false;
    if (!style.triple || end == StringEnd::kTooDeep) {
      style.formatted = false;
      Scanner plain(cursor, open_fields_allowed);
      StringEnd quotes = plain.Body(style, 0);
      *cursor = plain.cursor();
      return quotes == StringEnd::kClosed ? end == StringEnd::kTooDeep ? end : StringEnd::kEndOfLine : quotes;
    }
  }
  *cursor = scanner.cursor();
  return end;
}

StringLiteral TakeApart(absl::string_view file_text, const Token& token) {
  StringLiteral literal;
  size_t start = StringStart(token.text);
  Style style = StyleOf(token.text.substr(0, start));
  literal.raw = style.raw;
  literal.formatted = style.formatted;
  for (char c : token.text.substr(0, start)) {
    if ((c | 0x20) == 'b') literal.bytes = true;
    if ((c | 0x20) == 't') literal.is_template = true;
  }
  size_t offset = static_cast<size_t>(token.text.data() - file_text.data());
  size_t line_start = offset - static_cast<size_t>(token.range.column - 1);
  literal.body = {offset + start, offset + token.text.size() - (style.triple ? 3 : 1), token.range.line, line_start};
  return literal;
}

std::vector<FStringPart> SplitFString(absl::string_view file_text, const StringLiteral& literal) {
  Cursor cursor(file_text.substr(0, literal.body.end));
  cursor.Place(literal.body.begin, literal.body.line, literal.body.line_start);
  // The quotes lie behind the end of the cursor's text; where a field holds the same quotes as the literal they open a
  // string of its own, so the style matters only for how line ends are taken.
  Style style;
  style.quote = '\0';
  style.triple = true;
  style.raw = literal.raw;
  style.formatted = true;
  bool open_fields_allowed = true;
  std::vector<FStringPart> parts;
  Scanner(&cursor, &open_fields_allowed).Formatted(style, 0, /*in_spec=*/false, &parts);
  for (FStringPart& part : parts) {
    if (!part.is_field) continue;
    absl::string_view source = file_text.substr(part.span.begin, part.span.end - part.span.begin);
    size_t last = source.find_last_not_of(" \t\n");
    if (last == absl::string_view::npos || last == 0 || source[last] != '=') continue;
    if (source.substr(last - 1, 1).find_first_of("=!<>") != absl::string_view::npos) continue;
    part.shows_source = true;  // the '=' itself is cut off by the parser
  }
  return parts;
}

std::string DecodeText(absl::string_view piece, bool raw, bool unescape_braces) {
  std::string out;
  out.reserve(piece.size());
  for (size_t i = 0; i < piece.size();) {
    char c = piece[i];
    if (c == '\\' && !raw) {
      size_t length = DecodeEscape(piece.substr(i + 1), &out);
      if (length == 0) out += c;  // Python keeps unknown escapes as they are
      i += 1 + length;
      continue;
    }
    out += c;
    bool doubled = unescape_braces && (c == '{' || c == '}') && i + 1 < piece.size() && piece[i + 1] == c;
    i += doubled ? 2 : 1;
  }
  return out;
}

}  // namespace tessera::frontend
