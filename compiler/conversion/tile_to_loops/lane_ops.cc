// One elementwise operation on evaluated operands: scalars, or vectors of some lanes.
#include "compiler/conversion/float_conversions.h"
#include "compiler/conversion/lane_builder.h"
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

Type Lanewise(Type element, int64_t count) {
  return count == 1 ? element : Type(VectorType::get({count}, element));
}

bool IsByteFloat(Type element) { return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8; }

// Names of libdevice functions without "__nv_" and without the "f" of single precision -> operation of the math or
// arith dialect.
const llvm::StringMap<llvm::StringRef>& ExternOps() {
  static const auto* ops = new llvm::StringMap<llvm::StringRef>{
      {"exp", "math.exp"},         {"exp2", "math.exp2"},       {"expm1", "math.expm1"},     {"log", "math.log"},
      {"log2", "math.log2"},       {"log10", "math.log10"},     {"log1p", "math.log1p"},     {"sqrt", "math.sqrt"},
      {"rsqrt", "math.rsqrt"},     {"cbrt", "math.cbrt"},       {"sin", "math.sin"},         {"cos", "math.cos"},
      {"tan", "math.tan"},         {"asin", "math.asin"},       {"acos", "math.acos"},       {"atan", "math.atan"},
      {"atan2", "math.atan2"},     {"sinh", "math.sinh"},       {"cosh", "math.cosh"},       {"tanh", "math.tanh"},
      {"asinh", "math.asinh"},     {"acosh", "math.acosh"},     {"atanh", "math.atanh"},     {"erf", "math.erf"},
      {"pow", "math.powf"},        {"floor", "math.floor"},     {"ceil", "math.ceil"},       {"trunc", "math.trunc"},
      {"rint", "math.roundeven"},  {"nearbyint", "math.roundeven"}, {"round", "math.round"}, {"fabs", "math.absf"},
      {"fma", "math.fma"},         {"copysign", "math.copysign"}, {"fmod", "arith.remf"},    {"fmax", "arith.maxnumf"},
      {"fmin", "arith.minnumf"},   {"fast_exp", "math.exp"},    {"fast_log", "math.log"},    {"fast_sin", "math.sin"},
      {"fast_cos", "math.cos"},    {"fast_tanh", "math.tanh"},  {"fast_log2", "math.log2"},  {"fast_pow", "math.powf"},
      {"abs", "math.absi"},        {"clz", "math.ctlz"},        {"popc", "math.ctpop"},      {"fdiv", "arith.divf"},
      {"div_rn", "arith.divf"},    {"sqrt_rn", "math.sqrt"},    {"fast_div", "arith.divf"}};
  return *ops;
}

// Functions of libm that the math dialect does not have.
bool IsLibmFunction(llvm::StringRef name) {
  static constexpr llvm::StringLiteral kNames[] = {"erfc", "exp10", "logb", "ilogb", "lgamma", "tgamma", "j0", "j1", "y0", "y1",
                                                   "hypot", "fdim", "remainder", "nextafter"};
  return llvm::is_contained(kNames, name);
}

}  // namespace

Value KernelEmitter::AddAddress(Value pointer, Value offset, Type pointee, int64_t count) {
  Type memory = MemoryType(Emitted(pointee));
  Type wide = Lanewise(i64_, count);
  if (offset.getType() != wide) offset = builder_.createOrFold<arith::ExtSIOp>(loc_, wide, offset);
  if (count == 1) {
    Attribute constant;
    if (matchPattern(offset, m_Constant(&constant))) {
      int64_t value = cast<IntegerAttr>(constant).getInt();
      if (value == 0) return pointer;
    }
    return builder_.create<LLVM::GEPOp>(loc_, ptr_, memory, pointer, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(offset)});
  }
  int64_t bytes = isa<LLVM::LLVMPointerType>(memory) ? 8 : memory.getIntOrFloatBitWidth() / 8;
  if (bytes > 1) offset = builder_.createOrFold<arith::MulIOp>(loc_, offset, Const(wide, bytes));
  return builder_.createOrFold<arith::AddIOp>(loc_, pointer, offset);
}

