// arith, math, vector, and operations of the tile dialect on scalars.
//
// fp32 division and square root are the hardware's fast forms, as Triton's are (2 ulp; 1 ulp), and products may fuse with
// sums: operations that carry the attribute "tile.round_nearest" (tl.div_rn, tl.sqrt_rn) round as IEEE says.
#include "compiler/conversion/simt_to_nvvm/translator.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace tessera::compiler {

namespace arith = mlir::arith;
namespace math = mlir::math;
using llvm::Value;
using mlir::LogicalResult;
using mlir::success;

namespace {

bool IsSmallFloat(mlir::Type type) { return mlir::isa<mlir::FloatType>(type) && type.getIntOrFloatBitWidth() < 32; }

llvm::CmpInst::Predicate PredicateOf(arith::CmpIPredicate predicate) {
  switch (predicate) {
    case arith::CmpIPredicate::eq: return llvm::CmpInst::ICMP_EQ;
    case arith::CmpIPredicate::ne: return llvm::CmpInst::ICMP_NE;
    case arith::CmpIPredicate::slt: return llvm::CmpInst::ICMP_SLT;
    case arith::CmpIPredicate::sle: return llvm::CmpInst::ICMP_SLE;
    case arith::CmpIPredicate::sgt: return llvm::CmpInst::ICMP_SGT;
    case arith::CmpIPredicate::sge: return llvm::CmpInst::ICMP_SGE;
    case arith::CmpIPredicate::ult: return llvm::CmpInst::ICMP_ULT;
    case arith::CmpIPredicate::ule: return llvm::CmpInst::ICMP_ULE;
    case arith::CmpIPredicate::ugt: return llvm::CmpInst::ICMP_UGT;
    case arith::CmpIPredicate::uge: return llvm::CmpInst::ICMP_UGE;
  }
  llvm_unreachable("unknown predicate");
}

llvm::CmpInst::Predicate PredicateOf(arith::CmpFPredicate predicate) {
  switch (predicate) {
    case arith::CmpFPredicate::AlwaysFalse: return llvm::CmpInst::FCMP_FALSE;
    case arith::CmpFPredicate::OEQ: return llvm::CmpInst::FCMP_OEQ;
    case arith::CmpFPredicate::OGT: return llvm::CmpInst::FCMP_OGT;
    case arith::CmpFPredicate::OGE: return llvm::CmpInst::FCMP_OGE;
    case arith::CmpFPredicate::OLT: return llvm::CmpInst::FCMP_OLT;
    case arith::CmpFPredicate::OLE: return llvm::CmpInst::FCMP_OLE;
    case arith::CmpFPredicate::ONE: return llvm::CmpInst::FCMP_ONE;
    case arith::CmpFPredicate::ORD: return llvm::CmpInst::FCMP_ORD;
    case arith::CmpFPredicate::UEQ: return llvm::CmpInst::FCMP_UEQ;
    case arith::CmpFPredicate::UGT: return llvm::CmpInst::FCMP_UGT;
    case arith::CmpFPredicate::UGE: return llvm::CmpInst::FCMP_UGE;
    case arith::CmpFPredicate::ULT: return llvm::CmpInst::FCMP_ULT;
    case arith::CmpFPredicate::ULE: return llvm::CmpInst::FCMP_ULE;
    case arith::CmpFPredicate::UNE: return llvm::CmpInst::FCMP_UNE;
    case arith::CmpFPredicate::UNO: return llvm::CmpInst::FCMP_UNO;
    case arith::CmpFPredicate::AlwaysTrue: return llvm::CmpInst::FCMP_TRUE;
  }
  llvm_unreachable("unknown predicate");
}

bool RoundsToNearest(mlir::Operation* op) { return op->hasAttr("tile.round_nearest"); }

}  // namespace

