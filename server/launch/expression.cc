#include "server/launch/expression.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxTextBytes = 1024;
constexpr int kMaxDepth = 64;

using Kind = ExpressionValue::Kind;

bool Truthy(const ExpressionValue& value) {
  switch (value.kind) {
    case Kind::kInteger:
    case Kind::kBoolean:
      return value.integer != 0;
    case Kind::kReal:
      return value.real != 0;
    case Kind::kText:
      return !value.text.empty();
    case Kind::kNone:
      return false;
    case Kind::kOpaque:
      return true;
  }
  return false;
}

double AsReal(const ExpressionValue& value) {
  return value.kind == Kind::kReal ? value.real : static_cast<double>(value.integer);
}

int64_t FloorDivide(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

}  // namespace

// Recursive descent; each method parses one level of precedence and returns the index of its node.
class ExpressionParser {
 public:
  using Op = Expression::Op;

  ExpressionParser(Expression* out, Expression::Resolver resolve)
      : out_(out), text_(*out->text_), resolve_(resolve) {}

  absl::StatusOr<int> ParseAll() {
    ASSIGN_OR_RETURN(int root, Conditional());
    SkipSpace();
    if (at_ != text_.size()) return Unexpected();
    return root;
  }

 private:
  struct Depth {
    explicit Depth(int* depth) : depth(depth) { ++*depth; }
    ~Depth() { --*depth; }
    int* depth;
  };

