// Walks a kernel's syntax tree, checks types and emits tile IR. Private to this folder.
//
// Split by duty: emitter.cc (entry point, errors, constants and types in IR), expressions.cc, operators.cc (arithmetic,
// conversion, broadcasting), statements.cc (assignment, control flow), calls.cc (binding arguments, inlining), classes.cc.
// Builtins are functions of their own, listed in builtins.cc.
//
// The first error ends the emission: functions return a Value of kind kError (or false) once it is reported, and
// callers return at once.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_EMITTER_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_EMITTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/check/type.h"
#include "compiler/frontend/check/value.h"
#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/module/module_index.h"
#include "compiler/frontend/parse/ast.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::frontend {

// Bounds that turn a runaway compilation into an error.
struct EmissionLimits {
  int unrolled_steps = 100'000;  // of all static_range loops together
  int call_depth = 64;
  int operations = 200'000;
  int statements = 500'000;  // visited
};

// A name and what it stands for.
struct Binding {
  Value value;
  SourceRange place;           // where it was bound last
  bool is_constexpr = false;   // declared `: tl.constexpr`
};

// The names of one function while it is being inlined.
struct Names {
  std::map<std::string, Binding> bound;  // ordered, so that what is emitted does not depend on addresses
  std::map<std::string, SourceRange> expired;  // bound in a branch or loop body that has ended
};

// A call in progress.
struct Frame {
  const Function* function = nullptr;
  SourceRange call;  // line 0 for the kernel
  Names names;
  int runtime_loops = 0;   // around the statement being emitted, in this function
  int unrolled_loops = 0;
};

// What happens after a list of statements.
struct Flow {
  enum class Kind { kFalls, kReturns, kMaybe };
  Kind kind = Kind::kFalls;
  Value value = Value::None();  // returned, for kReturns and kMaybe
  SourceRange place;            // of the return
  mlir::Value returned;         // kMaybe: i1, whether a return was reached
};

// The statements still to be emitted: `list` from `next` on, then those of `after`.
struct Remaining {
  const std::vector<StmtPtr>* list;
  size_t next;
  const Remaining* after;
};

// Arguments of a builtin, bound to its declared parameters.
class Arguments {
 public:
  struct Entry {
    absl::string_view name;
    Value value;
    SourceRange range;
    bool given = false;  // else the default
  };
  std::vector<Entry> entries;
  SourceRange call;
  absl::string_view function;  // canonical name, for messages

  const Value& operator[](absl::string_view name) const { return Find(name).value; }
  SourceRange Range(absl::string_view name) const { return Find(name).range; }
  bool Given(absl::string_view name) const { return Find(name).given; }

 private:
  const Entry& Find(absl::string_view name) const;
};

class Emitter {
 public:
  Emitter(const ModuleIndex& index, const storage::CompileJob& job, mlir::MLIRContext& context,
          Diagnostics* diagnostics);

  mlir::OwningOpRef<mlir::ModuleOp> Run(std::vector<storage::EntryParameter>* parameters);

  //===-- errors and places (emitter.cc) ------------------------------------------------------------===//

  // Reports at `range`, with a note for each call that leads there.
  Value Error(SourceRange range, std::string message);
  // The same at the expression or statement that is being emitted.
  Value Error(std::string message) { return Error(at_, std::move(message)); }
  void Note(SourceRange range, std::string message) { diagnostics_->Note(range, std::move(message)); }
  void Warning(SourceRange range, std::string message) { diagnostics_->Warning(range, std::move(message)); }
  bool failed() const { return failed_; }
  SourceRange at() const { return at_; }

  // Makes `range` the current place for errors and locations while it lives.
  class At {
   public:
    At(Emitter& e, SourceRange range) : e_(e), saved_(e.at_) { e.at_ = range; }
    ~At() { e_.at_ = saved_; }
    At(const At&) = delete;

   private:
    Emitter& e_;
    SourceRange saved_;
  };

  //===-- IR (emitter.cc) ---------------------------------------------------------------------------===//

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location loc();
  template <typename Op, typename... Args>
  Op Create(Args&&... args) {
    return builder_.create<Op>(loc(), std::forward<Args>(args)...);
  }
  // Creates a side-effect free operation of one result, or finds the value it folds to.
  template <typename Op, typename... Args>
  mlir::Value Make(Args&&... args) {
    return builder_.createOrFold<Op>(loc(), std::forward<Args>(args)...);
  }
  mlir::Type IrType(const ElementType& type);
  mlir::Type IrType(const Type& type);
  // False, with an error, for a type that is loaded, stored and converted only.
  bool Computes(const Value& value);
  // A constant scalar or splat. `number` is converted to the element type.
  mlir::Value IrConstant(const Constant& number, const Type& type);
  mlir::Value IrInteger(int64_t value, DType dtype = DType::kInt32);
  const storage::CompileJob& job() const { return job_; }
  // A launch option or code-changing setting; "" if it is not stated.
  std::string Option(const std::string& name) const;
  std::string Setting(const std::string& name) const;

