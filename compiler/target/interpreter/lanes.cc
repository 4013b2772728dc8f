#include "compiler/target/interpreter/lanes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <unordered_map>

namespace tessera::interpreter {
namespace {

//===-- integer kinds -------------------------------------------------------------------------===//

template <typename UnsignedT, typename SignedT>
struct Integer {
  using U = UnsignedT;
  using S = SignedT;
  static constexpr int kBits = 8 * sizeof(U);
  static U Wrap(U value) { return value; }
  static S Signed(U value) { return S(value); }
};
struct Boolean {
  using U = uint8_t;
  using S = int8_t;
  static constexpr int kBits = 1;
  static U Wrap(U value) { return value & 1; }
  static S Signed(U value) { return S(-(value & 1)); }
};
using Byte = Integer<uint8_t, int8_t>;
using Short = Integer<uint16_t, int16_t>;
using Word = Integer<uint32_t, int32_t>;
using Long = Integer<uint64_t, int64_t>;

// One function for each integer kind, then kF16 and kBf16 (none), kF32 and kF64.
using Row = std::array<LaneFunction, 9>;
constexpr int kF32Column = int(Kind::kF32), kF64Column = int(Kind::kF64);

template <typename Op, typename T>
void IntegerUnary(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const typename T::U*>(in[0]);
  auto* r = static_cast<typename T::U*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = Op::template Apply<T>(a[i], 0);
}
template <typename Op, typename T>
void IntegerBinary(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const typename T::U*>(in[0]);
  auto* b = static_cast<const typename T::U*>(in[1]);
  auto* r = static_cast<typename T::U*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = Op::template Apply<T>(a[i], b[i]);
}
template <typename Op, typename T>
void IntegerCompare(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const typename T::U*>(in[0]);
  auto* b = static_cast<const typename T::U*>(in[1]);
  auto* r = static_cast<uint8_t*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = uint8_t(Op::template Apply<T>(a[i], b[i]));
}

#define INTEGER_ROW(TEMPLATE)                                                                       \
  template <typename Op>                                                                            \
  Row TEMPLATE##Row() {                                                                             \
    return {TEMPLATE<Op, Boolean>, TEMPLATE<Op, Byte>, TEMPLATE<Op, Short>, TEMPLATE<Op, Word>,     \
            TEMPLATE<Op, Long>,    nullptr,            nullptr,             nullptr,            nullptr}; \
  }
INTEGER_ROW(IntegerUnary)
INTEGER_ROW(IntegerBinary)
INTEGER_ROW(IntegerCompare)
#undef INTEGER_ROW

// An operation on a and b (unsigned) and s and t (the same, signed); the result wraps.
#define INTEGER_OP(NAME, ...)                                                    \
  struct NAME {                                                                  \
    template <typename T>                                                        \
    static typename T::U Apply(typename T::U a, typename T::U b) {               \
      using U = typename T::U;                                                   \
      using S = typename T::S;                                                   \
      [[maybe_unused]] constexpr int kBits = T::kBits;                           \
      [[maybe_unused]] S s = T::Signed(a), t = T::Signed(b);                     \
      return T::Wrap(U(__VA_ARGS__));                                            \
    }                                                                            \
  };

// Division never traps: by zero gives 0 (remainder: the dividend), INT_MIN / -1 wraps.
template <typename S>
S DivideSigned(S s, S t) {
  if (t == 0) return 0;
  if (t == S(-1)) return S(0 - std::make_unsigned_t<S>(s));
  return S(s / t);
}
template <typename S>
S RemainderSigned(S s, S t) {
  if (t == 0) return s;
  return t == S(-1) ? S(0) : S(s % t);
}
template <typename S>
S FloorDivide(S s, S t) {
  S q = DivideSigned(s, t), r = RemainderSigned(s, t);
  return t != 0 && r != 0 && (r < 0) != (t < 0) ? S(q - 1) : q;
}
template <typename S>
S CeilDivide(S s, S t) {
  S q = DivideSigned(s, t), r = RemainderSigned(s, t);
  return t != 0 && r != 0 && (r < 0) == (t < 0) ? S(q + 1) : q;
}
uint64_t IntegerPower(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}
int CountLeadingZeros(uint64_t value, int bits) { return value ? __builtin_clzll(value) - (64 - bits) : bits; }
int CountTrailingZeros(uint64_t value, int bits) { return value ? __builtin_ctzll(value) : bits; }

INTEGER_OP(AddI, uint64_t(a) + b)
INTEGER_OP(SubI, uint64_t(a) - b)
INTEGER_OP(MulI, uint64_t(a) * b)
INTEGER_OP(AndI, a & b)
INTEGER_OP(OrI, a | b)
INTEGER_OP(XorI, a ^ b)
INTEGER_OP(ShlI, b < kBits ? uint64_t(a) << b : 0)
INTEGER_OP(ShrUI, b < kBits ? a >> b : 0)
INTEGER_OP(ShrSI, s >> (b < kBits ? int(b) : kBits - 1))
INTEGER_OP(MaxSI, s > t ? a : b)
INTEGER_OP(MinSI, s < t ? a : b)
INTEGER_OP(MaxUI, a > b ? a : b)
INTEGER_OP(MinUI, a < b ? a : b)
INTEGER_OP(DivSI, DivideSigned(s, t))
INTEGER_OP(RemSI, RemainderSigned(s, t))
INTEGER_OP(DivUI, b ? a / b : 0)
INTEGER_OP(RemUI, b ? a % b : a)
INTEGER_OP(FloorDivSI, FloorDivide(s, t))
INTEGER_OP(CeilDivSI, CeilDivide(s, t))
INTEGER_OP(CeilDivUI, b ? a / b + (a % b != 0) : 0)
INTEGER_OP(MulHiUI, (unsigned __int128)(a) * b >> kBits)
INTEGER_OP(MulHiSI, (__int128)(s) * t >> kBits)
INTEGER_OP(AddCarry, ((unsigned __int128)(a) + b) >> kBits)
INTEGER_OP(AbsI, s < 0 ? U(0) - a : a)
INTEGER_OP(Ctlz, CountLeadingZeros(a, kBits))
INTEGER_OP(Cttz, CountTrailingZeros(a, kBits))
INTEGER_OP(Ctpop, __builtin_popcountll(a))
INTEGER_OP(IPowI, t < 0 ? (s == 1 ? 1 : s == -1 ? ((t & 1) ? S(-1) : S(1)) : S(0)) : S(IntegerPower(uint64_t(int64_t(s)), b)))
#undef INTEGER_OP

#define INTEGER_COMPARE(NAME, ...)                                               \
  struct NAME {                                                                  \
    template <typename T>                                                        \
    static bool Apply(typename T::U a, typename T::U b) {                        \
      [[maybe_unused]] typename T::S s = T::Signed(a), t = T::Signed(b);         \
      return __VA_ARGS__;                                                        \
    }                                                                            \
  };
INTEGER_COMPARE(CmpEq, a == b)
INTEGER_COMPARE(CmpNe, a != b)
INTEGER_COMPARE(CmpSlt, s < t)
INTEGER_COMPARE(CmpSle, s <= t)
INTEGER_COMPARE(CmpSgt, s > t)
INTEGER_COMPARE(CmpSge, s >= t)
INTEGER_COMPARE(CmpUlt, a < b)
INTEGER_COMPARE(CmpUle, a <= b)
INTEGER_COMPARE(CmpUgt, a > b)
INTEGER_COMPARE(CmpUge, a >= b)
#undef INTEGER_COMPARE

//===-- floats --------------------------------------------------------------------------------===//

template <typename Op, typename F>
void FloatUnary(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const F*>(in[0]);
  auto* r = static_cast<F*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = Op::Apply(a[i], F(0), F(0));
}
template <typename Op, typename F>
void FloatBinary(const void* const* in, void* result, int64_t lanes) {
  auto *a = static_cast<const F*>(in[0]), *b = static_cast<const F*>(in[1]);
  auto* r = static_cast<F*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = Op::Apply(a[i], b[i], F(0));
}
template <typename Op, typename F>
void FloatTernary(const void* const* in, void* result, int64_t lanes) {
  auto *a = static_cast<const F*>(in[0]), *b = static_cast<const F*>(in[1]), *c = static_cast<const F*>(in[2]);
  auto* r = static_cast<F*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = Op::Apply(a[i], b[i], c[i]);
}
template <typename Op, typename F>
void FloatCompare(const void* const* in, void* result, int64_t lanes) {
  auto *a = static_cast<const F*>(in[0]), *b = static_cast<const F*>(in[1]);
  auto* r = static_cast<uint8_t*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = uint8_t(Op::Apply(a[i], b[i]));
}

Row FloatRow(LaneFunction f32, LaneFunction f64) {
  Row row{};
  row[kF32Column] = f32;
  row[kF64Column] = f64;
  return row;
}

#define FLOAT_OP(NAME, ...)                         \
  struct NAME {                                     \
    template <typename F>                           \
    static F Apply(F a, F b, F c) {                 \
      (void)b, (void)c;                             \
      return __VA_ARGS__;                           \
    }                                               \
  };

// NaN loses, +0 is above -0.
template <typename F>
F MaxNum(F a, F b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <typename F>
F MinNum(F a, F b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename F>
F SetSign(F magnitude, bool negative) {
  return std::copysign(magnitude, negative ? F(-1) : F(1));
}
template <typename F>
F FlipSign(F a) {  // also of NaN, and without touching its payload
  using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
  return BitCast<F>(Bits(BitCast<Bits>(a) ^ (Bits(1) << (8 * sizeof(F) - 1))));
}
// GPUs round fp32 up and down with subnormals as zero, and so do we.
template <typename F>
F FlushSubnormal(F a) {
  return sizeof(F) == 4 && std::fabs(a) < std::numeric_limits<F>::min() ? a * F(0) : a;
}
template <typename F>
F NaN() { return std::numeric_limits<F>::quiet_NaN(); }

FLOAT_OP(AddF, a + b)
FLOAT_OP(SubF, a - b)
FLOAT_OP(MulF, a * b)
FLOAT_OP(DivF, a / b)
// What a GPU makes of fp32's `/`: a product with the reciprocal, scaled where that would be subnormal or infinite.
template <typename F>
F QuickQuotient(F a, F b) {
  if (sizeof(F) != 4) return a / b;
  const F size = std::fabs(b), scale = size > F(0x1p126) ? F(0.25) : size < F(0x1p-126) ? F(0x1p24) : F(1);
  return (a * scale) * (F(1) / (b * scale));
}
FLOAT_OP(QuickDivF, QuickQuotient(a, b))
FLOAT_OP(RemF, std::fmod(a, b))
FLOAT_OP(NegF, FlipSign(a))
FLOAT_OP(MaxNumF, MaxNum(a, b))
FLOAT_OP(MinNumF, MinNum(a, b))
FLOAT_OP(MaximumF, std::isnan(a) || std::isnan(b) ? NaN<F>() : MaxNum(a, b))
FLOAT_OP(MinimumF, std::isnan(a) || std::isnan(b) ? NaN<F>() : MinNum(a, b))
FLOAT_OP(AbsF, std::fabs(a))
FLOAT_OP(Ceil, std::ceil(FlushSubnormal(a)))
FLOAT_OP(Floor, std::floor(FlushSubnormal(a)))
FLOAT_OP(Round, std::round(a))
FLOAT_OP(RoundEven, std::nearbyint(a))
FLOAT_OP(Trunc, std::trunc(a))
FLOAT_OP(Exp, std::exp(a))
FLOAT_OP(Exp2, std::exp2(a))
FLOAT_OP(ExpM1, std::expm1(a))
FLOAT_OP(Exp10, F(std::pow(10.0, double(a))))
FLOAT_OP(Log, std::log(a))
FLOAT_OP(Log2, std::log2(a))
FLOAT_OP(Log10, std::log10(a))
FLOAT_OP(Log1P, std::log1p(a))
FLOAT_OP(LogB, std::logb(a))
FLOAT_OP(Sqrt, std::sqrt(a))
FLOAT_OP(Rsqrt, F(1.0 / std::sqrt(double(a))))
FLOAT_OP(Reciprocal, F(1) / a)
FLOAT_OP(Cbrt, std::cbrt(a))
FLOAT_OP(Rcbrt, F(1.0 / std::cbrt(double(a))))
FLOAT_OP(Sin, std::sin(a))
FLOAT_OP(Cos, std::cos(a))
FLOAT_OP(Tan, std::tan(a))
FLOAT_OP(SinPi, F(std::sin(3.14159265358979323846 * std::fmod(double(a), 2.0))))
FLOAT_OP(CosPi, F(std::cos(3.14159265358979323846 * std::fmod(double(a), 2.0))))
FLOAT_OP(Sinh, std::sinh(a))
FLOAT_OP(Cosh, std::cosh(a))
FLOAT_OP(Tanh, std::tanh(a))
FLOAT_OP(Asin, std::asin(a))
FLOAT_OP(Acos, std::acos(a))
FLOAT_OP(Atan, std::atan(a))
FLOAT_OP(Asinh, std::asinh(a))
FLOAT_OP(Acosh, std::acosh(a))
FLOAT_OP(Atanh, std::atanh(a))
FLOAT_OP(Atan2, std::atan2(a, b))
FLOAT_OP(Erf, std::erf(a))
FLOAT_OP(Erfc, std::erfc(a))
FLOAT_OP(Erfcx, F(std::exp(double(a) * double(a)) * std::erfc(double(a))))
FLOAT_OP(NormCdf, F(0.5 * std::erfc(-double(a) * 0.70710678118654752440)))
FLOAT_OP(Lgamma, std::lgamma(a))
FLOAT_OP(Tgamma, std::tgamma(a))
FLOAT_OP(J0, F(::j0(double(a))))
FLOAT_OP(J1, F(::j1(double(a))))
FLOAT_OP(Y0, F(::y0(double(a))))
FLOAT_OP(Y1, F(::y1(double(a))))
FLOAT_OP(PowF, std::pow(a, b))
FLOAT_OP(Fma, std::fma(a, b, c))
FLOAT_OP(CopySign, SetSign(a, std::signbit(b)))
FLOAT_OP(Remainder, std::remainder(a, b))
FLOAT_OP(Fdim, std::fdim(a, b))
FLOAT_OP(Hypot, std::hypot(a, b))
FLOAT_OP(NextAfter, std::nextafter(a, b))
FLOAT_OP(Saturate, std::isnan(a) ? F(0) : std::min(std::max(a, F(0)), F(1)))
#undef FLOAT_OP

#define FLOAT_COMPARE(NAME, ...)                                                          \
  struct NAME {                                                                           \
    template <typename F>                                                                 \
    static bool Apply(F a, F b) {                                                         \
      [[maybe_unused]] bool unordered = (a != a) | (b != b);                              \
      return __VA_ARGS__;                                                                 \
    }                                                                                     \
  };
FLOAT_COMPARE(CmpFalse, false)
FLOAT_COMPARE(CmpOeq, a == b)
FLOAT_COMPARE(CmpOgt, a > b)
FLOAT_COMPARE(CmpOge, a >= b)
FLOAT_COMPARE(CmpOlt, a < b)
FLOAT_COMPARE(CmpOle, a <= b)
FLOAT_COMPARE(CmpOne, !unordered & (a != b))
FLOAT_COMPARE(CmpOrd, !unordered)
FLOAT_COMPARE(CmpUeq, unordered | (a == b))
FLOAT_COMPARE(CmpFUgt, unordered | (a > b))
FLOAT_COMPARE(CmpFUge, unordered | (a >= b))
FLOAT_COMPARE(CmpFUlt, unordered | (a < b))
FLOAT_COMPARE(CmpFUle, unordered | (a <= b))
FLOAT_COMPARE(CmpUne, a != b)
FLOAT_COMPARE(CmpUno, unordered)
FLOAT_COMPARE(CmpTrue, true)
#undef FLOAT_COMPARE

// Float to the power of an i32: operand 1 holds int32.
template <typename F>
void FloatIntegerPower(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const F*>(in[0]);
  auto* b = static_cast<const int32_t*>(in[1]);
  auto* r = static_cast<F*>(result);
  for (int64_t i = 0; i < lanes; ++i) r[i] = F(std::pow(double(a[i]), double(b[i])));
}

using Table = std::unordered_map<std::string, Row>;

Table MakeTable() {
  Table table;
#define INTEGER(NAME, OP) table[NAME] = IntegerBinaryRow<OP>()
  INTEGER("arith.addi", AddI);
  INTEGER("arith.subi", SubI);
  INTEGER("arith.muli", MulI);
  INTEGER("arith.andi", AndI);
  INTEGER("arith.ori", OrI);
  INTEGER("arith.xori", XorI);
  INTEGER("arith.shli", ShlI);
  INTEGER("arith.shrui", ShrUI);
  INTEGER("arith.shrsi", ShrSI);
  INTEGER("arith.maxsi", MaxSI);
  INTEGER("arith.minsi", MinSI);
  INTEGER("arith.maxui", MaxUI);
  INTEGER("arith.minui", MinUI);
  INTEGER("arith.divsi", DivSI);
  INTEGER("arith.remsi", RemSI);
  INTEGER("arith.divui", DivUI);
  INTEGER("arith.remui", RemUI);
  INTEGER("arith.floordivsi", FloorDivSI);
  INTEGER("arith.ceildivsi", CeilDivSI);
  INTEGER("arith.ceildivui", CeilDivUI);
  INTEGER("tile.divs", DivSI);
  INTEGER("tile.rems", RemSI);
  INTEGER("tile.divu", DivUI);
  INTEGER("tile.remu", RemUI);
  INTEGER("tile.mulhiu", MulHiUI);
  INTEGER("mulhis", MulHiSI);
  INTEGER("addcarry", AddCarry);
  INTEGER("math.ipowi", IPowI);
#undef INTEGER
  table["math.absi"] = IntegerUnaryRow<AbsI>();
  table["math.ctlz"] = IntegerUnaryRow<Ctlz>();
  table["math.cttz"] = IntegerUnaryRow<Cttz>();
  table["math.ctpop"] = IntegerUnaryRow<Ctpop>();
#define COMPARE(NAME, OP) table["arith.cmpi." NAME] = IntegerCompareRow<OP>()
  COMPARE("eq", CmpEq);
  COMPARE("ne", CmpNe);
  COMPARE("slt", CmpSlt);
  COMPARE("sle", CmpSle);
  COMPARE("sgt", CmpSgt);
  COMPARE("sge", CmpSge);
  COMPARE("ult", CmpUlt);
  COMPARE("ule", CmpUle);
  COMPARE("ugt", CmpUgt);
  COMPARE("uge", CmpUge);
#undef COMPARE
#define FLOAT(ARITY, NAME, OP) table[NAME] = FloatRow(ARITY<OP, float>, ARITY<OP, double>)
  FLOAT(FloatBinary, "arith.addf", AddF);
  FLOAT(FloatBinary, "arith.subf", SubF);
  FLOAT(FloatBinary, "arith.mulf", MulF);
  FLOAT(FloatBinary, "arith.divf", DivF);
  FLOAT(FloatBinary, "arith.divf.quick", QuickDivF);
  FLOAT(FloatBinary, "arith.remf", RemF);
  FLOAT(FloatUnary, "arith.negf", NegF);
  FLOAT(FloatBinary, "arith.maxnumf", MaxNumF);
  FLOAT(FloatBinary, "arith.minnumf", MinNumF);
  FLOAT(FloatBinary, "arith.maximumf", MaximumF);
  FLOAT(FloatBinary, "arith.minimumf", MinimumF);
  FLOAT(FloatUnary, "math.absf", AbsF);
  FLOAT(FloatUnary, "math.ceil", Ceil);
  FLOAT(FloatUnary, "math.floor", Floor);
  FLOAT(FloatUnary, "math.round", Round);
  FLOAT(FloatUnary, "math.roundeven", RoundEven);
  FLOAT(FloatUnary, "math.trunc", Trunc);
  FLOAT(FloatUnary, "math.exp", Exp);
  FLOAT(FloatUnary, "math.exp2", Exp2);
  FLOAT(FloatUnary, "math.expm1", ExpM1);
  FLOAT(FloatUnary, "math.log", Log);
  FLOAT(FloatUnary, "math.log2", Log2);
  FLOAT(FloatUnary, "math.log10", Log10);
  FLOAT(FloatUnary, "math.log1p", Log1P);
  FLOAT(FloatUnary, "math.sqrt", Sqrt);
  FLOAT(FloatUnary, "math.rsqrt", Rsqrt);
  FLOAT(FloatUnary, "math.cbrt", Cbrt);
  FLOAT(FloatUnary, "math.sin", Sin);
  FLOAT(FloatUnary, "math.cos", Cos);
  FLOAT(FloatUnary, "math.tan", Tan);
  FLOAT(FloatUnary, "math.sinh", Sinh);
  FLOAT(FloatUnary, "math.cosh", Cosh);
  FLOAT(FloatUnary, "math.tanh", Tanh);
  FLOAT(FloatUnary, "math.asin", Asin);
  FLOAT(FloatUnary, "math.acos", Acos);
  FLOAT(FloatUnary, "math.atan", Atan);
  FLOAT(FloatUnary, "math.asinh", Asinh);
  FLOAT(FloatUnary, "math.acosh", Acosh);
  FLOAT(FloatUnary, "math.atanh", Atanh);
  FLOAT(FloatBinary, "math.atan2", Atan2);
  FLOAT(FloatUnary, "math.erf", Erf);
  FLOAT(FloatBinary, "math.powf", PowF);
  FLOAT(FloatTernary, "math.fma", Fma);
  FLOAT(FloatBinary, "math.copysign", CopySign);
  table["math.fpowi"] = FloatRow(FloatIntegerPower<float>, FloatIntegerPower<double>);
#undef FLOAT
#define COMPARE(NAME, OP) table["arith.cmpf." NAME] = FloatRow(FloatCompare<OP, float>, FloatCompare<OP, double>)
  COMPARE("false", CmpFalse);
  COMPARE("oeq", CmpOeq);
  COMPARE("ogt", CmpOgt);
  COMPARE("oge", CmpOge);
  COMPARE("olt", CmpOlt);
  COMPARE("ole", CmpOle);
  COMPARE("one", CmpOne);
  COMPARE("ord", CmpOrd);
  COMPARE("ueq", CmpUeq);
  COMPARE("ugt", CmpFUgt);
  COMPARE("uge", CmpFUge);
  COMPARE("ult", CmpFUlt);
  COMPARE("ule", CmpFUle);
  COMPARE("une", CmpUne);
  COMPARE("uno", CmpUno);
  COMPARE("true", CmpTrue);
#undef COMPARE
  return table;
}

//===-- libdevice -----------------------------------------------------------------------------===//

template <typename F>
void IsNanLanes(const void* const* in, void* result, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) static_cast<int32_t*>(result)[i] = std::isnan(static_cast<const F*>(in[0])[i]);
}
template <typename F>
void IsInfLanes(const void* const* in, void* result, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) static_cast<int32_t*>(result)[i] = std::isinf(static_cast<const F*>(in[0])[i]);
}
template <typename F>
void IsFiniteLanes(const void* const* in, void* result, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i)
    static_cast<int32_t*>(result)[i] = std::isfinite(static_cast<const F*>(in[0])[i]);
}
template <typename F>
void SignBitLanes(const void* const* in, void* result, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) static_cast<int32_t*>(result)[i] = std::signbit(static_cast<const F*>(in[0])[i]);
}
template <typename F, typename I>
void RoundToIntegerLanes(const void* const* in, void* result, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) {
    F value = std::nearbyint(static_cast<const F*>(in[0])[i]);
    constexpr F kLimit = F(uint64_t{1} << (8 * sizeof(I) - 1));
    I rounded = std::isnan(value)   ? 0
                : value >= kLimit   ? std::numeric_limits<I>::max()
                : value < -kLimit   ? std::numeric_limits<I>::min()
                                    : I(value);
    static_cast<I*>(result)[i] = rounded;
  }
}
template <typename F>
void LdexpLanes(const void* const* in, void* result, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i)
    static_cast<F*>(result)[i] =
        std::ldexp(static_cast<const F*>(in[0])[i], static_cast<const int32_t*>(in[1])[i]);
}

