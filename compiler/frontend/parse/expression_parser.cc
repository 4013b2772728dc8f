#include "compiler/frontend/parse/expression_parser.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

constexpr int kMaxDepth = 150;
constexpr int kMaxExpressionHeight = 400;

constexpr absl::string_view kKeywords[] = {
    "False", "None",   "True",  "and",    "as",   "assert", "async",  "await",    "break", "class", "continue", "def",
    "del",   "elif",   "else",  "except", "for",  "finally", "from",  "global",   "if",    "import", "in",      "is",
    "lambda", "nonlocal", "not", "or",    "pass", "raise",  "return", "try",      "while", "with",  "yield"};

struct BinaryRow {
  absl::string_view spelling;
  BinaryOp op;
  int precedence;
};
constexpr BinaryRow kBinary[] = {
    {"|", BinaryOp::kBitOr, 1},  {"^", BinaryOp::kBitXor, 2}, {"&", BinaryOp::kBitAnd, 3},   {"<<", BinaryOp::kShl, 4},
    {">>", BinaryOp::kShr, 4},   {"+", BinaryOp::kAdd, 5},    {"-", BinaryOp::kSub, 5},      {"*", BinaryOp::kMul, 6},
    {"/", BinaryOp::kDiv, 6},    {"//", BinaryOp::kFloorDiv, 6}, {"%", BinaryOp::kMod, 6},   {"@", BinaryOp::kMatMul, 6},
};

const BinaryRow* FindBinary(const Token& token) {
  if (token.kind != TokenKind::kOperator) return nullptr;
  for (const BinaryRow& row : kBinary)
    if (token.text == row.spelling) return &row;
  return nullptr;
}

std::string Quoted(char c) { return absl::StrCat("'", absl::string_view(&c, 1), "'"); }

// What people coming from other languages mean by operators that Python does not have.
const char* Hint(const Token& previous, const Token& token) {
  if (token.kind != TokenKind::kOperator || previous.kind != TokenKind::kOperator) {
    if (token.is("!")) return "; Python writes 'not' for negation and '!=' for inequality";
    if (token.is("=")) return "; '==' compares";
    return "";
  }
  if (previous.text == "&" && token.text == "&") return "; Python writes 'and'";
  if (previous.text == "|" && token.text == "|") return "; Python writes 'or'";
  if (token.is("!")) return "; Python writes 'not'";
  return "";
}

}  // namespace

bool IsKeyword(absl::string_view word) {
  return std::find(std::begin(kKeywords), std::end(kKeywords), word) != std::end(kKeywords);
}

std::string NameOf(const Token& token) {
  switch (token.kind) {
    case TokenKind::kNewline: return "end of line";
    case TokenKind::kEnd: return "end of file";
    case TokenKind::kIndent: return "indentation";
    case TokenKind::kDedent: return "end of the block";
    case TokenKind::kString: return "a string";
    default: {
      size_t shown = std::min<size_t>(token.text.size(), 40);
      while (shown < token.text.size() && (static_cast<unsigned char>(token.text[shown]) & 0xC0) == 0x80) ++shown;
      return absl::StrCat("'", token.text.substr(0, shown), shown < token.text.size() ? "..." : "", "'");
    }
  }
}

ExpressionParser::Descent::Descent(ExpressionParser* parser) : parser_(parser) {
  ok_ = ++parser->depth_ <= kMaxDepth;
  if (!ok_) parser->Fail(parser->peek().range, "this is nested too deeply");
}

bool ExpressionParser::AtIdentifier() const { return at(TokenKind::kName) && !IsKeyword(peek().text); }

// Whether a list of expressions ends here, after a comma or instead of a first element.
bool ExpressionParser::AtExpressionEnd() const {
  switch (peek().kind) {
    case TokenKind::kNewline: case TokenKind::kEnd: case TokenKind::kIndent: case TokenKind::kDedent: return true;
    case TokenKind::kOperator: {
      absl::string_view text = peek().text;
      if (text == ")" || text == "]" || text == "}" || text == ":" || text == "=" || text == ";") return true;
      return text.size() > 1 && text.back() == '=' && text != "==" && text != "!=" && text != "<=" && text != ">=";
    }
    case TokenKind::kName: return at("in") || at("for");
    default: return false;
  }
}

