// Evaluation of expressions: names, literals, attributes, subscripts.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "compiler/frontend/check/emitter.h"
#include "compiler/frontend/check/suggest.h"
#include "compiler/frontend/module/well_known.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::frontend {
namespace {


}  // namespace

Value Emitter::Evaluate(const Expr& e) {
  if (failed_) return {};
  At at(*this, e.range);
  switch (e.kind) {
    case ExprKind::kName: return Name(e);
    case ExprKind::kInteger:
      if (e.integer_overflow) return Error("this integer does not fit 64 bits");
      return Value::Int(Integer(e.integer));
    case ExprKind::kFloat: return Value::Of(Constant::Float(e.real));
    case ExprKind::kString: return Value::Of(Constant::String(e.text));
    case ExprKind::kFString: return FString(e);
    case ExprKind::kBool: return Value::Of(Constant::Bool(e.boolean));
    case ExprKind::kNone: return Value::None();
    case ExprKind::kTuple:
    case ExprKind::kList: {
      std::vector<Value> items;
      for (const ExprPtr& item : e.items) {
        bool star = item->kind == ExprKind::kStarred;
        Value value = Evaluate(star ? *item->a : *item);
        if (failed_) return {};
        if (!star) {
          items.push_back(std::move(value));
        } else if (value.is_tuple()) {
          items.insert(items.end(), value.items->begin(), value.items->end());
        } else {
          return Error(item->range, absl::StrCat("'*' unpacks tuples, not ", Describe(value)));
        }
      }
      return Value::Tuple(std::move(items));
    }
    case ExprKind::kUnary: {
      Value a = Evaluate(*e.a);
      return failed_ ? Value() : Unary(e.unary, a);
    }
    case ExprKind::kBinary: {
      Value a = Evaluate(*e.a);
      Value b = Evaluate(*e.b);
      return failed_ ? Value() : Binary(e.binary, a, b);
    }
    case ExprKind::kBoolOp: return BoolOp(e);
    case ExprKind::kCompare: return CompareExpr(e);
    case ExprKind::kConditional: return Conditional(e);
    case ExprKind::kCall: return CallExpr(e);
    case ExprKind::kAttribute: {
      Value base = Evaluate(*e.a);
      return failed_ ? Value() : Attribute(base, e.text);
    }
    case ExprKind::kSubscript: return Subscript(e);
    case ExprKind::kEllipsis: return Error("'...' is not supported in kernels; write out ':' for each dimension");
    case ExprKind::kSlice: return Error("a slice is only possible inside [ ]");
    case ExprKind::kStarred: return Error("'*' is only possible in calls and tuples");
    case ExprKind::kDict: return Error("dict literals are not part of the kernel language");
    case ExprKind::kLambda: return Error("lambdas are not part of the kernel language; write a @triton.jit function");
    case ExprKind::kComprehension:
      return Comprehension(e);
    case ExprKind::kOpaque:
      return Error(absl::StrCat(e.text.empty() ? "this construct" : e.text, " is not part of the kernel language"));
  }
  return {};
}

Value Emitter::Name(const Expr& e) {
  const std::string& name = e.text;
  auto it = names().bound.find(name);
  if (it != names().bound.end()) return it->second.value;
  auto expired = names().expired.find(name);
  if (expired != names().expired.end()) {
    Error(absl::StrCat("'", name, "' does not exist here: it is only assigned inside a branch or loop body that has ended"));
    Note(expired->second, absl::StrCat("'", name, "' is assigned here; give it a value before that statement too"));
    return {};
  }
  Lookup lookup = frames_.back().function->scope->Find(name);
  if (lookup.found()) {
    if (lookup.value.is(ConstantKind::kModule)) class_places_.emplace(lookup.value.text, lookup.definition);
    return Value::Of(lookup.value);
  }
  if (lookup.outcome == Lookup::Outcome::kNotConstant) {
    Error(absl::StrCat("the value of '", name, "' is not known at compile time: ", lookup.reason));
    if (lookup.reason_range.line > 0) Note(lookup.reason_range, "because of this");
    return {};
  }
  return Error(absl::StrCat("name '", name, "' is not defined", Suggestion(name)));
}

std::string Emitter::Suggestion(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [bound, binding] : names().bound) known.push_back(bound);
  for (const Function* f : index_.jit_functions()) known.push_back(f->name);
  return DidYouMean(name, known);
}