// Never traps and is never undefined: where it has no result it has some value. 32-bit division goes past LLVM, which
// would draw conclusions from a divisor of zero; wider ones are guarded, since LLVM's 64-bit division has a fast path.
Value* SimtTranslator::Divide(Value* a, Value* b, bool is_signed, bool remainder) {
  llvm::Type* type = a->getType();
  const unsigned bits = type->getIntegerBitWidth();
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(b);
  auto divide = [&](Value* x, Value* y) {
    if (is_signed) return remainder ? b_.CreateSRem(x, y) : b_.CreateSDiv(x, y);
    return remainder ? b_.CreateURem(x, y) : b_.CreateUDiv(x, y);
  };
  if (bits == 1) return remainder ? llvm::ConstantInt::get(type, 0) : a;
  if (constant && !constant->isZero() && !(is_signed && constant->isMinusOne())) return divide(a, b);
  if (bits <= 32) {
    auto widen = [&](Value* v) { return is_signed ? b_.CreateSExt(v, i32_) : b_.CreateZExt(v, i32_); };
    const std::string text = std::string(remainder ? "rem." : "div.") + (is_signed ? "s32" : "u32") + " $0, $1, $2;";
    return b_.CreateTrunc(Asm(i32_, text, "=r,r,r", {widen(a), widen(b)}, kPure), type);
  }
  Value* bad = b_.CreateICmpEQ(b, llvm::ConstantInt::get(type, 0));
  if (is_signed) {
    Value* overflows = b_.CreateAnd(b_.CreateICmpEQ(b, llvm::ConstantInt::getSigned(type, -1)),
                                    b_.CreateICmpEQ(a, llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits))));
    bad = b_.CreateOr(bad, overflows);
  }
  return divide(a, b_.CreateSelect(bad, llvm::ConstantInt::get(type, 1), b));
}

Value* SimtTranslator::MaxMinNan(bool max, Value* a, Value* b) {
  if (a->getType() != double_) return b_.CreateBinaryIntrinsic(max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  Value* extreme = b_.CreateBinaryIntrinsic(max ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum, a, b);
  return b_.CreateSelect(b_.CreateFCmpUNO(a, b), b_.CreateFAdd(a, b), extreme);
}

Value* SimtTranslator::FloatBinary(mlir::Operation* op, Value* a, Value* b, mlir::Type type) {
  // fp16 has instructions of its own for all but division and remainder, bf16 from sm_90 on for sums and products (which
  // may fuse, as Triton's do); else bf16 computes in fp32 and rounds.
  const bool own_bf16 = type.isBF16() && arch_.sm >= 90 && mlir::isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op);
  const bool widen = !type.isF32() && !type.isF64() && !own_bf16 && !(type.isF16() && !mlir::isa<arith::DivFOp, arith::RemFOp>(op));
  if (own_bf16) {
    a = b_.CreateBitCast(a, b_.getBFloatTy());
    b = b_.CreateBitCast(b, b_.getBFloatTy());
  }
  if (widen) {
    a = Widen(a, type);
    b = Widen(b, type);
  }
  llvm::IRBuilder<>::FastMathFlagGuard guard(b_);
  if (RoundsToNearest(op)) b_.clearFastMathFlags();
  auto result = llvm::TypeSwitch<mlir::Operation*, Value*>(op)
                    .Case([&](arith::AddFOp) { return b_.CreateFAdd(a, b); })
                    .Case([&](arith::SubFOp) { return b_.CreateFSub(a, b); })
                    .Case([&](arith::MulFOp) { return b_.CreateFMul(a, b); })
                    .Case([&](arith::DivFOp) -> Value* {
                      if (a->getType() == double_ || RoundsToNearest(op)) return b_.CreateFDiv(a, b);
                      return Asm(float_, "div.full.f32 $0, $1, $2;", "=f,f,f", {a, b}, kPure);
                    })
                    .Case([&](arith::RemFOp) {
                      return Libdevice(a->getType() == double_ ? "__nv_fmod" : "__nv_fmodf", a->getType(), {a, b});
                    })
                    .Case([&](arith::MaximumFOp) { return MaxMinNan(true, a, b); })
                    .Case([&](arith::MinimumFOp) { return MaxMinNan(false, a, b); })
                    .Case([&](arith::MaxNumFOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, a, b); })
                    .Case([&](arith::MinNumFOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, a, b); })
                    .Default([](mlir::Operation*) { return nullptr; });
  if (own_bf16) return b_.CreateBitCast(result, i16_);
  return result && widen ? Narrow(result, type) : result;
}

