// Statements. Expressions are in expression_parser.cc.
#include "compiler/frontend/parse/parser.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/frontend/parse/expression_parser.h"

namespace tessera::frontend {
namespace {

constexpr int kMaxStatementDepth = 200;
constexpr int kMaxReportedErrors = 20;

struct AugmentedRow {
  absl::string_view spelling;
  BinaryOp op;
};
constexpr AugmentedRow kAugmented[] = {
    {"+=", BinaryOp::kAdd},       {"-=", BinaryOp::kSub},    {"*=", BinaryOp::kMul},    {"/=", BinaryOp::kDiv},
    {"//=", BinaryOp::kFloorDiv}, {"%=", BinaryOp::kMod},    {"**=", BinaryOp::kPow},   {"@=", BinaryOp::kMatMul},
    {"&=", BinaryOp::kBitAnd},    {"|=", BinaryOp::kBitOr},  {"^=", BinaryOp::kBitXor}, {"<<=", BinaryOp::kShl},
    {">>=", BinaryOp::kShr},
};

// Whether a decorator says that the function below is compiled: its errors are then the user's business.
bool NamesJit(const Expr& decorator) {
  const Expr* expression = &decorator;
  if (expression->kind == ExprKind::kCall) expression = expression->a.get();
  if (expression->kind != ExprKind::kName && expression->kind != ExprKind::kAttribute) return false;
  return expression->text == "jit" || expression->text == "constexpr_function" || absl::EndsWith(expression->text, "_jit");
}

// Assigns to nothing that Python could assign to: what it is, for the message. Empty: it is a target.
std::string WhyNoTarget(const Expr& target) {
  switch (target.kind) {
    case ExprKind::kName: case ExprKind::kAttribute: case ExprKind::kSubscript: return "";
    case ExprKind::kTuple: case ExprKind::kList:
      for (const ExprPtr& item : target.items)
        if (std::string why = WhyNoTarget(*item); !why.empty()) return why;
      return "";
    case ExprKind::kStarred: return WhyNoTarget(*target.a);
    case ExprKind::kCall: return "a function call";
    case ExprKind::kInteger: case ExprKind::kFloat: case ExprKind::kString: case ExprKind::kFString: return "a literal";
    case ExprKind::kBool: case ExprKind::kNone: return "a constant";
    case ExprKind::kCompare: return "a comparison";
    case ExprKind::kOpaque: return target.text;
    default: return "an expression";
  }
}

class Parser : public ExpressionParser {
 public:
  Parser(const File& file, int file_index, const TokenList& list, Diagnostics* diagnostics)
      : ExpressionParser(file.text, list.tokens), diagnostics_(diagnostics) {
    if (list.fatal >= 0) {
      const Token& token = list.tokens[list.fatal];
      fatal_ = token.range;
      diagnostics_->Error(token.range, token.message);
    }
  }

  std::vector<StmtPtr> ParseFile() {
    std::vector<StmtPtr> body;
    while (!at(TokenKind::kEnd)) {
      ParseStatements(&body);
      if (at(TokenKind::kDedent)) Advance();  // left over from a skipped block
    }
    return body;
  }

 private:
  // Statements up to the end of the block or file.
  void ParseStatements(std::vector<StmtPtr>* body) {
    while (!at(TokenKind::kDedent) && !at(TokenKind::kEnd)) {
      size_t begin = position_;
      if (at(TokenKind::kNewline)) {  // of a line that held nothing but an error
        Advance();
        continue;
      }
      bool ok = at(TokenKind::kIndent) ? Fail(peek(1).range, "unexpected indentation") : ParseStatement(body);
      if (ok) continue;
      Recover(begin);
      auto damaged = std::make_unique<Stmt>();
      damaged->range = tokens_[begin].range;
      damaged->text = "statement that could not be parsed";
      body->push_back(std::move(damaged));
    }
  }

