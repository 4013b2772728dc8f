// The functions of f32 reduce their argument, evaluate a minimax polynomial (coefficients by the Remez exchange
// algorithm, each rounded to f32 before the rest was fitted again) and put the result together. They are written for
// throughput: no tables, no divisions where a polynomial does, special cases as masked operations.
//
//   %y = math.exp %x : vector<16xf32>
// becomes some fourteen operations of arith and llvm.intr.fma on vector<16xf32>.
#include "compiler/conversion/expand_math.h"

#include <cmath>
#include <string>
#include <utility>

#include "compiler/conversion/float_conversions.h"
#include "compiler/conversion/lane_builder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace tessera::compiler {
namespace {

namespace LLVM = mlir::LLVM;
using mlir::Value;
using mlir::arith::CmpFPredicate;
using mlir::arith::CmpIPredicate;

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr float kLn2High = 0x1.62e43p-1f;  // rounded up: the rest is negative
constexpr double kLn2Low = kLn2 - kLn2High;
constexpr double kLog2E = 0x1.71547652b82fep+0;

// Adding it to a small number rounds that to an integer, which then stands in the low bits.
constexpr float kRoundToInt = 0x1.8p23f;
constexpr double kRoundToInt64 = 0x1.8p52;

// Arguments of sin, cos and tan up to here are reduced by three parts of pi/2; larger ones go to libm.
constexpr float kLargestReduced = 100000.0f;

// (e^r - 1) / r on |r| <= ln2 / 2; relative error of 1 + r p(r) to e^r: 2^-23.3.
constexpr float kExp[] = {0x1.fffff6p-1f, 0x1.fffdc4p-2f, 0x1.555a86p-3f, 0x1.573bd0p-5f, 0x1.0fa814p-7f};
// (2^r - 1) / r on |r| <= 1/2; 2^-23.0.
constexpr float kExp2[] = {0x1.62e42ap-1f, 0x1.ebf956p-3f, 0x1.c6b470p-5f, 0x1.3d1212p-7f, 0x1.5d97b4p-10f};
// (e^r - 1 - r) / r^2 on |r| <= ln2 / 2; relative to e^r - 1: 2^-26.1.
constexpr float kExpm1[] = {0x1.fffffep-2f, 0x1.5554aap-3f, 0x1.55579ap-5f, 0x1.122c38p-7f, 0x1.6ac110p-10f};
// (log(1 + f) - f) / f^2 on sqrt(1/2) <= 1 + f <= sqrt(2); relative to log(1 + f): 2^-25.0.
constexpr float kLog[] = {-0x1.fffffap-2f, 0x1.5556f6p-2f, -0x1.0004cap-2f, 0x1.98d230p-3f,
                          -0x1.535256p-3f, 0x1.317eb6p-3f, -0x1.2556a8p-3f, 0x1.66c63ep-4f};
// (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2 on |r| <= pi / 4; 2^-27.9 and 2^-33.0.
constexpr float kSin[] = {-0x1.555546p-3f, 0x1.110778p-7f, -0x1.9953f6p-13f};
constexpr float kCos[] = {0x1.55554ap-5f, -0x1.6c0c28p-10f, 0x1.99e80cp-16f};
// erf(x) / x - 1 in x^2 on |x| <= kErfSplit; 2^-25.4.
constexpr float kErfSplit = 0.93f;
constexpr float kErfSmall[] = {0x1.06eba6p-3f, -0x1.8126e2p-2f, 0x1.ce1984p-4f, -0x1.b67bcep-6f, 0x1.46d856p-8f, -0x1.386e5ap-11f};
// -log(1 - erf(x)) / x on kErfSplit <= x <= 4; relative to erf: 2^-28.3.
constexpr float kErfLarge[] = {0x1.20e620p+0f, 0x1.457e2ap-1f, 0x1.af197ap-4f, -0x1.76e4d2p-6f, 0x1.a50de2p-9f, -0x1.c01bbap-13f};
// In f64: log2((1 + s) / (1 - s)) / s in s^2 for sqrt(1/2) <= (1 + s) / (1 - s) <= sqrt(2), 2^-45; 2^r on |r| <= 1/2, 2^-32.
constexpr double kLog2Of[] = {0x1.71547652b824fp+1, 0x1.ec709dc540759p-1, 0x1.2776c28e3a7ccp-1,
                              0x1.a61a330aae00dp-2, 0x1.47949cb459acap-2, 0x1.21bbd717da3e8p-2};
constexpr double kExp2Double[] = {0x1.ffffffffab9cap-1, 0x1.62e42ffc905ebp-1,  0x1.ebfbe0a67d0f6p-3,  0x1.c6b0865cb7285p-5,
                                  0x1.3b29c1e0220a8p-7, 0x1.5d850d0b24b1fp-10, 0x1.44889fde89ee3p-13, 0x1.05c4896666826p-16};

// The arithmetic of the functions, on the lanes of one value. Every fused multiply-add that accuracy needs is explicit:
// the code is as accurate when the back end fuses others.
class MathBuilder : public LaneBuilder {
 public:
  using LaneBuilder::LaneBuilder;

