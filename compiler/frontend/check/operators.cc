// Arithmetic, comparison, conversion and broadcasting, with Triton's rules.
#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

namespace arith = mlir::arith;

absl::string_view Spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd: return "+";
    case BinaryOp::kSub: return "-";
    case BinaryOp::kMul: return "*";
    case BinaryOp::kDiv: return "/";
    case BinaryOp::kFloorDiv: return "//";
    case BinaryOp::kMod: return "%";
    case BinaryOp::kPow: return "**";
    case BinaryOp::kMatMul: return "@";
    case BinaryOp::kBitAnd: return "&";
    case BinaryOp::kBitOr: return "|";
    case BinaryOp::kBitXor: return "^";
    case BinaryOp::kShl: return "<<";
    case BinaryOp::kShr: return ">>";
  }
  return "";
}

absl::string_view Spelling(CompareOp op) {
  switch (op) {
    case CompareOp::kEq: return "==";
    case CompareOp::kNe: return "!=";
    case CompareOp::kLt: return "<";
    case CompareOp::kLe: return "<=";
    case CompareOp::kGt: return ">";
    case CompareOp::kGe: return ">=";
    case CompareOp::kIs: return "is";
    case CompareOp::kIsNot: return "is not";
    case CompareOp::kIn: return "in";
    case CompareOp::kNotIn: return "not in";
  }
  return "";
}

constexpr int64_t kMaxItems = 100'000;  // of a tuple that is made by repetition

constexpr ElementType kBool{DType::kInt1, false};
constexpr ElementType kInt64{DType::kInt64, false};
constexpr ElementType kFloat32{DType::kFp32, false};

bool IsNumeric(const Value& v) { return v.is_tensor() || v.is_number(); }

Operand OperandOf(const Value& v) {
  if (v.is_number()) return {LiteralType(v.constant), &v.constant};
  return {v.type.element, nullptr};
}

const Shape& ShapeOf(const Value& v) {
  static const Shape& scalar = *new Shape;
  return v.is_tensor() ? v.type.shape : scalar;
}

bool IsPointer(const Value& v) { return v.is_tensor() && v.type.element.pointer; }

}  // namespace

//===-- literals, conversion --------------------------------------------------------------------------===//

Value Emitter::ToTensor(const Value& value, absl::string_view what) {
  if (value.is_tensor() || failed_) return value;
  if (value.is_number()) {
    Type type{LiteralType(value.constant), {}};
    return Value::Tensor(IrConstant(value.constant, type), type);
  }
  return Error(absl::StrCat(what.empty() ? "this" : what, " must be a number, pointer or block, not ", Describe(value)));
}

Value Emitter::Strong(const Value& value) {
  if (value.is_number()) return ToTensor(value);
  if (value.is_known_integer()) return Value::Tensor(value.ir, value.type);
  if (!value.is_tuple()) return value;
  Value copy = value;
  copy.items = std::make_shared<std::vector<Value>>();
  for (size_t i = 0; i < value.items->size(); ++i) {
    const Value& item = (*value.items)[i];
    bool keep = value.of_class && value.of_class->fields[i].is_constexpr;
    copy.items->push_back(keep ? item : Strong(item));
  }
  return copy;
}

Value Emitter::Cast(const Value& value, const ElementType& type, bool round_to_zero) {
  if (failed_) return {};
  if (value.is_number() && !type.pointer && !round_to_zero) {
    Type scalar{type, {}};
    return Value::Tensor(IrConstant(AsStrong(value.constant), scalar), scalar);
  }
  Value tensor = ToTensor(value, "what is converted");
  if (failed_) return {};
  return tensor.type.element == type ? tensor : ConvertTensor(tensor, type, round_to_zero);
}

