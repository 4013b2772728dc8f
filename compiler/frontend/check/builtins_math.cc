// Elementwise functions, and the small ones made of others.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;

using Emit = std::function<Value(Emitter&, const Arguments&)>;

bool WantsFloat32(Emitter& e, const Value& x, absl::string_view function) {
  if (x.type.element.is(DType::kFp32) || x.type.element.is(DType::kFp64)) return true;
  e.Error(absl::StrCat(function, " wants float32 or float64, not ", Describe(x), "; convert with .to(tl.float32)"));
  return false;
}

// A function of one float32 or float64 operand.
template <typename Op>
Emit FloatUnary() {
  return [](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "the operand");
    Emitter::At at(e, args.Range("x"));
    if (e.failed() || !WantsFloat32(e, x, args.function)) return {};
    Emitter::At call(e, args.call);
    return Value::Tensor(e.Make<Op>(x.ir), x.type);
  };
}

Value Float32IfBf16(Emitter& e, const Value& x) {
  return x.is_tensor() && x.type.element.is(DType::kBf16) ? e.Cast(x, {DType::kFp32, false}) : x;
}

bool PropagatesNan(Emitter& e, const Arguments& args) {
  const Value& value = args["propagate_nan"];
  if (value.is_none()) return false;
  std::string text = value.is_constant() ? Repr(value.constant) : "";
  return text.find("ALL") != std::string::npos || text == "True";
}

// maximum and minimum: literals are strong here.
Value MinMax(Emitter& e, bool is_max, const Value& a, const Value& b, bool propagate_nan) {
  Value x = Float32IfBf16(e, e.ToTensor(a, "an operand")), y = Float32IfBf16(e, e.ToTensor(b, "an operand"));
  if (!e.Unify(&x, &y)) return {};
  return Value::Tensor(e.MinMax(is_max, x.ir, y.ir, x.type.element, propagate_nan), x.type);
}

Emit MaximumMinimum(bool is_max) {
  return [is_max](Emitter& e, const Arguments& args) {
    return MinMax(e, is_max, args["x"], args["y"], PropagatesNan(e, args));
  };
}

// Python's max and min, of two or more values or of one tuple; constants have been dealt with before.
Emit PythonMinMax(bool is_max) {
  return [is_max](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> values = *args["values"].items;
    if (values.size() == 1 && values[0].is_tuple()) values = std::vector<Value>(*values[0].items);
    if (values.empty() || (values.size() == 1 && values[0].is_block()))
      return e.Error(absl::StrCat("Python's ", args.function, " takes two or more values; for the extreme of a block use tl.",
                                  args.function, "(x, axis)"));
    Value result = values[0];
    for (size_t i = 1; i < values.size() && !e.failed(); ++i) result = MinMax(e, is_max, result, values[i], false);
    return result;
  };
}

Value Clamp(Emitter& e, const Arguments& args) {
  Value x = Float32IfBf16(e, e.ToTensor(args["x"], "x"));
  Value low = Float32IfBf16(e, e.ToTensor(args["min"], "min")), high = Float32IfBf16(e, e.ToTensor(args["max"], "max"));
  if (!e.Unify(&low, &high) || !e.Unify(&x, &low) || !e.Unify(&x, &high)) return {};
  low = e.Cast(low, x.type.element);
  if (!e.UnifyShapes(&x, &low)) return {};
  if (!x.type.element.is_float())
    return e.Error(absl::StrCat("tl.clamp wants floats, not ", Describe(x), "; use tl.minimum and tl.maximum"));
  bool nan = PropagatesNan(e, args);
  mlir::Value lower = e.MinMax(true, x.ir, low.ir, x.type.element, nan);
  return Value::Tensor(e.MinMax(false, lower, high.ir, x.type.element, nan), x.type);
}

Value Abs(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "the operand");
  if (e.failed() || !e.Computes(x)) return {};
  const ElementType& element = x.type.element;
  if (element.is_float()) return Value::Tensor(e.Make<math::AbsFOp>(x.ir), x.type);
  if (element.is_signed()) return Value::Tensor(e.Make<math::AbsIOp>(x.ir), x.type);
  if (element.is_int()) return x;
  return e.Error(absl::StrCat("tl.abs wants numbers, not ", Describe(x)));
}