  Value Fma(Value a, Value b, Value c) { return builder().create<LLVM::FMAOp>(loc(), a, b, c); }
  Value Abs(Value a) { return builder().create<LLVM::FAbsOp>(loc(), a); }
  Value CopySign(Value magnitude, Value sign) { return builder().create<LLVM::CopySignOp>(loc(), magnitude, sign); }
  Value Sqrt(Value a) { return builder().create<LLVM::SqrtOp>(loc(), a); }

  // The smaller and the larger of x and a constant; x where it is NaN. One instruction on x86-64.
  Value ClampAbove(Value x, double limit) {
    Value bound = Float(limit);
    return Select(Compare(CmpFPredicate::OLT, bound, x), bound, x);
  }
  Value ClampBelow(Value x, double limit) {
    Value bound = Float(limit);
    return Select(Compare(CmpFPredicate::OGT, bound, x), bound, x);
  }

  // coefficients[0] + coefficients[1] x + ..., by Horner's rule.
  template <size_t N>
  Value Polynomial(Value x, const float (&coefficients)[N]) {
    Value result = Float(coefficients[N - 1]);
    for (size_t i = N - 1; i-- > 0;) result = Fma(result, x, Float(coefficients[i]));
    return result;
  }
  template <size_t N>
  Value PolynomialDouble(Value x, const double (&coefficients)[N]) {
    Value result = Double(coefficients[N - 1]);
    for (size_t i = N - 1; i-- > 0;) result = Fma(result, x, Double(coefficients[i]));
    return result;
  }

  Value Exp(Value x);
  Value Exp2(Value x);
  // `x_below_89`: e^x - 1 does not overflow far, so that clamping from above may be left out.
  Value Expm1(Value x, bool x_below_89 = false);
  Value Log(Value x);
  Value Log2(Value x);
  Value Log10(Value x);
  Value Log1p(Value x);
  Value Tanh(Value x);
  Value Erf(Value x);
  Value Pow(Value x, Value y);
  enum class Trig { kSin, kCos, kTan };
  Value ReducedTrig(Trig function, Value x);
  Value Any(Value condition);

