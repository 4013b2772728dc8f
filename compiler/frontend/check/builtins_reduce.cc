// Reductions, scans, sorting, histograms, and map over elements.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

using Emit = std::function<Value(Emitter&, const Arguments&)>;
// Combines the values on the left with those on the right; scalars of the element types.
using Combine = std::function<std::vector<Value>(Emitter&, const std::vector<Value>&, const std::vector<Value>&)>;

constexpr ElementType kInt32{DType::kInt32, false};
constexpr ElementType kFloat32{DType::kFp32, false};

// Fills the region of a reduction or scan.
bool FillCombine(Emitter& e, mlir::Region& region, const std::vector<Value>& inputs, const Combine& combine) {
  mlir::OpBuilder::InsertionGuard guard(e.builder());
  auto* block = new mlir::Block;
  region.push_back(block);
  std::vector<Value> sides[2];
  for (std::vector<Value>& side : sides)
    for (const Value& input : inputs) {
      Type scalar{input.type.element, {}};
      side.push_back(Value::Tensor(block->addArgument(e.IrType(scalar), e.loc()), scalar));
    }
  e.builder().setInsertionPointToEnd(block);
  std::vector<Value> results = combine(e, sides[0], sides[1]);
  if (e.failed()) return false;
  std::vector<mlir::Value> ir;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (results.size() != inputs.size() || results[i].type != sides[0][i].type) {
      e.Error(absl::StrCat("the combine function must return the types it takes: ",
                           results.size() != inputs.size()
                               ? absl::StrCat(inputs.size(), " value(s), not ", results.size())
                               : absl::StrCat(Describe(sides[0][i]), ", not ", Describe(results[i]))));
      return false;
    }
    ir.push_back(results[i].ir);
  }
  e.Create<tile::YieldOp>(ir);
  return true;
}

// A combine function of the module.
Combine UserCombine(const Value& function) {
  return [function](Emitter& e, const std::vector<Value>& left, const std::vector<Value>& right) -> std::vector<Value> {
    std::vector<Value> arguments = left;
    arguments.insert(arguments.end(), right.begin(), right.end());
    Value result = e.Strong(e.CallFunction(function, arguments));
    if (e.failed()) return {};
    return result.is_tuple() ? *result.items : std::vector<Value>{result};
  };
}

// One or several blocks of equal shape; scalars are refused.
bool ReadBlocks(Emitter& e, const Arguments& args, std::vector<Value>* blocks) {
  Emitter::At at(e, args.Range("input"));
  const Value& input = args["input"];
  *blocks = input.is_tuple() ? *input.items : std::vector<Value>{input};
  for (const Value& block : *blocks) {
    if (!e.Computes(block)) return false;
    if (!block.is_block()) {
      e.Error(absl::StrCat(args.function, " wants a block, not ", Describe(block)));
      return false;
    }
    if (block.type.shape != (*blocks)[0].type.shape) {
      e.Error(absl::StrCat("the blocks differ in shape: ", ToString((*blocks)[0].type.shape), " and ",
                           ToString(block.type.shape)));
      return false;
    }
  }
  if (blocks->empty()) e.Error(absl::StrCat(args.function, " wants at least one block"));
  return !e.failed();
}

std::vector<Value> Reduce(Emitter& e, std::vector<Value> inputs, const Value& axis_value, bool keep_dims,
                          const Combine& combine, bool keep_order = false) {
  size_t rank = inputs[0].type.shape.size();
  int axis = 0;
  bool all = axis_value.is_none();
  if (all) {
    for (Value& input : inputs) input = e.Reshape(input, {input.type.elements()}, !keep_order);
  } else {
    std::optional<int> given = e.Axis(axis_value, rank, "'axis'");
    if (!given) return {};
    axis = *given;
  }
  std::vector<mlir::Value> sources;
  std::vector<mlir::Type> types;
  std::vector<Value> results;
  for (const Value& input : inputs) {
    Type type = input.type;
    type.shape.erase(type.shape.begin() + axis);
    sources.push_back(input.ir);
    types.push_back(e.IrType(type));
    results.push_back(Value::Tensor({}, type));
  }
  auto op = e.Create<tile::ReduceOp>(mlir::TypeRange(types), mlir::ValueRange(sources), uint32_t(axis));
  if (!FillCombine(e, op.getCombine(), inputs, combine)) return {};
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].ir = op.getResult()[i];
    if (!keep_dims) continue;
    if (all)
      results[i] = e.BroadcastTo(results[i], Shape(rank, 1));
    else
      results[i] = e.ExpandDims(results[i], axis);
  }
  return results;
}