  // After an error in the statement that began at token `begin`: reports or drops it, and skips to the next statement.
  void Recover(size_t begin) {
    Report();
    if (position_ == begin || !(previous().kind == TokenKind::kNewline || previous().kind == TokenKind::kDedent)) {
      if (!at(TokenKind::kIndent)) {
        while (!at(TokenKind::kNewline) && !at(TokenKind::kEnd) && !at(TokenKind::kDedent) && !at(TokenKind::kIndent)) Advance();
        if (at(TokenKind::kNewline)) Advance();
      }
    }
    if (at(TokenKind::kIndent)) SkipBlock();
    // Clauses that belonged to the damaged statement.
    while (at("else") || at("elif") || at("except") || at("finally")) {
      while (!at(TokenKind::kNewline) && !at(TokenKind::kEnd)) Advance();
      if (at(TokenKind::kNewline)) Advance();
      if (at(TokenKind::kIndent)) SkipBlock();
    }
  }

  // From kIndent past its kDedent.
  void SkipBlock() {
    int depth = 0;
    do {
      if (at(TokenKind::kIndent)) ++depth;
      if (at(TokenKind::kDedent)) --depth;
      Advance();
    } while (depth > 0 && !at(TokenKind::kEnd));
  }

  StmtPtr NewStmt(StmtKind kind, size_t begin) const {
    auto statement = std::make_unique<Stmt>();
    statement->kind = kind;
    statement->range = tokens_[begin].range;
    return statement;
  }

  void EndRange(Stmt* statement) const {
    statement->range.end_line = previous().range.end_line;
    statement->range.end_column = previous().range.end_column;
  }

  bool ParseStatement(std::vector<StmtPtr>* body) {
    if (at(TokenKind::kName)) {
      absl::string_view word = peek().text;
      if (word == "if") return ParseIf(body);
      if (word == "while") return ParseWhile(body);
      if (word == "for") return ParseFor(body);
      if (word == "def") return ParseFunction(body, {}, position_);
      if (word == "class") return ParseClass(body, {}, position_);
      if (word == "try") return ParseTry(body);
      if (word == "with") return ParseWith(body);
      if (word == "async") return ParseAsync(body);
      if (word == "match" && AtMatchStatement()) return SkipMatch(body);
      if (word == "else" || word == "elif" || word == "except" || word == "finally")
        return Fail(peek().range, absl::StrCat("'", word, "' without a matching ", word == "else" || word == "elif" ? "'if'" : "'try'",
                                               " at this indentation"));
    }
    if (at("@")) return ParseDecorated(body);
    return ParseSimpleLine(body);
  }

  //===-- simple statements --------------------------------------------------------------------===//

  bool ParseSimpleLine(std::vector<StmtPtr>* body) {
    do {
      StmtPtr statement = ParseSimple();
      if (!statement) return false;
      EndRange(statement.get());
      body->push_back(std::move(statement));
    } while (Accept(";") && !at(TokenKind::kNewline) && !at(TokenKind::kEnd));
    if (at(TokenKind::kEnd)) return true;
    if (!at(TokenKind::kNewline)) return UnexpectedAfter(*body->back());
    Advance();
    return true;
  }

  bool UnexpectedAfter(const Stmt& statement) {
    if (at(TokenKind::kError)) return Unexpected("end of line");
    if (statement.kind == StmtKind::kExpr && statement.value->kind == ExprKind::kName) {
      const std::string& word = statement.value->text;
      if (word == "print" || word == "exec") return Fail(peek().range, absl::StrCat("missing parentheses in the call of '", word, "'"));
      if (word == "function" || word == "fn" || word == "func") return Fail(statement.range, "a function begins with 'def'");
      if (word == "elsif" || word == "elseif") return Fail(statement.range, "write 'elif'");
      if (word == "switch" || word == "var" || word == "let" || word == "const" || word == "auto")
        return Fail(statement.range, absl::StrCat("'", word, "' is not Python"));
    }
    return Unexpected("end of line");
  }

