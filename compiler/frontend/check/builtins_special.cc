// Functions of libdevice that neither the math dialect nor libm has, written out in operations that every target has.
//
// Sources: M. Giles, "Approximating the erfinv function" (the shape of the starting value; the steps after it make its
// precision irrelevant); Abramowitz and Stegun 9.6.10 and 9.7.1 (series of the modified Bessel functions), 7.1.14 (erfcx
// far out).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

namespace math = mlir::math;

constexpr double kPi = 3.14159265358979323846;

// Arithmetic on blocks of one type; numbers take that type.
class Formula {
 public:
  Formula(Emitter& e, const Type& type) : e_(e), type_(type) {}
  bool single() const { return type_.element.is(DType::kFp32); }
  Value Number(double x) { return Value::Tensor(e_.IrConstant(Constant::Float(x), type_), type_); }
  template <typename Op>
  Value One(const Value& x) {
    return Value::Tensor(e_.Make<Op>(x.ir), type_);
  }
  Value Abs(const Value& x) { return One<math::AbsFOp>(x); }
  Value Neg(const Value& x) { return One<mlir::arith::NegFOp>(x); }
  Value Exp(const Value& x) { return One<math::ExpOp>(x); }
  Value Log(const Value& x) { return One<math::LogOp>(x); }
  Value Sqrt(const Value& x) { return One<math::SqrtOp>(x); }
  Value Add(const Value& a, const Value& b) { return e_.Add(a, b); }
  Value Sub(const Value& a, const Value& b) { return e_.Sub(a, b); }
  Value Mul(const Value& a, const Value& b) { return e_.Mul(a, b); }
  Value Div(const Value& a, const Value& b) { return e_.Binary(BinaryOp::kDiv, a, b); }
  Value Fma(const Value& a, const Value& b, const Value& c) { return Value::Tensor(e_.Make<math::FmaOp>(a.ir, b.ir, c.ir), type_); }
  Value If(CompareOp op, const Value& a, const Value& b, const Value& then, const Value& otherwise) {
    return e_.Select(e_.Compare(op, a, b), then, otherwise);
  }
  Value Extern(const std::string& name, const Value& x) {
    return Value::Tensor(e_.Create<tile::ExternOp>(e_.IrType(type_), mlir::ValueRange(x.ir), absl::StrCat("__nv_", name, single() ? "f" : "")), type_);
  }
  // sum of c[i] x^i
  Value Polynomial(const Value& x, const std::vector<double>& c) {
    Value sum = Number(c.back());
    for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(sum, x, Number(c[i]));
    return sum;
  }

 private:
  Emitter& e_;
  Type type_;
};

using Body = Value (*)(Formula&, const Value&);

std::function<Value(Emitter&, const Arguments&)> OfOneFloat(Body body) {
  return [body](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "the operand");
    if (e.failed()) return {};
    if (!x.type.element.is(DType::kFp32) && !x.type.element.is(DType::kFp64))
      return e.Error(absl::StrCat(args.function, " wants float32 or float64, not ", Describe(x), "; convert with .to(tl.float32)"));
    Formula f(e, x.type);
    return body(f, x);
  };
}

// The y with erfc(y) = q for 0 < q <= 1: Halley's iteration from a rough start.
Value ErfcInverseTail(Formula& f, const Value& q) {
  // From erfc(y) ~ exp(-y^2 - 1.1 y): y = sqrt(0.3 - log q) - 0.55.
  Value y = f.Sub(f.Sqrt(f.Sub(f.Number(0.3025), f.Log(q))), f.Number(0.55));
  for (int step = 0; step < (f.single() ? 4 : 5); ++step) {
    Value error = f.Sub(f.Extern("erfc", y), q);
    Value slope = f.Mul(f.Number(-2 / std::sqrt(kPi)), f.Exp(f.Neg(f.Mul(y, y))));
    Value newton = f.Div(error, slope);
    y = f.Sub(y, f.Div(newton, f.Add(f.Number(1), f.Mul(y, newton))));
  }
  return f.If(CompareOp::kEq, q, f.Number(1), f.Number(0), y);
}

Value ErfcInverse(Formula& f, const Value& x) {
  Value upper = f.If(CompareOp::kGt, x, f.Number(1), f.Sub(f.Number(2), x), x);
  Value y = ErfcInverseTail(f, upper);
  y = f.If(CompareOp::kEq, upper, f.Number(0), f.Number(INFINITY), y);
  return f.If(CompareOp::kGt, x, f.Number(1), f.Neg(y), y);
}

Value ErfInverse(Formula& f, const Value& x) {
  Value size = f.Abs(x);
  // Near 0 the complement loses digits: Newton on erf itself, from the first terms of the series.
  Value square = f.Mul(size, size);
  Value small = f.Mul(size, f.Polynomial(square, {0.88622692545275801, 0.23201366653465450, 0.12755617530559793, 0.086552129241547338}));
  for (int step = 0; step < (f.single() ? 2 : 3); ++step) {
    Value error = f.Sub(f.One<math::ErfOp>(small), size);
    Value slope = f.Mul(f.Number(2 / std::sqrt(kPi)), f.Exp(f.Neg(f.Mul(small, small))));
    small = f.Sub(small, f.Div(error, slope));
  }
  Value far = ErfcInverseTail(f, f.Sub(f.Number(1), size));
  Value y = f.If(CompareOp::kLt, size, f.Number(0.5), small, far);
  y = f.If(CompareOp::kEq, size, f.Number(1), f.Number(INFINITY), y);
  y = f.If(CompareOp::kEq, x, f.Number(0), x, y);
  return f.If(CompareOp::kLt, x, f.Number(0), f.Neg(y), y);
}

