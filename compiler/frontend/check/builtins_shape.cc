// Making blocks, changing their shape, matrix products.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

using Emit = std::function<Value(Emitter&, const Arguments&)>;

constexpr ElementType kInt32{DType::kInt32, false};
constexpr ElementType kFloat32{DType::kFp32, false};

bool IsBlock(Emitter& e, const Value& x, absl::string_view function) {
  if (x.is_block()) return true;
  e.Error(absl::StrCat(function, " wants a block, not ", Describe(x)));
  return false;
}

//===-- making blocks -----------------------------------------------------------------------------------===//

Value Arange(Emitter& e, const Arguments& args) {
  std::optional<int64_t> start = e.ConstantInt(args, "start"), end = e.ConstantInt(args, "end");
  if (!start || !end) return {};
  if (*start < INT32_MIN || *end > INT32_MAX)
    return e.Error("the bounds of tl.arange must fit int32; add an int64 offset to the block");
  if (*end <= *start) return e.Error(absl::StrCat("tl.arange(", *start, ", ", *end, ") is empty; the end must be greater"));
  if (std::string why = CheckBlockShape({*end - *start}); !why.empty()) return e.Error(why);
  Type type{kInt32, {*end - *start}};
  return Value::Tensor(e.Create<tile::RangeOp>(e.IrType(type), uint32_t(*start), uint32_t(*end)), type);
}

Value Filled(Emitter& e, const Value& value, const Shape& shape, const Value& dtype) {
  std::optional<ElementType> element = e.ElementTypeOf(dtype, "'dtype'");
  if (!element || e.failed()) return {};
  if (value.is_number()) {
    if (element->pointer) return e.Error("a block of pointers is made from a pointer, not from a number");
    Type type{*element, shape};
    return Value::Tensor(e.IrConstant(value.constant, type), type);
  }
  Value scalar = e.ToTensor(value, "the value");
  if (e.failed()) return {};
  if (scalar.type.elements() != 1) return e.Error(absl::StrCat("the value must be a scalar, not ", Describe(scalar)));
  return e.BroadcastTo(e.Cast(e.Unsplat(scalar), *element), shape);
}

Value Full(Emitter& e, const Arguments& args) {
  std::optional<Shape> shape = e.BlockShape(args, "shape");
  return shape ? Filled(e, args["value"], *shape, args["dtype"]) : Value();
}

Value Zeros(Emitter& e, const Arguments& args) {
  std::optional<Shape> shape = e.BlockShape(args, "shape");
  return shape ? Filled(e, Value::Int(0), *shape, args["dtype"]) : Value();
}

Emit Like(bool zeros) {
  return [zeros](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["input"], "the operand");
    if (e.failed()) return {};
    Value dtype = !zeros && !args["dtype"].is_none() ? args["dtype"] : Value::TypeOf({x.type.element, {}});
    return Filled(e, zeros ? Value::Int(0) : args["value"], x.type.shape, dtype);
  };
}

//===-- changing shape ----------------------------------------------------------------------------------===//

// A shape given as one tuple or as several integers.
std::optional<std::vector<int64_t>> Integers(Emitter& e, const Arguments& args, absl::string_view name) {
  Emitter::At at(e, args.call);
  const Value& items = args[name];
  if (items.items->size() == 1 && (*items.items)[0].is_tuple()) return e.ConstantInts((*items.items)[0], "a dimension");
  return e.ConstantInts(items, "a dimension");
}

std::optional<Shape> ShapeFrom(Emitter& e, const Arguments& args) {
  std::optional<std::vector<int64_t>> shape = Integers(e, args, "shape");
  if (!shape) return std::nullopt;
  if (std::string why = CheckBlockShape(*shape); !why.empty()) {
    e.Error(why);
    return std::nullopt;
  }
  return shape;
}

Emit ReshapeTo(bool is_view) {
  return [is_view](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["input"], "the operand");
    std::optional<Shape> shape = e.failed() ? std::nullopt : ShapeFrom(e, args);
    std::optional<bool> reorder = shape ? e.ConstantBool(args, "can_reorder") : std::nullopt;
    if (!reorder) return {};
    Type wanted{x.type.element, *shape};
    if (wanted.elements() != x.type.elements())
      return e.Error(absl::StrCat(args.function, " keeps the number of elements: ", ToString(x.type.shape), " has ",
                                  x.type.elements(), ", ", ToString(*shape), " has ", wanted.elements()));
    if (shape->empty()) return e.Unsplat(x);
    return e.Reshape(x, *shape, is_view || *reorder);
  };
}

