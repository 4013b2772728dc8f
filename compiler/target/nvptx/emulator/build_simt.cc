#include "compiler/target/nvptx/emulator/build_simt.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/simt/simt.h"
#include "compiler/target/interpreter/build_program.h"
#include "compiler/target/nvptx/emulator/machine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace tessera::emulator {
namespace {

using interpreter::ProgramBuilder;

constexpr llvm::StringLiteral kDivergent = "simt.divergent";

class SimtBuilder {
 public:
  absl::StatusOr<SimtProgram> Build(func::FuncOp kernel) {
    auto threads = kernel->getAttrOfType<IntegerAttr>("simt.threads");
    if (!threads || threads.getInt() <= 0 || threads.getInt() % 32 != 0)
      return absl::InvalidArgumentError(absl::StrCat(kernel.getName().str(), ": the attribute simt.threads must be a multiple of 32"));
    result_.threads = int(threads.getInt());
    if (auto bytes = kernel->getAttrOfType<IntegerAttr>("simt.shared_bytes")) result_.shared_bytes = bytes.getInt();
    interpreter::BuildOptions options;
    options.lanes = result_.threads;
    options.build_op = [this](Operation* op, ProgramBuilder& builder, Code& code) {
      builder_ = &builder;
      code_ = &code;
      return BuildOp(op);
    };
    absl::StatusOr<interpreter::Program> program = interpreter::BuildProgram(kernel, options);
    if (!program.ok()) return program.status();
    result_.program = *std::move(program);
    int64_t end = result_.shared_bytes;
    for (SharedBuffer& buffer : result_.buffers) {
      if (buffer.offset >= 0) continue;
      buffer.offset = (end + 1023) / 1024 * 1024;
      end = result_.shared_bytes = buffer.offset + buffer.bytes;
    }
    return std::move(result_);
  }

 private:
  template <typename T>
  T* Emit(Operation* op) {
    auto instruction = std::make_unique<T>();
    instruction->place = builder_->PlaceIndex(op);
    T* raw = instruction.get();
    code_->push_back(std::move(instruction));
    return raw;
  }
  int Slot(Value value) { return value ? builder_->Use(value).slot : kNoSlot; }
  SlotUse Use(Value value) { return value ? builder_->Use(value) : SlotUse{}; }
  std::vector<int> Slots(ValueRange values) {
    std::vector<int> slots;
    for (Value value : values) slots.push_back(Slot(value));
    return slots;
  }
  bool DefineAll(Operation* op, std::vector<int>* slots) {
    for (Value value : op->getResults()) {
      std::optional<SlotUse> use = builder_->Define(value, op);
      if (!use) return false;
      slots->push_back(use->slot);
    }
    return true;
  }
  int Buffer(Value value) { return buffers_.lookup(value); }
  int64_t ElementsOf(Type type) {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? vector.getNumElements() : 1;
  }

