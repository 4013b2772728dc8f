// Recursive descent over the tokens of expressions. Private to this folder.
#ifndef TESSERA_COMPILER_FRONTEND_PARSE_EXPRESSION_PARSER_H_
#define TESSERA_COMPILER_FRONTEND_PARSE_EXPRESSION_PARSER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/lex/lexer.h"
#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

struct SyntaxError {
  SourceRange range;
  std::string message;
  bool only_too_large = false;  // right Python, beyond our limit
};

// Functions return null after an error and leave it in error(); the first one of a statement counts. Callers pass a null on
// without another look at the tokens.
class ExpressionParser {
 public:
  // `text` is the whole file; both must outlive the parser.
  ExpressionParser(absl::string_view text, const std::vector<Token>& tokens, int depth = 0)
      : text_(text), tokens_(tokens), depth_(depth) {}

  // expression, with a conditional or a lambda at the top.
  ExprPtr ParseExpression();
  // The same, or name := expression.
  ExprPtr ParseNamedExpression();
  // One or more, a tuple if there is a comma; `*x` allowed; `yield` too.
  ExprPtr ParseExpressionList();
  // What stands between `for` and `in`.
  ExprPtr ParseTargetList();

  const std::optional<SyntaxError>& error() const { return error_; }

 protected:
  const Token& peek(size_t ahead = 0) const {
    size_t index = position_ + ahead;
    return index < tokens_.size() ? tokens_[index] : tokens_.back();
  }
  const Token& previous() const { return tokens_[position_ > 0 ? position_ - 1 : 0]; }
  bool at(absl::string_view spelling) const { return peek().is(spelling); }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  void Advance() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool Accept(absl::string_view spelling) {
    if (!at(spelling)) return false;
    Advance();
    return true;
  }
  bool AtIdentifier() const;
  bool AtExpressionEnd() const;

  // Reports that `wanted` should stand here. Always false.
  bool Unexpected(absl::string_view wanted);
  bool Fail(const SourceRange& range, std::string message);
  ExprPtr FailExpr(const SourceRange& range, std::string message) {
    Fail(range, std::move(message));
    return nullptr;
  }
  // Accepts `spelling` or fails.
  bool Expect(absl::string_view spelling);
  // The same for the bracket that closes the one at token `open`; `separator` is the other thing that could stand here.
  bool ExpectClosing(absl::string_view spelling, size_t open, absl::string_view separator);

  ExprPtr New(ExprKind kind, size_t begin) const;
  // Sets range end and height; null if the tree got too high.
  ExprPtr Finish(ExprPtr expression);
  ExprPtr Opaque(size_t begin, absl::string_view what);

  // Guards every recursion. Use: Descent descent(this); if (!descent.ok()) return nullptr;
  class Descent {
   public:
    explicit Descent(ExpressionParser* parser);
    ~Descent() { --parser_->depth_; }
    bool ok() const { return ok_; }

   private:
    ExpressionParser* parser_;
    bool ok_;
  };

  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseComparison();
  ExprPtr ParseBinary(int lowest_precedence);
  ExprPtr ParseUnary();
  ExprPtr ParsePower();
  ExprPtr ParsePostfix();
  ExprPtr ParseAtom();
  ExprPtr ParseNumber();
  ExprPtr ParseStrings();
  bool ParseFStringParts(const std::vector<FStringPart>& parts, bool raw, Expr* out);
  ExprPtr ParseField(const FStringPart& part, bool raw, Expr* out);
  ExprPtr ParseParentheses();
  ExprPtr ParseListDisplay();
  ExprPtr ParseBraces();
  ExprPtr ParseLambda();
  ExprPtr ParseYield();
  ExprPtr ParseStarred(bool in_call = false);
  ExprPtr ParseArguments(ExprPtr callee, size_t begin);
  ExprPtr ParseSubscript(ExprPtr base, size_t begin);
  ExprPtr ParseIndex();
  bool AtComprehension() const { return at("for") || (at("async") && peek(1).is("for")); }
  ExprPtr ParseComprehension(ExprPtr element, ExprPtr value, char bracket, size_t begin);

  absl::string_view text_;
  const std::vector<Token>& tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  bool with_items_ = false;  // `as` may follow an element of a parenthesised group
  std::optional<SyntaxError> error_;
};

// "'x'", "end of line": how messages name a token.
std::string NameOf(const Token& token);

bool IsKeyword(absl::string_view word);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_PARSE_EXPRESSION_PARSER_H_