  StmtPtr ParseSimple() {
    size_t begin = position_;
    if (at(TokenKind::kName)) {
      absl::string_view word = peek().text;
      if (word == "pass" || word == "break" || word == "continue") {
        Advance();
        return NewStmt(word == "pass" ? StmtKind::kPass : word == "break" ? StmtKind::kBreak : StmtKind::kContinue, begin);
      }
      if (word == "return") return ParseReturn();
      if (word == "raise") return ParseRaise();
      if (word == "assert") return ParseAssert();
      if (word == "global" || word == "nonlocal") return ParseGlobal();
      if (word == "import") return ParseImport();
      if (word == "from") return ParseFromImport();
      if (word == "del") {
        Advance();
        StmtPtr statement = NewStmt(StmtKind::kDelete, begin);
        ExprPtr target = ParseExpressionList();
        if (!target) return nullptr;
        statement->targets.push_back(std::move(target));
        return statement;
      }
      if (word == "type" && peek(1).kind == TokenKind::kName && (peek(2).is("=") || peek(2).is("["))) {
        while (!at(TokenKind::kNewline) && !at(TokenKind::kEnd) && !at(TokenKind::kError)) Advance();
        StmtPtr statement = NewStmt(StmtKind::kOpaque, begin);
        statement->text = "type alias statement";
        return statement;
      }
    }
    return ParseExpressionStatement();
  }

  bool AtLineEnd() const { return at(TokenKind::kNewline) || at(TokenKind::kEnd) || at(";"); }

  StmtPtr ParseReturn() {
    StmtPtr statement = NewStmt(StmtKind::kReturn, position_);
    Advance();
    if (AtLineEnd()) return statement;
    statement->value = ParseExpressionList();
    if (!statement->value) return nullptr;
    return statement;
  }

  StmtPtr ParseRaise() {
    StmtPtr statement = NewStmt(StmtKind::kRaise, position_);
    Advance();
    if (AtLineEnd()) return statement;
    statement->value = ParseExpression();
    if (!statement->value || (Accept("from") && !ParseExpression())) return nullptr;
    return statement;
  }

  StmtPtr ParseAssert() {
    StmtPtr statement = NewStmt(StmtKind::kAssert, position_);
    Advance();
    statement->value = ParseExpression();
    if (!statement->value) return nullptr;
    if (Accept(",")) {
      statement->extra = ParseExpression();
      if (!statement->extra) return nullptr;
    }
    return statement;
  }

  StmtPtr ParseGlobal() {
    StmtPtr statement = NewStmt(StmtKind::kGlobal, position_);
    Advance();
    do {
      if (!AtIdentifier()) {
        Unexpected("a name");
        return nullptr;
      }
      ExprPtr name = New(ExprKind::kName, position_);
      name->text = std::string(peek().text);
      statement->targets.push_back(std::move(name));
      Advance();
    } while (Accept(","));
    return statement;
  }

  // a.b.c; empty after an error.
  std::string ParseDottedName() {
    std::string name;
    do {
      if (!AtIdentifier()) {
        Unexpected("the name of a module");
        return "";
      }
      absl::StrAppend(&name, name.empty() ? "" : ".", peek().text);
      Advance();
    } while (Accept("."));
    return name;
  }

  // "as name", if it stands here; else `as` stays as it is.
  bool ParseAs(std::string* as) {
    if (!Accept("as")) return true;
    if (!AtIdentifier()) return Unexpected("a name after 'as'");
    *as = std::string(peek().text);
    Advance();
    return true;
  }

  StmtPtr ParseImport() {
    StmtPtr statement = NewStmt(StmtKind::kImport, position_);
    Advance();
    do {
      std::string module = ParseDottedName();
      if (module.empty()) return nullptr;
      if (statement->text.empty()) statement->text = module;
      ImportedName imported;
      // `import a.b` binds a, `import a.b as c` binds a.b.
      std::string as;
      if (!ParseAs(&as)) return nullptr;
      imported.name = as.empty() ? module.substr(0, module.find('.')) : module;
      imported.as = as.empty() ? imported.name : as;
      statement->imported.push_back(std::move(imported));
    } while (Accept(","));
    return statement;
  }

