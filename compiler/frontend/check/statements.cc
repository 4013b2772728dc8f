// Statements: assignment, branches, loops and early returns as structured control flow.
//
// A `return` under a runtime `if` is no jump. If exactly one branch falls through, everything that follows is emitted
// inside that branch; otherwise the branches yield a flag that says whether a return was reached, and what follows is
// guarded by it.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace tessera::frontend {
namespace {

namespace scf = mlir::scf;

void TargetNames(const Expr& target, std::set<std::string>* names) {
  if (target.kind == ExprKind::kName) names->insert(target.text);
  if (target.kind == ExprKind::kStarred || target.kind == ExprKind::kAttribute) TargetNames(*target.a, names);
  for (const ExprPtr& item : target.items) TargetNames(*item, names);
}

void AssignedNames(const std::vector<StmtPtr>& body, std::set<std::string>* names) {
  for (const StmtPtr& stmt : body) {
    for (const ExprPtr& target : stmt->targets)
      if (stmt->kind != StmtKind::kWith) TargetNames(*target, names);
    AssignedNames(stmt->body, names);
    AssignedNames(stmt->or_else, names);
  }
}

// The place of some assignment to `name` in `body`.
SourceRange PlaceOfAssignment(const std::vector<StmtPtr>& body, const std::string& name) {
  for (const StmtPtr& stmt : body) {
    std::set<std::string> names;
    for (const ExprPtr& target : stmt->targets) TargetNames(*target, &names);
    if (names.count(name)) return stmt->targets[0]->range;
    for (const auto* list : {&stmt->body, &stmt->or_else})
      if (SourceRange range = PlaceOfAssignment(*list, name); range.line > 0) return range;
  }
  return {};
}

bool HasReturn(const std::vector<StmtPtr>& body) {
  return std::any_of(body.begin(), body.end(), [](const StmtPtr& stmt) {
    return stmt->kind == StmtKind::kReturn || HasReturn(stmt->body) || HasReturn(stmt->or_else);
  });
}

bool HasRuntimeParts(const Value& value) {
  std::vector<mlir::Value> ir;
  Flatten(value, &ir);
  return !ir.empty();
}

llvm::SmallVector<mlir::Type> TypesOf(const std::vector<mlir::Value>& values) {
  llvm::SmallVector<mlir::Type> types;
  for (mlir::Value v : values) types.push_back(v.getType());
  return types;
}


}  // namespace

void Emitter::Bind(const std::string& name, Value value, SourceRange place, bool is_constexpr) {
  names().bound[name] = {std::move(value), place, is_constexpr};
  names().expired.erase(name);
}

// Names that ended with a loop body, whose names at its end are `after`.
void Emitter::Expire(const Names& after) {
  for (const auto& [name, place] : after.expired) {
    names().bound.erase(name);
    names().expired[name] = place;
  }
  for (const auto& [name, binding] : after.bound)
    if (!names().bound.count(name)) names().expired[name] = binding.place;
}