std::vector<Value> Scan(Emitter& e, const std::vector<Value>& inputs, const Value& axis_value, bool reverse,
                        const Combine& combine) {
  std::optional<int> axis = e.Axis(axis_value, inputs[0].type.shape.size(), "'axis'");
  if (!axis) return {};
  std::vector<mlir::Value> sources;
  std::vector<mlir::Type> types;
  for (const Value& input : inputs) {
    sources.push_back(input.ir);
    types.push_back(input.ir.getType());
  }
  auto op = e.Create<tile::ScanOp>(mlir::TypeRange(types), mlir::ValueRange(sources), uint32_t(*axis), reverse);
  if (!FillCombine(e, op.getCombine(), inputs, combine)) return {};
  std::vector<Value> results;
  for (size_t i = 0; i < inputs.size(); ++i) results.push_back(Value::Tensor(op.getResult()[i], inputs[i].type));
  return results;
}

Value First(const std::vector<Value>& values) { return values.empty() ? Value() : values[0]; }

//===-- widening --------------------------------------------------------------------------------------===//

Value WidenBf16(Emitter& e, const Value& x) { return x.type.element.is(DType::kBf16) ? e.Cast(x, kFloat32) : x; }

// Integers below 32 bits to int32 or uint32, as sum and cumsum do; or what `dtype` says.
std::optional<Value> WidenForSum(Emitter& e, const Value& x, const Value& dtype) {
  if (!dtype.is_none()) {
    std::optional<ElementType> element = e.ElementTypeOf(dtype, "'dtype'");
    if (!element) return std::nullopt;
    return e.Cast(x, *element);
  }
  const ElementType& element = x.type.element;
  if (element.is_int() && element.bits() < 32)
    return e.Cast(x, {element.is_signed() ? DType::kInt32 : DType::kUint32, false});
  return x;
}

//===-- sum and its kin -------------------------------------------------------------------------------===//

Combine OperatorCombine(BinaryOp op) {
  return [op](Emitter& e, const std::vector<Value>& left, const std::vector<Value>& right) -> std::vector<Value> {
    return {e.Binary(op, left[0], right[0])};
  };
}

Value Sum(Emitter& e, const Arguments& args) {
  std::vector<Value> blocks;
  std::optional<bool> keep_dims = e.ConstantBool(args, "keep_dims");
  if (!keep_dims || !ReadBlocks(e, args, &blocks)) return {};
  std::optional<Value> input = WidenForSum(e, blocks[0], args["dtype"]);
  if (!input || e.failed()) return {};
  return First(Reduce(e, {*input}, args["axis"], *keep_dims, OperatorCombine(BinaryOp::kAdd)));
}

Emit BitReduce(BinaryOp op) {
  return [op](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> blocks;
    std::optional<bool> keep_dims = e.ConstantBool(args, "keep_dims");
    if (!keep_dims || !ReadBlocks(e, args, &blocks)) return {};
    if (!blocks[0].type.element.is_int())
      return e.Error(absl::StrCat(args.function, " wants integers, not ", Describe(blocks[0])));
    return First(Reduce(e, blocks, args["axis"], *keep_dims, OperatorCombine(op)));
  };
}

//===-- extremes --------------------------------------------------------------------------------------===//