  //===-- expressions (expressions.cc) ----------------------------------------------------------------===//

  Value Evaluate(const Expr& expr);
  // `name` of a value: attribute or bound method.
  Value Attribute(const Value& base, const std::string& name);
  // The same; nullopt if there is none.
  std::optional<Value> FindAttribute(const Value& base, const std::string& name);
  // Python's isinstance.
  bool IsInstance(const Value& value, const Value& type);
  // The text of an f-string or string argument.
  std::string TextOf(const Value& value);
  // An item of a tuple.
  Value Item(const Value& tuple, const Value& index);

  //===-- operators (operators.cc) --------------------------------------------------------------------===//

  Value Unary(UnaryOp op, const Value& a);
  Value Binary(BinaryOp op, const Value& a, const Value& b);
  Value Compare(CompareOp op, const Value& a, const Value& b);
  Value LogicalNot(const Value& a);
  Value LogicalAndOr(bool is_and, const Value& a, const Value& b);
  Value Select(const Value& condition, const Value& a, const Value& b);  // tl.where

  // Literals and bools become strong scalars; tensors stay; everything else is an error that names `what`.
  Value ToTensor(const Value& value, absl::string_view what = "");
  // What assignment does: numbers become strong scalars (inside tuples too), everything else stays.
  Value Strong(const Value& value);
  // Conversion of the elements, with Triton's rules. `value` may be a weak number.
  Value Cast(const Value& value, const ElementType& type, bool round_to_zero = false);
  Value Bitcast(const Value& value, const ElementType& type);
  // Gives a tensor or weak number the shape; scalars are splat. False operand shapes are an error naming both.
  Value BroadcastTo(const Value& value, const Shape& shape);
  // Brings numbers to the type they compute in and to a common shape. False: reported.
  bool Unify(Value* a, Value* b, bool div_or_mod = false);
  // Only shapes.
  bool UnifyShapes(Value* a, Value* b);
  bool CommonShape(const Shape& a, const Shape& b, Shape* out);
  Value ExpandDims(const Value& value, int axis);
  Value Reshape(const Value& value, const Shape& shape, bool allow_reorder);
  Value Unsplat(const Value& value);  // of one element
  // A scalar i1 to branch on, or a constant. Not for blocks.
  Value Condition(const Value& value, absl::string_view what);

  // Arithmetic on tensors of equal type.
  Value Add(const Value& a, const Value& b) { return Binary(BinaryOp::kAdd, a, b); }
  Value Sub(const Value& a, const Value& b) { return Binary(BinaryOp::kSub, a, b); }
  Value Mul(const Value& a, const Value& b) { return Binary(BinaryOp::kMul, a, b); }
  // min or max of two tensors of one type.
  mlir::Value MinMax(bool is_max, mlir::Value a, mlir::Value b, const ElementType& type, bool propagate_nan);

  //===-- statements (statements.cc) ------------------------------------------------------------------===//

  Flow Statements(const Remaining& remaining, bool tail);
  void Bind(const std::string& name, Value value, SourceRange place, bool is_constexpr = false);
  Names& names() { return frames_.back().names; }

  //===-- calls (calls.cc) ----------------------------------------------------------------------------===//

  struct CallArgument {
    std::string name;  // empty: positional
    Value value;
    SourceRange range;
  };
  Value Call(const Value& callee, std::vector<CallArgument> arguments, SourceRange call);
  // Emits the body of a jit function in place.
  // `result_parameter`: what that parameter holds in the end is the result, as for __init__.
  Value Inline(const Function& function, std::vector<CallArgument> arguments, SourceRange call,
               const std::string& result_parameter = "");
  // The same for functions given to reduce, scan and map: positional values.
  Value CallFunction(const Value& function, const std::vector<Value>& arguments);

  //===-- reading arguments (calls.cc) ----------------------------------------------------------------===//

  std::optional<int64_t> ConstantInt(const Arguments& arguments, absl::string_view name);
  std::optional<bool> ConstantBool(const Arguments& arguments, absl::string_view name);
  std::optional<std::string> ConstantString(const Arguments& arguments, absl::string_view name);
  std::optional<int64_t> ConstantInt(const Value& value, absl::string_view what);
  // A list of constant integers; one integer is a list of one.
  std::optional<std::vector<int64_t>> ConstantInts(const Value& value, absl::string_view what);
  std::optional<Shape> BlockShape(const Arguments& arguments, absl::string_view name);
  // A dtype, pointer type or `x.type`.
  std::optional<ElementType> ElementTypeOf(const Value& value, absl::string_view what);
  // An axis of `value`, negative ones counted from the end.
  std::optional<int> Axis(const Value& axis, size_t rank, absl::string_view what);

