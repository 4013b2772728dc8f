// Values, thread numbers and control flow.
#include "compiler/conversion/tile_to_simt/emitter.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

Emitter::Emitter(func::FuncOp source, func::FuncOp target, const GpuOptions& options)
    : source_(source), target_(target), options_(options), b_(source.getContext()), loc_(source.getLoc()), axis_(source, AxisInfoAnalysis::Remainders::kUnsigned) {}

const Registers& Emitter::Get(Value value) const {
  auto found = values_.find(value.getAsOpaquePointer());
  assert(found != values_.end() && "a value is emitted before its uses");
  return found->second;
}

Type Emitter::Emitted(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<tile::PtrType>(element) ? IntegerType::get(type.getContext(), 64) : element;
}

int64_t Emitter::BytesOf(Type element) {
  return isa<tile::PtrType>(element) ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

LinearLayout Emitter::LayoutOf(Value value) const {
  auto layout = tile::LayoutOf(value.getType());
  assert(layout && "assign-layouts has given every tensor a layout");
  return *layout;
}

LinearLayout Emitter::ScalarLayout() const {
  return LinearLayout({}, {LinearLayout::Bases(), LinearLayout::Bases(5, 0),
                           LinearLayout::Bases(llvm::Log2_64(options_.num_warps), 0), LinearLayout::Bases()});
}

//===-- constants and thread numbers ------------------------------------------------------------------===//

Value Emitter::ConstantOf(TypedAttr attr) {
  Value& constant = constants_[attr];
  if (!constant) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(head_);
    constant = b_.create<arith::ConstantOp>(source_.getLoc(), attr);
  }
  return constant;
}

Value Emitter::Constant(Type type, int64_t value) {
  if (auto real = dyn_cast<FloatType>(type)) return ConstantOf(b_.getFloatAttr(real, static_cast<double>(value)));
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  return ConstantOf(b_.getIntegerAttr(type, APInt(bits, static_cast<uint64_t>(value), true)));
}

Value Emitter::ThreadId() {
  if (!thread_id_) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(head_);
    thread_id_ = b_.create<simt::ThreadIdOp>(source_.getLoc(), b_.getI32Type());
  }
  return thread_id_;
}

Value Emitter::ThreadBits(ArrayRef<int32_t> lane_images, ArrayRef<int32_t> warp_images) {
  std::vector<int32_t> images(lane_images.begin(), lane_images.end());
  images.resize(5, 0);
  images.insert(images.end(), warp_images.begin(), warp_images.end());
  while (!images.empty() && images.back() == 0) images.pop_back();
  if (images.empty()) return I32(0);
  if (auto found = thread_bits_.find(images); found != thread_bits_.end()) return found->second;
  Value thread = ThreadId();
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(head_);
  return thread_bits_[images] = SpreadBits(thread, images, 5 + llvm::Log2_64(options_.num_warps));
}

Value Emitter::SpreadBits(Value number, ArrayRef<int32_t> images, int bits) {
  Value result;
  int32_t seen = 0;
  for (int i = 0; i < int(images.size());) {
    int32_t image = images[i];
    if (image == 0) {
      ++i;
      continue;
    }
    // A run of bits that moves as a whole.
    int length = 1;
    while (i + length < int(images.size()) && images[i + length] == image << length) ++length;
    bool shifted = llvm::isPowerOf2_32(image);
    if (!shifted) length = 1;
    Value part = number;
    int32_t mask = 0;
    if (i > 0) part = b_.create<arith::ShRUIOp>(loc_, part, I32(i));
    if (i + length < bits) part = b_.create<arith::AndIOp>(loc_, part, I32((1 << length) - 1));
    if (image != 1) {
      if (shifted) part = b_.create<arith::ShLIOp>(loc_, part, I32(llvm::Log2_32(image)));
      else part = b_.create<arith::MulIOp>(loc_, part, I32(image));
    }
    for (int k = 0; k < length; ++k) mask |= images[i + k];
    if (!result) result = part;
    else if (seen & mask) result = b_.create<arith::XOrIOp>(loc_, result, part);
    else result = b_.create<arith::OrIOp>(loc_, result, part);
    seen |= mask;
    i += length;
  }
  return result ? result : I32(0);
}

