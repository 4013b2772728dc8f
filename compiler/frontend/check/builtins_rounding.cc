// libdevice's arithmetic and conversions with a rounding of their own (_rn, _rz, _rd, _ru), and its bit functions.
//
// A directed result is the one rounded to nearest, moved by one unit where the rest that was rounded away says so. The
// rest is exact but for underflow and overflow: a fused multiply-add gives it for products, quotients and roots, the
// error of an addition for sums.
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

constexpr ElementType kInt32{DType::kInt32, false}, kUint32{DType::kUint32, false}, kInt64{DType::kInt64, false},
    kUint64{DType::kUint64, false}, kFloat32{DType::kFp32, false}, kFloat64{DType::kFp64, false};

enum class Round { kNearest, kZero, kDown, kUp };
constexpr std::pair<const char*, Round> kRounds[] = {
    {"rn", Round::kNearest}, {"rz", Round::kZero}, {"rd", Round::kDown}, {"ru", Round::kUp}};

Value Number(double x) { return Value::Of(Constant::Float(x)); }

Value MakeFma(Emitter& e, const Value& x, const Value& y, const Value& z) {
  return Value::Tensor(e.Make<math::FmaOp>(x.ir, y.ir, z.ir), x.type);
}

// The neighbour of `x` above (`step` 1) or below (-1); of zero, the least number of that sign.
Value Neighbour(Emitter& e, const Value& x, int step) {
  ElementType integer = x.type.element.is(DType::kFp32) ? kInt32 : kInt64;
  Value bits = e.Bitcast(x, integer);
  Value away = e.Compare(step > 0 ? CompareOp::kGt : CompareOp::kLt, x, Number(0));
  Value moved = e.Add(bits, e.Cast(e.Select(away, Value::Int(1), Value::Int(-1)), integer));
  Value least = e.Bitcast(e.Cast(Number(step > 0 ? 5e-324 : -5e-324), kFloat64), kInt64);
  if (integer == kInt32) least = e.Cast(step > 0 ? Value::Int(1) : Value::Int(INT32_MIN + 1), kInt32);
  return e.Bitcast(e.Select(e.Compare(CompareOp::kEq, x, Number(0)), least, moved), x.type.element);
}

// `nearest` is rounded to nearest; the sign of `rest` is that of the exact result less `nearest`.
Value Directed(Emitter& e, Round round, const Value& nearest, const Value& rest) {
  if (e.failed() || round == Round::kNearest) return nearest;
  Value zero = e.Cast(Number(0), rest.type.element);
  Value above = e.Compare(CompareOp::kGt, rest, zero), below = e.Compare(CompareOp::kLt, rest, zero);
  if (round == Round::kZero) {  // down for positive results, up for negative ones
    Value positive = e.Compare(CompareOp::kGt, nearest, Number(0)), negative = e.Compare(CompareOp::kLt, nearest, Number(0));
    below = e.LogicalAndOr(true, below, positive);
    above = e.LogicalAndOr(true, above, negative);
  }
  Value result = nearest;
  if (round != Round::kUp) result = e.Select(below, Neighbour(e, nearest, -1), result);
  if (round != Round::kDown) result = e.Select(above, Neighbour(e, nearest, 1), result);
  return result;
}

// x + y = sum + rest, exactly.
Value RestOfSum(Emitter& e, const Value& x, const Value& y, const Value& sum) {
  Value part = e.Sub(sum, x);
  return e.Add(e.Sub(x, e.Sub(sum, part)), e.Sub(y, part));
}

bool ReadFloats(Emitter& e, const Arguments& args, std::vector<Value>* x) {
  for (const Arguments::Entry& entry : args.entries) x->push_back(e.ToTensor(entry.value, "an operand"));
  for (int pass = 0; pass < 2 && !e.failed(); ++pass)
    for (size_t i = 1; i < x->size(); ++i)
      if (!e.Unify(&(*x)[0], &(*x)[i])) return false;
  if (e.failed()) return false;
  if ((*x)[0].type.element.is(DType::kFp32) || (*x)[0].type.element.is(DType::kFp64)) return true;
  e.Error(absl::StrCat(args.function, " wants float32 or float64, not ", Describe((*x)[0]), "; convert with .to(tl.float32)"));
  return false;
}

