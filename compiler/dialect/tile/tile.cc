#include "compiler/dialect/tile/tile.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/CommonFolders.h"
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

namespace tessera::tile {

std::optional<LinearLayout> LayoutOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) return std::nullopt;
  auto layout = dyn_cast_if_present<LayoutAttr>(tensor.getEncoding());
  if (!layout) return std::nullopt;
  return layout.ToLinear(tensor.getShape());
}

RankedTensorType WithLayout(Type type, const LinearLayout& layout) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType(), LayoutAttr::get(type.getContext(), layout));
}

RankedTensorType WithoutLayout(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType());
}

LayoutAttr LayoutAttr::get(MLIRContext* context, const LinearLayout& layout) {
  return get(context, layout.bases(LinearLayout::kRegister), layout.bases(LinearLayout::kLane),
             layout.bases(LinearLayout::kWarp), layout.bases(LinearLayout::kBlock));
}

LinearLayout LayoutAttr::ToLinear(ArrayRef<int64_t> shape) const {
  auto bases = [](ArrayRef<int32_t> list) { return LinearLayout::Bases(list.begin(), list.end()); };
  return LinearLayout(shape, {bases(getRegisters()), bases(getLanes()), bases(getWarps()), bases(getBlocks())});
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, function_ref<InFlightDiagnostic()> emit_error) const {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  BitSpace registers;
  for (ArrayRef<int32_t> bases : {getRegisters(), getLanes(), getWarps(), getBlocks()})
    for (int32_t basis : bases)
      if (basis < 0 || basis >= elements) return emit_error() << "layout has a basis " << basis << " outside of the tensor";
  for (int32_t basis : getRegisters())
    if (!registers.Add(basis)) return emit_error() << "layout holds an element twice in registers";
  if (!ToLinear(shape).IsSurjective()) return emit_error() << "layout does not cover the tensor";
  return success();
}

Attribute LayoutAttr::parse(AsmParser& parser, Type) {
  SmallVector<int32_t> bases[LinearLayout::kInputs];
  static constexpr llvm::StringLiteral kNames[] = {"registers", "lanes", "warps", "blocks"};
  if (parser.parseLess()) return {};
  for (int input = 0; input < LinearLayout::kInputs; ++input) {
    if (input == LinearLayout::kBlock && failed(parser.parseOptionalComma())) break;
    if (input > 0 && input < LinearLayout::kBlock && parser.parseComma()) return {};
    auto element = [&]() -> ParseResult { return parser.parseInteger(bases[input].emplace_back()); };
    if (parser.parseKeyword(kNames[input]) || parser.parseEqual() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, element))
      return {};
  }
  if (parser.parseGreater()) return {};
  return get(parser.getContext(), bases[0], bases[1], bases[2], bases[3]);
}

void LayoutAttr::print(AsmPrinter& printer) const {
  printer << "<registers = [" << getRegisters() << "], lanes = [" << getLanes() << "], warps = [" << getWarps() << "]";
  if (!getBlocks().empty()) printer << ", blocks = [" << getBlocks() << "]";
  printer << ">";
}

}  // namespace tessera::tile

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

bool SameButLayout(Type a, Type b) { return SameShape(a, b) && ElementOf(a) == ElementOf(b); }

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
    if (!SameButLayout(op.getResult()[i].getType(), expected_result(type, op.getAxis())))
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
  return RankedTensorType::get(shape, type.getElementType());
}

// A constant whose elements are all one value, under another shape.
OpFoldResult Reshaped(Attribute constant, Type type) {
  auto splat = dyn_cast_if_present<SplatElementsAttr>(constant);
  if (!splat) return {};
  return splat.resizeSplat(cast<ShapedType>(type));
}

// Folds a division of constants unless its result is unspecified.
template <typename OpT, typename FunctionT>
OpFoldResult FoldDivision(OpT op, typename OpT::FoldAdaptor adaptor, bool is_signed, bool by_one_is_lhs,
                          FunctionT divide) {
  if (by_one_is_lhs && matchPattern(op.getRhs(), m_One())) return op.getLhs();
  bool specified = true;
  Attribute folded = constFoldBinaryOp<IntegerAttr, APInt, void>(adaptor.getOperands(), [&](APInt a, const APInt& b) {
    if (b.isZero() || (is_signed && a.isMinSignedValue() && b.isAllOnes())) {
      specified = false;
      return a;
    }
    return divide(a, b);
  });
  return specified ? OpFoldResult(folded) : OpFoldResult();
}