 private:
  // x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for positive normal x.
  struct Split {
    Value k;  // f32
    Value k_bits;  // i32
    Value f;
  };
  Split SplitExponent(Value x, bool with_subnormals);
  // f + correction is log(1 + f).
  Value LogCorrection(Value f);
  Value LogSpecialCases(Value x, Value result, double zero_at);
  // 2^n e^r or 2^(n + r), from their polynomial p and `rounded`, which holds n in its low bits.
  Value ScaleByPowerOfTwo(Value p, Value rounded, Value x, double overflow_above, double zero_below);
};

Value MathBuilder::ScaleByPowerOfTwo(Value p, Value rounded, Value x, double overflow_above, double zero_below) {
  // As integers, 0 is chosen by the addition itself where masks exist.
  Value scaled_bits = AddI(Bits(p), Shl(Bits(rounded), 23));
  Value scaled = FromBits(Select(Compare(CmpFPredicate::OLT, x, Float(zero_below)), Int32(0), scaled_bits));
  // Infinity where x is too large, NaN where it is NaN.
  Value overflowed = Mul(x, Float(0x1.fffffep+127));
  return Select(Compare(CmpFPredicate::UGT, x, Float(overflow_above)), overflowed, scaled);
}

Value MathBuilder::Exp(Value x) {
  Value rounded = Fma(x, Float(kLog2E), Float(kRoundToInt));
  Value n = Sub(rounded, Float(kRoundToInt));
  Value r = Fma(n, Float(-kLn2High), x);
  r = Fma(n, Float(-kLn2Low), r);
  Value p = Fma(Polynomial(r, kExp), r, Float(1));
  // 0x1.62e42ep+6 is the largest float whose exponential is finite; below ln(2^-126) results are subnormal.
  return ScaleByPowerOfTwo(p, rounded, x, 0x1.62e42ep+6, -0x1.5d589ep+6);
}

Value MathBuilder::Exp2(Value x) {
  Value rounded = Add(x, Float(kRoundToInt));
  Value r = Sub(x, Sub(rounded, Float(kRoundToInt)));
  Value p = Fma(Polynomial(r, kExp2), r, Float(1));
  return ScaleByPowerOfTwo(p, rounded, x, 0x1.fffffep+6, -126);
}

Value MathBuilder::Expm1(Value x, bool x_below_89) {
  // Below -18 the result is -1, above 89 it is infinite: neither needs a larger power of two.
  Value clamped = ClampBelow(x, -20);
  if (!x_below_89) clamped = ClampAbove(clamped, 89);
  Value rounded = Fma(clamped, Float(kLog2E), Float(kRoundToInt));
  Value n = Sub(rounded, Float(kRoundToInt));
  Value r = Fma(n, Float(-kLn2High), clamped);
  r = Fma(n, Float(-kLn2Low), r);
  Value p = Fma(Polynomial(r, kExpm1), Mul(r, r), r);
  // 2^n p + 2^n - 1, computed at half of it so that 2^128 does not come up.
  Value half_scale = FromBits(AddI(Shl(Bits(rounded), 23), Int32(126 << 23)));
  Value half = Fma(p, half_scale, Sub(half_scale, Float(0.5)));
  return Add(half, half);
}

MathBuilder::Split MathBuilder::SplitExponent(Value x, bool with_subnormals) {
  Split split;
  Value bits = Bits(x);
  Value is_subnormal;
  if (with_subnormals) {
    is_subnormal = Compare(CmpFPredicate::OLT, x, Float(0x1p-126));
    bits = Bits(Select(is_subnormal, Mul(x, Float(0x1p23)), x));
  }
  constexpr int kSqrtHalf = 0x3f3504f3;
  Value offset = SubI(bits, Int32(kSqrtHalf));
  split.k_bits = ShrS(offset, 23);
  split.f = Sub(FromBits(SubI(bits, And(offset, Int32(-0x800000)))), Float(1));
  split.k = Cast<mlir::arith::SIToFPOp>(split.k_bits, F32());
  if (with_subnormals) split.k = Select(is_subnormal, Sub(split.k, Float(23)), split.k);
  return split;
}

Value MathBuilder::LogCorrection(Value f) { return Mul(Mul(f, f), Polynomial(f, kLog)); }

// -infinity at `zero_at`, NaN below it and for NaN, infinity at infinity.
Value MathBuilder::LogSpecialCases(Value x, Value result, double zero_at) {
  Value infinity = FromBits(Int32(0x7f800000));
  Value outside = Select(Compare(CmpFPredicate::OEQ, x, Float(zero_at)), FromBits(Int32(-0x800000)), FromBits(Int32(0x7fc00000)));
  result = Select(Compare(CmpFPredicate::OGT, x, Float(zero_at)), result, outside);
  return Select(Compare(CmpFPredicate::OEQ, x, infinity), infinity, result);
}

Value MathBuilder::Log(Value x) {
  Split split = SplitExponent(x, /*with_subnormals=*/true);
  Value log_f = Fma(Mul(split.f, split.f), Polynomial(split.f, kLog), split.f);
  return LogSpecialCases(x, Fma(split.k, Float(kLn2), log_f), 0);
}

Value MathBuilder::Log2(Value x) {
  Split split = SplitExponent(x, /*with_subnormals=*/true);
  const double high = static_cast<float>(kLog2E);
  Value low = Fma(LogCorrection(split.f), Float(high), Mul(split.f, Float(kLog2E - high)));
  Value log_f = Fma(split.f, Float(high), low);
  return LogSpecialCases(x, Add(split.k, log_f), 0);
}

Value MathBuilder::Log10(Value x) {
  Split split = SplitExponent(x, /*with_subnormals=*/true);
  constexpr double kLog10E = 0x1.bcb7b1526e50ep-2;
  constexpr double kLog10Of2 = 0x1.34413509f79ffp-2;
  const double high = static_cast<float>(kLog10E);
  Value low = Fma(LogCorrection(split.f), Float(high), Mul(split.f, Float(kLog10E - high)));
  Value log_f = Fma(split.f, Float(high), low);
  return LogSpecialCases(x, Fma(split.k, Float(kLog10Of2), log_f), 0);
}

Value MathBuilder::Log1p(Value x) {
  // 1 + x is rounded; f gets back what was lost: 1 + f = 2^-k (1 + x), with k from the rounded sum.
  Value sum = Add(x, Float(1));
  Split split = SplitExponent(sum, /*with_subnormals=*/false);
  Value scale = FromBits(SubI(Int32(127 << 23), Shl(split.k_bits, 23)));
  Value exact_f = Fma(scale, x, Sub(scale, Float(1)));
  // Where x is large the 1 is lost anyway, and the scale may not be a normal number.
  Value f = Select(Compare(CmpFPredicate::OLT, x, Float(0x1p40)), exact_f, split.f);
  Value log_f = Fma(Mul(f, f), Polynomial(f, kLog), f);
  return LogSpecialCases(x, Fma(split.k, Float(kLn2), log_f), -1);
}

Value MathBuilder::Tanh(Value x) {
  // (e^2x - 1) / (e^2x - 1 + 2), which is 1 from 10 on.
  Value twice = ClampAbove(Abs(x), 10);
  Value q = Expm1(Add(twice, twice), /*x_below_89=*/true);
  return CopySign(Div(q, Add(q, Float(2))), x);
}

Value MathBuilder::Erf(Value x) {
  Value magnitude = ClampAbove(Abs(x), 4);
  Value square = Mul(magnitude, magnitude);
  Value small = Fma(magnitude, Polynomial(square, kErfSmall), magnitude);
  Value negative = builder().create<mlir::arith::NegFOp>(loc(), magnitude);
  Value large = Sub(Float(1), Exp(Mul(negative, Polynomial(magnitude, kErfLarge))));
  return CopySign(Select(Compare(CmpFPredicate::OGT, magnitude, Float(kErfSplit)), large, small), x);
}

// x^y = 2^(y log2 |x|) in f64, which is exact enough for f32; signs and special cases after IEEE 754.
Value MathBuilder::Pow(Value x, Value y) {
  Value magnitude = Abs(x);
  Split split = SplitExponent(magnitude, /*with_subnormals=*/true);
  Value f = Cast<mlir::arith::ExtFOp>(split.f, F64());
  Value s = Div(f, Add(f, Double(2)));
  Value log2 = Fma(s, PolynomialDouble(Mul(s, s), kLog2Of), Cast<mlir::arith::ExtFOp>(split.k, F64()));
  Value infinity = FromBits(Int32(0x7f800000));
  Value is_zero = Compare(CmpFPredicate::OEQ, x, Float(0));
  // NaN and infinity stand for themselves in the logarithm; of 0 it is -infinity.
  Value wide = Cast<mlir::arith::ExtFOp>(magnitude, F64());
  log2 = Select(Compare(CmpFPredicate::OLT, magnitude, infinity), log2, wide);
  log2 = Select(is_zero, Double(-INFINITY), log2);
  Value w = Mul(log2, Cast<mlir::arith::ExtFOp>(y, F64()));

  Value high = Double(300);
  Value low = Double(-300);
  w = Select(Compare(CmpFPredicate::OGT, w, high), high, w);
  w = Select(Compare(CmpFPredicate::OLT, w, low), low, w);
  Value rounded = Add(w, Double(kRoundToInt64));
  Value r = Sub(w, Sub(rounded, Double(kRoundToInt64)));
  Value p = PolynomialDouble(r, kExp2Double);
  Value scaled = AddI(Bits(p), Binary<mlir::arith::ShLIOp>(Bits(rounded), IntOf(64, 52)));
  Value power = Cast<mlir::arith::TruncFOp>(FromBits(scaled), F32());
  power = Select(Compare(CmpFPredicate::UNO, x, y), FromBits(Int32(0x7fc00000)), power);

  // A negative base: odd powers are negative, powers that are no integers do not exist.
  Value truncated = builder().create<LLVM::FTruncOp>(loc(), y);
  Value half = Mul(y, Float(0.5));
  Value is_integer = Compare(CmpFPredicate::OEQ, truncated, y);
  Value is_even = Compare(CmpFPredicate::OEQ, builder().create<LLVM::FTruncOp>(loc(), half), half);
  Value y_is_finite = Compare(CmpFPredicate::OLT, Abs(y), infinity);
  Value x_is_negative = Compare(CmpIPredicate::slt, Bits(x), Int32(0));
  Value is_odd = And(is_integer, Xor(is_even, IntOf(1, 1)));
  power = Select(And(x_is_negative, is_odd), builder().create<mlir::arith::NegFOp>(loc(), power), power);
  Value no_root = And(And(Compare(CmpFPredicate::OLT, x, Float(0)), y_is_finite), Xor(is_integer, IntOf(1, 1)));
  no_root = And(no_root, Compare(CmpFPredicate::OLT, magnitude, infinity));
  power = Select(no_root, FromBits(Int32(0x7fc00000)), power);

  // 1 whatever the other is, NaN included; and (-1)^(+-infinity).
  Value one = Or(Compare(CmpFPredicate::OEQ, y, Float(0)), Compare(CmpFPredicate::OEQ, x, Float(1)));
  one = Or(one, And(Compare(CmpFPredicate::OEQ, x, Float(-1)), Compare(CmpFPredicate::OEQ, Abs(y), infinity)));
  return Select(one, Float(1), power);
}

Value MathBuilder::ReducedTrig(Trig function, Value x) {
  // x = n pi/2 + r, with pi/2 in three parts.
  Value rounded = Fma(x, Float(0x1.45f306dc9c883p-1), Float(kRoundToInt));
  Value n = Sub(rounded, Float(kRoundToInt));
  Value r = Fma(n, Float(-0x1.921fb6p+0), x);
  r = Fma(n, Float(0x1.777a5cp-25), r);
  r = Fma(n, Float(0x1.ee59dap-50), r);
  Value square = Mul(r, r);
  Value sine = Fma(Mul(square, r), Polynomial(square, kSin), r);
  Value cosine = Fma(square, Fma(square, Polynomial(square, kCos), Float(-0.5)), Float(1));

  Value quadrant = Bits(rounded);
  if (function == Trig::kCos) quadrant = AddI(quadrant, Int32(1));
  Value is_odd = Compare(CmpIPredicate::ne, And(quadrant, Int32(1)), Int32(0));
  Value numerator = Select(is_odd, cosine, sine);
  if (function == Trig::kTan) {
    Value denominator = Select(is_odd, sine, cosine);
    Value sign = Shl(quadrant, 31);
    return Div(FromBits(Xor(Bits(numerator), sign)), denominator);
  }
  Value sign = Shl(And(quadrant, Int32(2)), 30);
  return FromBits(Xor(Bits(numerator), sign));
}

Value MathBuilder::Any(Value condition) {
  if (!mlir::isa<mlir::VectorType>(condition.getType())) return condition;
  return builder().create<mlir::vector::ReductionOp>(loc(), mlir::vector::CombiningKind::OR, condition);
}

// Calls of libm, lane by lane, in a function beside the kernel.
class LibmCalls {
 public:
  explicit LibmCalls(mlir::ModuleOp module) : module_(module), symbols_(module) {}

