#include "compiler/target/interpreter/build_program.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/target/interpreter/blocks.h"
#include "compiler/target/interpreter/elementwise.h"
#include "compiler/target/interpreter/memory.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tessera::interpreter {

std::optional<Kind> KindOf(Type type) {
  type = getElementTypeOrSelf(type);
  if (isa<tile::PtrType>(type) || type.isIndex()) return Kind::kI64;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    switch (integer.getWidth()) {
      case 1: return Kind::kI1;
      case 8: return Kind::kI8;
      case 16: return Kind::kI16;
      case 32: return Kind::kI32;
      case 64: return Kind::kI64;
      default: return std::nullopt;
    }
  }
  if (type.isF16()) return Kind::kF16;
  if (type.isBF16()) return Kind::kBf16;
  if (type.isF32()) return Kind::kF32;
  if (type.isF64()) return Kind::kF64;
  if (isa<Float8E4M3FNType>(type)) return Kind::kF8E4M3Fn;
  if (isa<Float8E5M2Type>(type)) return Kind::kF8E5M2;
  if (isa<Float8E4M3FNUZType>(type)) return Kind::kF8E4M3Fnuz;
  if (isa<Float8E5M2FNUZType>(type)) return Kind::kF8E5M2Fnuz;
  if (isa<Float8E4M3B11FNUZType>(type)) return Kind::kF8E4M3B11Fnuz;
  return std::nullopt;
}

namespace {

std::string Text(llvm::StringRef text) { return text.str(); }

std::vector<int64_t> ShapeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? std::vector<int64_t>(tensor.getShape().begin(), tensor.getShape().end()) : std::vector<int64_t>();
}

int64_t Product(llvm::ArrayRef<int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents) product *= extent;
  return product;
}

// "file:line", callee first where the operation came from a call.
std::string PlaceOf(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return absl::StrCat(Text(file.getFilename()), ":", file.getLine());
  if (auto name = dyn_cast<NameLoc>(location)) return PlaceOf(name.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    std::string callee = PlaceOf(call.getCallee()), caller = PlaceOf(call.getCaller());
    return callee.empty() ? caller : caller.empty() ? callee : absl::StrCat(callee, ", called from ", caller);
  }
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string place = PlaceOf(part); !place.empty()) return place;
  return "";
}

int OrderOf(tile::MemSem sem) {
  switch (sem) {
    case tile::MemSem::RELAXED: return __ATOMIC_RELAXED;
    case tile::MemSem::ACQUIRE: return __ATOMIC_ACQUIRE;
    case tile::MemSem::RELEASE: return __ATOMIC_RELEASE;
    case tile::MemSem::ACQ_REL: return __ATOMIC_ACQ_REL;
  }
  return __ATOMIC_ACQ_REL;
}

}  // namespace

AtomicOp AtomicOpOf(tile::RmwKind kind) {
  switch (kind) {
    case tile::RmwKind::AND: return AtomicOp::kAnd;
    case tile::RmwKind::OR: return AtomicOp::kOr;
    case tile::RmwKind::XOR: return AtomicOp::kXor;
    case tile::RmwKind::ADD: return AtomicOp::kAdd;
    case tile::RmwKind::FADD: return AtomicOp::kFAdd;
    case tile::RmwKind::MAX: return AtomicOp::kMax;
    case tile::RmwKind::MIN: return AtomicOp::kMin;
    case tile::RmwKind::UMAX: return AtomicOp::kUMax;
    case tile::RmwKind::UMIN: return AtomicOp::kUMin;
    case tile::RmwKind::FMAX: return AtomicOp::kFMax;
    case tile::RmwKind::FMIN: return AtomicOp::kFMin;
    case tile::RmwKind::XCHG: return AtomicOp::kXchg;
  }
  return AtomicOp::kXchg;
}

namespace {

DotPrecision PrecisionOf(tile::Precision precision) {
  switch (precision) {
    case tile::Precision::IEEE: return DotPrecision::kIeee;
    case tile::Precision::TF32: return DotPrecision::kTf32;
    case tile::Precision::TF32X3: return DotPrecision::kTf32x3;
    case tile::Precision::BF16X3: return DotPrecision::kBf16x3;
    case tile::Precision::BF16X6: return DotPrecision::kBf16x6;
  }
  return DotPrecision::kIeee;
}

// Whether a combine region can be evaluated on arrays: straight-line scalar code that uses nothing but its arguments
// and constants.
bool WorksByLanes(mlir::Region& region) {
  for (Operation& op : region.front()) {
    if (op.getNumRegions() != 0 || isa<func::CallOp>(op)) return false;
    if (op.getDialect() && op.getDialect()->getNamespace() == "tile" &&
        !isa<tile::YieldOp, tile::FpToFpOp, tile::FpToIntOp, tile::DivSOp, tile::DivUOp, tile::RemSOp, tile::RemUOp,
             tile::MulHiUOp, tile::ExternOp>(op))
      return false;
    for (Value operand : op.getOperands()) {
      bool own = operand.getParentRegion() == &region;
      if (!own && !operand.getDefiningOp<arith::ConstantOp>()) return false;
    }
  }
  return true;
}

class Builder final : public ProgramBuilder {
 public:
  Builder(func::FuncOp kernel, const BuildOptions& options) : kernel_(kernel), options_(options), region_capacity_(options.lanes) {}

  absl::StatusOr<Program> Build() {
    program_.kernel = Text(kernel_.getName());
    program_.places.push_back("");
    if (kernel_.isExternal()) return absl::InvalidArgumentError(absl::StrCat(program_.kernel, " has no body"));
    for (BlockArgument argument : kernel_.getArguments()) {
      std::optional<SlotUse> use = Define(argument, nullptr);
      if (!use) return error_;
      Program::Parameter parameter;
      parameter.use = *use;
      if (auto name = kernel_.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.name"))
        parameter.name = Text(name.getValue());
      else
        parameter.name = absl::StrCat("argument ", argument.getArgNumber());
      if (auto by = kernel_.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "tile.divisibility"))
        parameter.divisibility = by.getInt();
      program_.parameters.push_back(std::move(parameter));
    }
    if (!BuildBody(kernel_.getBody(), program_.code)) return error_;
    return std::move(program_);
  }

 private:
  //===-- storage -----------------------------------------------------------------------------===//