// Quotient or remainder that cannot trap: divisors that would are replaced by 1.
Value KernelEmitter::DivideOp(Operation* op, Value lhs, Value rhs, bool is_signed, bool remainder) {
  Type type = lhs.getType();
  Type element = getElementTypeOrSelf(type);
  unsigned bits = element.getIntOrFloatBitWidth();
  auto divide = [&](Value a, Value b) -> Value {
    if (is_signed) {
      if (remainder) return builder_.createOrFold<arith::RemSIOp>(loc_, a, b);
      return builder_.createOrFold<arith::DivSIOp>(loc_, a, b);
    }
    if (remainder) return builder_.createOrFold<arith::RemUIOp>(loc_, a, b);
    return builder_.createOrFold<arith::DivUIOp>(loc_, a, b);
  };
  APInt constant;
  if (matchPattern(rhs, m_ConstantInt(&constant)) && !constant.isZero() && !(is_signed && constant.isAllOnes()))
    return divide(lhs, rhs);
  if (bits == 1) return remainder ? Zero(type) : lhs;
  Value bad = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::eq, rhs, Zero(type));
  if (is_signed) {
    Value minus_one = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::eq, rhs, Const(type, -1));
    Value lowest;
    if (auto vector = dyn_cast<VectorType>(type))
      lowest = builder_.create<arith::ConstantOp>(loc_, DenseElementsAttr::get(vector, APInt::getSignedMinValue(bits)));
    else
      lowest = builder_.create<arith::ConstantOp>(loc_, builder_.getIntegerAttr(type, APInt::getSignedMinValue(bits)));
    Value overflows = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::eq, lhs, lowest);
    overflows = builder_.create<arith::AndIOp>(loc_, minus_one, overflows);
    bad = builder_.create<arith::OrIOp>(loc_, bad, overflows);
  }
  rhs = builder_.create<arith::SelectOp>(loc_, bad, Const(type, 1), rhs);
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || bits > 32) return divide(lhs, rhs);
  // Vectors have no integer division. In fp64 a quotient of 32-bit integers never rounds up to the next integer:
  // truncating it is exact.
  auto doubles = VectorType::get(vector.getShape(), builder_.getF64Type());
  auto to_double = [&](Value v) -> Value {
    if (is_signed) return builder_.create<arith::SIToFPOp>(loc_, doubles, v);
    return builder_.create<arith::UIToFPOp>(loc_, doubles, v);
  };
  Value quotient = builder_.create<arith::DivFOp>(loc_, to_double(lhs), to_double(rhs));
  if (is_signed)
    quotient = builder_.create<arith::FPToSIOp>(loc_, type, quotient);
  else
    quotient = builder_.create<arith::FPToUIOp>(loc_, type, quotient);
  if (!remainder) return quotient;
  return builder_.create<arith::SubIOp>(loc_, lhs, builder_.create<arith::MulIOp>(loc_, quotient, rhs));
}

// What a GPU makes of fp32's `/`: a product with the reciprocal, scaled where that would be subnormal or infinite. A
// uniform divisor's reciprocal moves out of loops. The fence keeps sums from fusing with the product.
Value KernelEmitter::QuickQuotient(Value lhs, Value rhs) {
  LaneBuilder b(builder_, loc_, lhs.getType());
  Value size = builder_.create<math::AbsFOp>(loc_, rhs), one = b.Float(1);
  Value scale = b.Select(b.Compare(arith::CmpFPredicate::OLT, size, b.Float(0x1p-126)), b.Float(0x1p24), one);
  scale = b.Select(b.Compare(arith::CmpFPredicate::OGT, size, b.Float(0x1p126)), b.Float(0.25), scale);
  Value reciprocal = b.Div(one, b.Mul(rhs, scale));
  Value product = b.Mul(b.Mul(lhs, scale), reciprocal);
  return builder_.create<LLVM::CallIntrinsicOp>(loc_, product.getType(), builder_.getStringAttr("llvm.arithmetic.fence"), ValueRange{product})
      .getResult(0);
}