Value Emitter::ConvertTensor(const Value& value, const ElementType& to, bool round_to_zero) {
  const ElementType from = value.type.element;
  const Type type = value.type.WithElement(to);
  mlir::Type ir_type = IrType(type);
  auto result = [&](mlir::Value ir) { return Value::Tensor(ir, type); };

  if (to.is_bool()) {
    if (from.pointer) return Compare(CompareOp::kNe, Cast(value, kInt64), Value::Int(0));
    return Compare(CompareOp::kNe, value, Value::Int(0));
  }
  if (from.pointer || to.pointer) {
    if (from.pointer && to.pointer) {
      if (value.ir.getType() == ir_type) return result(value.ir);
      return result(Make<tile::PtrCastOp>(ir_type, value.ir));
    }
    const ElementType& integer = from.pointer ? to : from;
    if (!integer.is_int() || integer.bits() != 64)
      return Error(absl::StrCat("only 64-bit integers convert from and to pointers, not ", ToString(integer)));
    if (from.pointer) return result(Create<tile::PtrToIntOp>(ir_type, value.ir));
    return result(Create<tile::IntToPtrOp>(ir_type, value.ir));
  }
  if (from.is(DType::kFp8E4B15)) return Cast(E4b15ToFp16(value), to, round_to_zero && to.bits() < 16);
  if (to.is(DType::kFp8E4B15))
    return Fp16ToE4b15(from.is(DType::kFp16) ? value : Cast(Cast(value, kFloat32), {DType::kFp16, false}, true));
  if (from.is_float() && to.is_float()) {
    if (from.is(DType::kFp8E5M2) && to.is(DType::kBf16) && !round_to_zero) return E5m2ToBf16(value);
    bool narrows = from.bits() > to.bits();
    if (round_to_zero && !narrows)
      return Error(absl::StrCat("fp_downcast_rounding is for narrowing conversions, not for ", ToString(from), " to ",
                                ToString(to)));
    if (from.is_fp8() || to.is_fp8() || round_to_zero)
      return result(Make<tile::FpToFpOp>(ir_type, value.ir, round_to_zero ? tile::Rounding::RTZ : tile::Rounding::RTNE));
    if (from.bits() == to.bits()) return ConvertTensor(ConvertTensor(value, kFloat32, false), to, false);  // fp16, bf16
    return result(narrows ? Make<arith::TruncFOp>(ir_type, value.ir) : Make<arith::ExtFOp>(ir_type, value.ir));
  }
  if (from.is_fp8() || to.is_fp8())
    return Error(absl::StrCat("there is no conversion from ", ToString(from), " to ", ToString(to),
                              "; go through .to(tl.float32)"));
  if (from.is_float()) return result(Make<tile::FpToIntOp>(ir_type, value.ir, !to.is_signed()));
  if (to.is_float()) {
    if (from.is_signed()) return result(Make<arith::SIToFPOp>(ir_type, value.ir));
    return result(Make<arith::UIToFPOp>(ir_type, value.ir));
  }
  if (from.bits() == to.bits()) return result(value.ir);  // signless in IR
  if (from.bits() > to.bits()) return result(Make<arith::TruncIOp>(ir_type, value.ir));
  if (from.is_signed()) return result(Make<arith::ExtSIOp>(ir_type, value.ir));
  return result(Make<arith::ExtUIOp>(ir_type, value.ir));
}

// Triton's conversion on NVIDIA GPUs takes e5m2's exponent 31 for an ordinary one: "infinity" gives 65536, and the NaN
// codes 81920 to 114688. Recorded launches show it, so it is the language.
Value Emitter::E5m2ToBf16(const Value& value) {
  Value wide = ConvertTensor(ConvertTensor(value, kFloat32, false), {DType::kBf16, false}, false);
  Value code = Cast(Bitcast(value, {DType::kUint8, false}), {DType::kUint16, false});
  Value magnitude = Binary(BinaryOp::kBitAnd, code, Value::Int(0x7f));
  Value sign = Binary(BinaryOp::kShl, Binary(BinaryOp::kBitAnd, code, Value::Int(0x80)), Value::Int(8));
  // 0x7c << 5 is 0xf80; 65536 is 0x4780.
  Value bits = Add(Binary(BinaryOp::kShl, magnitude, Value::Int(5)), Value::Int(0x4780 - 0xf80));
  Value special = Bitcast(Binary(BinaryOp::kBitOr, bits, sign), {DType::kBf16, false});
  return Select(Compare(CompareOp::kGe, magnitude, Value::Int(0x7c)), special, wide);
}

// float8e4b15 is the upper byte of an fp16 whose exponent lost its highest bit; see E4b15Code.
Value Emitter::E4b15ToFp16(const Value& value) {
  Value code = Cast(Bitcast(value, {DType::kUint8, false}), {DType::kUint16, false});
  Value sign = Binary(BinaryOp::kShl, Binary(BinaryOp::kBitAnd, code, Value::Int(0x80)), Value::Int(8));
  Value magnitude = Binary(BinaryOp::kShl, Binary(BinaryOp::kBitAnd, code, Value::Int(0x7f)), Value::Int(7));
  return Bitcast(Binary(BinaryOp::kBitOr, sign, magnitude), {DType::kFp16, false});
}