Combine ExtremeCombine(bool is_max) {
  return [is_max](Emitter& e, const std::vector<Value>& left, const std::vector<Value>& right) -> std::vector<Value> {
    return {Value::Tensor(e.MinMax(is_max, left[0].ir, right[0].ir, left[0].type.element, false), left[0].type)};
  };
}

// The greater (lesser) value with its index; of equal values the one with the lower index, or any.
Combine IndexedExtremeCombine(bool is_max, bool leftmost) {
  return [=](Emitter& e, const std::vector<Value>& left, const std::vector<Value>& right) -> std::vector<Value> {
    Value wins = e.Compare(is_max ? CompareOp::kGt : CompareOp::kLt, left[0], right[0]);
    if (leftmost) {
      Value tie = e.LogicalAndOr(true, e.Compare(CompareOp::kEq, left[0], right[0]),
                                 e.Compare(CompareOp::kLt, left[1], right[1]));
      wins = e.LogicalAndOr(false, wins, tie);
    }
    return {e.Select(wins, left[0], right[0]), e.Select(wins, left[1], right[1])};
  };
}

std::vector<Value> IndexedExtreme(Emitter& e, const Arguments& args, Value block, bool is_max, bool leftmost,
                                  bool keep_dims) {
  Value axis = args["axis"];
  size_t rank = block.type.shape.size();
  if (axis.is_none()) {
    block = e.Reshape(block, {block.type.elements()}, false);
  } else if (std::optional<int> given = e.Axis(axis, rank, "'axis'")) {
    axis = Value::Int(*given);
  } else {
    return {};
  }
  int d = axis.is_none() ? 0 : int(axis.constant.integer);
  Type line{kInt32, {block.type.shape[d]}};
  Value index = Value::Tensor(e.Create<tile::RangeOp>(e.IrType(line), uint32_t(0), uint32_t(line.shape[0])), line);
  for (size_t i = 0; i < block.type.shape.size(); ++i)
    if (int(i) != d) index = e.ExpandDims(index, int(i));
  index = e.BroadcastTo(index, block.type.shape);
  std::vector<Value> results =
      Reduce(e, {block, index}, Value::Int(d), keep_dims && !axis.is_none(), IndexedExtremeCombine(is_max, leftmost));
  if (keep_dims && axis.is_none())
    for (Value& result : results) result = e.BroadcastTo(result, Shape(rank, 1));
  return results;
}

Emit Extreme(bool is_max) {
  return [is_max](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> blocks;
    std::optional<bool> keep_dims = e.ConstantBool(args, "keep_dims");
    std::optional<bool> indices = e.ConstantBool(args, "return_indices");
    std::optional<bool> leftmost = e.ConstantBool(args, "return_indices_tie_break_left");
    if (!keep_dims || !indices || !leftmost || !ReadBlocks(e, args, &blocks)) return {};
    Value block = WidenBf16(e, blocks[0]);
    if (*indices) {
      std::vector<Value> results = IndexedExtreme(e, args, block, is_max, *leftmost, *keep_dims);
      return e.failed() ? Value() : Value::Tuple(std::move(results));
    }
    if (block.type.element.bits() < 32) block = e.Cast(block, block.type.element.is_float() ? kFloat32 : kInt32);
    if (e.failed()) return {};
    return First(Reduce(e, {block}, args["axis"], *keep_dims, ExtremeCombine(is_max)));
  };
}

Emit ArgExtreme(bool is_max) {
  return [is_max](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> blocks;
    std::optional<bool> keep_dims = e.ConstantBool(args, "keep_dims");
    std::optional<bool> leftmost = e.ConstantBool(args, "tie_break_left");
    if (!keep_dims || !leftmost || !ReadBlocks(e, args, &blocks)) return {};
    std::vector<Value> results = IndexedExtreme(e, args, WidenBf16(e, blocks[0]), is_max, *leftmost, *keep_dims);
    return results.size() == 2 ? results[1] : Value();
  };
}