  // `name` without the suffix of its type ("sin" for sinf and sin).
  Value Call(mlir::OpBuilder& builder, mlir::Location loc, llvm::StringRef name, mlir::ValueRange operands) {
    mlir::Type type = operands.front().getType();
    mlir::Type element = mlir::getElementTypeOrSelf(type);
    LLVM::LLVMFuncOp scalar = Declare(loc, (name + (element.isF32() ? "f" : "")).str(), element, operands.size());
    LLVM::LLVMFuncOp callee = mlir::isa<mlir::VectorType>(type) ? Lanes(loc, scalar, mlir::cast<mlir::VectorType>(type)) : scalar;
    return builder.create<LLVM::CallOp>(loc, callee, operands).getResult();
  }

 private:
  LLVM::LLVMFuncOp Declare(mlir::Location loc, const std::string& name, mlir::Type element, size_t operands) {
    if (auto found = symbols_.lookup<LLVM::LLVMFuncOp>(name)) return found;
    mlir::OpBuilder builder(module_.getContext());
    auto type = LLVM::LLVMFunctionType::get(element, llvm::SmallVector<mlir::Type>(operands, element));
    auto function = builder.create<LLVM::LLVMFuncOp>(loc, name, type);
    // It reads and writes no memory that the kernel sees (errno is nobody's concern here).
    function.setMemoryAttr(LLVM::MemoryEffectsAttr::get(builder.getContext(), LLVM::ModRefInfo::NoModRef,
                                                        LLVM::ModRefInfo::NoModRef, LLVM::ModRefInfo::NoModRef));
    function.setPassthroughAttr(builder.getStrArrayAttr({"nounwind", "willreturn"}));
    symbols_.insert(function);
    return function;
  }