  // nullopt: the interpreter's builder takes the operation.
  std::optional<bool> BuildOp(Operation* op) {
    const llvm::StringRef dialect = op->getName().getDialectNamespace();
    if (dialect == "simt") return BuildSimtOp(op);
    if (dialect == "vector") return BuildVectorOp(op);
    if (isa<ub::PoisonOp>(op)) {
      std::vector<int> results;
      return DefineAll(op, &results);
    }
    if (auto select = dyn_cast<arith::SelectOp>(op); select && isa<VectorType>(select.getType()) && !isa<VectorType>(select.getCondition().getType())) {
      std::optional<SlotUse> use = builder_->Define(select.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<VectorSelect>(op);
      instruction->condition = Slot(select.getCondition());
      instruction->a = Slot(select.getTrueValue());
      instruction->b = Slot(select.getFalseValue());
      instruction->result = *use;
      return true;
    }
    if (op->hasAttr(kDivergent) || divergent_depth_ > 0) {
      if (auto branch = dyn_cast<scf::IfOp>(op)) return BuildIf(branch);
      if (auto loop = dyn_cast<scf::ForOp>(op)) return BuildFor(loop);
      if (auto loop = dyn_cast<scf::WhileOp>(op)) return BuildWhile(loop);
    }
    return std::nullopt;
  }

  //===-- short vectors -----------------------------------------------------------------------===//

  bool BuildVectorOp(Operation* op) {
    if (op->getNumResults() != 1) return builder_->Unknown(op);
    std::optional<SlotUse> use = builder_->Define(op->getResult(0), op);
    if (!use) return false;
    if (isa<vector::BitCastOp>(op)) {
      auto* instruction = Emit<VectorBitcast>(op);
      instruction->source = Use(op->getOperand(0));
      instruction->result = *use;
      return true;
    }
    auto* copy = Emit<CopyElements>(op);
    copy->result = use->slot;
    copy->bytes = interpreter::Bytes(use->kind);
    if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
      if (extract.getStaticPosition().size() != 1 || !extract.getDynamicPosition().empty()) return builder_->Unknown(op);
      copy->moves.push_back({Slot(extract.getVector()), extract.getStaticPosition()[0], 0, 1});
    } else if (auto insert = dyn_cast<vector::InsertOp>(op)) {
      if (insert.getStaticPosition().size() != 1 || !insert.getDynamicPosition().empty()) return builder_->Unknown(op);
      copy->moves.push_back({Slot(insert.getDest()), 0, 0, ElementsOf(insert.getType())});
      copy->moves.push_back({Slot(insert.getSource()), 0, insert.getStaticPosition()[0], 1});
    } else if (isa<vector::FromElementsOp>(op)) {
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) copy->moves.push_back({Slot(operand), 0, int64_t(i), 1});
    } else if (isa<vector::SplatOp>(op) || (isa<vector::BroadcastOp>(op) && !isa<VectorType>(op->getOperand(0).getType()))) {
      for (int64_t i = 0; i < ElementsOf(op->getResult(0).getType()); ++i) copy->moves.push_back({Slot(op->getOperand(0)), 0, i, 1});
    } else if (auto slice = dyn_cast<vector::ExtractStridedSliceOp>(op)) {
      copy->moves.push_back({Slot(slice.getVector()), cast<IntegerAttr>(slice.getOffsets()[0]).getInt(), 0, ElementsOf(slice.getType())});
    } else if (auto slice = dyn_cast<vector::InsertStridedSliceOp>(op)) {
      copy->moves.push_back({Slot(slice.getDest()), 0, 0, ElementsOf(slice.getType())});
      copy->moves.push_back({Slot(slice.getSource()), 0, cast<IntegerAttr>(slice.getOffsets()[0]).getInt(), ElementsOf(slice.getSource().getType())});
    } else {
      return builder_->Unknown(op);
    }
    return true;
  }

  //===-- control flow that differs between threads ---------------------------------------------===//

  MaskedCopy MakeCopy(OperandRange sources, const std::vector<SlotUse>& targets) {
    MaskedCopy copy;
    for (auto [source, target] : llvm::zip(sources, targets)) {
      const int from = Slot(source);
      if (from != target.slot) copy.moves.push_back({from, target.slot, interpreter::Bytes(target.kind), -target.lanes});
    }
    return copy;
  }
  bool AllocateAll(ValueRange values, std::vector<SlotUse>* uses, bool set) {
    for (Value value : values) {
      std::optional<SlotUse> use = builder_->AllocateFor(value);
      if (!use) return false;
      if (set) builder_->SetUse(value, *use);
      uses->push_back(*use);
    }
    return true;
  }
  bool BuildBody(mlir::Region& region, Code& code) {
    Code* outer = code_;
    ++divergent_depth_;
    const bool built = builder_->BuildBody(region, code);
    --divergent_depth_;
    code_ = outer;
    return built;
  }

  bool BuildIf(scf::IfOp op) {
    auto* branch = Emit<DivergentIf>(op);
    branch->condition = Slot(op.getCondition());
    std::vector<SlotUse> results;
    if (!AllocateAll(op.getResults(), &results, false)) return false;
    auto build = [&](mlir::Region& region, Code& code, MaskedCopy& yields) {
      if (region.empty()) return true;
      if (!BuildBody(region, code)) return false;
      Operation* yield = region.front().getTerminator();
      yields = MakeCopy(yield->getOperands(), results);
      builder_->ReleaseAfter(yield);
      return true;
    };
    if (!build(op.getThenRegion(), branch->then_code, branch->then_yield) || !build(op.getElseRegion(), branch->else_code, branch->else_yield)) return false;
    for (auto [result, use] : llvm::zip(op.getResults(), results)) builder_->Bind(result, use, op);
    return true;
  }