// Takes out a dimension of extent 1, or adds one.
Emit Squeeze(bool out) {
  return [out](Emitter& e, const Arguments& args) -> Value {
    const Value& x = args["x"];
    if (!IsBlock(e, x, args.function)) return {};
    Shape shape = x.type.shape;
    std::optional<int> dim = e.Axis(args["dim"], shape.size() + (out ? 0 : 1), "'dim'");
    if (!dim) return {};
    if (!out) return e.ExpandDims(x, *dim);
    if (shape[*dim] != 1) return e.Error(absl::StrCat("dimension ", *dim, " has the extent ", shape[*dim], ", not 1"));
    shape.erase(shape.begin() + *dim);
    return shape.empty() ? e.Unsplat(x) : e.Reshape(x, shape, false);
  };
}

Value Ravel(Emitter& e, const Arguments& args) {
  Value x = args["x"];
  std::optional<bool> reorder = e.ConstantBool(args, "can_reorder");
  if (!reorder || !IsBlock(e, x, args.function)) return {};
  return e.Reshape(x, {x.type.elements()}, *reorder);
}

Value BroadcastToShape(Emitter& e, const Arguments& args) {
  std::optional<Shape> shape = ShapeFrom(e, args);
  if (!shape) return {};
  if (args["input"].is_number()) return e.BroadcastTo(args["input"], *shape);
  Value x = e.ToTensor(args["input"], "the operand");
  return e.BroadcastTo(x, *shape);
}

Value BroadcastBoth(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["input"], "an operand"), y = e.ToTensor(args["other"], "an operand");
  if (!e.UnifyShapes(&x, &y)) return {};
  return Value::Tuple({x, y});
}

Value ExpandDims(Emitter& e, const Arguments& args) {
  Value x = e.ToTensor(args["input"], "the operand");
  if (e.failed()) return {};
  std::optional<std::vector<int64_t>> axes = e.ConstantInts(args["axis"], "'axis'");
  if (!axes) return {};
  int64_t rank = x.type.shape.size() + axes->size();
  for (int64_t& axis : *axes) {
    if (axis < -rank || axis >= rank)
      return e.Error(args.Range("axis"), absl::StrCat("'axis' is ", axis, ", but the result has ", rank, " dimensions"));
    if (axis < 0) axis += rank;
  }
  std::sort(axes->begin(), axes->end());
  if (std::adjacent_find(axes->begin(), axes->end()) != axes->end())
    return e.Error(args.Range("axis"), "'axis' names a dimension twice");
  for (int64_t axis : *axes) x = e.ExpandDims(x, int(axis));
  return x;
}

Value Permute(Emitter& e, const Value& x, const std::vector<int64_t>& order) {
  size_t rank = x.type.shape.size();
  std::vector<bool> seen(rank);
  bool permutation = order.size() == rank;
  llvm::SmallVector<int32_t> dims;
  Type type{x.type.element, {}};
  for (int64_t d : order) {
    if (d < 0) d += int64_t(rank);
    permutation = permutation && d >= 0 && d < int64_t(rank) && !seen[d];
    if (!permutation) break;
    seen[d] = true;
    dims.push_back(int32_t(d));
    type.shape.push_back(x.type.shape[d]);
  }
  if (!permutation) return e.Error(absl::StrCat("the dimensions must name each of the ", rank, " dimensions once"));
  return Value::Tensor(e.Create<tile::TransOp>(e.IrType(type), x.ir, e.builder().getDenseI32ArrayAttr(dims)), type);
}

Emit Transpose(bool may_omit) {
  return [may_omit](Emitter& e, const Arguments& args) -> Value {
    const Value& x = args["input"];
    if (!IsBlock(e, x, args.function)) return {};
    std::optional<std::vector<int64_t>> dims = Integers(e, args, "dims");
    if (!dims) return {};
    if (dims->empty() && may_omit) {
      int64_t rank = int64_t(x.type.shape.size());
      if (rank < 2) return e.Error(absl::StrCat("tl.trans wants a block of two or more dimensions, not ", Describe(x)));
      for (int64_t d = 0; d < rank; ++d) dims->push_back(d < rank - 2 ? d : 2 * rank - 3 - d);  // swaps the last two
    }
    return Permute(e, x, *dims);
  };
}