Value Softmax(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["x"], "the operand");
  if (e.failed()) return {};
  if (!x.is_block()) return e.Error(absl::StrCat("tl.softmax wants a block, not ", Describe(x)));
  if (!x.type.element.is_float()) return e.Error(absl::StrCat("tl.softmax wants floats, not ", Describe(x)));
  if (x.type.element.bits() < 32) x = e.Cast(x, kFloat32);
  Value dim = args["dim"].is_none() ? Value::Int(0) : args["dim"];
  Value shifted = e.Sub(x, First(Reduce(e, {x}, dim, true, ExtremeCombine(true))));
  if (e.failed()) return {};
  Value exp = Value::Tensor(e.Make<mlir::math::ExpOp>(shifted.ir), shifted.type);
  return e.Binary(BinaryOp::kDiv, exp, First(Reduce(e, {exp}, dim, true, OperatorCombine(BinaryOp::kAdd))));
}

//===-- scans -----------------------------------------------------------------------------------------===//

Emit Cumulative(BinaryOp op) {
  return [op](Emitter& e, const Arguments& args) -> Value {
    std::vector<Value> blocks;
    std::optional<bool> reverse = e.ConstantBool(args, "reverse");
    if (!reverse || !ReadBlocks(e, args, &blocks)) return {};
    std::optional<Value> input = WidenBf16(e, blocks[0]);
    if (op == BinaryOp::kAdd) input = WidenForSum(e, *input, args["dtype"]);
    if (!input || e.failed()) return {};
    return First(Scan(e, {*input}, args["axis"], *reverse, OperatorCombine(op)));
  };
}

//===-- the caller's own functions ----------------------------------------------------------------------===//

bool CheckFunction(Emitter& e, const Arguments& args, absl::string_view name) {
  const Value& function = args[name];
  if (function.is_constant(ConstantKind::kFunction) || function.is_constant(ConstantKind::kBuiltin) ||
      function.is_constant(ConstantKind::kLambda))
    return true;
  e.Error(args.Range(name), absl::StrCat("'", name, "' must be a @triton.jit function, not ", Describe(function)));
  return false;
}

Value Results(Emitter& e, bool several, std::vector<Value> results) {
  if (e.failed()) return {};
  return several ? Value::Tuple(std::move(results)) : First(results);
}

Value ReduceWith(Emitter& e, const Arguments& args) {
  std::vector<Value> blocks;
  std::optional<bool> keep_dims = e.ConstantBool(args, "keep_dims");
  if (!keep_dims || !CheckFunction(e, args, "combine_fn") || !ReadBlocks(e, args, &blocks)) return {};
  return Results(e, args["input"].is_tuple(),
                 Reduce(e, blocks, args["axis"], *keep_dims, UserCombine(args["combine_fn"]), /*keep_order=*/true));
}

Value ScanWith(Emitter& e, const Arguments& args) {
  std::vector<Value> blocks;
  std::optional<bool> reverse = e.ConstantBool(args, "reverse");
  if (!reverse || !CheckFunction(e, args, "combine_fn") || !ReadBlocks(e, args, &blocks)) return {};
  return Results(e, args["input"].is_tuple(), Scan(e, blocks, args["axis"], *reverse, UserCombine(args["combine_fn"])));
}

// The elements i, i + count, ... of a block in row-major order as a 1-D block, for each i below `count`.
std::vector<Value> Neighbours(Emitter& e, const Value& block, int64_t count) {
  if (count == 1) return {e.Reshape(block, {block.type.elements()}, false)};
  // The lowest bit of the index first: even elements, then odd ones.
  Value pairs = e.Reshape(block, {block.type.elements() / 2, 2}, false);
  Type half{block.type.element, {block.type.elements() / 2}};
  auto split = e.Create<tile::SplitOp>(e.IrType(half), e.IrType(half), pairs.ir);
  std::vector<Value> even = Neighbours(e, Value::Tensor(split->getResult(0), half), count / 2);
  std::vector<Value> odd = Neighbours(e, Value::Tensor(split->getResult(1), half), count / 2);
  std::vector<Value> result;
  for (size_t i = 0; i < even.size(); ++i) {
    result.push_back(std::move(even[i]));
    result.push_back(std::move(odd[i]));
  }
  return result;
}