using Externs = std::unordered_map<std::string, ExternFunction>;

Externs MakeExterns() {
  Externs table;
#define FLOAT(ARITY, N, NAME, OP)                                              \
  table["__nv_" NAME "f"] = {ARITY<OP, float>, N, Kind::kF32, Kind::kF32};     \
  table["__nv_" NAME] = {ARITY<OP, double>, N, Kind::kF64, Kind::kF64}
  FLOAT(FloatUnary, 1, "fabs", AbsF);
  FLOAT(FloatUnary, 1, "ceil", Ceil);
  FLOAT(FloatUnary, 1, "floor", Floor);
  FLOAT(FloatUnary, 1, "round", Round);
  FLOAT(FloatUnary, 1, "rint", RoundEven);
  FLOAT(FloatUnary, 1, "nearbyint", RoundEven);
  FLOAT(FloatUnary, 1, "trunc", Trunc);
  FLOAT(FloatUnary, 1, "exp", Exp);
  FLOAT(FloatUnary, 1, "exp2", Exp2);
  FLOAT(FloatUnary, 1, "exp10", Exp10);
  FLOAT(FloatUnary, 1, "expm1", ExpM1);
  FLOAT(FloatUnary, 1, "log", Log);
  FLOAT(FloatUnary, 1, "log2", Log2);
  FLOAT(FloatUnary, 1, "log10", Log10);
  FLOAT(FloatUnary, 1, "log1p", Log1P);
  FLOAT(FloatUnary, 1, "logb", LogB);
  FLOAT(FloatUnary, 1, "sqrt", Sqrt);
  FLOAT(FloatUnary, 1, "rsqrt", Rsqrt);
  FLOAT(FloatUnary, 1, "cbrt", Cbrt);
  FLOAT(FloatUnary, 1, "rcbrt", Rcbrt);
  FLOAT(FloatUnary, 1, "sin", Sin);
  FLOAT(FloatUnary, 1, "cos", Cos);
  FLOAT(FloatUnary, 1, "tan", Tan);
  FLOAT(FloatUnary, 1, "sinpi", SinPi);
  FLOAT(FloatUnary, 1, "cospi", CosPi);
  FLOAT(FloatUnary, 1, "sinh", Sinh);
  FLOAT(FloatUnary, 1, "cosh", Cosh);
  FLOAT(FloatUnary, 1, "tanh", Tanh);
  FLOAT(FloatUnary, 1, "asin", Asin);
  FLOAT(FloatUnary, 1, "acos", Acos);
  FLOAT(FloatUnary, 1, "atan", Atan);
  FLOAT(FloatUnary, 1, "asinh", Asinh);
  FLOAT(FloatUnary, 1, "acosh", Acosh);
  FLOAT(FloatUnary, 1, "atanh", Atanh);
  FLOAT(FloatUnary, 1, "erf", Erf);
  FLOAT(FloatUnary, 1, "erfc", Erfc);
  FLOAT(FloatUnary, 1, "erfcx", Erfcx);
  FLOAT(FloatUnary, 1, "normcdf", NormCdf);
  FLOAT(FloatUnary, 1, "lgamma", Lgamma);
  FLOAT(FloatUnary, 1, "tgamma", Tgamma);
  FLOAT(FloatUnary, 1, "j0", J0);
  FLOAT(FloatUnary, 1, "j1", J1);
  FLOAT(FloatUnary, 1, "y0", Y0);
  FLOAT(FloatUnary, 1, "y1", Y1);
  FLOAT(FloatUnary, 1, "saturate", Saturate);
  FLOAT(FloatBinary, 2, "fmax", MaxNumF);
  FLOAT(FloatBinary, 2, "fmin", MinNumF);
  FLOAT(FloatBinary, 2, "fmod", RemF);
  FLOAT(FloatBinary, 2, "remainder", Remainder);
  FLOAT(FloatBinary, 2, "atan2", Atan2);
  FLOAT(FloatBinary, 2, "pow", PowF);
  FLOAT(FloatBinary, 2, "copysign", CopySign);
  FLOAT(FloatBinary, 2, "fdim", Fdim);
  FLOAT(FloatBinary, 2, "hypot", Hypot);
  FLOAT(FloatBinary, 2, "nextafter", NextAfter);
  FLOAT(FloatTernary, 3, "fma", Fma);
#undef FLOAT
  // The fast variants exist for fp32 alone.
#define FAST(ARITY, N, NAME, OP) table["__nv_" NAME] = {ARITY<OP, float>, N, Kind::kF32, Kind::kF32}
  FAST(FloatUnary, 1, "fast_sinf", Sin);
  FAST(FloatUnary, 1, "fast_cosf", Cos);
  FAST(FloatUnary, 1, "fast_tanf", Tan);
  FAST(FloatUnary, 1, "fast_tanhf", Tanh);
  FAST(FloatUnary, 1, "fast_expf", Exp);
  FAST(FloatUnary, 1, "fast_exp10f", Exp10);
  FAST(FloatUnary, 1, "fast_logf", Log);
  FAST(FloatUnary, 1, "fast_log2f", Log2);
  FAST(FloatUnary, 1, "fast_log10f", Log10);
  FAST(FloatBinary, 2, "fast_powf", PowF);
  FAST(FloatBinary, 2, "fast_fdividef", DivF);
  FAST(FloatBinary, 2, "fadd_rn", AddF);
  FAST(FloatBinary, 2, "fsub_rn", SubF);
  FAST(FloatBinary, 2, "fmul_rn", MulF);
  FAST(FloatBinary, 2, "fdiv_rn", DivF);
  FAST(FloatUnary, 1, "frcp_rn", Reciprocal);
  FAST(FloatUnary, 1, "fsqrt_rn", Sqrt);
  FAST(FloatUnary, 1, "frsqrt_rn", Rsqrt);
  FAST(FloatTernary, 3, "fmaf_rn", Fma);
#undef FAST
#define DOUBLE(ARITY, N, NAME, OP) table["__nv_" NAME] = {ARITY<OP, double>, N, Kind::kF64, Kind::kF64}
  DOUBLE(FloatBinary, 2, "dadd_rn", AddF);
  DOUBLE(FloatBinary, 2, "dmul_rn", MulF);
  DOUBLE(FloatBinary, 2, "ddiv_rn", DivF);
  DOUBLE(FloatUnary, 1, "drcp_rn", Reciprocal);
  DOUBLE(FloatUnary, 1, "dsqrt_rn", Sqrt);
  DOUBLE(FloatTernary, 3, "fma_rn", Fma);
#undef DOUBLE
#define INT(ARITY, N, NAME, LONG_NAME, OP)                                                  \
  table["__nv_" NAME] = {ARITY<OP, Word>, N, Kind::kI32, Kind::kI32};                       \
  table["__nv_" LONG_NAME] = {ARITY<OP, Long>, N, Kind::kI64, Kind::kI64}
  INT(IntegerUnary, 1, "abs", "llabs", AbsI);
  INT(IntegerBinary, 2, "max", "llmax", MaxSI);
  INT(IntegerBinary, 2, "min", "llmin", MinSI);
  INT(IntegerBinary, 2, "umax", "ullmax", MaxUI);
  INT(IntegerBinary, 2, "umin", "ullmin", MinUI);
  INT(IntegerBinary, 2, "mulhi", "mul64hi", MulHiSI);
  INT(IntegerBinary, 2, "umulhi", "umul64hi", MulHiUI);
#undef INT
  table["__nv_clz"] = {IntegerUnary<Ctlz, Word>, 1, Kind::kI32, Kind::kI32};
  table["__nv_popc"] = {IntegerUnary<Ctpop, Word>, 1, Kind::kI32, Kind::kI32};
  table["__nv_isnanf"] = {IsNanLanes<float>, 1, Kind::kF32, Kind::kI32};
  table["__nv_isnand"] = {IsNanLanes<double>, 1, Kind::kF64, Kind::kI32};
  table["__nv_isinff"] = {IsInfLanes<float>, 1, Kind::kF32, Kind::kI32};
  table["__nv_isinfd"] = {IsInfLanes<double>, 1, Kind::kF64, Kind::kI32};
  table["__nv_finitef"] = {IsFiniteLanes<float>, 1, Kind::kF32, Kind::kI32};
  table["__nv_isfinited"] = {IsFiniteLanes<double>, 1, Kind::kF64, Kind::kI32};
  table["__nv_signbitf"] = {SignBitLanes<float>, 1, Kind::kF32, Kind::kI32};
  table["__nv_signbitd"] = {SignBitLanes<double>, 1, Kind::kF64, Kind::kI32};
  table["__nv_float2int_rn"] = {RoundToIntegerLanes<float, int32_t>, 1, Kind::kF32, Kind::kI32};
  table["__nv_float2ll_rn"] = {RoundToIntegerLanes<float, int64_t>, 1, Kind::kF32, Kind::kI64};
  table["__nv_double2int_rn"] = {RoundToIntegerLanes<double, int32_t>, 1, Kind::kF64, Kind::kI32};
  table["__nv_double2ll_rn"] = {RoundToIntegerLanes<double, int64_t>, 1, Kind::kF64, Kind::kI64};
  table["__nv_llrintf"] = {RoundToIntegerLanes<float, int64_t>, 1, Kind::kF32, Kind::kI64};
  table["__nv_llrint"] = {RoundToIntegerLanes<double, int64_t>, 1, Kind::kF64, Kind::kI64};
  table["__nv_ldexpf"] = {LdexpLanes<float>, 2, Kind::kF32, Kind::kF32};
  table["__nv_ldexp"] = {LdexpLanes<double>, 2, Kind::kF64, Kind::kF64};
  table["__nv_powif"] = {FloatIntegerPower<float>, 2, Kind::kF32, Kind::kF32};
  table["__nv_powi"] = {FloatIntegerPower<double>, 2, Kind::kF64, Kind::kF64};
  return table;
}