Value Emitter::Combine(Value thread_part, int32_t mask, int32_t constant) {
  if (mask == 0) return I32(constant);
  if (constant == 0) return thread_part;
  if (mask & constant) return Make<arith::XOrIOp>(thread_part, I32(constant));
  return b_.create<arith::AddIOp>(loc_, thread_part, I32(constant), arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw);
}

Registers Emitter::Indices(const LinearLayout& layout, const std::function<int32_t(int32_t)>& map, Value moved, int32_t moved_mask) {
  llvm::SmallVector<int32_t, 8> lanes, warps;
  int32_t mask = 0;
  for (int32_t basis : layout.bases(LinearLayout::kLane)) lanes.push_back(map ? map(basis) : basis);
  for (int32_t basis : layout.bases(LinearLayout::kWarp)) warps.push_back(map ? map(basis) : basis);
  for (int32_t image : lanes) mask |= image;
  for (int32_t image : warps) mask |= image;
  Value thread_part = ThreadBits(lanes, warps);
  if (moved && moved_mask != 0) {
    if (mask == 0) thread_part = moved;
    else if (mask & moved_mask) thread_part = Make<arith::XOrIOp>(thread_part, moved);
    else thread_part = Make<arith::OrIOp>(thread_part, moved);
    mask |= moved_mask;
  }
  Registers indices;
  for (int32_t r = 0; r < layout.registers(); ++r) {
    int32_t flat = layout.ApplyTo(LinearLayout::kRegister, r);
    indices.push_back(Combine(thread_part, mask, map ? map(flat) : flat));
  }
  return indices;
}

Value Emitter::Owner(const LinearLayout& layout) {
  int32_t free = layout.FreeBits(LinearLayout::kLane) | layout.FreeBits(LinearLayout::kWarp) << 5;
  if (free == 0) return nullptr;
  std::vector<int32_t> key = {-1, free};
  if (auto found = thread_bits_.find(key); found != thread_bits_.end()) return found->second;
  Value thread = ThreadId();
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(head_);
  Location loc = source_.getLoc();
  Value bits = free == threads() - 1 ? thread : b_.create<arith::AndIOp>(loc, thread, I32(free)).getResult();
  return thread_bits_[key] = b_.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, bits, I32(0));
}

Value Emitter::LaneId() {
  if (!lane_id_) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(head_);
    lane_id_ = b_.create<simt::LaneIdOp>(source_.getLoc(), b_.getI32Type());
  }
  return lane_id_;
}

Value Emitter::ThreadTest(int32_t mask, bool inverted) {
  std::vector<int32_t> key = {inverted ? -3 : -2, mask};
  if (auto found = thread_bits_.find(key); found != thread_bits_.end()) return found->second;
  Value thread = ThreadId(), expected = I32(inverted ? mask : 0);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(head_);
  Location loc = source_.getLoc();
  Value bits = b_.create<arith::AndIOp>(loc, thread, I32(mask));
  return thread_bits_[key] = b_.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, bits, expected);
}

Value Emitter::Shuffle(simt::ShuffleKind kind, Value value, Value lane) {
  return b_.create<simt::ShuffleOp>(loc_, value.getType(), kind, value, lane);
}

Value Emitter::And(Value a, Value b) {
  if (!a) return b;
  if (!b) return a;
  return Make<arith::AndIOp>(a, b);
}

Value Emitter::Not(Value condition) { return Make<arith::XOrIOp>(condition, True()); }

//===-- structure -------------------------------------------------------------------------------------===//

LogicalResult Emitter::Run() {
  Block* entry = target_.addEntryBlock();
  b_.setInsertionPointToStart(entry);
  for (auto [from, to] : llvm::zip(source_.getArguments(), entry->getArguments())) Set(from, {to});
  auto end = b_.create<func::ReturnOp>(source_.getLoc());
  head_ = end;
  source_.walk([&](Operation* op) {
    stores_ |= isa<tile::StoreOp>(op);
    writes_memory_ |= isa<tile::StoreOp, tile::AtomicRmwOp, tile::AtomicCasOp>(op);
  });
  // A mark between the head and the body: constants stand before it.
  auto mark = b_.create<arith::ConstantOp>(source_.getLoc(), b_.getI32IntegerAttr(0));
  mark->moveBefore(end);
  head_ = mark;
  b_.setInsertionPoint(end);
  Block& body = source_.getBody().front();
  for (Operation& op : body.without_terminator())
    if (failed(EmitOp(&op))) return failure();
  mark->erase();
  return success();
}