bool ExpressionParser::Fail(const SourceRange& range, std::string message) {
  if (!error_) error_ = SyntaxError{range, std::move(message)};
  return false;
}

bool ExpressionParser::Unexpected(absl::string_view wanted) {
  const Token& token = peek();
  if (token.kind == TokenKind::kError) {
    if (token.detail[1]) return Fail(token.range, absl::StrCat("closing ", Quoted(token.detail[0]), " does not match the opening ", Quoted(token.detail[1])));
    if (token.detail[0]) {
      bool opening = token.detail[0] == '(' || token.detail[0] == '[' || token.detail[0] == '{';
      return Fail(token.range, absl::StrCat(Quoted(token.detail[0]), opening ? " was never closed" : " was never opened"));
    }
    return Fail(token.range, token.message);
  }
  return Fail(token.range, absl::StrCat("expected ", wanted, ", found ", NameOf(token), Hint(previous(), token)));
}

bool ExpressionParser::Expect(absl::string_view spelling) {
  return Accept(spelling) || Unexpected(absl::StrCat("'", spelling, "'"));
}

bool ExpressionParser::ExpectClosing(absl::string_view spelling, size_t open, absl::string_view separator) {
  if (Accept(spelling)) return true;
  const Token& opening = tokens_[open];
  // An element on a line of its own without a comma before it is more often a missing bracket than a missing comma.
  bool other_line = peek().range.line != previous().range.end_line;
  if (!at(TokenKind::kError) && other_line)
    return Fail(opening.range, absl::StrCat("'", opening.text, "' was never closed (or a comma is missing before line ",
                                            peek().range.line, ")"));
  return Unexpected(separator.empty() ? absl::StrCat("'", spelling, "'")
                                      : absl::StrCat("'", separator, "' or '", spelling, "'"));
}

ExprPtr ExpressionParser::New(ExprKind kind, size_t begin) const {
  auto expression = std::make_unique<Expr>();
  expression->kind = kind;
  expression->range = tokens_[begin].range;
  return expression;
}

ExprPtr ExpressionParser::Finish(ExprPtr expression) {
  int height = 0;
  auto see = [&](const ExprPtr& child) {
    if (child) height = std::max(height, child->height);
  };
  see(expression->a);
  see(expression->b);
  see(expression->c);
  for (const ExprPtr& item : expression->items) see(item);
  for (const Keyword& keyword : expression->keywords) see(keyword.value);
  for (const ComprehensionClause& clause : expression->clauses) {
    see(clause.target);
    see(clause.iterable);
    for (const ExprPtr& condition : clause.conditions) see(condition);
  }
  expression->height = height + 1;
  expression->range.end_line = previous().range.end_line;
  expression->range.end_column = previous().range.end_column;
  if (expression->height <= kMaxExpressionHeight) return expression;
  Fail(expression->range, absl::StrCat("this expression is too long: at most ", kMaxExpressionHeight, " operators in a row"));
  error_->only_too_large = true;
  return nullptr;
}

ExprPtr ExpressionParser::Opaque(size_t begin, absl::string_view what) {
  ExprPtr expression = New(ExprKind::kOpaque, begin);
  expression->text = std::string(what);
  return Finish(std::move(expression));
}

ExprPtr ExpressionParser::ParseExpressionList() {
  if (at("yield")) return ParseYield();
  size_t begin = position_;
  ExprPtr first = at("*") ? ParseStarred() : ParseNamedExpression();
  if (!first || !at(",")) return first;
  ExprPtr tuple = New(ExprKind::kTuple, begin);
  tuple->items.push_back(std::move(first));
  while (Accept(",")) {
    if (AtExpressionEnd()) break;
    ExprPtr item = at("*") ? ParseStarred() : ParseNamedExpression();
    if (!item) return nullptr;
    tuple->items.push_back(std::move(item));
  }
  return Finish(std::move(tuple));
}