  // A loop over the lanes of `type` around calls of `scalar`.
  LLVM::LLVMFuncOp Lanes(mlir::Location loc, LLVM::LLVMFuncOp scalar, mlir::VectorType type) {
    const std::string name = ("tessera." + scalar.getName() + "." + llvm::Twine(type.getNumElements())).str();
    if (auto found = symbols_.lookup<LLVM::LLVMFuncOp>(name)) return found;
    mlir::OpBuilder builder(module_.getContext());
    const size_t operands = scalar.getNumArguments();
    auto function_type = LLVM::LLVMFunctionType::get(type, llvm::SmallVector<mlir::Type>(operands, type));
    auto function = builder.create<LLVM::LLVMFuncOp>(loc, name, function_type, LLVM::Linkage::Internal);
    function.setPassthroughAttr(builder.getStrArrayAttr({"noinline", "nounwind"}));
    symbols_.insert(function);

    mlir::Block* entry = function.addEntryBlock(builder);
    mlir::Block* loop = builder.createBlock(&function.getBody(), function.getBody().end(), {builder.getI32Type(), type}, {loc, loc});
    mlir::Block* end = builder.createBlock(&function.getBody(), function.getBody().end(), {type}, {loc});
    builder.setInsertionPointToStart(entry);
    Value zero = builder.create<LLVM::ConstantOp>(loc, builder.getI32IntegerAttr(0));
    Value undefined = builder.create<LLVM::PoisonOp>(loc, type);
    builder.create<LLVM::BrOp>(loc, mlir::ValueRange{zero, undefined}, loop);
    builder.setInsertionPointToStart(loop);
    Value lane = loop->getArgument(0);
    llvm::SmallVector<Value> arguments;
    for (Value argument : function.getArguments()) arguments.push_back(builder.create<LLVM::ExtractElementOp>(loc, argument, lane));
    Value result = builder.create<LLVM::CallOp>(loc, scalar, arguments).getResult();
    Value results = builder.create<LLVM::InsertElementOp>(loc, loop->getArgument(1), result, lane);
    Value next = builder.create<LLVM::AddOp>(loc, lane, builder.create<LLVM::ConstantOp>(loc, builder.getI32IntegerAttr(1)));
    Value count = builder.create<LLVM::ConstantOp>(loc, builder.getI32IntegerAttr(static_cast<int>(type.getNumElements())));
    Value more = builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ult, next, count);
    builder.create<LLVM::CondBrOp>(loc, more, loop, mlir::ValueRange{next, results}, end, mlir::ValueRange{results});
    builder.setInsertionPointToStart(end);
    builder.create<LLVM::ReturnOp>(loc, end->getArgument(0));
    return function;
  }