LogicalResult Emitter::EmitBlock(Block& block) {
  for (Operation& op : block)
    if (failed(EmitOp(&op))) return failure();
  return success();
}

llvm::SmallVector<Value> Emitter::Flatten(ValueRange values) const {
  llvm::SmallVector<Value> flat;
  for (Value value : values) llvm::append_range(flat, Get(value));
  return flat;
}

llvm::SmallVector<Type> Emitter::FlattenTypes(ValueRange values) const {
  llvm::SmallVector<Type> types;
  for (Value value : values) {
    auto layout = tile::LayoutOf(value.getType());
    types.append(layout ? layout->registers() : 1, Emitted(value.getType()));
  }
  return types;
}

void Emitter::Unflatten(ValueRange values, ValueRange flat) {
  size_t next = 0;
  for (Value value : values) {
    auto layout = tile::LayoutOf(value.getType());
    size_t count = layout ? layout->registers() : 1;
    auto part = flat.slice(next, count);
    Set(value, Registers(part.begin(), part.end()));
    next += count;
  }
}

LogicalResult Emitter::EmitFor(scf::ForOp op) {
  auto loop = b_.create<scf::ForOp>(loc_, Scalar(op.getLowerBound()), Scalar(op.getUpperBound()), Scalar(op.getStep()), Flatten(op.getInitArgs()));
  loop->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  if (divergent_) loop->setAttr("simt.divergent", b_.getUnitAttr());
  Set(op.getInductionVar(), {loop.getInductionVar()});
  Unflatten(op.getRegionIterArgs(), loop.getRegionIterArgs());
  {
    OpBuilder::InsertionGuard guard(b_);
    Block* body = loop.getBody();
    if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>()) body->back().erase();
    b_.setInsertionPointToEnd(body);
    if (failed(EmitBlock(*op.getBody()))) return failure();
  }
  Unflatten(op.getResults(), loop.getResults());
  return success();
}

LogicalResult Emitter::EmitIf(scf::IfOp op) {
  auto branch = b_.create<scf::IfOp>(loc_, FlattenTypes(op.getResults()), Scalar(op.getCondition()), false, false);
  branch->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  if (divergent_) branch->setAttr("simt.divergent", b_.getUnitAttr());
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    if (from.empty()) continue;
    OpBuilder::InsertionGuard guard(b_);
    b_.createBlock(&to);
    if (failed(EmitBlock(from.front()))) return failure();
  }
  Unflatten(op.getResults(), branch.getResults());
  return success();
}

LogicalResult Emitter::EmitWhile(scf::WhileOp op) {
  auto loop = b_.create<scf::WhileOp>(loc_, FlattenTypes(op.getResults()), Flatten(op.getInits()));
  loop->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  if (divergent_) loop->setAttr("simt.divergent", b_.getUnitAttr());
  for (auto [from, to] : llvm::zip(op->getRegions(), loop->getRegions())) {
    OpBuilder::InsertionGuard guard(b_);
    llvm::SmallVector<Type> types = FlattenTypes(from.getArguments());
    Block* block = b_.createBlock(&to, to.end(), types, llvm::SmallVector<Location>(types.size(), loc_));
    Unflatten(from.getArguments(), block->getArguments());
    if (failed(EmitBlock(from.front()))) return failure();
  }
  Unflatten(op.getResults(), loop.getResults());
  return success();
}

