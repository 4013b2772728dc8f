#include "compiler/frontend/check/value.h"

#include <functional>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

using Kind = Value::Kind;

// Calls `visit` on each IR value of `value` in a fixed order. One place, so that flattening and rebuilding agree.
void Visit(Value& value, const std::function<void(mlir::Value&)>& visit) {
  switch (value.kind) {
    case Kind::kTensor:
      visit(value.ir);
      value.constant = Constant::None();  // another IR value, of which nothing is known
      return;
    case Kind::kTuple:
    case Kind::kMethod: {
      auto items = std::make_shared<std::vector<Value>>(*value.items);
      for (Value& item : *items) Visit(item, visit);
      value.items = items;
      return;
    }
    case Kind::kBlockPointer: {
      auto block = std::make_shared<BlockPointer>(*value.block_pointer);
      visit(block->base);
      for (auto* list : {&block->shape, &block->strides, &block->offsets})
        for (mlir::Value& v : *list) visit(v);
      value.block_pointer = block;
      return;
    }
    case Kind::kDescriptor: {
      auto descriptor = std::make_shared<Descriptor>(*value.descriptor);
      visit(descriptor->base);
      for (auto* list : {&descriptor->shape, &descriptor->strides})
        for (mlir::Value& v : *list) visit(v);
      value.descriptor = descriptor;
      return;
    }
    case Kind::kError:
    case Kind::kConstant:
    case Kind::kType: return;
  }
}

}  // namespace

Value Value::Of(const Constant& constant) {
  Value v;
  if (constant.is(ConstantKind::kTuple) || constant.is(ConstantKind::kList)) {
    v.kind = Kind::kTuple;
    v.items = std::make_shared<std::vector<Value>>();
    for (const Constant& item : *constant.items) v.items->push_back(Of(item));
    return v;
  }
  v.kind = Kind::kConstant;
  v.constant = constant;
  return v;
}

Value Value::Tensor(mlir::Value ir, Type type) {
  Value v;
  v.kind = Kind::kTensor;
  v.ir = ir;
  v.type = std::move(type);
  return v;
}

Value Value::Tuple(std::vector<Value> items) {
  Value v;
  v.kind = Kind::kTuple;
  v.items = std::make_shared<std::vector<Value>>(std::move(items));
  return v;
}

Value Value::TypeOf(Type type) {
  Value v;
  v.kind = Kind::kType;
  v.type = std::move(type);
  return v;
}

Value Value::TypeOfConstant(Value constant) {
  Value v;
  v.kind = Kind::kType;
  if (constant.is_number()) v.type = {LiteralType(constant.constant), {}};
  v.items = std::make_shared<std::vector<Value>>(1, std::move(constant));
  return v;
}

Value Value::Method(Value self, std::string name) {
  Value v;
  v.kind = Kind::kMethod;
  v.items = std::make_shared<std::vector<Value>>(1, std::move(self));
  v.constant.text = std::move(name);
  return v;
}

std::string Describe(const Value& value) {
  switch (value.kind) {
    case Kind::kError: return "an error";
    case Kind::kConstant:
      if (value.constant.is_none()) return "None";
      if (value.constant.is_number() || value.constant.is(ConstantKind::kString))
        return absl::StrCat("the constant ", Repr(value.constant));
      return absl::StrCat(Repr(value.constant), " (", KindName(value.constant), ")");
    case Kind::kTensor: return ToString(value.type);
    case Kind::kTuple:
      if (value.of_class) return absl::StrCat("a ", value.of_class->name);
      return absl::StrCat("a tuple of ", value.items->size());
    case Kind::kBlockPointer:
      return absl::StrCat("block pointer to ", ToString(value.block_pointer->element), " ",
                          ToString(value.block_pointer->block));
    case Kind::kDescriptor:
      return absl::StrCat("tensor descriptor of ", ToString(value.descriptor->element), " ",
                          ToString(value.descriptor->block), value.descriptor->nan_padding ? " padded with NaN" : "");
    case Kind::kType: return absl::StrCat("the type ", ToString(value.type));
    case Kind::kMethod: return absl::StrCat("the method ", value.constant.text);
  }
  return "";
}

std::optional<Constant> ToConstant(const Value& value) {
  if (value.is_constant()) return value.constant;
  if (value.kind == Kind::kType && !value.type.is_block() && (!value.items || (*value.items)[0].is_number()))
    return value.type.element.pointer ? Constant::PointerType(value.type.element.dtype)
                                      : Constant::Type(value.type.element.dtype);
  if (!value.is_tuple()) return std::nullopt;
  std::vector<Constant> items;
  for (const Value& item : *value.items) {
    std::optional<Constant> c = ToConstant(item);
    if (!c) return std::nullopt;
    items.push_back(*std::move(c));
  }
  return Constant::Tuple(std::move(items));
}

void Flatten(const Value& value, std::vector<mlir::Value>* out) {
  if (value.is_tensor()) {
    out->push_back(value.ir);
    return;
  }
  Value copy = value;
  Visit(copy, [&](mlir::Value& v) { out->push_back(v); });
}

Value Rebuild(const Value& like, const mlir::Value*& next) {
  Value copy = like;
  Visit(copy, [&](mlir::Value& v) { v = *next++; });
  return copy;
}

bool SameMake(const Value& a, const Value& b, std::string* difference) {
  auto differ = [&] {
    *difference = absl::StrCat(Describe(a), " and ", Describe(b));
    return false;
  };
  if (a.kind != b.kind) return differ();
  switch (a.kind) {
    case Kind::kError: return true;
    case Kind::kConstant:
      return (a.constant.kind == b.constant.kind && Equal(a.constant, b.constant)) || differ();
    case Kind::kType:
      if (a.is_type_of_constant() != b.is_type_of_constant()) return differ();
      if (a.is_type_of_constant()) return SameMake((*a.items)[0], (*b.items)[0], difference);
      [[fallthrough]];
    case Kind::kTensor: return a.type == b.type || differ();
    case Kind::kMethod:
      if (a.constant.text != b.constant.text) return differ();
      [[fallthrough]];
    case Kind::kTuple:
      if (a.of_class != b.of_class || a.items->size() != b.items->size()) return differ();
      for (size_t i = 0; i < a.items->size(); ++i)
        if (!SameMake((*a.items)[i], (*b.items)[i], difference)) return false;
      return true;
    case Kind::kBlockPointer:
      return (a.block_pointer->element == b.block_pointer->element && a.block_pointer->block == b.block_pointer->block &&
              a.block_pointer->shape.size() == b.block_pointer->shape.size()) || differ();
    case Kind::kDescriptor:
      return (a.descriptor->element == b.descriptor->element && a.descriptor->block == b.descriptor->block &&
              a.descriptor->nan_padding == b.descriptor->nan_padding) || differ();
  }
  return false;
}

bool Identical(const Value& a, const Value& b) {
  std::string ignored;
  if (!SameMake(a, b, &ignored)) return false;
  std::vector<mlir::Value> x, y;
  Flatten(a, &x);
  Flatten(b, &y);
  return x == y;
}

}  // namespace tessera::frontend