Value* SimtTranslator::CompareFloats(arith::CmpFOp op, Value* a, Value* b, mlir::Type type) {
  if (IsSmallFloat(type) && !type.isF16()) {
    a = Widen(a, type);
    b = Widen(b, type);
  }
  return b_.CreateFCmp(PredicateOf(op.getPredicate()), a, b);
}

// `from` and `to`: the element types of the last operand and the result.
Value* SimtTranslator::Scalar(mlir::Operation* op, llvm::ArrayRef<Value*> v, mlir::Type from, mlir::Type to) {
  auto amount = [&]() -> Value* {  // of a shift: too much of it is unspecified, but poisons nothing
    return b_.CreateAnd(v[1], llvm::ConstantInt::get(v[1]->getType(), to.getIntOrFloatBitWidth() - 1));
  };
  auto integer = [&] { return llvm::cast<llvm::IntegerType>(Type(to)); };
  return llvm::TypeSwitch<mlir::Operation*, Value*>(op)
      .Case([&](arith::AddIOp) { return b_.CreateAdd(v[0], v[1]); })
      .Case([&](arith::SubIOp) { return b_.CreateSub(v[0], v[1]); })
      .Case([&](arith::MulIOp) { return b_.CreateMul(v[0], v[1]); })
      .Case([&](arith::AndIOp) { return b_.CreateAnd(v[0], v[1]); })
      .Case([&](arith::OrIOp) { return b_.CreateOr(v[0], v[1]); })
      .Case([&](arith::XOrIOp) { return b_.CreateXor(v[0], v[1]); })
      .Case([&](arith::ShLIOp) { return b_.CreateShl(v[0], amount()); })
      .Case([&](arith::ShRSIOp) { return b_.CreateAShr(v[0], amount()); })
      .Case([&](arith::ShRUIOp) { return b_.CreateLShr(v[0], amount()); })
      .Case([&](arith::MaxSIOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v[0], v[1]); })
      .Case([&](arith::MinSIOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v[0], v[1]); })
      .Case([&](arith::MaxUIOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, v[0], v[1]); })
      .Case([&](arith::MinUIOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, v[0], v[1]); })
      .Case<arith::DivSIOp, tile::DivSOp>([&](auto) { return Divide(v[0], v[1], true, false); })
      .Case<arith::DivUIOp, tile::DivUOp>([&](auto) { return Divide(v[0], v[1], false, false); })
      .Case<arith::RemSIOp, tile::RemSOp>([&](auto) { return Divide(v[0], v[1], true, true); })
      .Case<arith::RemUIOp, tile::RemUOp>([&](auto) { return Divide(v[0], v[1], false, true); })
      .Case([&](tile::MulHiUOp) {
        const unsigned bits = to.getIntOrFloatBitWidth();
        llvm::Type* wide = b_.getIntNTy(2 * bits);
        return b_.CreateTrunc(b_.CreateLShr(b_.CreateMul(b_.CreateZExt(v[0], wide), b_.CreateZExt(v[1], wide)), bits), Type(to));
      })
      .Case([&](arith::CmpIOp cmp) { return b_.CreateICmp(PredicateOf(cmp.getPredicate()), v[0], v[1]); })
      .Case([&](arith::CmpFOp cmp) { return CompareFloats(cmp, v[0], v[1], from); })
      .Case([&](arith::SelectOp) { return b_.CreateSelect(v[0], v[1], v[2]); })
      .Case([&](arith::ExtSIOp) { return b_.CreateSExt(v[0], Type(to)); })
      .Case([&](arith::ExtUIOp) { return b_.CreateZExt(v[0], Type(to)); })
      .Case([&](arith::TruncIOp) { return b_.CreateTrunc(v[0], Type(to)); })
      .Case([&](arith::IndexCastOp) { return b_.CreateSExtOrTrunc(v[0], Type(to)); })
      .Case([&](arith::IndexCastUIOp) { return b_.CreateZExtOrTrunc(v[0], Type(to)); })
      .Case([&](arith::BitcastOp) { return b_.CreateBitCast(v[0], Type(to)); })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return ConvertFloat(v[0], from, to); })
      .Case([&](tile::FpToFpOp convert) { return ConvertFloat(v[0], from, to, convert.getRounding() == tile::Rounding::RTZ); })
      .Case([&](tile::FpToIntOp convert) { return FloatToInt(v[0], from, integer(), convert.getIsUnsigned()); })
      .Case([&](arith::FPToSIOp) { return FloatToInt(v[0], from, integer(), false); })
      .Case([&](arith::FPToUIOp) { return FloatToInt(v[0], from, integer(), true); })
      .Case([&](arith::SIToFPOp) { return IntToFloat(v[0], to, false); })
      .Case([&](arith::UIToFPOp) { return IntToFloat(v[0], to, true); })
      .Case([&](arith::NegFOp) -> Value* {
        if (v[0]->getType()->isFloatingPointTy()) return b_.CreateFNeg(v[0]);
        const unsigned bits = to.getIntOrFloatBitWidth();
        return b_.CreateXor(v[0], llvm::ConstantInt::get(v[0]->getType(), llvm::APInt::getSignMask(bits)));
      })
      .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
            arith::MinNumFOp>([&](auto) { return FloatBinary(op, v[0], v[1], to); })
      .Default([&](mlir::Operation* other) { return mlir::isa<math::MathDialect>(other->getDialect()) ? Math(other, v, to) : nullptr; });
}

