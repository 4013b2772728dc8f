// Small expressions over a launch's arguments: grid extents, and the bodies of heuristics.
//
// Grammar (a subset of Python): integers, names, + - * / // % ** ( ), comparisons, `a if c else b`,
// and, or, not, is None, min, max, abs, cdiv, next_power_of_2 (also as triton.cdiv, tl.cdiv ...),
// args["NAME"] for NAME; in heuristics strings, floats, True, False, None too. `/` and `//` both
// floor, `%` has the divisor's sign. 64-bit: overflow and division by zero are errors. Parsed once,
// evaluated per launch without allocation.
#ifndef TESSERA_SERVER_LAUNCH_EXPRESSION_H_
#define TESSERA_SERVER_LAUNCH_EXPRESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::server {

struct ExpressionValue {
  enum class Kind : uint8_t { kInteger, kBoolean, kReal, kText, kNone, kOpaque };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also booleans: 0 or 1
  double real = 0;
  absl::string_view text;  // lives elsewhere

  static ExpressionValue Integer(int64_t value) { return {Kind::kInteger, value, 0, {}}; }
  static ExpressionValue Boolean(bool value) { return {Kind::kBoolean, value, 0, {}}; }
  static ExpressionValue Real(double value) { return {Kind::kReal, 0, value, {}}; }
  static ExpressionValue Text(absl::string_view value) { return {Kind::kText, 0, 0, value}; }
  static ExpressionValue None() { return {}; }
  // Something that is there and has no value here: a tensor. Only `is None` may be asked of it.
  static ExpressionValue Opaque() { return {Kind::kOpaque, 0, 0, {}}; }

  bool numeric() const {
    return kind == Kind::kInteger || kind == Kind::kBoolean || kind == Kind::kReal;
  }
  bool integral() const { return kind == Kind::kInteger || kind == Kind::kBoolean; }
};

class Expression {
 public:
  // What a name stands for: a number that Evaluate's lookup understands. An error says which names
  // there are.
  using Resolver = absl::FunctionRef<absl::StatusOr<int>(absl::string_view name)>;
  using Lookup = absl::FunctionRef<absl::StatusOr<ExpressionValue>(int name)>;

  // INVALID_ARGUMENT names the column; texts over 1024 bytes or nested deeper than 64 are refused.
  static absl::StatusOr<Expression> Parse(absl::string_view text, Resolver resolve);

  // INVALID_ARGUMENT: wrong kinds, division by zero. OUT_OF_RANGE: overflow.
  absl::StatusOr<ExpressionValue> Evaluate(Lookup lookup) const;

  const std::string& text() const { return *text_; }

 private:
  friend class ExpressionParser;
  enum class Op : uint8_t {
    kConstant,
    kName,
    kNegate,
    kNot,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kRemainder,
    kPower,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kEqual,
    kNotEqual,
    kIsNone,
    kIsNotNone,
    kAnd,
    kOr,
    kConditional,
    kMin,
    kMax,
    kAbs,
    kCdiv,
    kNextPowerOf2,
  };
  struct Node {
    Op op = Op::kConstant;
    int a = -1, b = -1, c = -1;  // operands, as indices of nodes_
    int name = -1;
    ExpressionValue constant;
  };

  absl::StatusOr<ExpressionValue> Evaluate(int node, Lookup lookup) const;
  absl::StatusOr<ExpressionValue> Arithmetic(Op op, ExpressionValue a, ExpressionValue b) const;
  absl::StatusOr<ExpressionValue> Compare(Op op, ExpressionValue a, ExpressionValue b) const;
  absl::Status Fault(absl::StatusCode code, absl::string_view what) const;

  std::shared_ptr<const std::string> text_;  // string constants point into it
  std::vector<Node> nodes_;
  int root_ = -1;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_EXPRESSION_H_