enum class Arithmetic { kAdd, kSub, kMul, kDiv, kReciprocal, kSqrt, kRsqrt, kFma };

Emit Rounded(Arithmetic op, Round round) {
  return [op, round](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> x;
    if (!ReadFloats(e, args, &x)) return {};
    const Type type = x[0].type;
    auto tensor = [&](mlir::Value ir) { return Value::Tensor(ir, type); };
    // Targets with faster, less exact instructions keep away from them.
    auto exact = [&](mlir::Value ir) {
      if (mlir::Operation* op = ir.getDefiningOp()) op->setAttr("tile.round_nearest", e.builder().getUnitAttr());
      return tensor(ir);
    };
    auto minus = [&](const Value& v) { return tensor(e.Make<arith::NegFOp>(v.ir)); };
    if (op == Arithmetic::kSub) x[1] = minus(x[1]);
    if (op == Arithmetic::kReciprocal) x.insert(x.begin(), tensor(e.IrConstant(Constant::Float(1), type)));
    switch (op) {
      case Arithmetic::kAdd:
      case Arithmetic::kSub: {
        Value sum = e.Add(x[0], x[1]);
        return Directed(e, round, sum, RestOfSum(e, x[0], x[1], sum));
      }
      case Arithmetic::kMul: {
        if (round == Round::kNearest)  // written as a fused operation, so that nothing else fuses with it
          return MakeFma(e, x[0], x[1], tensor(e.IrConstant(Constant::Float(-0.0), type)));
        Value product = e.Mul(x[0], x[1]);
        return Directed(e, round, product, MakeFma(e, x[0], x[1], minus(product)));
      }
      case Arithmetic::kDiv:
      case Arithmetic::kReciprocal: {
        Value quotient = exact(e.Make<arith::DivFOp>(x[0].ir, x[1].ir));
        Value rest = MakeFma(e, minus(quotient), x[1], x[0]);  // of the numerator
        Value flipped = e.Compare(CompareOp::kLt, x[1], Number(0));
        return Directed(e, round, quotient, e.Select(flipped, minus(rest), rest));
      }
      case Arithmetic::kSqrt: {
        Value root = exact(e.Make<math::SqrtOp>(x[0].ir));
        return Directed(e, round, root, MakeFma(e, minus(root), root, x[0]));
      }
      case Arithmetic::kRsqrt: return tensor(e.Make<math::RsqrtOp>(x[0].ir));
      case Arithmetic::kFma: {
        Value nearest = MakeFma(e, x[0], x[1], x[2]);
        if (round == Round::kNearest) return nearest;
        if (type.element.is(DType::kFp32)) {  // fp64 holds the product
          Value a = e.Cast(x[0], kFloat64), b = e.Cast(x[1], kFloat64), c = e.Cast(x[2], kFloat64);
          Value product = e.Mul(a, b), sum = e.Add(product, c);
          Value rest = e.Add(e.Sub(sum, e.Cast(nearest, kFloat64)), RestOfSum(e, product, c, sum));
          return Directed(e, round, nearest, rest);
        }
        // Written as a fused operation, so that nothing else fuses with it.
        Value product = MakeFma(e, x[0], x[1], tensor(e.IrConstant(Constant::Float(-0.0), type)));
        Value low = MakeFma(e, x[0], x[1], minus(product));
        Value sum = e.Add(product, x[2]);
        Value rest = e.Add(e.Sub(sum, nearest), RestOfSum(e, product, x[2], sum));
        return Directed(e, round, nearest, e.Add(rest, low));
      }
    }
    return {};
  };
}

//===-- conversions -----------------------------------------------------------------------------------===//

