// The entry function, blocks of operations and control flow.
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"

#include "base/kernel_abi.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

KernelEmitter::KernelEmitter(func::FuncOp kernel, const MaterialisationPlan& plan, const AxisInfoAnalysis& axis,
                             const CodegenTarget& target)
    : kernel_(kernel),
      plan_(plan),
      axis_(axis),
      target_(target),
      builder_(kernel.getContext()),
      loc_(kernel.getLoc()),
      ptr_(LLVM::LLVMPointerType::get(kernel.getContext())),
      i64_(builder_.getI64Type()) {}

LogicalResult KernelEmitter::Unsupported(Operation* op, const llvm::Twine& what) {
  llvm::StringRef more = isa<tile::InlineAsmOp>(op) ? " (not on this target: inline PTX needs an NVIDIA GPU)" : "";
  if (!failed_) op->emitError("not supported on the cpu: " + what + more);
  failed_ = true;
  return failure();
}

LogicalResult KernelEmitter::Emit(llvm::StringRef entry_name) {
  builder_.setInsertionPointAfter(kernel_);
  auto type = builder_.getFunctionType({ptr_, ptr_, i64_, i64_, ptr_}, {});
  auto entry = builder_.create<func::FuncOp>(loc_, entry_name, type);
  Block* body = entry.addEntryBlock();
  MoveInto(body);
  Value parameters = body->getArgument(0), grid = body->getArgument(1);
  context_ = body->getArgument(4);
  auto field = [&](Value base, int64_t bytes) -> Value {
    if (bytes == 0) return base;
    return builder_.create<LLVM::GEPOp>(loc_, ptr_, builder_.getI8Type(), base, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(bytes))}, true);
  };
  for (auto [i, argument] : llvm::enumerate(kernel_.getArguments())) {
    Type emitted = Emitted(argument.getType());
    if (isa<RankedTensorType, tile::DescType>(argument.getType())) return Unsupported(kernel_, "this type of argument");
    scalars_[argument] = FromMemory(LoadAt(field(parameters, 8 * i), MemoryType(emitted)), emitted);
  }
  Type i32 = builder_.getI32Type();
  Value extents[3];
  for (int d = 0; d < 3; ++d) {
    num_programs_[d] = LoadAt(field(grid, 4 * d), i32);
    extents[d] = builder_.create<arith::ExtUIOp>(loc_, i64_, num_programs_[d]);
  }
  scratch_ = LoadAt(field(context_, offsetof(KernelContext, scratch)), ptr_);

  auto loop = builder_.create<scf::ForOp>(loc_, body->getArgument(2), body->getArgument(3), ConstI64(1));
  MoveInto(loop.getBody());
  Value linear = loop.getInductionVar();
  Value rest = builder_.create<arith::DivUIOp>(loc_, linear, extents[0]);
  Value x = builder_.create<arith::SubIOp>(loc_, linear, builder_.create<arith::MulIOp>(loc_, rest, extents[0]));
  Value z = builder_.create<arith::DivUIOp>(loc_, rest, extents[1]);
  Value y = builder_.create<arith::SubIOp>(loc_, rest, builder_.create<arith::MulIOp>(loc_, z, extents[1]));
  Value ids[3] = {x, y, z};
  for (int d = 0; d < 3; ++d) program_id_[d] = builder_.create<arith::TruncIOp>(loc_, i32, ids[d]);
  if (failed(EmitSteps(&kernel_.getBody().front()))) return failure();
  MoveInto(body);
  builder_.create<func::ReturnOp>(loc_);
  return failed_ ? failure() : success();
}

LogicalResult KernelEmitter::EmitSteps(Block* block) {
  for (const Step& step : plan_.StepsOf(block)) {
    StartNest();
    if (failed(EmitStep(step)) || failed_) return failure();
  }
  StartNest();
  return success();
}