Value Join(Emitter& e, Value a, Value b) {
  a = e.ToTensor(a, "an operand");
  b = e.ToTensor(b, "an operand");
  if (!e.failed() && a.type.element.is_int() && b.type.element.is_int() && a.type.element.bits() == b.type.element.bits())
    b = e.Bitcast(b, a.type.element);
  bool pointers = !e.failed() && a.type.element.pointer && a.type.element == b.type.element;
  if (!(pointers ? e.UnifyShapes(&a, &b) : e.Unify(&a, &b))) return {};
  bool scalars = !a.is_block();
  if (scalars) {
    a = e.ExpandDims(a, 0);
    b = e.ExpandDims(b, 0);
  }
  Type type = a.type;
  type.shape.push_back(2);
  if (std::string why = CheckBlockShape(type.shape); !why.empty()) return e.Error(why);
  Value joined = Value::Tensor(e.Create<tile::JoinOp>(e.IrType(type), a.ir, b.ir), type);
  return scalars ? e.Reshape(joined, {2}, false) : joined;
}

Value Interleave(Emitter& e, const Arguments& args) {
  Value joined = Join(e, args["a"], args["b"]);
  if (e.failed() || joined.type.shape.size() < 2) return joined;
  Shape shape = joined.type.shape;
  shape.pop_back();
  shape.back() *= 2;
  return e.Reshape(joined, shape, false);
}

Value Split(Emitter& e, const Arguments& args) {
  Value x = args["a"];
  if (!IsBlock(e, x, args.function)) return {};
  if (x.type.shape.back() != 2)
    return e.Error(absl::StrCat("tl.split wants a last dimension of extent 2, not ", Describe(x)));
  bool scalars = x.type.shape.size() == 1;
  if (scalars) x = e.ExpandDims(x, 0);
  Type type = x.type;
  type.shape.pop_back();
  auto op = e.Create<tile::SplitOp>(e.IrType(type), e.IrType(type), x.ir);
  Value a = Value::Tensor(op.getLhs(), type), b = Value::Tensor(op.getRhs(), type);
  return scalars ? Value::Tuple({e.Unsplat(a), e.Unsplat(b)}) : Value::Tuple({a, b});
}

Value Cat(Emitter& e, const Arguments& args) {
  Value a = args["input"], b = args["other"];
  if (!IsBlock(e, a, args.function) || !IsBlock(e, b, args.function)) return {};
  if (a.type != b.type)
    return e.Error(absl::StrCat("tl.cat wants two blocks of one type, not ", Describe(a), " and ", Describe(b)));
  std::optional<int> dim = e.Axis(args["dim"], a.type.shape.size(), "'dim'");
  if (!dim) return {};
  Type type = a.type;
  type.shape[*dim] *= 2;
  if (std::string why = CheckBlockShape(type.shape); !why.empty()) return e.Error(why);
  if (type.shape.size() == 1) return Value::Tensor(e.Create<tile::CatOp>(e.IrType(type), a.ir, b.ir), type);
  std::vector<int64_t> order(a.type.shape.size());
  std::iota(order.begin(), order.end(), 0);
  order.insert(order.begin() + *dim, int64_t(a.type.shape.size()));
  return e.Reshape(Permute(e, Join(e, a, b), order), type.shape, false);
}

//===-- matrix products -----------------------------------------------------------------------------------===//

std::optional<tile::Precision> PrecisionOf(Emitter& e, const Arguments& args) {
  std::optional<std::string> text = e.ConstantString(args, "input_precision");
  if (!text) return std::nullopt;
  if (text->empty() && !args["allow_tf32"].is_none()) {
    std::optional<bool> allow = e.ConstantBool(args, "allow_tf32");
    if (!allow) return std::nullopt;
    text = *allow ? "tf32" : "ieee";
  }
  if (text->empty()) text = e.Option("default_dot_input_precision");
  if (text->empty()) text = e.Setting("TRITON_F32_DEFAULT");
  if (text->empty()) text = "tf32";
  std::optional<tile::Precision> precision = tile::symbolizePrecision(*text);
  if (!precision)
    e.Error(args.Range("input_precision"),
            absl::StrCat("unknown input_precision '", *text, "'; accepted are tf32, tf32x3, ieee, bf16x3, bf16x6"));
  return precision;
}