//===-- casts ---------------------------------------------------------------------------------===//

template <typename From, typename To, bool kSigned>
void IntegerCast(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const typename From::U*>(in[0]);
  auto* r = static_cast<typename To::U*>(result);
  for (int64_t i = 0; i < lanes; ++i) {
    if constexpr (kSigned) r[i] = To::Wrap(typename To::U(From::Signed(a[i])));
    else r[i] = To::Wrap(typename To::U(a[i]));
  }
}

template <typename From, typename F, bool kSigned>
void IntegerToFloat(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const typename From::U*>(in[0]);
  auto* r = static_cast<F*>(result);
  for (int64_t i = 0; i < lanes; ++i) {
    if constexpr (kSigned) r[i] = F(From::Signed(a[i]));
    else r[i] = F(a[i]);
  }
}

// Integers above 2^53 lose low bits in a double; setting the last place instead keeps later roundings right.
template <bool kSigned>
void LongToDoubleOdd(const void* const* in, void* result, int64_t lanes) {
  auto* a = static_cast<const uint64_t*>(in[0]);
  auto* r = static_cast<double*>(result);
  for (int64_t i = 0; i < lanes; ++i) {
    bool negative = kSigned && int64_t(a[i]) < 0;
    uint64_t magnitude = negative ? 0 - a[i] : a[i];
    if (magnitude >> 53) {
      int drop = 64 - 53 - __builtin_clzll(magnitude);
      uint64_t lost = magnitude & ((uint64_t{1} << drop) - 1);
      magnitude = (magnitude >> drop | (lost != 0)) << drop;
    }
    r[i] = negative ? -double(magnitude) : double(magnitude);
  }
}