LogicalResult KernelEmitter::EmitStep(const Step& step) {
  loc_ = step.ops[0]->getLoc();
  for (Operation* op : step.ops)
    for (const PackPlan& pack : plan_.PacksBefore(op))
      if (failed(EmitPack(pack))) return failure();
  Operation* op = step.ops[0];
  loc_ = op->getLoc();
  StartNest();
  switch (step.kind) {
    case StepKind::kScalar:
      return EmitScalar(op);
    case StepKind::kExtract: {
      auto extract = cast<tile::UnsplatOp>(op);
      Indices zeros(cast<RankedTensorType>(extract.getSource().getType()).getRank());
      Evaluated e = Evaluate(extract.getSource(), zeros, Lanes());
      scalars_[extract.getResult()] = e.value;
      return success(bool(e.value));
    }
    case StepKind::kNest:
      return EmitNest(step);
    case StepKind::kWhole:
      return EmitWhole(op);
    case StepKind::kControl:
      if (auto loop = dyn_cast<scf::ForOp>(op)) return EmitFor(loop);
      if (auto branch = dyn_cast<scf::IfOp>(op)) return EmitIf(branch);
      return EmitWhile(cast<scf::WhileOp>(op));
  }
  return failure();
}

LogicalResult KernelEmitter::EmitScalar(Operation* op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    TypedAttr value = constant.getValue();
    Type type = Emitted(value.getType());
    if (type != value.getType()) value = builder_.getIntegerAttr(type, cast<FloatAttr>(value).getValue().bitcastToAPInt());
    scalars_[constant.getResult()] = builder_.create<arith::ConstantOp>(loc_, value);
    return success();
  }
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    scalars_[id.getResult()] = program_id_[id.getAxis()];
    return success();
  }
  if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
    scalars_[count.getResult()] = num_programs_[count.getAxis()];
    return success();
  }
  // Promises need no code; one program is one thread, so its stores are visible to its own loads.
  if (isa<tile::AssumeOp, tile::BarrierOp>(op)) return success();
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    Evaluated e = EvaluateLoad(load, {}, Lanes());
    scalars_[load.getResult()] = e.value;
    return success(bool(e.value));
  }
  if (auto store = dyn_cast<tile::StoreOp>(op)) return EmitStore(store, {}, Lanes());
  if (isa<tile::AtomicRmwOp, tile::AtomicCasOp>(op)) return EmitAtomic(op);
  if (auto print = dyn_cast<tile::PrintOp>(op)) return EmitPrint(print);
  if (auto check = dyn_cast<tile::AssertOp>(op)) return EmitAssert(check);
  if (!IsLaneByLane(op)) return Unsupported(op, op->getName().getStringRef());
  llvm::SmallVector<Value> operands;
  for (Value operand : op->getOperands()) operands.push_back(scalars_.lookup(operand));
  Value result = LaneOp(op, operands, 1);
  scalars_[op->getResult(0)] = result;
  return success(bool(result));
}

//===-- control flow ------------------------------------------------------------------------------------===//

LogicalResult KernelEmitter::EmitWrites(ArrayRef<YieldAction> actions, ValueRange values) {
  for (const YieldAction& action : actions)
    if (failed(EmitInto(action.temporary ? action.temporary : action.target, values[action.operand]))) return failure();
  for (const YieldAction& action : actions)
    if (action.temporary) EmitCopy(action.target, action.temporary);
  StartNest();
  return success();
}

namespace {
bool IsBlock(Value v) { return isa<RankedTensorType>(v.getType()); }
}  // namespace

// Emits the operations of `source` at the end of `target`, with what its terminator writes to memory. The caller adds
// the terminator.
LogicalResult KernelEmitter::EmitRegion(Block* source, Block* target) {
  MoveInto(target);
  if (failed(EmitSteps(source))) return failure();
  Operation* terminator = source->getTerminator();
  loc_ = terminator->getLoc();
  ValueRange values = terminator->getOperands();
  if (isa<scf::ConditionOp>(terminator)) values = values.drop_front();
  if (failed(EmitWrites(plan_.YieldsOf(terminator), values))) return failure();
  GoTo(0);
  return success();
}