Value Emitter::Fp16ToE4b15(const Value& value) {
  Value bits = Bitcast(value, {DType::kUint16, false});
  Value magnitude = Binary(BinaryOp::kBitAnd, bits, Value::Int(0x7fff));
  Value limit = BroadcastTo(Cast(Value::Int(0x3f00), magnitude.type.element), magnitude.type.shape);
  if (failed_) return {};
  magnitude.ir = Make<arith::MinUIOp>(magnitude.ir, limit.ir);
  Value rounded = Add(Mul(magnitude, Value::Int(2)), Value::Int(0x80));
  Value sign = Binary(BinaryOp::kBitAnd, bits, Value::Int(0x8000));
  Value code = Binary(BinaryOp::kShr, Binary(BinaryOp::kBitOr, rounded, sign), Value::Int(8));
  return Bitcast(Cast(code, {DType::kUint8, false}), {DType::kFp8E4B15, false});
}

Value Emitter::Bitcast(const Value& value, const ElementType& type) {
  Value tensor = ToTensor(value, "what is converted");
  if (failed_) return {};
  const ElementType from = tensor.type.element;
  if (from == type) return tensor;
  if (from.pointer || type.pointer) return ConvertTensor(tensor, type, false);
  if (from.bits() != type.bits())
    return Error(absl::StrCat("a bitcast keeps the size: ", ToString(from), " has ", from.bits(), " bits, ",
                              ToString(type), " has ", type.bits()));
  Type result = tensor.type.WithElement(type);
  mlir::Type ir_type = IrType(result);
  if (tensor.ir.getType() == ir_type) return Value::Tensor(tensor.ir, result);
  return Value::Tensor(Make<arith::BitcastOp>(ir_type, tensor.ir), result);
}

//===-- shapes --------------------------------------------------------------------------------------===//

bool Emitter::CommonShape(const Shape& a, const Shape& b, Shape* out) {
  size_t rank = std::max(a.size(), b.size());
  out->assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) {
      Error(absl::StrCat("shapes ", ToString(a), " and ", ToString(b), " do not broadcast: dimension ", i, " is ", x,
                         " and ", y));
      return false;
    }
    (*out)[i] = std::max(x, y);
  }
  if (std::string why = CheckBlockShape(*out); !why.empty()) {
    Error(why);
    return false;
  }
  return true;
}

Value Emitter::ExpandDims(const Value& value, int axis) {
  Type type = value.type;
  type.shape.insert(type.shape.begin() + axis, 1);
  if (!value.type.is_block()) return Value::Tensor(Make<tile::SplatOp>(IrType(type), value.ir), type);
  return Value::Tensor(Make<tile::ExpandDimsOp>(IrType(type), value.ir, uint32_t(axis)), type);
}

Value Emitter::Reshape(const Value& value, const Shape& shape, bool allow_reorder) {
  Type type{value.type.element, shape};
  if (value.type == type) return value;
  if (!value.type.is_block()) return BroadcastTo(value, shape);
  return Value::Tensor(Make<tile::ReshapeOp>(IrType(type), value.ir, allow_reorder), type);
}

Value Emitter::Unsplat(const Value& value) {
  if (!value.is_block()) return value;
  Type type{value.type.element, {}};
  return Value::Tensor(Make<tile::UnsplatOp>(IrType(type), value.ir), type);
}

Value Emitter::BroadcastTo(const Value& value, const Shape& shape) {
  if (failed_) return {};
  if (value.is_number()) {
    Type type{LiteralType(value.constant), shape};
    return Value::Tensor(IrConstant(value.constant, type), type);
  }
  if (value.type.shape == shape) return value;
  Type type{value.type.element, shape};
  if (!value.type.is_block()) return Value::Tensor(Make<tile::SplatOp>(IrType(type), value.ir), type);
  const Shape& from = value.type.shape;
  bool possible = from.size() <= shape.size();
  for (size_t i = 0; possible && i < from.size(); ++i) {
    int64_t to = shape[shape.size() - from.size() + i];
    possible = from[i] == to || from[i] == 1;
  }
  if (!possible)
    return Error(absl::StrCat("a block of shape ", ToString(from), " cannot be broadcast to ", ToString(shape)));
  Value result = value;
  while (result.type.shape.size() < shape.size()) result = ExpandDims(result, 0);
  if (result.type.shape == shape) return result;
  return Value::Tensor(Make<tile::BroadcastOp>(IrType(type), result.ir), type);
}