// Float to integer: a rounding to a whole number, then a conversion that saturates.
Emit ToInteger(Round round, ElementType to, bool half_away = false) {
  return [=](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> x;
    if (!ReadFloats(e, args, &x)) return {};
    mlir::Value ir = x[0].ir;
    if (half_away) ir = e.Make<math::RoundOp>(ir);
    else if (round == Round::kNearest) ir = e.Make<math::RoundEvenOp>(ir);
    else if (round == Round::kDown) ir = e.Make<math::FloorOp>(ir);
    else if (round == Round::kUp) ir = e.Make<math::CeilOp>(ir);
    return e.Cast(Value::Tensor(ir, x[0].type), to);
  };
}

// To float32 from what float64 holds exactly, or to float64.
Emit ToFloat(Round round, ElementType from, ElementType to) {
  return [=](Emitter& e, const Arguments& args) -> Value {
    Value x = e.Cast(args["x"], from);
    if (e.failed()) return {};
    if (round == Round::kNearest) return e.Cast(x, to);
    Value exact = e.Cast(x, kFloat64);
    Value nearest = e.Cast(exact, kFloat32);
    return Directed(e, round, nearest, e.Cast(e.Sub(exact, e.Cast(nearest, kFloat64)), kFloat32));
  };
}

Emit Reinterpret(ElementType from, ElementType to) {
  return [=](Emitter& e, const Arguments& args) { return e.Bitcast(e.Cast(args["x"], from), to); };
}

Emit HalfOfDouble(int shift) {
  return [shift](Emitter& e, const Arguments& args) {
    Value bits = e.Bitcast(e.Cast(args["x"], kFloat64), kUint64);
    return e.Cast(e.Binary(BinaryOp::kShr, bits, Value::Int(shift)), kInt32);
  };
}

Value HiLoToDouble(Emitter& e, const Arguments& args) {
  Value high = e.Cast(e.Cast(args["x"], kUint32), kUint64), low = e.Cast(e.Cast(args["y"], kUint32), kUint64);
  return e.Bitcast(e.Binary(BinaryOp::kBitOr, e.Binary(BinaryOp::kShl, high, Value::Int(32)), low), kFloat64);
}

//===-- integers --------------------------------------------------------------------------------------===//

// The upper half of the product, signed or not as the operands are.
Value MulHi(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "an operand"), y = e.ToTensor(args["y"], "an operand");
  if (!e.Unify(&x, &y)) return {};
  if (!x.type.element.is_int() || x.type.element.bits() < 32)
    return e.Error(absl::StrCat(args.function, " wants 32- or 64-bit integers, not ", Describe(x)));
  Value high = Value::Tensor(e.Make<tile::MulHiUOp>(x.ir, y.ir), x.type);
  if (!x.type.element.is_signed()) return high;
  // Signed: less y where x is negative, less x where y is.
  Value zero = Value::Tensor(e.IrConstant(Constant::Int(0), x.type), x.type);
  high = e.Sub(high, e.Select(e.Compare(CompareOp::kLt, x, zero), y, zero));
  return e.Sub(high, e.Select(e.Compare(CompareOp::kLt, y, zero), x, zero));
}

// The product of the low 24 bits.
Value Mul24(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "an operand"), y = e.ToTensor(args["y"], "an operand");
  if (!e.Unify(&x, &y)) return {};
  auto low = [&](const Value& v) { return e.Binary(BinaryOp::kShr, e.Binary(BinaryOp::kShl, v, Value::Int(8)), Value::Int(8)); };
  return e.Mul(low(x), low(y));
}

// The average of two integers without overflow, rounded down or up.
Emit Average(bool up) {
  return [up](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "an operand"), y = e.ToTensor(args["y"], "an operand");
    if (!e.Unify(&x, &y)) return {};
    Value half = e.Binary(BinaryOp::kShr, e.Binary(BinaryOp::kBitXor, x, y), Value::Int(1));
    return up ? e.Sub(e.Binary(BinaryOp::kBitOr, x, y), half) : e.Add(e.Binary(BinaryOp::kBitAnd, x, y), half);
  };
}