Value Where(Emitter& e, const Arguments& args) { return e.Select(args["condition"], args["x"], args["y"]); }

Value Fma(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "x"), y = e.ToTensor(args["y"], "y"), z = e.ToTensor(args["z"], "z");
  if (!e.Unify(&x, &y) || !e.Unify(&x, &z) || !e.Unify(&y, &z) || !e.Unify(&x, &z)) return {};
  if (!x.type.element.is_float()) return e.Error(absl::StrCat("tl.fma wants floats, not ", Describe(x)));
  return Value::Tensor(e.Make<math::FmaOp>(x.ir, y.ir, z.ir), x.type);
}

Value UMulHi(Emitter& e, const Arguments& args) {
  Value x = args["x"], y = args["y"];
  if (x.is_number() && y.is_number()) x = e.ToTensor(x);
  if (!e.Unify(&x, &y)) return {};
  if (!x.type.element.is_int() || x.type.element.bits() < 32)
    return e.Error(absl::StrCat("tl.umulhi wants 32- or 64-bit integers, not ", Describe(x)));
  return Value::Tensor(e.Make<tile::MulHiUOp>(x.ir, y.ir), x.type);
}

// Targets with faster, less exact instructions keep away from them.
void RoundToNearest(mlir::Value value) {
  if (mlir::Operation* op = value.getDefiningOp()) op->setAttr("tile.round_nearest", mlir::UnitAttr::get(op->getContext()));
}

Value FDiv(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "x"), y = e.ToTensor(args["y"], "y");
  if (!e.Unify(&x, &y)) return {};
  if (!x.type.element.is_float()) return e.Error(absl::StrCat(args.function, " wants floats, not ", Describe(x)));
  mlir::Value quotient = e.Make<arith::DivFOp>(x.ir, y.ir);
  std::optional<bool> ieee = absl::EndsWith(args.function, "div_rn") ? true : e.ConstantBool(args, "ieee_rounding");
  if (ieee && *ieee) RoundToNearest(quotient);
  return Value::Tensor(quotient, x.type);
}

Value SqrtRn(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "the operand");
  if (e.failed() || !WantsFloat32(e, x, args.function)) return {};
  mlir::Value root = e.Make<math::SqrtOp>(x.ir);
  RoundToNearest(root);
  return Value::Tensor(root, x.type);
}

Value CDiv(Emitter& e, const Arguments& args) {
  const Value& x = args["x"];
  const Value& div = args["div"];
  return e.Binary(BinaryOp::kFloorDiv, e.Sub(e.Add(x, div), Value::Int(1)), div);
}

Value Sigmoid(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "the operand");
  if (e.failed() || !WantsFloat32(e, x, args.function)) return {};
  Value exp = Value::Tensor(e.Make<math::ExpOp>(e.Unary(UnaryOp::kNeg, x).ir), x.type);
  return e.Binary(BinaryOp::kDiv, Value::Int(1), e.Add(Value::Int(1), exp));
}

Value CastTo(Emitter& e, const Arguments& args) {
  std::optional<ElementType> type = e.ElementTypeOf(args["dtype"], "the type to convert to");
  std::optional<bool> bitcast = e.ConstantBool(args, "bitcast");
  std::optional<std::string> rounding = e.ConstantString(args, "fp_downcast_rounding");
  if (!type || !bitcast || !rounding) return {};
  if (!rounding->empty() && *rounding != "rtne" && *rounding != "rtz")
    return e.Error(args.Range("fp_downcast_rounding"), absl::StrCat("unknown rounding '", *rounding, "'; accepted are rtne and rtz"));
  if (*bitcast) return e.Bitcast(args["input"], *type);
  return e.Cast(args["input"], *type, *rounding == "rtz");
}

Emit Operator(BinaryOp op) {
  return [op](Emitter& e, const Arguments& args) { return e.Binary(op, args["x"], args["y"]); };
}

Emit Logical(bool is_and) {
  return [is_and](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "an operand"), y = e.ToTensor(args["y"], "an operand");
    if (e.failed()) return {};
    for (const Value* v : {&x, &y})
      if (!v->type.element.is_bool())
        return e.Error(absl::StrCat(args.function, " wants conditions (int1), not ", Describe(*v)));
    return e.LogicalAndOr(is_and, x, y);
  };
}