ExprPtr ExpressionParser::ParseTargetList() {
  size_t begin = position_;
  auto parse_one = [this] { return at("*") ? ParseStarred() : ParseBinary(1); };
  ExprPtr first = parse_one();
  if (!first || !at(",")) return first;
  ExprPtr tuple = New(ExprKind::kTuple, begin);
  tuple->items.push_back(std::move(first));
  while (Accept(",")) {
    if (AtExpressionEnd()) break;
    ExprPtr item = parse_one();
    if (!item) return nullptr;
    tuple->items.push_back(std::move(item));
  }
  return Finish(std::move(tuple));
}

ExprPtr ExpressionParser::ParseStarred(bool in_call) {
  size_t begin = position_;
  Advance();
  ExprPtr starred = New(ExprKind::kStarred, begin);
  starred->a = in_call ? ParseExpression() : ParseBinary(1);
  if (!starred->a) return nullptr;
  return Finish(std::move(starred));
}

ExprPtr ExpressionParser::ParseYield() {
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  Advance();
  if (Accept("from")) {
    if (!ParseExpression()) return nullptr;
  } else if (!AtExpressionEnd()) {
    if (!ParseExpressionList()) return nullptr;
  }
  return Opaque(begin, "yield expression");
}

ExprPtr ExpressionParser::ParseNamedExpression() {
  if (!(AtIdentifier() && peek(1).is(":="))) return ParseExpression();
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  Advance();
  Advance();
  if (!ParseExpression()) return nullptr;
  return Opaque(begin, "assignment expression (':=')");
}

ExprPtr ExpressionParser::ParseExpression() {
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  if (at("lambda")) return ParseLambda();
  size_t begin = position_;
  ExprPtr value = ParseOr();
  if (!value || !at("if")) return value;
  Advance();
  ExprPtr conditional = New(ExprKind::kConditional, begin);
  conditional->b = std::move(value);
  conditional->a = ParseOr();
  if (!conditional->a) return nullptr;
  if (!Accept("else")) {
    Unexpected("'else' of the conditional expression");
    return nullptr;
  }
  conditional->c = ParseExpression();
  if (!conditional->c) return nullptr;
  return Finish(std::move(conditional));
}

ExprPtr ExpressionParser::ParseLambda() {
  size_t begin = position_;
  Advance();
  ExprPtr lambda = New(ExprKind::kLambda, begin);
  const char* unusual = nullptr;
  while (!at(":")) {
    if (Accept("/")) {
      unusual = "lambda with positional-only parameters";
    } else if (at("*") || at("**")) {
      Advance();
      unusual = "lambda with star parameters";
      if (AtIdentifier()) Advance();
    } else if (AtIdentifier()) {
      lambda->lambda_parameters.emplace_back(peek().text);
      Advance();
      if (Accept("=")) {
        unusual = "lambda with default arguments";
        if (!ParseExpression()) return nullptr;
      }
    } else {
      Unexpected("a parameter of the lambda or ':'");
      return nullptr;
    }
    if (!Accept(",")) break;
  }
  if (!Expect(":")) return nullptr;
  lambda->a = ParseExpression();
  if (!lambda->a) return nullptr;
  if (unusual) return Opaque(begin, unusual);
  return Finish(std::move(lambda));
}

ExprPtr ExpressionParser::ParseOr() {
  size_t begin = position_;
  ExprPtr first = ParseAnd();
  if (!first || !at("or")) return first;
  ExprPtr result = New(ExprKind::kBoolOp, begin);
  result->items.push_back(std::move(first));
  while (Accept("or")) {
    result->items.push_back(ParseAnd());
    if (!result->items.back()) return nullptr;
  }
  return Finish(std::move(result));
}

ExprPtr ExpressionParser::ParseAnd() {
  size_t begin = position_;
  ExprPtr first = ParseNot();
  if (!first || !at("and")) return first;
  ExprPtr result = New(ExprKind::kBoolOp, begin);
  result->is_and = true;
  result->items.push_back(std::move(first));
  while (Accept("and")) {
    result->items.push_back(ParseNot());
    if (!result->items.back()) return nullptr;
  }
  return Finish(std::move(result));
}