Flow Emitter::Statements(const Remaining& remaining, bool tail) {
  Remaining rest = remaining;
  while (!failed_) {
    while (rest.next >= rest.list->size() && rest.after) rest = Remaining(*rest.after);
    if (rest.next >= rest.list->size()) break;
    const Stmt& stmt = *(*rest.list)[rest.next++];
    At at(*this, stmt.range);
    if (++statements_ > limits_.statements || operations() > limits_.operations) {
      Error(absl::StrCat("this kernel becomes too large: more than ", limits_.operations, " operations or ",
                         limits_.statements, " statements; unroll less (tl.static_range) or call fewer helper functions"));
      break;
    }
    Flow flow;
    switch (stmt.kind) {
      case StmtKind::kExpr:
        if (stmt.value && stmt.value->kind != ExprKind::kString && stmt.value->kind != ExprKind::kEllipsis)
          Evaluate(*stmt.value);
        break;
      case StmtKind::kAssign: Assign(stmt); break;
      case StmtKind::kAugAssign: AugmentedAssign(stmt); break;
      case StmtKind::kAnnAssign: AnnotatedAssign(stmt); break;
      case StmtKind::kReturn: return Return(stmt);
      case StmtKind::kPass: break;
      case StmtKind::kAssert: Assert(stmt); break;
      case StmtKind::kWhile: While(stmt); break;
      case StmtKind::kFor:
        flow = For(stmt);
        if (flow.kind == Flow::Kind::kReturns) return flow;
        break;
      case StmtKind::kIf: {
        Value condition = Evaluate(*stmt.value);
        if (failed_) break;
        {
          At at_condition(*this, stmt.value->range);
          condition = Condition(condition, "the condition of 'if'");
        }
        if (failed_) break;
        if (condition.is_constant()) {  // only the branch taken exists
          const auto& taken = condition.constant.boolean ? stmt.body : stmt.or_else;
          if (taken.empty()) break;
          if (!HasReturn(taken)) {
            Statements({&taken, 0, nullptr}, false);
            break;
          }
          Remaining branch{&taken, 0, &rest};
          return Statements(branch, tail);
        }
        bool consumed = false;
        flow = If(stmt, condition.ir, rest, tail, &consumed);
        if (consumed || flow.kind == Flow::Kind::kReturns) return flow;
        if (flow.kind == Flow::Kind::kMaybe) return Guard(flow, rest, tail);
        break;
      }
      case StmtKind::kRaise: {
        std::string what;
        if (stmt.value && stmt.value->kind == ExprKind::kCall && !stmt.value->items.empty()) {
          Value message = Evaluate(*stmt.value->items[0]);
          if (!failed_) what = ": " + TextOf(message);
        }
        Error("the kernel raises an error here" + what);
        break;
      }
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        Error(absl::StrCat("'", stmt.kind == StmtKind::kBreak ? "break" : "continue",
                           "' is not part of the kernel language; use a mask, or a while loop with a condition"));
        break;
      case StmtKind::kImport:
      case StmtKind::kFromImport: Error("imports inside kernels are not supported; import at the top of the file"); break;
      case StmtKind::kFunctionDef:
      case StmtKind::kClassDef:
        Error(absl::StrCat("'", stmt.text, "' is defined inside a kernel; define it at the top of the file"));
        break;
      case StmtKind::kGlobal: Error("'global' is not part of the kernel language"); break;
      case StmtKind::kTry: Error("'try' is not part of the kernel language"); break;
      case StmtKind::kWith: Error("'with' is not part of the kernel language"); break;
      case StmtKind::kDelete: Error("'del' is not part of the kernel language"); break;
      case StmtKind::kOpaque:
        Error(absl::StrCat(stmt.text.empty() ? "this statement" : stmt.text, " is not part of the kernel language"));
        break;
    }
  }
  Flow end;
  if (tail) end.kind = Flow::Kind::kReturns;
  end.place = at_;
  return end;
}

//===-- assignment ----------------------------------------------------------------------------------===//

void Emitter::AssignTo(const Expr& target, const Value& value, SourceRange place) {
  if (failed_) return;
  switch (target.kind) {
    case ExprKind::kName: Bind(target.text, Strong(value), place); return;
    case ExprKind::kTuple:
    case ExprKind::kList: {
      if (!value.is_tuple()) {
        Error(target.range, absl::StrCat("only a tuple can be unpacked into ", target.items.size(), " names, not ",
                                         Describe(value)));
        return;
      }
      auto star = std::find_if(target.items.begin(), target.items.end(),
                               [](const ExprPtr& item) { return item->kind == ExprKind::kStarred; });
      if (star != target.items.end() && value.items->size() + 1 >= target.items.size()) {  // a, *rest, z = values
        size_t first = star - target.items.begin(), count = value.items->size() + 1 - target.items.size();
        std::vector<Value> rest(value.items->begin() + first, value.items->begin() + first + count);
        for (size_t i = 0; i < target.items.size(); ++i) {
          if (i == first) AssignTo(*target.items[i]->a, Value::Tuple(rest), place);
          else AssignTo(*target.items[i], (*value.items)[i < first ? i : i + count - 1], place);
        }
        return;
      }
      if (value.items->size() != target.items.size()) {
        Error(target.range, absl::StrCat("a tuple of ", value.items->size(), " cannot be unpacked into ",
                                         target.items.size(), " names"));
        return;
      }
      for (size_t i = 0; i < target.items.size(); ++i) AssignTo(*target.items[i], (*value.items)[i], place);
      return;
    }
    case ExprKind::kSubscript:
      Error(target.range, "a block or tuple cannot be changed in place; use tl.where, or tl.store to memory");
      return;
    case ExprKind::kAttribute: AssignField(target, value); return;
    default: Error(target.range, "this cannot be assigned to"); return;
  }
}

void Emitter::Assign(const Stmt& stmt) {
  Value value = Evaluate(*stmt.value);
  for (const ExprPtr& target : stmt.targets) AssignTo(*target, value, target->range);
}

void Emitter::AugmentedAssign(const Stmt& stmt) {
  const Expr& target = *stmt.targets[0];
  if (target.kind != ExprKind::kName && target.kind != ExprKind::kAttribute) {
    AssignTo(target, Value::None(), target.range);  // reports
    return;
  }
  Value old = Evaluate(target);
  Value operand = failed_ ? Value() : Evaluate(*stmt.value);
  if (failed_) return;
  AssignTo(target, Binary(stmt.binary, old, operand), target.range);
}

