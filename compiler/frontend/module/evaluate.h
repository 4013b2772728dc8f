// Evaluates host-level Python expressions at compile time, with Python's semantics.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_EVALUATE_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_EVALUATE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/module/constant.h"
#include "compiler/frontend/module/module_index.h"
#include "compiler/frontend/parse/ast.h"

namespace tessera::frontend {

//===-- single operations on constants -------------------------------------------------------------===//
// nullopt: impossible, and `error` is a sentence that says why ("integer division by zero").

std::optional<bool> Truth(const Constant& value, std::string* error);
std::optional<Constant> EvaluateUnary(UnaryOp op, const Constant& a, std::string* error);
// Python's: `//` and `%` floor, `/` gives a float, `**` of ints stays int if the exponent is not negative.
std::optional<Constant> EvaluateBinary(BinaryOp op, const Constant& a, const Constant& b, std::string* error);
std::optional<Constant> EvaluateCompare(CompareOp op, const Constant& a, const Constant& b, std::string* error);
std::optional<Constant> EvaluateSubscript(const Constant& base, const Constant& index, std::string* error);
// Each bound may be None.
std::optional<Constant> EvaluateSlice(const Constant& base, const Constant& start, const Constant& stop,
                                      const Constant& step, std::string* error);
// The elements of a tuple, list, set, string or the keys of a dict.
std::optional<std::vector<Constant>> Elements(const Constant& value, std::string* error);

using NamedConstants = std::vector<std::pair<std::string, Constant>>;

// Whether CallBuiltin knows the canonical name: "len", "min", "triton.cdiv", "tl.cdiv", "tl.constexpr", "math.log2", ...
bool IsCompileTimeBuiltin(absl::string_view name);
std::optional<Constant> CallBuiltin(absl::string_view name, const std::vector<Constant>& arguments,
                                    const NamedConstants& keywords, std::string* error);
// base.method(...): string, list and dict methods, dtype.is_fp8() and its kin.
std::optional<Constant> CallMethod(const Constant& base, absl::string_view method,
                                   const std::vector<Constant>& arguments, const NamedConstants& keywords,
                                   std::string* error);

// An attribute that is a value: dtype.primitive_bitwidth, config.kwargs, constant.value.
Lookup ConstantAttribute(const Constant& base, absl::string_view name);

//===-- expressions --------------------------------------------------------------------------------===//

struct EvaluationLimits {
  int64_t steps = 1'000'000;     // nodes evaluated over the life of the Evaluator
  int64_t elements = 1'000'000;  // of all lists, strings and ranges made
  int depth = 60;                // nested calls of functions
};

struct EvaluationError {
  SourceRange range;
  std::string message;
};

// Evaluates expressions and calls host functions of the module. Never hangs: limits end a runaway with an error.
class Evaluator {
 public:
  explicit Evaluator(const ModuleIndex& module, EvaluationLimits limits = {});

  // nullopt: error() says what is wrong and where.
  std::optional<Constant> Evaluate(const Expr& expression, const Environment& environment);
  // The same, and reports the error.
  std::optional<Constant> Evaluate(const Expr& expression, const Environment& environment, Diagnostics* diagnostics);

  // Calls a lambda, a builtin, or a host or constexpr function of the module. `call` is the place errors name when
  // they have no better one.
  std::optional<Constant> Call(const Constant& callee, const std::vector<Constant>& arguments,
                               const NamedConstants& keywords, SourceRange call);

  // Executes a statement of host code and returns what `name` is afterwards; `before` is what it was.
  std::optional<Constant> Run(const Stmt& statement, const std::string& name, std::optional<Constant> before,
                              const Environment& environment);

  const EvaluationError& error() const { return error_; }
  int64_t steps_used() const { return granted_steps_ - limits_.steps; }

 private:
  friend class Interpreter;
  const ModuleIndex& module_;
  EvaluationLimits limits_;  // what is left of them
  int64_t granted_steps_;
  EvaluationError error_;
};

// An environment made of a few values in front of another one (which may be null).
class LocalEnvironment : public Environment {
 public:
  explicit LocalEnvironment(const Environment* outer = nullptr) : outer_(outer) {}
  void Set(absl::string_view name, Constant value);
  Lookup Find(absl::string_view name) const override;

 private:
  const Environment* outer_;
  NamedConstants values_;
};

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_EVALUATE_H_