Value Emitter::FString(const Expr& e) {
  std::string text;
  for (const ExprPtr& part : e.items) {
    if (part->kind == ExprKind::kString) {
      text += part->text;
      continue;
    }
    Value value = Evaluate(*part);
    if (failed_) return {};
    text += TextOf(value);
  }
  return Value::Of(Constant::String(std::move(text)));
}

// Unrolled, with the names of its targets local to it.
Value Emitter::Comprehension(const Expr& e) {
  if (e.comprehension_bracket == '{') return Error("sets and dicts are not part of the kernel language; make a tuple or list");
  const Names before = names();
  std::vector<Value> items;
  ComprehensionItems(e, 0, &items);
  names() = before;
  return failed_ ? Value() : Value::Tuple(std::move(items));
}

void Emitter::ComprehensionItems(const Expr& e, size_t clause, std::vector<Value>* items) {
  if (clause == e.clauses.size()) {
    items->push_back(Evaluate(*e.a));
    return;
  }
  const ComprehensionClause& c = e.clauses[clause];
  Value sequence;
  Value callee = c.iterable->kind == ExprKind::kCall ? Evaluate(*c.iterable->a) : Value();
  if (callee.is_constant() && callee.constant.is_builtin("tl.static_range")) {
    std::vector<CallArgument> arguments;
    std::vector<Value> steps;
    if (!EvaluateArguments(*c.iterable, &arguments) || !StaticRange(arguments, c.iterable->range, &steps)) return;
    sequence = Value::Tuple(std::move(steps));
  } else {
    sequence = Evaluate(*c.iterable);
  }
  if (failed_) return;
  if (!sequence.is_tuple()) {
    Error(c.iterable->range, absl::StrCat("a comprehension goes over a tuple, or a range of constants, not ", Describe(sequence)));
    return;
  }
  for (const Value& value : std::vector<Value>(*sequence.items)) {
    if (!UnrollStep()) return;
    if (c.target->kind == ExprKind::kName) Bind(c.target->text, value, c.target->range);  // constants stay
    else AssignTo(*c.target, value, c.target->range);
    bool taken = true;
    for (const ExprPtr& test : c.conditions) {
      Value truth = failed_ ? Value() : Condition(Evaluate(*test), "the condition of a comprehension");
      if (failed_) return;
      if (!truth.is_constant()) {
        Error(test->range, "the condition of a comprehension must be known at compile time");
        return;
      }
      taken = taken && truth.constant.boolean;
    }
    if (taken) ComprehensionItems(e, clause + 1, items);
    if (failed_) return;
  }
}

std::string Emitter::TextOf(const Value& value) {
  if (value.is_constant(ConstantKind::kString)) return value.constant.text;
  if (std::optional<Constant> constant = ToConstant(value)) return Repr(*constant);
  return absl::StrCat("<", Describe(value), ">");
}

// As Python evaluates it for constants; runtime operands are all computed, and joined.
Value Emitter::BoolOp(const Expr& e) {
  std::vector<std::pair<Value, SourceRange>> runtime;
  Value last;
  for (const ExprPtr& item : e.items) {
    last = Evaluate(*item);
    if (failed_) return {};
    if (last.is_tensor()) {
      runtime.emplace_back(last, item->range);
      continue;
    }
    Value truth = Condition(last, "operand");
    if (failed_) return {};
    if (truth.constant.boolean != e.is_and) return last;
  }
  if (runtime.empty()) return last;
  Value result = runtime[0].first;
  for (size_t i = 0; i < runtime.size(); ++i) {
    if (!runtime[i].first.type.element.is_bool())
      return Error(runtime[i].second,
                   absl::StrCat("'", e.is_and ? "and" : "or", "' wants conditions (int1), not ",
                                Describe(runtime[i].first), "; compare with 0, or use ", e.is_and ? "&" : "|"));
    if (i > 0) result = LogicalAndOr(e.is_and, result, runtime[i].first);
  }
  return result;
}

Value Emitter::CompareExpr(const Expr& e) {
  std::vector<Value> operands;
  for (const ExprPtr& item : e.items) {
    operands.push_back(Evaluate(*item));
    if (failed_) return {};
  }
  Value result;
  for (size_t i = 0; i < e.compare_ops.size(); ++i) {
    Value next = Compare(e.compare_ops[i], operands[i], operands[i + 1]);
    if (failed_) return {};
    if (e.compare_ops.size() > 1 && !next.is_constant())
      return Error("chained comparisons of runtime values are not part of the kernel language; join two with &");
    if (i > 0 && !result.constant.boolean) break;
    result = next;
  }
  return result;
}