ExprPtr ExpressionParser::ParseNot() {
  if (!at("not")) return ParseComparison();
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  Advance();
  ExprPtr result = New(ExprKind::kUnary, begin);
  result->unary = UnaryOp::kNot;
  result->a = ParseNot();
  if (!result->a) return nullptr;
  return Finish(std::move(result));
}

ExprPtr ExpressionParser::ParseComparison() {
  size_t begin = position_;
  ExprPtr first = ParseBinary(1);
  if (!first) return nullptr;
  ExprPtr result;
  for (;;) {
    CompareOp op;
    if (Accept("<")) op = CompareOp::kLt;
    else if (Accept(">")) op = CompareOp::kGt;
    else if (Accept("==")) op = CompareOp::kEq;
    else if (Accept("!=")) op = CompareOp::kNe;
    else if (Accept("<=")) op = CompareOp::kLe;
    else if (Accept(">=")) op = CompareOp::kGe;
    else if (Accept("in")) op = CompareOp::kIn;
    else if (Accept("is")) op = Accept("not") ? CompareOp::kIsNot : CompareOp::kIs;
    else if (at("not") && peek(1).is("in")) { Advance(); Advance(); op = CompareOp::kNotIn; }
    else break;
    if (!result) {
      result = New(ExprKind::kCompare, begin);
      result->items.push_back(std::move(first));
    }
    result->compare_ops.push_back(op);
    result->items.push_back(ParseBinary(1));
    if (!result->items.back()) return nullptr;
  }
  return result ? Finish(std::move(result)) : std::move(first);
}

