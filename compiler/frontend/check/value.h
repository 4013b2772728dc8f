// What an expression of a kernel evaluates to while it is being emitted.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_VALUE_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_VALUE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/check/type.h"
#include "compiler/frontend/module/constant.h"
#include "compiler/frontend/module/module_index.h"
#include "mlir/IR/Value.h"

namespace tessera::frontend {

struct Value;

// tl.make_block_ptr: plain values, turned into pointers and masks where memory is accessed.
struct BlockPointer {
  mlir::Value base;  // scalar pointer
  ElementType element;  // of the base
  std::vector<mlir::Value> shape, strides, offsets;  // i64 scalars, one a dimension
  Shape block;
};

// A tensor descriptor: plain values, made into one (tile.make_desc) where memory is accessed. So control flow carries
// its parts, never itself.
struct Descriptor {
  mlir::Value base;
  bool nan_padding = false;
  ElementType element;  // of the tensor
  Shape block;
  std::vector<mlir::Value> shape, strides;  // i32 and i64 scalars
};

// A class of the module whose instances a kernel may make: a NamedTuple, or an aggregate with methods.
struct Class {
  struct Field {
    std::string name;
    const Expr* default_value;  // may be null
    bool is_constexpr;
  };
  std::string key;  // names it in the module
  std::string name;
  std::vector<Field> fields;
  std::map<std::string, Function> methods;
  bool is_named_tuple = false;  // else its fields may be assigned, and __init__ makes an instance
  const Environment* scope = nullptr;
};

struct Value {
  enum class Kind {
    kError,         // an error has been reported; everything made of it is one too
    kConstant,      // known at compile time; a number adapts to what it meets ("weak")
    kTensor,        // a runtime scalar or block
    kTuple,         // of values; lists too
    kBlockPointer,
    kDescriptor,
    kType,          // `x.type` of a block or pointer
    kMethod,        // `items[0]`.`constant.text`, to be called
  };
  Kind kind = Kind::kError;
  // kConstant. kTensor: an integer if Triton would know the value here, because an argument is 1; else None. Only the
  // direction of a loop depends on it.
  Constant constant;
  Type type;       // kTensor, kType
  bool is_pointer_to_block = false;  // kType: of a block pointer, whose block `type` is
  mlir::Value ir;  // kTensor
  std::shared_ptr<std::vector<Value>> items;          // kTuple, kMethod; kType: one, the constant whose type it is, or null
  std::shared_ptr<std::vector<std::string>> fields;   // kTuple: names of a named tuple; else null
  std::shared_ptr<const Class> of_class;              // kTuple: what it is an instance of; else null
  std::shared_ptr<const BlockPointer> block_pointer;  // never changed once made
  std::shared_ptr<const Descriptor> descriptor;

  // Tuples and lists become kTuple.
  static Value Of(const Constant& constant);
  static Value None() { return Of(Constant::None()); }
  static Value Int(Integer value) { return Of(Constant::Int(value)); }
  static Value Tensor(mlir::Value ir, Type type);
  static Value Tuple(std::vector<Value> items);
  static Value TypeOf(Type type);
  static Value TypeOfConstant(Value constant);  // tl.constexpr_type
  static Value Method(Value self, std::string name);

  bool is_error() const { return kind == Kind::kError; }
  bool is_constant() const { return kind == Kind::kConstant; }
  bool is_constant(ConstantKind k) const { return is_constant() && constant.kind == k; }
  bool is_none() const { return is_constant() && constant.is_none(); }
  bool is_known_integer() const { return is_tensor() && constant.is(ConstantKind::kInt); }
  bool is_number() const { return is_constant() && constant.is_number(); }  // weak
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool is_type_of_constant() const { return kind == Kind::kType && items; }
  bool is_tuple() const { return kind == Kind::kTuple; }
  bool is_block() const { return is_tensor() && type.is_block(); }
  bool is_scalar() const { return is_tensor() && !type.is_block(); }
};

// "float32 block [128]", "the constant 3", "None", "a tuple of 2", for messages.
std::string Describe(const Value& value);

// The value as a constant (tuples of constants too); nullopt if a part is known at run time only.
std::optional<Constant> ToConstant(const Value& value);

// Appends the IR values that `value` consists of.
void Flatten(const Value& value, std::vector<mlir::Value>* out);
// A value of the same make as `like`, with IR values taken from `next` on, which moves past them.
Value Rebuild(const Value& like, const mlir::Value*& next);
// Whether two values differ at most in their IR values. If not, `difference` says what does.
bool SameMake(const Value& a, const Value& b, std::string* difference);
// Whether two values are the same in every part.
bool Identical(const Value& a, const Value& b);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_VALUE_H_