//===-- math ------------------------------------------------------------------------------------===//

Value* SimtTranslator::Libdevice(mlir::StringRef symbol, llvm::Type* result, llvm::ArrayRef<Value*> operands) {
  llvm::SmallVector<llvm::Type*> types;
  for (Value* operand : operands) types.push_back(operand->getType());
  llvm::FunctionCallee callee = module_.getOrInsertFunction(symbol, llvm::FunctionType::get(result, types, false));
  result_.libdevice_symbols.insert(symbol.str());
  llvm::CallInst* call = b_.CreateCall(callee, operands);
  call->setDoesNotThrow();
  call->setDoesNotAccessMemory();
  call->addFnAttr(llvm::Attribute::WillReturn);
  return call;
}

// erf on fp32 within 2 ulp, without branches: libdevice's has one, which keeps the elements of a thread from overlapping.
Value* SimtTranslator::Erf(Value* x) {
  // erf(x) / x - 1 in x^2 on |x| <= kSplit; -log2(1 - erf(x)) / x on kSplit <= x <= 4, above which erf is 1.
  constexpr double kSplit = 0x1.dc28f6p-1, kEnd = 4;
  constexpr double kSmall[] = {0x1.06eba6p-3, -0x1.8126e2p-2, 0x1.ce1984p-4, -0x1.b67bcep-6, 0x1.46d856p-8, -0x1.386e5ap-11};
  constexpr double kLarge[] = {0x1.20e620p+0, 0x1.457e2ap-1, 0x1.af197ap-4, -0x1.76e4d2p-6, 0x1.a50de2p-9, -0x1.c01bbap-13};
  constexpr double kLog2E = 1.4426950408889634;
  auto number = [&](double value) -> Value* { return llvm::ConstantFP::get(float_, value); };
  auto fma = [&](Value* a, Value* b, Value* c) -> Value* { return b_.CreateIntrinsic(llvm::Intrinsic::fma, {float_}, {a, b, c}); };
  auto polynomial = [&](Value* at, llvm::ArrayRef<double> coefficients, double scale) {
    Value* sum = number(scale * coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) sum = fma(sum, at, number(scale * coefficient));
    return sum;
  };
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* small = fma(magnitude, polynomial(b_.CreateFMul(magnitude, magnitude), kSmall, 1), magnitude);
  Value* bounded = b_.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, magnitude, number(kEnd));
  Value* exponent = b_.CreateFMul(bounded, polynomial(bounded, kLarge, -kLog2E));
  Value* large = b_.CreateFSub(number(1), Intrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {exponent}));
  Value* result = b_.CreateSelect(b_.CreateFCmpOGT(magnitude, number(kSplit)), large, small);  // NaN stays in `small`
  return Asm(float_, "copysign.f32 $0, $1, $2;", "=f,f,f", {x, result}, kPure);  // LLVM's takes seven instructions
}

