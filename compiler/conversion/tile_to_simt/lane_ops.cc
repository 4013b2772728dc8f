// Operations on each lane by itself, and operations that only rename elements.
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

LogicalResult Emitter::EmitConstant(arith::ConstantOp op) {
  auto layout = tile::LayoutOf(op.getType());
  TypedAttr value = op.getValue();
  if (!layout) {
    Set(op.getResult(), {ConstantOf(value)});
    return success();
  }
  auto elements = cast<DenseElementsAttr>(value);
  if (!elements.isSplat()) return op.emitError("a constant block of different values is not supported on GPUs");
  Value scalar = ConstantOf(cast<TypedAttr>(elements.getSplatValue<Attribute>()));
  Set(op.getResult(), Registers(layout->registers(), scalar));
  return success();
}

Operation* Emitter::CloneOn(Operation* op, ValueRange operands) {
  llvm::SmallVector<Type, 2> types;
  for (Value result : op->getResults()) types.push_back(Emitted(result.getType()));
  Operation* clone = Operation::create(loc_, op->getName(), types, operands, NamedAttrList(op->getDiscardableAttrDictionary()),
                                       op->getPropertiesStorage(), BlockRange(), 0);
  return b_.insert(clone);
}

Value Emitter::AddPointer(Value pointer, Value offset, int64_t bytes) {
  if (!offset.getType().isInteger(64)) offset = Make<arith::ExtSIOp>(b_.getI64Type(), offset);
  if (bytes > 1) offset = Make<arith::MulIOp>(offset, I64(bytes));
  return Make<arith::AddIOp>(pointer, offset);
}

LogicalResult Emitter::EmitLanewise(Operation* op) {
  if (isa<tile::PtrCastOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::HintOp>(op)) {
    Set(op->getResult(0), Get(op->getOperand(0)));
    return success();
  }
  bool known = isa<arith::ArithDialect>(op->getDialect()) || op->getDialect()->getNamespace() == "math" ||
               isa<tile::AddPtrOp, tile::ProgramIdOp, tile::NumProgramsOp, tile::FpToFpOp, tile::FpToIntOp, tile::DivSOp, tile::DivUOp,
                   tile::RemSOp, tile::RemUOp, tile::MulHiUOp, tile::ExternOp>(op);
  if (!known || op->getNumResults() != 1) return op->emitError() << "not supported on GPUs: " << op->getName().getStringRef();
  auto layout = tile::LayoutOf(op->getResult(0).getType());
  size_t count = layout ? layout->registers() : 1;
  llvm::SmallVector<const Registers*, 3> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(&Get(operand));
    size_t size = operands.back()->size();
    if (size != count && (size != 1 || isa<RankedTensorType>(operand.getType())))
      return op->emitError("operands and result differ in layout");
  }
  int64_t pointee = 0;
  if (auto add = dyn_cast<tile::AddPtrOp>(op))
    pointee = BytesOf(cast<tile::PtrType>(getElementTypeOrSelf(add.getType())).getPointee());
  // Registers with the same operands (of broadcasts) share a result.
  std::map<std::vector<void*>, Value> made;
  Registers results;
  results.reserve(count);
  for (size_t r = 0; r < count; ++r) {
    llvm::SmallVector<Value, 3> scalars;
    std::vector<void*> key;
    for (const Registers* operand : operands) {
      scalars.push_back((*operand)[operand->size() == 1 ? 0 : r]);
      key.push_back(scalars.back().getAsOpaquePointer());
    }
    Value* result = count > 1 ? &made[key] : nullptr;
    if (result && *result) {
      results.push_back(*result);
      continue;
    }
    Value value = pointee ? AddPointer(scalars[0], scalars[1], pointee) : CloneOn(op, scalars)->getResult(0);
    if (result) *result = value;
    results.push_back(value);
  }
  Set(op->getResult(0), std::move(results));
  return success();
}