void Emitter::AnnotatedAssign(const Stmt& stmt) {
  const Expr& target = *stmt.targets[0];
  if (!stmt.value) return;
  Value value = Evaluate(*stmt.value);
  if (failed_) return;
  bool is_constexpr = false;
  if (stmt.extra) {
    const Expr& annotation = *stmt.extra;
    is_constexpr = (annotation.kind == ExprKind::kAttribute || annotation.kind == ExprKind::kName) &&
                   annotation.text == "constexpr";
  }
  if (!is_constexpr) {
    AssignTo(target, value, target.range);
    return;
  }
  if (target.kind != ExprKind::kName) {
    Error(target.range, "only a name can be declared tl.constexpr");
    return;
  }
  if (HasRuntimeParts(value)) {  // Triton takes it as it is
    Warning(stmt.value->range, absl::StrCat("'", target.text, "' is declared tl.constexpr, but its value is a ",
                                            Describe(value), " that is only known at run time"));
    Bind(target.text, std::move(value), target.range);
    return;
  }
  auto it = names().bound.find(target.text);
  if (it != names().bound.end() && it->second.is_constexpr && !Identical(it->second.value, value) &&
      frames_.back().unrolled_loops == 0) {
    Error(target.range, absl::StrCat("'", target.text, "' is already declared tl.constexpr with another value"));
    Note(it->second.place, "declared here");
    return;
  }
  Bind(target.text, std::move(value), target.range, true);
}

Flow Emitter::Return(const Stmt& stmt) {
  if (frames_.back().runtime_loops > 0) {
    Error("'return' inside a loop is not supported; carry a flag and test it after the loop");
    return {};
  }
  Flow flow;
  flow.kind = Flow::Kind::kReturns;
  flow.place = stmt.range;
  if (stmt.value) flow.value = Strong(Evaluate(*stmt.value));
  return flow;
}

void Emitter::Assert(const Stmt& stmt) {
  std::vector<CallArgument> arguments = {{"", Evaluate(*stmt.value), stmt.value->range}};
  if (stmt.extra && !failed_) arguments.push_back({"", Evaluate(*stmt.extra), stmt.extra->range});
  if (!failed_) Call(Value::Of(Constant::Builtin("tl.device_assert")), std::move(arguments), stmt.range);
}

//===-- branches ------------------------------------------------------------------------------------===//

Emitter::Branch Emitter::EmitBranch(const Remaining& statements, bool tail, const Names& before) {
  Branch branch;
  branch.block = std::make_unique<mlir::Block>();
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToEnd(branch.block.get());
  names() = before;
  branch.flow = Statements(statements, tail);
  branch.names = names();
  return branch;
}

Flow Emitter::If(const Stmt& stmt, mlir::Value condition, const Remaining& rest, bool tail, bool* consumed) {
  SourceRange place = at_;
  const Remaining* end = &rest;
  while (end && end->next >= end->list->size()) end = end->after;
  bool last = end == nullptr;
  const Names before = names();
  Branch branches[2];
  const std::vector<StmtPtr>* bodies[2] = {&stmt.body, &stmt.or_else};
  for (int i = 0; i < 2; ++i) {
    branches[i] = EmitBranch({bodies[i], 0, nullptr}, tail && last, before);
    if (failed_) return {};
  }
  auto returns = [&](int i) { return branches[i].flow.kind == Flow::Kind::kReturns; };
  auto falls = [&](int i) { return branches[i].flow.kind == Flow::Kind::kFalls; };
  for (int i = 0; i < 2 && !last; ++i) {
    if (!falls(i) || !returns(1 - i)) continue;
    *consumed = true;
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(branches[i].block.get());
    names() = branches[i].names;
    branches[i].flow = Statements(rest, tail);
    branches[i].names = names();
    if (failed_) return {};
  }
  return Merge(condition, std::move(branches[0]), std::move(branches[1]), before, place);
}

Flow Emitter::Guard(const Flow& flow, const Remaining& rest, bool tail) {
  SourceRange place = at_;
  const Names before = names();
  static const std::vector<StmtPtr>& nothing = *new std::vector<StmtPtr>;
  Branch returned = EmitBranch({&nothing, 0, nullptr}, false, before);
  returned.flow = flow;
  returned.flow.kind = Flow::Kind::kReturns;
  Branch others = EmitBranch(rest, tail, before);
  if (failed_) return {};
  return Merge(flow.returned, std::move(returned), std::move(others), before, place);
}

