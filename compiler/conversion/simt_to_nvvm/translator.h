// The walk behind simt_to_nvvm.h. Private to this folder.
//
// Values: a scalar of simt IR is one LLVM value, a short vector one for each element. Types in LLVM: integers and f16,
// f32, f64 as they are; bf16 as i16 and 8-bit floats as i8, since their arithmetic is spelled out here; addresses are i64.
#ifndef TESSERA_COMPILER_CONVERSION_SIMT_TO_NVVM_TRANSLATOR_H_
#define TESSERA_COMPILER_CONVERSION_SIMT_TO_NVVM_TRANSLATOR_H_

#include <string>

#include "compiler/conversion/simt_to_nvvm/simt_to_nvvm.h"
#include "compiler/dialect/simt/simt.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler {

using Lanes = llvm::SmallVector<llvm::Value*, 4>;  // a value's elements; one for a scalar

class SimtTranslator {
 public:
  SimtTranslator(const NvvmOptions& options, llvm::LLVMContext& context, NvvmModule* result);
  mlir::LogicalResult Kernel(mlir::func::FuncOp kernel);

 private:
  // --- control.cc: the function, regions, scf, constants.
  mlir::LogicalResult Body(mlir::Block& block);
  mlir::LogicalResult Operation(mlir::Operation* op);
  mlir::LogicalResult If(mlir::scf::IfOp op);
  mlir::LogicalResult For(mlir::scf::ForOp op);
  mlir::LogicalResult While(mlir::scf::WhileOp op);
  Lanes Constant(mlir::arith::ConstantOp op);
  llvm::Value* Number(mlir::Attribute value);
  void SetLocation(mlir::Location location);
  llvm::DILocation* Location(mlir::Location location);
  llvm::DIFile* File(mlir::StringRef name);

  // --- arithmetic.cc: arith, math, vector, operations of the tile dialect. Null: not known.
  llvm::Value* Scalar(mlir::Operation* op, llvm::ArrayRef<llvm::Value*> operands, mlir::Type from, mlir::Type to);
  llvm::Value* FloatBinary(mlir::Operation* op, llvm::Value* a, llvm::Value* b, mlir::Type type);
  llvm::Value* Divide(llvm::Value* a, llvm::Value* b, bool is_signed, bool remainder);
  llvm::Value* CompareFloats(mlir::arith::CmpFOp op, llvm::Value* a, llvm::Value* b, mlir::Type type);
  llvm::Value* Math(mlir::Operation* op, llvm::ArrayRef<llvm::Value*> operands, mlir::Type type);
  llvm::Value* Erf(llvm::Value* x);
  llvm::Value* MaxMinNan(bool max, llvm::Value* a, llvm::Value* b);
  mlir::LogicalResult Vector(mlir::Operation* op);
  mlir::LogicalResult Extern(tile::ExternOp op);
  mlir::LogicalResult InlineAsm(tile::InlineAsmOp op);
  llvm::Value* Libdevice(mlir::StringRef symbol, llvm::Type* result, llvm::ArrayRef<llvm::Value*> operands);

  // --- conversions.cc. ExpandConversions: those without instructions become integer code, in simt IR.
  void ExpandConversions(mlir::func::FuncOp kernel);
  bool IsNative(mlir::Type from, mlir::Type to, bool toward_zero) const;
  llvm::Value* ConvertFloat(llvm::Value* value, mlir::Type from, mlir::Type to, bool toward_zero = false);
  llvm::Value* FloatToInt(llvm::Value* value, mlir::Type from, llvm::IntegerType* to, bool is_unsigned);
  llvm::Value* IntToFloat(llvm::Value* value, mlir::Type to, bool is_unsigned);
  // bf16 as f32, f16 as f32; others as they are. And back.
  llvm::Value* Widen(llvm::Value* value, mlir::Type type);
  llvm::Value* Narrow(llvm::Value* value, mlir::Type type);

  // --- memory.cc
  mlir::LogicalResult Load(simt::LoadOp op);
  mlir::LogicalResult Store(simt::StoreOp op);
  mlir::LogicalResult LoadShared(simt::LoadSharedOp op);
  mlir::LogicalResult StoreShared(simt::StoreSharedOp op);
  mlir::LogicalResult CopyAsync(simt::CopyAsyncOp op);
  struct Words {  // how a value of simt IR lies in registers of memory instructions
    llvm::Type* type;
    int count;
    const char* ptx;         // "b32"
    const char* constraint;  // "r"
    int bytes;               // of all words
  };
  Words WordsOf(mlir::Type type);
  Lanes ToWords(llvm::ArrayRef<llvm::Value*> lanes, mlir::Type type, const Words& words);
  Lanes FromWords(llvm::ArrayRef<llvm::Value*> words, mlir::Type type, const Words& layout);
  struct Address {
    llvm::Value* base;
    int64_t offset;
    std::string Text(int operand) const;  // "[$2+16]"
  };
  Address GlobalAddress(mlir::Value address);
  Address SharedAddress(mlir::Value buffer, mlir::Value offset);
  llvm::Value* Pointer(const Address& address, unsigned space);
  llvm::Value* SharedWindow(mlir::Value buffer, mlir::Value offset);  // i32: address within shared memory
  Lanes PredicatedLoad(const std::string& instruction, const Address& address, const Words& words, llvm::Value* predicate,
                       llvm::ArrayRef<llvm::Value*> otherwise);
  void PredicatedStore(const std::string& instruction, const Address& address, const Words& words, llvm::Value* predicate,
                       llvm::ArrayRef<llvm::Value*> values);