// As Triton: exp by ex2.approx, the rest by libdevice where no instruction is as exact.
Value* SimtTranslator::Math(mlir::Operation* op, llvm::ArrayRef<Value*> v, mlir::Type type) {
  if (mlir::isa<mlir::IntegerType>(type))
    return llvm::TypeSwitch<mlir::Operation*, Value*>(op)
        .Case([&](math::AbsIOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, v[0], b_.getFalse()); })
        .Case([&](math::CountLeadingZerosOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, v[0], b_.getFalse()); })
        .Case([&](math::CountTrailingZerosOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, v[0], b_.getFalse()); })
        .Case([&](math::CtPopOp) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, v[0]); })
        .Default([](mlir::Operation*) { return nullptr; });
  if (mlir::isa<math::AbsFOp>(op) && type.isBF16()) return b_.CreateAnd(v[0], 0x7fff);
  const bool in_half = type.isF16() && mlir::isa<math::AbsFOp, math::FmaOp>(op);
  if (IsSmallFloat(type) && !in_half) {
    llvm::SmallVector<Value*> wide;
    for (Value* operand : v) wide.push_back(operand->getType()->isIntegerTy(32) ? operand : Widen(operand, type));
    Value* result = Math(op, wide, mlir::Float32Type::get(op->getContext()));
    return result ? Narrow(result, type) : nullptr;
  }
  const bool single = type.isF32();
  auto unary = [&](llvm::Intrinsic::ID id) -> Value* { return b_.CreateUnaryIntrinsic(id, v[0]); };
  return llvm::TypeSwitch<mlir::Operation*, Value*>(op)
      .Case([&](math::AbsFOp) { return unary(llvm::Intrinsic::fabs); })
      .Case([&](math::FloorOp) { return unary(llvm::Intrinsic::floor); })
      .Case([&](math::CeilOp) { return unary(llvm::Intrinsic::ceil); })
      .Case([&](math::TruncOp) { return unary(llvm::Intrinsic::trunc); })
      .Case([&](math::RoundEvenOp) { return unary(llvm::Intrinsic::roundeven); })
      .Case([&](math::RoundOp) { return unary(llvm::Intrinsic::round); })
      .Case([&](math::FmaOp) { return b_.CreateIntrinsic(llvm::Intrinsic::fma, {v[0]->getType()}, {v[0], v[1], v[2]}); })
      .Case([&](math::CopySignOp) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, v[0], v[1]); })
      .Case([&](math::SqrtOp) -> Value* {
        if (single && !RoundsToNearest(op)) return Intrinsic(llvm::Intrinsic::nvvm_sqrt_approx_f, {v[0]});
        return unary(llvm::Intrinsic::sqrt);
      })
      .Case([&](math::RsqrtOp) -> Value* {
        if (single) return Intrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f, {v[0]});
        return Libdevice("__nv_rsqrt", double_, v);
      })
      .Case([&](math::ExpOp) -> Value* {
        if (!single) return Libdevice("__nv_exp", double_, v);
        Value* scaled = b_.CreateFMul(v[0], llvm::ConstantFP::get(float_, 1.4426950408889634));
        return Intrinsic(llvm::Intrinsic::nvvm_ex2_approx_f, {scaled});
      })
      .Case([&](math::Exp2Op) -> Value* {
        if (!single) return Libdevice("__nv_exp2", double_, v);
        return Intrinsic(llvm::Intrinsic::nvvm_ex2_approx_f, {v[0]});
      })
      .Case([&](math::ErfOp) -> Value* { return single ? Erf(v[0]) : Libdevice("__nv_erf", double_, v); })
      .Default([&](mlir::Operation* other) -> Value* {
        mlir::StringRef name = other->getName().stripDialect();
        const char* known = llvm::StringSwitch<const char*>(name)
                                .Case("powf", "pow")
                                .Cases("fpowi", "ipowi", nullptr)
                                .Cases("log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "")
                                .Cases("asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "")
                                .Cases("asinh", "acosh", "atanh", "cbrt", "")
                                .Default(nullptr);
        if (!known) return nullptr;
        return Libdevice(("__nv_" + (*known ? mlir::StringRef(known) : name) + (single ? "f" : "")).str(), Type(type), v);
      });
}

//===-- short vectors ---------------------------------------------------------------------------===//

LogicalResult SimtTranslator::Vector(mlir::Operation* op) {
  return llvm::TypeSwitch<mlir::Operation*, LogicalResult>(op)
      .Case([&](mlir::vector::ExtractOp extract) -> LogicalResult {
        if (extract.getNumIndices() != 1 || extract.hasDynamicPosition()) return Unsupported(op, "a run-time index into a vector");
        Set(extract, GetLanes(extract.getVector())[extract.getStaticPosition()[0]]);
        return success();
      })
      .Case([&](mlir::vector::InsertOp insert) -> LogicalResult {
        if (insert.getStaticPosition().size() != 1 || insert.hasDynamicPosition()) return Unsupported(op, "a run-time index into a vector");
        Lanes lanes = GetLanes(insert.getDest());
        lanes[insert.getStaticPosition()[0]] = Get(insert.getSource());
        SetLanes(insert, lanes);
        return success();
      })
      .Case([&](mlir::vector::FromElementsOp from) {
        Lanes lanes;
        for (mlir::Value element : from.getElements()) lanes.push_back(Get(element));
        SetLanes(from, lanes);
        return success();
      })
      .Case<mlir::vector::BroadcastOp, mlir::vector::SplatOp>([&](auto splat) {
        Lanes source = GetLanes(op->getOperand(0));
        const int64_t count = mlir::cast<mlir::VectorType>(op->getResult(0).getType()).getNumElements();
        SetLanes(op->getResult(0), Lanes(count, source[0]));
        return success();
      })
      .Case([&](mlir::vector::BitCastOp cast) {
        // Through words, as memory would do it.
        const Words from = WordsOf(cast.getSource().getType()), to = WordsOf(cast.getType());
        Lanes words = ToWords(GetLanes(cast.getSource()), cast.getSource().getType(), from);
        if (from.type != to.type) {
          const unsigned from_bits = from.type->getPrimitiveSizeInBits(), to_bits = to.type->getPrimitiveSizeInBits();
          for (Value*& word : words) word = b_.CreateBitCast(word, b_.getIntNTy(from_bits));
          Lanes changed;
          if (from_bits == to_bits) {
            changed = words;
          } else if (from_bits > to_bits) {
            for (Value* word : words)
              for (unsigned bit = 0; bit < from_bits; bit += to_bits) changed.push_back(b_.CreateTrunc(b_.CreateLShr(word, bit), b_.getIntNTy(to_bits)));
          } else {
            for (int i = 0; i < to.count; ++i) {
              Value* all = llvm::ConstantInt::get(b_.getIntNTy(to_bits), 0);
              for (unsigned bit = 0; bit < to_bits; bit += from_bits)
                all = b_.CreateOr(all, b_.CreateShl(b_.CreateZExt(words[i * (to_bits / from_bits) + bit / from_bits], all->getType()), bit));
              changed.push_back(all);
            }
          }
          words.clear();
          for (Value* word : changed) words.push_back(b_.CreateBitCast(word, to.type));
        }
        SetLanes(cast, FromWords(words, cast.getType(), to));
        return success();
      })
      .Default([&](mlir::Operation* other) { return Unsupported(other, other->getName().getStringRef()); });
}

//===-- calls -----------------------------------------------------------------------------------===//

LogicalResult SimtTranslator::Extern(tile::ExternOp op) {
  llvm::SmallVector<Value*> operands;
  for (mlir::Value operand : op.getOperands()) operands.push_back(Get(operand));
  llvm::Type* result = Type(op.getResult().getType());
  if (result == i16_ || result == i8_ || result == half_) return Unsupported(op, "the function " + op.getSymbol() + " on this type");
  Set(op.getResult(), Libdevice(op.getSymbol(), result, operands));
  return success();
}

// Operands and results come in groups of `pack` elements. As in Triton, elements below 32 bits share registers: as many
// of a group as fit 32 bits.
LogicalResult SimtTranslator::InlineAsm(tile::InlineAsmOp op) {
  const int pack = std::max<int>(op.getPack(), 1);
  if (op.getNumOperands() % pack != 0 || op.getNumResults() % pack != 0) return op.emitError("an incomplete group of packed elements");
  auto per_register = [&](mlir::Type type) {
    const int bits = std::max<int>(type.getIntOrFloatBitWidth(), 8);
    return bits < 32 ? std::min(pack, 32 / bits) : 1;
  };
  auto bits_of = [](llvm::Type* type) { return unsigned(type->getPrimitiveSizeInBits()); };
  llvm::SmallVector<Value*> operands;
  for (unsigned first = 0; first < op.getNumOperands(); first += pack) {
    mlir::Type type = op->getOperand(first).getType();
    const int together = per_register(type);
    for (int i = 0; i < pack; i += together) {
      Value* one = Get(op->getOperand(first + i));
      if (together == 1) {
        // A lone i8 travels in a 16-bit register, bf16 in one too.
        operands.push_back(one->getType() == i8_ ? b_.CreateZExt(one, i16_) : one);
        continue;
      }
      const unsigned bits = bits_of(one->getType());
      llvm::Type* packed = b_.getIntNTy(bits * together);
      Value* all = llvm::ConstantInt::get(packed, 0);
      for (int k = 0; k < together; ++k) {
        Value* element = b_.CreateBitCast(Get(op->getOperand(first + i + k)), b_.getIntNTy(bits));
        all = b_.CreateOr(all, b_.CreateShl(b_.CreateZExt(element, packed), k * bits));
      }
      operands.push_back(all);
    }
  }
  llvm::SmallVector<llvm::Type*> registers;
  for (unsigned first = 0; first < op.getNumResults(); first += pack) {
    mlir::Type type = op->getResult(first).getType();
    llvm::Type* element = Type(type);
    const int together = per_register(type);
    for (int i = 0; i < pack; i += together) {
      if (together > 1) registers.push_back(b_.getIntNTy(bits_of(element) * together));
      else registers.push_back(element == i8_ || element == i1_ ? i16_ : element);
    }
  }
  llvm::Type* result_type = StructOf(registers);
  llvm::SmallVector<llvm::Type*> operand_types;
  for (Value* operand : operands) operand_types.push_back(operand->getType());
  auto* function_type = llvm::FunctionType::get(result_type, operand_types, false);
  if (llvm::Error wrong = llvm::InlineAsm::verify(function_type, op.getConstraints())) {
    std::string text = llvm::toString(std::move(wrong));
    return op.emitError("inline assembly with constraints '") << op.getConstraints() << "' for " << operands.size() << " operand and "
                                                              << registers.size() << " result registers: " << text;
  }
  Value* call = Asm(result_type, op.getAsmText().str(), op.getConstraints().str(), operands, op.getIsPure() ? kPure : kVolatile);
  int index = 0;
  for (unsigned first = 0; first < op.getNumResults(); first += pack) {
    mlir::Type type = op->getResult(first).getType();
    llvm::Type* element = Type(type);
    const int together = per_register(type);
    for (int i = 0; i < pack; i += together) {
      Value* all = Result(call, index++, registers.size());
      for (int k = 0; k < together; ++k) {
        Value* one = all;
        if (together > 1) one = b_.CreateBitCast(b_.CreateTrunc(b_.CreateLShr(all, k * bits_of(element)), b_.getIntNTy(bits_of(element))), element);
        else if (one->getType() != element) one = b_.CreateTrunc(one, element);
        Set(op->getResult(first + i + k), one);
      }
    }
  }
  return success();
}

}  // namespace tessera::compiler
