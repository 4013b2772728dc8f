// Types of runtime values in the kernel language, and the rules that combine them. No IR here.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_TYPE_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "compiler/frontend/module/constant.h"

namespace tessera::frontend {

// Of one element: a number, or a pointer to numbers.
struct ElementType {
  DType dtype = DType::kInt32;  // of the pointee for pointers
  bool pointer = false;

  bool is_float() const { return !pointer && IsFloat(dtype); }
  bool is_int() const { return !pointer && !IsFloat(dtype); }  // int1 too
  bool is_bool() const { return !pointer && dtype == DType::kInt1; }
  bool is_signed() const { return !pointer && IsSigned(dtype); }
  bool is_fp8() const { return is_float() && ByteSize(dtype) == 1; }
  bool is(DType d) const { return !pointer && dtype == d; }
  int bits() const { return pointer ? 64 : dtype == DType::kInt1 ? 1 : 8 * ByteSize(dtype); }
  friend bool operator==(const ElementType& a, const ElementType& b) {
    return a.dtype == b.dtype && a.pointer == b.pointer;
  }
  friend bool operator!=(const ElementType& a, const ElementType& b) { return !(a == b); }
};

using Shape = std::vector<int64_t>;

// Of a runtime value: a scalar (no dimensions) or a block.
struct Type {
  ElementType element;
  Shape shape;

  bool is_block() const { return !shape.empty(); }
  int64_t elements() const;
  Type WithElement(ElementType e) const { return {e, shape}; }
  friend bool operator==(const Type& a, const Type& b) { return a.element == b.element && a.shape == b.shape; }
  friend bool operator!=(const Type& a, const Type& b) { return !(a == b); }
};

// "int32", "float16", "pointer to float16".
std::string ToString(const ElementType& type);
// "[128, 64]".
std::string ToString(const Shape& shape);
// "int32 scalar", "float16 block [128, 64]".
std::string ToString(const Type& type);

// The most elements a block may have.
constexpr int64_t kMaxBlockElements = 1048576;

// Empty, or a sentence that says why no block can have this shape.
std::string CheckBlockShape(const Shape& shape);

// The type a literal takes where nothing else decides: bool int1; integers int32, uint32, int64, uint64, the first
// that fits; floats fp32, or fp64 outside fp32's normal range. `number` is_number().
ElementType LiteralType(const Constant& number);

// The value that a literal has once it is a scalar of its LiteralType: floats are rounded to fp32.
Constant AsStrong(const Constant& number);

// Whether the value of an integer constant can be held by an integer type.
bool Fits(Integer value, const ElementType& type);

// One operand as the promotion rules see it: its type, and its value while it is still a weak literal.
struct Operand {
  ElementType type;  // LiteralType for weak ones
  const Constant* weak = nullptr;
};

// C's usual arithmetic conversions between two integer types.
ElementType PromoteIntegers(const ElementType& a, const ElementType& b);

// The type in which a binary operation on two numbers computes. `div_or_mod`: for `/`, `//` and `%`. nullopt: no such
// operation; `error` says why and what is accepted.
std::optional<ElementType> Promote(const Operand& a, const Operand& b, bool div_or_mod, std::string* error);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_TYPE_H_
