// Which names a module defines, over all of its files, and what they stand for.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_MODULE_INDEX_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_MODULE_INDEX_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/module/constant.h"
#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

// The answer to a look-up of a name.
struct Lookup {
  enum class Outcome {
    kFound,
    kUndefined,
    kNotConstant,  // defined, but its value cannot be known at compile time
  };
  Outcome outcome = Outcome::kUndefined;
  Constant value;            // kFound
  SourceRange definition;    // line 0 if it has no place (builtins)
  std::string reason;        // kNotConstant: why, e.g. "'os.environ' is not part of the module"
  SourceRange reason_range;  // where in the source that is

  bool found() const { return outcome == Outcome::kFound; }
  static Lookup Found(Constant value, SourceRange definition = {});
  static Lookup NotConstant(std::string reason, SourceRange at);
};

// Names in scope. Look-ups go outwards to enclosing scopes, then to Python's builtins.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual Lookup Find(absl::string_view name) const = 0;
};

// A function defined in the module.
struct Function {
  enum class Kind {
    kJit,        // @triton.jit
    kConstexpr,  // @triton.constexpr_function
    kHost,       // any other def
    kForeign,    // @gluon.jit and other dialects: an error when called
  };
  Kind kind = Kind::kHost;
  std::string name;
  const Stmt* definition = nullptr;
  const Environment* scope = nullptr;  // where its free names are looked up; owned by the index
  int file = 0;
  bool in_class = false;
  std::string note;  // e.g. which of several definitions this is
};

// Built once for each module; look-ups evaluate on demand and remember. Not thread-safe.
class ModuleIndex {
 public:
  // `files` must outlive the index. Never fails.
  explicit ModuleIndex(const std::vector<File>& files);
  ~ModuleIndex();

  const std::vector<File>& files() const;

  // The jit functions, file by file in source order. Of several definitions of a name in one scope only the one in force.
  const std::vector<const Function*>& jit_functions() const;

  // The jit function that a launch or a constant names: the main (first) file's, else the first of the others'.
  // nullptr: there is none.
  const Function* FindJitFunction(absl::string_view name) const;

  // `name` as the top level of file number `file` sees it.
  Lookup Resolve(absl::string_view name, int file) const;
  const Environment& FileScope(int file) const;

  // An attribute of a value: `tl.load`, `helpers.scale` with a module of ours, `tl.float16.primitive_bitwidth`.
  // Methods (`dtype.is_fp8`) are not values: see CallMethod in evaluate.h.
  Lookup Attribute(const Constant& base, absl::string_view name) const;

  // What Python's hasattr answers, as far as the compiler knows `base`.
  bool HasAttribute(const Constant& base, absl::string_view name) const;

  // The canonical name of a decorator, "triton.autotune", wherever it was imported from; as written if it was not.
  std::string DecoratorName(const Expr& decorator, const Environment& scope) const;

  // What name number `which` of an import statement in file number `file` stands for.
  Lookup Imported(const Stmt& import, size_t which, int file) const;

 private:
  friend class Scope;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_MODULE_INDEX_H_