LogicalResult Emitter::EmitInlineAsm(Operation* op) {
  auto source = cast<tile::InlineAsmOp>(op);
  size_t pack = std::max<int64_t>(1, source.getPack());
  size_t count = 1;
  for (Value value : op->getOperands()) count = std::max(count, Get(value).size());
  for (Value value : op->getResults())
    if (auto layout = tile::LayoutOf(value.getType())) count = std::max<size_t>(count, layout->registers());
  // Elements narrower than 32 bits travel together in one register of up to 32 bits.
  auto group_of = [&](Type type) -> size_t { return std::min<size_t>(pack, std::max<unsigned>(1, 32 / Emitted(type).getIntOrFloatBitWidth())); };
  std::vector<Registers> results(op->getNumResults());
  for (size_t first = 0; first < count; first += pack) {
    llvm::SmallVector<Value> operands;
    for (Value value : op->getOperands()) {
      const Registers& registers = Get(value);
      auto at = [&](size_t i) { return registers[std::min(first + i, registers.size() - 1)]; };
      size_t group = group_of(value.getType());
      for (size_t i = 0; i < pack; i += group) {
        if (group == 1) {
          operands.push_back(at(i));
          continue;
        }
        llvm::SmallVector<Value> parts;
        for (size_t k = 0; k < group; ++k) parts.push_back(at(i + k));
        auto narrow = VectorType::get({int64_t(group)}, parts[0].getType());
        auto wide = VectorType::get({1}, b_.getIntegerType(group * parts[0].getType().getIntOrFloatBitWidth()));
        Value vector = b_.create<vector::FromElementsOp>(loc_, narrow, parts);
        operands.push_back(b_.create<vector::ExtractOp>(loc_, b_.create<vector::BitCastOp>(loc_, wide, vector), int64_t{0}));
      }
    }
    llvm::SmallVector<Type> types;
    for (Value value : op->getResults()) {
      Type element = Emitted(value.getType());
      size_t group = group_of(value.getType());
      for (size_t i = 0; i < pack; i += group)
        types.push_back(group == 1 ? element : b_.getIntegerType(group * element.getIntOrFloatBitWidth()));
    }
    auto made = b_.create<tile::InlineAsmOp>(loc_, types, operands, source.getAsmText(), source.getConstraints(), source.getIsPure(), 1);
    size_t next = 0;
    for (auto [value, registers] : llvm::zip(op->getResults(), results)) {
      Type element = Emitted(value.getType());
      size_t group = group_of(value.getType());
      for (size_t i = 0; i < pack; i += group) {
        Value part = made.getResult()[next++];
        if (group == 1) {
          registers.push_back(part);
          continue;
        }
        auto one = VectorType::get({1}, part.getType());
        Value vector = b_.create<vector::BitCastOp>(loc_, VectorType::get({int64_t(group)}, element),
                                                    b_.create<vector::FromElementsOp>(loc_, one, part));
        for (size_t k = 0; k < group; ++k) registers.push_back(b_.create<vector::ExtractOp>(loc_, vector, int64_t(k)));
      }
    }
  }
  for (auto [value, registers] : llvm::zip(op->getResults(), results)) {
    auto layout = tile::LayoutOf(value.getType());
    registers.resize(layout ? layout->registers() : 1);
    Set(value, std::move(registers));
  }
  return success();
}

LogicalResult Emitter::EmitMap(tile::MapOp op) {
  size_t count = LayoutOf(op.getSources()[0]).registers();
  std::vector<Registers> results(op.getNumResults());
  Block& body = op.getBody().front();
  bool outer = divergent_;
  divergent_ = true;
  for (size_t r = 0; r < count; ++r) {
    for (auto [argument, source] : llvm::zip(body.getArguments(), op.getSources())) Set(argument, {Get(source)[r]});
    for (Operation& each : body.without_terminator())
      if (failed(EmitOp(&each))) return failure();
    for (auto [registers, value] : llvm::zip(results, body.getTerminator()->getOperands())) registers.push_back(Scalar(value));
  }
  divergent_ = outer;
  for (auto [result, registers] : llvm::zip(op.getResult(), results)) Set(result, std::move(registers));
  return success();
}