// Checks shapes [.., M, K] and [.., K, N]; the shape of the product.
std::optional<Shape> DotShape(Emitter& e, const Value& a, const Value& b) {
  const Shape &x = a.type.shape, &y = b.type.shape;
  size_t rank = x.size();
  if (rank != y.size() || rank < 2) {
    e.Error(absl::StrCat("tl.dot wants two blocks of as many dimensions, two or more, not shapes ", ToString(x), " and ", ToString(y)));
    return std::nullopt;
  }
  if (x[rank - 1] != y[rank - 2]) {
    e.Error(absl::StrCat("the shapes ", ToString(x), " and ", ToString(y), " do not multiply: the first has ",
                         x[rank - 1], " columns, the second ", y[rank - 2], " rows"));
    return std::nullopt;
  }
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (x[d] == y[d]) continue;
    e.Error(absl::StrCat("the batches differ: ", x[d], " and ", y[d]));
    return std::nullopt;
  }
  Shape shape(x.begin(), x.end() - 1);
  shape.push_back(y[rank - 1]);
  if (std::string why = CheckBlockShape(shape); !why.empty()) {
    e.Error(why);
    return std::nullopt;
  }
  // Matrix units have a least depth; other targets take any.
  int64_t least = a.type.element.bits() == 8 ? 32 : 16;
  if (e.job().target().rfind("sm_", 0) == 0 && x[rank - 1] < least) {
    e.Error(absl::StrCat("on this target tl.dot wants a K of at least ", least, " for ", ToString(a.type.element),
                         ", but the shapes are ", ToString(x), " and ", ToString(y)));
    return std::nullopt;
  }
  return shape;
}

std::optional<Value> Accumulator(Emitter& e, const Arguments& args, const Type& type) {
  if (args["acc"].is_none()) return Value::Tensor(e.IrConstant(Constant::Int(0), type), type);
  Value acc = e.ToTensor(args["acc"], "'acc'");
  if (e.failed()) return std::nullopt;
  if (acc.type != type) {
    e.Error(args.Range("acc"), absl::StrCat("'acc' must be a ", ToString(type), ", not ", Describe(acc)));
    return std::nullopt;
  }
  return acc;
}

Value Dot(Emitter& e, const Arguments& args) {
  Value a = args["input"], b = args["other"];
  if (!IsBlock(e, a, args.function) || !IsBlock(e, b, args.function)) return {};
  for (Value* v : {&a, &b})
    if (v->type.element.is(DType::kFp8E4B15)) *v = e.Cast(*v, {DType::kFp16, false});
  const ElementType &ea = a.type.element, &eb = b.type.element;
  if (ea != eb && !(ea.is_fp8() && eb.is_fp8()))
    return e.Error(absl::StrCat("both operands of tl.dot must have one type, not ", ToString(ea), " and ", ToString(eb),
                                "; convert one with .to()"));
  bool fine = ea.is(DType::kInt8) || ea.is_float();
  if (!fine)
    return e.Error(absl::StrCat("tl.dot does not multiply ", ToString(ea),
                                "; it takes int8, float8, float16, bfloat16, float32 and float64"));
  std::optional<Shape> shape = DotShape(e, a, b);
  std::optional<tile::Precision> precision = shape ? PrecisionOf(e, args) : std::nullopt;
  if (!precision) return {};
  ElementType out = ea.is(DType::kInt8) ? kInt32 : ea.is(DType::kFp64) ? ea : kFloat32;
  if (args.Given("out_dtype") && !args["out_dtype"].is_none() && !ea.is(DType::kInt8)) {
    std::optional<ElementType> given = e.ElementTypeOf(args["out_dtype"], "'out_dtype'");
    if (!given) return {};
    if (!given->is_float() || given->is_fp8() || given->is(DType::kBf16))
      return e.Error(args.Range("out_dtype"), absl::StrCat("tl.dot accumulates in float32, float16 or float64, not ", ToString(*given)));
    if (ea.is(DType::kFp16) || ea.is_fp8()) out = *given;  // the others have one accumulator
  }
  std::optional<Value> acc = Accumulator(e, args, {out, *shape});
  if (!acc) return {};
  int64_t imprecise = 0;
  if (!args["max_num_imprecise_acc"].is_none()) {
    std::optional<int64_t> given = e.ConstantInt(args, "max_num_imprecise_acc");
    if (!given) return {};
    imprecise = *given;
  }
  // Several batch dimensions are one.
  auto flat = [&](const Value& v) {
    const Shape& s = v.type.shape;
    int64_t batches = 1;
    for (size_t d = 0; d + 2 < s.size(); ++d) batches *= s[d];
    return s.size() <= 3 ? v : e.Reshape(v, {batches, s[s.size() - 2], s[s.size() - 1]}, false);
  };
  a = flat(a);
  b = flat(b);
  Value sum = flat(*acc);
  sum.ir = e.Create<tile::DotOp>(sum.ir.getType(), a.ir, b.ir, sum.ir, *precision, uint32_t(imprecise));
  return e.Reshape(sum, acc->type.shape, false);
}