  bool BuildFor(scf::ForOp op) {
    auto* loop = Emit<DivergentFor>(op);
    loop->begin = Use(op.getLowerBound());
    loop->end = Use(op.getUpperBound());
    loop->step = Use(op.getStep());
    std::vector<SlotUse> carried, index;
    if (!AllocateAll(op.getRegionIterArgs(), &carried, true) || !AllocateAll({op.getInductionVar()}, &index, true)) return false;
    loop->enter = MakeCopy(op.getInitArgs(), carried);
    loop->index = index[0];
    if (!BuildBody(op.getRegion(), loop->body)) return false;
    Operation* yield = op.getBody()->getTerminator();
    loop->next = MakeCopy(yield->getOperands(), carried);
    builder_->ReleaseAfter(yield);
    builder_->Release(index[0]);
    for (auto [result, use] : llvm::zip(op.getResults(), carried)) builder_->Bind(result, use, op);
    return true;
  }

  bool BuildWhile(scf::WhileOp op) {
    auto* loop = Emit<DivergentWhile>(op);
    std::vector<SlotUse> carried, passed;
    if (!AllocateAll(op.getBeforeArguments(), &carried, true) || !AllocateAll(op.getAfterArguments(), &passed, true)) return false;
    loop->enter = MakeCopy(op.getInits(), carried);
    if (!BuildBody(op.getBefore(), loop->before)) return false;
    scf::ConditionOp condition = op.getConditionOp();
    loop->condition = Slot(condition.getCondition());
    loop->pass = MakeCopy(condition.getArgs(), passed);
    builder_->ReleaseAfter(condition);
    if (!BuildBody(op.getAfter(), loop->after)) return false;
    Operation* yield = op.getYieldOp();
    loop->next = MakeCopy(yield->getOperands(), carried);
    builder_->ReleaseAfter(yield);
    for (const SlotUse& use : carried) builder_->Release(use);
    for (auto [result, use] : llvm::zip(op.getResults(), passed)) builder_->Bind(result, use, op);
    return true;
  }

  //===-- the simt dialect ----------------------------------------------------------------------===//

  bool BuildIndex(Operation* op, ThreadIndex::What what) {
    std::optional<SlotUse> use = builder_->Define(op->getResult(0), op);
    if (!use) return false;
    auto* instruction = Emit<ThreadIndex>(op);
    instruction->what = what;
    instruction->result = use->slot;
    return true;
  }
  bool BuildSynchronise(Operation* op, Synchronise::What what) {
    Emit<Synchronise>(op)->what = what;
    return true;
  }