LogicalResult KernelEmitter::EmitFor(scf::ForOp loop) {
  if (failed(EmitWrites(plan_.InitsOf(loop), loop.getInitArgs()))) return failure();
  Value low = scalars_.lookup(loop.getLowerBound()), high = scalars_.lookup(loop.getUpperBound());
  Value step = scalars_.lookup(loop.getStep());
  // Without a trip where the step is not positive.
  APInt known;
  if (!matchPattern(step, m_ConstantInt(&known)) || !known.isStrictlyPositive()) {
    Value zero = Zero(step.getType()), one = Const(step.getType(), 1);
    Value positive = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::sgt, step, zero);
    high = builder_.create<arith::SelectOp>(loc_, positive, high, low);
    step = builder_.create<arith::SelectOp>(loc_, positive, step, one);
  }
  llvm::SmallVector<Value> starts;
  for (Value start : loop.getInitArgs())
    if (!IsBlock(start)) starts.push_back(scalars_.lookup(start));
  auto made = builder_.create<scf::ForOp>(loc_, low, high, step, starts);
  scalars_[loop.getInductionVar()] = made.getInductionVar();
  unsigned next = 0;
  for (Value argument : loop.getRegionIterArgs())
    if (!IsBlock(argument)) scalars_[argument] = made.getRegionIterArgs()[next++];
  std::vector<Level> outside = std::move(levels_);
  if (failed(EmitRegion(loop.getBody(), made.getBody()))) return failure();
  if (!starts.empty()) {
    llvm::SmallVector<Value> yields;
    for (Value value : loop.getYieldedValues())
      if (!IsBlock(value)) yields.push_back(scalars_.lookup(value));
    builder_.create<scf::YieldOp>(loc_, yields);
  }
  levels_ = std::move(outside);
  next = 0;
  for (Value result : loop.getResults())
    if (!IsBlock(result)) scalars_[result] = made.getResult(next++);
  StartNest();
  return success();
}

LogicalResult KernelEmitter::EmitIf(scf::IfOp branch) {
  llvm::SmallVector<Type> types;
  for (Value result : branch.getResults())
    if (!IsBlock(result)) types.push_back(Emitted(result.getType()));
  bool has_else = branch.elseBlock() != nullptr;
  auto made = builder_.create<scf::IfOp>(loc_, types, scalars_.lookup(branch.getCondition()), has_else);
  std::vector<Level> outside = std::move(levels_);
  auto fill = [&](Block* source, Block* target) -> LogicalResult {
    if (failed(EmitRegion(source, target))) return failure();
    if (types.empty()) return success();
    llvm::SmallVector<Value> yields;
    for (Value value : source->getTerminator()->getOperands())
      if (!IsBlock(value)) yields.push_back(scalars_.lookup(value));
    builder_.create<scf::YieldOp>(loc_, yields);
    return success();
  };
  if (failed(fill(branch.thenBlock(), made.thenBlock()))) return failure();
  if (has_else && failed(fill(branch.elseBlock(), made.elseBlock()))) return failure();
  levels_ = std::move(outside);
  unsigned next = 0;
  for (Value result : branch.getResults())
    if (!IsBlock(result)) scalars_[result] = made.getResult(next++);
  StartNest();
  return success();
}

LogicalResult KernelEmitter::EmitWhile(scf::WhileOp loop) {
  if (failed(EmitWrites(plan_.InitsOf(loop), loop.getInits()))) return failure();
  llvm::SmallVector<Value> starts;
  for (Value start : loop.getInits())
    if (!IsBlock(start)) starts.push_back(scalars_.lookup(start));
  llvm::SmallVector<Type> types;
  for (Value result : loop.getResults())
    if (!IsBlock(result)) types.push_back(Emitted(result.getType()));
  auto made = builder_.create<scf::WhileOp>(loc_, types, starts);
  auto add_block = [&](Region& region, ValueRange arguments) {
    Block* block = &region.emplaceBlock();
    for (Value argument : arguments)
      if (!IsBlock(argument)) scalars_[argument] = block->addArgument(Emitted(argument.getType()), loc_);
    return block;
  };
  Block* before = add_block(made.getBefore(), loop.getBeforeArguments());
  Block* after = add_block(made.getAfter(), loop.getAfterArguments());
  auto scalars_of = [&](ValueRange values) {
    llvm::SmallVector<Value> scalars;
    for (Value value : values)
      if (!IsBlock(value)) scalars.push_back(scalars_.lookup(value));
    return scalars;
  };
  std::vector<Level> outside = std::move(levels_);
  if (failed(EmitRegion(loop.getBeforeBody(), before))) return failure();
  scf::ConditionOp condition = loop.getConditionOp();
  builder_.create<scf::ConditionOp>(loc_, scalars_.lookup(condition.getCondition()), scalars_of(condition.getArgs()));
  if (failed(EmitRegion(loop.getAfterBody(), after))) return failure();
  builder_.create<scf::YieldOp>(loc_, scalars_of(loop.getYieldOp().getOperands()));
  levels_ = std::move(outside);
  unsigned next = 0;
  for (Value result : loop.getResults())
    if (!IsBlock(result)) scalars_[result] = made.getResult(next++);
  StartNest();
  return success();
}

}  // namespace tessera::compiler