// The inverse of Neighbours.
Value Interleaved(Emitter& e, const std::vector<Value>& parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<Value> even, odd;
  for (size_t i = 0; i < parts.size(); i += 2) {
    even.push_back(parts[i]);
    odd.push_back(parts[i + 1]);
  }
  Value a = Interleaved(e, even), b = Interleaved(e, odd);
  if (a.type != b.type) return e.Error(absl::StrCat("packed results differ in type: ", Describe(a), " and ", Describe(b)));
  Type type{a.type.element, {a.type.elements(), 2}};
  return e.Reshape(Value::Tensor(e.Create<tile::JoinOp>(e.IrType(type), a.ir, b.ir), type), {2 * a.type.elements()}, false);
}

Value MapElementwise(Emitter& e, const Arguments& args) {
  if (!CheckFunction(e, args, "scalar_fn")) return {};
  std::optional<int64_t> pack = e.ConstantInt(args, "pack");
  if (!pack) return {};
  if (*pack < 1 || (*pack & (*pack - 1))) return e.Error(args.Range("pack"), absl::StrCat("'pack' must be a power of two, not ", *pack));
  std::vector<Value> inputs;
  Shape shape;
  for (const Value& item : *args["args"].items) {
    inputs.push_back(e.ToTensor(item, "an operand"));
    if (e.failed() || !e.CommonShape(shape, inputs.back().type.shape, &shape)) return {};
  }
  if (shape.empty()) {
    if (*pack != 1) return e.Error(args.Range("pack"), "'pack' is for blocks");
    return e.CallFunction(args["scalar_fn"], inputs);
  }
  for (Value& input : inputs) input = e.BroadcastTo(input, shape);
  Type whole{kInt32, shape};
  if (*pack > 1) {
    // The function gets `pack` neighbours of each operand as arguments of their own.
    if (whole.elements() % *pack)
      return e.Error(args.Range("pack"), absl::StrCat("'pack' is ", *pack, ", but the blocks have ", whole.elements(), " element(s)"));
    std::vector<Value> parts;
    for (const Value& input : inputs)
      for (Value& part : Neighbours(e, input, *pack)) parts.push_back(std::move(part));
    inputs = std::move(parts);
    shape = {whole.elements() / *pack};
  }
  std::vector<mlir::Value> sources;
  for (Value& input : inputs) sources.push_back(input.ir);

  auto block = std::make_unique<mlir::Block>();
  Value result;
  std::vector<mlir::Value> yields;
  {
    mlir::OpBuilder::InsertionGuard guard(e.builder());
    e.builder().setInsertionPointToEnd(block.get());
    std::vector<Value> scalars;
    for (const Value& input : inputs) {
      Type scalar{input.type.element, {}};
      scalars.push_back(Value::Tensor(block->addArgument(e.IrType(scalar), e.loc()), scalar));
    }
    result = e.Strong(e.CallFunction(args["scalar_fn"], scalars));
    if (e.failed()) return {};
    Flatten(result, &yields);
    e.Create<tile::YieldOp>(yields);
  }
  std::vector<Value> results = result.is_tuple() ? *result.items : std::vector<Value>{result};
  std::vector<mlir::Type> types;
  for (Value& r : results) {
    if (!r.is_scalar()) return e.Error(absl::StrCat("the function must return scalars, not ", Describe(r)));
    r.type.shape = shape;
    types.push_back(e.IrType(r.type));
  }
  mlir::OperationState state(e.loc(), tile::MapOp::getOperationName());
  state.addOperands(sources);
  state.addTypes(types);
  state.addRegion()->push_back(block.release());
  mlir::Operation* op = e.builder().create(state);
  for (size_t i = 0; i < results.size(); ++i) results[i].ir = op->getResult(i);
  if (*pack == 1) return Results(e, result.is_tuple(), std::move(results));
  if (results.size() % *pack)
    return e.Error(absl::StrCat("with pack=", *pack, " the function must return a multiple of ", *pack, " values, not ", results.size()));
  std::vector<Value> joined;
  for (size_t i = 0; i < results.size() && !e.failed(); i += *pack)
    joined.push_back(e.Reshape(Interleaved(e, {results.begin() + i, results.begin() + i + *pack}), whole.shape, false));
  return Results(e, joined.size() > 1, std::move(joined));
}

