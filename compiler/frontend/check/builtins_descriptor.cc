// Tensor descriptors: made in the kernel or passed by the host, read and written in blocks.
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"

namespace tessera::frontend {
namespace {

using Emit = std::function<Value(Emitter&, const Arguments&)>;

constexpr ElementType kInt32{DType::kInt32, false};
constexpr ElementType kInt64{DType::kInt64, false};

// Integer scalars of one type.
bool Scalars(Emitter& e, const Arguments& args, absl::string_view name, size_t count, const ElementType& type,
             std::vector<mlir::Value>* out) {
  Emitter::At at(e, args.Range(name));
  const Value& list = args[name];
  std::vector<Value> items = list.is_tuple() ? *list.items : std::vector<Value>{list};
  if (items.size() != count) {
    e.Error(absl::StrCat("'", name, "' has ", items.size(), " entries, but the block has ", count, " dimension(s)"));
    return false;
  }
  for (const Value& item : items) {
    Value scalar = item.is_block() && item.type.elements() == 1 ? e.Unsplat(item) : item;
    bool fine = scalar.is_constant() ? scalar.constant.is_integral() : scalar.is_scalar() && scalar.type.element.is_int();
    if (!fine) {
      e.Error(absl::StrCat("the entries of '", name, "' must be integer scalars, not ", Describe(item)));
      return false;
    }
    out->push_back(e.Cast(scalar, type).ir);
  }
  return !e.failed();
}

Value MakeDescriptor(Emitter& e, const Arguments& args) {
  const Value& base = args["base"];
  if (!base.is_scalar() || !base.type.element.pointer)
    return e.Error(args.Range("base"), absl::StrCat("the base of a tensor descriptor must be a pointer, not ", Describe(base)));
  std::optional<Shape> block = e.BlockShape(args, "block_shape");
  std::optional<std::string> padding = e.ConstantString(args, "padding_option");
  if (!block || !padding) return {};
  if (!padding->empty() && *padding != "zero" && *padding != "nan")
    return e.Error(args.Range("padding_option"), absl::StrCat("unknown padding '", *padding, "'; accepted are zero and nan"));
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->base = base.ir;
  descriptor->nan_padding = *padding == "nan";
  descriptor->element = {base.type.element.dtype, false};
  descriptor->block = *block;
  if (descriptor->element.is_bool()) return e.Error(args.Range("base"), "a tensor descriptor cannot describe bools");
  if (block->empty()) return e.Error(args.Range("block_shape"), "a tensor descriptor needs at least one dimension");
  if (!Scalars(e, args, "shape", block->size(), kInt32, &descriptor->shape) ||
      !Scalars(e, args, "strides", block->size(), kInt64, &descriptor->strides))
    return {};
  const Value& strides = args["strides"];
  if (strides.is_tuple() && strides.items->back().is_constant(ConstantKind::kInt) &&
      strides.items->back().constant.integer != 1)
    return e.Error(args.Range("strides"), "the last stride of a tensor descriptor must be 1");
  Value value;
  value.kind = Value::Kind::kDescriptor;
  value.descriptor = std::move(descriptor);
  return value;
}

const Descriptor* Self(Emitter& e, const Arguments& args) {
  if (args["desc"].kind == Value::Kind::kDescriptor) return args["desc"].descriptor.get();
  e.Error(args.Range("desc"), absl::StrCat("a tensor descriptor is needed, not ", Describe(args["desc"])));
  return nullptr;
}

mlir::Value Made(Emitter& e, const Descriptor& d) {
  auto type = tile::DescType::get(d.base.getContext(), d.block, e.IrType(d.element));
  return e.Create<tile::MakeDescOp>(type, d.base, d.shape, d.strides, d.nan_padding);
}

Value Load(Emitter& e, const Arguments& args) {
  const Descriptor* d = Self(e, args);
  std::vector<mlir::Value> indices;
  if (!d || !Scalars(e, args, "offsets", d->block.size(), kInt32, &indices)) return {};
  Type type{d->element, d->block};
  return Value::Tensor(e.Create<tile::DescLoadOp>(e.IrType(type), Made(e, *d), mlir::ValueRange(indices)), type);
}

Emit Store(std::optional<BinaryOp> reduce, std::optional<bool> extreme) {
  return [=](Emitter& e, const Arguments& args) -> Value {
    const Descriptor* d = Self(e, args);
    std::vector<mlir::Value> indices;
    if (!d || !Scalars(e, args, "offsets", d->block.size(), kInt32, &indices)) return {};
    Value value = args["value"];
    if (!value.is_number()) value = e.ToTensor(value, "the stored value");
    if (e.failed()) return {};
    value = e.BroadcastTo(e.Cast(value, d->element), d->block);
    if (e.failed()) return {};
    tile::RmwKindAttr kind;
    bool is_float = d->element.is_float(), is_signed = d->element.is_signed();
    auto set = [&](tile::RmwKind k) { kind = tile::RmwKindAttr::get(value.ir.getContext(), k); };
    if (extreme)
      set(is_float ? (*extreme ? tile::RmwKind::FMAX : tile::RmwKind::FMIN)
                   : is_signed ? (*extreme ? tile::RmwKind::MAX : tile::RmwKind::MIN)
                               : (*extreme ? tile::RmwKind::UMAX : tile::RmwKind::UMIN));
    else if (reduce == BinaryOp::kAdd)
      set(is_float ? tile::RmwKind::FADD : tile::RmwKind::ADD);
    else if (reduce)
      set(*reduce == BinaryOp::kBitAnd ? tile::RmwKind::AND
                                       : *reduce == BinaryOp::kBitOr ? tile::RmwKind::OR : tile::RmwKind::XOR);
    if (is_float && reduce && *reduce != BinaryOp::kAdd)
      return e.Error(absl::StrCat(args.function, " wants integers, not ", ToString(d->element)));
    e.Create<tile::DescStoreOp>(Made(e, *d), mlir::ValueRange(indices), value.ir, kind);
    return Value::None();
  };
}

// The pointers of rows x_offsets, columns y_offset .. of a 2-D tensor, and which of them lie inside.
bool Rows(Emitter& e, const Arguments& args, const Descriptor& d, Value* pointers, Value* inside) {
  const Value& rows = args["x_offsets"];
  if (d.block.size() != 2 || d.block[0] != 1) {
    e.Error(absl::StrCat(args.function, " wants a descriptor with a block of one row, not ", ToString(d.block)));
    return false;
  }
  if (!rows.is_block() || rows.type.shape.size() != 1 || !rows.type.element.is_int()) {
    e.Error(args.Range("x_offsets"), absl::StrCat("'x_offsets' must be a 1-D block of integers, not ", Describe(rows)));
    return false;
  }
  std::vector<mlir::Value> column;
  if (!Scalars(e, args, "y_offset", 1, kInt64, &column)) return false;
  auto scalar = [&](mlir::Value v, const ElementType& type) { return e.Cast(Value::Tensor(v, {type, {}}), kInt64); };
  Type line{kInt32, {d.block[1]}};
  Value columns = Value::Tensor(e.Create<tile::RangeOp>(e.IrType(line), uint32_t(0), uint32_t(d.block[1])), line);
  columns = e.ExpandDims(e.Add(e.Cast(columns, kInt64), scalar(column[0], kInt64)), 0);
  Value row = e.ExpandDims(e.Cast(rows, kInt64), 1);
  Value base = Value::Tensor(d.base, {{d.element.dtype, true}, {}});
  *pointers = e.Add(e.Add(base, e.Mul(row, scalar(d.strides[0], kInt64))), e.Mul(columns, scalar(d.strides[1], kInt64)));
  auto within = [&](const Value& index, mlir::Value extent) {
    return e.Binary(BinaryOp::kBitAnd, e.Compare(CompareOp::kGe, index, Value::Int(0)),
                    e.Compare(CompareOp::kLt, index, scalar(extent, kInt32)));
  };
  *inside = e.Binary(BinaryOp::kBitAnd, within(row, d.shape[0]), within(columns, d.shape[1]));
  return !e.failed();
}

Value GatherRows(Emitter& e, const Arguments& args) {
  const Descriptor* d = Self(e, args);
  Value pointers, inside;
  if (!d || !Rows(e, args, *d, &pointers, &inside)) return {};
  Type type = pointers.type.WithElement(d->element);
  mlir::Value other;
  if (d->nan_padding) other = e.IrConstant(Constant::Float(std::numeric_limits<double>::quiet_NaN()), type);
  return Value::Tensor(e.Create<tile::LoadOp>(e.IrType(type), pointers.ir, inside.ir, other), type);
}

Value ScatterRows(Emitter& e, const Arguments& args) {
  const Descriptor* d = Self(e, args);
  Value pointers, inside;
  if (!d || !Rows(e, args, *d, &pointers, &inside)) return {};
  Value value = e.ToTensor(args["value"], "the stored value");
  if (e.failed()) return {};
  value = e.BroadcastTo(e.Cast(value, d->element), pointers.type.shape);
  if (e.failed()) return {};
  e.Create<tile::StoreOp>(pointers.ir, value.ir, inside.ir);
  return Value::None();
}

}  // namespace

void AddDescriptorBuiltins(BuiltinTable* t) {
  t->Add("make_tensor_descriptor _experimental_make_tensor_descriptor",
         "base, shape, strides, block_shape, padding_option='zero'", MakeDescriptor);
  t->Add("load_tensor_descriptor descriptor.load", "desc, offsets", Load);
  t->Add("store_tensor_descriptor descriptor.store", "desc, offsets, value", Store(std::nullopt, std::nullopt));
  t->Add("descriptor.atomic_add", "desc, offsets, value", Store(BinaryOp::kAdd, std::nullopt));
  t->Add("descriptor.atomic_and", "desc, offsets, value", Store(BinaryOp::kBitAnd, std::nullopt));
  t->Add("descriptor.atomic_or", "desc, offsets, value", Store(BinaryOp::kBitOr, std::nullopt));
  t->Add("descriptor.atomic_xor", "desc, offsets, value", Store(BinaryOp::kBitXor, std::nullopt));
  t->Add("descriptor.atomic_max", "desc, offsets, value", Store(std::nullopt, true));
  t->Add("descriptor.atomic_min", "desc, offsets, value", Store(std::nullopt, false));
  t->Add("descriptor.gather", "desc, x_offsets, y_offset", GatherRows);
  t->Add("descriptor.scatter", "desc, value, x_offsets, y_offset", ScatterRows);
}

}  // namespace tessera::frontend