bool Emitter::UnifyShapes(Value* a, Value* b) {
  Shape shape;
  if (failed_ || !CommonShape(ShapeOf(*a), ShapeOf(*b), &shape)) return false;
  *a = BroadcastTo(*a, shape);
  *b = BroadcastTo(*b, shape);
  return !failed_;
}

bool Emitter::Unify(Value* a, Value* b, bool div_or_mod) {
  if (failed_) return false;
  for (const Value* v : {a, b}) {
    if (!Computes(*v)) return false;
    if (IsNumeric(*v) && !IsPointer(*v)) continue;
    Error(absl::StrCat("a number or block of numbers is needed, not ", Describe(*v)));
    return false;
  }
  std::string error;
  std::optional<ElementType> type = Promote(OperandOf(*a), OperandOf(*b), div_or_mod, &error);
  Shape shape;
  if (!type) {
    Error(error);
    return false;
  }
  if (!CommonShape(ShapeOf(*a), ShapeOf(*b), &shape)) return false;
  for (Value* v : {a, b}) {
    Type whole{*type, shape};
    if (v->is_number())
      *v = Value::Tensor(IrConstant(v->constant, whole), whole);
    else
      *v = BroadcastTo(Cast(*v, *type), shape);
  }
  return !failed_;
}

//===-- unary ---------------------------------------------------------------------------------------===//

Value Emitter::Unary(UnaryOp op, const Value& a) {
  if (failed_) return {};
  if (op == UnaryOp::kNot) return LogicalNot(a);
  if (a.is_constant()) {
    std::string error;
    std::optional<Constant> result = EvaluateUnary(op, a.constant, &error);
    return result ? Value::Of(*result) : Error(error);
  }
  if (!a.is_tensor() || a.type.element.pointer)
    return Error(absl::StrCat("this operator wants a number or block of numbers, not ", Describe(a)));
  if (!Computes(a)) return {};
  const ElementType& element = a.type.element;
  switch (op) {
    case UnaryOp::kPos: return a;
    case UnaryOp::kNeg:
      // 0 - x, as Triton has it: the negative of 0.0 is 0.0.
      if (element.is_float())
        return Value::Tensor(Make<arith::SubFOp>(IrConstant(Constant::Float(0), a.type), a.ir), a.type);
      {
        Value result = Value::Tensor(Make<arith::SubIOp>(IrConstant(Constant::Int(0), a.type), a.ir), a.type);
        if (a.is_known_integer()) result.constant = Constant::Int(-a.constant.integer);
        return result;
      }
    case UnaryOp::kInvert: {
      if (!element.is_int()) return Error(absl::StrCat("'~' wants integers, not ", Describe(a)));
      mlir::Value ones = IrConstant(Constant::Int(element.is_bool() ? 1 : -1), a.type);
      return Value::Tensor(Make<arith::XOrIOp>(a.ir, ones), a.type);
    }
    case UnaryOp::kNot: break;
  }
  return {};
}

Value Emitter::LogicalNot(const Value& a) {
  if (!a.is_tensor()) {
    Value truth = Condition(a, "the operand of 'not'");
    return failed_ ? Value() : Value::Of(Constant::Bool(!truth.constant.boolean));
  }
  if (!a.type.element.is_bool())
    return Error(absl::StrCat("'not' wants a condition (int1), not ", Describe(a), "; compare with 0 instead"));
  return Value::Tensor(Make<arith::XOrIOp>(a.ir, IrConstant(Constant::Int(1), a.type)), a.type);
}

Value Emitter::LogicalAndOr(bool is_and, const Value& a, const Value& b) {
  return Binary(is_and ? BinaryOp::kBitAnd : BinaryOp::kBitOr, a, b);
}