ExprPtr ExpressionParser::ParseBinary(int lowest_precedence) {
  size_t begin = position_;
  ExprPtr left = ParseUnary();
  if (!left) return nullptr;
  while (const BinaryRow* row = FindBinary(peek())) {
    if (row->precedence < lowest_precedence) break;
    if (row->op == BinaryOp::kAdd && peek(1).is("+") && (peek(2).kind == TokenKind::kNewline || peek(2).is(")")))
      return FailExpr(peek(1).range, "Python has no '++'; write '+= 1'");
    Advance();
    ExprPtr result = New(ExprKind::kBinary, begin);
    result->binary = row->op;
    result->a = std::move(left);
    result->b = ParseBinary(row->precedence + 1);
    if (!result->b) return nullptr;
    left = Finish(std::move(result));
    if (!left) return nullptr;
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary() {
  UnaryOp op;
  if (at("-")) op = UnaryOp::kNeg;
  else if (at("+")) op = UnaryOp::kPos;
  else if (at("~")) op = UnaryOp::kInvert;
  else return ParsePower();
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  Advance();
  ExprPtr result = New(ExprKind::kUnary, begin);
  result->unary = op;
  result->a = ParseUnary();
  if (!result->a) return nullptr;
  return Finish(std::move(result));
}

ExprPtr ExpressionParser::ParsePower() {
  size_t begin = position_;
  ExprPtr base;
  if (at("await")) {
    Descent descent(this);
    if (!descent.ok()) return nullptr;
    Advance();
    if (!ParsePostfix()) return nullptr;
    base = Opaque(begin, "await expression");
  } else {
    base = ParsePostfix();
  }
  if (!base || !at("**")) return base;
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  Advance();
  ExprPtr result = New(ExprKind::kBinary, begin);
  result->binary = BinaryOp::kPow;
  result->a = std::move(base);
  result->b = ParseUnary();
  if (!result->b) return nullptr;
  return Finish(std::move(result));
}

ExprPtr ExpressionParser::ParsePostfix() {
  size_t begin = position_;
  ExprPtr value = ParseAtom();
  while (value) {
    if (at("(")) {
      value = ParseArguments(std::move(value), begin);
    } else if (at("[")) {
      value = ParseSubscript(std::move(value), begin);
    } else if (Accept(".")) {
      if (!at(TokenKind::kName) || (IsKeyword(peek().text) && !at("None"))) {
        Unexpected("a name after '.'");
        return nullptr;
      }
      ExprPtr attribute = New(ExprKind::kAttribute, begin);
      attribute->text = std::string(peek().text);
      Advance();
      attribute->a = std::move(value);
      value = Finish(std::move(attribute));
    } else {
      break;
    }
  }
  return value;
}

ExprPtr ExpressionParser::ParseArguments(ExprPtr callee, size_t begin) {
  size_t open = position_;
  Advance();
  ExprPtr call = New(ExprKind::kCall, begin);
  call->a = std::move(callee);
  while (!at(")")) {
    size_t argument = position_;
    if (at(TokenKind::kName) && peek(1).is("=")) {
      if (IsKeyword(peek().text)) return FailExpr(peek().range, absl::StrCat(NameOf(peek()), " is a keyword; it cannot name an argument"));
      Keyword keyword;
      keyword.name = std::string(peek().text);
      keyword.range = peek().range;
      Advance();
      Advance();
      keyword.value = ParseExpression();
      if (!keyword.value) return nullptr;
      call->keywords.push_back(std::move(keyword));
    } else if (at("**")) {
      Keyword keyword;
      keyword.range = peek().range;
      Advance();
      keyword.value = ParseExpression();
      if (!keyword.value) return nullptr;
      call->keywords.push_back(std::move(keyword));
    } else {
      ExprPtr value = at("*") ? ParseStarred(/*in_call=*/true) : ParseNamedExpression();
      if (!value) return nullptr;
      if (AtComprehension()) value = ParseComprehension(std::move(value), nullptr, '(', argument);
      if (!value) return nullptr;
      if (!call->keywords.empty() && value->kind != ExprKind::kStarred) {
        bool only_unpacking = std::all_of(call->keywords.begin(), call->keywords.end(), [](const Keyword& k) { return k.name.empty(); });
        if (!only_unpacking) return FailExpr(value->range, "a positional argument follows a keyword argument");
      }
      call->items.push_back(std::move(value));
    }
    if (!Accept(",")) break;
  }
  if (!ExpectClosing(")", open, ",")) return nullptr;
  return Finish(std::move(call));
}

// One index: an expression, a slice, or a starred expression.
ExprPtr ExpressionParser::ParseIndex() {
  size_t begin = position_;
  if (at("*")) return ParseStarred();
  ExprPtr start;
  if (!at(":")) {
    start = ParseNamedExpression();
    if (!start || !at(":")) return start;
  }
  Advance();  // ':'
  ExprPtr slice = New(ExprKind::kSlice, begin);
  slice->a = std::move(start);
  if (!at(":") && !at("]") && !at(",")) {
    slice->b = ParseExpression();
    if (!slice->b) return nullptr;
  }
  if (Accept(":") && !at("]") && !at(",")) {
    slice->c = ParseExpression();
    if (!slice->c) return nullptr;
  }
  return Finish(std::move(slice));
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr base, size_t begin) {
  size_t open = position_;
  Advance();
  size_t first = position_;
  ExprPtr index = ParseIndex();
  if (!index) return nullptr;
  if (at(",")) {
    ExprPtr tuple = New(ExprKind::kTuple, first);
    tuple->items.push_back(std::move(index));
    while (Accept(",")) {
      if (at("]")) break;
      tuple->items.push_back(ParseIndex());
      if (!tuple->items.back()) return nullptr;
    }
    index = Finish(std::move(tuple));
    if (!index) return nullptr;
  }
  if (!ExpectClosing("]", open, ",")) return nullptr;
  ExprPtr result = New(ExprKind::kSubscript, begin);
  result->a = std::move(base);
  result->b = std::move(index);
  return Finish(std::move(result));
}

ExprPtr ExpressionParser::ParseAtom() {
  size_t begin = position_;
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::kInteger: case TokenKind::kFloat: case TokenKind::kImaginary: return ParseNumber();
    case TokenKind::kString: return ParseStrings();
    case TokenKind::kOperator:
      if (token.text == "(") return ParseParentheses();
      if (token.text == "[") return ParseListDisplay();
      if (token.text == "{") return ParseBraces();
      if (token.text == "...") {
        Advance();
        return Finish(New(ExprKind::kEllipsis, begin));
      }
      break;
    case TokenKind::kName: {
      ExprPtr value;
      if (token.text == "True" || token.text == "False") {
        value = New(ExprKind::kBool, begin);
        value->boolean = token.text == "True";
      } else if (token.text == "None") {
        value = New(ExprKind::kNone, begin);
      } else if (!IsKeyword(token.text)) {
        value = New(ExprKind::kName, begin);
        value->text = std::string(token.text);
      } else {
        break;
      }
      Advance();
      return Finish(std::move(value));
    }
    default: break;
  }
  Unexpected("an expression");
  return nullptr;
}

ExprPtr ExpressionParser::ParseNumber() {
  size_t begin = position_;
  const Token& token = peek();
  Advance();
  if (token.kind == TokenKind::kImaginary) return Opaque(begin, "complex number");
  ExprPtr number = New(token.kind == TokenKind::kFloat ? ExprKind::kFloat : ExprKind::kInteger, begin);
  number->text = std::string(token.text);
  std::string digits;
  for (char c : token.text)
    if (c != '_') digits += c;
  if (token.kind == TokenKind::kFloat) {
    number->real = std::strtod(digits.c_str(), nullptr);
    return Finish(std::move(number));
  }
  unsigned base = 10;
  size_t i = 0;
  if (digits.size() > 1 && digits[0] == '0') {
    char marker = static_cast<char>(digits[1] | 0x20);
    base = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 10;
    i = base == 10 ? 0 : 2;
  }
  for (; i < digits.size(); ++i) {
    unsigned digit = digits[i] <= '9' ? static_cast<unsigned>(digits[i] - '0') : static_cast<unsigned>((digits[i] | 0x20) - 'a' + 10);
    uint64_t next;
    if (__builtin_mul_overflow(number->integer, uint64_t{base}, &next) || __builtin_add_overflow(next, uint64_t{digit}, &next)) {
      number->integer_overflow = true;
      break;
    }
    number->integer = next;
  }
  return Finish(std::move(number));
}

//===-- strings -------------------------------------------------------------------------------===//

ExprPtr ExpressionParser::ParseStrings() {
  size_t begin = position_;
  ExprPtr result = New(ExprKind::kString, begin);
  const char* unusual = nullptr;
  auto append_text = [&](std::string text, const SourceRange& range) {
    if (result->kind == ExprKind::kString) {
      result->text += text;
      return;
    }
    if (text.empty()) return;
    if (!result->items.empty() && result->items.back()->kind == ExprKind::kString) {
      result->items.back()->text += text;
      return;
    }
    auto part = std::make_unique<Expr>();
    part->kind = ExprKind::kString;
    part->range = range;
    part->text = std::move(text);
    result->items.push_back(std::move(part));
  };
  for (; at(TokenKind::kString); Advance()) {
    const Token& token = peek();
    StringLiteral literal = TakeApart(text_, token);
    if (literal.bytes) unusual = "bytes literal";
    if (literal.is_template) unusual = "template string";
    if (!literal.formatted) {
      append_text(DecodeText(text_.substr(literal.body.begin, literal.body.end - literal.body.begin), literal.raw, false), token.range);
      continue;
    }
    if (result->kind == ExprKind::kString) {
      std::string before = std::move(result->text);
      result->text.clear();
      result->kind = ExprKind::kFString;
      append_text(std::move(before), result->range);
    }
    Expr parts;
    parts.range = token.range;
    if (!ParseFStringParts(SplitFString(text_, literal), literal.raw, &parts)) return nullptr;
    for (ExprPtr& part : parts.items) {
      if (part->kind == ExprKind::kString) {
        append_text(std::move(part->text), part->range);
      } else {
        result->items.push_back(std::move(part));
      }
    }
  }
  if (unusual) return Opaque(begin, unusual);
  return Finish(std::move(result));
}

bool ExpressionParser::ParseFStringParts(const std::vector<FStringPart>& parts, bool raw, Expr* out) {
  for (const FStringPart& part : parts) {
    if (part.is_field) {
      ExprPtr value = ParseField(part, raw, out);
      if (!value) return false;
      out->items.push_back(std::move(value));
    } else {
      auto piece = std::make_unique<Expr>();
      piece->kind = ExprKind::kString;
      piece->range = out->range;
      piece->text = DecodeText(text_.substr(part.span.begin, part.span.end - part.span.begin), raw, true);
      out->items.push_back(std::move(piece));
    }
  }
  return true;
}

namespace {

ExprPtr CallOf(absl::string_view function, ExprPtr argument, ExprPtr second = nullptr) {
  auto call = std::make_unique<Expr>();
  call->kind = ExprKind::kCall;
  call->range = argument->range;
  call->height = std::max(argument->height, second ? second->height : 0) + 1;
  call->a = std::make_unique<Expr>();
  call->a->kind = ExprKind::kName;
  call->a->range = argument->range;
  call->a->text = std::string(function);
  call->items.push_back(std::move(argument));
  if (second) call->items.push_back(std::move(second));
  return call;
}

}  // namespace

// The expression of a replacement field; what `{x=}` shows is appended to `out`.
ExprPtr ExpressionParser::ParseField(const FStringPart& part, bool raw, Expr* out) {
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  TextSpan span = part.span;
  absl::string_view source = text_.substr(span.begin, span.end - span.begin);
  if (part.shows_source) {
    auto piece = std::make_unique<Expr>();
    piece->kind = ExprKind::kString;
    piece->range = out->range;
    piece->text = std::string(source);
    out->items.push_back(std::move(piece));
    span.end = span.begin + source.rfind('=');
  }
  TokenList list = TokenizeField(out->range.file, text_, span);
  if (list.tokens.size() == 1) return FailExpr(out->range, "an f-string field is empty: '{}'");
  ExpressionParser inner(text_, list.tokens, depth_);
  ExprPtr value = inner.ParseExpressionList();
  if (value && !inner.at(TokenKind::kEnd)) {
    inner.Unexpected("'}' of the f-string field");
    value = nullptr;
  }
  if (!value) return FailExpr(inner.error()->range, inner.error()->message);
  if (part.conversion == 'r' || part.conversion == 'a' || (part.shows_source && !part.has_spec && !part.conversion))
    value = CallOf("repr", std::move(value));
  else if (part.conversion == 's')
    value = CallOf("str", std::move(value));
  else if (part.conversion)
    return FailExpr(value->range, "an f-string conversion is one of !r, !s, !a");
  if (part.has_spec) {
    auto spec = std::make_unique<Expr>();
    spec->kind = ExprKind::kFString;
    spec->range = out->range;
    if (!ParseFStringParts(part.spec, raw, spec.get())) return nullptr;
    for (const ExprPtr& item : spec->items) spec->height = std::max(spec->height, item->height + 1);
    if (spec->items.size() <= 1 && (spec->items.empty() || spec->items[0]->kind == ExprKind::kString)) {
      spec->kind = ExprKind::kString;
      if (!spec->items.empty()) spec->text = spec->items[0]->text;
      spec->items.clear();
    }
    value = CallOf("format", std::move(value), std::move(spec));
  }
  return value;
}

//===-- brackets ------------------------------------------------------------------------------===//

ExprPtr ExpressionParser::ParseParentheses() {
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  bool with_items = std::exchange(with_items_, false);
  Advance();
  if (Accept(")")) return Finish(New(ExprKind::kTuple, begin));
  if (at("yield")) {
    ExprPtr value = ParseYield();
    if (!value || !ExpectClosing(")", begin, "")) return nullptr;
    return value;
  }
  auto parse_one = [&]() -> ExprPtr {
    ExprPtr value = at("*") ? ParseStarred() : ParseNamedExpression();
    if (value && with_items && Accept("as") && !ParseBinary(1)) return nullptr;
    return value;
  };
  ExprPtr first = parse_one();
  if (!first) return nullptr;
  if (AtComprehension()) {
    ExprPtr result = ParseComprehension(std::move(first), nullptr, '(', begin);
    if (!result || !ExpectClosing(")", begin, "")) return nullptr;
    return Finish(std::move(result));
  }
  if (!at(",")) {
    if (!ExpectClosing(")", begin, ",")) return nullptr;
    return first;
  }
  ExprPtr tuple = New(ExprKind::kTuple, begin);
  tuple->items.push_back(std::move(first));
  while (Accept(",")) {
    if (at(")")) break;
    tuple->items.push_back(parse_one());
    if (!tuple->items.back()) return nullptr;
  }
  if (!ExpectClosing(")", begin, ",")) return nullptr;
  return Finish(std::move(tuple));
}

ExprPtr ExpressionParser::ParseListDisplay() {
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  Advance();
  ExprPtr list = New(ExprKind::kList, begin);
  while (!at("]")) {
    ExprPtr item = at("*") ? ParseStarred() : ParseNamedExpression();
    if (!item) return nullptr;
    if (list->items.empty() && AtComprehension()) {
      ExprPtr result = ParseComprehension(std::move(item), nullptr, '[', begin);
      if (!result || !ExpectClosing("]", begin, "")) return nullptr;
      return Finish(std::move(result));
    }
    list->items.push_back(std::move(item));
    if (!Accept(",")) break;
  }
  if (!ExpectClosing("]", begin, ",")) return nullptr;
  return Finish(std::move(list));
}

ExprPtr ExpressionParser::ParseBraces() {
  Descent descent(this);
  if (!descent.ok()) return nullptr;
  size_t begin = position_;
  Advance();
  ExprPtr result = New(ExprKind::kDict, begin);
  bool is_set = false, first = true;
  while (!at("}")) {
    size_t item = position_;
    if (at("**") && !is_set) {
      Advance();
      ExprPtr starred = New(ExprKind::kStarred, item);
      starred->a = ParseBinary(1);
      if (!starred->a) return nullptr;
      result->items.push_back(Finish(std::move(starred)));
      if (!result->items.back()) return nullptr;
      result->items.push_back(Finish(New(ExprKind::kNone, item)));
    } else {
      ExprPtr key = at("*") ? ParseStarred() : ParseNamedExpression();
      if (!key) return nullptr;
      ExprPtr value;
      if (first && !at(":")) is_set = true;
      if (!is_set) {
        if (!Expect(":")) return nullptr;
        value = ParseExpression();
        if (!value) return nullptr;
      }
      if (first && AtComprehension()) {
        ExprPtr comprehension = ParseComprehension(std::move(key), std::move(value), '{', begin);
        if (!comprehension || !ExpectClosing("}", begin, "")) return nullptr;
        return Finish(std::move(comprehension));
      }
      result->items.push_back(std::move(key));
      if (!is_set) result->items.push_back(std::move(value));
    }
    first = false;
    if (!Accept(",")) break;
  }
  if (!ExpectClosing("}", begin, ",")) return nullptr;
  if (!is_set) return Finish(std::move(result));
  result->kind = ExprKind::kList;
  result = Finish(std::move(result));
  if (!result) return nullptr;
  SourceRange range = result->range;
  ExprPtr call = CallOf("set", std::move(result));
  call->text = "set literal";
  call->range = range;
  return call;
}

ExprPtr ExpressionParser::ParseComprehension(ExprPtr element, ExprPtr value, char bracket, size_t begin) {
  ExprPtr result = New(ExprKind::kComprehension, begin);
  result->a = std::move(element);
  result->b = std::move(value);
  result->comprehension_bracket = bracket;
  bool is_async = false;
  while (AtComprehension()) {
    if (Accept("async")) is_async = true;
    Advance();  // for
    ComprehensionClause clause;
    clause.target = ParseTargetList();
    if (!clause.target || !Expect("in")) return nullptr;
    clause.iterable = ParseOr();
    if (!clause.iterable) return nullptr;
    while (Accept("if")) {
      Descent descent(this);
      if (!descent.ok()) return nullptr;
      ExprPtr condition = AtIdentifier() && peek(1).is(":=") ? ParseNamedExpression() : at("lambda") ? ParseLambda() : ParseOr();
      if (!condition) return nullptr;
      clause.conditions.push_back(std::move(condition));
    }
    result->clauses.push_back(std::move(clause));
  }
  if (is_async) return Opaque(begin, "asynchronous comprehension");
  return Finish(std::move(result));
}

}  // namespace tessera::frontend