  StmtPtr ParseFromImport() {
    StmtPtr statement = NewStmt(StmtKind::kFromImport, position_);
    Advance();
    while (at(".") || at("...")) {
      statement->text += std::string(peek().text);
      Advance();
    }
    if (!at("import") || statement->text.empty()) {
      std::string module = ParseDottedName();
      if (module.empty()) return nullptr;
      statement->text += module;
    }
    if (!Expect("import")) return nullptr;
    if (Accept("*")) {
      statement->imported.push_back({"*", "*"});
      return statement;
    }
    size_t open = position_;
    bool parentheses = Accept("(");
    do {
      if (parentheses && at(")")) break;
      if (!AtIdentifier()) {
        Unexpected("a name to import");
        return nullptr;
      }
      ImportedName imported{std::string(peek().text), std::string(peek().text)};
      Advance();
      if (!ParseAs(&imported.as)) return nullptr;
      statement->imported.push_back(std::move(imported));
    } while (Accept(","));
    if (parentheses && !ExpectClosing(")", open, ",")) return nullptr;
    return statement;
  }

  StmtPtr ParseExpressionStatement() {
    size_t begin = position_;
    ExprPtr first = ParseExpressionList();
    if (!first) return nullptr;
    if (at(":") && IsAnnotationTarget(*first)) return ParseAnnotated(std::move(first), begin);
    for (const AugmentedRow& row : kAugmented) {
      if (!at(row.spelling)) continue;
      if (first->kind != ExprKind::kName && first->kind != ExprKind::kAttribute && first->kind != ExprKind::kSubscript) {
        Fail(first->range, absl::StrCat("'", row.spelling, "' needs a single name, attribute or subscript at its left"));
        return nullptr;
      }
      Advance();
      StmtPtr statement = NewStmt(StmtKind::kAugAssign, begin);
      statement->binary = row.op;
      statement->targets.push_back(std::move(first));
      statement->value = ParseExpressionList();
      if (!statement->value) return nullptr;
      return statement;
    }
    if (!at("=")) {
      StmtPtr statement = NewStmt(StmtKind::kExpr, begin);
      statement->value = std::move(first);
      return statement;
    }
    StmtPtr statement = NewStmt(StmtKind::kAssign, begin);
    while (Accept("=")) {
      std::string why = WhyNoTarget(*first);
      if (!why.empty()) {
        Fail(first->range, absl::StrCat("cannot assign to ", why, "; '==' compares"));
        return nullptr;
      }
      statement->targets.push_back(std::move(first));
      first = ParseExpressionList();
      if (!first) return nullptr;
    }
    statement->value = std::move(first);
    return statement;
  }

  static bool IsAnnotationTarget(const Expr& target) {
    return target.kind == ExprKind::kName || target.kind == ExprKind::kAttribute || target.kind == ExprKind::kSubscript;
  }

  StmtPtr ParseAnnotated(ExprPtr target, size_t begin) {
    StmtPtr statement = NewStmt(StmtKind::kAnnAssign, begin);
    statement->targets.push_back(std::move(target));
    Advance();
    if (at(TokenKind::kNewline)) {
      Unexpected("a type after ':'");
      return nullptr;
    }
    ExprPtr annotation = ParseExpression();
    if (!annotation) return nullptr;
    if (Accept("=")) {
      statement->value = ParseExpressionList();
      if (!statement->value) return nullptr;
    }
    statement->extra = std::move(annotation);
    return statement;
  }

  //===-- compound statements ------------------------------------------------------------------===//

  // ":" and what it governs. `what` names the statement; `header` is the token where it began.
  bool ParseBlock(absl::string_view what, size_t header, std::vector<StmtPtr>* body) {
    if (!Accept(":")) {
      if (at("=")) return Unexpected("':'");
      return Unexpected(absl::StrCat("':' at the end of the ", what));
    }
    if (!at(TokenKind::kNewline)) return ParseSimpleLine(body);
    Advance();
    if (!at(TokenKind::kIndent)) {
      if (at(TokenKind::kError)) return Unexpected("an indented block");
      return Fail(peek().range, absl::StrCat("expected an indented block after the ", what, " on line ", tokens_[header].range.line));
    }
    Advance();
    ParseStatements(body);
    if (at(TokenKind::kDedent)) Advance();
    return true;
  }