  int64_t BytesOf(const SlotUse& use) const {
    return (use.lanes < 0 ? -use.lanes * region_capacity_ : use.lanes) * Bytes(use.kind);
  }

  SlotUse Allocate(Kind kind, int64_t lanes) {
    SlotUse use{int(program_.slots.size()), kind, lanes};
    const int64_t bytes = (BytesOf(use) + 63) / 64 * 64;
    Program::Storage storage;
    std::vector<int64_t>& free = free_[bytes];
    if (!free.empty()) {
      storage.offset = free.back();
      free.pop_back();
    } else {
      storage.offset = program_.arena_bytes;
      program_.arena_bytes += bytes;
    }
    program_.slots.push_back(storage);
    slot_bytes_[use.slot] = bytes;
    return use;
  }

  void Release(const SlotUse& use) override { free_[slot_bytes_[use.slot]].push_back(program_.slots[use.slot].offset); }

  std::optional<SlotUse> AllocateFor(Value value) override {
    Type type = value.getType();
    if (auto desc = dyn_cast<tile::DescType>(type)) return Allocate(Kind::kI64, (sizeof(DescriptorValue) + 7) / 8);
    std::optional<Kind> kind = KindOf(type);
    if (!kind) {
      Fail(value.getLoc(), absl::StrCat("values of type ", TypeText(type), " are not supported by the interpreter"));
      return std::nullopt;
    }
    return Allocate(*kind, LanesOf(type));
  }

  int64_t LanesOf(Type type) const {
    if (auto tensor = dyn_cast<RankedTensorType>(type)) return tensor.getNumElements();
    if (auto vector = dyn_cast<VectorType>(type); vector && region_capacity_) return kRegionLanes * vector.getNumElements();
    return region_capacity_ ? kRegionLanes : 1;
  }

  // Gives `value` storage until its last use in its block (function arguments: for good).
  std::optional<SlotUse> Define(Value value, Operation* definition) override {
    std::optional<SlotUse> use = AllocateFor(value);
    if (use) Bind(value, *use, definition);
    return use;
  }

  void SetUse(Value value, const SlotUse& use) override { values_[value] = use; }

  // `value` is held by `use`, which is released after the last use of `value` (or at once, after `definition`).
  void Bind(Value value, const SlotUse& use, Operation* definition) override {
    values_[value] = use;
    if (!definition) return;
    Operation* last = nullptr;
    Block* block = value.getParentBlock();
    for (Operation* user : value.getUsers()) {
      Operation* here = block->findAncestorOpInBlock(*user);
      if (here && (!last || last->isBeforeInBlock(here))) last = here;
    }
    deaths_[last ? last : definition].push_back(use);
  }

  void ReleaseAfter(Operation* op) override {
    auto it = deaths_.find(op);
    if (it == deaths_.end()) return;
    std::vector<SlotUse> dead = std::move(it->second);
    deaths_.erase(it);
    for (const SlotUse& use : dead) Release(use);
  }

  // Where an operand lives. Constants are made on demand, in regions with one lane for each of the region's.
  SlotUse Use(Value value) override {
    if (auto constant = value.getDefiningOp<arith::ConstantOp>()) {
      auto key = std::make_pair(value, isa<RankedTensorType>(value.getType()) ? 0 : region_capacity_);
      auto it = constants_.find(key);
      if (it == constants_.end()) it = constants_.emplace(key, MakeConstant(constant)).first;
      return it->second;
    }
    return values_.lookup(value);
  }
  int Slot(Value value) { return value ? Use(value).slot : kNoSlot; }

  SlotUse MakeConstant(arith::ConstantOp op) {
    const Kind kind = KindOf(op.getType()).value_or(Kind::kI64);
    SlotUse use{int(program_.slots.size()), kind, LanesOf(op.getType())};
    const int bytes = Bytes(kind);
    Program::Storage storage;
    storage.constant = std::make_shared<std::vector<uint8_t>>(BytesOf(use) + 64);
    uint8_t* data = storage.constant->data();
    auto put = [&](int64_t lane, const APInt& bits) {
      const uint64_t value = bits.getZExtValue();
      std::memcpy(data + lane * bytes, &value, bytes);
    };
    Attribute attribute = op.getValue();
    auto bits_of = [](Attribute a) {
      if (auto real = dyn_cast<FloatAttr>(a)) return real.getValue().bitcastToAPInt();
      return cast<IntegerAttr>(a).getValue();
    };
    const int64_t lanes = BytesOf(use) / bytes;
    const int64_t copies = isa<VectorType>(op.getType()) ? region_capacity_ : 1;  // of each element of a vector
    if (auto elements = dyn_cast<DenseElementsAttr>(attribute)) {
      if (elements.isSplat()) {
        const APInt bits = bits_of(elements.getSplatValue<Attribute>());
        for (int64_t i = 0; i < lanes; ++i) put(i, bits);
      } else if (isa<FloatType>(elements.getElementType())) {
        for (auto [i, value] : llvm::enumerate(elements.getValues<APFloat>()))
          for (int64_t k = 0; k < copies; ++k) put(i * copies + k, value.bitcastToAPInt());
      } else {
        for (auto [i, value] : llvm::enumerate(elements.getValues<APInt>()))
          for (int64_t k = 0; k < copies; ++k) put(i * copies + k, value);
      }
    } else {
      const APInt bits = bits_of(attribute);
      for (int64_t i = 0; i < lanes; ++i) put(i, bits);
    }
    program_.slots.push_back(std::move(storage));
    return use;
  }

  //===-- errors and places -------------------------------------------------------------------===//

  static std::string TypeText(Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  }

  bool Fail(Location location, absl::string_view sentence) override {
    std::string place = PlaceOf(location);
    error_ = absl::UnimplementedError(absl::StrCat(program_.kernel, place.empty() ? "" : absl::StrCat(" (", place, ")"), ": ", sentence));
    return false;
  }
  bool Unknown(Operation* op) override {
    if (isa<tile::InlineAsmOp>(op))
      return Fail(op->getLoc(), "tile.inline_asm is not supported by the interpreter (not on this target: inline PTX needs an NVIDIA GPU)");
    std::string type = op->getNumOperands() ? absl::StrCat(" on ", TypeText(op->getOperand(0).getType())) : "";
    return Fail(op->getLoc(), absl::StrCat(Text(op->getName().getStringRef()), type, " is not supported by the interpreter"));
  }