Value Emitter::Conditional(const Expr& e) {
  Value condition = Evaluate(*e.a);
  if (failed_) return {};
  {
    At at(*this, e.a->range);
    condition = Condition(condition, "the condition of 'if ... else'");
  }
  if (failed_) return {};
  if (condition.is_constant()) return Evaluate(condition.constant.boolean ? *e.b : *e.c);

  auto arm = [&](const Expr& expr, mlir::Block* block) {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(block);
    Value value = Strong(Evaluate(expr));
    std::vector<mlir::Value> ir;
    Flatten(value, &ir);
    if (!failed_) Create<mlir::scf::YieldOp>(ir);
    return value;
  };
  auto then_block = std::make_unique<mlir::Block>(), else_block = std::make_unique<mlir::Block>();
  Value a = arm(*e.b, then_block.get());
  Value b = failed_ ? Value() : arm(*e.c, else_block.get());
  if (failed_) return {};
  std::string difference;
  if (!SameMake(a, b, &difference))
    return Error(absl::StrCat("the two values of 'if ... else' differ in type: ", difference,
                              "; convert one with .to(), or use tl.where"));
  std::vector<mlir::Value> ir;
  Flatten(a, &ir);
  llvm::SmallVector<mlir::Type> types;
  for (mlir::Value v : ir) types.push_back(v.getType());
  auto op = Create<mlir::scf::IfOp>(mlir::TypeRange(types), condition.ir, false, false);
  op.getThenRegion().push_back(then_block.release());
  op.getElseRegion().push_back(else_block.release());
  llvm::SmallVector<mlir::Value> results(op.getResults().begin(), op.getResults().end());
  const mlir::Value* next = results.data();
  return Rebuild(a, next);
}

//===-- attributes ----------------------------------------------------------------------------------===//

Value Emitter::Attribute(const Value& base, const std::string& name) {
  switch (base.kind) {
    case Value::Kind::kError: return {};
    case Value::Kind::kTuple: {
      if (base.fields)
        for (size_t i = 0; i < base.fields->size(); ++i)
          if ((*base.fields)[i] == name) return (*base.items)[i];
      if (base.of_class && base.of_class->methods.count(name)) return Value::Method(base, name);
      if (base.of_class) return Error(absl::StrCat("a ", base.of_class->name, " has no field or method '", name, "'"));
      if (name == "type") return ToConstant(base) ? Value::TypeOfConstant(base) : base;
      return Error(absl::StrCat("a tuple has no attribute '", name, "'; its items are reached by index"));
    }
    case Value::Kind::kType: {
      const Type& type = base.type;
      if (base.is_pointer_to_block) {
        if (name == "element_ty") return Value::TypeOf(type);
        if (name == "scalar") return base;
        if (name == "is_ptr" || name == "is_block") return Value::Method(base, name);
        break;
      }
      if (name == "scalar") return Value::TypeOf({type.element, {}});
      if (name == "element_ty") {
        if (type.is_block()) return Value::TypeOf({type.element, {}});
        if (type.element.pointer) return Value::Of(Constant::Type(type.element.dtype));
      }
      if (name == "shape" || name == "numel") return Attribute(Value::Tensor({}, type), name);
      if (name == "is_block" || name == "is_ptr") return Value::Method(base, name);
      if (std::optional<Constant> constant = ToConstant(Value::TypeOf({type.element, {}})))
        return Attribute(Value::Of(*constant), name);
      break;
    }
    case Value::Kind::kTensor: return TensorAttribute(base, name);
    case Value::Kind::kBlockPointer: {
      const BlockPointer& p = *base.block_pointer;
      if (name == "type" || name == "dtype") {
        Value type = Value::TypeOf({p.element, p.block});
        type.is_pointer_to_block = true;
        return type;
      }
      if (name == "shape") return TensorAttribute(Value::Tensor({}, {p.element, p.block}), name);
      if (name == "advance" || name == "load" || name == "store") return Value::Method(base, name);
      break;
    }
    case Value::Kind::kDescriptor: {
      const Descriptor& d = *base.descriptor;
      if (name == "dtype") return Value::Of(Constant::Type(d.element.dtype));
      if (name == "block_shape") return TensorAttribute(Value::Tensor({}, {d.element, d.block}), "shape");
      if (name == "block_type" || name == "type") return Value::TypeOf({d.element, d.block});
      if (name == "shape" || name == "strides") {
        std::vector<Value> items;
        ElementType element{name == "shape" ? DType::kInt32 : DType::kInt64, false};
        for (mlir::Value v : name == "shape" ? d.shape : d.strides) items.push_back(Value::Tensor(v, {element, {}}));
        return Value::Tuple(std::move(items));
      }
      return Value::Method(base, name);
    }
    case Value::Kind::kMethod: break;
    case Value::Kind::kConstant: {
      const Constant& c = base.constant;
      if (c.is_number()) {
        if (name == "value") return base;  // of a tl.constexpr
        if (name == "type") return Value::TypeOfConstant(base);
        if (name == "to" || name == "cast") return Value::Method(base, name);
        return TensorAttribute(ToTensor(base), name);
      }
      if (name == "value" && (c.is(ConstantKind::kString) || c.is_none() || c.is(ConstantKind::kDType))) return base;
      if (c.is(ConstantKind::kPointerType)) {
        if (name == "element_ty" || name == "scalar") {
          return Value::Of(name == "scalar" ? c : Constant::Type(c.dtype));
        }
        if (name == "is_ptr" || name == "is_block") return Value::Method(base, name);
      }
      if (c.is(ConstantKind::kDType)) {
        if (name == "scalar") return base;
        if (name == "element_ty") return base;  // lenient: of a scalar's dtype
        if (name == "is_ptr" || name == "is_block") return Value::Method(base, name);
      }
      if (c.is_builtin("tl.PropagateNan") || c.is_builtin("tl.target_info"))
        return Value::Of(Constant::Builtin(absl::StrCat(c.text, ".", name)));
      Lookup lookup = index_.Attribute(c, name);
      if (lookup.found()) {
        if (lookup.value.is(ConstantKind::kModule)) class_places_.emplace(lookup.value.text, lookup.definition);
        return Value::Of(lookup.value);
      }
      if (c.is(ConstantKind::kString) || c.is(ConstantKind::kDType) || c.is(ConstantKind::kPointerType) ||
          c.is(ConstantKind::kDict))
        return Value::Method(base, name);
      if (lookup.outcome == Lookup::Outcome::kNotConstant)
        return Error(absl::StrCat("'", name, "' is not known at compile time: ", lookup.reason));
      if (c.is(ConstantKind::kModule)) {
        if (c.text.rfind("file:", 0) == 0)
          return Error(absl::StrCat("this file of the module does not define '", name, "'"));
        std::string full = absl::StrCat(c.text, ".", name);
        if (FindBuiltin(full)) return Value::Of(Constant::Builtin(full));
        return Error(UnknownFunction(full));
      }
      break;
    }
  }
  return Error(absl::StrCat(Describe(base), " has no attribute '", name, "'"));
}