//===-- sort, topk, histogram, gather -----------------------------------------------------------------===//

std::optional<Value> Sorted(Emitter& e, const Arguments& args, bool descending) {
  Value x = args["x"];
  if (!e.Computes(x)) return std::nullopt;
  if (!x.is_block()) {
    e.Error(absl::StrCat(args.function, " wants a block, not ", Describe(x)));
    return std::nullopt;
  }
  size_t rank = x.type.shape.size();
  if (!args["dim"].is_none()) {
    std::optional<int> dim = e.Axis(args["dim"], rank, "'dim'");
    if (!dim) return std::nullopt;
    if (*dim != int(rank) - 1) {
      e.Error(args.Range("dim"), "only the last dimension can be sorted; transpose first");
      return std::nullopt;
    }
  }
  const ElementType& element = x.type.element;
  return Value::Tensor(e.Create<tile::SortOp>(x.ir, descending, element.is_int() && !element.is_signed()), x.type);
}

Value Sort(Emitter& e, const Arguments& args) {
  std::optional<bool> descending = e.ConstantBool(args, "descending");
  if (!descending) return {};
  return Sorted(e, args, *descending).value_or(Value());
}

Value Gather(Emitter& e, const Value& source, const Value& index, int axis) {
  Type type = index.type.WithElement(source.type.element);
  return Value::Tensor(e.Create<tile::GatherOp>(e.IrType(type), source.ir, index.ir, uint32_t(axis)), type);
}

// The k greatest, in descending order.
Value TopK(Emitter& e, const Arguments& args) {
  std::optional<int64_t> k = e.ConstantInt(args, "k");
  std::optional<Value> sorted = k ? Sorted(e, args, true) : std::nullopt;
  if (!sorted) return {};
  int64_t n = sorted->type.shape.back();
  if (*k < 1 || *k > n || (*k & (*k - 1)))
    return e.Error(args.Range("k"), absl::StrCat("k must be a power of two up to ", n, ", not ", *k));
  Type line{kInt32, {*k}};
  Value index = Value::Tensor(e.Create<tile::RangeOp>(e.IrType(line), uint32_t(0), uint32_t(*k)), line);
  Shape shape = sorted->type.shape;
  shape.back() = *k;
  const ElementType element = sorted->type.element;
  if (*k < n && element.bits() < 32) sorted = e.Cast(*sorted, element.is_float() ? kFloat32 : kInt32);  // as max does
  if (e.failed()) return {};
  return Gather(e, *sorted, e.BroadcastTo(index, shape), int(shape.size()) - 1);
}

Value GatherFrom(Emitter& e, const Arguments& args) {
  const Value& source = args["src"];
  const Value& index = args["index"];
  if (!source.is_block()) return e.Error(args.Range("src"), absl::StrCat("tl.gather wants a block, not ", Describe(source)));
  if (!index.is_block() || !index.type.element.is_int())
    return e.Error(args.Range("index"), absl::StrCat("the index of tl.gather must be a block of integers, not ", Describe(index)));
  std::optional<int> axis = e.Axis(args["axis"], source.type.shape.size(), "'axis'");
  if (!axis) return {};
  for (size_t d = 0; d < source.type.shape.size(); ++d)
    if (index.type.shape.size() != source.type.shape.size() ||
        (int(d) != *axis && index.type.shape[d] != source.type.shape[d]))
      return e.Error(absl::StrCat("source ", ToString(source.type.shape), " and index ", ToString(index.type.shape),
                                  " may differ along axis ", *axis, " only"));
  return Gather(e, source, index, *axis);
}