//===-- scaled matrix products ------------------------------------------------------------------------------===//

// Two e2m1 values in each byte of the last dimension (`axis`), the low half first, as float32.
Value UnpackE2m1(Emitter& e, const Value& bytes, bool along_rows) {
  auto half = [&](int shift) {
    Value code = e.Binary(BinaryOp::kBitAnd, e.Binary(BinaryOp::kShr, e.Bitcast(bytes, {DType::kUint8, false}), Value::Int(shift)), Value::Int(15));
    code = e.Cast(code, kInt32);
    Value exponent = e.Binary(BinaryOp::kBitAnd, e.Binary(BinaryOp::kShr, code, Value::Int(1)), Value::Int(3));
    Value mantissa = e.Binary(BinaryOp::kBitAnd, code, Value::Int(1));
    // 0, 0.5 for exponent 0; else (1 + m / 2) * 2^(exponent - 1), built as bits of a float32.
    Value normal = e.Bitcast(e.Add(e.Binary(BinaryOp::kShl, e.Add(exponent, Value::Int(126)), Value::Int(23)),
                                   e.Binary(BinaryOp::kShl, mantissa, Value::Int(22))), kFloat32);
    Value subnormal = e.Mul(e.Cast(mantissa, kFloat32), Value::Of(Constant::Float(0.5)));
    Value magnitude = e.Select(e.Compare(CompareOp::kEq, exponent, Value::Int(0)), subnormal, normal);
    Value negative = e.Compare(CompareOp::kNe, e.Binary(BinaryOp::kBitAnd, code, Value::Int(8)), Value::Int(0));
    return e.Select(negative, e.Unary(UnaryOp::kNeg, magnitude), magnitude);
  };
  Value joined = Join(e, half(0), half(4));
  if (e.failed()) return {};
  size_t rank = bytes.type.shape.size();
  Shape shape = bytes.type.shape;
  if (!along_rows) {
    shape[rank - 1] *= 2;
    return e.Reshape(joined, shape, false);
  }
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  order.insert(order.begin() + (rank - 1), int64_t(rank));
  shape[rank - 2] *= 2;
  return e.Reshape(Permute(e, joined, order), shape, false);
}

// One operand of dot_scaled as float32 [.., M, K] (for the right one [.., K, N]), multiplied by its scales, which lie
// as [.., M, K / 32] (and [.., N, K / 32]).
Value Scaled(Emitter& e, const Arguments& args, bool is_left) {
  const char* name = is_left ? "lhs" : "rhs";
  Value x = args[name];
  const Value& scale = args[is_left ? "lhs_scale" : "rhs_scale"];
  std::optional<std::string> format = e.ConstantString(args, is_left ? "lhs_format" : "rhs_format");
  if (!format || !IsBlock(e, x, args.function)) return {};
  size_t rank = x.type.shape.size();
  if (rank < 2) return e.Error(args.Range(name), absl::StrCat("tl.dot_scaled wants 2-D blocks, not ", Describe(x)));
  if (*format == "e2m1") {
    std::optional<bool> k_pack = e.ConstantBool(args, is_left ? "lhs_k_pack" : "rhs_k_pack");
    if (!k_pack) return {};
    bool along_rows = is_left != *k_pack;
    x = UnpackE2m1(e, x, along_rows);
  } else if (*format == "e4m3" || *format == "e5m2") {
    ElementType fp8{*format == "e4m3" ? DType::kFp8E4M3Fn : DType::kFp8E5M2, false};
    x = e.Cast(x.type.element.is_int() ? e.Bitcast(x, fp8) : x, kFloat32);
  } else if (*format == "bf16" || *format == "fp16") {
    x = e.Cast(x, kFloat32);
  } else {
    return e.Error(absl::StrCat("unknown format '", *format, "'; accepted are e2m1, e4m3, e5m2, bf16, fp16"));
  }
  if (e.failed() || scale.is_none()) return x;
  if (!scale.is_block() || scale.type.shape.size() != rank)
    return e.Error(absl::StrCat("the scale must be a block of ", rank, " dimensions, not ", Describe(scale)));
  Value factor = scale;
  if (scale.type.element.is_int()) {  // e8m0: the exponent of a power of two
    Value exponent = e.Cast(e.Bitcast(scale, {DType::kUint8, false}), kInt32);
    Value bits = e.Binary(BinaryOp::kShl, exponent, Value::Int(23));
    bits = e.Select(e.Compare(CompareOp::kEq, exponent, Value::Int(0)), Value::Int(0x400000), bits);
    bits = e.Select(e.Compare(CompareOp::kEq, exponent, Value::Int(255)), Value::Int(0x7fc00000), bits);
    factor = e.Bitcast(bits, kFloat32);
  } else {
    factor = e.Cast(scale, kFloat32);
  }
  if (e.failed()) return {};
  // Repeat each scale over its group along K.
  int64_t k = x.type.shape[is_left ? rank - 1 : rank - 2];
  int64_t rows = x.type.shape[is_left ? rank - 2 : rank - 1];
  int64_t groups = factor.type.shape[rank - 1];
  if (factor.type.shape[rank - 2] != rows || groups == 0 || k % groups != 0)
    return e.Error(absl::StrCat("a scale of shape ", ToString(scale.type.shape), " does not fit ", ToString(x.type.shape)));
  Shape repeated = factor.type.shape;
  repeated.push_back(k / groups);
  Shape flat = factor.type.shape;
  flat[rank - 1] = k;
  factor = e.Reshape(e.BroadcastTo(e.ExpandDims(factor, int(rank)), repeated), flat, false);
  if (!is_left) {
    std::vector<int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[rank - 1], order[rank - 2]);
    factor = Permute(e, factor, order);
  }
  return e.Mul(x, factor);
}