// A value for paths on which nobody looks.
mlir::Value Emitter::Placeholder(mlir::Type type) {
  auto shaped = mlir::dyn_cast<mlir::RankedTensorType>(type);
  mlir::Type element = shaped ? shaped.getElementType() : type;
  if (mlir::isa<tile::PtrType>(element)) {
    mlir::Value zero = Create<tile::IntToPtrOp>(element, IrInteger(0, DType::kInt64));
    return shaped ? Create<tile::SplatOp>(type, zero).getResult() : zero;
  }
  return Create<mlir::arith::ConstantOp>(builder_.getZeroAttr(type));
}

Flow Emitter::Merge(mlir::Value condition, Branch then_branch, Branch else_branch, const Names& before,
                    SourceRange place) {
  using Kind = Flow::Kind;
  At at(*this, place);
  Branch* branches[2] = {&then_branch, &else_branch};
  Flow result;
  result.place = then_branch.flow.kind != Kind::kFalls ? then_branch.flow.place : else_branch.flow.place;
  bool both_return = then_branch.flow.kind == Kind::kReturns && else_branch.flow.kind == Kind::kReturns;
  bool none_returns = then_branch.flow.kind == Kind::kFalls && else_branch.flow.kind == Kind::kFalls;
  result.kind = both_return ? Kind::kReturns : none_returns ? Kind::kFalls : Kind::kMaybe;

  std::vector<mlir::Value> yields[2];
  std::vector<std::function<void(const mlir::Value*&)>> rebuild;  // in the order of the yielded values
  // Lets both branches yield a value of one make. A null pointer: this path does not care.
  auto yield_both = [&](const Value* a, const Value* b, std::function<void(Value)> set) {
    const Value* values[2] = {a, b};
    const Value* like = a ? a : b;
    for (int i = 0; i < 2; ++i) {
      std::vector<mlir::Value> ir;
      Flatten(values[i] ? *values[i] : *like, &ir);
      mlir::OpBuilder::InsertionGuard guard(builder_);
      builder_.setInsertionPointToEnd(branches[i]->block.get());
      for (mlir::Value v : ir) yields[i].push_back(values[i] ? v : Placeholder(v.getType()));
    }
    rebuild.push_back([like, set = std::move(set)](const mlir::Value*& next) { set(Rebuild(*like, next)); });
  };

  Names after;
  if (!both_return) {
    // Names on the paths that go on.
    bool goes_on[2];
    for (int i = 0; i < 2; ++i) goes_on[i] = branches[i]->flow.kind != Kind::kReturns;
    const Names& first = branches[goes_on[0] ? 0 : 1]->names;
    const Names& second = branches[goes_on[1] ? 1 : 0]->names;
    after = first;
    for (auto& [name, binding] : first.bound) {
      auto other = second.bound.find(name);
      if (other == second.bound.end()) {  // only assigned in one branch
        after.bound.erase(name);
        after.expired[name] = binding.place;
        continue;
      }
      auto old = before.bound.find(name);
      bool known_before = old != before.bound.end() && Identical(old->second.value, binding.value);
      if (known_before && Identical(binding.value, other->second.value)) continue;
      std::string difference;
      if (!SameMake(binding.value, other->second.value, &difference)) {
        Error(place, absl::StrCat("'", name, "' differs in type after the two branches: ", difference,
                                  HasRuntimeParts(binding.value) && HasRuntimeParts(other->second.value)
                                      ? "; convert one with .to()"
                                      : "; give it a runtime value in both, or make the condition a tl.constexpr"));
        Note(binding.place, absl::StrCat("here it is ", Describe(binding.value)));
        Note(other->second.place, absl::StrCat("here it is ", Describe(other->second.value)));
        return {};
      }
      if (!HasRuntimeParts(binding.value)) continue;  // equal constants
      Binding* target = &after.bound[name];
      yield_both(goes_on[0] ? &binding.value : nullptr, goes_on[1] ? &other->second.value : nullptr,
                 [target](Value v) { target->value = std::move(v); });
    }
    for (auto& [name, binding] : second.bound)
      if (!first.bound.count(name)) after.expired[name] = binding.place;
  }
  if (!none_returns) {
    const Flow* flows[2] = {&then_branch.flow, &else_branch.flow};
    const Value* values[2];
    for (int i = 0; i < 2; ++i) values[i] = flows[i]->kind == Kind::kFalls ? nullptr : &flows[i]->value;
    std::string difference;
    if (values[0] && values[1] && !SameMake(*values[0], *values[1], &difference)) {
      Error(flows[0]->place, absl::StrCat("the values returned under a runtime condition differ in type: ", difference,
                                          "; every path must return the same type, or nothing"));
      if (flows[1]->place.line > 0) Note(flows[1]->place, "the other path returns here");
      return {};
    }
    result.value = values[0] ? *values[0] : *values[1];
    yield_both(values[0], values[1], [&result](Value v) { result.value = std::move(v); });
  }
  size_t flag = yields[0].size();
  if (result.kind == Kind::kMaybe) {
    for (int i = 0; i < 2; ++i) {
      mlir::OpBuilder::InsertionGuard guard(builder_);
      builder_.setInsertionPointToEnd(branches[i]->block.get());
      const Flow& flow = branches[i]->flow;
      yields[i].push_back(flow.kind == Kind::kMaybe ? flow.returned
                                                    : IrInteger(flow.kind == Kind::kReturns, DType::kInt1));
    }
  }
  for (int i = 0; i < 2; ++i) {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(branches[i]->block.get());
    Create<scf::YieldOp>(yields[i]);
  }
  auto op = Create<scf::IfOp>(mlir::TypeRange(TypesOf(yields[0])), condition, false, false);
  op.getThenRegion().push_back(then_branch.block.release());
  if (!yields[0].empty() || !llvm::hasSingleElement(else_branch.block->getOperations()))
    op.getElseRegion().push_back(else_branch.block.release());
  std::vector<mlir::Value> results(op.getResults().begin(), op.getResults().end());
  const mlir::Value* next = results.data();
  for (auto& set : rebuild) set(next);
  if (result.kind == Kind::kMaybe) result.returned = results[flag];
  names() = std::move(after);
  return result;
}

