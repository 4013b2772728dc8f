#include "compiler/dialect/tile/tile.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tessera::tile;

#include "compiler/dialect/tile/tile_dialect.cpp.inc"
#include "compiler/dialect/tile/tile_enums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/tile/tile_types.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/tile/tile_attrs.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/tile/tile_ops.cpp.inc"

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/dialect/tile/tile_types.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/dialect/tile/tile_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/tile/tile_ops.cpp.inc"
      >();
}

Operation* TileDialect::materializeConstant(OpBuilder& builder, Attribute value, Type type,
                                            Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

namespace {

RankedTensorType TensorOf(Value v) { return dyn_cast<RankedTensorType>(v.getType()); }
Type ElementOf(Type t) { return getElementTypeOrSelf(t); }

bool SameShape(Type a, Type b) {
  auto ta = dyn_cast<RankedTensorType>(a), tb = dyn_cast<RankedTensorType>(b);
  if (!ta || !tb) return !ta && !tb;
  return ta.getShape() == tb.getShape();
}

// Checks pointer, value and mask of a memory access against one another.
LogicalResult VerifyAccess(Operation* op, Type ptr, Type value, Value mask) {
  auto pointee = cast<PtrType>(ElementOf(ptr)).getPointee();
  if (!SameShape(ptr, value)) return op->emitOpError("pointer and value differ in shape");
  if (ElementOf(value) != pointee)
    return op->emitOpError("value type ") << ElementOf(value) << " is not the pointee " << pointee;
  if (pointee.isInteger(1)) return op->emitOpError("memory is never accessed as i1; use i8");
  if (mask && !SameShape(ptr, mask.getType()))
    return op->emitOpError("pointer and mask differ in shape");
  return success();
}

// Checks operands, results and combine region of a reduction or scan.
template <typename OpT>
LogicalResult VerifyCombine(OpT op, Type expected_result(RankedTensorType, unsigned)) {
  unsigned n = op.getSources().size();
  if (n == 0) return op.emitOpError("needs at least one operand");
  auto first = cast<RankedTensorType>(op.getSources()[0].getType());
  if (op.getAxis() < 0 || op.getAxis() >= first.getRank())
    return op.emitOpError("axis ") << op.getAxis() << " is outside rank " << first.getRank();
  if (op.getResult().size() != n) return op.emitOpError("has a result for each operand");
  Block& body = op.getCombine().front();
  if (body.getNumArguments() != 2 * n) return op.emitOpError("combine region takes two values an operand");
  auto* yield = body.getTerminator();
  if (yield->getNumOperands() != n) return op.emitOpError("combine region yields one value an operand");
  for (unsigned i = 0; i < n; ++i) {
    auto type = cast<RankedTensorType>(op.getSources()[i].getType());
    if (type.getShape() != first.getShape()) return op.emitOpError("operands differ in shape");
    if (op.getResult()[i].getType() != expected_result(type, op.getAxis()))
      return op.emitOpError("result ") << i << " has the wrong type";
    for (Type t : {body.getArgument(i).getType(), body.getArgument(n + i).getType(),
                   yield->getOperand(i).getType()})
      if (t != type.getElementType())
        return op.emitOpError("combine region must work on ") << type.getElementType();
  }
  return success();
}

Type ReducedType(RankedTensorType type, unsigned axis) {
  if (type.getRank() == 1) return type.getElementType();
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
}

// x / 1 and friends; everything else is left to the targets.
template <typename OpT>
bool DividesByOne(OpT op) {
  return matchPattern(op.getRhs(), m_One());
}

}  // namespace

LogicalResult RangeOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  if (type.getRank() != 1 || type.getDimSize(0) != int64_t(getEnd()) - int64_t(getStart()))
    return emitOpError("result must have end - start elements");
  return success();
}

LogicalResult SplatOp::verify() {
  if (ElementOf(getResult().getType()) != getSource().getType())
    return emitOpError("element type differs from the scalar");
  return success();
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  if (!adaptor.getSource() || !isa<IntegerAttr, FloatAttr>(adaptor.getSource())) return {};
  return SplatElementsAttr::get(cast<ShapedType>(getType()), adaptor.getSource());
}

LogicalResult UnsplatOp::verify() {
  if (TensorOf(getSource()).getNumElements() != 1) return emitOpError("source must have one element");
  if (ElementOf(getSource().getType()) != getType()) return emitOpError("element type differs");
  return success();
}

LogicalResult ExpandDimsOp::verify() {
  auto source = TensorOf(getSource()), result = TensorOf(getResult());
  SmallVector<int64_t> shape(source.getShape());
  if (getAxis() < 0 || getAxis() > int64_t(shape.size())) return emitOpError("axis outside rank");
  shape.insert(shape.begin() + getAxis(), 1);
  if (result.getShape() != ArrayRef<int64_t>(shape) ||
      result.getElementType() != source.getElementType())
    return emitOpError("result must be the source with a 1 inserted at the axis");
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto source = TensorOf(getSource()), result = TensorOf(getResult());
  if (source.getRank() != result.getRank() || source.getElementType() != result.getElementType())
    return emitOpError("source and result differ in rank or element type");
  for (auto [s, r] : llvm::zip(source.getShape(), result.getShape()))
    if (s != r && s != 1) return emitOpError("only dimensions of extent 1 are repeated");
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto source = TensorOf(getSource()), result = TensorOf(getResult());
  if (source.getNumElements() != result.getNumElements() ||
      source.getElementType() != result.getElementType())
    return emitOpError("source and result differ in number or type of elements");
  return success();
}

