// A value known when a kernel is compiled.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_CONSTANT_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_CONSTANT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "compiler/frontend/parse/ast.h"
#include "proto/storage/modules.pb.h"

namespace tessera::frontend {

struct Function;    // module_index.h
class Environment;  // module_index.h

// Wide enough for the sum or the negative of any two; a Constant holds -2^63 to 2^64-1 of it.
using Integer = __int128;

enum class ConstantKind {
  kNone, kBool, kInt, kFloat, kString,
  kDType,        // tl.float16; torch.float16 reads as the same
  kPointerType,  // pointer to `dtype`
  kTuple, kList, kDict, kSet,
  kFunction,     // a function of the module, see Function::kind
  kLambda,       // `lambda` evaluated in `scope`
  kModule,       // `text`: "triton", "tl", "tl.math", "libdevice", "torch", "math"; "file:2" is a file of the module
  kBuiltin,      // `text`: canonical name: "tl.load", "triton.cdiv", "libdevice.tanh", "min", "tl.constexpr", "tl.tensor"
  kConfig,       // triton.Config: items[0] is the kDict of values, items[1] the kDict of options
  kExternal,     // `text`: dotted name of something outside the module; an error as soon as it is used
};

struct Constant {
  ConstantKind kind = ConstantKind::kNone;
  bool boolean = false;
  Integer integer = 0;
  double real = 0;
  DType dtype = DType::kInt32;
  std::string text;
  // kTuple, kList, kSet, kConfig: elements. kDict: keys and values alternating. Never null for these; lists and
  // dicts are shared by their copies, as in Python.
  std::shared_ptr<std::vector<Constant>> items;
  const Function* function = nullptr;
  const Expr* lambda = nullptr;
  std::shared_ptr<const Environment> scope;  // of `lambda`

  static Constant None() { return {}; }
  static Constant Bool(bool value);
  static Constant Int(Integer value);  // must be in range, see InRange
  static Constant Float(double value);
  static Constant String(std::string value);
  static Constant Type(DType value);
  static Constant PointerType(DType element);
  static Constant Tuple(std::vector<Constant> items);
  static Constant List(std::vector<Constant> items);
  static Constant Dict(std::vector<Constant> keys_and_values);
  static Constant Set(std::vector<Constant> items);  // removes duplicates
  static Constant Of(const Function* function);
  static Constant Module(std::string name);
  static Constant Builtin(std::string name);
  static Constant External(std::string name);

  bool is(ConstantKind k) const { return kind == k; }
  bool is_none() const { return kind == ConstantKind::kNone; }
  bool is_number() const {  // bool counts, as in Python
    return kind == ConstantKind::kBool || kind == ConstantKind::kInt || kind == ConstantKind::kFloat;
  }
  bool is_integral() const { return kind == ConstantKind::kBool || kind == ConstantKind::kInt; }
  bool is_builtin(absl::string_view name) const { return kind == ConstantKind::kBuiltin && text == name; }
  Integer as_integer() const { return kind == ConstantKind::kBool ? Integer(boolean) : integer; }
  double as_real() const { return kind == ConstantKind::kFloat ? real : static_cast<double>(as_integer()); }
};

bool InRange(Integer value);
std::string ToString(Integer value);

// What Python's repr prints: "1.5", "'relu'", "(1, 2)", "tl.float16". Deterministic; equal texts mean equal values
// except for kFunction and kLambda.
std::string Repr(const Constant& value);
// "int", "str", "tuple", "tl.dtype", "jit function", for messages.
std::string KindName(const Constant& value);
// Python's ==. Functions are equal if they are the same definition.
bool Equal(const Constant& a, const Constant& b);

// For kinds that a launch can carry: None, bool, int, float, str, dtype, jit function, tuple (lists become tuples).
// nullopt for others.
std::optional<storage::ConstantValue> ToStorage(const Constant& value);
// `find_function` maps a jit function's name to its definition; nullptr from it, or an unknown dtype, gives nullopt and
// `error`.
class ModuleIndex;
std::optional<Constant> FromStorage(const storage::ConstantValue& value, const ModuleIndex& module, std::string* error);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_CONSTANT_H_