//===-- loops ---------------------------------------------------------------------------------------===//

std::vector<std::string> Emitter::CarriedNames(const std::vector<StmtPtr>& body) {
  std::set<std::string> assigned;
  AssignedNames(body, &assigned);
  std::vector<std::string> carried;
  for (const std::string& name : assigned) {
    auto it = names().bound.find(name);
    if (it != names().bound.end() && HasRuntimeParts(it->second.value)) carried.push_back(name);
  }
  return carried;
}

// What the body did to names that exist before the loop.
bool Emitter::CheckLoopEnd(const std::vector<std::string>& carried, const Names& entry,
                           const std::vector<StmtPtr>& body) {
  for (const auto& [name, binding] : entry.bound) {
    auto found = names().bound.find(name);
    if (found == names().bound.end()) {  // it was the variable of an inner loop, and ended with it
      names().bound.emplace(name, binding);
      names().expired[name] = binding.place;
      continue;
    }
    const Binding& end = found->second;
    bool is_carried = std::binary_search(carried.begin(), carried.end(), name);
    std::string difference;
    if (is_carried ? SameMake(binding.value, end.value, &difference) : Identical(binding.value, end.value)) continue;
    SourceRange at = PlaceOfAssignment(body, name);
    if (end.place.line > 0) at = end.place;
    if (!is_carried) {
      Error(at, absl::StrCat("'", name, "' is ", Describe(binding.value),
                             ", known at compile time, and cannot be assigned inside a loop; ",
                             binding.value.is_none() ? "give it a block or scalar before the loop"
                                                     : "copy it into another name before the loop"));
    } else {
      Error(at, absl::StrCat("'", name, "' changes its type in the loop: ", Describe(binding.value),
                             " before it, ", Describe(end.value), " at the end of its body; convert with .to(), or ",
                             "start with the right type"));
    }
    Note(binding.place, absl::StrCat("'", name, "' comes into the loop from here"));
    return false;
  }
  return true;
}

Flow Emitter::For(const Stmt& stmt) {
  const Expr& iterable = *stmt.value;
  if (!stmt.or_else.empty()) {
    Error("'else' on a loop is not part of the kernel language");
    return {};
  }
  if (iterable.kind == ExprKind::kCall) {
    Value callee = Evaluate(*iterable.a);
    if (failed_) return {};
    bool is_static = callee.is_constant() && callee.constant.is_builtin("tl.static_range");
    bool is_range = callee.is_constant() &&
                    (callee.constant.is_builtin("range") || callee.constant.is_builtin("tl.range"));
    if (is_static || is_range) {
      std::vector<CallArgument> arguments;
      if (!EvaluateArguments(iterable, &arguments)) return {};
      if (is_range) {
        RangeLoop(stmt, arguments, iterable.range);
        return {};
      }
      std::vector<Value> values;
      if (!StaticRange(arguments, iterable.range, &values)) return {};
      return UnrolledLoop(stmt, values);
    }
  }
  Value sequence = Evaluate(iterable);
  if (failed_) return {};
  if (!sequence.is_tuple()) {
    Error(iterable.range, absl::StrCat("'for' goes over range, tl.range, tl.static_range or a tuple, not ",
                                       Describe(sequence)));
    return {};
  }
  return UnrolledLoop(stmt, std::vector<Value>(*sequence.items));
}