  int PlaceIndex(Operation* op) override {
    std::string place = PlaceOf(op->getLoc());
    if (place.empty()) return 0;
    auto [it, added] = places_.emplace(place, int(program_.places.size()));
    if (added) program_.places.push_back(place);
    return it->second;
  }

  template <typename T>
  T* Emit(Operation* op, Code& code) {
    auto instruction = std::make_unique<T>();
    instruction->place = PlaceIndex(op);
    T* raw = instruction.get();
    code.push_back(std::move(instruction));
    return raw;
  }

  //===-- blocks ------------------------------------------------------------------------------===//

  bool BuildBody(mlir::Region& region, Code& code) override {
    if (!region.hasOneBlock())
      return Fail(region.getLoc(), "control flow must be structured: a region of several blocks is not supported by the interpreter");
    for (Operation& op : region.front().without_terminator()) {
      if (!BuildOp(&op, code)) return false;
      ReleaseAfter(&op);
    }
    return true;
  }

  // Moves the operands to the targets. Sources that are targets themselves go through temporaries.
  ParallelCopy MakeCopy(OperandRange sources, const std::vector<SlotUse>& targets) {
    ParallelCopy copy;
    std::set<int> written;
    for (const SlotUse& target : targets) written.insert(target.slot);
    std::vector<SlotUse> temporaries;
    for (auto [source, target] : llvm::zip(sources, targets)) {
      SlotUse from = Use(source);
      if (from.slot == target.slot) continue;
      ParallelCopy::Move move{from.slot, target.slot, BytesOf(target), kNoSlot};
      if (written.count(from.slot)) {
        temporaries.push_back(Allocate(target.kind, target.lanes));
        move.temporary = temporaries.back().slot;
      }
      copy.moves.push_back(move);
    }
    for (const SlotUse& use : temporaries) Release(use);
    return copy;
  }

  bool BuildFor(scf::ForOp op, Code& code) {
    auto* loop = Emit<For>(op, code);
    loop->begin = Use(op.getLowerBound());
    loop->end = Use(op.getUpperBound());
    loop->step = Use(op.getStep());
    std::vector<SlotUse> carried;
    for (BlockArgument argument : op.getRegionIterArgs()) {
      std::optional<SlotUse> use = AllocateFor(argument);
      if (!use) return false;
      values_[argument] = *use;
      carried.push_back(*use);
    }
    loop->enter = MakeCopy(op.getInitArgs(), carried);
    std::optional<SlotUse> index = AllocateFor(op.getInductionVar());
    if (!index) return false;
    values_[op.getInductionVar()] = loop->index = *index;
    if (!BuildBody(op.getRegion(), loop->body)) return false;
    Operation* yield = op.getBody()->getTerminator();
    loop->next = MakeCopy(yield->getOperands(), carried);
    ReleaseAfter(yield);
    Release(*index);
    for (auto [result, use] : llvm::zip(op.getResults(), carried)) Bind(result, use, op);
    return true;
  }

  bool BuildWhile(scf::WhileOp op, Code& code) {
    auto* loop = Emit<While>(op, code);
    std::vector<SlotUse> carried, passed;
    for (BlockArgument argument : op.getBeforeArguments()) {
      std::optional<SlotUse> use = AllocateFor(argument);
      if (!use) return false;
      values_[argument] = *use;
      carried.push_back(*use);
    }
    for (BlockArgument argument : op.getAfterArguments()) {
      std::optional<SlotUse> use = AllocateFor(argument);
      if (!use) return false;
      values_[argument] = *use;
      passed.push_back(*use);
    }
    loop->enter = MakeCopy(op.getInits(), carried);
    if (!BuildBody(op.getBefore(), loop->before)) return false;
    scf::ConditionOp condition = op.getConditionOp();
    loop->condition = Slot(condition.getCondition());
    loop->condition_lanes = Use(condition.getCondition()).lanes;
    loop->pass = MakeCopy(condition.getArgs(), passed);
    ReleaseAfter(condition);
    if (!BuildBody(op.getAfter(), loop->after)) return false;
    Operation* yield = op.getYieldOp();
    loop->next = MakeCopy(yield->getOperands(), carried);
    ReleaseAfter(yield);
    for (const SlotUse& use : carried) Release(use);
    for (auto [result, use] : llvm::zip(op.getResults(), passed)) Bind(result, use, op);
    return true;
  }

  bool BuildIf(scf::IfOp op, Code& code) {
    auto* branch = Emit<If>(op, code);
    branch->condition = Slot(op.getCondition());
    branch->condition_lanes = Use(op.getCondition()).lanes;
    std::vector<SlotUse> results;
    for (Value result : op.getResults()) {
      std::optional<SlotUse> use = AllocateFor(result);
      if (!use) return false;
      results.push_back(*use);
    }
    auto build = [&](mlir::Region& region, Code& body, ParallelCopy& yields) {
      if (region.empty()) return true;
      if (!BuildBody(region, body)) return false;
      Operation* yield = region.front().getTerminator();
      yields = MakeCopy(yield->getOperands(), results);
      ReleaseAfter(yield);
      return true;
    };
    if (!build(op.getThenRegion(), branch->then_code, branch->then_yield)) return false;
    if (!build(op.getElseRegion(), branch->else_code, branch->else_yield)) return false;
    for (auto [result, use] : llvm::zip(op.getResults(), results)) Bind(result, use, op);
    return true;
  }

  // The callee's code in place of the call. Its results are copied, because its values end with its body.
  bool BuildCall(func::CallOp op, Code& code) {
    auto callee = op->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(op.getCallee());
    if (!callee || callee.isExternal()) return Fail(op.getLoc(), absl::StrCat("'", Text(op.getCallee()), "' has no body"));
    constexpr int kDeepestCall = 64;
    if (call_depth_ >= kDeepestCall) return Fail(op.getLoc(), "calls are nested too deeply, or recursive");
    for (auto [argument, operand] : llvm::zip(callee.getArguments(), op.getOperands())) {
      if (auto constant = operand.getDefiningOp<arith::ConstantOp>()) values_[argument] = Use(operand);
      else values_[argument] = values_.lookup(operand);
    }
    ++call_depth_;
    bool built = BuildBody(callee.getBody(), code);
    --call_depth_;
    if (!built) return false;
    Operation* leave = callee.getBody().front().getTerminator();
    for (auto [result, source] : llvm::zip(op.getResults(), leave->getOperands())) {
      std::optional<SlotUse> use = Define(result, op);
      if (!use) return false;
      EmitCopy(op, code, Use(source).slot, *use);
    }
    ReleaseAfter(leave);
    return true;
  }