LogicalResult Emitter::EmitOp(Operation* op) {
  loc_ = op->getLoc();
  return llvm::TypeSwitch<Operation*, LogicalResult>(op)
      .Case([&](scf::ForOp x) { return EmitFor(x); })
      .Case([&](scf::IfOp x) { return EmitIf(x); })
      .Case([&](scf::WhileOp x) { return EmitWhile(x); })
      .Case([&](scf::YieldOp x) {
        b_.create<scf::YieldOp>(loc_, Flatten(x.getOperands()));
        return success();
      })
      .Case([&](scf::ConditionOp x) {
        b_.create<scf::ConditionOp>(loc_, Scalar(x.getCondition()), Flatten(x.getArgs()));
        return success();
      })
      .Case([&](arith::ConstantOp x) { return EmitConstant(x); })
      .Case([&](tile::RangeOp x) {
        Registers indices = Indices(LayoutOf(x.getResult()));
        if (int32_t start = x.getStart())
          for (Value& index : indices) index = Make<arith::AddIOp>(index, I32(start));
        Set(x.getResult(), std::move(indices));
        return success();
      })
      .Case([&](tile::SplatOp x) {
        Set(x.getResult(), Registers(LayoutOf(x.getResult()).registers(), Scalar(x.getSource())));
        return success();
      })
      .Case([&](tile::ExpandDimsOp x) { return EmitShape(x, nullptr); })
      .Case([&](tile::ReshapeOp x) { return EmitShape(x, nullptr); })
      .Case([&](tile::BroadcastOp x) {
        LinearLayout to = LayoutOf(x.getResult());
        ArrayRef<int64_t> shape = cast<RankedTensorType>(x.getSource().getType()).getShape();
        LinearLayout from = LayoutOf(x.getSource());
        return EmitShape(x, [=](int32_t flat) {
          LinearLayout::Coordinates at = to.CoordinatesOf(flat);
          for (size_t d = 0; d < shape.size(); ++d) at[d] %= shape[d];
          return from.FlatOf(at);
        });
      })
      .Case([&](tile::TransOp x) {
        LinearLayout to = LayoutOf(x.getResult()), from = LayoutOf(x.getSource());
        llvm::SmallVector<int32_t> order(x.getOrder());
        return EmitShape(x, [=](int32_t flat) {
          LinearLayout::Coordinates at = to.CoordinatesOf(flat), source(order.size());
          for (auto [i, d] : llvm::enumerate(order)) source[d] = at[i];
          return from.FlatOf(source);
        });
      })
      .Case([&](tile::JoinOp x) { return EmitJoin(x); })
      .Case([&](tile::SplitOp x) { return EmitSplit(x); })
      .Case([&](tile::CatOp x) { return EmitCat(x); })
      .Case([&](tile::ConvertLayoutOp x) {
        Set(x.getResult(), Convert(Get(x.getSource()), LayoutOf(x.getSource()), LayoutOf(x.getResult())));
        return success();
      })
      .Case([&](tile::UnsplatOp x) {
        Set(x.getResult(), {Get(x.getSource())[0]});
        return success();
      })
      .Case([&](tile::LoadOp x) { return EmitLoad(x); })
      .Case([&](tile::StoreOp x) { return EmitStore(x); })
      .Case([&](tile::AtomicRmwOp x) { return EmitAtomicRmw(x); })
      .Case([&](tile::AtomicCasOp x) { return EmitAtomicCas(x); })
      .Case([&](tile::BarrierOp) {
        EmitBarrier();
        return success();
      })
      .Case([&](tile::ReduceOp x) { return EmitReduce(x); })
      .Case([&](tile::ScanOp x) { return EmitScan(x); })
      .Case([&](tile::DotOp x) { return EmitDot(x); })
      .Case([&](tile::SharedAllocOp x) { return EmitSharedAlloc(x); })
      .Case([&](tile::SharedFreeOp x) { return EmitSharedFree(x); })
      .Case([&](tile::SharedStoreOp x) { return EmitSharedStore(x); })
      .Case([&](tile::SharedPutOp x) { return EmitSharedPut(x); })
      .Case([&](tile::SharedSliceOp x) { return EmitSharedSlice(x); })
      .Case([&](tile::SharedCopyOp x) { return EmitSharedCopy(x); })
      .Case([&](tile::SharedCommitOp) {
        b_.create<simt::CommitCopiesOp>(loc_);
        return success();
      })
      .Case([&](tile::SharedWaitOp x) { return EmitSharedWait(x); })
      .Case([&](tile::SharedDotOp x) { return EmitSharedDot(x); })
      .Case([&](tile::DotWaitOp x) { return EmitDotWait(x); })
      .Case([&](tile::GatherOp x) { return EmitGather(x); })
      .Case([&](tile::HistogramOp x) { return EmitHistogram(x); })
      .Case([&](tile::SortOp x) { return EmitSort(x); })
      .Case([&](tile::MapOp x) { return EmitMap(x); })
      .Case([&](tile::InlineAsmOp x) { return EmitInlineAsm(x); })
      .Case([&](tile::PrintOp x) { return EmitPrint(x); })
      .Case([&](tile::AssertOp x) { return EmitAssert(x); })
      .Case([&](tile::AssumeOp x) {
        b_.create<tile::AssumeOp>(loc_, Scalar(x.getCondition()));
        return success();
      })
      .Default([&](Operation* other) { return EmitLanewise(other); });
}

}  // namespace tessera::compiler