Value Emitter::Condition(const Value& value, absl::string_view what) {
  if (failed_) return {};
  if (value.is_tuple()) return Value::Of(Constant::Bool(!value.items->empty()));
  if (value.is_constant()) {
    std::string error;
    std::optional<bool> truth = Truth(value.constant, &error);
    return truth ? Value::Of(Constant::Bool(*truth)) : Error(error);
  }
  if (!value.is_tensor())
    return Error(absl::StrCat(what, " must be a condition, not ", Describe(value)));
  if (value.type.elements() != 1)
    return Error(absl::StrCat("a block cannot decide a branch: ", what, " is ", Describe(value),
                              "; reduce it to a scalar (tl.max, tl.sum), or select per element with tl.where"));
  return Cast(Unsplat(value), kBool);
}

//===-- binary --------------------------------------------------------------------------------------===//

Value Emitter::Binary(BinaryOp op, const Value& a, const Value& b) {
  if (failed_) return {};
  if (a.is_constant() && b.is_constant()) {
    std::string error;
    std::optional<Constant> result = EvaluateBinary(op, a.constant, b.constant, &error);
    return result ? Value::Of(*result) : Error(error);
  }
  if (a.is_tuple() && b.is_tuple() && op == BinaryOp::kAdd) {
    std::vector<Value> items = *a.items;
    items.insert(items.end(), b.items->begin(), b.items->end());
    return Value::Tuple(std::move(items));
  }
  if (a.is_tuple() != b.is_tuple() && op == BinaryOp::kMul) {
    const Value &tuple = a.is_tuple() ? a : b, &count = a.is_tuple() ? b : a;
    std::optional<int64_t> times = ConstantInt(count, "the number of times that a tuple is repeated");
    if (!times) return {};
    if (*times > 0 && int64_t(tuple.items->size()) * *times > kMaxItems) return Error("the tuple becomes too long");
    std::vector<Value> items;
    for (int64_t i = 0; i < *times; ++i) items.insert(items.end(), tuple.items->begin(), tuple.items->end());
    return Value::Tuple(std::move(items));
  }
  if (op == BinaryOp::kMatMul) return Error("'@' is not part of the kernel language; use tl.dot(a, b)");
  for (const Value* v : {&a, &b})
    if (!IsNumeric(*v))
      return Error(absl::StrCat("'", Spelling(op), "' wants numbers, pointers or blocks, not ", Describe(*v)));
  if (IsPointer(a) || IsPointer(b)) return PointerArithmetic(op, a, b);
  switch (op) {
    case BinaryOp::kPow: return Power(a, b);
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
    case BinaryOp::kShl:
    case BinaryOp::kShr: return Bitwise(op, a, b);
    default: break;
  }
  Value result = Arithmetic(op, a, b);
  auto known = [](const Value& v) { return v.is_known_integer() || v.is_constant(ConstantKind::kInt); };
  if (!failed_ && known(a) && known(b) && result.type.element.is_int()) {
    std::string ignored;
    result.constant = EvaluateBinary(op, a.constant, b.constant, &ignored).value_or(Constant::None());
  }
  return result;
}

Value Emitter::PointerArithmetic(BinaryOp op, const Value& a, const Value& b) {
  if (IsPointer(a) && IsPointer(b))
    return Error(absl::StrCat("two pointers cannot be combined with '", Spelling(op), "'"));
  bool swapped = IsPointer(b);
  if (!(op == BinaryOp::kAdd || (op == BinaryOp::kSub && !swapped)))
    return Error(absl::StrCat("a pointer takes '+' and '-' with an integer offset, not '", Spelling(op), "'"));
  Value pointer = swapped ? b : a;
  Value offset = ToTensor(swapped ? a : b);
  if (failed_) return {};
  if (!offset.type.element.is_int())
    return Error(absl::StrCat("a pointer offset must be an integer, not ", Describe(offset)));
  if (op == BinaryOp::kSub) offset = Unary(UnaryOp::kNeg, offset);
  // tile.addptr reads offsets as signed.
  if (!offset.type.element.is_signed() && offset.type.element.bits() < 64) offset = Cast(offset, kInt64);
  if (!UnifyShapes(&pointer, &offset)) return {};
  return Value::Tensor(Make<tile::AddPtrOp>(pointer.ir, offset.ir), pointer.type);
}