  void EmitCopy(Operation* op, Code& code, int source, const SlotUse& target) {
    auto* copy = Emit<Copy>(op, code);
    copy->source = source;
    copy->result = target.slot;
    copy->lanes = target.lanes;
    copy->bytes = Bytes(target.kind);
  }

  // The combine region of a reduction, scan or map over `capacity` lanes at most.
  bool BuildRegion(mlir::Region& body, int64_t capacity, interpreter::Region& region) {
    const int64_t outer_capacity = region_capacity_;
    region.by_lanes = WorksByLanes(body);
    region_capacity_ = region.by_lanes ? capacity : 0;
    Block& block = body.front();
    std::set<int> argument_slots;
    for (BlockArgument argument : block.getArguments()) {
      std::optional<SlotUse> use;
      if (region.by_lanes) {
        // Apply points these slots at the operands: they need no storage of their own.
        use = SlotUse{int(program_.slots.size()), *KindOf(argument.getType()), kRegionLanes};
        program_.slots.emplace_back();
      } else {
        use = AllocateFor(argument);
      }
      if (!use) return false;
      values_[argument] = *use;
      argument_slots.insert(use->slot);
      region.arguments.push_back(*use);
    }
    if (!BuildBody(body, region.code)) return false;
    Operation* yield = block.getTerminator();
    std::vector<SlotUse> temporaries;
    for (Value result : yield->getOperands()) {
      SlotUse use = Use(result);
      if (argument_slots.count(use.slot)) {  // Apply may overwrite arguments while it writes results
        SlotUse copy = Allocate(use.kind, use.lanes);
        EmitCopy(yield, region.code, use.slot, copy);
        temporaries.push_back(copy);
        use = copy;
      }
      region.results.push_back(use);
    }
    ReleaseAfter(yield);
    for (const SlotUse& use : temporaries) Release(use);
    if (!region.by_lanes)
      for (const SlotUse& use : region.arguments) Release(use);
    region_capacity_ = outer_capacity;
    return true;
  }

  //===-- operations --------------------------------------------------------------------------===//

  bool BuildElementwise(Operation* op, absl::string_view name, Value result, Code& code) {
    const unsigned count = op->getNumOperands();
    if (count == 0 || count > 3) return Unknown(op);
    SlotUse first = Use(op->getOperand(0));
    const bool small = IsSmallFloat(first.kind);
    if (name == "arith.divf" && first.kind == Kind::kF32 && !op->hasAttr("tile.round_nearest")) name = "arith.divf.quick";
    LaneFunction function = FindLaneFunction(name, small ? Kind::kF32 : first.kind);
    if (!function) return Unknown(op);
    if (op->getName().getStringRef() == "math.fpowi" && Use(op->getOperand(1)).kind != Kind::kI32) return Unknown(op);
    std::optional<SlotUse> use = Define(result, op);
    if (!use) return false;
    Elementwise* instruction;
    if (small) {
      auto* wide = Emit<SmallFloatElementwise>(op, code);
      for (unsigned i = 0; i < count; ++i) wide->kinds[i] = Use(op->getOperand(i)).kind;
      wide->result_kind = use->kind;
      instruction = wide;
    } else {
      instruction = Emit<Elementwise>(op, code);
    }
    instruction->function = function;
    for (unsigned i = 0; i < count; ++i) instruction->operands[i] = Slot(op->getOperand(i));
    instruction->result = use->slot;
    instruction->lanes = use->lanes;
    return true;
  }

  bool EmitFunction(Operation* op, LaneFunction function, Code& code) {
    if (!function) return Unknown(op);
    std::optional<SlotUse> use = Define(op->getResult(0), op);
    if (!use) return false;
    auto* instruction = Emit<Elementwise>(op, code);
    instruction->function = function;
    instruction->operands[0] = Slot(op->getOperand(0));
    instruction->result = use->slot;
    instruction->lanes = use->lanes;
    return true;
  }

  bool BuildIntegerToFloat(Operation* op, bool is_signed, Code& code) {
    const Kind from = Use(op->getOperand(0)).kind;
    std::optional<Kind> to = KindOf(op->getResult(0).getType());
    if (!to) return Unknown(op);
    if (!IsSmallFloat(*to)) return EmitFunction(op, FindIntegerToFloat(from, *to, is_signed), code);
    std::optional<SlotUse> use = Define(op->getResult(0), op);
    if (!use) return false;
    auto* instruction = Emit<IntegerToSmallFloat>(op, code);
    instruction->to_double = FindIntegerToFloat(from, Kind::kF64, is_signed, /*odd=*/true);
    instruction->from = from;
    instruction->to = *to;
    instruction->source = Slot(op->getOperand(0));
    instruction->result = use->slot;
    instruction->lanes = use->lanes;
    return true;
  }

  bool BuildFloatToInteger(Operation* op, bool is_signed, Code& code) {
    const SlotUse source = Use(op->getOperand(0));
    std::optional<Kind> to = KindOf(op->getResult(0).getType());
    if (!to) return Unknown(op);
    const bool small = IsSmallFloat(source.kind);
    LaneFunction function = FindFloatToInteger(small ? Kind::kF32 : source.kind, *to, is_signed);
    if (!small) return EmitFunction(op, function, code);
    if (!function) return Unknown(op);
    std::optional<SlotUse> use = Define(op->getResult(0), op);
    if (!use) return false;
    auto* instruction = Emit<SmallFloatElementwise>(op, code);
    instruction->function = function;
    instruction->kinds[0] = source.kind;
    instruction->result_kind = *to;
    instruction->operands[0] = source.slot;
    instruction->result = use->slot;
    instruction->lanes = use->lanes;
    return true;
  }