std::optional<std::vector<int32_t>> Emitter::MapRegisters(const LinearLayout& to, const LinearLayout& from,
                                                          const std::function<int32_t(int32_t)>& map) {
  for (auto input : {LinearLayout::kLane, LinearLayout::kWarp}) {
    if (to.bits(input) != from.bits(input)) return std::nullopt;
    for (auto [t, f] : llvm::zip(to.bases(input), from.bases(input)))
      if ((map ? map(t) : t) != f) return std::nullopt;
  }
  llvm::SmallVector<int32_t, 8> images;
  for (int32_t basis : to.bases(LinearLayout::kRegister)) {
    std::optional<int32_t> reg = from.FindRegister(map ? map(basis) : basis);
    if (!reg) return std::nullopt;
    images.push_back(*reg);
  }
  std::vector<int32_t> registers(to.registers(), 0);
  for (int32_t r = 0; r < to.registers(); ++r)
    for (auto [i, image] : llvm::enumerate(images))
      if (r >> i & 1) registers[r] ^= image;
  return registers;
}

LogicalResult Emitter::EmitShape(Operation* op, const std::function<int32_t(int32_t)>& source_of) {
  auto registers = MapRegisters(LayoutOf(op->getResult(0)), LayoutOf(op->getOperand(0)), source_of);
  if (!registers) return op->emitError("source and result differ in layout");
  const Registers& source = Get(op->getOperand(0));
  Registers result;
  for (int32_t r : *registers) result.push_back(source[r]);
  Set(op->getResult(0), std::move(result));
  return success();
}

LogicalResult Emitter::EmitJoin(tile::JoinOp op) {
  LinearLayout to = LayoutOf(op.getResult());
  LinearLayout from = LayoutOf(op.getLhs());
  auto registers = MapRegisters(to, from, [](int32_t flat) { return flat >> 1; });
  if (!registers) return op.emitError("sources and result differ in layout");
  Registers result;
  for (int32_t r = 0; r < to.registers(); ++r)
    result.push_back(Get(to.ApplyTo(LinearLayout::kRegister, r) & 1 ? op.getRhs() : op.getLhs())[(*registers)[r]]);
  Set(op.getResult(), std::move(result));
  return success();
}

LogicalResult Emitter::EmitSplit(tile::SplitOp op) {
  LinearLayout from = LayoutOf(op.getSource());
  auto registers = MapRegisters(LayoutOf(op.getLhs()), from, [](int32_t flat) { return flat << 1; });
  auto odd = from.FindRegister(1);
  if (!registers || !odd) return op.emitError("source and results differ in layout");
  const Registers& source = Get(op.getSource());
  Registers lhs, rhs;
  for (int32_t r : *registers) {
    lhs.push_back(source[r]);
    rhs.push_back(source[r ^ *odd]);
  }
  Set(op.getLhs(), std::move(lhs));
  Set(op.getRhs(), std::move(rhs));
  return success();
}

LogicalResult Emitter::EmitCat(tile::CatOp op) {
  LinearLayout to = LayoutOf(op.getResult());
  LinearLayout from = LayoutOf(op.getLhs());
  int32_t top = static_cast<int32_t>(from.elements());
  auto registers = MapRegisters(to, from, [=](int32_t flat) { return flat & ~top; });
  if (!registers) return op.emitError("sources and result differ in layout");
  Registers result;
  for (int32_t r = 0; r < to.registers(); ++r)
    result.push_back(Get(to.ApplyTo(LinearLayout::kRegister, r) & top ? op.getRhs() : op.getLhs())[(*registers)[r]]);
  Set(op.getResult(), std::move(result));
  return success();
}

}  // namespace tessera::compiler