template <typename F, typename To, bool kSigned>
void FloatToInteger(const void* const* in, void* result, int64_t lanes) {
  using I = std::conditional_t<kSigned, typename To::S, typename To::U>;
  // 2^bits, or half of it, is a float; the largest integer often is none.
  constexpr int kMagnitudeBits = To::kBits - (kSigned ? 1 : 0);
  constexpr F kEnd = F(2) * F(uint64_t{1} << (kMagnitudeBits > 0 ? kMagnitudeBits - 1 : 0)) / (kMagnitudeBits ? 1 : 2);
  constexpr I kMax = I(kMagnitudeBits == 64 ? ~uint64_t{0} : (uint64_t{1} << (kMagnitudeBits & 63)) - 1);
  constexpr I kMin = kSigned ? I(-int64_t(kMax) - 1) : I(0);
  auto* a = static_cast<const F*>(in[0]);
  auto* r = static_cast<typename To::U*>(result);
  for (int64_t i = 0; i < lanes; ++i) {
    F value = a[i];
    I converted;
    if (value != value) converted = 0;
    else if (value >= kEnd) converted = kMax;
    else if (value <= F(kMin)) converted = kMin;
    else converted = I(value);
    r[i] = To::Wrap(typename To::U(converted));
  }
}

template <typename From, bool kSigned>
LaneFunction IntegerCastTo(Kind to) {
  switch (to) {
    case Kind::kI1: return IntegerCast<From, Boolean, kSigned>;
    case Kind::kI8: return IntegerCast<From, Byte, kSigned>;
    case Kind::kI16: return IntegerCast<From, Short, kSigned>;
    case Kind::kI32: return IntegerCast<From, Word, kSigned>;
    case Kind::kI64: return IntegerCast<From, Long, kSigned>;
    default: return nullptr;
  }
}
template <typename From>
LaneFunction IntegerCastFrom(Kind to, bool is_signed) {
  return is_signed ? IntegerCastTo<From, true>(to) : IntegerCastTo<From, false>(to);
}
template <typename From>
LaneFunction IntegerToFloatFrom(Kind to, bool is_signed) {
  if (to == Kind::kF32) return is_signed ? IntegerToFloat<From, float, true> : IntegerToFloat<From, float, false>;
  return is_signed ? IntegerToFloat<From, double, true> : IntegerToFloat<From, double, false>;
}
template <typename F, bool kSigned>
LaneFunction FloatToIntegerOf(Kind to) {
  switch (to) {
    case Kind::kI1: return FloatToInteger<F, Boolean, kSigned>;
    case Kind::kI8: return FloatToInteger<F, Byte, kSigned>;
    case Kind::kI16: return FloatToInteger<F, Short, kSigned>;
    case Kind::kI32: return FloatToInteger<F, Word, kSigned>;
    case Kind::kI64: return FloatToInteger<F, Long, kSigned>;
    default: return nullptr;
  }
}

}  // namespace