// Checks the block that a descriptor access moves.
LogicalResult VerifyDescAccess(Operation* op, DescType desc, Type block, unsigned indices) {
  auto type = cast<RankedTensorType>(block);
  if (indices != desc.getBlockShape().size()) return op->emitOpError("takes an index for each dimension");
  int64_t elements = 1;
  for (int64_t extent : desc.getBlockShape()) elements *= extent;
  if (type.getElementType() != desc.getElementType() || type.getNumElements() != elements)
    return op->emitOpError("block type ") << block << " is not the descriptor's";
  return success();
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

OpFoldResult DivSOp::fold(FoldAdaptor adaptor) {
  return FoldDivision(*this, adaptor, true, true, [](const APInt& a, const APInt& b) { return a.sdiv(b); });
}
OpFoldResult DivUOp::fold(FoldAdaptor adaptor) {
  return FoldDivision(*this, adaptor, false, true, [](const APInt& a, const APInt& b) { return a.udiv(b); });
}
OpFoldResult RemSOp::fold(FoldAdaptor adaptor) {
  return FoldDivision(*this, adaptor, true, false, [](const APInt& a, const APInt& b) { return a.srem(b); });
}
OpFoldResult RemUOp::fold(FoldAdaptor adaptor) {
  return FoldDivision(*this, adaptor, false, false, [](const APInt& a, const APInt& b) { return a.urem(b); });
}

OpFoldResult UnsplatOp::fold(FoldAdaptor adaptor) {
  if (auto splat = getSource().getDefiningOp<SplatOp>()) return splat.getSource();
  if (auto constant = dyn_cast_if_present<SplatElementsAttr>(adaptor.getSource()))
    return constant.getSplatValue<Attribute>();
  return {};
}

OpFoldResult ExpandDimsOp::fold(FoldAdaptor adaptor) { return Reshaped(adaptor.getSource(), getType()); }

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType()) return getSource();
  return Reshaped(adaptor.getSource(), getType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType()) return getSource();
  return Reshaped(adaptor.getSource(), getType());
}

OpFoldResult TransOp::fold(FoldAdaptor adaptor) {
  bool identity = true;
  for (auto [i, d] : llvm::enumerate(getOrder())) identity &= int64_t(i) == d;
  if (identity && getSource().getType() == getType()) return getSource();
  return Reshaped(adaptor.getSource(), getType());
}

OpFoldResult FpToFpOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType()) return getSource();
  auto target = cast<FloatType>(ElementOf(getType()));
  if (target.getWidth() == 8) return {};  // saturates, which APFloat does not
  auto convert = [&](APFloat value) {
    bool loses_information;
    value.convert(target.getFloatSemantics(),
                  getRounding() == Rounding::RTZ ? APFloat::rmTowardZero : APFloat::rmNearestTiesToEven,
                  &loses_information);
    return value;
  };
  if (auto scalar = dyn_cast_if_present<FloatAttr>(adaptor.getSource()))
    return FloatAttr::get(target, convert(scalar.getValue()));
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getSource()))
    return SplatElementsAttr::get(cast<ShapedType>(getType()), convert(splat.getSplatValue<APFloat>()));
  return {};
}

LogicalResult PtrToIntOp::verify() {
  if (!SameShape(getSource().getType(), getType())) return emitOpError("shapes differ");
  return ElementOf(getType()).isInteger(64) ? success() : emitOpError("an address is an i64");
}

LogicalResult IntToPtrOp::verify() {
  if (!SameShape(getSource().getType(), getType())) return emitOpError("shapes differ");
  return ElementOf(getSource().getType()).isInteger(64) ? success() : emitOpError("an address is an i64");
}

LogicalResult FpToFpOp::verify() {
  return SameShape(getSource().getType(), getType()) ? success() : emitOpError("shapes differ");
}

LogicalResult FpToIntOp::verify() {
  return SameShape(getSource().getType(), getType()) ? success() : emitOpError("shapes differ");
}

