// libdevice functions: through the math dialect where it has an exact counterpart, else as tile.extern.
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

namespace math = mlir::math;

using Emit = std::function<Value(Emitter&, const Arguments&)>;
using Build = mlir::Value (*)(Emitter&, const std::vector<mlir::Value>&);

// Brings the operands to one float type and shape.
bool ReadFloats(Emitter& e, const Arguments& args, std::vector<Value>* operands) {
  for (const Arguments::Entry& entry : args.entries) {
    operands->push_back(e.ToTensor(entry.value, "an operand"));
    if (e.failed()) return false;
  }
  // Twice, so that the widest type and shape reach all of them.
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 1; i < operands->size(); ++i)
      if (!e.Unify(&(*operands)[0], &(*operands)[i])) return false;
  const Type& type = (*operands)[0].type;
  if (type.element.is(DType::kFp32) || type.element.is(DType::kFp64)) return true;
  e.Error(absl::StrCat(args.function, " wants float32 or float64, not ", Describe((*operands)[0]),
                       "; convert with .to(tl.float32)"));
  return false;
}

// `symbol`: libdevice's name for fp64, "tanh"; fp32 adds an "f".
Emit Float(const char* symbol, Build build, bool returns_int = false) {
  return [=](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> operands;
    if (!ReadFloats(e, args, &operands)) return {};
    std::vector<mlir::Value> ir;
    for (const Value& operand : operands) ir.push_back(operand.ir);
    Type type = operands[0].type;
    if (build) return Value::Tensor(build(e, ir), type);
    std::string name = absl::StrCat("__nv_", symbol, type.element.is(DType::kFp32) ? "f" : "");
    if (returns_int) type.element = {DType::kInt32, false};
    return Value::Tensor(e.Create<tile::ExternOp>(e.IrType(type), mlir::ValueRange(ir), name), type);
  };
}

template <typename Op>
mlir::Value One(Emitter& e, const std::vector<mlir::Value>& v) {
  return e.Make<Op>(v[0]);
}
template <typename Op>
mlir::Value Two(Emitter& e, const std::vector<mlir::Value>& v) {
  return e.Make<Op>(v[0], v[1]);
}
template <typename Op>
mlir::Value Three(Emitter& e, const std::vector<mlir::Value>& v) {
  return e.Make<Op>(v[0], v[1], v[2]);
}

// isnan, isinf, isfinite: conditions on the bits of the value.
enum class FloatClass { kNan, kInf, kFinite };
Emit Classify(FloatClass what) {
  return [what](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> operands;
    if (!ReadFloats(e, args, &operands)) return {};
    const Value& x = operands[0];
    if (what == FloatClass::kNan) return e.Compare(CompareOp::kNe, x, x);
    Value magnitude = Value::Tensor(e.Make<math::AbsFOp>(x.ir), x.type);
    Value infinity = Value::Of(Constant::Float(std::numeric_limits<double>::infinity()));
    return e.Compare(what == FloatClass::kInf ? CompareOp::kEq : CompareOp::kLt, magnitude, infinity);
  };
}

Value SignBit(Emitter& e, const Arguments& args) {
  std::vector<Value> operands;
  if (!ReadFloats(e, args, &operands)) return {};
  ElementType bits{operands[0].type.element.is(DType::kFp32) ? DType::kInt32 : DType::kInt64, false};
  return e.Compare(CompareOp::kLt, e.Bitcast(operands[0], bits), Value::Int(0));
}

// pow(x, y) with a float y; an integer y is converted.
Value Pow(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "x"), y = args["y"];
  if (e.failed()) return {};
  if (y.is_tensor() && y.type.element.is_int()) y = e.Cast(y, x.type.element);
  Value exponent = e.ToTensor(y.is_number() ? e.Cast(y, x.type.element) : y, "y");
  if (!e.Unify(&x, &exponent)) return {};
  if (!x.type.element.is(DType::kFp32) && !x.type.element.is(DType::kFp64))
    return e.Error(absl::StrCat(args.function, " wants float32 or float64, not ", Describe(x), "; convert with .to(tl.float32)"));
  return Value::Tensor(e.Make<math::PowFOp>(x.ir, exponent.ir), x.type);
}

// Integer functions.
Emit IntegerExtern(const char* symbol32, const char* symbol64, Build build) {
  return [=](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "the operand");
    if (e.failed()) return {};
    if (!x.type.element.is_int() || x.type.element.bits() < 32)
      return e.Error(absl::StrCat(args.function, " wants 32- or 64-bit integers, not ", Describe(x)));
    if (build) {
      Value result = Value::Tensor(build(e, {x.ir}), x.type);
      return e.Cast(result, {DType::kInt32, false});
    }
    Type type = x.type.WithElement({x.type.element.bits() == 64 && symbol32 == std::string("brev") ? DType::kInt64 : DType::kInt32, false});
    std::string name = absl::StrCat("__nv_", x.type.element.bits() == 64 ? symbol64 : symbol32);
    return Value::Tensor(e.Create<tile::ExternOp>(e.IrType(type), mlir::ValueRange(x.ir), name), type);
  };
}

}  // namespace

