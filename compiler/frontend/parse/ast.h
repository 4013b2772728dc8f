// Syntax tree of the Python subset that kernels use.
//
// One struct a node kind, tagged; owned by its parent through unique_ptr. A node keeps the place where
// it begins. Host-side constructs that kernels never need parse to Opaque nodes, which are an error only
// when something evaluates or emits them.
#ifndef TESSERA_COMPILER_FRONTEND_PARSE_AST_H_
#define TESSERA_COMPILER_FRONTEND_PARSE_AST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::frontend {

// A place in source text. `file` indexes the files of the module; line and column count from 1,
// columns in bytes. end_* lie one past the last byte of the construct.
struct SourceRange {
  int file = 0;
  int line = 0, column = 0;
  int end_line = 0, end_column = 0;
};

//===-- expressions ---------------------------------------------------------------------------===//

enum class ExprKind {
  kName, kInteger, kFloat, kString, kFString, kBool, kNone, kEllipsis,
  kTuple, kList, kDict, kUnary, kBinary, kBoolOp, kCompare, kConditional,
  kCall, kAttribute, kSubscript, kSlice, kStarred, kLambda, kComprehension, kOpaque,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class UnaryOp { kNeg, kPos, kInvert, kNot };
enum class BinaryOp {
  kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow, kMatMul, kBitAnd, kBitOr, kBitXor, kShl, kShr,
};
enum class CompareOp { kEq, kNe, kLt, kLe, kGt, kGe, kIs, kIsNot, kIn, kNotIn };

struct Keyword {
  std::string name;  // empty: **value
  ExprPtr value;
  SourceRange range;
};

struct ComprehensionClause {  // for target in iterable if conditions...
  ExprPtr target, iterable;
  std::vector<ExprPtr> conditions;
};

struct FunctionParameter;

struct Expr {
  ExprKind kind = ExprKind::kOpaque;
  SourceRange range;
  int height = 1;  // nodes on the longest path down; the parser bounds it, so that recursion is safe

  // kName: identifier. kAttribute: attribute name. kString: decoded text. kInteger/kFloat: digits as
  // written. kOpaque: what it is ("yield expression"), for messages.
  std::string text;
  uint64_t integer = 0;        // kInteger; negative numbers are kUnary
  bool integer_overflow = false;  // does not fit 64 bits
  double real = 0;             // kFloat
  bool boolean = false;        // kBool

  UnaryOp unary = UnaryOp::kNeg;
  BinaryOp binary = BinaryOp::kAdd;
  bool is_and = false;                 // kBoolOp: and, else or; operands in `items`
  std::vector<CompareOp> compare_ops;  // kCompare: `items` has one operand more

  // kUnary: a. kBinary: a, b. kConditional: b if a else c. kCall: a(items, keywords).
  // kAttribute: a.text. kSubscript: a[b] (b is a kTuple for several indices). kSlice: a:b:c (each may be
  // null). kStarred: *a. kLambda: body a. kComprehension: element a (kDict: key a, value b).
  ExprPtr a, b, c;
  // kTuple, kList, kCall arguments, kBoolOp, kCompare operands; kFString: parts (kString or expressions);
  // kDict: keys and values alternating; `**x` has the kStarred x as key and a kNone as value.
  // A set literal is the kCall of kName "set" on a kList, with `text` "set literal"; in a kFString, {x!r} is repr(x) and
  // {x:spec} is format(x, spec).
  std::vector<ExprPtr> items;
  std::vector<Keyword> keywords;                // kCall
  std::vector<std::string> lambda_parameters;   // kLambda
  char comprehension_bracket = '[';             // kComprehension: '[', '(' or '{'
  std::vector<ComprehensionClause> clauses;     // kComprehension
};

//===-- statements ----------------------------------------------------------------------------===//

enum class StmtKind {
  kExpr, kAssign, kAugAssign, kAnnAssign, kReturn, kPass, kBreak, kContinue, kIf, kFor, kWhile,
  kAssert, kRaise, kGlobal, kImport, kFromImport, kFunctionDef, kClassDef, kTry, kWith, kDelete, kOpaque,
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;

struct FunctionParameter {
  std::string name;
  ExprPtr annotation, default_value;  // may be null
  bool is_star = false, is_double_star = false, keyword_only = false;
  SourceRange range;
};

struct ImportedName {
  std::string name, as;  // `as` is the bound name
};

struct Stmt {
  StmtKind kind = StmtKind::kOpaque;
  SourceRange range;
  std::string text;  // kFunctionDef, kClassDef: name. kImport/kFromImport: module ("..x" when relative).
                     // kOpaque: what it is, for messages

  // kExpr, kReturn (may be null), kRaise (may be null): value. kAssert: value, extra = message.
  // kAssign: targets..., value. kAugAssign: targets[0] op= value. kAnnAssign: targets[0]: extra = value
  // (value may be null). kIf, kWhile: value is the condition. kFor: targets[0] in value. kWith: items in targets.
  // kClassDef: bases in targets.
  ExprPtr value, extra;
  std::vector<ExprPtr> targets;
  BinaryOp binary = BinaryOp::kAdd;

  std::vector<StmtPtr> body, or_else;    // kTry: body; handlers and finally bodies are appended to or_else
  std::vector<ExprPtr> decorators;       // kFunctionDef, kClassDef
  std::vector<FunctionParameter> parameters;
  ExprPtr returns;                       // annotation
  std::vector<ImportedName> imported;    // kImport, kFromImport ("*" for all)
};

// One parsed file.
struct File {
  std::string path;
  std::string text;
  std::vector<StmtPtr> body;
};

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_PARSE_AST_H_