bool Emitter::StaticRange(const std::vector<CallArgument>& arguments, SourceRange call, std::vector<Value>* values) {
  int64_t bounds[3] = {0, 0, 1};
  static const char* const kNames[] = {"arg1", "arg2", "step"};
  std::optional<int64_t> given[3];
  size_t position = 0;
  for (const CallArgument& argument : arguments) {
    size_t slot = position;
    if (argument.name.empty()) {
      ++position;
    } else {
      slot = std::find(kNames, kNames + 3, argument.name) - kNames;
      if (slot == 3 && (argument.name == "start" || argument.name == "end")) slot = argument.name == "end";
    }
    if (slot >= 3) {
      Error(argument.range, "tl.static_range takes (end), (start, end) or (start, end, step)");
      return false;
    }
    At at(*this, argument.range);
    given[slot] = ConstantInt(argument.value, "a bound of tl.static_range");
    if (!given[slot]) return false;
  }
  if (!given[0]) {
    Error(call, "tl.static_range takes (end), (start, end) or (start, end, step)");
    return false;
  }
  bounds[0] = given[1] ? *given[0] : 0;
  bounds[1] = given[1] ? *given[1] : *given[0];
  bounds[2] = given[2].value_or(1);
  if (bounds[2] == 0) {
    Error(call, "the step of tl.static_range is 0");
    return false;
  }
  for (Integer i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
    values->push_back(Value::Int(i));
    if (int(values->size()) > limits_.unrolled_steps) break;  // UnrolledLoop reports
  }
  return true;
}

bool Emitter::UnrollStep() {
  if (++unrolled_steps_ <= limits_.unrolled_steps) return true;
  Error(absl::StrCat("unrolled loops take more than ", limits_.unrolled_steps, " steps together; use tl.range"));
  return false;
}

Flow Emitter::UnrolledLoop(const Stmt& stmt, const std::vector<Value>& values) {
  for (const Value& value : values) {
    if (!UnrollStep()) return {};
    // The loop variable stays a constant: it may index tuples and shape blocks.
    if (stmt.targets[0]->kind == ExprKind::kName)
      Bind(stmt.targets[0]->text, value, stmt.targets[0]->range);
    else
      AssignTo(*stmt.targets[0], value, stmt.targets[0]->range);
    ++frames_.back().unrolled_loops;
    Flow flow = Statements({&stmt.body, 0, nullptr}, false);
    --frames_.back().unrolled_loops;
    if (failed_ || flow.kind == Flow::Kind::kReturns) return flow;
    if (flow.kind == Flow::Kind::kMaybe) {
      Error(flow.place, "'return' under a runtime condition inside a loop is not supported");
      return {};
    }
  }
  return {};
}

namespace {

// Takes block arguments that the loop passes on unchanged out of it. `yields` and `inits` go with the arguments from
// `first` on; `keep` is set for those that stay.
void DropUnchanged(mlir::Block* block, unsigned first, std::vector<mlir::Value>* inits,
                   std::vector<mlir::Value>* yields, std::vector<bool>* keep) {
  keep->assign(inits->size(), true);
  for (size_t i = 0; i < inits->size(); ++i) {
    mlir::Value argument = block->getArgument(first + i);
    if ((*yields)[i] == argument || (*yields)[i] == (*inits)[i]) (*keep)[i] = false;
  }
}

template <typename T>
std::vector<T> Kept(const std::vector<T>& all, const std::vector<bool>& keep) {
  std::vector<T> kept;
  for (size_t i = 0; i < all.size(); ++i)
    if (keep[i]) kept.push_back(all[i]);
  return kept;
}

}  // namespace