// |x - y| + z.
Value SumOfDifference(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "an operand"), y = e.ToTensor(args["y"], "an operand");
  if (!e.Unify(&x, &y)) return {};
  Value less = e.Compare(CompareOp::kLt, x, y);
  return e.Add(e.Cast(e.Select(less, e.Sub(y, x), e.Sub(x, y)), kUint32), args["z"]);
}

// Four bytes out of the eight of y and x, picked by the nibbles of z.
Value BytePermute(Emitter& e, const Arguments& args) {
  Value high = e.Cast(e.Cast(args["y"], kUint32), kUint64), low = e.Cast(e.Cast(args["x"], kUint32), kUint64);
  Value all = e.Binary(BinaryOp::kBitOr, e.Binary(BinaryOp::kShl, high, Value::Int(32)), low);
  Value selector = e.Cast(e.Cast(args["z"], kUint32), kUint64);
  Value result = Value::Int(0);
  for (int i = 0; i < 4; ++i) {
    Value index = e.Binary(BinaryOp::kBitAnd, e.Binary(BinaryOp::kShr, selector, Value::Int(4 * i)), Value::Int(7));
    Value byte = e.Binary(BinaryOp::kBitAnd, e.Binary(BinaryOp::kShr, all, e.Mul(index, Value::Int(8))), Value::Int(0xff));
    // Bit 3 of a nibble repeats the sign of the byte.
    Value replicate = e.Compare(CompareOp::kNe, e.Binary(BinaryOp::kBitAnd, selector, Value::Int(Integer{8} << (4 * i))), Value::Int(0));
    Value sign = e.Mul(e.Binary(BinaryOp::kShr, byte, Value::Int(7)), Value::Int(0xff));
    byte = e.Select(replicate, sign, byte);
    result = e.Binary(BinaryOp::kBitOr, e.Binary(BinaryOp::kShl, byte, Value::Int(8 * i)), result);
  }
  return e.Cast(result, kInt32);
}

// x * 2^n.
Value Ldexp(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "x"), n = e.Cast(args["n"], kInt32);
  if (e.failed() || !e.UnifyShapes(&x, &n)) return {};
  bool single = x.type.element.is(DType::kFp32);
  if (!single && !x.type.element.is(DType::kFp64))
    return e.Error(absl::StrCat(args.function, " wants float32 or float64, not ", Describe(x)));
  // 2^n fits float64 for float32's range; float64's takes three factors.
  int limit = single ? 300 : 2200;
  Type type = n.type;
  auto constant = [&](int64_t v) { return e.IrConstant(Constant::Int(v), type); };
  n.ir = e.Make<arith::MinSIOp>(e.Make<arith::MaxSIOp>(n.ir, constant(-limit)), constant(limit));
  auto power = [&](const Value& exponent) {
    Value biased = e.Cast(e.Add(exponent, Value::Int(1023)), kInt64);
    return e.Bitcast(e.Binary(BinaryOp::kShl, biased, Value::Int(52)), kFloat64);
  };
  if (single) return e.Cast(e.Mul(e.Cast(x, kFloat64), power(n)), kFloat32);
  Value third = Value::Tensor(e.Make<tile::DivSOp>(n.ir, constant(3)), type);
  Value last = e.Sub(n, e.Mul(third, Value::Int(2)));
  Value scale = power(third);
  return e.Mul(e.Mul(e.Mul(x, scale), scale), power(last));
}

Value Saturate(Emitter& e, const Arguments& args) {
  std::vector<Value> x;
  if (!ReadFloats(e, args, &x)) return {};
  mlir::Value zero = e.IrConstant(Constant::Float(0), x[0].type), one = e.IrConstant(Constant::Float(1), x[0].type);
  return Value::Tensor(e.Make<arith::MinNumFOp>(e.Make<arith::MaxNumFOp>(x[0].ir, zero), one), x[0].type);
}

}  // namespace