Value NormCdfInverse(Formula& f, const Value& x) {
  return f.Mul(f.Number(-std::sqrt(2.0)), ErfcInverse(f, f.Mul(f.Number(2), x)));
}

// exp(x^2) erfc(x).
Value Erfcx(Formula& f, const Value& x) {
  double far = f.single() ? 4 : 8;
  // The rounding error of the square goes into the exponent.
  Value square = f.Mul(x, x), rest = f.Fma(x, x, f.Neg(square));
  Value near = f.Mul(f.Mul(f.Exp(square), f.Extern("erfc", x)), f.Add(f.Number(1), rest));
  // The continued fraction x + (1/2) / (x + (2/2) / (x + ...)).
  int terms = f.single() ? 20 : 40;
  Value fraction = x;
  for (int k = terms; k >= 1; --k) fraction = f.Add(x, f.Div(f.Number(k / 2.0), fraction));
  Value outer = f.Div(f.Number(1 / std::sqrt(kPi)), fraction);
  return f.If(CompareOp::kGt, x, f.Number(far), outer, near);
}

// I0 or I1: the power series, and the asymptotic one further out.
template <int kOrder>
Value BesselI(Formula& f, const Value& x) {
  const double far = f.single() ? 12 : 30;
  const int terms = f.single() ? 30 : 75;
  Value size = f.Abs(x);
  Value bounded = f.If(CompareOp::kGt, size, f.Number(far), f.Number(far), size);
  // Nested, as 1 + t/(1 (1 + n)) (1 + t/(2 (2 + n)) (1 + ...)): no coefficient underflows.
  Value square = f.Mul(bounded, bounded), near = f.Number(1);
  for (int k = terms; k >= 1; --k) near = f.Fma(f.Mul(square, f.Number(0.25 / (double(k) * (k + kOrder)))), near, f.Number(1));
  if (kOrder == 1) near = f.Mul(near, f.Mul(bounded, f.Number(0.5)));
  // exp(x) / sqrt(2 pi x) (1 - (4n^2 - 1) / (8x) + ...): terms shrink up to the 2x-th.
  std::vector<double> tail = {1.0};
  for (int k = 1; k < (f.single() ? 16 : 40); ++k)
    tail.push_back(-tail.back() * (4.0 * kOrder * kOrder - (2 * k - 1) * (2 * k - 1)) / (8.0 * k));
  Value distant = f.If(CompareOp::kGt, size, f.Number(far), size, f.Number(far));
  Value half = f.Exp(f.Mul(f.Number(0.5), distant));  // its square may not overflow before the root divides
  Value outer = f.Polynomial(f.Div(f.Number(1), distant), tail);
  outer = f.Mul(f.Mul(f.Div(half, f.Sqrt(f.Mul(f.Number(2 * kPi), distant))), outer), half);
  Value y = f.If(CompareOp::kGt, size, f.Number(far), outer, near);
  return kOrder == 1 ? f.If(CompareOp::kLt, x, f.Number(0), f.Neg(y), y) : y;
}

// sin(pi x): the argument is reduced exactly first.
Value SinPi(Formula& f, const Value& x) {
  Value half = f.Mul(x, f.Number(0.5));
  Value turn = f.Mul(f.Number(2), f.Sub(half, f.One<math::RoundEvenOp>(half)));  // of (-1, 1]
  // sin(pi (1 - t)) = sin(pi t): towards 0, where it is precise.
  Value size = f.Abs(turn);
  Value folded = f.If(CompareOp::kGt, size, f.Number(0.5), f.Sub(f.Number(1), size), size);
  Value y = f.One<math::SinOp>(f.Mul(f.Number(kPi), folded));
  return f.If(CompareOp::kLt, turn, f.Number(0), f.Neg(y), y);
}

Value CosPi(Formula& f, const Value& x) {
  Value half = f.Mul(f.Abs(x), f.Number(0.5));
  Value size = f.Abs(f.Mul(f.Number(2), f.Sub(half, f.One<math::RoundEvenOp>(half))));
  return f.One<math::SinOp>(f.Mul(f.Number(kPi), f.Sub(f.Number(0.5), size)));
}

}  // namespace

void AddSpecialBuiltins(BuiltinTable* t) {
  t->Add("libdevice.erfinv", "x", OfOneFloat(ErfInverse));
  t->Add("libdevice.erfcinv", "x", OfOneFloat(ErfcInverse));
  t->Add("libdevice.normcdfinv", "x", OfOneFloat(NormCdfInverse));
  t->Add("libdevice.erfcx", "x", OfOneFloat(Erfcx));
  t->Add("libdevice.cyl_bessel_i0", "x", OfOneFloat(BesselI<0>));
  t->Add("libdevice.cyl_bessel_i1", "x", OfOneFloat(BesselI<1>));
  t->Add("libdevice.sinpi", "x", OfOneFloat(SinPi));
  t->Add("libdevice.cospi", "x", OfOneFloat(CosPi));
}

}  // namespace tessera::frontend