  class StatementDescent {
   public:
    explicit StatementDescent(Parser* parser) : parser_(parser) {
      ok_ = ++parser->statement_depth_ <= kMaxStatementDepth;
      if (!ok_) parser->Fail(parser->peek().range, "statements are nested too deeply");
    }
    ~StatementDescent() { --parser_->statement_depth_; }
    bool ok() const { return ok_; }

   private:
    Parser* parser_;
    bool ok_;
  };

  // `if` and `elif`.
  bool ParseIf(std::vector<StmtPtr>* body) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    size_t begin = position_;
    std::string what = absl::StrCat("'", peek().text, "' statement");
    StmtPtr statement = NewStmt(StmtKind::kIf, begin);
    Advance();
    statement->value = ParseNamedExpression();
    if (!statement->value) return false;
    EndRange(statement.get());
    Stmt* added = statement.get();
    if (!ParseBlock(what, begin, &statement->body)) return false;
    body->push_back(std::move(statement));
    if (at("elif")) return ParseIf(&added->or_else);
    return ParseElse(&added->or_else);
  }

  bool ParseElse(std::vector<StmtPtr>* or_else) {
    if (!at("else")) return true;
    size_t begin = position_;
    Advance();
    if (at("if")) return Fail(tokens_[begin].range, "write 'elif' for 'else if'");
    return ParseBlock("'else'", begin, or_else);
  }

  bool ParseWhile(std::vector<StmtPtr>* body) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    size_t begin = position_;
    StmtPtr statement = NewStmt(StmtKind::kWhile, begin);
    Advance();
    statement->value = ParseNamedExpression();
    if (!statement->value) return false;
    EndRange(statement.get());
    return ParseBlock("'while' statement", begin, &statement->body) && ParseElse(&statement->or_else) && Push(std::move(statement), body);
  }