Value DotScaled(Emitter& e, const Arguments& args) {
  Value a = Scaled(e, args, true), b = e.failed() ? Value() : Scaled(e, args, false);
  if (e.failed()) return {};
  std::optional<Shape> shape = DotShape(e, a, b);
  std::optional<ElementType> out = shape ? args["out_dtype"].is_none() ? std::optional<ElementType>(kFloat32)
                                                                       : e.ElementTypeOf(args["out_dtype"], "'out_dtype'")
                                         : std::nullopt;
  if (!out) return {};
  std::optional<Value> acc = Accumulator(e, args, {*out, *shape});
  if (!acc) return {};
  Value wide = e.Cast(*acc, kFloat32);
  Value product = Value::Tensor(
      e.Create<tile::DotOp>(wide.ir.getType(), a.ir, b.ir, wide.ir, tile::Precision::IEEE, uint32_t(0)), wide.type);
  return e.Cast(product, *out);
}

}  // namespace

void AddShapeBuiltins(BuiltinTable* t) {
  t->Add("arange", "start, end", Arange);
  t->Add("full", "shape, value, dtype", Full);
  t->Add("zeros", "shape, dtype", Zeros);
  t->Add("zeros_like", "input", Like(true));
  t->Add("full_like", "input, value, dtype=None", Like(false));
  t->Add("reshape", "input, *shape, can_reorder=False", ReshapeTo(false));
  t->Add("view", "input, *shape, can_reorder=False", ReshapeTo(true));
  t->Add("squeeze", "x, dim", Squeeze(true));
  t->Add("unsqueeze", "x, dim", Squeeze(false));
  t->Add("ravel", "x, can_reorder=False", Ravel);
  t->Add("broadcast_to", "input, *shape", BroadcastToShape);
  t->Add("broadcast", "input, other", BroadcastBoth);
  t->Add("expand_dims", "input, axis", ExpandDims);
  t->Add("trans", "input, *dims", Transpose(true));
  t->Add("permute", "input, *dims", Transpose(false));
  t->Add("join", "a, b", [](Emitter& e, const Arguments& args) { return Join(e, args["a"], args["b"]); });
  t->Add("interleave", "a, b", Interleave);
  t->Add("split", "a", Split);
  t->Add("cat", "input, other, can_reorder=False, dim=0", Cat);
  t->Add("item", "input", [](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["input"], "the operand");
    if (e.failed()) return {};
    if (x.type.elements() != 1) return e.Error(absl::StrCat("item wants one element, not ", Describe(x)));
    return e.Unsplat(x);
  });
  t->Add("dot",
         "input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=None",
         Dot);
  t->Add("dot_scaled",
         "lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, fast_math=False, lhs_k_pack=True, "
         "rhs_k_pack=True, out_dtype=None",
         DotScaled);
}

}  // namespace tessera::frontend