std::optional<Value> Emitter::FindAttribute(const Value& base, const std::string& name) {
  if (base.is_constant(ConstantKind::kModule) && base.constant.text.rfind("tl", 0) == 0 && !IsLanguageName(name) &&
      !FindBuiltin(absl::StrCat(base.constant.text, ".", name)))
    return std::nullopt;  // any name of tl is taken for a function, until it is called
  if (base.is_constant(ConstantKind::kModule) && base.constant.text == "libdevice" && !FindBuiltin(absl::StrCat("libdevice.", name)))
    return std::nullopt;
  if (base.is_number() && name != "value" && name != "type") return std::nullopt;
  if (failed_) return std::nullopt;
  quiet_ = true;
  Value value = Attribute(base, name);
  quiet_ = false;
  bool found = !failed_;
  failed_ = false;
  return found ? std::optional<Value>(value) : std::nullopt;
}

Value Emitter::TensorAttribute(const Value& base, const std::string& name) {
  const Type& type = base.type;
  if (name == "dtype")
    return Value::Of(type.element.pointer ? Constant::PointerType(type.element.dtype)
                                          : Constant::Type(type.element.dtype));
  if (name == "type") return type.is_block() ? Value::TypeOf(type) : TensorAttribute(base, "dtype");
  if (name == "shape") {
    std::vector<Value> items;
    for (int64_t d : type.shape) items.push_back(Value::Int(d));
    return Value::Tuple(std::move(items));
  }
  if (name == "numel") return Value::Int(type.elements());
  if (name == "T") {
    return Call(Value::Method(base, "trans"), {}, at_);
  }
  if (IsTensorMethod(name)) return Value::Method(base, name);
  return Error(absl::StrCat(Describe(base), " has no attribute or method '", name, "'",
                            DidYouMean(name, TensorMethods())));
}

//===-- subscripts ----------------------------------------------------------------------------------===//