// A call of a libm function, lane by lane.
Value KernelEmitter::LibmCall(llvm::StringRef name, ArrayRef<Value> operands, Type result) {
  Type element = getElementTypeOrSelf(operands[0].getType()), result_element = getElementTypeOrSelf(result);
  std::string symbol = name.str() + (element.isF32() ? "f" : "");
  auto module = kernel_->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(symbol)) {
    llvm::SmallVector<Type> inputs(operands.size(), element);
    OpBuilder at_top(kernel_);
    at_top.create<func::FuncOp>(loc_, symbol, builder_.getFunctionType(inputs, result_element)).setPrivate();
  }
  auto vector = dyn_cast<VectorType>(result);
  if (!vector) return builder_.create<func::CallOp>(loc_, symbol, result, operands).getResult(0);
  Value all = Zero(result);
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    llvm::SmallVector<Value> scalars;
    for (Value operand : operands) scalars.push_back(builder_.create<vector::ExtractOp>(loc_, operand, lane));
    Value one = builder_.create<func::CallOp>(loc_, symbol, result_element, scalars).getResult(0);
    all = builder_.create<vector::InsertOp>(loc_, one, all, lane);
  }
  return all;
}

Value KernelEmitter::ExternCall(tile::ExternOp op, ArrayRef<Value> operands, int64_t count) {
  llvm::StringRef name = op.getSymbol();
  name.consume_front("__nv_");
  Type type = EmittedLanes(getElementTypeOrSelf(op.getType()), count), from = operands[0].getType();
  Type element = getElementTypeOrSelf(from);
  if (isa<IntegerType>(element)) {
    name.consume_back("ll");
    Value result;
    if (name == "brev") result = builder_.create<LLVM::BitReverseOp>(loc_, operands[0]);
    if (name == "ffs") {
      // Position of the lowest one, from 1; 0 where there is none.
      Value zeros = builder_.create<math::CountTrailingZerosOp>(loc_, operands[0]);
      Value none = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::eq, operands[0], Zero(from));
      result = builder_.create<arith::AddIOp>(loc_, zeros, Const(from, 1));
      result = builder_.create<arith::SelectOp>(loc_, none, Zero(from), result);
    }
    if (result) return result.getType() == type ? result : builder_.create<arith::TruncIOp>(loc_, type, result);
  } else if (element.isF32()) {
    name.consume_back("f");
  }
  auto known = ExternOps().find(name);
  if (known != ExternOps().end()) {
    OperationState state(loc_, known->second);
    state.addOperands(operands);
    state.addTypes(type);
    return builder_.create(state)->getResult(0);
  }
  if (isa<FloatType>(element)) {
    auto number = [&](double value) -> Value {
      TypedAttr attr = builder_.getFloatAttr(element, value);
      if (count > 1) attr = DenseElementsAttr::get(cast<ShapedType>(from), ArrayRef<Attribute>{attr});
      return builder_.create<arith::ConstantOp>(loc_, attr);
    };
    auto inverse = [&](Value v) -> Value { return builder_.create<arith::DivFOp>(loc_, number(1), v); };
    if (IsLibmFunction(name)) return LibmCall(name, operands, type);
    if (name == "rcbrt") return inverse(builder_.create<math::CbrtOp>(loc_, operands[0]));
    if (name == "rhypot") return inverse(LibmCall("hypot", operands, type));
    if (name == "norm3d" || name == "rnorm3d") {
      Value norm = LibmCall("hypot", {LibmCall("hypot", operands.take_front(2), type), operands[2]}, type);
      return name == "norm3d" ? norm : inverse(norm);
    }
    if (name == "normcdf") {
      Value scaled = builder_.create<arith::MulFOp>(loc_, operands[0], number(-0.70710678118654752440));
      return builder_.create<arith::MulFOp>(loc_, LibmCall("erfc", {scaled}, type), number(0.5));
    }
  }
  (void)Unsupported(op, "the function " + op.getSymbol());
  return nullptr;
}

