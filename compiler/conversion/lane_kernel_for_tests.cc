#include "compiler/conversion/lane_kernel_for_tests.h"

#include "base/check.h"
#include "compiler/conversion/expand_math.h"
#include "compiler/target/cpu/object_compiler.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

mlir::DialectRegistry MakeRegistry() {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
  RegisterObjectCompilerDialects(&registry);
  return registry;
}

// 8-bit floats are bytes in memory.
mlir::Type MemoryElement(mlir::Type element) {
  if (mlir::isa<mlir::FloatType>(element) && element.getIntOrFloatBitWidth() == 8)
    return mlir::IntegerType::get(element.getContext(), 8);
  return element;
}

mlir::Type LanesOf(mlir::Type element, int lanes) {
  return lanes == 0 ? element : mlir::Type(mlir::VectorType::get({lanes}, element));
}

Value Load(mlir::OpBuilder& b, mlir::Location loc, Value base, Value index, mlir::Type element, int lanes) {
  mlir::Type memory = MemoryElement(element);
  Value address = b.create<mlir::LLVM::GEPOp>(loc, base.getType(), memory, base, mlir::ValueRange{index});
  Value value = b.create<mlir::LLVM::LoadOp>(loc, LanesOf(memory, lanes), address, /*alignment=*/1);
  return memory == element ? value : b.create<mlir::arith::BitcastOp>(loc, LanesOf(element, lanes), value);
}

void Store(mlir::OpBuilder& b, mlir::Location loc, Value base, Value index, Value value, int lanes) {
  mlir::Type element = mlir::getElementTypeOrSelf(value);
  mlir::Type memory = MemoryElement(element);
  Value address = b.create<mlir::LLVM::GEPOp>(loc, base.getType(), memory, base, mlir::ValueRange{index});
  if (memory != element) value = b.create<mlir::arith::BitcastOp>(loc, LanesOf(memory, lanes), value);
  b.create<mlir::LLVM::StoreOp>(loc, value, address, /*alignment=*/1);
}

mlir::OwningOpRef<mlir::ModuleOp> BuildLoop(mlir::MLIRContext* context, const LaneKernel::Shape& shape,
                                            const LaneKernel::Function& function) {
  mlir::OpBuilder b(context);
  mlir::Location loc = b.getUnknownLoc();
  mlir::Type in = mlir::parseType(shape.in, context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToStart(module->getBody());
  mlir::Type pointer = mlir::LLVM::LLVMPointerType::get(context);
  auto kernel = b.create<mlir::func::FuncOp>(loc, "k", b.getFunctionType({pointer, pointer, pointer, b.getI64Type()}, {}));
  for (int i = 0; i < 3; ++i) kernel.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
  mlir::Block* entry = kernel.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value zero = b.create<mlir::arith::ConstantOp>(loc, b.getI64IntegerAttr(0));
  Value step = b.create<mlir::arith::ConstantOp>(loc, b.getI64IntegerAttr(std::max(1, shape.lanes)));
  auto loop = b.create<mlir::scf::ForOp>(loc, zero, entry->getArgument(3), step);
  b.setInsertionPointToStart(loop.getBody());
  Value index = loop.getInductionVar();
  Value a = Load(b, loc, entry->getArgument(0), index, in, shape.lanes);
  Value other = Load(b, loc, entry->getArgument(1), index, in, shape.lanes);
  Value result = function(b, loc, a, other);
  TESSERA_CHECK(mlir::getElementTypeOrSelf(result) == mlir::parseType(shape.out, context), "the type that was announced");
  Store(b, loc, entry->getArgument(2), index, result, shape.lanes);
  b.setInsertionPointToEnd(entry);
  b.create<mlir::func::ReturnOp>(loc);
  return module;
}

}  // namespace

struct LaneKernel::Jit {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

LaneKernel::LaneKernel(const Shape& shape, const Function& function) : jit_(std::make_unique<Jit>()) {
  mlir::MLIRContext context(MakeRegistry(), mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  mlir::OwningOpRef<mlir::ModuleOp> module = BuildLoop(&context, shape, function);
  TESSERA_CHECK(mlir::succeeded(mlir::verify(*module)), "the function builds valid IR");
  mlir::PassManager passes(&context);
  passes.addPass(CreateExpandMathPass());
  passes.addPass(mlir::createConvertSCFToCFPass());
  passes.addPass(mlir::createConvertVectorToLLVMPass());
  passes.addPass(mlir::createArithToLLVMConversionPass());
  passes.addPass(mlir::createConvertControlFlowToLLVMPass());
  passes.addPass(mlir::createConvertFuncToLLVMPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
  TESSERA_CHECK(mlir::succeeded(passes.run(*module)), "the passes succeed");
  ObjectOptions options;
  options.cpu = shape.cpu.empty() ? DetectHostCpu() : *ParseCpuDescription(shape.cpu);
  options.contract_fp = shape.contract_fp;
  options.want_asm = true;
  absl::StatusOr<CompiledObject> object = CompileObject(*module, options);
  TESSERA_CHECK(object.ok(), object.status().ToString().c_str());
  assembly_ = object->assembly;
  jit_->jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(jit_->jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object->object, "k")));
  entry_ = llvm::cantFail(jit_->jit->lookup("k")).toPtr<Entry>();
}

LaneKernel::~LaneKernel() = default;

}  // namespace tessera::compiler
