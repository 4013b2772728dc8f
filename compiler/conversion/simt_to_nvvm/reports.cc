// What a kernel tells its host, through the GpuLaunchReport that its last parameter points to.
#include <cstddef>

#include "base/kernel_abi.h"
#include "compiler/conversion/simt_to_nvvm/translator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/MDBuilder.h"

namespace tessera::compiler {

using llvm::Value;
using mlir::LogicalResult;
using mlir::success;

namespace {

// Short dtype name of a printed value; hexadecimal integers are "x8" .. "x64".
std::string KindOf(mlir::Type type, bool hex, bool is_unsigned) {
  const std::string bits = std::to_string(type.getIntOrFloatBitWidth());
  if (type.isBF16()) return "bf16";
  if (type.isFloat8E4M3FN()) return "fp8e4nv";
  if (type.isFloat8E5M2()) return "fp8e5";
  if (type.isFloat8E4M3FNUZ()) return "fp8e4b8";
  if (type.isFloat8E5M2FNUZ()) return "fp8e5b16";
  if (type.isFloat8E4M3B11FNUZ()) return "fp8e4b15";
  if (mlir::isa<mlir::FloatType>(type)) return "fp" + bits;
  if (hex && bits != "1") return "x" + bits;
  return (is_unsigned && bits != "1" ? "u" : "i") + bits;
}

}  // namespace

int SimtTranslator::MessageIndex(ReportMessage message) {
  for (size_t i = 0; i < result_.messages.size(); ++i) {
    const ReportMessage& known = result_.messages[i];
    if (known.text == message.text && known.kind == message.kind && known.where == message.where && known.operand == message.operand) return i;
  }
  result_.messages.push_back(std::move(message));
  return result_.messages.size() - 1;
}

Value* SimtTranslator::ReportField(uint64_t offset) { return Pointer({report_, int64_t(offset)}, 1); }

void SimtTranslator::ProgramIds(uint64_t offset) {
  const std::pair<const char*, unsigned> ids[] = {{"pid_x", llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x},
                                                  {"pid_y", llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y},
                                                  {"pid_z", llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z}};
  for (auto [name, id] : ids) {
    b_.CreateAlignedStore(Special(name, id), ReportField(offset), llvm::Align(4));
    offset += 4;
  }
}

// The first thread of the launch that gets here describes what it saw.
LogicalResult SimtTranslator::Report(simt::ReportOp op) {
  const int message = MessageIndex({op.getMessage().str(), "", Place(op.getLoc()), 0});
  Value* address = Get(op.getAddress());
  llvm::BasicBlock* after = BeginIf(Get(op.getCondition()));
  b_.GetInsertBlock()->getSinglePredecessor()->getTerminator()->setMetadata(llvm::LLVMContext::MD_prof,
                                                                            llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  Value* old = Atom("global", "relaxed.sys", "cas.b32", "r", {report_, offsetof(GpuLaunchReport, failed)}, {b_.getInt32(0), b_.getInt32(1)}, nullptr);
  llvm::BasicBlock* after_first = BeginIf(b_.CreateIsNull(old));
  b_.CreateAlignedStore(b_.getInt32(uint32_t(op.getKind())), ReportField(offsetof(GpuLaunchReport, kind)), llvm::Align(4));
  b_.CreateAlignedStore(b_.getInt32(message), ReportField(offsetof(GpuLaunchReport, message)), llvm::Align(4));
  ProgramIds(offsetof(GpuLaunchReport, program));
  b_.CreateAlignedStore(address, ReportField(offsetof(GpuLaunchReport, address)), llvm::Align(8));
  EndIf(after_first);
  EndIf(after);
  return success();
}

LogicalResult SimtTranslator::Print(simt::PrintOp op) {
  static_assert(sizeof(GpuPrintRecord) == 32, "the shift below");
  mlir::Type type = op.getValue().getType();
  std::string kind = KindOf(type, op.getHex(), op.getIsUnsigned());
  if (auto extents = op->getAttrOfType<mlir::DenseI64ArrayAttr>("simt.extents")) {
    std::string text;
    for (int64_t extent : extents.asArrayRef()) text += (text.empty() ? "" : ",") + std::to_string(extent);
    kind += "[" + text + "]";
  }
  const int message = MessageIndex({op.getPrefix().str(), kind, Place(op.getLoc()), int(op.getOperand())});
  Value* value = Get(op.getValue());
  const unsigned bits = value->getType()->getPrimitiveSizeInBits();
  Value* raw = b_.CreateZExt(b_.CreateBitCast(value, b_.getIntNTy(bits)), i64_);
  Value* element = Get(op.getElement());
  Value* predicate = GetOrTrue(op.getPredicate());
  llvm::BasicBlock* after = BeginIf(predicate ? predicate : b_.getTrue());
  Value* slot = Atom("global", "relaxed.sys", "add.u32", "r", {report_, offsetof(GpuLaunchReport, prints)}, {b_.getInt32(1)}, nullptr);
  llvm::BasicBlock* after_room = BeginIf(b_.CreateICmpULT(slot, b_.getInt32(GpuLaunchReport::kPrintRecords)));
  Value* saved = report_;
  report_ = b_.CreateAdd(report_, b_.CreateShl(b_.CreateZExt(slot, i64_), 5));
  const uint64_t record = offsetof(GpuLaunchReport, records);
  b_.CreateAlignedStore(raw, ReportField(record + offsetof(GpuPrintRecord, bits)), llvm::Align(8));
  b_.CreateAlignedStore(b_.getInt32(message), ReportField(record + offsetof(GpuPrintRecord, message)), llvm::Align(4));
  ProgramIds(record + offsetof(GpuPrintRecord, program));
  b_.CreateAlignedStore(element, ReportField(record + offsetof(GpuPrintRecord, element)), llvm::Align(4));
  b_.CreateAlignedStore(b_.getInt32(op.getElements()), ReportField(record + offsetof(GpuPrintRecord, elements)), llvm::Align(4));
  report_ = saved;
  EndIf(after_room);
  EndIf(after);
  return success();
}

}  // namespace tessera::compiler