void Emitter::RangeLoop(const Stmt& stmt, const std::vector<CallArgument>& arguments, SourceRange call) {
  //-- bounds
  Value bounds[3] = {Value::Int(0), Value::Int(0), Value::Int(1)};
  std::vector<Value> given;
  std::vector<std::pair<std::string, int64_t>> hints;
  for (const CallArgument& argument : arguments) {
    At at(*this, argument.range);
    if (argument.name.empty() || argument.name == "arg1" || argument.name == "arg2") {
      given.push_back(argument.value);
    } else if (argument.name == "step") {
      bounds[2] = argument.value;
    } else if (argument.name == "num_stages" || argument.name == "loop_unroll_factor" || argument.name == "flatten" ||
               argument.name == "warp_specialize" || argument.name == "disallow_acc_multi_buffer" ||
               argument.name == "disable_licm") {
      if (argument.value.is_none()) continue;
      std::optional<int64_t> hint = ConstantInt(argument.value, argument.name);
      if (!hint) return;
      hints.emplace_back(argument.name, *hint);
    } else {
      Error(absl::StrCat("range has no parameter '", argument.name, "'"));
      return;
    }
  }
  if (given.empty() || given.size() > 3) {
    Error(call, "range takes (end), (start, end) or (start, end, step)");
    return;
  }
  if (given.size() == 1) {
    bounds[1] = given[0];
  } else {
    for (size_t i = 0; i < given.size(); ++i) bounds[i] = given[i];
  }
  bool counts_down = false;
  ElementType type{DType::kInt32, false};
  bool first = true;
  for (Value& bound : bounds) {
    if (bound.is_block() && bound.type.elements() == 1) bound = Unsplat(bound);
    bool fine = bound.is_constant() ? bound.constant.is_integral() : bound.is_scalar() && bound.type.element.is_int();
    if (!fine) {
      Error(call, absl::StrCat("the bounds and the step of range must be integer scalars, not ", Describe(bound)));
      return;
    }
  }
  if (bounds[2].is_constant() || bounds[2].is_known_integer()) {
    Integer step = bounds[2].constant.as_integer();
    if (step == 0) {
      Error(call, "the step of range is 0");
      return;
    }
    if (step < 0) {
      At at(*this, call);
      counts_down = true;
      bounds[2] = Unary(UnaryOp::kNeg, bounds[2]);
      std::swap(bounds[0], bounds[1]);
    }
  }
  for (const Value& bound : bounds) {
    ElementType one = bound.is_constant() ? LiteralType(bound.constant) : bound.type.element;
    type = first ? one : PromoteIntegers(type, one);
    first = false;
  }
  if (type.bits() < 8) type = {DType::kInt32, false};  // all bools
  mlir::Value low, high, step;
  {
    At at(*this, call);
    low = Cast(bounds[0], type).ir;
    high = Cast(bounds[1], type).ir;
    step = Cast(bounds[2], type).ir;
    if (failed_) return;
    if (!bounds[2].is_constant() && type.is_signed() && !mlir::matchPattern(step, mlir::m_Constant())) {
      // A negative step known at run time only makes no trip.
      Value zero = Value::Tensor(IrInteger(0, type.dtype), {type, {}}), value = Value::Tensor(step, {type, {}});
      Value positive = Compare(CompareOp::kGt, value, zero);
      high = Make<mlir::arith::SelectOp>(positive.ir, high, low);
      step = Make<mlir::arith::MaxSIOp>(step, IrInteger(1, type.dtype));
    } else if (llvm::APInt constant; !bounds[2].is_constant() && type.is_signed() &&
                                     mlir::matchPattern(step, mlir::m_ConstantInt(&constant)) &&
                                     !constant.isStrictlyPositive()) {
      high = low;
      step = IrInteger(1, type.dtype);
    }
  }

  //-- body
  const Names before = names();
  std::vector<std::string> carried = CarriedNames(stmt.body);
  std::set<std::string> targets;
  TargetNames(*stmt.targets[0], &targets);
  for (const std::string& target : targets)  // the loop variable is not carried
    carried.erase(std::remove(carried.begin(), carried.end(), target), carried.end());
  if (stmt.targets[0]->kind != ExprKind::kName) {
    Error(stmt.targets[0]->range, "the loop variable of a range must be one name");
    return;
  }
  const std::string& variable = stmt.targets[0]->text;

  auto block = std::make_unique<mlir::Block>();
  mlir::Value induction = block->addArgument(IrType(type), loc());
  std::vector<mlir::Value> inits, yields;
  for (const std::string& name : carried) Flatten(before.bound.at(name).value, &inits);
  for (mlir::Value v : inits) block->addArgument(v.getType(), loc());
  Names end;
  {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(block.get());
    std::vector<mlir::Value> block_arguments(block->args_begin() + 1, block->args_end());
    const mlir::Value* next = block_arguments.data();
    for (const std::string& name : carried) {
      Binding& binding = names().bound[name];
      binding.value = Rebuild(binding.value, next);
    }
    names().bound.erase(variable);
    Names entry = names();
    mlir::Value index = induction;
    if (counts_down) {  // start - (i - stop)
      index = Create<mlir::arith::SubIOp>(high, induction);
      index = Create<mlir::arith::AddIOp>(index, low);
    }
    Bind(variable, Value::Tensor(index, {type, {}}), stmt.targets[0]->range);
    ++frames_.back().runtime_loops;
    Statements({&stmt.body, 0, nullptr}, false);
    --frames_.back().runtime_loops;
    if (failed_ || !CheckLoopEnd(carried, entry, stmt.body)) return;
    end = names();
    for (const std::string& name : carried) Flatten(end.bound.at(name).value, &yields);
  }
  std::vector<bool> keep;
  DropUnchanged(block.get(), 1, &inits, &yields, &keep);
  for (size_t i = inits.size(); i-- > 0;) {
    if (keep[i]) continue;
    block->getArgument(1 + i).replaceAllUsesWith(inits[i]);
    std::replace(yields.begin(), yields.end(), mlir::Value(block->getArgument(1 + i)), inits[i]);
    block->eraseArgument(1 + i);
  }
  std::vector<mlir::Value> kept = Kept(inits, keep);
  {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(block.get());
    Create<scf::YieldOp>(Kept(yields, keep));
  }
  auto op = Create<scf::ForOp>(low, high, step, kept);
  op.getRegion().getBlocks().clear();
  op.getRegion().push_back(block.release());
  for (const auto& [name, value] : hints)
    op->setAttr(absl::StrCat("tile.", name), builder_.getI32IntegerAttr(int32_t(value)));

  //-- after
  std::vector<mlir::Value> results;
  for (size_t i = 0, r = 0; i < inits.size(); ++i) results.push_back(keep[i] ? op.getResult(r++) : inits[i]);
  names() = before;
  const mlir::Value* next = results.data();
  for (const std::string& name : carried) {
    Binding& binding = names().bound[name];
    binding = {Rebuild(before.bound.at(name).value, next), end.bound.at(name).place, false};
  }
  names().bound.erase(variable);
  Expire(end);
}