LogicalResult MakeDescOp::verify() {
  auto desc = getResult().getType();
  if (desc.getBlockShape().empty() || desc.getBlockShape().size() > 5)
    return emitOpError("describes tensors of 1 to 5 dimensions");
  if (getShape().size() != desc.getBlockShape().size())
    return emitOpError("takes an extent and a stride for each dimension");
  if (getBase().getType().getPointee() != desc.getElementType())
    return emitOpError("base points to ") << getBase().getType().getPointee() << ", not to " << desc.getElementType();
  return success();
}

LogicalResult DescLoadOp::verify() {
  return VerifyDescAccess(*this, getDesc().getType(), getType(), getIndices().size());
}

LogicalResult DescStoreOp::verify() {
  return VerifyDescAccess(*this, getDesc().getType(), getValue().getType(), getIndices().size());
}

LogicalResult MapOp::verify() {
  if (getSources().empty()) return emitOpError("needs at least one operand");
  Block& body = getBody().front();
  Operation* yield = body.getTerminator();
  if (body.getNumArguments() != getSources().size() || yield->getNumOperands() != getResult().size())
    return emitOpError("region takes a value an operand and yields one a result");
  auto shape = TensorOf(getSources()[0]).getShape();
  for (auto [source, argument] : llvm::zip(getSources(), body.getArguments()))
    if (TensorOf(source).getShape() != shape || ElementOf(source.getType()) != argument.getType())
      return emitOpError("operands differ in shape, or from the region's arguments in type");
  for (auto [result, value] : llvm::zip(getResult(), yield->getOperands()))
    if (TensorOf(result).getShape() != shape || ElementOf(result.getType()) != value.getType())
      return emitOpError("results differ in shape, or from the yielded values in type");
  return success();
}

LogicalResult SortOp::verify() {
  return TensorOf(getSource()).getRank() > 0 ? success() : emitOpError("needs a dimension to sort along");
}

LogicalResult GatherOp::verify() {
  auto source = TensorOf(getSource()), index = TensorOf(getIndex()), result = TensorOf(getResult());
  if (source.getRank() != index.getRank()) return emitOpError("source and index differ in rank");
  if (getAxis() < 0 || getAxis() >= source.getRank()) return emitOpError("axis outside rank");
  if (!isa<IntegerType>(index.getElementType())) return emitOpError("indices are integers");
  if (result.getShape() != index.getShape() || result.getElementType() != source.getElementType())
    return emitOpError("result has the shape of the index and the element type of the source");
  for (int64_t d = 0; d < source.getRank(); ++d)
    if (d != getAxis() && source.getDimSize(d) != index.getDimSize(d))
      return emitOpError("source and index differ in an extent beside the axis");
  return success();
}

LogicalResult ConvertLayoutOp::verify() {
  return SameButLayout(getSource().getType(), getType()) ? success() : emitOpError("changes the layout alone");
}

OpFoldResult ConvertLayoutOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType()) return getSource();
  if (auto source = getSource().getDefiningOp<ConvertLayoutOp>()) {
    if (source.getSource().getType() == getType()) return source.getSource();
    getSourceMutable().assign(source.getSource());
    return getResult();
  }
  return Reshaped(adaptor.getSource(), getType());
}

LogicalResult HistogramOp::verify() {
  if (!isa<IntegerType>(ElementOf(getSource().getType()))) return emitOpError("counts integers");
  auto result = TensorOf(getResult());
  if (result.getRank() != 1 || !result.getElementType().isInteger(32))
    return emitOpError("counts into a 1-D tensor of i32");
  if (getMask() && !SameShape(getSource().getType(), getMask().getType()))
    return emitOpError("source and mask differ in shape");
  return success();
}

LogicalResult HintOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  size_t entries = type ? type.getRank() : 1;
  for (std::optional<ArrayRef<int64_t>> promise : {getDivisibility(), getContiguity(), getConstancy()})
    if (promise && promise->size() != entries) return emitOpError("needs an entry for each dimension");
  return success();
}

LogicalResult AssertOp::verify() {
  if (getMask() && !SameShape(getCondition().getType(), getMask().getType()))
    return emitOpError("condition and mask differ in shape");
  return success();
}

LogicalResult PrintOp::verify() {
  return getIsUnsigned().size() == getOperands().size() ? success()
                                                        : emitOpError("says for each operand whether it is unsigned");
}