LogicalResult TransOp::verify() {
  auto source = TensorOf(getSource()), result = TensorOf(getResult());
  if (int64_t(getOrder().size()) != source.getRank() || source.getRank() != result.getRank() ||
      source.getElementType() != result.getElementType())
    return emitOpError("order must have an entry a dimension");
  SmallVector<bool> seen(source.getRank());
  for (auto [i, d] : llvm::enumerate(getOrder())) {
    if (d < 0 || d >= source.getRank() || seen[d]) return emitOpError("order is no permutation");
    seen[d] = true;
    if (result.getDimSize(i) != source.getDimSize(d)) return emitOpError("result shape is wrong");
  }
  return success();
}

LogicalResult JoinOp::verify() {
  SmallVector<int64_t> shape(TensorOf(getLhs()).getShape());
  shape.push_back(2);
  if (TensorOf(getResult()).getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("result must have a last dimension of extent 2");
  return success();
}

LogicalResult SplitOp::verify() {
  auto shape = TensorOf(getSource()).getShape();
  if (shape.empty() || shape.back() != 2 || TensorOf(getLhs()).getShape() != shape.drop_back() ||
      getLhs().getType() != getRhs().getType())
    return emitOpError("last dimension must have extent 2 and be dropped");
  return success();
}

LogicalResult CatOp::verify() {
  auto lhs = TensorOf(getLhs()), result = TensorOf(getResult());
  if (lhs.getRank() != 1 || result.getRank() != 1 || result.getDimSize(0) != 2 * lhs.getDimSize(0))
    return emitOpError("takes two 1-D tensors and doubles the extent");
  return success();
}

LogicalResult AddPtrOp::verify() {
  if (!SameShape(getPtr().getType(), getOffset().getType()))
    return emitOpError("pointer and offset differ in shape");
  return success();
}

OpFoldResult AddPtrOp::fold(FoldAdaptor) {
  return matchPattern(getOffset(), m_Zero()) ? OpFoldResult(getPtr()) : OpFoldResult();
}

LogicalResult PtrCastOp::verify() {
  if (!SameShape(getSource().getType(), getType())) return emitOpError("shapes differ");
  return success();
}

LogicalResult LoadOp::verify() {
  if (getOther() && getOther().getType() != getType())
    return emitOpError("other has type ") << getOther().getType() << ", not " << getType();
  return VerifyAccess(*this, getPtr().getType(), getType(), getMask());
}

void LoadOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>& effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  if (getIsVolatile()) effects.emplace_back(MemoryEffects::Write::get());
}

void InlineAsmOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>& effects) {
  if (getIsPure()) return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult StoreOp::verify() {
  return VerifyAccess(*this, getPtr().getType(), getValue().getType(), getMask());
}

LogicalResult AtomicRmwOp::verify() {
  if (getType() != getValue().getType()) return emitOpError("result and value differ in type");
  return VerifyAccess(*this, getPtr().getType(), getValue().getType(), getMask());
}

LogicalResult AtomicCasOp::verify() {
  if (getType() != getValue().getType() || getCompare().getType() != getType())
    return emitOpError("result, compare and value differ in type");
  return VerifyAccess(*this, getPtr().getType(), getValue().getType(), nullptr);
}

LogicalResult DotOp::verify() {
  auto a = TensorOf(getA()), b = TensorOf(getB()), c = TensorOf(getC());
  int64_t rank = a.getRank();
  if ((rank != 2 && rank != 3) || b.getRank() != rank || c.getRank() != rank)
    return emitOpError("operands must all be 2-D or all 3-D");
  if (rank == 3 && (a.getDimSize(0) != b.getDimSize(0) || a.getDimSize(0) != c.getDimSize(0)))
    return emitOpError("batch dimensions differ");
  if (a.getDimSize(rank - 1) != b.getDimSize(rank - 2) ||
      a.getDimSize(rank - 2) != c.getDimSize(rank - 2) ||
      b.getDimSize(rank - 1) != c.getDimSize(rank - 1))
    return emitOpError("shapes do not multiply: ") << a << " * " << b << " -> " << c;
  if (a.getElementType() != b.getElementType() &&
      !(isa<FloatType>(a.getElementType()) && a.getElementTypeBitWidth() == 8 &&
        isa<FloatType>(b.getElementType()) && b.getElementTypeBitWidth() == 8))
    return emitOpError("operands differ in element type");
  return success();
}

LogicalResult ReduceOp::verify() { return VerifyCombine(*this, &ReducedType); }
LogicalResult ScanOp::verify() {
  return VerifyCombine(*this, +[](RankedTensorType type, unsigned) -> Type { return type; });
}

OpFoldResult DivSOp::fold(FoldAdaptor) { return DividesByOne(*this) ? getLhs() : Value(); }
OpFoldResult DivUOp::fold(FoldAdaptor) { return DividesByOne(*this) ? getLhs() : Value(); }
OpFoldResult RemSOp::fold(FoldAdaptor) { return {}; }
OpFoldResult RemUOp::fold(FoldAdaptor) { return {}; }