Value Emitter::Item(const Value& tuple, const Value& index) {
  std::optional<int64_t> i = ConstantInt(index, "the index of a tuple");
  if (!i) return {};
  int64_t size = tuple.items->size();
  if (*i < -size || *i >= size)
    return Error(absl::StrCat("index ", *i, " is outside the tuple of ", size, size == 1 ? " item" : " items"));
  return (*tuple.items)[*i < 0 ? *i + size : *i];
}

Value Emitter::Subscript(const Expr& e) {
  Value base = Evaluate(*e.a);
  if (failed_) return {};
  if (base.is_tensor()) return IndexBlock(base, *e.b);
  if (base.is_tuple() && base.of_class && base.of_class->methods.count("__getitem__")) {
    Value index = Evaluate(*e.b);
    return failed_ ? Value() : Call(Value::Method(base, "__getitem__"), {{"", index, e.b->range}}, e.range);
  }
  if (base.is_tuple() && e.b->kind == ExprKind::kSlice) {
    int64_t size = base.items->size();
    auto bound = [&](const ExprPtr& expr, int64_t missing) -> std::optional<int64_t> {
      if (!expr) return missing;
      Value value = Evaluate(*expr);
      if (failed_) return std::nullopt;
      if (value.is_none()) return missing;
      std::optional<int64_t> i = ConstantInt(value, "a bound of a slice");
      if (i) *i = std::clamp<int64_t>(*i < 0 ? *i + size : *i, 0, size);
      return i;
    };
    std::optional<int64_t> step = 1;
    if (e.b->c) {
      Value value = Evaluate(*e.b->c);
      step = failed_ || value.is_none() ? 1 : ConstantInt(value, "the step of a slice");
    }
    if (failed_ || !step) return {};
    if (*step < 1) return Error(e.b->c->range, "slices of tuples go forward: the step must be positive");
    std::optional<int64_t> first = bound(e.b->a, 0), last = bound(e.b->b, size);
    if (!first || !last) return {};
    std::vector<Value> items;
    for (int64_t i = *first; i < *last; i += std::min(*step, size)) items.push_back((*base.items)[i]);
    return Value::Tuple(std::move(items));
  }
  Value index = Evaluate(*e.b);
  if (failed_) return {};
  if (base.is_tuple()) return Item(base, index);
  std::optional<Constant> b = ToConstant(base), i = ToConstant(index);
  if (b && i) {
    std::string error;
    std::optional<Constant> item = EvaluateSubscript(*b, *i, &error);
    return item ? Value::Of(*item) : Error(error);
  }
  return Error(absl::StrCat(Describe(base), " cannot be indexed"));
}

// x[:, None] and the like: only whole dimensions and new ones of extent 1.
Value Emitter::IndexBlock(const Value& base, const Expr& index) {
  std::vector<const Expr*> parts;
  if (index.kind == ExprKind::kTuple)
    for (const ExprPtr& item : index.items) parts.push_back(item.get());
  else
    parts.push_back(&index);
  std::vector<bool> is_new;  // one an index: None, else ':'
  size_t whole = 0;
  auto is_none = [&](const ExprPtr& bound) { return !bound || (!failed_ && Evaluate(*bound).is_none()); };
  for (const Expr* part : parts) {
    bool slice = part->kind == ExprKind::kSlice;
    bool full = slice && is_none(part->a) && is_none(part->b) && is_none(part->c);
    if (failed_) return {};
    if (full) {
      is_new.push_back(false);
      ++whole;
      continue;
    }
    Value value = slice || part->kind == ExprKind::kEllipsis ? Value() : Evaluate(*part);
    if (failed_) return {};
    if (!value.is_none())
      return Error(part->range, absl::StrCat("a block is indexed with ':' and None only, to add dimensions; ",
                                             "use tl.gather, a mask or pointer arithmetic to pick elements"));
    is_new.push_back(true);
  }
  if (whole > base.type.shape.size())  // Triton takes it
    Warning(index.range, absl::StrCat("too many indices: ", Describe(base), " has ", base.type.shape.size(), " dimension(s)"));
  Value result = base;
  for (size_t i = 0; i < is_new.size(); ++i) {
    if (!is_new[i]) continue;
    if (i > result.type.shape.size())
      return Error(absl::StrCat("too many indices: ", Describe(base), " has ", base.type.shape.size(), " dimension(s)"));
    result = ExpandDims(result, i);
  }
  return result;
}

}  // namespace tessera::frontend
