#include "compiler/frontend/check/emitter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/emit_tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

namespace tessera::frontend {
namespace {

const llvm::fltSemantics& Semantics(mlir::Type type) { return mlir::cast<mlir::FloatType>(type).getFloatSemantics(); }

// Rounds to nearest even; saturates where the type is fp8, as conversions at run time do.
llvm::APFloat ToFloat(double x, mlir::Type type) {
  llvm::APFloat value(x);
  bool inexact = false;
  if (mlir::cast<mlir::FloatType>(type).getWidth() == 8 && std::isfinite(x)) {
    llvm::APFloat largest = llvm::APFloat::getLargest(Semantics(type));
    largest.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    double limit = largest.convertToDouble();
    value = llvm::APFloat(std::clamp(x, -limit, limit));
  }
  value.convert(Semantics(type), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return value;
}

// float8e4b15 is the upper byte of an fp16 whose exponent lost its highest bit: fp16's bits doubled, rounded half away
// from zero. It has no infinities and NaNs; 1.75 is the greatest value that conversions give.
uint8_t E4b15Code(double x) {
  llvm::APFloat half(x);
  bool inexact = false;
  half.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  uint64_t bits = half.bitcastToAPInt().getZExtValue();
  return ((std::min<uint64_t>(bits & 0x7fff, 0x3f00) * 2 + 0x80) >> 8) | (bits >> 15 << 7);
}

// Truncates toward zero into the range of an integer type; NaN gives 0, as tile.fp_to_int does.
Integer Saturate(double x, const ElementType& type) {
  if (std::isnan(x)) return 0;
  Integer one = 1;
  Integer low = type.is_signed() ? -(one << (type.bits() - 1)) : 0;
  Integer high = (one << (type.is_signed() ? type.bits() - 1 : type.bits())) - 1;
  if (x <= double(low)) return low;
  return x >= double(high) ? high : Integer(x);
}

}  // namespace

// Counts operations as they are created.
class Emitter::OperationCounter : public mlir::OpBuilder::Listener {
 public:
  void notifyOperationInserted(mlir::Operation*, mlir::OpBuilder::InsertPoint) override { ++count; }
  int count = 0;
};

int Emitter::operations() const { return counter_->count; }

Emitter::Emitter(const ModuleIndex& index, const storage::CompileJob& job, mlir::MLIRContext& context,
                 Diagnostics* diagnostics)
    : index_(index),
      job_(job),
      context_(context),
      diagnostics_(diagnostics),
      evaluator_(index),
      counter_(std::make_unique<OperationCounter>()),
      builder_(&context, counter_.get()) {
  context.loadDialect<tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                      mlir::func::FuncDialect>();
  for (const File& file : index.files()) file_names_.push_back(builder_.getStringAttr(file.path));
}

//===-- errors and places ---------------------------------------------------------------------------===//

Value Emitter::Error(SourceRange range, std::string message) {
  if (failed_) return {};  // only the first one: the others are its consequences
  failed_ = true;
  if (quiet_) return {};
  diagnostics_->Error(range, std::move(message));
  for (size_t i = frames_.size(); i-- > 1;) {
    if (frames_.size() - i > 8 && i > 2) continue;  // the innermost and outermost calls say enough
    diagnostics_->Note(frames_[i].call, absl::StrCat("in the call of ", frames_[i].function->name, " from here"));
  }
  return {};
}

mlir::Location Emitter::loc() {
  if (at_.line <= 0 || size_t(at_.file) >= file_names_.size()) return builder_.getUnknownLoc();
  return mlir::FileLineColLoc::get(file_names_[at_.file], at_.line, at_.column);
}

//===-- types and constants -------------------------------------------------------------------------===//

bool Emitter::Computes(const Value& value) {
  if (!value.is_tensor() || !value.type.element.is(DType::kFp8E4B15)) return true;
  Error("float8e4b15 is for storage only: convert with .to(tl.float16) to compute");
  return false;
}

mlir::Type Emitter::IrType(const ElementType& type) {
  mlir::Type element;
  switch (type.dtype) {
    // Memory holds bools as bytes.
    case DType::kInt1: element = type.pointer ? builder_.getI8Type() : builder_.getI1Type(); break;
    case DType::kFp16: element = builder_.getF16Type(); break;
    case DType::kBf16: element = builder_.getBF16Type(); break;
    case DType::kFp32: element = builder_.getF32Type(); break;
    case DType::kFp64: element = builder_.getF64Type(); break;
    case DType::kFp8E4M3Fn: element = builder_.getFloat8E4M3FNType(); break;
    case DType::kFp8E5M2: element = builder_.getFloat8E5M2Type(); break;
    case DType::kFp8E4M3Fnuz: element = builder_.getFloat8E4M3FNUZType(); break;
    case DType::kFp8E5M2Fnuz: element = builder_.getFloat8E5M2FNUZType(); break;
    case DType::kFp8E4B15: element = builder_.getI8Type(); break;  // its bits; the conversions are written out
    default: element = builder_.getIntegerType(8 * ByteSize(type.dtype));
  }
  return type.pointer ? mlir::Type(tile::PtrType::get(element)) : element;
}

mlir::Type Emitter::IrType(const Type& type) {
  mlir::Type element = IrType(type.element);
  return type.is_block() ? mlir::Type(mlir::RankedTensorType::get(type.shape, element)) : element;
}

mlir::Value Emitter::IrConstant(const Constant& number, const Type& type) {
  mlir::Type element = IrType(type.element);
  mlir::TypedAttr attribute;
  if (type.element.is(DType::kFp8E4B15)) {
    attribute = mlir::IntegerAttr::get(element, E4b15Code(number.as_real()));
  } else if (type.element.is_float()) {
    attribute = mlir::FloatAttr::get(element, ToFloat(number.as_real(), element));
  } else {
    Integer value = number.is(ConstantKind::kFloat) ? Saturate(number.real, type.element) : number.as_integer();
    if (type.element.is_bool()) value = number.is(ConstantKind::kFloat) ? number.real != 0 : value != 0;
    attribute = mlir::IntegerAttr::get(element, llvm::APInt(type.element.bits(), uint64_t(value)));
  }
  if (type.is_block())
    attribute = mlir::SplatElementsAttr::get(mlir::cast<mlir::ShapedType>(IrType(type)), attribute);
  return Create<mlir::arith::ConstantOp>(attribute);
}

mlir::Value Emitter::IrInteger(int64_t value, DType dtype) {
  return IrConstant(Constant::Int(value), {{dtype, false}, {}});
}

std::string Emitter::Option(const std::string& name) const {
  auto it = job_.options().extra().find(name);
  return it == job_.options().extra().end() ? "" : it->second;
}

std::string Emitter::Setting(const std::string& name) const {
  auto it = job_.settings().find(name);
  return it == job_.settings().end() ? "" : it->second;
}

//===-- the kernel's parameters ---------------------------------------------------------------------===//

namespace {

// "*fp16", "*kfp16" or "i32".
std::optional<ElementType> ParseSignatureType(absl::string_view text) {
  ElementType type;
  type.pointer = absl::ConsumePrefix(&text, "*");
  std::optional<DType> dtype = ParseDType(text);
  if (!dtype && type.pointer && absl::ConsumePrefix(&text, "k")) dtype = ParseDType(text);
  if (!dtype) return std::nullopt;
  type.dtype = *dtype;
  return type;
}

}  // namespace

// Turns one parameter into a value, adding block arguments for what is passed at launch.
class ParameterReader {
 public:
  ParameterReader(Emitter& e, const ModuleIndex& index, mlir::Block* entry,
                  std::vector<storage::EntryParameter>* parameters)
      : e_(e), index_(index), entry_(entry), parameters_(parameters) {}