  // --- atomics.cc
  mlir::LogicalResult AtomicRmw(simt::AtomicRmwOp op);
  mlir::LogicalResult AtomicCas(simt::AtomicCasOp op);
  mlir::LogicalResult AtomicShared(simt::AtomicSharedOp op);
  llvm::Value* AtomicScalar(tile::RmwKind kind, const std::string& order, const Address& address, llvm::Value* value, mlir::Type type,
                            llvm::Value* predicate);
  // One atom instruction on `value` of LLVM type; the old value, or 0 where the predicate does not hold.
  llvm::Value* Atom(const std::string& space, const std::string& order, const std::string& operation, const char* constraint,
                    const Address& address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* predicate);
  llvm::Value* CompareAndSwapLoop(const std::string& order, const Address& address, llvm::Value* value, mlir::Type type, llvm::Value* predicate,
                                  llvm::function_ref<llvm::Value*(llvm::Value* old)> update);

  // --- warp_ops.cc: shuffles, votes, matrix units.
  mlir::LogicalResult Shuffle(simt::ShuffleOp op);
  mlir::LogicalResult Ldmatrix(simt::LdmatrixOp op);
  mlir::LogicalResult Stmatrix(simt::StmatrixOp op);
  mlir::LogicalResult Mma(simt::MmaOp op);
  mlir::LogicalResult Wgmma(simt::WgmmaOp op);
  mlir::LogicalResult WgmmaWait(simt::WgmmaWaitOp op);
  llvm::Value* MatrixDescriptor(mlir::Value buffer, mlir::Value offset, simt::Swizzle swizzle, int leading_bytes, int stride_bytes);

  // --- reports.cc
  mlir::LogicalResult Report(simt::ReportOp op);
  mlir::LogicalResult Print(simt::PrintOp op);
  int MessageIndex(ReportMessage message);
  llvm::Value* ReportField(uint64_t offset);  // pointer in the global space
  void ProgramIds(uint64_t offset);           // stores them to the report
  // Emits code that runs where `condition` holds; the builder is inside until EndIf.
  llvm::BasicBlock* BeginIf(llvm::Value* condition);
  void EndIf(llvm::BasicBlock* after);

  // --- small things
  enum AsmFlags { kPure = 0, kVolatile = 1, kMemory = 2, kConvergent = 4 };
  llvm::CallInst* Asm(llvm::Type* result, const std::string& text, const std::string& constraints, llvm::ArrayRef<llvm::Value*> operands, int flags);
  llvm::Value* Result(llvm::Value* call, int index, int count);  // of an Asm with several outputs
  llvm::Type* StructOf(llvm::ArrayRef<llvm::Type*> types);       // one type: itself
  llvm::Type* Type(mlir::Type type);                             // of a scalar
  llvm::Value* Get(mlir::Value value);
  Lanes GetLanes(mlir::Value value);
  llvm::Value* GetOrTrue(mlir::Value predicate);  // null: always true
  void Set(mlir::Value value, llvm::Value* translated) { scalars_[value] = translated; }
  void SetLanes(mlir::Value value, llvm::ArrayRef<llvm::Value*> lanes);
  llvm::Value* Special(const char* name, unsigned intrinsic);
  llvm::Value* Intrinsic(unsigned id, llvm::ArrayRef<llvm::Value*> operands, llvm::ArrayRef<llvm::Type*> types = {});
  std::string Place(mlir::Location location);
  mlir::LogicalResult Unsupported(mlir::Operation* op, const llvm::Twine& why);

  const NvvmOptions& options_;
  const GpuArch& arch_;
  llvm::LLVMContext& context_;
  NvvmModule& result_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  llvm::Type *i1_, *i8_, *i16_, *i32_, *i64_, *half_, *float_, *double_;
  llvm::Function* function_ = nullptr;
  llvm::Value* report_ = nullptr;  // i64
  llvm::GlobalVariable* shared_ = nullptr;
  llvm::DenseMap<mlir::Value, llvm::Value*> scalars_;
  llvm::DenseMap<mlir::Value, Lanes> vectors_;
  llvm::DenseMap<const char*, llvm::Value*> specials_;  // read once, in the entry block
  llvm::Value* warp_id_ = nullptr;

  std::unique_ptr<llvm::DIBuilder> debug_;
  llvm::DISubprogram* subprogram_ = nullptr;
  llvm::DenseMap<mlir::Location, llvm::DILocation*> locations_;
  llvm::StringMap<llvm::DISubprogram*> inlined_scopes_;  // by file
  llvm::StringMap<llvm::DIFile*> files_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_SIMT_TO_NVVM_TRANSLATOR_H_