Value KernelEmitter::LaneOp(Operation* op, ArrayRef<Value> operands, int64_t count) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  Type type = EmittedLanes(element, count);
  Type from = op->getNumOperands() ? getElementTypeOrSelf(op->getOperand(0).getType()) : Type();

  // 8-bit floats are i8 in the emitted code; conversions tell them apart by their type.
  auto typed = [&](Value v, Type tile_element) -> Value {
    if (!IsByteFloat(tile_element)) return v;
    return builder_.create<arith::BitcastOp>(loc_, Lanewise(tile_element, count), v);
  };
  auto untyped = [&](Value v) -> Value {
    if (!IsByteFloat(getElementTypeOrSelf(v.getType()))) return v;
    return builder_.create<arith::BitcastOp>(loc_, type, v);
  };

  if (isa<tile::FpToFpOp, arith::ExtFOp, arith::TruncFOp>(op)) {
    auto rounding = FloatRounding::kNearestEven;
    if (auto convert = dyn_cast<tile::FpToFpOp>(op))
      if (convert.getRounding() == tile::Rounding::RTZ) rounding = FloatRounding::kTowardZero;
    if (from == element) return operands[0];
    Value converted = untyped(ConvertFloat(builder_, loc_, typed(operands[0], from), element, rounding));
    if (!from.isF16() || !element.isF32()) return converted;
    // Without the fence LLVM moves comparisons, maxima and minima back to half vectors, which x86-64 without
    // AVX512-FP16 splits into scalar code (LLVM 19; its maximum even loses NaN there).
    return builder_.create<LLVM::CallIntrinsicOp>(loc_, type, builder_.getStringAttr("llvm.arithmetic.fence"), ValueRange{converted})
        .getResult(0);
  }
  if (auto convert = dyn_cast<tile::FpToIntOp>(op))
    return ConvertFloatToInt(builder_, loc_, typed(operands[0], from), element, convert.getIsUnsigned());
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return ConvertFloatToInt(builder_, loc_, typed(operands[0], from), element, isa<arith::FPToUIOp>(op));
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return untyped(ConvertIntToFloat(builder_, loc_, operands[0], element, isa<arith::UIToFPOp>(op) ));
  if (isa<arith::BitcastOp>(op)) {
    if (operands[0].getType() == type) return operands[0];
    return builder_.createOrFold<arith::BitcastOp>(loc_, type, operands[0]);
  }
  if (isa<tile::DivSOp, arith::DivSIOp>(op)) return DivideOp(op, operands[0], operands[1], true, false);
  if (isa<tile::DivUOp, arith::DivUIOp>(op)) return DivideOp(op, operands[0], operands[1], false, false);
  if (isa<tile::RemSOp, arith::RemSIOp>(op)) return DivideOp(op, operands[0], operands[1], true, true);
  if (isa<tile::RemUOp, arith::RemUIOp>(op)) return DivideOp(op, operands[0], operands[1], false, true);
  if (isa<tile::MulHiUOp>(op)) {
    unsigned bits = element.getIntOrFloatBitWidth();
    if (bits == 64)
      return builder_.create<arith::MulUIExtendedOp>(loc_, operands[0], operands[1]).getHigh();
    Type wide = Lanewise(builder_.getIntegerType(2 * bits), count);
    Value product = builder_.create<arith::MulIOp>(loc_, builder_.create<arith::ExtUIOp>(loc_, wide, operands[0]),
                                                   builder_.create<arith::ExtUIOp>(loc_, wide, operands[1]));
    product = builder_.create<arith::ShRUIOp>(loc_, product, Const(wide, bits));
    return builder_.create<arith::TruncIOp>(loc_, type, product);
  }
  if (isa<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>(op)) {
    // Shifting by the width or more is undefined in the language, but must not poison anything here.
    unsigned bits = element.getIntOrFloatBitWidth();
    Value amount = builder_.createOrFold<arith::AndIOp>(loc_, operands[1], Const(type, bits - 1));
    if (isa<arith::ShLIOp>(op)) return builder_.createOrFold<arith::ShLIOp>(loc_, operands[0], amount);
    if (isa<arith::ShRSIOp>(op)) return builder_.createOrFold<arith::ShRSIOp>(loc_, operands[0], amount);
    return builder_.createOrFold<arith::ShRUIOp>(loc_, operands[0], amount);
  }
  if (auto add = dyn_cast<tile::AddPtrOp>(op))
    return AddAddress(operands[0], operands[1], cast<tile::PtrType>(element).getPointee(), count);
  if (isa<tile::PtrCastOp, tile::HintOp>(op)) return operands[0];
  if (isa<tile::PtrToIntOp>(op)) return count == 1 ? AsAddress(operands[0]) : operands[0];
  if (isa<tile::IntToPtrOp>(op)) return count == 1 ? AsPointer(operands[0]) : operands[0];
  if (auto call = dyn_cast<tile::ExternOp>(op)) return ExternCall(call, operands, count);
  if (isa<arith::DivFOp>(op) && element.isF32() && !op->hasAttr("tile.round_nearest"))
    return QuickQuotient(operands[0], operands[1]);

  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) || op->getNumResults() != 1) {
    (void)Unsupported(op, op->getName().getStringRef());
    return nullptr;
  }
  OperationState state(loc_, op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(op->getAttrDictionary().getValue());
  Operation* made = builder_.create(state);
  llvm::SmallVector<Value, 1> folded;
  if (succeeded(builder_.tryFold(made, folded)) && folded.size() == 1 && folded[0] != made->getResult(0)) {
    made->erase();
    return folded[0];
  }
  return made->getResult(0);
}