  Value Read(const storage::ParameterSpec& spec, const std::string& name, std::vector<uint32_t> path);
  void set_source(uint32_t index) { source_ = index; }
  const std::vector<mlir::DictionaryAttr>& attributes() const { return attributes_; }

 private:
  mlir::Value AddArgument(const std::string& name, ElementType type, const std::vector<uint32_t>& path,
                          uint32_t divisibility);
  Value ReadTyped(const storage::ParameterSpec& spec, const std::string& name, const std::vector<uint32_t>& path);
  Value ReadDescriptor(const storage::ParameterSpec& spec, const std::string& name, std::vector<uint32_t> path);

  Emitter& e_;
  const ModuleIndex& index_;
  mlir::Block* entry_;
  std::vector<storage::EntryParameter>* parameters_;
  std::vector<mlir::DictionaryAttr> attributes_;
  uint32_t source_ = 0;
};

mlir::Value ParameterReader::AddArgument(const std::string& name, ElementType type, const std::vector<uint32_t>& path,
                                         uint32_t divisibility) {
  storage::EntryParameter parameter;
  parameter.set_name(name);
  parameter.set_type(absl::StrCat(type.pointer ? "*" : "", ShortName(type.dtype)));
  parameter.set_source_index(source_);
  for (uint32_t p : path) parameter.add_path(p);
  parameters_->push_back(std::move(parameter));

  mlir::Builder& b = e_.builder();
  llvm::SmallVector<mlir::NamedAttribute> attributes = {b.getNamedAttr("tile.name", b.getStringAttr(name))};
  if (divisibility > 1) attributes.push_back(b.getNamedAttr("tile.divisibility", b.getI64IntegerAttr(divisibility)));
  attributes_.push_back(b.getDictionaryAttr(attributes));
  return entry_->addArgument(e_.IrType(type), e_.loc());
}

Value ParameterReader::ReadTyped(const storage::ParameterSpec& spec, const std::string& name,
                                 const std::vector<uint32_t>& path) {
  std::optional<ElementType> type = ParseSignatureType(spec.type());
  if (!type)
    return e_.Error(absl::StrCat("parameter '", name, "' has the unknown type '", spec.type(),
                                 "'; accepted are types like i32, fp32, *fp16"));
  if (spec.equals_one()) {
    if (!type->is_int()) return e_.Error(absl::StrCat("parameter '", name, "' is said to be 1 but is no integer"));
    Value one = Value::Tensor(e_.IrConstant(Constant::Int(1), {*type, {}}), {*type, {}});
    one.constant = Constant::Int(1);
    return one;
  }
  return Value::Tensor(AddArgument(name, *type, path, spec.divisibility()), {*type, {}});
}

Value ParameterReader::ReadDescriptor(const storage::ParameterSpec& spec, const std::string& name,
                                      std::vector<uint32_t> path) {
  const auto& d = spec.tensor_descriptor();
  std::optional<ElementType> element = ParseSignatureType(d.element_type());
  Descriptor result;
  result.block.assign(d.block_shape().begin(), d.block_shape().end());
  if (!element || element->pointer || element->is_bool() || result.block.empty())
    return e_.Error(absl::StrCat("tensor descriptor '", name, "' needs an element type other than bool and a block shape"));
  if (std::string why = CheckBlockShape(result.block); !why.empty())
    return e_.Error(absl::StrCat("tensor descriptor '", name, "': ", why));
  result.element = *element;
  auto sub = [&](std::vector<uint32_t> tail) {
    std::vector<uint32_t> full = path;
    full.insert(full.end(), tail.begin(), tail.end());
    return full;
  };
  ElementType pointer{element->dtype, true};
  mlir::Value base = AddArgument(name, pointer, sub({0}), 16);
  result.base = base;
  result.nan_padding = d.nan_padding();
  for (uint32_t i = 0; i < result.block.size(); ++i)
    result.shape.push_back(AddArgument(absl::StrCat(name, ".shape.", i), {DType::kInt32, false}, sub({1, i}), 1));
  for (uint32_t i = 0; i + 1 < result.block.size(); ++i)
    result.strides.push_back(AddArgument(absl::StrCat(name, ".strides.", i), {DType::kInt64, false}, sub({2, i}),
                                         16 / ByteSize(element->dtype)));
  result.strides.push_back(e_.IrInteger(1, DType::kInt64));
  Value value;
  value.kind = Value::Kind::kDescriptor;
  value.descriptor = std::make_shared<Descriptor>(std::move(result));
  return value;
}

Value ParameterReader::Read(const storage::ParameterSpec& spec, const std::string& name, std::vector<uint32_t> path) {
  switch (spec.kind_case()) {
    case storage::ParameterSpec::kConstant: {
      std::string error;
      std::optional<Constant> constant = FromStorage(spec.constant(), index_, &error);
      if (!constant) return e_.Error(absl::StrCat("parameter '", name, "': ", error));
      return Value::Of(*constant);
    }
    case storage::ParameterSpec::kTuple: {
      std::vector<Value> items;
      auto names = std::make_shared<std::vector<std::string>>();
      bool named = spec.tuple().items_size() > 0;
      for (int i = 0; i < spec.tuple().items_size(); ++i) {
        const storage::ParameterSpec& item = spec.tuple().items(i);
        path.push_back(i);
        items.push_back(Read(item, absl::StrCat(name, ".", item.name().empty() ? absl::StrCat(i) : item.name()), path));
        path.pop_back();
        names->push_back(item.name());
        named = named && !item.name().empty();
      }
      Value tuple = Value::Tuple(std::move(items));
      if (named) tuple.fields = names;
      return tuple;
    }
    case storage::ParameterSpec::kTensorDescriptor: return ReadDescriptor(spec, name, std::move(path));
    default: return ReadTyped(spec, name, path);
  }
}

mlir::OwningOpRef<mlir::ModuleOp> Emitter::Run(std::vector<storage::EntryParameter>* parameters) {
  parameters->clear();
  const Function* kernel = index_.FindJitFunction(job_.kernel());
  if (!kernel) {
    std::string known;
    for (const Function* f : index_.jit_functions()) absl::StrAppend(&known, known.empty() ? "" : ", ", f->name);
    Error({0, 1, 1, 1, 1}, absl::StrCat("the module has no kernel '", job_.kernel(), "'; it has ",
                                        known.empty() ? "no @triton.jit function at all" : known));
    return nullptr;
  }
  at_ = kernel->definition->range;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc());
  builder_.setInsertionPointToEnd(module->getBody());
  auto func = Create<mlir::func::FuncOp>(kernel->name, builder_.getFunctionType({}, {}));
  func->setAttr("tile.kernel", builder_.getUnitAttr());
  // What decides the order and the fusing of sums.
  if (uint32_t warps = job_.options().num_warps()) func->setAttr("tile.num_warps", builder_.getI32IntegerAttr(warps));
  std::string fusion = Option("enable_fp_fusion");
  if (fusion == "false" || fusion == "False" || fusion == "0") func->setAttr("tile.no_fp_fusion", builder_.getUnitAttr());
  mlir::Block* entry = func.addEntryBlock();
  builder_.setInsertionPointToEnd(entry);