Value Emitter::Arithmetic(BinaryOp op, const Value& a, const Value& b) {
  bool div_or_mod = op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv || op == BinaryOp::kMod;
  Value x = a, y = b;
  if (op == BinaryOp::kFloorDiv || op == BinaryOp::kMod) {
    ElementType ex = OperandOf(x).type, ey = OperandOf(y).type;
    if (x.is_tensor() && y.is_tensor() && ex.is_int() && ey.is_int() && ex.is_signed() != ey.is_signed())
      return Error(absl::StrCat("'", Spelling(op), "' of ", ToString(ex), " and ", ToString(ey),
                                " mixes signed and unsigned; convert one with .to()"));
    if (op == BinaryOp::kFloorDiv && (ex.is_float() || ey.is_float()))
      return Error(absl::StrCat("'//' is for integers, not ", ToString(ex), " and ", ToString(ey),
                                "; use tl.floor(a / b)"));
  }
  if (!Unify(&x, &y, div_or_mod)) return {};
  if (op == BinaryOp::kDiv && x.type.element.is_int()) {
    x = Cast(x, kFloat32);
    y = Cast(y, kFloat32);
  }
  const ElementType& element = x.type.element;
  bool is_float = element.is_float(), is_signed = element.is_signed();
  auto result = [&](mlir::Value ir) { return Value::Tensor(ir, x.type); };
  switch (op) {
    case BinaryOp::kAdd:
      return result(is_float ? Make<arith::AddFOp>(x.ir, y.ir) : Make<arith::AddIOp>(x.ir, y.ir));
    case BinaryOp::kSub:
      return result(is_float ? Make<arith::SubFOp>(x.ir, y.ir) : Make<arith::SubIOp>(x.ir, y.ir));
    case BinaryOp::kMul:
      return result(is_float ? Make<arith::MulFOp>(x.ir, y.ir) : Make<arith::MulIOp>(x.ir, y.ir));
    case BinaryOp::kDiv: return result(Make<arith::DivFOp>(x.ir, y.ir));
    case BinaryOp::kFloorDiv:
      return result(is_signed ? Make<tile::DivSOp>(x.ir, y.ir) : Make<tile::DivUOp>(x.ir, y.ir));
    case BinaryOp::kMod:
      if (is_float) return result(Make<arith::RemFOp>(x.ir, y.ir));
      return result(is_signed ? Make<tile::RemSOp>(x.ir, y.ir) : Make<tile::RemUOp>(x.ir, y.ir));
    default: return {};
  }
}

Value Emitter::Bitwise(BinaryOp op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (!OperandOf(*v).type.is_int())
      return Error(absl::StrCat("'", Spelling(op), "' wants integers, not ", Describe(*v)));
  bool arithmetic_shift = OperandOf(a).type.is_signed();
  Value x = a, y = b;
  if (!Unify(&x, &y)) return {};
  auto result = [&](mlir::Value ir) { return Value::Tensor(ir, x.type); };
  switch (op) {
    case BinaryOp::kBitAnd: return result(Make<arith::AndIOp>(x.ir, y.ir));
    case BinaryOp::kBitOr: return result(Make<arith::OrIOp>(x.ir, y.ir));
    case BinaryOp::kBitXor: return result(Make<arith::XOrIOp>(x.ir, y.ir));
    case BinaryOp::kShl: return result(Make<arith::ShLIOp>(x.ir, y.ir));
    default:
      return result(arithmetic_shift ? Make<arith::ShRSIOp>(x.ir, y.ir) : Make<arith::ShRUIOp>(x.ir, y.ir));
  }
}

// Small constant exponents by multiplication, others through the math library.
Value Emitter::Power(const Value& a, const Value& b) {
  if (b.is_constant(ConstantKind::kInt) && b.constant.integer >= 0 && b.constant.integer <= 64) {
    int64_t exponent = int64_t(b.constant.integer);
    Value result, square = a;
    bool any = false;
    for (; exponent > 0; exponent >>= 1) {
      if (exponent & 1) {
        result = any ? Mul(result, square) : square;
        any = true;
      }
      if (exponent > 1) square = Mul(square, square);
    }
    if (any) return result;
    return Value::Tensor(IrConstant(Constant::Int(1), a.type), a.type);
  }
  Value x = a, y = b;
  if (!Unify(&x, &y)) return {};
  if (!x.type.element.is(DType::kFp32) && !x.type.element.is(DType::kFp64))
    return Error(absl::StrCat("'**' with this exponent wants float32 or float64, not ", Describe(x),
                              "; convert with .to(tl.float32)"));
  return Value::Tensor(Make<mlir::math::PowFOp>(x.ir, y.ir), x.type);
}