  bool BuildFloatToFloat(Operation* op, bool toward_zero, Code& code) {
    const SlotUse source = Use(op->getOperand(0));
    std::optional<SlotUse> use = Define(op->getResult(0), op);
    if (!use) return false;
    auto* instruction = Emit<FloatToFloat>(op, code);
    instruction->from = source.kind;
    instruction->to = use->kind;
    instruction->toward_zero = toward_zero;
    instruction->source = source.slot;
    instruction->result = use->slot;
    instruction->lanes = use->lanes;
    return true;
  }

  bool BuildCopy(Operation* op, Code& code) {
    std::optional<SlotUse> use = Define(op->getResult(0), op);
    if (!use) return false;
    EmitCopy(op, code, Slot(op->getOperand(0)), *use);
    return true;
  }

  bool BuildStrided(Operation* op, std::vector<int64_t> strides, Code& code) {
    std::optional<SlotUse> use = Define(op->getResult(0), op);
    if (!use) return false;
    auto* instruction = Emit<Strided>(op, code);
    instruction->source = Slot(op->getOperand(0));
    instruction->result = use->slot;
    instruction->bytes = Bytes(use->kind);
    instruction->shape = ShapeOf(op->getResult(0).getType());
    instruction->strides = std::move(strides);
    return true;
  }

  static std::vector<int64_t> RowMajorStrides(llvm::ArrayRef<int64_t> shape) {
    std::vector<int64_t> strides(shape.size());
    int64_t stride = 1;
    for (int d = int(shape.size()) - 1; d >= 0; stride *= shape[d--]) strides[d] = stride;
    return strides;
  }

  template <typename OpT>
  void FillAccess(Access* access, OpT op, Value mask) {
    Type pointer = op.getPtr().getType();
    access->pointer = Slot(op.getPtr());
    access->mask = Slot(mask);
    access->kind = *KindOf(cast<tile::PtrType>(getElementTypeOrSelf(pointer)).getPointee());
    access->shape = ShapeOf(pointer);
    access->lanes = Product(access->shape);
  }

  bool BuildAtomicRmw(tile::AtomicRmwOp op, Code& code) {
    std::optional<SlotUse> use = Define(op.getResult(), op);
    if (!use) return false;
    AtomicFunction function = FindAtomicFunction(AtomicOpOf(op.getKind()), use->kind);
    if (!function) return Unknown(op);
    auto* instruction = Emit<AtomicRmw>(op, code);
    FillAccess(instruction, op, op.getMask());
    instruction->function = function;
    instruction->value = Slot(op.getValue());
    instruction->result = use->slot;
    instruction->order = OrderOf(op.getSem());
    return true;
  }

  bool BuildDescriptorAccess(Operation* op, tile::DescType type, Value desc, OperandRange indices, int block,
                             AtomicFunction reduce, bool store, Code& code) {
    auto* instruction = Emit<DescriptorAccess>(op, code);
    std::optional<Kind> kind = KindOf(type.getElementType());
    if (!kind || type.getBlockShape().size() != indices.size()) return Unknown(op);
    instruction->kind = *kind;
    instruction->shape.assign(type.getBlockShape().begin(), type.getBlockShape().end());
    instruction->lanes = Product(instruction->shape);
    instruction->descriptor = Slot(desc);
    instruction->block = block;
    for (Value index : indices) instruction->indices.push_back(Slot(index));
    instruction->store = store;
    instruction->reduce = reduce;
    return true;
  }

  bool BuildDot(tile::DotOp op, Code& code) {
    std::optional<SlotUse> use = Define(op.getResult(), op);
    if (!use) return false;
    auto* dot = Emit<Dot>(op, code);
    dot->a = Use(op.getA());
    dot->b = Use(op.getB());
    dot->c = Use(op.getC());
    if (IsFloat(dot->a.kind) != IsFloat(dot->c.kind)) return Unknown(op);
    dot->result = use->slot;
    std::vector<int64_t> a = ShapeOf(op.getA().getType()), c = ShapeOf(op.getC().getType());
    const size_t rank = a.size();
    dot->batch = rank == 3 ? a[0] : 1;
    dot->m = a[rank - 2];
    dot->k = a[rank - 1];
    dot->n = c[rank - 1];
    dot->precision = PrecisionOf(op.getPrecision());
    return true;
  }

  // Splits the shape of a reduction or scan at its axis.
  template <typename T>
  static void FillExtents(T* instruction, llvm::ArrayRef<int64_t> shape, int64_t axis) {
    instruction->outer = Product(shape.take_front(axis));
    instruction->extent = shape[axis];
    instruction->inner = Product(shape.drop_front(axis + 1));
  }

  // Before the region is built: results are written between its runs, so they must not share its storage.
  bool DefineResults(ResultRange results, Operation* op, std::vector<int>& slots) {
    for (Value result : results) {
      std::optional<SlotUse> use = Define(result, op);
      if (!use) return false;
      slots.push_back(use->slot);
    }
    return true;
  }

  bool BuildReduce(tile::ReduceOp op, Code& code) {
    auto* instruction = Emit<Reduce>(op, code);
    FillExtents(instruction, cast<RankedTensorType>(op.getSources()[0].getType()).getShape(), op.getAxis());
    const bool power_of_two = (instruction->extent & (instruction->extent - 1)) == 0;
    instruction->ordered = op.getOrdered() || !power_of_two;
    const int64_t rows = instruction->ordered ? 1 : std::max<int64_t>(1, instruction->extent / 2);
    const int64_t capacity = instruction->outer * rows * instruction->inner;
    std::vector<SlotUse> scratch;
    for (Value source : op.getSources()) {
      SlotUse use = Use(source);
      instruction->sources.push_back(use);
      scratch.push_back(Allocate(use.kind, capacity));
      instruction->left.push_back(scratch.back().slot);
      scratch.push_back(Allocate(use.kind, capacity));
      instruction->right.push_back(scratch.back().slot);
    }
    if (!DefineResults(op.getResult(), op, instruction->results)) return false;
    if (!BuildRegion(op.getCombine(), capacity, instruction->region)) return false;
    for (const SlotUse& use : scratch) Release(use);
    return true;
  }