void AddRoundingBuiltins(BuiltinTable* t) {
  struct Row {
    const char* name;
    Arithmetic op;
    const char* parameters;
  };
  static constexpr Row kRows[] = {
      {"add", Arithmetic::kAdd, "x, y"},       {"sub", Arithmetic::kSub, "x, y"},   {"mul", Arithmetic::kMul, "x, y"},
      {"div", Arithmetic::kDiv, "x, y"},       {"rcp", Arithmetic::kReciprocal, "x"}, {"sqrt", Arithmetic::kSqrt, "x"},
      {"fma", Arithmetic::kFma, "x, y, z"},
  };
  for (const auto& rounding : kRounds) {
    const char* suffix = rounding.first;
    Round round = rounding.second;
    for (const Row& row : kRows)
      t->Add(absl::StrCat("libdevice.", row.name, "_", suffix), row.parameters, Rounded(row.op, round));
    auto convert = [&](const char* name, const Emit& emit) { t->Add(absl::StrCat("libdevice.", name, "_", suffix), "x", emit); };
    for (const char* from : {"float", "double"}) {
      convert(absl::StrCat(from, "2int").c_str(), ToInteger(round, kInt32));
      convert(absl::StrCat(from, "2uint").c_str(), ToInteger(round, kUint32));
      convert(absl::StrCat(from, "2ll").c_str(), ToInteger(round, kInt64));
      convert(absl::StrCat(from, "2ull").c_str(), ToInteger(round, kUint64));
    }
    convert("int2float", ToFloat(round, kInt32, kFloat32));
    convert("uint2float", ToFloat(round, kUint32, kFloat32));
    convert("double2float", ToFloat(round, kFloat64, kFloat32));
    if (round != Round::kNearest) continue;
    convert("int2double", ToFloat(round, kInt32, kFloat64));
    convert("uint2double", ToFloat(round, kUint32, kFloat64));
    convert("ll2float", ToFloat(round, kInt64, kFloat32));
    convert("ull2float", ToFloat(round, kUint64, kFloat32));
    convert("ll2double", ToFloat(round, kInt64, kFloat64));
    convert("ull2double", ToFloat(round, kUint64, kFloat64));
    convert("rsqrt", Rounded(Arithmetic::kRsqrt, round));
  }
  t->Add("libdevice.fast_dividef libdevice.fast_fdividef", "x, y", [](Emitter& e, const Arguments& args) {
    return e.Binary(BinaryOp::kDiv, args["x"], args["y"]);
  });
  t->Add("libdevice.llrint", "x", ToInteger(Round::kNearest, kInt64));
  t->Add("libdevice.lrint", "x", ToInteger(Round::kNearest, kInt64));
  t->Add("libdevice.llround libdevice.lround", "x", ToInteger(Round::kNearest, kInt64, /*half_away=*/true));
  t->Add("libdevice.int_as_float", "x", Reinterpret(kInt32, kFloat32));
  t->Add("libdevice.uint_as_float", "x", Reinterpret(kUint32, kFloat32));
  t->Add("libdevice.float_as_int", "x", Reinterpret(kFloat32, kInt32));
  t->Add("libdevice.float_as_uint", "x", Reinterpret(kFloat32, kUint32));
  t->Add("libdevice.longlong_as_double", "x", Reinterpret(kInt64, kFloat64));
  t->Add("libdevice.double_as_longlong", "x", Reinterpret(kFloat64, kInt64));
  t->Add("libdevice.double2loint", "x", HalfOfDouble(0));
  t->Add("libdevice.double2hiint", "x", HalfOfDouble(32));
  t->Add("libdevice.hiloint2double", "x, y", HiLoToDouble);
  t->Add("libdevice.mulhi libdevice.umulhi", "x, y", MulHi);
  t->Add("libdevice.mul24", "x, y", Mul24);
  t->Add("libdevice.hadd", "x, y", Average(false));
  t->Add("libdevice.rhadd", "x, y", Average(true));
  t->Add("libdevice.sad", "x, y, z", SumOfDifference);
  t->Add("libdevice.byte_perm", "x, y, z", BytePermute);
  t->Add("libdevice.ldexp libdevice.scalbn", "x, n", Ldexp);
  t->Add("libdevice.saturatef", "x", Saturate);
}

}  // namespace tessera::frontend