Value Flip(Emitter& e, const Arguments& args) {
  const Value& x = args["x"];
  if (!x.is_block()) return e.Error(absl::StrCat("tl.flip wants a block, not ", Describe(x)));
  Value dim = args["dim"].is_none() ? Value::Int(-1) : args["dim"];
  std::optional<int> axis = e.Axis(dim, x.type.shape.size(), "'dim'");
  if (!axis) return {};
  Type line{kInt32, {x.type.shape[*axis]}};
  Value index = Value::Tensor(e.Create<tile::RangeOp>(e.IrType(line), uint32_t(0), uint32_t(line.shape[0])), line);
  index = e.Sub(Value::Int(line.shape[0] - 1), index);
  for (size_t d = *axis + 1; d < x.type.shape.size(); ++d) index = e.ExpandDims(index, index.type.shape.size());
  return Gather(e, x, e.BroadcastTo(index, x.type.shape), *axis);
}

Value Histogram(Emitter& e, const Arguments& args) {
  const Value& input = args["input"];
  if (!input.is_block() || input.type.shape.size() != 1 || !input.type.element.is_int())
    return e.Error(args.Range("input"), absl::StrCat("tl.histogram wants a 1-D block of integers, not ", Describe(input)));
  std::optional<int64_t> bins = e.ConstantInt(args, "num_bins");
  if (!bins) return {};
  if (std::string why = CheckBlockShape({*bins}); !why.empty()) return e.Error(args.Range("num_bins"), why);
  Value mask = args["mask"];
  if (!mask.is_none()) mask = e.BroadcastTo(e.Cast(mask, {DType::kInt1, false}), input.type.shape);
  if (e.failed()) return {};
  Type type{kInt32, {*bins}};
  return Value::Tensor(e.Create<tile::HistogramOp>(e.IrType(type), input.ir, mask.is_none() ? mlir::Value() : mask.ir),
                       type);
}

}  // namespace

void AddReductionBuiltins(BuiltinTable* t) {
  t->Add("sum", "input, axis=None, keep_dims=False, dtype=None", Sum);
  t->Add("xor_sum", "input, axis=None, keep_dims=False", BitReduce(BinaryOp::kBitXor));
  t->Add("reduce_or", "input, axis=None, keep_dims=False", BitReduce(BinaryOp::kBitOr));
  const char* extreme = "input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False";
  t->Add("max", extreme, Extreme(true));
  t->Add("min", extreme, Extreme(false));
  t->Add("argmax", "input, axis=None, tie_break_left=True, keep_dims=False", ArgExtreme(true));
  t->Add("argmin", "input, axis=None, tie_break_left=True, keep_dims=False", ArgExtreme(false));
  t->Add("softmax", "x, dim=None, keep_dims=False, ieee_rounding=False", Softmax);
  t->Add("cumsum", "input, axis=0, reverse=False, dtype=None", Cumulative(BinaryOp::kAdd));
  t->Add("cumprod", "input, axis=0, reverse=False", Cumulative(BinaryOp::kMul));
  t->Add("reduce", "input, axis, combine_fn, keep_dims=False", ReduceWith);
  t->Add("associative_scan", "input, axis, combine_fn, reverse=False", ScanWith);
  t->Add("map_elementwise", "scalar_fn, *args, pack=1", MapElementwise);
  t->Add("sort", "x, dim=None, descending=False", Sort);
  t->Add("topk", "x, k, dim=None", TopK);
  t->Add("gather", "src, index, axis", GatherFrom);
  t->Add("flip", "x, dim=None", Flip);
  t->Add("histogram", "input, num_bins, mask=None", Histogram);
}

}  // namespace tessera::frontend