 private:
  friend class At;

  class OperationCounter;
  int operations() const;

  // expressions.cc
  Value Name(const Expr& expr);
  Value Subscript(const Expr& expr);
  Value IndexBlock(const Value& base, const Expr& index);
  Value BoolOp(const Expr& expr);
  Value CompareExpr(const Expr& expr);
  Value Conditional(const Expr& expr);
  Value FString(const Expr& expr);
  Value Comprehension(const Expr& expr);
  void ComprehensionItems(const Expr& expr, size_t clause, std::vector<Value>* items);
  Value CallExpr(const Expr& expr);
  Value TensorAttribute(const Value& base, const std::string& name);
  std::string Suggestion(const std::string& name);

  // operators.cc
  Value PointerArithmetic(BinaryOp op, const Value& a, const Value& b);
  Value Power(const Value& a, const Value& b);
  Value Arithmetic(BinaryOp op, const Value& a, const Value& b);
  Value Bitwise(BinaryOp op, const Value& a, const Value& b);
  Value E5m2ToBf16(const Value& value);
  Value E4b15ToFp16(const Value& value);
  Value Fp16ToE4b15(const Value& value);
  Value ConvertTensor(const Value& value, const ElementType& to, bool round_to_zero);

  // statements.cc
  struct Branch {
    std::unique_ptr<mlir::Block> block;
    Names names;
    Flow flow;
  };
  void Assign(const Stmt& stmt);
  void AssignTo(const Expr& target, const Value& value, SourceRange place);
  void AugmentedAssign(const Stmt& stmt);
  void AnnotatedAssign(const Stmt& stmt);
  Flow Return(const Stmt& stmt);
  void Assert(const Stmt& stmt);
  Flow If(const Stmt& stmt, mlir::Value condition, const Remaining& rest, bool tail, bool* consumed);
  Flow Guard(const Flow& flow, const Remaining& rest, bool tail);
  Branch EmitBranch(const Remaining& statements, bool tail, const Names& before);
  Flow Merge(mlir::Value condition, Branch then_branch, Branch else_branch, const Names& before, SourceRange place);
  mlir::Value Placeholder(mlir::Type type);
  Flow For(const Stmt& stmt);
  void RangeLoop(const Stmt& stmt, const std::vector<CallArgument>& arguments, SourceRange call);
  Flow UnrolledLoop(const Stmt& stmt, const std::vector<Value>& values);
  // Counts one step of whatever is unrolled; false: too many, reported.
  bool UnrollStep();
  void While(const Stmt& stmt);
  // Names assigned somewhere in `body` that hold runtime values now.
  std::vector<std::string> CarriedNames(const std::vector<StmtPtr>& body);
  bool CheckLoopEnd(const std::vector<std::string>& carried, const Names& entry, const std::vector<StmtPtr>& body);
  bool StaticRange(const std::vector<CallArgument>& arguments, SourceRange call, std::vector<Value>* values);
  void Expire(const Names& after);

  // calls.cc
  bool EvaluateArguments(const Expr& call, std::vector<CallArgument>* arguments);
  Value CallBuiltin(const std::string& name, std::vector<CallArgument> arguments, SourceRange call);
  Value CallMethod(const Value& self, const std::string& name, std::vector<CallArgument> arguments, SourceRange call);
  Value CallCompileTime(const Constant& callee, const std::vector<CallArgument>& arguments, SourceRange call);

  // classes.cc
  std::shared_ptr<const Class> FindClass(const std::string& key);
  Value Construct(const std::string& key, std::vector<CallArgument> arguments, SourceRange call);
  void AssignField(const Expr& target, const Value& value);

  const ModuleIndex& index_;
  const storage::CompileJob& job_;
  mlir::MLIRContext& context_;
  Diagnostics* diagnostics_;
  Evaluator evaluator_;
  EmissionLimits limits_;
  std::unique_ptr<OperationCounter> counter_;
  mlir::OpBuilder builder_;
  std::vector<Frame> frames_;
  std::vector<mlir::StringAttr> file_names_;
  std::map<std::string, SourceRange> class_places_;  // "class:3" -> its definition
  std::map<std::string, std::shared_ptr<const Class>> classes_;
  SourceRange at_;
  bool failed_ = false;
  bool quiet_ = false;  // errors are not reported: something is only tried
  int unrolled_steps_ = 0;
  int statements_ = 0;
};

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_EMITTER_H_