bool KernelEmitter::IsVectorisable(Region& region) {
  for (Operation& op : region.front())
    if (!op.hasTrait<OpTrait::IsTerminator>() && !IsLaneByLane(&op) && !op.hasTrait<OpTrait::ConstantLike>())
      return false;
  return true;
}

LogicalResult KernelEmitter::Combine(Region& region, ArrayRef<Value> lhs, ArrayRef<Value> rhs, int64_t count,
                                     llvm::SmallVectorImpl<Value>* out) {
  Block& body = region.front();
  llvm::DenseMap<Value, Value> lanes;
  for (auto [i, value] : llvm::enumerate(lhs)) lanes[body.getArgument(i)] = value;
  for (auto [i, value] : llvm::enumerate(rhs)) lanes[body.getArgument(lhs.size() + i)] = value;
  auto find = [&](Value v) -> Value {
    if (Value known = lanes.lookup(v)) return known;
    Value scalar = scalars_.lookup(v);
    if (!scalar || count == 1) return scalar;
    if (isa<LLVM::LLVMPointerType>(scalar.getType())) scalar = AsAddress(scalar);
    return builder_.create<vector::BroadcastOp>(loc_, VectorType::get({count}, scalar.getType()), scalar);
  };
  for (Operation& op : body) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      out->clear();
      for (Value v : op.getOperands()) out->push_back(find(v));
      return success();
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      TypedAttr value = constant.getValue();
      Type element = Emitted(value.getType());
      if (element != value.getType())
        value = builder_.getIntegerAttr(element, cast<FloatAttr>(value).getValue().bitcastToAPInt());
      if (count > 1) value = DenseElementsAttr::get(VectorType::get({count}, element), ArrayRef<Attribute>{value});
      lanes[constant.getResult()] = builder_.create<arith::ConstantOp>(loc_, value);
      continue;
    }
    if (!IsLaneByLane(&op)) {
      // Control flow and the like: on scalars only. The operation is emitted as kernel code is.
      if (count > 1 || op.getNumRegions() == 0) return Unsupported(&op, op.getName().getStringRef() + " in a combine function");
      for (auto& [from, to] : lanes) scalars_[from] = to;
      auto saved = levels_;
      levels_.assign(1, Level{builder_.getInsertionBlock(), nullptr, {}});
      LogicalResult done = failure();
      if (auto branch = dyn_cast<scf::IfOp>(op)) done = EmitIf(branch);
      else if (auto loop = dyn_cast<scf::ForOp>(op)) done = EmitFor(loop);
      else if (auto loop = dyn_cast<scf::WhileOp>(op)) done = EmitWhile(loop);
      levels_ = saved;
      GoTo(depth());
      if (failed(done)) return failure();
      for (Value result : op.getResults()) lanes[result] = scalars_.lookup(result);
      continue;
    }
    llvm::SmallVector<Value> operands;
    for (Value operand : op.getOperands()) {
      Value v = find(operand);
      if (!v) return Unsupported(&op, "a combine function that uses a block from outside");
      operands.push_back(v);
    }
    Value result = LaneOp(&op, operands, count);
    if (!result) return failure();
    lanes[op.getResult(0)] = result;
  }
  return failure();
}

}  // namespace tessera::compiler