void AddLibdeviceBuiltins(BuiltinTable* t) {
  struct Row {
    const char* name;
    int operands;
    Build build;  // null: tile.extern
    bool returns_int = false;
  };
  static const Row kRows[] = {
      {"abs", 1, One<math::AbsFOp>}, {"fabs", 1, One<math::AbsFOp>},
      {"exp", 1, One<math::ExpOp>}, {"exp2", 1, One<math::Exp2Op>}, {"expm1", 1, One<math::ExpM1Op>},
      {"log", 1, One<math::LogOp>}, {"log2", 1, One<math::Log2Op>}, {"log10", 1, One<math::Log10Op>},
      {"log1p", 1, One<math::Log1pOp>},
      {"sin", 1, One<math::SinOp>}, {"cos", 1, One<math::CosOp>}, {"tan", 1, One<math::TanOp>},
      {"sinh", 1, One<math::SinhOp>}, {"cosh", 1, One<math::CoshOp>}, {"tanh", 1, One<math::TanhOp>},
      {"asin", 1, One<math::AsinOp>}, {"acos", 1, One<math::AcosOp>}, {"atan", 1, One<math::AtanOp>},
      {"asinh", 1, One<math::AsinhOp>}, {"acosh", 1, One<math::AcoshOp>}, {"atanh", 1, One<math::AtanhOp>},
      {"atan2", 2, Two<math::Atan2Op>},
      {"sqrt", 1, One<math::SqrtOp>}, {"rsqrt", 1, One<math::RsqrtOp>}, {"cbrt", 1, One<math::CbrtOp>},
      {"floor", 1, One<math::FloorOp>}, {"ceil", 1, One<math::CeilOp>}, {"trunc", 1, One<math::TruncOp>},
      {"rint", 1, One<math::RoundEvenOp>}, {"nearbyint", 1, One<math::RoundEvenOp>}, {"round", 1, One<math::RoundOp>},
      {"erf", 1, One<math::ErfOp>},
      {"copysign", 2, Two<math::CopySignOp>}, {"fmod", 2, Two<mlir::arith::RemFOp>},
      {"fma", 3, Three<math::FmaOp>},
      {"fmax", 2, Two<mlir::arith::MaxNumFOp>}, {"fmin", 2, Two<mlir::arith::MinNumFOp>},
      {"max", 2, Two<mlir::arith::MaxNumFOp>}, {"min", 2, Two<mlir::arith::MinNumFOp>},
      {"erfc", 1, nullptr}, 
      {"exp10", 1, nullptr}, {"logb", 1, nullptr}, {"lgamma", 1, nullptr}, {"tgamma", 1, nullptr},
      {"normcdf", 1, nullptr}, {"rcbrt", 1, nullptr},
      {"j0", 1, nullptr}, {"j1", 1, nullptr}, {"y0", 1, nullptr},
      {"y1", 1, nullptr}, 
      {"hypot", 2, nullptr}, {"rhypot", 2, nullptr}, {"fdim", 2, nullptr}, {"remainder", 2, nullptr},
      {"nextafter", 2, nullptr}, {"norm3d", 3, nullptr}, {"rnorm3d", 3, nullptr},
      {"ilogb", 1, nullptr, true},
  };
  for (const Row& row : kRows) {
    const char* signature = row.operands == 1 ? "x" : row.operands == 2 ? "x, y" : "x, y, z";
    t->Add(absl::StrCat("libdevice.", row.name), signature, Float(row.name, row.build, row.returns_int));
  }
  t->Add("libdevice.pow", "x, y", Pow);
  t->Add("libdevice.isnan", "x", Classify(FloatClass::kNan));
  t->Add("libdevice.isinf", "x", Classify(FloatClass::kInf));
  t->Add("libdevice.isfinited libdevice.finitef libdevice.isfinite", "x", Classify(FloatClass::kFinite));
  t->Add("libdevice.signbit", "x", SignBit);
  t->Add("libdevice.clz", "x", IntegerExtern("clz", "clzll", One<math::CountLeadingZerosOp>));
  t->Add("libdevice.popc", "x", IntegerExtern("popc", "popcll", One<math::CtPopOp>));
  t->Add("libdevice.ffs", "x", IntegerExtern("ffs", "ffsll", nullptr));
  t->Add("libdevice.brev", "x", IntegerExtern("brev", "brevll", nullptr));
  t->Add("libdevice.fast_expf", "x", Float("exp", One<math::ExpOp>));
  t->Add("libdevice.fast_logf", "x", Float("log", One<math::LogOp>));
  t->Add("libdevice.fast_log2f", "x", Float("log2", One<math::Log2Op>));
  t->Add("libdevice.fast_sinf", "x", Float("sin", One<math::SinOp>));
  t->Add("libdevice.fast_cosf", "x", Float("cos", One<math::CosOp>));
  t->Add("libdevice.fast_tanhf", "x", Float("tanh", One<math::TanhOp>));
  t->Add("libdevice.fast_powf", "x, y", Pow);
  t->Add("libdevice.fast_tanf", "x", Float("tan", One<math::TanOp>));
  t->Add("libdevice.fast_log10f", "x", Float("log10", One<math::Log10Op>));
  t->Add("libdevice.fast_exp10f", "x", Float("exp10", nullptr));
  t->Add("log1p", "x", Float("log1p", One<math::Log1pOp>));
  t->Add("tanh", "x", Float("tanh", One<math::TanhOp>));
}

}  // namespace tessera::frontend
