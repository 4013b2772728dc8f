// Builds arithmetic on lanes: each value is a scalar or a vector, all of one shape.
#ifndef TESSERA_COMPILER_CONVERSION_LANE_BUILDER_H_
#define TESSERA_COMPILER_CONVERSION_LANE_BUILDER_H_

#include <cstdint>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

class LaneBuilder {
 public:
  // `like` gives the shape; constants and comparisons are of that shape.
  LaneBuilder(mlir::OpBuilder& builder, mlir::Location loc, mlir::Type like) : builder_(builder), loc_(loc), like_(like) {}

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location loc() const { return loc_; }

  // The shape with another element type.
  mlir::Type TypeOf(mlir::Type element) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(like_)) return vector.clone(element);
    return element;
  }
  mlir::Type F32() { return TypeOf(builder_.getF32Type()); }
  mlir::Type F64() { return TypeOf(builder_.getF64Type()); }
  mlir::Type Int(unsigned bits) { return TypeOf(builder_.getIntegerType(bits)); }

  mlir::Value Constant(mlir::Type type, mlir::Attribute element) {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return builder_.create<mlir::arith::ConstantOp>(loc_, mlir::DenseElementsAttr::get(vector, element));
    return builder_.create<mlir::arith::ConstantOp>(loc_, mlir::cast<mlir::TypedAttr>(element));
  }
  mlir::Value Float(double value) { return Constant(F32(), builder_.getF32FloatAttr(static_cast<float>(value))); }
  mlir::Value Double(double value) { return Constant(F64(), builder_.getF64FloatAttr(value)); }
  mlir::Value IntOf(unsigned bits, int64_t value) {
    const mlir::APInt bits_of_value(bits, static_cast<uint64_t>(value), /*isSigned=*/true);
    return Constant(Int(bits), builder_.getIntegerAttr(builder_.getIntegerType(bits), bits_of_value));
  }
  mlir::Value Int32(int64_t value) { return IntOf(32, value); }

  template <typename Op>
  mlir::Value Binary(mlir::Value a, mlir::Value b) {
    return builder_.create<Op>(loc_, a, b);
  }
  mlir::Value Add(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::AddFOp>(a, b); }
  mlir::Value Sub(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::SubFOp>(a, b); }
  mlir::Value Mul(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::MulFOp>(a, b); }
  mlir::Value Div(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::DivFOp>(a, b); }
  mlir::Value AddI(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::AddIOp>(a, b); }
  mlir::Value SubI(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::SubIOp>(a, b); }
  mlir::Value And(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::AndIOp>(a, b); }
  mlir::Value Or(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::OrIOp>(a, b); }
  mlir::Value Xor(mlir::Value a, mlir::Value b) { return Binary<mlir::arith::XOrIOp>(a, b); }
  // Shifts of 32-bit lanes.
  mlir::Value Shl(mlir::Value a, int bits) { return Binary<mlir::arith::ShLIOp>(a, Int32(bits)); }
  mlir::Value ShrU(mlir::Value a, int bits) { return Binary<mlir::arith::ShRUIOp>(a, Int32(bits)); }
  mlir::Value ShrS(mlir::Value a, int bits) { return Binary<mlir::arith::ShRSIOp>(a, Int32(bits)); }

  mlir::Value Compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::CmpFOp>(loc_, predicate, a, b);
  }
  mlir::Value Compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::CmpIOp>(loc_, predicate, a, b);
  }
  mlir::Value Select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::SelectOp>(loc_, condition, a, b);
  }
  mlir::Value IsNan(mlir::Value a) { return Compare(mlir::arith::CmpFPredicate::UNO, a, a); }

  // The same bits: f32 <-> i32 and f64 <-> i64.
  mlir::Value Bits(mlir::Value a) { return Bitcast(a, Int(mlir::getElementTypeOrSelf(a).getIntOrFloatBitWidth())); }
  mlir::Value FromBits(mlir::Value a) {
    return Bitcast(a, mlir::getElementTypeOrSelf(a).getIntOrFloatBitWidth() == 64 ? F64() : F32());
  }
  mlir::Value Bitcast(mlir::Value a, mlir::Type type) { return builder_.create<mlir::arith::BitcastOp>(loc_, type, a); }

  template <typename Op>
  mlir::Value Cast(mlir::Value a, mlir::Type type) {
    return builder_.create<Op>(loc_, type, a);
  }

 private:
  mlir::OpBuilder& builder_;
  mlir::Location loc_;
  mlir::Type like_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_LANE_BUILDER_H_