// The casts float(x), int(x), bool(x) of runtime scalars.
Emit PythonCast(DType dtype) {
  return [dtype](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "the operand");
    if (e.failed()) return {};
    const ElementType& from = x.type.element;
    if (dtype == DType::kFp32 && from.is(DType::kFp64)) return x;
    if (dtype == DType::kInt32 && from.is_int() && !from.is_bool()) return x;
    return e.Cast(x, {dtype, false});
  };
}

Value Swizzle2d(Emitter& e, const Arguments& args) {
  const Value &i = args["i"], &j = args["j"], &size_i = args["size_i"], &size_j = args["size_j"], &size_g = args["size_g"];
  Value linear = e.Add(e.Mul(i, size_j), j);
  Value group_size = e.Mul(size_g, size_j);
  Value first = e.Mul(e.Binary(BinaryOp::kFloorDiv, linear, group_size), size_g);
  Value rows = MinMax(e, false, e.Sub(size_i, first), size_g, false);
  Value inside = e.Binary(BinaryOp::kMod, linear, group_size);
  return Value::Tuple({e.Add(first, e.Binary(BinaryOp::kMod, inside, rows)), e.Binary(BinaryOp::kFloorDiv, inside, rows)});
}

}  // namespace

void AddMathBuiltins(BuiltinTable* t) {
  t->Add("exp", "x", FloatUnary<math::ExpOp>());
  t->Add("exp2", "x", FloatUnary<math::Exp2Op>());
  t->Add("log", "x", FloatUnary<math::LogOp>());
  t->Add("log2", "x", FloatUnary<math::Log2Op>());
  t->Add("sin", "x", FloatUnary<math::SinOp>());
  t->Add("cos", "x", FloatUnary<math::CosOp>());
  t->Add("sqrt", "x", FloatUnary<math::SqrtOp>());
  t->Add("sqrt_rn", "x", SqrtRn);
  t->Add("rsqrt", "x", FloatUnary<math::RsqrtOp>());
  t->Add("erf", "x", FloatUnary<math::ErfOp>());
  t->Add("floor", "x", FloatUnary<math::FloorOp>());
  t->Add("ceil", "x", FloatUnary<math::CeilOp>());
  t->Add("abs .abs", "x", Abs);
  t->Add("maximum", "x, y, propagate_nan=None", MaximumMinimum(true));
  t->Add("minimum", "x, y, propagate_nan=None", MaximumMinimum(false));
  t->Add(".max", "*values", PythonMinMax(true));
  t->Add(".min", "*values", PythonMinMax(false));
  t->Add("clamp", "x, min, max, propagate_nan=None", Clamp);
  t->Add("where", "condition, x, y", Where);
  t->Add("fma", "x, y, z", Fma);
  t->Add("umulhi", "x, y", UMulHi);
  t->Add("fdiv", "x, y, ieee_rounding=False", FDiv);
  t->Add("div_rn", "x, y", FDiv);
  t->Add("cdiv triton.cdiv", "x, div", CDiv);
  t->Add("sigmoid", "x", Sigmoid);
  t->Add("cast", "input, dtype, fp_downcast_rounding=None, bitcast=False", CastTo);
  t->Add("add", "x, y, sanitize_overflow=True", Operator(BinaryOp::kAdd));
  t->Add("sub", "x, y, sanitize_overflow=True", Operator(BinaryOp::kSub));
  t->Add("mul", "x, y, sanitize_overflow=True", Operator(BinaryOp::kMul));
  t->Add("logical_and", "x, y", Logical(true));
  t->Add("logical_or", "x, y", Logical(false));
  t->Add("logical_not", "x", [](Emitter& e, const Arguments& args) { return e.LogicalNot(args["x"]); });
  t->Add(".float", "x", PythonCast(DType::kFp32));
  t->Add(".int", "x", PythonCast(DType::kInt32));
  t->Add(".bool", "x", PythonCast(DType::kInt1));
  t->Add("swizzle2d", "i, j, size_i, size_j, size_g", Swizzle2d);
}

}  // namespace tessera::frontend
