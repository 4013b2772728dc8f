#include "compiler/frontend/parse/printer.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

// Binding strengths, weakest first.
enum Level { kAny, kLambdaLevel, kConditional, kOr, kAnd, kNot, kCompareLevel, kBitOr, kXor, kBitAnd, kShift, kSum, kProduct, kUnaryLevel, kPower, kPostfix };

int LevelOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kBitOr: return kBitOr;
    case BinaryOp::kBitXor: return kXor;
    case BinaryOp::kBitAnd: return kBitAnd;
    case BinaryOp::kShl: case BinaryOp::kShr: return kShift;
    case BinaryOp::kAdd: case BinaryOp::kSub: return kSum;
    case BinaryOp::kPow: return kPower;
    default: return kProduct;
  }
}

std::string Escaped(absl::string_view value, bool double_braces) {
  std::string out;
  for (char c : value) {
    switch (c) {
      case '\\': out += "\\\\"; break;
      case '\'': out += "\\'"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '{': case '}': out += c; if (double_braces) out += c; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          char code[8];
          std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
          out += code;
        } else {
          out += c;
        }
    }
  }
  return out;
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string Take() { return std::move(out_); }

  void Expression(const Expr& e, int lowest) {
    int level = LevelOfExpr(e);
    if (level < lowest) out_ += '(';
    Bare(e);
    if (level < lowest) out_ += ')';
  }

  void Statement(const Stmt& s, int indent, bool decorators) {
    if (s.kind == StmtKind::kExpr && s.value->kind == ExprKind::kString) return;
    if (decorators)
      for (const ExprPtr& decorator : s.decorators) {
        Line(indent, "@");
        Expression(*decorator, kAny);
        out_ += '\n';
      }
    switch (s.kind) {
      case StmtKind::kIf: return IfChain(s, indent, "if ");
      case StmtKind::kWhile:
        Line(indent, "while ");
        Expression(*s.value, kAny);
        Block(s.body, indent, decorators);
        return ElseBlock(s, indent, "else", decorators);
      case StmtKind::kFor:
        Line(indent, "for ");
        Expression(*s.targets[0], kAny);
        out_ += " in ";
        Expression(*s.value, kAny);
        Block(s.body, indent, decorators);
        return ElseBlock(s, indent, "else", decorators);
      case StmtKind::kTry:
        Line(indent, "try");
        Block(s.body, indent, decorators);
        return ElseBlock(s, indent, "except", decorators);
      case StmtKind::kWith:
        Line(indent, "with ");
        List(s.targets);
        return Block(s.body, indent, decorators);
      case StmtKind::kFunctionDef: return FunctionDef(s, indent, decorators);
      case StmtKind::kClassDef:
        Line(indent, "class ");
        out_ += s.text;
        out_ += '(';
        List(s.targets);
        out_ += ')';
        return Block(s.body, indent, decorators);
      default: break;
    }
    Line(indent, "");
    Simple(s);
    out_ += '\n';
  }

 private:
  static int LevelOfExpr(const Expr& e) {
    switch (e.kind) {
      case ExprKind::kLambda: return kLambdaLevel;
      case ExprKind::kConditional: return kConditional;
      case ExprKind::kBoolOp: return e.is_and ? kAnd : kOr;
      case ExprKind::kCompare: return kCompareLevel;
      case ExprKind::kBinary: return LevelOf(e.binary);
      case ExprKind::kUnary: return e.unary == UnaryOp::kNot ? kNot : kUnaryLevel;
      case ExprKind::kStarred: return kAny;
      case ExprKind::kSlice: return kAny;
      default: return kPostfix;
    }
  }

  void Bare(const Expr& e) {
    if (e.kind == ExprKind::kCall && options_.call)
      if (std::optional<std::string> text = options_.call(e)) {
        out_ += *text;
        return;
      }
    switch (e.kind) {
      case ExprKind::kName: return Name(e.text);
      case ExprKind::kInteger:
        out_ += e.integer_overflow ? e.text : std::to_string(e.integer);
        return;
      case ExprKind::kFloat: out_ += std::isinf(e.real) ? "1e999" : FloatText(e.real); return;
      case ExprKind::kString: out_ += StringText(e.text); return;
      case ExprKind::kFString: return FString(e);
      case ExprKind::kBool: out_ += e.boolean ? "True" : "False"; return;
      case ExprKind::kNone: out_ += "None"; return;
      case ExprKind::kEllipsis: out_ += "..."; return;
      case ExprKind::kTuple:
        out_ += '(';
        List(e.items);
        out_ += e.items.size() == 1 ? ",)" : ")";
        return;
      case ExprKind::kList:
        out_ += '[';
        List(e.items);
        out_ += ']';
        return;
      case ExprKind::kDict: return Dict(e);
      case ExprKind::kUnary:
        out_ += e.unary == UnaryOp::kNeg ? "-" : e.unary == UnaryOp::kPos ? "+" : e.unary == UnaryOp::kInvert ? "~" : "not ";
        return Expression(*e.a, e.unary == UnaryOp::kNot ? kNot : kUnaryLevel);
      case ExprKind::kBinary: {
        int level = LevelOf(e.binary);
        bool power = e.binary == BinaryOp::kPow;
        Expression(*e.a, power ? level + 1 : level);
        absl::StrAppend(&out_, " ", Spelling(e.binary), " ");
        return Expression(*e.b, power ? kUnaryLevel : level + 1);
      }
      case ExprKind::kBoolOp:
        for (size_t i = 0; i < e.items.size(); ++i) {
          if (i > 0) out_ += e.is_and ? " and " : " or ";
          Expression(*e.items[i], (e.is_and ? kAnd : kOr) + 1);
        }
        return;
      case ExprKind::kCompare:
        for (size_t i = 0; i < e.items.size(); ++i) {
          if (i > 0) absl::StrAppend(&out_, " ", Spelling(e.compare_ops[i - 1]), " ");
          Expression(*e.items[i], kCompareLevel + 1);
        }
        return;
      case ExprKind::kConditional:
        Expression(*e.b, kOr);
        out_ += " if ";
        Expression(*e.a, kOr);
        out_ += " else ";
        return Expression(*e.c, kConditional);
      case ExprKind::kCall:
        Expression(*e.a, kPostfix);
        out_ += '(';
        List(e.items);
        for (size_t i = 0; i < e.keywords.size(); ++i) {
          if (i > 0 || !e.items.empty()) out_ += ", ";
          out_ += e.keywords[i].name.empty() ? "**" : e.keywords[i].name + "=";
          Expression(*e.keywords[i].value, kLambdaLevel);
        }
        out_ += ')';
        return;
      case ExprKind::kAttribute:
        // "1 .real" has no place here, but must not print as a float.
        Expression(*e.a, e.a->kind == ExprKind::kInteger ? kPostfix + 1 : kPostfix);
        absl::StrAppend(&out_, ".", e.text);
        return;
      case ExprKind::kSubscript:
        Expression(*e.a, kPostfix);
        out_ += '[';
        if (e.b->kind == ExprKind::kTuple && !e.b->items.empty()) {
          List(e.b->items);
          if (e.b->items.size() == 1) out_ += ',';
        } else {
          Expression(*e.b, kAny);
        }
        out_ += ']';
        return;
      case ExprKind::kSlice:
        if (e.a) Expression(*e.a, kLambdaLevel);
        out_ += ':';
        if (e.b) Expression(*e.b, kLambdaLevel);
        if (e.c) {
          out_ += ':';
          Expression(*e.c, kLambdaLevel);
        }
        return;
      case ExprKind::kStarred:
        out_ += '*';
        return Expression(*e.a, kBitOr);
      case ExprKind::kLambda:
        out_ += "lambda";
        for (size_t i = 0; i < e.lambda_parameters.size(); ++i) {
          out_ += i > 0 ? ", " : " ";
          Name(e.lambda_parameters[i]);
        }
        out_ += ": ";
        return Expression(*e.a, kLambdaLevel);
      case ExprKind::kComprehension: return Comprehension(e);
      case ExprKind::kOpaque: absl::StrAppend(&out_, "<", e.text, ">"); return;
    }
  }

  void Name(const std::string& name) {
    if (options_.names) {
      auto found = options_.names->find(name);
      if (found != options_.names->end()) {
        out_ += found->second;
        return;
      }
    }
    out_ += name;
  }

  void List(const std::vector<ExprPtr>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      Expression(*items[i], kAny);
    }
  }

  void FString(const Expr& e) {
    out_ += "f'";
    for (const ExprPtr& item : e.items) {
      if (item->kind == ExprKind::kString) {
        out_ += Escaped(item->text, true);
        continue;
      }
      out_ += '{';
      size_t begin = out_.size();
      Expression(*item, kConditional);
      if (out_[begin] == '{') out_.insert(begin, " ");
      out_ += '}';
    }
    out_ += '\'';
  }

  void Dict(const Expr& e) {
    out_ += '{';
    for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
      if (i > 0) out_ += ", ";
      if (e.items[i]->kind == ExprKind::kStarred) {
        out_ += "**";
        Expression(*e.items[i]->a, kBitOr);
        continue;
      }
      Expression(*e.items[i], kLambdaLevel);
      out_ += ": ";
      Expression(*e.items[i + 1], kLambdaLevel);
    }
    out_ += '}';
  }

  void Comprehension(const Expr& e) {
    char close = e.comprehension_bracket == '(' ? ')' : e.comprehension_bracket == '[' ? ']' : '}';
    out_ += e.comprehension_bracket;
    Expression(*e.a, kLambdaLevel);
    if (e.b) {
      out_ += ": ";
      Expression(*e.b, kLambdaLevel);
    }
    for (const ComprehensionClause& clause : e.clauses) {
      out_ += " for ";
      Expression(*clause.target, kAny);
      out_ += " in ";
      Expression(*clause.iterable, kOr);
      for (const ExprPtr& condition : clause.conditions) {
        out_ += " if ";
        Expression(*condition, kOr);
      }
    }
    out_ += close;
  }

  void Line(int indent, absl::string_view text) {
    out_.append(static_cast<size_t>(indent), ' ');
    out_.append(text.data(), text.size());
  }

  void Block(const std::vector<StmtPtr>& body, int indent, bool decorators) {
    out_ += ":\n";
    size_t begin = out_.size();
    for (const StmtPtr& statement : body) Statement(*statement, indent + 1, decorators);
    if (out_.size() == begin) Line(indent + 1, "pass\n");
  }

  void ElseBlock(const Stmt& s, int indent, absl::string_view word, bool decorators) {
    if (s.or_else.empty()) return;
    Line(indent, word);
    Block(s.or_else, indent, decorators);
  }

  void IfChain(const Stmt& s, int indent, absl::string_view word) {
    Line(indent, word);
    Expression(*s.value, kAny);
    Block(s.body, indent, true);
    if (s.or_else.size() == 1 && s.or_else[0]->kind == StmtKind::kIf) return IfChain(*s.or_else[0], indent, "elif ");
    ElseBlock(s, indent, "else", true);
  }

  void FunctionDef(const Stmt& s, int indent, bool decorators) {
    Line(indent, "def ");
    out_ += s.text;
    out_ += '(';
    bool first = true, star = false;
    for (const FunctionParameter& p : s.parameters) {
      if (!first) out_ += ", ";
      first = false;
      if (p.is_star) star = true;
      if (p.keyword_only && !star && !p.is_double_star) {
        out_ += "*, ";
        star = true;
      }
      out_ += p.is_double_star ? "**" : p.is_star ? "*" : "";
      Name(p.name);
      if (p.annotation) {
        out_ += ": ";
        Expression(*p.annotation, kLambdaLevel);
      }
      if (p.default_value) {
        out_ += p.annotation ? " = " : "=";
        Expression(*p.default_value, kLambdaLevel);
      }
    }
    out_ += ')';
    if (s.returns) {
      out_ += " -> ";
      Expression(*s.returns, kLambdaLevel);
    }
    Block(s.body, indent, decorators);
  }

  void Simple(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kExpr: return Expression(*s.value, kAny);
      case StmtKind::kAssign:
        for (const ExprPtr& target : s.targets) {
          Expression(*target, kAny);
          out_ += " = ";
        }
        return Expression(*s.value, kAny);
      case StmtKind::kAugAssign:
        Expression(*s.targets[0], kAny);
        absl::StrAppend(&out_, " ", Spelling(s.binary), "= ");
        return Expression(*s.value, kAny);
      case StmtKind::kAnnAssign:
        Expression(*s.targets[0], kAny);
        out_ += ": ";
        Expression(*s.extra, kAny);
        if (s.value) {
          out_ += " = ";
          Expression(*s.value, kAny);
        }
        return;
      case StmtKind::kReturn: return Keyword("return", s.value);
      case StmtKind::kRaise: return Keyword("raise", s.value);
      case StmtKind::kPass: out_ += "pass"; return;
      case StmtKind::kBreak: out_ += "break"; return;
      case StmtKind::kContinue: out_ += "continue"; return;
      case StmtKind::kAssert:
        Keyword("assert", s.value);
        if (s.extra) {
          out_ += ", ";
          Expression(*s.extra, kAny);
        }
        return;
      case StmtKind::kGlobal: out_ += "global "; return List(s.targets);
      case StmtKind::kDelete: out_ += "del "; return List(s.targets);
      case StmtKind::kImport: out_ += "import "; return Imported(s);
      case StmtKind::kFromImport:
        absl::StrAppend(&out_, "from ", s.text, " import ");
        return Imported(s);
      default: absl::StrAppend(&out_, "<", s.text, ">"); return;
    }
  }

  void Keyword(absl::string_view word, const ExprPtr& value) {
    out_.append(word.data(), word.size());
    if (!value) return;
    out_ += ' ';
    Expression(*value, kAny);
  }

  void Imported(const Stmt& s) {
    for (size_t i = 0; i < s.imported.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += s.imported[i].name;
      if (s.imported[i].as != s.imported[i].name) absl::StrAppend(&out_, " as ", s.imported[i].as);
    }
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

const char* Spelling(BinaryOp op) {
  static constexpr const char* kSpellings[] = {"+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"};
  return kSpellings[static_cast<int>(op)];
}

const char* Spelling(CompareOp op) {
  static constexpr const char* kSpellings[] = {"==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"};
  return kSpellings[static_cast<int>(op)];
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "float('-inf')";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {  // the shortest that reads back the same
    std::snprintf(text, sizeof text, "%.*e", digits - 1, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  // As Python: plain digits for exponents -4 to 15, else scientific.
  int exponent = std::atoi(std::string(text).substr(std::string(text).find('e') + 1).c_str());
  std::string mantissa = std::string(text).substr(0, std::string(text).find('e'));
  if (exponent < -4 || exponent >= 16)
    return absl::StrCat(mantissa, "e", exponent < 0 ? "-" : "+", std::abs(exponent) < 10 ? "0" : "", std::abs(exponent));
  int digits = static_cast<int>(mantissa.size()) - (mantissa[0] == '-') - (mantissa.find('.') != std::string::npos);
  int decimals = digits - 1 - exponent;
  std::snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, value);
  return text;
}

std::string StringText(absl::string_view value) { return absl::StrCat("'", Escaped(value, false), "'"); }

std::string Print(const Expr& expression, const PrintOptions& options) {
  Printer printer(options);
  printer.Expression(expression, 0);
  return printer.Take();
}

std::string Print(const Stmt& statement, bool decorators, const PrintOptions& options) {
  Printer printer(options);
  printer.Statement(statement, 0, decorators);
  return printer.Take();
}

}  // namespace tessera::frontend