LaneFunction FindLaneFunction(absl::string_view name, Kind kind) {
  static const auto* table = new Table(MakeTable());
  auto it = table->find(std::string(name));
  if (it == table->end() || int(kind) >= int(it->second.size())) return nullptr;
  return it->second[int(kind)];
}

ExternFunction FindExternFunction(absl::string_view symbol) {
  static const auto* table = new Externs(MakeExterns());
  auto it = table->find(std::string(symbol));
  return it == table->end() ? ExternFunction{} : it->second;
}

LaneFunction FindIntegerCast(Kind from, Kind to, bool is_signed) {
  switch (from) {
    case Kind::kI1: return IntegerCastFrom<Boolean>(to, is_signed);
    case Kind::kI8: return IntegerCastFrom<Byte>(to, is_signed);
    case Kind::kI16: return IntegerCastFrom<Short>(to, is_signed);
    case Kind::kI32: return IntegerCastFrom<Word>(to, is_signed);
    case Kind::kI64: return IntegerCastFrom<Long>(to, is_signed);
    default: return nullptr;
  }
}

LaneFunction FindIntegerToFloat(Kind from, Kind to, bool is_signed, bool odd) {
  switch (from) {
    case Kind::kI1: return IntegerToFloatFrom<Boolean>(to, is_signed);
    case Kind::kI8: return IntegerToFloatFrom<Byte>(to, is_signed);
    case Kind::kI16: return IntegerToFloatFrom<Short>(to, is_signed);
    case Kind::kI32: return IntegerToFloatFrom<Word>(to, is_signed);
    case Kind::kI64:
      if (odd) return is_signed ? LongToDoubleOdd<true> : LongToDoubleOdd<false>;
      return IntegerToFloatFrom<Long>(to, is_signed);
    default: return nullptr;
  }
}

LaneFunction FindFloatToInteger(Kind from, Kind to, bool is_signed) {
  if (from == Kind::kF32) return is_signed ? FloatToIntegerOf<float, true>(to) : FloatToIntegerOf<float, false>(to);
  return is_signed ? FloatToIntegerOf<double, true>(to) : FloatToIntegerOf<double, false>(to);
}

}  // namespace tessera::interpreter
