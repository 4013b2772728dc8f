// Program identity, compile-time checks, hints, printing, inline assembly, and Python's builtins.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"

namespace tessera::frontend {
namespace {

using Emit = std::function<Value(Emitter&, const Arguments&)>;

constexpr ElementType kInt32{DType::kInt32, false};

template <typename Op>
Emit GridValue() {
  return [](Emitter& e, const Arguments& args) -> Value {
    std::optional<int64_t> axis = e.ConstantInt(args, "axis");
    if (!axis) return {};
    if (*axis < 0 || *axis > 2)
      return e.Error(args.Range("axis"), absl::StrCat("the axis of the grid must be 0, 1 or 2, not ", *axis));
    return Value::Tensor(e.Create<Op>(uint32_t(*axis)), {kInt32, {}});
  };
}

//===-- checks ----------------------------------------------------------------------------------------===//

Value StaticAssert(Emitter& e, const Arguments& args) {
  const Value& condition = args["cond"];
  if (condition.is_tensor())
    return e.Error(args.Range("cond"), absl::StrCat("tl.static_assert wants a condition known at compile time, not ",
                                                    Describe(condition), "; use tl.device_assert"));
  Value truth = e.Condition(condition, "the condition of static_assert");
  if (e.failed()) return {};
  std::string message = args["msg"].is_none() ? "" : e.TextOf(args["msg"]);
  if (!truth.constant.boolean)
    return e.Error(absl::StrCat("static assertion failed", message.empty() ? "" : ": ", message));
  return Value::None();
}

Value StaticPrint(Emitter& e, const Arguments& args) {
  std::string text;
  for (const Value& value : *args["values"].items) absl::StrAppend(&text, text.empty() ? "" : " ", e.TextOf(value));
  e.Note(args.call, text);
  return Value::None();
}

bool AssertsAreOn(const Emitter& e) {
  if (e.job().target() == "interpreter") return true;
  std::string option = e.Option("debug"), setting = e.Setting("TRITON_DEBUG");
  return option == "true" || option == "True" || option == "1" || setting == "1";
}

Value DeviceAssert(Emitter& e, const Arguments& args) {
  std::string message = args["msg"].is_none() ? "" : e.TextOf(args["msg"]);
  Value condition = e.ToTensor(args["cond"], "the condition of an assertion");
  if (e.failed()) return {};
  condition = e.Cast(condition, {DType::kInt1, false});
  Value mask = args["mask"];
  if (!mask.is_none()) {
    mask = e.Cast(mask, {DType::kInt1, false});
    if (!e.UnifyShapes(&condition, &mask)) return {};
  }
  if (e.failed() || !AssertsAreOn(e)) return Value::None();
  if (message.empty()) message = "assertion failed";
  e.Create<tile::AssertOp>(condition.ir, mask.is_none() ? mlir::Value() : mask.ir, message);
  return Value::None();
}

Value DevicePrint(Emitter& e, const Arguments& args) {
  std::string prefix = args["prefix"].is_tensor() ? "" : e.TextOf(args["prefix"]);
  std::vector<mlir::Value> operands;
  std::vector<bool> is_unsigned;
  std::vector<Value> values = *args["values"].items;
  if (args["prefix"].is_tensor()) values.insert(values.begin(), args["prefix"]);
  for (const Value& value : values) {
    if (value.is_constant() && !value.is_number()) {
      absl::StrAppend(&prefix, " ", e.TextOf(value));
      continue;
    }
    Value tensor = e.ToTensor(value, "what is printed");
    if (e.failed()) return {};
    operands.push_back(tensor.ir);
    is_unsigned.push_back(tensor.type.element.is_int() && !tensor.type.element.is_signed());
  }
  bool hex = false;
  if (args.Given("hex")) {
    std::optional<bool> given = e.ConstantBool(args, "hex");
    if (!given) return {};
    hex = *given;
  }
  llvm::SmallVector<bool> flags(is_unsigned.begin(), is_unsigned.end());
  e.Create<tile::PrintOp>(prefix, hex, mlir::ValueRange(operands), llvm::ArrayRef<bool>(flags));
  return Value::None();
}

//===-- hints -----------------------------------------------------------------------------------------===//

Value Assume(Emitter& e, const Arguments& args) {
  Value condition = e.Condition(args["cond"], "what is assumed");
  if (e.failed()) return {};
  if (condition.is_constant()) {
    if (!condition.constant.boolean) return e.Error("what is assumed is false");
    return Value::None();
  }
  e.Create<tile::AssumeOp>(condition.ir);
  return Value::None();
}

enum class Hint { kDivisibility, kContiguity, kConstancy };

Emit HintOf(Hint hint) {
  return [hint](Emitter& e, const Arguments& args) -> Value {
    const Value& input = args["input"];
    std::optional<std::vector<int64_t>> values = e.ConstantInts(args["values"], "an entry of 'values'");
    if (!values) return {};
    if (!input.is_tensor()) return input;  // constants know more
    size_t wanted = std::max<size_t>(1, input.type.shape.size());
    if (values->size() != wanted)
      return e.Error(args.Range("values"), absl::StrCat(args.function, " wants one value a dimension: ", wanted, ", not ", values->size()));
    auto attribute = e.builder().getDenseI64ArrayAttr(*values);
    mlir::DenseI64ArrayAttr none;
    return Value::Tensor(e.Create<tile::HintOp>(input.ir, hint == Hint::kDivisibility ? attribute : none,
                                                hint == Hint::kContiguity ? attribute : none,
                                                hint == Hint::kConstancy ? attribute : none),
                         input.type);
  };
}

//===-- inline assembly -------------------------------------------------------------------------------===//

Value InlineAsm(Emitter& e, const Arguments& args) {
  std::optional<std::string> text = e.ConstantString(args, "asm"), constraints = e.ConstantString(args, "constraints");
  std::optional<bool> is_pure = e.ConstantBool(args, "is_pure");
  std::optional<int64_t> pack = e.ConstantInt(args, "pack");
  if (!text || !constraints || !is_pure || !pack) return {};
  std::vector<Value> operands;
  Shape shape;
  std::vector<Value> given = args["args"].is_tuple() ? *args["args"].items : std::vector<Value>{args["args"]};
  for (const Value& item : given) {
    operands.push_back(e.ToTensor(item, "an operand of inline assembly"));
    if (e.failed() || !e.CommonShape(shape, operands.back().type.shape, &shape)) return {};
  }
  std::vector<mlir::Value> ir;
  for (Value& operand : operands) ir.push_back(e.BroadcastTo(operand, shape).ir);
  bool several = args["dtype"].is_tuple();
  std::vector<Value> dtypes = several ? *args["dtype"].items : std::vector<Value>{args["dtype"]};
  std::vector<Type> types;
  std::vector<mlir::Type> ir_types;
  for (const Value& dtype : dtypes) {
    std::optional<ElementType> element = e.ElementTypeOf(dtype, "'dtype'");
    if (!element) return {};
    types.push_back({*element, shape});
    ir_types.push_back(e.IrType(types.back()));
  }
  if (e.failed()) return {};
  auto op = e.Create<tile::InlineAsmOp>(mlir::TypeRange(ir_types), mlir::ValueRange(ir), *text, *constraints, *is_pure,
                                        uint32_t(*pack));
  std::vector<Value> results;
  for (size_t i = 0; i < types.size(); ++i) results.push_back(Value::Tensor(op.getResult()[i], types[i]));
  return several ? Value::Tuple(std::move(results)) : results[0];
}

//===-- Python's ----------------------------------------------------------------------------------------===//

Value Len(Emitter& e, const Arguments& args) {
  const Value& x = args["x"];
  if (x.is_tuple()) return Value::Int(x.items->size());
  if (x.is_block()) return Value::Int(x.type.shape[0]);
  return e.Error(absl::StrCat("len wants a tuple or a block, not ", Describe(x)));
}

Value IsInstance(Emitter& e, const Arguments& args) {
  return Value::Of(Constant::Bool(e.IsInstance(args["x"], args["type"])));
}

Value GetAttribute(Emitter& e, const Arguments& args) {
  std::optional<std::string> name = e.ConstantString(args, "name");
  if (!name) return {};
  if (std::optional<Value> value = e.FindAttribute(args["x"], *name)) return *value;
  return args.Given("default") ? args["default"] : e.Attribute(args["x"], *name);  // reports
}

Value HasAttribute(Emitter& e, const Arguments& args) {
  std::optional<std::string> name = e.ConstantString(args, "name");
  return name ? Value::Of(Constant::Bool(e.FindAttribute(args["x"], *name).has_value())) : Value();
}

// zip(a, b, ...) and enumerate(a, start) of tuples.
Value Zip(Emitter& e, const Arguments& args) {
  std::vector<Value> rows;
  size_t size = SIZE_MAX;
  for (const Value& tuple : *args["values"].items) {
    if (!tuple.is_tuple()) return e.Error(absl::StrCat("zip wants tuples, not ", Describe(tuple)));
    size = std::min(size, tuple.items->size());
  }
  for (size_t i = 0; i < size && size != SIZE_MAX; ++i) {
    std::vector<Value> row;
    for (const Value& tuple : *args["values"].items) row.push_back((*tuple.items)[i]);
    rows.push_back(Value::Tuple(std::move(row)));
  }
  return Value::Tuple(std::move(rows));
}

Value Enumerate(Emitter& e, const Arguments& args) {
  std::optional<int64_t> start = e.ConstantInt(args, "start");
  const Value& tuple = args["values"];
  if (!start) return {};
  if (!tuple.is_tuple()) return e.Error(absl::StrCat("enumerate wants a tuple, not ", Describe(tuple)));
  std::vector<Value> rows;
  for (const Value& item : *tuple.items)
    rows.push_back(Value::Tuple({Value::Int(*start + int64_t(rows.size())), item}));
  return Value::Tuple(std::move(rows));
}

Value AsTuple(Emitter& e, const Arguments& args) {
  return args["values"].is_tuple() ? args["values"]
                                   : e.Error(absl::StrCat(args.function, " wants a tuple, not ", Describe(args["values"])));
}

// A special register of the GPU, read by inline assembly: only targets with PTX have it.
Emit SpecialRegister(const char* instruction, const char* constraint, DType dtype) {
  return [=](Emitter& e, const Arguments&) -> Value {
    Type type{{dtype, false}, {}};
    auto op = e.Create<tile::InlineAsmOp>(mlir::TypeRange(e.IrType(type)), mlir::ValueRange(), instruction, constraint,
                                          /*is_pure=*/false, uint32_t(1));
    return Value::Tensor(op.getResult()[0], type);
  };
}

Emit Warps(int64_t scale) {
  return [scale](Emitter& e, const Arguments&) {
    int64_t warps = e.job().options().num_warps();
    return Value::Int(scale * (warps > 0 ? warps : 4));
  };
}

// Of a power of two, as Triton's standard library has it.
Value Log2(Emitter& e, const Arguments& args) {
  std::optional<int64_t> value = e.ConstantInt(args, "i");
  if (!value) return {};
  int64_t log = 0;
  while (*value > 1 && log < 62 && (int64_t(1) << (log + 1)) <= *value) ++log;
  return Value::Int(log);
}

//===-- the target ------------------------------------------------------------------------------------===//

// Major version times 10 plus minor of a CUDA target, 0 for others.
int CudaCapability(const Emitter& e) {
  absl::string_view target = e.job().target();
  int capability = 0;
  if (!absl::StartsWith(target, "sm_")) return 0;
  for (char c : target.substr(3))
    if (c >= '0' && c <= '9') capability = capability * 10 + (c - '0');
  return capability;
}

// The GPU's backend, arch and warp_size; None on other targets.
Value CurrentTarget(Emitter& e, const Arguments&) {
  if (CudaCapability(e) == 0) return Value::None();
  Value target = Value::Tuple({Value::Of(Constant::String("cuda")), Value::Int(CudaCapability(e)), Value::Int(32)});
  target.fields = std::make_shared<std::vector<std::string>>(std::vector<std::string>{"backend", "arch", "warp_size"});
  return target;
}

Value IsCuda(Emitter& e, const Arguments&) { return Value::Of(Constant::Bool(CudaCapability(e) > 0)); }
Value False(Emitter&, const Arguments&) { return Value::Of(Constant::Bool(false)); }
Value Nothing(Emitter&, const Arguments&) { return Value::None(); }

Value CudaCapabilityGeq(Emitter& e, const Arguments& args) {
  std::optional<int64_t> major = e.ConstantInt(args, "major"), minor = e.ConstantInt(args, "minor");
  if (!major || !minor) return {};
  return Value::Of(Constant::Bool(CudaCapability(e) >= *major * 10 + *minor));
}

}  // namespace

void AddProgramBuiltins(BuiltinTable* t) {
  t->Add("program_id", "axis", GridValue<tile::ProgramIdOp>());
  t->Add("num_programs", "axis", GridValue<tile::NumProgramsOp>());
  t->Add("static_assert", "cond, msg=None", StaticAssert);
  t->Add("static_print", "*values, sep=' ', end='', file=None, flush=False", StaticPrint);
  t->Add("device_assert", "cond, msg=None, mask=None", DeviceAssert);
  t->Add("device_print .print", "prefix, *values, hex=False, sep=' ', end='', file=None, flush=False", DevicePrint);
  t->Add("assume", "cond", Assume);
  t->Add("multiple_of", "input, values", HintOf(Hint::kDivisibility));
  t->Add("max_contiguous", "input, values", HintOf(Hint::kContiguity));
  t->Add("max_constancy", "input, values", HintOf(Hint::kConstancy));
  t->Add("inline_asm_elementwise", "asm, constraints, args, dtype, is_pure, pack", InlineAsm);
  t->Add("to_tensor", "x", [](Emitter& e, const Arguments& args) { return e.ToTensor(args["x"]); });
  t->Add(".len", "x", Len);
  t->Add("_log2", "i", Log2);
  t->Add(".zip", "*values", Zip);
  t->Add(".enumerate", "values, start=0", Enumerate);
  t->Add(".tuple .list tuple", "values", AsTuple);
  t->Add(".isinstance", "x, type", IsInstance);
  t->Add(".getattr", "x, name, default=None", GetAttribute);
  t->Add(".hasattr", "x, name", HasAttribute);
  t->Add("constexpr_type", "value", [](Emitter&, const Arguments& args) { return Value::TypeOfConstant(args["value"]); });
  t->Add("is_cuda", "", IsCuda);
  t->Add("current_target", "", CurrentTarget);
  // The condition of a while loop, with hints.
  t->Add("condition", "cond, disable_licm=False", [](Emitter&, const Arguments& args) { return args["cond"]; });
  t->Add("is_hip is_hip_cdna3 is_hip_cdna4", "", False);
  t->Add("cuda_capability_geq", "major, minor=0", CudaCapabilityGeq);
  // Programmatic dependent launch: targets without it start after the kernel before has ended.
  t->Add("num_warps", "", Warps(1));
  t->Add("num_threads", "", Warps(32));
  t->Add("globaltimer", "", SpecialRegister("mov.u64 $0, %globaltimer;", "=l", DType::kInt64));
  t->Add("smid", "", SpecialRegister("mov.u32 $0, %smid;", "=r", DType::kInt32));
  t->Add("gdc_wait gdc_launch_dependents", "", Nothing);
}

}  // namespace tessera::frontend