  mlir::ModuleOp module_;
  mlir::SymbolTable symbols_;
};

// GPUs round f32 up and down with subnormals as zero, and so does every target.
Value FlushSubnormals(mlir::OpBuilder& builder, mlir::Location loc, Value x) {
  if (!mlir::getElementTypeOrSelf(x).isF32()) return x;
  MathBuilder b(builder, loc, x.getType());
  return b.Select(b.Compare(CmpFPredicate::OLT, b.Abs(x), b.Float(0x1p-126)), b.Mul(x, b.Float(0)), x);
}

// Operations that LLVM has on scalars and vectors of any float type.
Value LlvmIntrinsic(mlir::Operation* op, mlir::OpBuilder& builder) {
  mlir::Location loc = op->getLoc();
  auto unary = [&](auto tag) -> Value { return builder.create<decltype(tag)>(loc, op->getOperand(0)); };
  if (mlir::isa<mlir::math::AbsFOp>(op)) return unary(LLVM::FAbsOp());
  if (mlir::isa<mlir::math::SqrtOp>(op)) return unary(LLVM::SqrtOp());
  if (mlir::isa<mlir::math::FloorOp>(op))
    return builder.create<LLVM::FFloorOp>(loc, FlushSubnormals(builder, loc, op->getOperand(0)));
  if (mlir::isa<mlir::math::CeilOp>(op))
    return builder.create<LLVM::FCeilOp>(loc, FlushSubnormals(builder, loc, op->getOperand(0)));
  if (mlir::isa<mlir::math::RoundOp>(op)) return unary(LLVM::RoundOp());
  if (mlir::isa<mlir::math::RoundEvenOp>(op)) return unary(LLVM::RoundEvenOp());
  if (mlir::isa<mlir::math::TruncOp>(op)) return unary(LLVM::FTruncOp());
  if (mlir::isa<mlir::math::CtPopOp>(op)) return unary(LLVM::CtPopOp());
  if (mlir::isa<mlir::math::CopySignOp>(op))
    return builder.create<LLVM::CopySignOp>(loc, op->getOperand(0), op->getOperand(1));
  if (mlir::isa<mlir::math::FmaOp>(op))
    return builder.create<LLVM::FMAOp>(loc, op->getOperand(0), op->getOperand(1), op->getOperand(2));
  mlir::Type type = op->getResult(0).getType();
  if (mlir::isa<mlir::math::AbsIOp>(op)) return builder.create<LLVM::AbsOp>(loc, type, op->getOperand(0), false);
  if (mlir::isa<mlir::math::CountLeadingZerosOp>(op))
    return builder.create<LLVM::CountLeadingZerosOp>(loc, type, op->getOperand(0), false);
  if (mlir::isa<mlir::math::CountTrailingZerosOp>(op))
    return builder.create<LLVM::CountTrailingZerosOp>(loc, type, op->getOperand(0), false);
  return {};
}

