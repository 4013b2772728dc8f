// The functions of the kernel language: one table entry each, with a declared signature and what emits them.
//
// To add one, add a line to the Add...Builtins function of its group.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_BUILTINS_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_BUILTINS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/check/emitter.h"

namespace tessera::frontend {

struct BuiltinParameter {
  std::string name;
  bool required = true;
  bool star = false;  // takes the remaining positional arguments, as a tuple
  Constant default_value;
};

struct Builtin {
  std::string name;  // canonical: "tl.load", "libdevice.tanh", "min"
  std::vector<BuiltinParameter> parameters;
  std::function<Value(Emitter&, const Arguments&)> emit;
};

class BuiltinTable {
 public:
  // `names`: one or more, separated by spaces; without a dot they are in tl, ".min" is Python's min. `signature` is
  // Python's: "x, axis=None, *rest"; defaults are None, True, False, integers, strings and ().
  void Add(absl::string_view names, absl::string_view signature, std::function<Value(Emitter&, const Arguments&)> emit);
  const Builtin* Find(const std::string& name) const;
  const std::map<std::string, Builtin>& all() const { return builtins_; }

 private:
  std::map<std::string, Builtin> builtins_;
};

// One for each group, in a file of its own.
void AddMemoryBuiltins(BuiltinTable* table);
void AddMathBuiltins(BuiltinTable* table);
void AddLibdeviceBuiltins(BuiltinTable* table);
void AddReductionBuiltins(BuiltinTable* table);
void AddShapeBuiltins(BuiltinTable* table);
void AddRandomBuiltins(BuiltinTable* table);
void AddProgramBuiltins(BuiltinTable* table);
void AddRoundingBuiltins(BuiltinTable* table);
void AddSpecialBuiltins(BuiltinTable* table);
void AddDescriptorBuiltins(BuiltinTable* table);

// By canonical name; aliases such as tl.math.exp lead to the same entry. Null: unknown.
const Builtin* FindBuiltin(const std::string& name);

// Whether x.name(...) is tl.name(x, ...).
bool IsTensorMethod(const std::string& name);
std::vector<std::string> TensorMethods();

// "unknown function tl.foo; did you mean 'tl.for'?".
std::string UnknownFunction(const std::string& name);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_BUILTINS_H_
