// Loads, stores, atomics, block pointers.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::frontend {
namespace {

constexpr ElementType kBool{DType::kInt1, false};
constexpr ElementType kInt8{DType::kInt8, false};
constexpr ElementType kInt64{DType::kInt64, false};

std::optional<tile::CacheModifier> CacheModifierOf(Emitter& e, const Arguments& args) {
  std::optional<std::string> text = e.ConstantString(args, "cache_modifier");
  if (!text) return std::nullopt;
  if (text->empty()) return tile::CacheModifier::NONE;
  std::optional<tile::CacheModifier> modifier = tile::symbolizeCacheModifier(text->substr(text->find('.') + 1));
  if (!modifier)
    e.Error(args.Range("cache_modifier"),
            absl::StrCat("unknown cache modifier '", *text, "'; accepted are .ca, .cg, .cv for loads, .wb, .cg, .cs, .wt for stores"));
  return modifier;
}

std::optional<tile::Eviction> EvictionOf(Emitter& e, const Arguments& args) {
  std::optional<std::string> text = e.ConstantString(args, "eviction_policy");
  if (!text) return std::nullopt;
  if (text->empty() || *text == "evict_normal") return tile::Eviction::NORMAL;
  std::optional<tile::Eviction> policy = tile::symbolizeEviction(*text);
  if (!policy)
    e.Error(args.Range("eviction_policy"),
            absl::StrCat("unknown eviction policy '", *text, "'; accepted are evict_first, evict_last, evict_normal"));
  return policy;
}

// The type in which memory holds an element.
ElementType MemoryType(const ElementType& pointee) { return pointee.is_bool() ? kInt8 : pointee; }

bool CheckPointer(Emitter& e, const Value& pointer, SourceRange range, absl::string_view function) {
  if (pointer.is_tensor() && pointer.type.element.pointer) return true;
  e.Error(range, absl::StrCat(function, " wants a pointer or a block of pointers, not ", Describe(pointer)));
  return false;
}

// A mask brought to the shape of the pointers (which may grow to the mask's shape where `may_grow`).
bool ReadMask(Emitter& e, const Arguments& args, Value* pointer, bool may_grow, mlir::Value* mask) {
  const Value& given = args["mask"];
  if (given.is_none()) return true;
  Emitter::At at(e, args.Range("mask"));
  Value value = e.ToTensor(given, "the mask");
  if (e.failed()) return false;
  if (!value.type.element.is_int()) {
    e.Error(absl::StrCat("the mask must be a condition (int1), not ", Describe(value)));
    return false;
  }
  if (!value.type.element.is_bool()) value = e.Cast(value, kBool);
  if (!pointer->type.is_block() && value.type.is_block()) {
    e.Error("the mask is a block, but the pointer is a scalar");
    return false;
  }
  if (may_grow) {
    Shape shape;
    if (!e.CommonShape(pointer->type.shape, value.type.shape, &shape)) return false;
    *pointer = e.BroadcastTo(*pointer, shape);
  }
  *mask = e.BroadcastTo(value, pointer->type.shape).ir;
  return !e.failed();
}

//===-- block pointers --------------------------------------------------------------------------------===//

mlir::Value ToInt64(Emitter& e, const Value& value, absl::string_view what) {
  if (value.is_constant() && value.constant.is_integral()) return e.IrConstant(value.constant, {kInt64, {}});
  Value scalar = value;
  if (scalar.is_block() && scalar.type.elements() == 1) scalar = e.Unsplat(scalar);
  if (!scalar.is_scalar() || !scalar.type.element.is_int()) {
    e.Error(absl::StrCat(what, " must be integer scalars, not ", Describe(value)));
    return {};
  }
  return e.Cast(scalar, kInt64).ir;
}

bool ToInt64s(Emitter& e, const Arguments& args, absl::string_view name, size_t rank, std::vector<mlir::Value>* out) {
  Emitter::At at(e, args.Range(name));
  const Value& list = args[name];
  std::vector<Value> items = list.is_tuple() ? *list.items : std::vector<Value>{list};
  if (items.size() != rank) {
    e.Error(absl::StrCat("'", name, "' has ", items.size(), " entries, but the block has ", rank, " dimension(s)"));
    return false;
  }
  for (const Value& item : items) {
    out->push_back(ToInt64(e, item, absl::StrCat("the entries of '", name, "'")));
    if (e.failed()) return false;
  }
  return true;
}

Value MakeBlockPtr(Emitter& e, const Arguments& args) {
  const Value& base = args["base"];
  if (!CheckPointer(e, base, args.Range("base"), "tl.make_block_ptr")) return {};
  if (base.type.is_block()) return e.Error(args.Range("base"), "the base of a block pointer must be a scalar pointer");
  std::optional<Shape> block = e.BlockShape(args, "block_shape");
  if (!block) return {};
  auto pointer = std::make_shared<BlockPointer>();
  pointer->base = base.ir;
  pointer->element = {base.type.element.dtype, false};
  pointer->block = *block;
  if (!ToInt64s(e, args, "shape", block->size(), &pointer->shape) ||
      !ToInt64s(e, args, "strides", block->size(), &pointer->strides) ||
      !ToInt64s(e, args, "offsets", block->size(), &pointer->offsets))
    return {};
  Emitter::At at(e, args.Range("order"));
  std::optional<std::vector<int64_t>> order = e.ConstantInts(args["order"], "an entry of 'order'");
  if (!order) return {};
  std::vector<bool> seen(block->size());
  bool permutation = order->size() == block->size();
  for (int64_t d : *order) {
    permutation = permutation && d >= 0 && d < int64_t(seen.size()) && !seen[d];
    if (permutation) seen[d] = true;
  }
  if (!permutation && !order->empty())
    return e.Error(absl::StrCat("'order' must name each of the ", block->size(), " dimensions once"));
  Value result;
  result.kind = Value::Kind::kBlockPointer;
  result.block_pointer = std::move(pointer);
  return result;
}

Value Advance(Emitter& e, const Arguments& args) {
  const Value& base = args["base"];
  if (base.kind != Value::Kind::kBlockPointer)
    return e.Error(args.Range("base"), absl::StrCat("tl.advance wants a block pointer, not ", Describe(base)));
  auto moved = std::make_shared<BlockPointer>(*base.block_pointer);
  std::vector<mlir::Value> steps;
  if (!ToInt64s(e, args, "offsets", moved->offsets.size(), &steps)) return {};
  for (size_t i = 0; i < steps.size(); ++i)
    moved->offsets[i] = e.Make<mlir::arith::AddIOp>(moved->offsets[i], steps[i]);
  Value result = base;
  result.block_pointer = std::move(moved);
  return result;
}

// The pointers of a block and, for the dimensions in `checked`, the mask of what lies inside the tensor.
void Expand(Emitter& e, const BlockPointer& block, const std::vector<int64_t>& checked, Value* pointer, Value* mask) {
  *pointer = Value::Tensor(block.base, {{block.element.dtype, true}, {}});
  *mask = Value::None();
  size_t rank = block.block.size();
  for (size_t d = 0; d < rank && !e.failed(); ++d) {
    Type line{{DType::kInt32, false}, {block.block[d]}};
    Value index = Value::Tensor(e.Create<tile::RangeOp>(e.IrType(line), uint32_t(0), uint32_t(block.block[d])), line);
    index = e.Add(e.Cast(index, kInt64), Value::Tensor(block.offsets[d], {kInt64, {}}));
    for (size_t axis = 0; axis < rank; ++axis)
      if (axis != d) index = e.ExpandDims(index, axis);
    *pointer = e.Add(*pointer, e.Mul(index, Value::Tensor(block.strides[d], {kInt64, {}})));
    if (std::find(checked.begin(), checked.end(), int64_t(d)) == checked.end()) continue;
    Value inside = e.Binary(BinaryOp::kBitAnd, e.Compare(CompareOp::kGe, index, Value::Int(0)),
                            e.Compare(CompareOp::kLt, index, Value::Tensor(block.shape[d], {kInt64, {}})));
    *mask = mask->is_none() ? inside : e.Binary(BinaryOp::kBitAnd, *mask, inside);
  }
  *pointer = e.BroadcastTo(*pointer, block.block);
  if (!mask->is_none()) *mask = e.BroadcastTo(*mask, block.block);
}

std::optional<std::vector<int64_t>> BoundaryCheck(Emitter& e, const Arguments& args, size_t rank) {
  Emitter::At at(e, args.Range("boundary_check"));
  const Value& value = args["boundary_check"];
  if (value.is_none()) return std::vector<int64_t>{};
  std::optional<std::vector<int64_t>> checked = e.ConstantInts(value, "an entry of 'boundary_check'");
  if (!checked) return std::nullopt;
  for (int64_t d : *checked)
    if (d < 0 || d >= int64_t(rank)) {
      e.Error(absl::StrCat("'boundary_check' names dimension ", d, ", but the block has ", rank, " dimension(s)"));
      return std::nullopt;
    }
  return checked;
}

//===-- load and store --------------------------------------------------------------------------------===//

Value EmitLoad(Emitter& e, const Arguments& args, const Value& pointer, mlir::Value mask, mlir::Value other) {
  std::optional<tile::CacheModifier> cache = CacheModifierOf(e, args);
  std::optional<tile::Eviction> evict = EvictionOf(e, args);
  std::optional<bool> is_volatile = e.ConstantBool(args, "volatile");
  if (!cache || !evict || !is_volatile || e.failed()) return {};
  ElementType element{pointer.type.element.dtype, false};
  Type memory = pointer.type.WithElement(MemoryType(element));
  Value loaded = Value::Tensor(
      e.Create<tile::LoadOp>(e.IrType(memory), pointer.ir, mask, other, *cache, *evict, *is_volatile), memory);
  return e.Cast(loaded, element);
}

Value Load(Emitter& e, const Arguments& args) {
  Value pointer = args["pointer"];
  if (pointer.kind == Value::Kind::kDescriptor)
    return e.Error("a tensor descriptor is read with its method load([...])");
  if (pointer.kind == Value::Kind::kBlockPointer) {
    const BlockPointer block = *pointer.block_pointer;
    if (!args["mask"].is_none() || !args["other"].is_none())
      return e.Error("a block pointer takes boundary_check and padding_option, not mask and other");
    std::optional<std::vector<int64_t>> checked = BoundaryCheck(e, args, block.block.size());
    std::optional<std::string> padding = e.ConstantString(args, "padding_option");
    if (!checked || !padding) return {};
    if (!padding->empty() && *padding != "zero" && *padding != "nan")
      return e.Error(args.Range("padding_option"), absl::StrCat("unknown padding '", *padding, "'; accepted are zero and nan"));
    Value mask, other;
    Expand(e, block, *checked, &pointer, &mask);
    if (e.failed()) return {};
    if (*padding == "nan" && mask.is_tensor()) {
      if (!block.element.is_float())
        return e.Error(args.Range("padding_option"), absl::StrCat("padding 'nan' is for floats, not ", ToString(block.element)));
      Type type{block.element, block.block};
      other = Value::Tensor(e.IrConstant(Constant::Float(std::numeric_limits<double>::quiet_NaN()), type), type);
    }
    return EmitLoad(e, args, pointer, mask.ir, other.ir);
  }
  if (!CheckPointer(e, pointer, args.Range("pointer"), "tl.load")) return {};
  if (args.Given("boundary_check") && !(args["boundary_check"].is_tuple() && args["boundary_check"].items->empty()) &&
      !args["boundary_check"].is_none())
    return e.Error(args.Range("boundary_check"), "boundary_check is for block pointers; use mask here");
  mlir::Value mask, other;
  if (!ReadMask(e, args, &pointer, true, &mask)) return {};
  if (!args["other"].is_none()) {
    Emitter::At at(e, args.Range("other"));
    ElementType element{pointer.type.element.dtype, false};
    const Value& given = args["other"];
    if (given.is_number()) {
      other = e.IrConstant(element.is_bool() ? Constant::Bool(given.constant.as_real() != 0) : AsStrong(given.constant),
                           pointer.type.WithElement(MemoryType(element)));
    } else {
      Value value = e.ToTensor(given, "'other'");
      if (e.failed()) return {};
      if (!pointer.type.is_block() && value.type.is_block())
        return e.Error("'other' is a block, but the pointer is a scalar");
      Shape shape;
      if (!e.CommonShape(pointer.type.shape, value.type.shape, &shape)) return {};
      pointer = e.BroadcastTo(pointer, shape);
      if (mask) {
        Value wide = Value::Tensor(mask, {kBool, {}});
        auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(mask.getType());
        if (tensor) wide.type.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
        mask = e.BroadcastTo(wide, shape).ir;
      }
      other = e.BroadcastTo(e.Cast(e.Cast(value, element), MemoryType(element)), shape).ir;
    }
  }
  if (e.failed()) return {};
  if (!mask) other = {};  // accepted, and without meaning
  return EmitLoad(e, args, pointer, mask, other);
}

Value Store(Emitter& e, const Arguments& args) {
  Value pointer = args["pointer"];
  mlir::Value mask;
  if (pointer.kind == Value::Kind::kDescriptor)
    return e.Error("a tensor descriptor is written with its method store([...], value)");
  if (pointer.kind == Value::Kind::kBlockPointer) {
    const BlockPointer block = *pointer.block_pointer;
    if (!args["mask"].is_none()) return e.Error("a block pointer takes boundary_check, not mask");
    std::optional<std::vector<int64_t>> checked = BoundaryCheck(e, args, block.block.size());
    if (!checked) return {};
    Value inside;
    Expand(e, block, *checked, &pointer, &inside);
    mask = inside.ir;
    if (e.failed()) return {};
  } else if (!CheckPointer(e, pointer, args.Range("pointer"), "tl.store") ||
             !ReadMask(e, args, &pointer, false, &mask)) {
    return {};
  }
  Emitter::At at(e, args.Range("value"));
  ElementType element{pointer.type.element.dtype, false};
  Value value = args["value"];
  if (!value.is_number()) value = e.ToTensor(value, "the stored value");
  if (e.failed()) return {};
  if (value.is_block() && !pointer.type.is_block())
    return e.Error(absl::StrCat("a ", Describe(value), " cannot be stored through a scalar pointer"));
  value = e.BroadcastTo(e.Cast(e.Cast(value, element), MemoryType(element)), pointer.type.shape);
  std::optional<tile::CacheModifier> cache = CacheModifierOf(e, args);
  std::optional<tile::Eviction> evict = EvictionOf(e, args);
  if (e.failed() || !cache || !evict) return {};
  Emitter::At store(e, args.call);
  e.Create<tile::StoreOp>(pointer.ir, value.ir, mask, *cache, *evict);
  return Value::None();
}

//===-- atomics ---------------------------------------------------------------------------------------===//

std::optional<tile::MemSem> SemanticsOf(Emitter& e, const Arguments& args) {
  std::optional<std::string> text = e.ConstantString(args, "sem");
  if (!text) return std::nullopt;
  if (text->empty()) return tile::MemSem::ACQ_REL;
  std::optional<tile::MemSem> sem = tile::symbolizeMemSem(*text);
  if (!sem)
    e.Error(args.Range("sem"), absl::StrCat("unknown memory order '", *text, "'; accepted are acquire, release, acq_rel, relaxed"));
  return sem;
}

std::optional<tile::MemScope> ScopeOf(Emitter& e, const Arguments& args) {
  std::optional<std::string> text = e.ConstantString(args, "scope");
  if (!text) return std::nullopt;
  if (text->empty()) return tile::MemScope::GPU;
  std::optional<tile::MemScope> scope = tile::symbolizeMemScope(*text);
  if (!scope) e.Error(args.Range("scope"), absl::StrCat("unknown scope '", *text, "'; accepted are cta, gpu, sys"));
  return scope;
}

enum class Rmw { kAdd, kMax, kMin, kAnd, kOr, kXor, kXchg };

std::optional<tile::RmwKind> KindOf(Emitter& e, Rmw rmw, const ElementType& element, absl::string_view function) {
  using K = tile::RmwKind;
  auto refuse = [&](absl::string_view accepted) -> std::optional<K> {
    e.Error(absl::StrCat(function, " does not work on ", ToString(element), "; it takes ", accepted));
    return std::nullopt;
  };
  bool wide = element.bits() >= 32;
  switch (rmw) {
    case Rmw::kAdd:
      if (element.is_float() && !element.is_fp8()) return K::FADD;
      if (element.is_int() && wide) return K::ADD;
      return refuse("32- and 64-bit integers, float16, bfloat16, float32 and float64");
    case Rmw::kMax:
    case Rmw::kMin: {
      if (!wide) return refuse("32- and 64-bit integers, float32 and float64");
      bool max = rmw == Rmw::kMax;
      if (element.is_float()) return max ? K::FMAX : K::FMIN;
      if (element.is_signed()) return max ? K::MAX : K::MIN;
      return max ? K::UMAX : K::UMIN;
    }
    case Rmw::kXchg:
      if (!wide) return refuse("types of 32 and 64 bits");
      return K::XCHG;
    default:
      if (!wide || !element.is_int()) return refuse("32- and 64-bit integers");
      return rmw == Rmw::kAnd ? K::AND : rmw == Rmw::kOr ? K::OR : K::XOR;
  }
}

std::function<Value(Emitter&, const Arguments&)> AtomicRmw(Rmw rmw) {
  return [rmw](Emitter& e, const Arguments& args) -> Value {
    Value pointer = args["pointer"];
    if (!CheckPointer(e, pointer, args.Range("pointer"), args.function)) return {};
    ElementType element{pointer.type.element.dtype, false};
    std::optional<tile::RmwKind> kind = KindOf(e, rmw, element, args.function);
    std::optional<tile::MemSem> sem = kind ? SemanticsOf(e, args) : std::nullopt;
    std::optional<tile::MemScope> scope = sem ? ScopeOf(e, args) : std::nullopt;
    mlir::Value mask;
    if (!scope || !ReadMask(e, args, &pointer, false, &mask)) return {};
    Emitter::At at(e, args.Range("val"));
    Value value = args["val"];
    if (!value.is_number()) value = e.ToTensor(value, "the operand of an atomic");
    if (e.failed()) return {};
    if (value.is_block() && !pointer.type.is_block())
      return e.Error(absl::StrCat("a ", Describe(value), " cannot go through a scalar pointer"));
    value = e.BroadcastTo(e.Cast(value, element), pointer.type.shape);
    if (e.failed()) return {};
    Emitter::At call(e, args.call);
    return Value::Tensor(
        e.Create<tile::AtomicRmwOp>(value.ir.getType(), *kind, pointer.ir, value.ir, mask, *sem, *scope), value.type);
  };
}

Value AtomicCas(Emitter& e, const Arguments& args) {
  Value pointer = args["pointer"];
  if (!CheckPointer(e, pointer, args.Range("pointer"), args.function)) return {};
  ElementType element{pointer.type.element.dtype, false};
  if (element.bits() < 16 || element.is_fp8())
    return e.Error(absl::StrCat("tl.atomic_cas does not work on ", ToString(element), "; it takes types of 16, 32 and 64 bits"));
  std::optional<tile::MemSem> sem = SemanticsOf(e, args);
  std::optional<tile::MemScope> scope = sem ? ScopeOf(e, args) : std::nullopt;
  if (!scope) return {};
  Value compare = e.BroadcastTo(e.Cast(args["cmp"], element), pointer.type.shape);
  Value value = e.BroadcastTo(e.Cast(args["val"], element), pointer.type.shape);
  if (e.failed()) return {};
  return Value::Tensor(e.Create<tile::AtomicCasOp>(value.ir.getType(), pointer.ir, compare.ir, value.ir, *sem, *scope),
                       value.type);
}

Value Barrier(Emitter& e, const Arguments&) {
  e.Create<tile::BarrierOp>();
  return Value::None();
}

}  // namespace

void AddMemoryBuiltins(BuiltinTable* t) {
  t->Add("load",
         "pointer, mask=None, other=None, boundary_check=(), padding_option='', cache_modifier='', eviction_policy='', "
         "volatile=False",
         Load);
  t->Add("store", "pointer, value, mask=None, boundary_check=(), cache_modifier='', eviction_policy=''", Store);
  t->Add("make_block_ptr", "base, shape, strides, offsets, block_shape, order=()", MakeBlockPtr);
  t->Add("advance", "base, offsets", Advance);
  t->Add("atomic_add", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kAdd));
  t->Add("atomic_max", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kMax));
  t->Add("atomic_min", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kMin));
  t->Add("atomic_and", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kAnd));
  t->Add("atomic_or", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kOr));
  t->Add("atomic_xor", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kXor));
  t->Add("atomic_xchg", "pointer, val, mask=None, sem=None, scope=None", AtomicRmw(Rmw::kXchg));
  t->Add("atomic_cas", "pointer, cmp, val, sem=None, scope=None", AtomicCas);
  t->Add("debug_barrier", "", Barrier);
}

}  // namespace tessera::frontend