void Emitter::While(const Stmt& stmt) {
  if (!stmt.or_else.empty()) {
    Error("'else' on a loop is not part of the kernel language");
    return;
  }
  const Names before = names();
  std::vector<std::string> carried = CarriedNames(stmt.body);
  std::vector<mlir::Value> inits, yields;
  for (const std::string& name : carried) Flatten(before.bound.at(name).value, &inits);
  std::unique_ptr<mlir::Block> blocks[2];
  mlir::Value condition;
  Names end;
  for (int i = 0; i < 2; ++i) {  // the condition, the body
    blocks[i] = std::make_unique<mlir::Block>();
    for (mlir::Value v : inits) blocks[i]->addArgument(v.getType(), loc());
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(blocks[i].get());
    names() = before;
    std::vector<mlir::Value> block_arguments(blocks[i]->args_begin(), blocks[i]->args_end());
    const mlir::Value* next = block_arguments.data();
    for (const std::string& name : carried) {
      Binding& binding = names().bound[name];
      binding.value = Rebuild(binding.value, next);
    }
    if (i == 0) {
      Value value = Evaluate(*stmt.value);
      if (failed_) return;
      At at(*this, stmt.value->range);
      value = Condition(value, "the condition of 'while'");
      if (failed_) return;
      if (value.is_constant()) {
        names() = before;
        if (!value.constant.boolean) return;  // never entered
        Error("this loop never ends: its condition is always true");
        return;
      }
      condition = value.ir;
    } else {
      Names entry = names();
      ++frames_.back().runtime_loops;
      Statements({&stmt.body, 0, nullptr}, false);
      --frames_.back().runtime_loops;
      if (failed_ || !CheckLoopEnd(carried, entry, stmt.body)) return;
      end = names();
      for (const std::string& name : carried) Flatten(end.bound.at(name).value, &yields);
    }
  }
  std::vector<bool> keep;
  DropUnchanged(blocks[1].get(), 0, &inits, &yields, &keep);
  for (size_t i = inits.size(); i-- > 0;) {
    if (keep[i]) continue;
    if (condition == blocks[0]->getArgument(i)) condition = inits[i];
    std::replace(yields.begin(), yields.end(), mlir::Value(blocks[1]->getArgument(i)), inits[i]);
    for (auto& block : blocks) {
      block->getArgument(i).replaceAllUsesWith(inits[i]);
      block->eraseArgument(i);
    }
  }
  std::vector<mlir::Value> kept = Kept(inits, keep);
  auto types = TypesOf(kept);
  for (int i = 0; i < 2; ++i) {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(blocks[i].get());
    std::vector<mlir::Value> passed(blocks[i]->args_begin(), blocks[i]->args_end());
    if (i == 0)
      Create<scf::ConditionOp>(condition, passed);
    else
      Create<scf::YieldOp>(Kept(yields, keep));
  }
  mlir::OperationState state(loc(), scf::WhileOp::getOperationName());
  state.addOperands(kept);
  state.addTypes(types);
  state.addRegion()->push_back(blocks[0].release());
  state.addRegion()->push_back(blocks[1].release());
  mlir::Operation* op = builder_.create(state);
  std::vector<mlir::Value> results;
  for (size_t i = 0, r = 0; i < inits.size(); ++i) results.push_back(keep[i] ? mlir::Value(op->getResult(r++)) : inits[i]);
  names() = before;
  const mlir::Value* next = results.data();
  for (const std::string& name : carried) {
    Binding& binding = names().bound[name];
    binding = {Rebuild(before.bound.at(name).value, next), end.bound.at(name).place, false};
  }
  Expire(end);
}

}  // namespace tessera::frontend