Value Emitter::Compare(CompareOp op, const Value& a, const Value& b) {
  if (failed_) return {};
  bool negative = op == CompareOp::kIsNot || op == CompareOp::kNe;
  if (a.is_type_of_constant() || b.is_type_of_constant()) {
    bool same = a.is_type_of_constant() && b.is_type_of_constant() && Compare(CompareOp::kEq, (*a.items)[0], (*b.items)[0]).constant.boolean;
    return Value::Of(Constant::Bool(same != negative));
  }
  std::optional<Constant> ca = ToConstant(a), cb = ToConstant(b);
  if (ca && cb) {
    std::string error;
    std::optional<Constant> result = EvaluateCompare(op, *ca, *cb, &error);
    return result ? Value::Of(*result) : Error(error);
  }
  if (op == CompareOp::kIs || op == CompareOp::kIsNot) {
    if (a.is_none() || b.is_none()) return Value::Of(Constant::Bool(negative));  // one of them is a runtime value
    return Error("'is' compares with None only; use == for values");
  }
  if (a.kind == Value::Kind::kType && b.kind == Value::Kind::kType && (op == CompareOp::kEq || op == CompareOp::kNe))
    return Value::Of(Constant::Bool((a.type == b.type) == (op == CompareOp::kEq)));
  if (op == CompareOp::kIn || op == CompareOp::kNotIn) return Error("'in' wants compile-time values on both sides");
  bool equality = op == CompareOp::kEq || op == CompareOp::kNe;
  for (const Value* v : {&a, &b}) {
    if (IsNumeric(*v)) continue;
    // A number never equals None, a string, a type, a tuple.
    if (equality && (v->is_none() || a.is_constant() || b.is_constant())) return Value::Of(Constant::Bool(negative));
    return Error(absl::StrCat("'", Spelling(op), "' wants numbers or blocks, not ", Describe(*v)));
  }
  Value x = ToTensor(a), y = ToTensor(b);  // literals are strong in comparisons
  for (Value* v : {&x, &y})
    if (IsPointer(*v)) *v = Cast(*v, {DType::kUint64, false});
  if (!Unify(&x, &y)) return {};
  const ElementType& element = x.type.element;
  Type type = x.type.WithElement(kBool);
  if (element.is_float()) {
    static constexpr arith::CmpFPredicate kFloat[] = {arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE,
                                                      arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
                                                      arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    return Value::Tensor(Make<arith::CmpFOp>(kFloat[int(op)], x.ir, y.ir), type);
  }
  static constexpr arith::CmpIPredicate kSigned[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
                                                     arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
                                                     arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  static constexpr arith::CmpIPredicate kUnsigned[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
                                                       arith::CmpIPredicate::ult, arith::CmpIPredicate::ule,
                                                       arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};
  return Value::Tensor(Make<arith::CmpIOp>((element.is_signed() ? kSigned : kUnsigned)[int(op)], x.ir, y.ir), type);
}

Value Emitter::Select(const Value& condition, const Value& a, const Value& b) {
  Value c = ToTensor(condition, "the condition of where");
  if (failed_) return {};
  c = Cast(c, kBool);
  Value x = a, y = b;
  if (IsPointer(x) && IsPointer(y) && x.type.element == y.type.element) {
    if (!UnifyShapes(&x, &y)) return {};
  } else if (!Unify(&x, &y)) {
    return {};
  }
  Shape shape;
  if (failed_ || !CommonShape(c.type.shape, x.type.shape, &shape)) return {};
  c = BroadcastTo(c, shape);
  x = BroadcastTo(x, shape);
  y = BroadcastTo(y, shape);
  if (failed_) return {};
  return Value::Tensor(Make<arith::SelectOp>(c.ir, x.ir, y.ir), x.type);
}

mlir::Value Emitter::MinMax(bool is_max, mlir::Value a, mlir::Value b, const ElementType& type, bool propagate_nan) {
  if (type.is_float()) {
    if (propagate_nan) return is_max ? Make<arith::MaximumFOp>(a, b) : Make<arith::MinimumFOp>(a, b);
    return is_max ? Make<arith::MaxNumFOp>(a, b) : Make<arith::MinNumFOp>(a, b);
  }
  if (type.is_signed()) return is_max ? Make<arith::MaxSIOp>(a, b) : Make<arith::MinSIOp>(a, b);
  return is_max ? Make<arith::MaxUIOp>(a, b) : Make<arith::MinUIOp>(a, b);
}

}  // namespace tessera::frontend