// nullptr: not a function of f32 that has a polynomial here.
Value ExpandF32(mlir::Operation* op, mlir::OpBuilder& builder, mlir::ValueRange operands, LibmCalls& libm) {
  mlir::Location loc = op->getLoc();
  Value x = operands.front();
  MathBuilder b(builder, loc, x.getType());
  if (mlir::isa<mlir::math::ExpOp>(op)) return b.Exp(x);
  if (mlir::isa<mlir::math::Exp2Op>(op)) return b.Exp2(x);
  if (mlir::isa<mlir::math::ExpM1Op>(op)) return b.Expm1(x);
  if (mlir::isa<mlir::math::LogOp>(op)) return b.Log(x);
  if (mlir::isa<mlir::math::Log2Op>(op)) return b.Log2(x);
  if (mlir::isa<mlir::math::Log10Op>(op)) return b.Log10(x);
  if (mlir::isa<mlir::math::Log1pOp>(op)) return b.Log1p(x);
  if (mlir::isa<mlir::math::TanhOp>(op)) return b.Tanh(x);
  if (mlir::isa<mlir::math::ErfOp>(op)) return b.Erf(x);
  if (mlir::isa<mlir::math::PowFOp>(op)) return b.Pow(x, operands[1]);
  if (mlir::isa<mlir::math::RsqrtOp>(op)) return b.Div(b.Float(1), b.Sqrt(x));

  MathBuilder::Trig function;
  const char* name;
  if (mlir::isa<mlir::math::SinOp>(op)) {
    function = MathBuilder::Trig::kSin;
    name = "sin";
  } else if (mlir::isa<mlir::math::CosOp>(op)) {
    function = MathBuilder::Trig::kCos;
    name = "cos";
  } else if (mlir::isa<mlir::math::TanOp>(op)) {
    function = MathBuilder::Trig::kTan;
    name = "tan";
  } else {
    return {};
  }
  Value reduced = b.ReducedTrig(function, x);
  Value huge = b.Compare(CmpFPredicate::OGT, b.Abs(x), b.Float(kLargestReduced));
  auto branch = builder.create<mlir::scf::IfOp>(
      loc, b.Any(huge),
      [&](mlir::OpBuilder& then, mlir::Location then_loc) {
        Value slow = libm.Call(then, then_loc, name, x);
        // Lane by lane, so that a result does not depend on its neighbours.
        Value mixed = then.create<mlir::arith::SelectOp>(then_loc, huge, slow, reduced);
        then.create<mlir::scf::YieldOp>(then_loc, mixed);
      },
      [&](mlir::OpBuilder& otherwise, mlir::Location else_loc) { otherwise.create<mlir::scf::YieldOp>(else_loc, reduced); });
  return branch.getResult(0);
}