  bool BuildScan(tile::ScanOp op, Code& code) {
    auto* instruction = Emit<Scan>(op, code);
    FillExtents(instruction, cast<RankedTensorType>(op.getSources()[0].getType()).getShape(), op.getAxis());
    instruction->reverse = op.getReverse();
    const int64_t capacity = instruction->outer * instruction->inner;
    std::vector<SlotUse> scratch;
    for (Value source : op.getSources()) {
      SlotUse use = Use(source);
      instruction->sources.push_back(use);
      scratch.push_back(Allocate(use.kind, capacity));
      instruction->prefix.push_back(scratch.back().slot);
      scratch.push_back(Allocate(use.kind, capacity));
      instruction->next.push_back(scratch.back().slot);
    }
    if (!DefineResults(op.getResult(), op, instruction->results)) return false;
    if (!BuildRegion(op.getCombine(), capacity, instruction->region)) return false;
    for (const SlotUse& use : scratch) Release(use);
    return true;
  }

  bool BuildMap(tile::MapOp op, Code& code) {
    auto* instruction = Emit<Map>(op, code);
    if (op.getSources().empty()) return Unknown(op);
    instruction->lanes = Product(ShapeOf(op.getSources()[0].getType()));
    for (Value source : op.getSources()) instruction->sources.push_back(Slot(source));
    return DefineResults(op.getResult(), op, instruction->results) &&
           BuildRegion(op.getBody(), instruction->lanes, instruction->region);
  }

  bool BuildExtern(tile::ExternOp op, Code& code) {
    ExternFunction function = FindExternFunction(Text(op.getSymbol()));
    if (!function.function)
      return Fail(op.getLoc(), absl::StrCat("the math function '", Text(op.getSymbol()), "' is not supported by the interpreter"));
    std::optional<Kind> result = KindOf(op.getType());
    if (int(op.getNumOperands()) != function.operands || Use(op.getOperand(0)).kind != function.operand || result != function.result)
      return Fail(op.getLoc(), absl::StrCat("'", Text(op.getSymbol()), "' is called with operands of other types than it has"));
    std::optional<SlotUse> use = Define(op.getResult(), op);
    if (!use) return false;
    auto* instruction = Emit<Elementwise>(op, code);
    instruction->function = function.function;
    for (int i = 0; i < function.operands; ++i) instruction->operands[i] = Slot(op.getOperand(i));
    instruction->result = use->slot;
    instruction->lanes = use->lanes;
    return true;
  }

  bool BuildHint(tile::HintOp op, Code& code) {
    std::optional<SlotUse> use = Define(op.getResult(), op);
    if (!use) return false;
    auto* instruction = Emit<CheckHint>(op, code);
    instruction->value = Use(op.getSource());
    instruction->result = use->slot;
    instruction->shape = ShapeOf(op.getType());
    auto entries = [](std::optional<llvm::ArrayRef<int64_t>> list) {
      return list ? std::vector<int64_t>(list->begin(), list->end()) : std::vector<int64_t>();
    };
    instruction->divisibility = entries(op.getDivisibility());
    instruction->contiguity = entries(op.getContiguity());
    instruction->constancy = entries(op.getConstancy());
    if (auto pointer = dyn_cast<tile::PtrType>(getElementTypeOrSelf(op.getType())))
      instruction->step = Bytes(KindOf(pointer.getPointee()).value_or(Kind::kI8));
    return true;
  }

  // mulsi_extended and its kin are two functions.
  bool BuildExtended(Operation* op, absl::string_view low, absl::string_view high, Code& code) {
    std::optional<SlotUse> high_use;
    if (!BuildElementwise(op, low, op->getResult(0), code)) return false;
    LaneFunction function = FindLaneFunction(high, Use(op->getOperand(0)).kind);
    if (!function) return Unknown(op);
    high_use = AllocateFor(op->getResult(1));
    if (!high_use) return false;
    const SlotUse operand = Use(op->getOperand(0));
    const bool carry = high_use->kind != operand.kind;  // i1: the carry is computed in the operands' kind first
    SlotUse wide = carry ? Allocate(operand.kind, operand.lanes) : *high_use;
    auto* instruction = Emit<Elementwise>(op, code);
    instruction->function = function;
    for (int i = 0; i < 2; ++i) instruction->operands[i] = Slot(op->getOperand(i));
    instruction->result = wide.slot;
    instruction->lanes = wide.lanes;
    if (carry) {
      auto* narrow = Emit<Elementwise>(op, code);
      narrow->function = FindIntegerCast(operand.kind, high_use->kind, false);
      narrow->operands[0] = wide.slot;
      narrow->result = high_use->slot;
      narrow->lanes = wide.lanes;
      Release(wide);
    }
    Bind(op->getResult(1), *high_use, op);
    return true;
  }