  frames_.push_back({kernel, {}, {}, 0, 0});
  ParameterReader reader(*this, index_, entry, parameters);
  const std::vector<FunctionParameter>& declared = kernel->definition->parameters;
  for (const FunctionParameter& parameter : declared) {
    At at(*this, parameter.range);
    if (parameter.is_star || parameter.is_double_star) {
      Error(absl::StrCat("a kernel cannot have a '", parameter.is_star ? "*" : "**", parameter.name, "' parameter"));
      return nullptr;
    }
    auto spec = std::find_if(job_.parameters().begin(), job_.parameters().end(),
                             [&](const storage::ParameterSpec& s) { return s.name() == parameter.name; });
    Value value;
    if (spec != job_.parameters().end()) {
      reader.set_source(spec - job_.parameters().begin());
      value = reader.Read(*spec, parameter.name, {});
    } else if (parameter.default_value) {
      std::optional<Constant> constant = evaluator_.Evaluate(*parameter.default_value, *kernel->scope);
      if (!constant) Error(evaluator_.error().range, evaluator_.error().message);
      else value = Value::Of(*constant);
    } else {
      Error(absl::StrCat("parameter '", parameter.name, "' is given neither a type nor a value"));
    }
    if (failed_) return nullptr;
    Bind(parameter.name, std::move(value), parameter.range);
  }
  for (const storage::ParameterSpec& spec : job_.parameters()) {
    bool known = std::any_of(declared.begin(), declared.end(),
                             [&](const FunctionParameter& p) { return p.name == spec.name(); });
    if (!known) {
      Error(absl::StrCat("kernel ", kernel->name, " has no parameter '", spec.name(), "'"));
      return nullptr;
    }
  }

  Flow flow = Statements({&kernel->definition->body, 0, nullptr}, /*tail=*/true);
  if (failed_) return nullptr;
  if (!flow.value.is_none()) {
    Error(flow.place, absl::StrCat("a kernel returns nothing, but this one returns ", Describe(flow.value)));
    return nullptr;
  }
  at_ = kernel->definition->range;
  Create<mlir::func::ReturnOp>();
  func.setType(builder_.getFunctionType(entry->getArgumentTypes(), {}));
  for (size_t i = 0; i < reader.attributes().size(); ++i) func.setArgAttrs(i, reader.attributes()[i]);
  return module;
}

mlir::OwningOpRef<mlir::ModuleOp> EmitTile(const ModuleIndex& index, const storage::CompileJob& job,
                                           mlir::MLIRContext& context, Diagnostics* diagnostics,
                                           std::vector<storage::EntryParameter>* parameters) {
  return Emitter(index, job, context, diagnostics).Run(parameters);
}

}  // namespace tessera::frontend