  absl::Status Fault(absl::string_view what) const {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_EXPRESSION",
                 absl::StrCat("expression '", text_, "', column ", at_ + 1, ": ", what));
  }
  absl::Status Unexpected() const {
    if (at_ >= text_.size()) return Fault("ends too early");
    return Fault(absl::StrCat("'", text_.substr(at_, 1), "' is not expected here"));
  }

  void SkipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool IsWordChar(size_t at) const {
    return at < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at])) || text_[at] == '_');
  }
  bool TakeSymbol(absl::string_view symbol) {
    SkipSpace();
    if (!absl::StartsWith(text_.substr(at_), symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  bool PeekWord(absl::string_view word) {
    SkipSpace();
    return absl::StartsWith(text_.substr(at_), word) && !IsWordChar(at_ + word.size());
  }
  bool TakeWord(absl::string_view word) {
    if (!PeekWord(word)) return false;
    at_ += word.size();
    return true;
  }

  int Add(Expression::Node node) {
    out_->nodes_.push_back(node);
    return static_cast<int>(out_->nodes_.size()) - 1;
  }
  int Add(Op op, int a, int b = -1, int c = -1) {
    Expression::Node node;
    node.op = op;
    node.a = a;
    node.b = b;
    node.c = c;
    return Add(node);
  }
  int Constant(ExpressionValue value) {
    Expression::Node node;
    node.constant = value;
    return Add(node);
  }

  absl::StatusOr<int> Conditional() {
    Depth depth(&depth_);
    if (depth_ > kMaxDepth) return Fault("nested too deep");
    ASSIGN_OR_RETURN(int value, Or());
    if (!TakeWord("if")) return value;
    ASSIGN_OR_RETURN(int condition, Or());
    if (!TakeWord("else")) return Fault("'else' is expected here");
    ASSIGN_OR_RETURN(int otherwise, Conditional());
    return Add(Op::kConditional, condition, value, otherwise);
  }
  absl::StatusOr<int> Or() {
    ASSIGN_OR_RETURN(int left, And());
    while (TakeWord("or")) {
      ASSIGN_OR_RETURN(int right, And());
      left = Add(Op::kOr, left, right);
    }
    return left;
  }
  absl::StatusOr<int> And() {
    ASSIGN_OR_RETURN(int left, Not());
    while (TakeWord("and")) {
      ASSIGN_OR_RETURN(int right, Not());
      left = Add(Op::kAnd, left, right);
    }
    return left;
  }
  absl::StatusOr<int> Not() {
    Depth depth(&depth_);
    if (depth_ > kMaxDepth) return Fault("nested too deep");
    if (!TakeWord("not")) return Comparison();
    ASSIGN_OR_RETURN(int operand, Not());
    return Add(Op::kNot, operand);
  }
  std::optional<Op> ComparisonOperator() {
    if (TakeSymbol("<=")) return Op::kLessEqual;
    if (TakeSymbol(">=")) return Op::kGreaterEqual;
    if (TakeSymbol("==")) return Op::kEqual;
    if (TakeSymbol("!=")) return Op::kNotEqual;
    if (TakeSymbol("<")) return Op::kLess;
    if (TakeSymbol(">")) return Op::kGreater;
    return std::nullopt;
  }
  absl::StatusOr<int> Comparison() {
    ASSIGN_OR_RETURN(int left, Sum());
    if (TakeWord("is")) {
      bool negated = TakeWord("not");
      if (!TakeWord("None")) return Fault("only 'is None' and 'is not None' are understood");
      return Add(negated ? Op::kIsNotNone : Op::kIsNone, left);
    }
    std::optional<Op> op = ComparisonOperator();
    if (!op) return left;
    ASSIGN_OR_RETURN(int right, Sum());
    if (ComparisonOperator()) return Fault("comparisons cannot be chained; join them with 'and'");
    return Add(*op, left, right);
  }
  absl::StatusOr<int> Sum() {
    ASSIGN_OR_RETURN(int left, Product());
    while (true) {
      Op op;
      if (TakeSymbol("+"))
        op = Op::kAdd;
      else if (TakeSymbol("-"))
        op = Op::kSubtract;
      else
        return left;
      ASSIGN_OR_RETURN(int right, Product());
      left = Add(op, left, right);
    }
  }
  absl::StatusOr<int> Product() {
    ASSIGN_OR_RETURN(int left, Unary());
    while (true) {
      Op op;
      SkipSpace();
      if (absl::StartsWith(text_.substr(at_), "**")) return left;
      if (TakeSymbol("*"))
        op = Op::kMultiply;
      else if (TakeSymbol("//") || TakeSymbol("/"))
        op = Op::kDivide;
      else if (TakeSymbol("%"))
        op = Op::kRemainder;
      else
        return left;
      ASSIGN_OR_RETURN(int right, Unary());
      left = Add(op, left, right);
    }
  }
  absl::StatusOr<int> Unary() {
    Depth depth(&depth_);
    if (depth_ > kMaxDepth) return Fault("nested too deep");
    if (TakeSymbol("-")) {
      ASSIGN_OR_RETURN(int operand, Unary());
      return Add(Op::kNegate, operand);
    }
    if (TakeSymbol("+")) return Unary();
    ASSIGN_OR_RETURN(int base, Primary());
    if (!TakeSymbol("**")) return base;
    ASSIGN_OR_RETURN(int exponent, Unary());
    return Add(Op::kPower, base, exponent);
  }
  absl::StatusOr<int> Primary() {
    SkipSpace();
    if (at_ >= text_.size()) return Unexpected();
    char c = text_[at_];
    if (c == '(') {
      ++at_;
      ASSIGN_OR_RETURN(int inner, Conditional());
      if (!TakeSymbol(")")) return Fault("')' is expected here");
      return inner;
    }
    if (c == '"' || c == '\'') {
      ASSIGN_OR_RETURN(absl::string_view text, String());
      return Constant(ExpressionValue::Text(text));
    }
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return Number();
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') return Word();
    return Unexpected();
  }
  absl::StatusOr<absl::string_view> String() {
    char quote = text_[at_];
    size_t end = text_.find(quote, at_ + 1);
    if (end == absl::string_view::npos) return Fault("the string has no end");
    absl::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (absl::StrContains(inside, "\\")) return Fault("escapes in strings are not understood");
    at_ = end + 1;
    return inside;
  }
  absl::StatusOr<int> Number() {
    size_t start = at_;
    while (IsWordChar(at_) || (at_ < text_.size() && text_[at_] == '.') ||
           (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-') && at_ > start &&
            (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') &&
            !absl::StartsWith(text_.substr(start), "0x")))
      ++at_;
    std::string digits;
    for (char c : text_.substr(start, at_ - start))
      if (c != '_') digits += c;
    int64_t integer = 0;
    if (absl::StartsWith(digits, "0x") && digits.size() > 2) {
      char* end = nullptr;
      errno = 0;
      unsigned long long value = std::strtoull(digits.c_str() + 2, &end, 16);
      if (*end == '\0' && errno == 0 &&
          value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return Constant(ExpressionValue::Integer(static_cast<int64_t>(value)));
    } else if (absl::SimpleAtoi(digits, &integer)) {
      return Constant(ExpressionValue::Integer(integer));
    } else {
      double real = 0;
      bool is_real = digits.find_first_of(".eE") != std::string::npos;
      if (is_real && absl::SimpleAtod(digits, &real)) return Constant(ExpressionValue::Real(real));
    }
    at_ = start;
    return Fault(absl::StrCat("'", digits, "' is no number of 64 bits"));
  }
  absl::StatusOr<int> Word() {
    size_t start = at_;
    while (IsWordChar(at_) || (at_ < text_.size() && text_[at_] == '.' && IsWordChar(at_ + 1)))
      ++at_;
    absl::string_view word = text_.substr(start, at_ - start);
    if (word == "True") return Constant(ExpressionValue::Boolean(true));
    if (word == "False") return Constant(ExpressionValue::Boolean(false));
    if (word == "None") return Constant(ExpressionValue::None());
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '(') return Call(word, start);
    if (at_ < text_.size() && text_[at_] == '[') {
      ++at_;
      SkipSpace();
      if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\''))
        return Fault("a name in quotes is expected here");
      ASSIGN_OR_RETURN(word, String());
      if (!TakeSymbol("]")) return Fault("']' is expected here");
    }
    absl::StatusOr<int> name = resolve_(word);
    if (!name.ok()) {
      at_ = start;
      return Fault(name.status().message());
    }
    Expression::Node node;
    node.op = Op::kName;
    node.name = *name;
    return Add(node);
  }
  absl::StatusOr<int> Call(absl::string_view function, size_t start) {
    ++at_;
    std::vector<int> operands;
    while (!TakeSymbol(")")) {
      if (!operands.empty() && !TakeSymbol(",")) return Fault("',' or ')' is expected here");
      if (TakeSymbol(")")) break;
      ASSIGN_OR_RETURN(int operand, Conditional());
      operands.push_back(operand);
    }
    absl::string_view name = function;
    for (absl::string_view prefix :
         {absl::string_view("triton.language."), absl::string_view("triton."),
          absl::string_view("tl."), absl::string_view("math.")})
      if (absl::StartsWith(name, prefix)) {
        name.remove_prefix(prefix.size());
        break;
      }
    auto take = [&](size_t count) { return operands.size() == count; };
    if (name == "cdiv" && take(2)) return Add(Op::kCdiv, operands[0], operands[1]);
    if (name == "next_power_of_2" && take(1)) return Add(Op::kNextPowerOf2, operands[0]);
    if (name == "abs" && take(1)) return Add(Op::kAbs, operands[0]);
    if ((name == "bool") && take(1)) return Add(Op::kNot, Add(Op::kNot, operands[0]));
    if ((name == "min" || name == "max") && operands.size() >= 2) {
      int result = operands[0];
      for (size_t i = 1; i < operands.size(); ++i)
        result = Add(name == "min" ? Op::kMin : Op::kMax, result, operands[i]);
      return result;
    }
    at_ = start;
    return Fault(absl::StrCat(
        "'", function, "' with ", operands.size(),
        " arguments is not understood; there are min, max, abs, cdiv and next_power_of_2"));
  }

  Expression* out_;
  absl::string_view text_;
  Expression::Resolver resolve_;
  size_t at_ = 0;
  int depth_ = 0;
};

absl::StatusOr<Expression> Expression::Parse(absl::string_view text, Resolver resolve) {
  if (text.size() > kMaxTextBytes)
    return Error(
        absl::StatusCode::kInvalidArgument, "BAD_EXPRESSION",
        absl::StrCat("an expression of ", text.size(), " bytes; the limit is ", kMaxTextBytes));
  Expression expression;
  expression.text_ = std::make_shared<const std::string>(text);
  ExpressionParser parser(&expression, resolve);
  ASSIGN_OR_RETURN(expression.root_, parser.ParseAll());
  return expression;
}

absl::Status Expression::Fault(absl::StatusCode code, absl::string_view what) const {
  return Error(code, "BAD_EXPRESSION", absl::StrCat("expression '", *text_, "': ", what));
}

absl::StatusOr<ExpressionValue> Expression::Evaluate(Lookup lookup) const {
  return Evaluate(root_, lookup);
}

absl::StatusOr<ExpressionValue> Expression::Evaluate(int index, Lookup lookup) const {
  const Node& node = nodes_[index];
  switch (node.op) {
    case Op::kConstant:
      return node.constant;
    case Op::kName:
      return lookup(node.name);
    case Op::kAnd:
    case Op::kOr: {
      ASSIGN_OR_RETURN(ExpressionValue left, Evaluate(node.a, lookup));
      if (Truthy(left) == (node.op == Op::kOr)) return left;
      return Evaluate(node.b, lookup);
    }
    case Op::kConditional: {
      ASSIGN_OR_RETURN(ExpressionValue condition, Evaluate(node.a, lookup));
      return Evaluate(Truthy(condition) ? node.b : node.c, lookup);
    }
    default:
      break;
  }
  ASSIGN_OR_RETURN(ExpressionValue a, Evaluate(node.a, lookup));
  switch (node.op) {
    case Op::kNot:
      return ExpressionValue::Boolean(!Truthy(a));
    case Op::kIsNone:
      return ExpressionValue::Boolean(a.kind == Kind::kNone);
    case Op::kIsNotNone:
      return ExpressionValue::Boolean(a.kind != Kind::kNone);
    case Op::kNegate:
      return Arithmetic(Op::kSubtract, ExpressionValue::Integer(0), a);
    case Op::kAbs:
      if (a.numeric() && AsReal(a) < 0)
        return Arithmetic(Op::kSubtract, ExpressionValue::Integer(0), a);
      return a;
    case Op::kNextPowerOf2: {
      if (!a.integral())
        return Fault(absl::StatusCode::kInvalidArgument, "next_power_of_2 wants an integer");
      if (a.integer <= 0) return ExpressionValue::Integer(0);
      int64_t power = 1;
      while (power < a.integer) {
        if (power > std::numeric_limits<int64_t>::max() / 2)
          return Fault(absl::StatusCode::kOutOfRange, "overflow of 64 bits");
        power *= 2;
      }
      return ExpressionValue::Integer(power);
    }
    default:
      break;
  }
  ASSIGN_OR_RETURN(ExpressionValue b, Evaluate(node.b, lookup));
  switch (node.op) {
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kEqual:
    case Op::kNotEqual:
      return Compare(node.op, a, b);
    case Op::kMin:
    case Op::kMax: {
      if (!a.numeric() || !b.numeric())
        return Fault(absl::StatusCode::kInvalidArgument, "min and max want numbers");
      bool less = a.integral() && b.integral() ? b.integer < a.integer : AsReal(b) < AsReal(a);
      return less == (node.op == Op::kMin) ? b : a;
    }
    default:
      return Arithmetic(node.op, a, b);
  }
}

absl::StatusOr<ExpressionValue> Expression::Compare(Op op, ExpressionValue a,
                                                    ExpressionValue b) const {
  if (a.kind == Kind::kOpaque || b.kind == Kind::kOpaque)
    return Fault(absl::StatusCode::kInvalidArgument, "a tensor has no value to compare");
  bool comparable = (a.numeric() && b.numeric()) || a.kind == b.kind;
  if (op == Op::kEqual || op == Op::kNotEqual) {
    bool equal = false;
    if (a.integral() && b.integral())
      equal = a.integer == b.integer;
    else if (a.numeric() && b.numeric())
      equal = AsReal(a) == AsReal(b);
    else if (comparable)
      equal = a.kind == Kind::kText ? a.text == b.text : true;
    return ExpressionValue::Boolean(equal == (op == Op::kEqual));
  }
  if (!a.numeric() || !b.numeric())
    return Fault(absl::StatusCode::kInvalidArgument, "only numbers have an order");
  int order;
  if (a.integral() && b.integral())
    order = a.integer < b.integer ? -1 : a.integer > b.integer;
  else
    order = AsReal(a) < AsReal(b) ? -1 : AsReal(a) > AsReal(b);
  switch (op) {
    case Op::kLess:
      return ExpressionValue::Boolean(order < 0);
    case Op::kLessEqual:
      return ExpressionValue::Boolean(order <= 0);
    case Op::kGreater:
      return ExpressionValue::Boolean(order > 0);
    default:
      return ExpressionValue::Boolean(order >= 0);
  }
}

absl::StatusOr<ExpressionValue> Expression::Arithmetic(Op op, ExpressionValue a,
                                                       ExpressionValue b) const {
  if (!a.numeric() || !b.numeric())
    return Fault(absl::StatusCode::kInvalidArgument,
                 "arithmetic wants numbers, not tensors, strings or None");
  if (!a.integral() || !b.integral()) {
    double x = AsReal(a), y = AsReal(b);
    switch (op) {
      case Op::kAdd:
        return ExpressionValue::Real(x + y);
      case Op::kSubtract:
        return ExpressionValue::Real(x - y);
      case Op::kMultiply:
        return ExpressionValue::Real(x * y);
      case Op::kPower:
        return ExpressionValue::Real(std::pow(x, y));
      case Op::kDivide:
        if (y == 0) return Fault(absl::StatusCode::kInvalidArgument, "division by zero");
        return ExpressionValue::Real(x / y);
      default:
        return Fault(absl::StatusCode::kInvalidArgument, "this wants integers");
    }
  }
  int64_t x = a.integer, y = b.integer, result = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(x, y, &result);
      break;
    case Op::kSubtract:
      overflow = __builtin_sub_overflow(x, y, &result);
      break;
    case Op::kMultiply:
      overflow = __builtin_mul_overflow(x, y, &result);
      break;
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kCdiv: {
      if (y == 0) return Fault(absl::StatusCode::kInvalidArgument, "division by zero");
      if (x == std::numeric_limits<int64_t>::min() && y == -1) {
        overflow = op != Op::kRemainder;
        break;
      }
      int64_t quotient = FloorDivide(x, y);
      if (op == Op::kDivide)
        result = quotient;
      else if (op == Op::kRemainder)
        result = x - quotient * y;
      else
        result = quotient + (x % y != 0 ? 1 : 0);
      break;
    }
    case Op::kPower: {
      if (y < 0)
        return Fault(absl::StatusCode::kInvalidArgument, "a negative exponent gives no integer");
      result = 1;
      for (int64_t i = 0; i < y && !overflow && !(x == 0 || x == 1); ++i)
        overflow = __builtin_mul_overflow(result, x, &result) || (i > 64 && x != -1);
      if (y > 0 && (x == 0 || x == 1)) result = x;
      if (x == -1) {
        overflow = false;
        result = y % 2 == 0 ? 1 : -1;
      }
      break;
    }
    default:
      return Fault(absl::StatusCode::kInternal, "an operator without arithmetic");
  }
  if (overflow) return Fault(absl::StatusCode::kOutOfRange, "overflow of 64 bits");
  return ExpressionValue::Integer(result);
}

}  // namespace tessera::server