// Quotients by a value that a loop does not change, where the source allows a reciprocal (the flag `arcp`; the language's
// `/` on fp32 is good to 2 ulp): products with the reciprocal, taken once before the loop. Other divisions are left, and
// lose the flag: what back ends make of it is neither exact for extreme divisors nor equal on all CPUs.
void ExpandDivision(mlir::arith::DivFOp div, llvm::DenseMap<Value, std::pair<Value, Value>>& reciprocals) {
  using mlir::arith::FastMathFlags;
  if (!mlir::arith::bitEnumContainsAll(div.getFastmath(), FastMathFlags::arcp)) return;
  div.setFastmath(div.getFastmath() & ~FastMathFlags::arcp);
  auto splat = div.getRhs().getDefiningOp<mlir::vector::BroadcastOp>();
  auto loop = div->getParentOfType<mlir::LoopLikeOpInterface>();
  if (!splat || !loop || !loop.isDefinedOutsideOfLoop(splat) || !splat.getSource().getType().isF32()) return;

  auto& [reciprocal, scale] = reciprocals[splat];
  if (!reciprocal) {
    // The scale is 1, but where the reciprocal alone would be infinite or subnormal.
    mlir::OpBuilder builder(splat);
    MathBuilder b(builder, splat.getLoc(), splat.getSource().getType());
    Value divisor = splat.getSource();
    Value magnitude = b.Abs(divisor);
    Value factor = b.Select(b.Compare(CmpFPredicate::OLT, magnitude, b.Float(0x1p-126)), b.Float(0x1p64), b.Float(1));
    factor = b.Select(b.Compare(CmpFPredicate::OGT, magnitude, b.Float(0x1p126)), b.Float(0x1p-64), factor);
    auto broadcast = [&](Value v) { return builder.create<mlir::vector::BroadcastOp>(splat.getLoc(), splat.getType(), v); };
    reciprocal = broadcast(b.Div(b.Float(1), b.Mul(divisor, factor)));
    scale = broadcast(factor);
  }
  mlir::OpBuilder builder(div);
  MathBuilder b(builder, div.getLoc(), div.getType());
  div.replaceAllUsesWith(b.Mul(b.Mul(div.getLhs(), reciprocal), scale));
  div.erase();
}

// The name of the operation in libm; empty: there is none.
llvm::StringRef LibmName(mlir::Operation* op) {
  llvm::StringRef name = op->getName().stripDialect();
  if (name == "powf") return "pow";
  for (llvm::StringRef same : {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf",
                               "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"})
    if (name == same) return same;
  return "";
}

class ExpandMathPass : public mlir::PassWrapper<ExpandMathPass, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)

  llvm::StringRef getArgument() const override { return "expand-math"; }
  llvm::StringRef getDescription() const override { return "math on f32 and f64 to arithmetic and LLVM intrinsics"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    LibmCalls libm(getOperation());
    llvm::SmallVector<mlir::arith::DivFOp> divisions;
    getOperation().walk([&](mlir::arith::DivFOp div) { divisions.push_back(div); });
    llvm::DenseMap<Value, std::pair<Value, Value>> reciprocals;
    for (mlir::arith::DivFOp div : divisions) ExpandDivision(div, reciprocals);

    llvm::SmallVector<mlir::Operation*> operations;
    getOperation().walk([&](mlir::Operation* op) {
      if (mlir::isa_and_nonnull<mlir::math::MathDialect>(op->getDialect())) operations.push_back(op);
    });
    for (mlir::Operation* op : operations) {
      mlir::OpBuilder builder(op);
      Value result = Expand(op, builder, libm);
      if (!result) {
        op->emitOpError("has no expansion for ") << op->getResult(0).getType();
        return signalPassFailure();
      }
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  }

 private:
  static Value Expand(mlir::Operation* op, mlir::OpBuilder& builder, LibmCalls& libm) {
    auto vector = mlir::dyn_cast<mlir::VectorType>(op->getResult(0).getType());
    if (vector && (vector.getRank() != 1 || vector.isScalable())) return {};
    if (Value result = LlvmIntrinsic(op, builder)) return result;
    mlir::Type element = mlir::getElementTypeOrSelf(op->getResult(0).getType());
    if (!mlir::isa<mlir::FloatType>(element)) return {};
    llvm::SmallVector<Value> operands(op->getOperands());
    if (mlir::isa<mlir::math::FPowIOp>(op)) return {};
    const bool is_small = element.getIntOrFloatBitWidth() < 32;
    if (is_small)
      for (Value& operand : operands) operand = ConvertFloat(builder, op->getLoc(), operand, builder.getF32Type());
    Value result;
    if (!element.isF64()) result = ExpandF32(op, builder, operands, libm);
    if (!result && mlir::isa<mlir::math::RsqrtOp>(op)) {
      MathBuilder b(builder, op->getLoc(), operands.front().getType());
      result = b.Div(b.Double(1), b.Sqrt(operands.front()));
    }
    if (!result && !LibmName(op).empty()) result = libm.Call(builder, op->getLoc(), LibmName(op), operands);
    if (result && is_small) result = ConvertFloat(builder, op->getLoc(), result, element);
    return result;
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> CreateExpandMathPass() { return std::make_unique<ExpandMathPass>(); }

}  // namespace tessera::compiler