  bool BuildSimtOp(Operation* op) {
    if (divergent_depth_ > 0 && !isa<simt::ThreadIdOp, simt::LaneIdOp, simt::WarpIdOp, simt::LoadOp, simt::StoreOp, simt::AtomicRmwOp, simt::AtomicCasOp,
                                     simt::FenceOp, simt::LoadSharedOp, simt::StoreSharedOp, simt::AtomicSharedOp, simt::ReportOp, simt::PrintOp>(op))
      return builder_->Fail(op->getLoc(), absl::StrCat(op->getName().getStringRef().str(), " stands in code that not all threads reach"));
    if (isa<simt::ThreadIdOp>(op)) return BuildIndex(op, ThreadIndex::What::kThread);
    if (isa<simt::LaneIdOp>(op)) return BuildIndex(op, ThreadIndex::What::kLane);
    if (isa<simt::WarpIdOp>(op)) return BuildIndex(op, ThreadIndex::What::kWarp);
    if (isa<simt::FenceOp>(op)) return BuildSynchronise(op, Synchronise::What::kNothing);
    if (isa<simt::BarrierOp>(op)) return BuildSynchronise(op, Synchronise::What::kBlock);
    if (isa<simt::WarpBarrierOp>(op)) return BuildSynchronise(op, Synchronise::What::kWarp);
    if (auto load = dyn_cast<simt::LoadOp>(op)) {
      std::optional<SlotUse> use = builder_->Define(load.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<GlobalLoad>(op);
      instruction->address = Slot(load.getAddress());
      instruction->predicate = Slot(load.getPredicate());
      instruction->other = Use(load.getOther());
      instruction->result = *use;
      return true;
    }
    if (auto store = dyn_cast<simt::StoreOp>(op)) {
      auto* instruction = Emit<GlobalStore>(op);
      instruction->address = Slot(store.getAddress());
      instruction->predicate = Slot(store.getPredicate());
      instruction->value = Use(store.getValue());
      return true;
    }
    if (auto rmw = dyn_cast<simt::AtomicRmwOp>(op)) {
      std::optional<SlotUse> use = builder_->Define(rmw.getResult(), op);
      if (!use) return false;
      interpreter::AtomicFunction function = interpreter::FindAtomicFunction(interpreter::AtomicOpOf(rmw.getKind()), use->kind);
      if (!function) return builder_->Unknown(op);
      auto* instruction = Emit<GlobalAtomic>(op);
      instruction->function = function;
      instruction->address = Slot(rmw.getAddress());
      instruction->predicate = Slot(rmw.getPredicate());
      instruction->value = Use(rmw.getValue());
      instruction->result = *use;
      return true;
    }
    if (auto cas = dyn_cast<simt::AtomicCasOp>(op)) {
      std::optional<SlotUse> use = builder_->Define(cas.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<GlobalAtomic>(op);
      instruction->address = Slot(cas.getAddress());
      instruction->predicate = Slot(cas.getPredicate());
      instruction->compare = Use(cas.getCompare());
      instruction->value = Use(cas.getValue());
      instruction->result = *use;
      return true;
    }
    if (auto alloc = dyn_cast<simt::AllocSharedOp>(op)) {
      buffers_[alloc.getResult()] = int(result_.buffers.size());
      result_.buffers.push_back({alloc.getOffset() ? int64_t(*alloc.getOffset()) : -1, alloc.getBytes(), builder_->PlaceIndex(op)});
      if (alloc.getOffset() && *alloc.getOffset() % alloc.getAlignment() != 0) return builder_->Fail(op->getLoc(), "a shared buffer is not aligned");
      Emit<AllocShared>(op)->buffer = Buffer(alloc.getResult());
      return true;
    }
    if (auto free = dyn_cast<simt::FreeSharedOp>(op)) {
      Emit<FreeShared>(op)->buffer = Buffer(free.getBuffer());
      return true;
    }
    if (auto load = dyn_cast<simt::LoadSharedOp>(op)) {
      std::optional<SlotUse> use = builder_->Define(load.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<SharedLoad>(op);
      instruction->buffer = Buffer(load.getBuffer());
      instruction->offset = Slot(load.getOffset());
      instruction->predicate = Slot(load.getPredicate());
      instruction->result = *use;
      return true;
    }
    if (auto store = dyn_cast<simt::StoreSharedOp>(op)) {
      auto* instruction = Emit<SharedStore>(op);
      instruction->buffer = Buffer(store.getBuffer());
      instruction->offset = Slot(store.getOffset());
      instruction->predicate = Slot(store.getPredicate());
      instruction->value = Use(store.getValue());
      return true;
    }
    if (auto atomic = dyn_cast<simt::AtomicSharedOp>(op)) {
      auto* instruction = Emit<SharedAtomic>(op);
      instruction->function = interpreter::FindAtomicFunction(interpreter::AtomicOpOf(atomic.getKind()), Kind::kI32);
      if (!instruction->function) return builder_->Unknown(op);
      instruction->buffer = Buffer(atomic.getBuffer());
      instruction->offset = Slot(atomic.getOffset());
      instruction->predicate = Slot(atomic.getPredicate());
      instruction->value = Slot(atomic.getValue());
      return true;
    }
    if (auto copy = dyn_cast<simt::CopyAsyncOp>(op)) {
      const int bytes = copy.getBytes();
      if (bytes != 4 && bytes != 8 && bytes != 16) return builder_->Fail(op->getLoc(), "an asynchronous copy takes 4, 8 or 16 bytes");
      auto* instruction = Emit<CopyAsync>(op);
      instruction->buffer = Buffer(copy.getBuffer());
      instruction->offset = Slot(copy.getOffset());
      instruction->address = Slot(copy.getAddress());
      instruction->predicate = Slot(copy.getPredicate());
      instruction->bytes = bytes;
      return true;
    }
    if (isa<simt::CommitCopiesOp>(op)) {
      Emit<CommitCopies>(op);
      return true;
    }
    if (auto wait = dyn_cast<simt::WaitCopiesOp>(op)) {
      Emit<WaitCopies>(op)->pending = wait.getPending();
      return true;
    }
    if (auto shuffle = dyn_cast<simt::ShuffleOp>(op)) {
      std::optional<SlotUse> use = builder_->Define(shuffle.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<Shuffle>(op);
      instruction->what = Shuffle::What(int(shuffle.getKind()));
      instruction->lane = Slot(shuffle.getLane());
      instruction->value = Use(shuffle.getValue());
      // The result may have the storage of a value that dies here, but never that of an operand.
      instruction->result = *use;
      return true;
    }
    if (auto ballot = dyn_cast<simt::BallotOp>(op)) {
      std::optional<SlotUse> use = builder_->Define(ballot.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<Ballot>(op);
      instruction->condition = Slot(ballot.getCondition());
      instruction->result = use->slot;
      return true;
    }
    if (auto report = dyn_cast<simt::ReportOp>(op)) {
      auto* instruction = Emit<Report>(op);
      instruction->condition = Slot(report.getCondition());
      instruction->address = Slot(report.getAddress());
      instruction->access = report.getKind() == simt::FailureKind::ACCESS;
      instruction->message = report.getMessage().str();
      return true;
    }
    if (auto print = dyn_cast<simt::PrintOp>(op)) {
      auto* instruction = Emit<PrintValue>(op);
      instruction->value = Use(print.getValue());
      instruction->element = Slot(print.getElement());
      instruction->predicate = Slot(print.getPredicate());
      instruction->elements = print.getElements();
      instruction->operand = print.getOperand();
      instruction->prefix = print.getPrefix().str();
      instruction->hex = print.getHex();
      instruction->is_unsigned = print.getIsUnsigned();
      return true;
    }
    return BuildMatrixOp(op);
  }

  //===-- matrix units --------------------------------------------------------------------------===//

  static std::optional<Accumulator> AccumulatorOf(Type type, MatrixType operands) {
    if (type.isF32()) return Accumulator::kF32;
    if (type.isF64()) return Accumulator::kF64;
    if (type.isInteger(32)) return operands == MatrixType::kS8 || operands == MatrixType::kU8 ? Accumulator::kI32 : Accumulator::kF16Pair;
    return std::nullopt;
  }

  bool BuildMatrixOp(Operation* op) {
    if (auto load = dyn_cast<simt::LdmatrixOp>(op)) {
      const size_t count = load.getResult().size();
      if (count != 1 && count != 2 && count != 4) return builder_->Unknown(op);
      auto* instruction = Emit<Ldmatrix>(op);
      instruction->buffer = Buffer(load.getBuffer());
      instruction->offset = Slot(load.getOffset());
      instruction->transpose = load.getTranspose();
      return DefineAll(op, &instruction->results);
    }
    if (auto store = dyn_cast<simt::StmatrixOp>(op)) {
      auto* instruction = Emit<Stmatrix>(op);
      instruction->buffer = Buffer(store.getBuffer());
      instruction->offset = Slot(store.getOffset());
      instruction->transpose = store.getTranspose();
      instruction->values = Slots(store.getValues());
      return true;
    }
    if (auto mma = dyn_cast<simt::MmaOp>(op)) {
      auto* instruction = Emit<Mma>(op);
      instruction->a = Slots(mma.getA());
      instruction->b = Slots(mma.getB());
      instruction->c = Slots(mma.getC());
      instruction->m = mma.getM();
      instruction->n = mma.getN();
      instruction->k = mma.getK();
      instruction->a_type = MatrixType(int(mma.getAType()));
      instruction->b_type = MatrixType(int(mma.getBType()));
      std::optional<Accumulator> accumulator = mma.getC().empty() ? std::nullopt : AccumulatorOf(mma.getC()[0].getType(), instruction->a_type);
      if (!accumulator) return builder_->Unknown(op);
      instruction->accumulator = *accumulator;
      const size_t bits = 8 * Bytes(instruction->a_type), register_bits = std::max<size_t>(bits, 32);
      const size_t m = mma.getM(), n = mma.getN(), k = mma.getK(), c_registers = m * n / 32 / (*accumulator == Accumulator::kF16Pair ? 2 : 1);
      if (n != 8 || (m != 16 && m != 8) || mma.getA().size() * 32 * register_bits != m * k * bits || mma.getB().size() * 32 * register_bits != n * k * bits ||
          mma.getC().size() != c_registers || mma.getResult().size() != c_registers)
        return builder_->Fail(op->getLoc(), "the operands of an mma do not fit its shape");
      return DefineAll(op, &instruction->results);
    }
    if (auto wgmma = dyn_cast<simt::WgmmaOp>(op)) return BuildWgmma(wgmma);
    if (auto fence = dyn_cast<simt::WgmmaFenceOp>(op)) {
      if (result_.threads % 128 != 0) return builder_->Fail(op->getLoc(), "wgmma is for groups of four warps: an illegal instruction in a smaller block");
      Emit<WgmmaFence>(op)->proxy = fence.getProxy();
      return true;
    }
    if (isa<simt::WgmmaCommitOp>(op)) {
      Emit<WgmmaCommit>(op);
      return true;
    }
    if (auto wait = dyn_cast<simt::WgmmaWaitOp>(op)) {
      auto* instruction = Emit<WgmmaWait>(op);
      instruction->pending = wait.getPending();
      instruction->values = Slots(wait.getValues());
      return DefineAll(op, &instruction->results);
    }
    return builder_->Unknown(op);
  }

  bool BuildWgmma(simt::WgmmaOp op) {
    auto* instruction = Emit<Wgmma>(op);
    instruction->a_registers = Slots(op.getARegisters());
    if (op.getABuffer()) {
      instruction->a_buffer = Buffer(op.getABuffer());
      instruction->a_offset = Slot(op.getAOffset());
    }
    instruction->b_buffer = Buffer(op.getBBuffer());
    instruction->b_offset = Slot(op.getBOffset());
    instruction->c = Slots(op.getC());
    instruction->n = op.getN();
    instruction->k = op.getK();
    instruction->a_type = MatrixType(int(op.getAType()));
    instruction->b_type = MatrixType(int(op.getBType()));
    instruction->a_transpose = op.getATranspose();
    instruction->b_transpose = op.getBTranspose();
    instruction->a_swizzle = Swizzle(int(op.getASwizzle()));
    instruction->b_swizzle = Swizzle(int(op.getBSwizzle()));
    instruction->a_leading = op.getALeadingBytes();
    instruction->a_stride = op.getAStrideBytes();
    instruction->b_leading = op.getBLeadingBytes();
    instruction->b_stride = op.getBStrideBytes();
    std::optional<Accumulator> accumulator = op.getC().empty() ? std::nullopt : AccumulatorOf(op.getC()[0].getType(), instruction->a_type);
    if (!accumulator || *accumulator == Accumulator::kF64) return builder_->Unknown(op);
    instruction->accumulator = *accumulator;
    const int n = op.getN(), bytes = Bytes(instruction->a_type);
    const size_t c_registers = n / (*accumulator == Accumulator::kF16Pair ? 4 : 2);
    if (n % 8 != 0 || n < 8 || n > 256 || op.getK() * bytes != 32 || op.getC().size() != c_registers || op.getResult().size() != c_registers ||
        (op.getABuffer() ? !op.getARegisters().empty() : op.getARegisters().size() != 4))
      return builder_->Fail(op.getLoc(), "the operands of a wgmma do not fit its shape");
    if ((op.getATranspose() || op.getBTranspose()) && bytes != 2)
      return builder_->Fail(op.getLoc(), "wgmma transposes operands of 16 bits only");
    return DefineAll(op, &instruction->results);
  }

  SimtProgram result_;
  ProgramBuilder* builder_ = nullptr;
  Code* code_ = nullptr;
  llvm::DenseMap<Value, int> buffers_;
  int divergent_depth_ = 0;
};

}  // namespace

absl::StatusOr<SimtProgram> BuildSimt(func::FuncOp kernel) { return SimtBuilder().Build(kernel); }

}  // namespace tessera::emulator