  bool ParseFor(std::vector<StmtPtr>* body) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    size_t begin = position_;
    StmtPtr statement = NewStmt(StmtKind::kFor, begin);
    Advance();
    ExprPtr target = ParseTargetList();
    if (!target || !Expect("in")) return false;
    statement->targets.push_back(std::move(target));
    statement->value = ParseExpressionList();
    if (!statement->value) return false;
    EndRange(statement.get());
    return ParseBlock("'for' statement", begin, &statement->body) && ParseElse(&statement->or_else) && Push(std::move(statement), body);
  }

  static bool Push(StmtPtr statement, std::vector<StmtPtr>* body) {
    body->push_back(std::move(statement));
    return true;
  }

  bool ParseTry(std::vector<StmtPtr>* body) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    size_t begin = position_;
    StmtPtr statement = NewStmt(StmtKind::kTry, begin);
    Advance();
    if (!ParseBlock("'try' statement", begin, &statement->body)) return false;
    bool handled = false;
    while (at("except")) {
      size_t handler = position_;
      Advance();
      Accept("*");
      if (!at(":")) {
        if (!ParseExpressionList()) return false;
        std::string name;
        if (!ParseAs(&name)) return false;
      }
      if (!ParseBlock("'except' clause", handler, &statement->or_else)) return false;
      handled = true;
    }
    if (at("else")) {  // runs when nothing was raised: as if it followed the body
      size_t clause = position_;
      Advance();
      if (!ParseBlock("'else'", clause, &statement->body)) return false;
    }
    if (at("finally")) {
      size_t clause = position_;
      Advance();
      if (!ParseBlock("'finally' clause", clause, &statement->or_else)) return false;
      handled = true;
    }
    if (!handled) return Fail(tokens_[begin].range, "'try' without 'except' or 'finally'");
    return Push(std::move(statement), body);
  }

  bool ParseWith(std::vector<StmtPtr>* body) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    size_t begin = position_;
    StmtPtr statement = NewStmt(StmtKind::kWith, begin);
    Advance();
    do {
      with_items_ = true;  // for a parenthesised list of items
      ExprPtr item = ParseExpression();
      with_items_ = false;
      if (!item) return false;
      if (Accept("as") && !ParseBinary(1)) return false;
      statement->targets.push_back(std::move(item));
    } while (Accept(","));
    EndRange(statement.get());
    return ParseBlock("'with' statement", begin, &statement->body) && Push(std::move(statement), body);
  }

  bool ParseAsync(std::vector<StmtPtr>* body) {
    size_t begin = position_;
    if (!peek(1).is("def") && !peek(1).is("for") && !peek(1).is("with")) {
      Advance();
      return Unexpected("'def', 'for' or 'with' after 'async'");
    }
    Advance();
    if (at("def")) return ParseFunction(body, {}, begin);
    return at("for") ? ParseFor(body) : ParseWith(body);
  }

  // `match` is an ordinary name unless its line ends with ':' and a `case` follows.
  bool AtMatchStatement() const {
    if (peek(1).kind == TokenKind::kNewline || peek(1).is("=") || peek(1).is(".") || peek(1).is(",")) return false;
    size_t i = position_;
    while (tokens_[i].kind != TokenKind::kNewline && tokens_[i].kind != TokenKind::kEnd) ++i;
    return tokens_[i - 1].is(":") && i + 2 < tokens_.size() && tokens_[i + 1].kind == TokenKind::kIndent && tokens_[i + 2].is("case");
  }

  bool SkipMatch(std::vector<StmtPtr>* body) {
    StmtPtr statement = NewStmt(StmtKind::kOpaque, position_);
    statement->text = "match statement";
    while (!at(TokenKind::kNewline)) Advance();
    EndRange(statement.get());
    Advance();
    SkipBlock();
    return Push(std::move(statement), body);
  }

  bool ParseDecorated(std::vector<StmtPtr>* body) {
    std::vector<ExprPtr> decorators;
    size_t begin = position_;
    while (Accept("@")) {
      ExprPtr decorator = ParseNamedExpression();
      if (!decorator) return false;
      decorators.push_back(std::move(decorator));
      if (!at(TokenKind::kNewline)) return Unexpected("end of line after the decorator");
      Advance();
    }
    if (at("class")) return ParseClass(body, std::move(decorators), begin);
    size_t function = position_;
    if (at("async") && peek(1).is("def")) Advance();
    if (at("def")) return ParseFunction(body, std::move(decorators), function);
    return Unexpected("'def' or 'class' after a decorator");
  }

  // [T: bound, *Ts, **P] behind the name of a generic function or class.
  bool SkipTypeParameters() {
    if (!at("[")) return true;
    size_t open = position_;
    int depth = 0;
    do {
      if (at(TokenKind::kNewline) || at(TokenKind::kEnd) || at(TokenKind::kError)) return ExpectClosing("]", open, "");
      if (at("[")) ++depth;
      if (at("]")) --depth;
      Advance();
    } while (depth > 0);
    return true;
  }

  bool ParseFunction(std::vector<StmtPtr>* body, std::vector<ExprPtr> decorators, size_t begin) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    bool outer_strict = strict_;
    bool is_jit = false;
    for (const ExprPtr& decorator : decorators) is_jit = is_jit || NamesJit(*decorator);
    strict_ = is_jit || inside_jit_;
    bool outer_inside = std::exchange(inside_jit_, strict_);
    bool ok = ParseFunctionRest(body, std::move(decorators), begin);
    // A damaged header must be judged by this function's strictness, yet is recovered from by the caller.
    if (!ok) Report();
    strict_ = outer_strict;
    inside_jit_ = outer_inside;
    return ok;
  }

  bool ParseFunctionRest(std::vector<StmtPtr>* body, std::vector<ExprPtr> decorators, size_t begin) {
    StmtPtr statement = NewStmt(StmtKind::kFunctionDef, begin);
    statement->decorators = std::move(decorators);
    Advance();  // def
    if (!AtIdentifier()) return Unexpected("the name of the function");
    statement->text = std::string(peek().text);
    Advance();
    if (!SkipTypeParameters()) return false;
    size_t open = position_;
    if (!Expect("(")) return false;
    if (!ParseParameters(&statement->parameters)) return false;
    if (!ExpectClosing(")", open, ",")) return false;
    if (Accept("->")) {
      statement->returns = ParseExpressionList();
      if (!statement->returns) return false;
    }
    EndRange(statement.get());
    if (!ParseBlock("function definition", begin, &statement->body)) return false;
    return Push(std::move(statement), body);
  }

  bool ParseParameters(std::vector<FunctionParameter>* parameters) {
    bool keyword_only = false;
    while (!at(")")) {
      if (Accept("/")) {
        if (!Accept(",")) break;
        continue;
      }
      FunctionParameter parameter;
      parameter.range = peek().range;
      parameter.keyword_only = keyword_only;
      if (Accept("**")) {
        parameter.is_double_star = true;
      } else if (Accept("*")) {
        keyword_only = true;
        if (Accept(",")) continue;
        parameter.is_star = true;
      }
      if (!AtIdentifier()) return Unexpected("the name of a parameter");
      parameter.name = std::string(peek().text);
      Advance();
      if (Accept(":")) {
        parameter.annotation = at("*") ? ParseStarred() : ParseExpression();
        if (!parameter.annotation) return false;
      }
      if (Accept("=")) {
        parameter.default_value = ParseExpression();
        if (!parameter.default_value) return false;
      }
      parameter.range.end_line = previous().range.end_line;
      parameter.range.end_column = previous().range.end_column;
      parameters->push_back(std::move(parameter));
      if (!Accept(",")) break;
    }
    return true;
  }

  bool ParseClass(std::vector<StmtPtr>* body, std::vector<ExprPtr> decorators, size_t begin) {
    StatementDescent descent(this);
    if (!descent.ok()) return false;
    bool outer_strict = std::exchange(strict_, false);
    bool outer_inside = std::exchange(inside_jit_, false);
    bool ok = ParseClassRest(body, std::move(decorators), begin);
    if (!ok) Report();
    strict_ = outer_strict;
    inside_jit_ = outer_inside;
    return ok;
  }

  bool ParseClassRest(std::vector<StmtPtr>* body, std::vector<ExprPtr> decorators, size_t begin) {
    StmtPtr statement = NewStmt(StmtKind::kClassDef, begin);
    statement->decorators = std::move(decorators);
    Advance();
    if (!AtIdentifier()) return Unexpected("the name of the class");
    statement->text = std::string(peek().text);
    Advance();
    if (!SkipTypeParameters()) return false;
    if (at("(")) {
      ExprPtr callee = New(ExprKind::kName, begin);
      ExprPtr bases = ParseArguments(std::move(callee), position_);
      if (!bases) return false;
      statement->targets = std::move(bases->items);
    }
    EndRange(statement.get());
    if (!ParseBlock("class definition", begin, &statement->body)) return false;
    return Push(std::move(statement), body);
  }

  // Moves the pending error to the diagnostics, or drops it inside host code.
  void Report() {
    if (!error_) return;
    bool is_fatal = fatal_.line != 0 && error_->range.line == fatal_.line && error_->range.column == fatal_.column;
    bool skippable = error_->only_too_large && !inside_jit_;
    if (strict_ && !is_fatal && !skippable && ++reported_ <= kMaxReportedErrors)
      diagnostics_->Error(error_->range, error_->message);
    error_.reset();
  }

  Diagnostics* diagnostics_;
  bool strict_ = true;       // errors are reported
  bool inside_jit_ = false;  // functions in here belong to a jit function
  int statement_depth_ = 0;
  int reported_ = 0;
  SourceRange fatal_;
};

}  // namespace

File Parse(int file_index, absl::string_view path, absl::string_view text, Diagnostics* diagnostics) {
  File file;
  file.path = std::string(path);
  size_t first_bad;
  file.text = NormalizeSource(text, &first_bad);
  if (first_bad != std::string::npos) {
    SourceRange range{file_index, 1, 1, 1, 2};
    size_t line_start = 0;
    for (size_t i = 0; i < first_bad; ++i) {
      if (file.text[i] != '\n') continue;
      ++range.line;
      line_start = i + 1;
    }
    range.end_line = range.line;
    range.column = static_cast<int>(first_bad - line_start) + 1;
    range.end_column = range.column + 3;
    diagnostics->Error(range, "the file is not valid UTF-8 here");
  }
  TokenList list = Tokenize(file_index, file.text);
  file.body = Parser(file, file_index, list, diagnostics).ParseFile();
  return file;
}

}  // namespace tessera::frontend