  bool BuildOp(Operation* op, Code& code) {
    if (options_.build_op)
      if (std::optional<bool> built = options_.build_op(op, *this, code)) return *built;
    const std::string name = Text(op->getName().getStringRef());
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (!KindOf(constant.getType())) return Fail(op->getLoc(), absl::StrCat("constants of type ", TypeText(constant.getType()), " are not supported by the interpreter"));
      return true;  // made where it is used
    }
    if (auto loop = dyn_cast<scf::ForOp>(op)) return BuildFor(loop, code);
    if (auto loop = dyn_cast<scf::WhileOp>(op)) return BuildWhile(loop, code);
    if (auto branch = dyn_cast<scf::IfOp>(op)) return BuildIf(branch, code);
    if (auto call = dyn_cast<func::CallOp>(op)) return BuildCall(call, code);
    if (op->getDialect() && op->getDialect()->getNamespace() == "tile") return BuildTileOp(op, code);

    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      return BuildElementwise(op, absl::StrCat(name, ".", Text(arith::stringifyCmpIPredicate(compare.getPredicate()))), compare.getResult(), code);
    if (auto compare = dyn_cast<arith::CmpFOp>(op))
      return BuildElementwise(op, absl::StrCat(name, ".", Text(arith::stringifyCmpFPredicate(compare.getPredicate()))), compare.getResult(), code);
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      std::optional<SlotUse> use = Define(select.getResult(), op);
      if (!use) return false;
      auto* instruction = Emit<Select>(op, code);
      instruction->condition = Slot(select.getCondition());
      instruction->a = Slot(select.getTrueValue());
      instruction->b = Slot(select.getFalseValue());
      instruction->result = use->slot;
      instruction->lanes = use->lanes;
      instruction->bytes = Bytes(use->kind);
      instruction->one_condition = isa<RankedTensorType>(select.getType()) && !isa<RankedTensorType>(select.getCondition().getType());
      return true;
    }
    auto cast_to = [&](bool is_signed) {
      return EmitFunction(op, FindIntegerCast(Use(op->getOperand(0)).kind, KindOf(op->getResult(0).getType()).value_or(Kind::kF32), is_signed), code);
    };
    if (name == "arith.extsi" || name == "arith.index_cast") return cast_to(true);
    if (name == "arith.extui" || name == "arith.trunci" || name == "arith.index_castui") return cast_to(false);
    if (name == "arith.sitofp") return BuildIntegerToFloat(op, true, code);
    if (name == "arith.uitofp") return BuildIntegerToFloat(op, false, code);
    if (name == "arith.fptosi") return BuildFloatToInteger(op, true, code);
    if (name == "arith.fptoui") return BuildFloatToInteger(op, false, code);
    if (name == "arith.extf" || name == "arith.truncf") return BuildFloatToFloat(op, false, code);
    if (name == "arith.bitcast") return BuildCopy(op, code);
    if (name == "arith.mului_extended") return BuildExtended(op, "arith.muli", "tile.mulhiu", code);
    if (name == "arith.mulsi_extended") return BuildExtended(op, "arith.muli", "mulhis", code);
    if (name == "arith.addui_extended") return BuildExtended(op, "arith.addi", "addcarry", code);
    if (op->getNumResults() != 1) return Unknown(op);
    return BuildElementwise(op, name, op->getResult(0), code);
  }

  bool BuildTileOp(Operation* op, Code& code) {
    auto result = [&]() { return Define(op->getResult(0), op); };
    if (auto index = dyn_cast<tile::ProgramIdOp>(op)) {
      auto use = result();
      auto* instruction = Emit<ProgramIndex>(op, code);
      instruction->axis = index.getAxis();
      instruction->result = use->slot;
      instruction->lanes = use->lanes;
      return true;
    }
    if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
      auto use = result();
      auto* instruction = Emit<ProgramIndex>(op, code);
      instruction->axis = count.getAxis();
      instruction->count = true;
      instruction->result = use->slot;
      instruction->lanes = use->lanes;
      return true;
    }
    if (auto range = dyn_cast<tile::RangeOp>(op)) {
      auto use = result();
      auto* instruction = Emit<Range>(op, code);
      instruction->start = range.getStart();
      instruction->end = range.getEnd();
      instruction->result = use->slot;
      return true;
    }
    if (isa<tile::SplatOp>(op)) {
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<Splat>(op, code);
      instruction->source = Slot(op->getOperand(0));
      instruction->result = use->slot;
      instruction->lanes = use->lanes;
      instruction->bytes = Bytes(use->kind);
      return true;
    }
    if (isa<tile::UnsplatOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::PtrCastOp, tile::PtrToIntOp, tile::IntToPtrOp>(op))
      return BuildCopy(op, code);
    if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
      std::vector<int64_t> shape = ShapeOf(broadcast.getSource().getType()), strides = RowMajorStrides(shape);
      for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d] == 1) strides[d] = 0;
      return BuildStrided(op, strides, code);
    }
    if (auto trans = dyn_cast<tile::TransOp>(op)) {
      std::vector<int64_t> strides = RowMajorStrides(ShapeOf(trans.getSource().getType())), permuted;
      for (int32_t d : trans.getOrder()) permuted.push_back(strides[d]);
      return BuildStrided(op, permuted, code);
    }
    if (isa<tile::JoinOp, tile::CatOp>(op)) {
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<Join>(op, code);
      instruction->lhs = Slot(op->getOperand(0));
      instruction->rhs = Slot(op->getOperand(1));
      instruction->result = use->slot;
      instruction->lanes = use->lanes / 2;
      instruction->bytes = Bytes(use->kind);
      instruction->concatenate = isa<tile::CatOp>(op);
      return true;
    }
    if (auto split = dyn_cast<tile::SplitOp>(op)) {
      auto lhs = Define(split.getLhs(), op), rhs = Define(split.getRhs(), op);
      if (!lhs || !rhs) return false;
      auto* instruction = Emit<Split>(op, code);
      instruction->source = Slot(split.getSource());
      instruction->lhs = lhs->slot;
      instruction->rhs = rhs->slot;
      instruction->lanes = lhs->lanes;
      instruction->bytes = Bytes(lhs->kind);
      return true;
    }
    if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
      std::optional<Kind> pointee = KindOf(cast<tile::PtrType>(getElementTypeOrSelf(add.getType())).getPointee());
      auto use = result();
      if (!use || !pointee) return Unknown(op);
      SlotUse offset = Use(add.getOffset());
      auto* instruction = Emit<AddPointer>(op, code);
      instruction->widen = FindIntegerCast(offset.kind, Kind::kI64, true);
      instruction->pointer = Slot(add.getPtr());
      instruction->offset = offset.slot;
      instruction->offset_bytes = Bytes(offset.kind);
      instruction->result = use->slot;
      instruction->lanes = use->lanes;
      instruction->scale = Bytes(*pointee);
      return true;
    }
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<Load>(op, code);
      FillAccess(instruction, load, load.getMask());
      instruction->other = Slot(load.getOther());
      instruction->result = use->slot;
      return true;
    }
    if (auto store = dyn_cast<tile::StoreOp>(op)) {
      auto* instruction = Emit<Store>(op, code);
      FillAccess(instruction, store, store.getMask());
      instruction->value = Slot(store.getValue());
      return true;
    }
    if (auto rmw = dyn_cast<tile::AtomicRmwOp>(op)) return BuildAtomicRmw(rmw, code);
    if (auto cas = dyn_cast<tile::AtomicCasOp>(op)) {
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<AtomicCas>(op, code);
      FillAccess(instruction, cas, nullptr);
      instruction->compare = Slot(cas.getCompare());
      instruction->value = Slot(cas.getValue());
      instruction->result = use->slot;
      instruction->order = OrderOf(cas.getSem());
      return true;
    }
    if (isa<tile::BarrierOp>(op)) {
      Emit<Barrier>(op, code);
      return true;
    }
    if (auto make = dyn_cast<tile::MakeDescOp>(op)) {
      if (make.getShape().size() > DescriptorValue::kMaxRank) return Unknown(op);
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<MakeDescriptor>(op, code);
      instruction->base = Slot(make.getBase());
      for (Value extent : make.getShape()) instruction->extents.push_back(Slot(extent));
      for (Value stride : make.getStrides()) instruction->strides.push_back(Slot(stride));
      instruction->nan_padding = make.getNanPadding();
      instruction->result = use->slot;
      return true;
    }
    if (auto load = dyn_cast<tile::DescLoadOp>(op)) {
      auto use = result();
      if (!use) return false;
      return BuildDescriptorAccess(op, load.getDesc().getType(), load.getDesc(), load.getIndices(), use->slot, nullptr, false, code);
    }
    if (auto store = dyn_cast<tile::DescStoreOp>(op)) {
      AtomicFunction reduce = nullptr;
      if (store.getReduce()) {
        reduce = FindAtomicFunction(AtomicOpOf(*store.getReduce()), Use(store.getValue()).kind);
        if (!reduce) return Unknown(op);
      }
      return BuildDescriptorAccess(op, store.getDesc().getType(), store.getDesc(), store.getIndices(), Slot(store.getValue()), reduce, true, code);
    }
    if (auto cast_op = dyn_cast<tile::FpToFpOp>(op))
      return BuildFloatToFloat(op, cast_op.getRounding() == tile::Rounding::RTZ, code);
    if (auto cast_op = dyn_cast<tile::FpToIntOp>(op)) return BuildFloatToInteger(op, !cast_op.getIsUnsigned(), code);
    if (auto dot = dyn_cast<tile::DotOp>(op)) return BuildDot(dot, code);
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) return BuildReduce(reduce, code);
    if (auto scan = dyn_cast<tile::ScanOp>(op)) return BuildScan(scan, code);
    if (auto map = dyn_cast<tile::MapOp>(op)) return BuildMap(map, code);
    if (auto sort = dyn_cast<tile::SortOp>(op)) {
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<Sort>(op, code);
      instruction->source = Use(sort.getSource());
      instruction->result = use->slot;
      instruction->extent = ShapeOf(sort.getType()).back();
      instruction->descending = sort.getDescending();
      instruction->is_unsigned = sort.getIsUnsigned();
      return true;
    }
    if (auto gather = dyn_cast<tile::GatherOp>(op)) {
      auto use = result();
      if (!use) return false;
      auto* instruction = Emit<Gather>(op, code);
      instruction->source = Use(gather.getSource());
      instruction->index = Use(gather.getIndex());
      instruction->result = use->slot;
      llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(gather.getIndex().getType()).getShape();
      instruction->outer = Product(shape.take_front(gather.getAxis()));
      instruction->index_extent = shape[gather.getAxis()];
      instruction->source_extent = ShapeOf(gather.getSource().getType())[gather.getAxis()];
      instruction->inner = Product(shape.drop_front(gather.getAxis() + 1));
      return true;
    }
    if (auto histogram = dyn_cast<tile::HistogramOp>(op)) {
      auto use = result();
      if (!use || use->kind != Kind::kI32) return Unknown(op);
      auto* instruction = Emit<Histogram>(op, code);
      instruction->source = Use(histogram.getSource());
      instruction->mask = Slot(histogram.getMask());
      instruction->result = use->slot;
      instruction->bins = use->lanes;
      return true;
    }
    if (auto call = dyn_cast<tile::ExternOp>(op)) return BuildExtern(call, code);
    if (auto hint = dyn_cast<tile::HintOp>(op)) return BuildHint(hint, code);
    if (auto assume = dyn_cast<tile::AssumeOp>(op)) {
      auto* instruction = Emit<Check>(op, code);
      instruction->condition = Slot(assume.getCondition());
      instruction->code = absl::StatusCode::kFailedPrecondition;
      instruction->sentence = "broken promise: what the kernel assumes does not hold";
      return true;
    }
    if (auto check = dyn_cast<tile::AssertOp>(op)) {
      auto* instruction = Emit<Check>(op, code);
      instruction->condition = Slot(check.getCondition());
      instruction->mask = Slot(check.getMask());
      instruction->shape = ShapeOf(check.getCondition().getType());
      instruction->lanes = Product(instruction->shape);
      instruction->sentence = absl::StrCat("assertion failed: ", Text(check.getMessage()));
      return true;
    }
    if (auto print = dyn_cast<tile::PrintOp>(op)) {
      auto* instruction = Emit<Print>(op, code);
      instruction->prefix = Text(print.getPrefix());
      instruction->hex = print.getHex();
      for (auto [i, operand] : llvm::enumerate(print.getOperands())) {
        Type element = getElementTypeOrSelf(operand.getType());
        bool is_unsigned = i < print.getIsUnsigned().size() && print.getIsUnsigned()[i];
        instruction->operands.push_back({Use(operand), ShapeOf(operand.getType()), is_unsigned, isa<tile::PtrType>(element)});
      }
      return true;
    }
    if (name_is_elementwise(op)) return BuildElementwise(op, Text(op->getName().getStringRef()), op->getResult(0), code);
    return Unknown(op);
  }

  static bool name_is_elementwise(Operation* op) {
    return isa<tile::DivSOp, tile::DivUOp, tile::RemSOp, tile::RemUOp, tile::MulHiUOp>(op);
  }

  func::FuncOp kernel_;
  const BuildOptions& options_;
  Program program_;
  absl::Status error_;
  llvm::DenseMap<Value, SlotUse> values_;
  std::map<std::pair<Value, int64_t>, SlotUse, bool (*)(const std::pair<Value, int64_t>&, const std::pair<Value, int64_t>&)> constants_{
      [](const std::pair<Value, int64_t>& a, const std::pair<Value, int64_t>& b) {
        return std::make_pair(a.first.getAsOpaquePointer(), a.second) < std::make_pair(b.first.getAsOpaquePointer(), b.second);
      }};
  llvm::DenseMap<Operation*, std::vector<SlotUse>> deaths_;
  std::map<int64_t, std::vector<int64_t>> free_;  // bytes -> offsets in the arena
  llvm::DenseMap<int, int64_t> slot_bytes_;
  std::map<std::string, int> places_;
  int64_t region_capacity_;  // lanes of scalars: inside a combine region that works by lanes how many at most, else options_.lanes
  int call_depth_ = 0;
};

}  // namespace

absl::StatusOr<Program> BuildProgram(func::FuncOp kernel, const BuildOptions& options) { return Builder(kernel, options).Build(); }

}  // namespace tessera::interpreter
