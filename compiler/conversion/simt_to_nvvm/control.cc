// The function, regions and structured control flow; constants; line information; dispatch.
#include "compiler/conversion/simt_to_nvvm/translator.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/Path.h"

namespace tessera::compiler {

using llvm::BasicBlock;
using llvm::PHINode;
using mlir::failed;
using mlir::failure;
using mlir::LogicalResult;
using mlir::success;

namespace {

constexpr unsigned kShared = 3;

void SetNvvmAnnotation(llvm::Function* function, const char* name, int value) {
  llvm::LLVMContext& context = function->getContext();
  auto* number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value);
  llvm::Metadata* fields[] = {llvm::ConstantAsMetadata::get(function), llvm::MDString::get(context, name),
                              llvm::ConstantAsMetadata::get(number)};
  function->getParent()->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, fields));
}

}  // namespace

SimtTranslator::SimtTranslator(const NvvmOptions& options, llvm::LLVMContext& context, NvvmModule* result)
    : options_(options), arch_(options.arch), context_(context), result_(*result), module_(*result->module), b_(context) {
  i1_ = b_.getInt1Ty();
  i8_ = b_.getInt8Ty();
  i16_ = b_.getInt16Ty();
  i32_ = b_.getInt32Ty();
  i64_ = b_.getInt64Ty();
  half_ = b_.getHalfTy();
  float_ = b_.getFloatTy();
  double_ = b_.getDoubleTy();
}

//===-- small things --------------------------------------------------------------------------===//

llvm::Type* SimtTranslator::Type(mlir::Type type) {
  if (auto integer = mlir::dyn_cast<mlir::IntegerType>(type)) return b_.getIntNTy(integer.getWidth());
  if (type.isIndex()) return i64_;
  if (type.isF16()) return half_;
  if (type.isF32()) return float_;
  if (type.isF64()) return double_;
  if (type.isBF16()) return i16_;
  if (mlir::isa<mlir::FloatType>(type) && type.getIntOrFloatBitWidth() == 8) return i8_;
  return nullptr;
}

llvm::Value* SimtTranslator::Get(mlir::Value value) {
  llvm::Value* found = scalars_.lookup(value);
  assert(found && "a value is used before it is translated");
  return found;
}

Lanes SimtTranslator::GetLanes(mlir::Value value) {
  if (!mlir::isa<mlir::VectorType>(value.getType())) return {Get(value)};
  return vectors_.lookup(value);
}

llvm::Value* SimtTranslator::GetOrTrue(mlir::Value predicate) {
  if (!predicate) return nullptr;
  llvm::Value* value = Get(predicate);
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->isOne() ? nullptr : value;
}

void SimtTranslator::SetLanes(mlir::Value value, llvm::ArrayRef<llvm::Value*> lanes) {
  if (mlir::isa<mlir::VectorType>(value.getType())) vectors_[value].assign(lanes.begin(), lanes.end());
  else scalars_[value] = lanes[0];
}

llvm::Type* SimtTranslator::StructOf(llvm::ArrayRef<llvm::Type*> types) {
  if (types.empty()) return b_.getVoidTy();
  return types.size() == 1 ? types[0] : llvm::StructType::get(context_, types);
}

llvm::CallInst* SimtTranslator::Asm(llvm::Type* result, const std::string& text, const std::string& constraints,
                                    llvm::ArrayRef<llvm::Value*> operands, int flags) {
  llvm::SmallVector<llvm::Type*, 8> types;
  for (llvm::Value* operand : operands) types.push_back(operand->getType());
  auto* type = llvm::FunctionType::get(result ? result : b_.getVoidTy(), types, false);
  const std::string clobbers = flags & kMemory ? (constraints.empty() ? "~{memory}" : ",~{memory}") : "";
  llvm::CallInst* call = b_.CreateCall(llvm::InlineAsm::get(type, text, constraints + clobbers, (flags & (kVolatile | kMemory)) != 0), operands);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  if (flags == kPure) {
    call->setDoesNotAccessMemory();
    call->addFnAttr(llvm::Attribute::WillReturn);
  }
  if (flags & kConvergent) call->setConvergent();
  return call;
}

llvm::Value* SimtTranslator::Result(llvm::Value* call, int index, int count) {
  return count == 1 ? call : b_.CreateExtractValue(call, index);
}

llvm::Value* SimtTranslator::Intrinsic(unsigned id, llvm::ArrayRef<llvm::Value*> operands, llvm::ArrayRef<llvm::Type*> types) {
  return b_.CreateIntrinsic(llvm::Intrinsic::ID(id), types, operands);
}

// A special register: read once, at the start of the kernel.
llvm::Value* SimtTranslator::Special(const char* name, unsigned intrinsic) {
  llvm::Value*& value = specials_[name];
  if (!value) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(&function_->getEntryBlock(), function_->getEntryBlock().getFirstInsertionPt());
    b_.SetCurrentDebugLocation(nullptr);
    value = Intrinsic(intrinsic, {});
    value->setName(name);
    if (intrinsic == llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x)
      llvm::cast<llvm::Instruction>(value)->setMetadata(llvm::LLVMContext::MD_range,
                                                        llvm::MDBuilder(context_).createRange(llvm::APInt(32, 0), llvm::APInt(32, result_.threads)));
  }
  return value;
}

std::string SimtTranslator::Place(mlir::Location location) {
  if (auto site = mlir::dyn_cast<mlir::CallSiteLoc>(location)) return Place(site.getCallee());
  if (auto named = mlir::dyn_cast<mlir::NameLoc>(location)) return Place(named.getChildLoc());
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location part : fused.getLocations())
      if (std::string place = Place(part); !place.empty()) return place;
  }
  if (auto file = mlir::dyn_cast<mlir::FileLineColLoc>(location)) return file.getFilename().str() + ":" + std::to_string(file.getLine());
  return "";
}

LogicalResult SimtTranslator::Unsupported(mlir::Operation* op, const llvm::Twine& why) {
  return op->emitError("not supported on GPUs: ") << why;
}

//===-- line information ------------------------------------------------------------------------===//

llvm::DIFile* SimtTranslator::File(mlir::StringRef name) {
  llvm::DIFile*& file = files_[name];
  if (!file) file = debug_->createFile(llvm::sys::path::filename(name), llvm::sys::path::parent_path(name));
  return file;
}

llvm::DILocation* SimtTranslator::Location(mlir::Location location) {
  llvm::DILocation*& known = locations_[location];
  if (known) return known;
  if (auto site = mlir::dyn_cast<mlir::CallSiteLoc>(location)) return known = Location(site.getCallee());
  if (auto named = mlir::dyn_cast<mlir::NameLoc>(location)) return known = Location(named.getChildLoc());
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location part : fused.getLocations())
      if (llvm::DILocation* found = Location(part)) return locations_[location] = found;
    return nullptr;
  }
  auto file = mlir::dyn_cast<mlir::FileLineColLoc>(location);
  if (!file) return nullptr;
  llvm::DIScope* scope = subprogram_;
  if (llvm::DIFile* its = File(file.getFilename()); its != subprogram_->getFile()) scope = debug_->createLexicalBlockFile(subprogram_, its);
  return known = llvm::DILocation::get(context_, file.getLine(), file.getColumn(), scope);
}

void SimtTranslator::SetLocation(mlir::Location location) {
  if (!debug_) return;
  if (llvm::DILocation* found = Location(location)) b_.SetCurrentDebugLocation(found);
}

//===-- the function ----------------------------------------------------------------------------===//

LogicalResult SimtTranslator::Kernel(mlir::func::FuncOp kernel) {
  if (!kernel.getBody().hasOneBlock()) return kernel.emitError("a simt kernel has one block");
  auto threads = kernel->getAttrOfType<mlir::IntegerAttr>("simt.threads");
  if (!threads) return kernel.emitError("a simt kernel needs simt.threads");
  result_.threads = threads.getInt();
  if (auto bytes = kernel->getAttrOfType<mlir::IntegerAttr>("simt.shared_bytes")) result_.shared_bytes = bytes.getInt();
  result_.entry_symbol = kernel.getName().str();
  ExpandConversions(kernel);

  llvm::SmallVector<llvm::Type*> types;
  for (mlir::Type type : kernel.getFunctionType().getInputs()) {
    llvm::Type* scalar = Type(type);
    if (!scalar) return kernel.emitError() << "a kernel parameter of type " << type;
    types.push_back(scalar);
  }
  types.push_back(i64_);
  auto* function_type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  function_ = llvm::Function::Create(function_type, llvm::Function::ExternalLinkage, result_.entry_symbol, module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  SetNvvmAnnotation(function_, "kernel", 1);
  SetNvvmAnnotation(function_, "reqntidx", result_.threads);
  if (options_.max_registers > 0) SetNvvmAnnotation(function_, "maxnreg", options_.max_registers);
  if (options_.line_info) {
    debug_ = std::make_unique<llvm::DIBuilder>(module_);
    auto place = kernel->getLoc()->findInstanceOf<mlir::FileLineColLoc>();
    llvm::DIFile* file = File(place ? place.getFilename().getValue() : "kernel");
    debug_->createCompileUnit(llvm::dwarf::DW_LANG_Python, file, "tessera", true, "", 0, "", llvm::DICompileUnit::DebugDirectivesOnly);
    subprogram_ = debug_->createFunction(file, kernel.getName(), kernel.getName(), file, place ? place.getLine() : 1,
                                         debug_->createSubroutineType(debug_->getOrCreateTypeArray({})), place ? place.getLine() : 1,
                                         llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
    function_->setSubprogram(subprogram_);
    module_.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  }
  shared_ = new llvm::GlobalVariable(module_, llvm::ArrayType::get(i8_, 0), false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                     "shared_memory", nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  // The window of a block starts at a multiple of 1024, as swizzled matrices of wgmma want it. LLVM is told of 16 alone:
  // of more it would make "or" of additions, which no address of an instruction can hold.
  shared_->setAlignment(llvm::Align(16));

  b_.SetInsertPoint(BasicBlock::Create(context_, "", function_));
  if (options_.contract_fp) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    b_.setFastMathFlags(flags);
  }
  for (auto [argument, value] : llvm::zip(kernel.getArguments(), function_->args())) Set(argument, &value);
  report_ = function_->getArg(function_->arg_size() - 1);
  SetLocation(kernel->getLoc());
  if (failed(Body(kernel.getBody().front()))) return failure();
  b_.CreateRetVoid();
  if (shared_->use_empty()) shared_->eraseFromParent();
  if (debug_) debug_->finalize();
  return success();
}

LogicalResult SimtTranslator::Body(mlir::Block& block) {
  for (mlir::Operation& op : block)
    if (failed(Operation(&op))) return failure();
  return success();
}

LogicalResult SimtTranslator::If(mlir::scf::IfOp op) {
  BasicBlock* then_block = BasicBlock::Create(context_, "then", function_);
  BasicBlock* else_block = op.elseBlock() ? BasicBlock::Create(context_, "else", function_) : nullptr;
  BasicBlock* after = BasicBlock::Create(context_, "after", function_);
  b_.CreateCondBr(Get(op.getCondition()), then_block, else_block ? else_block : after);
  llvm::SmallVector<std::pair<BasicBlock*, llvm::SmallVector<Lanes>>> arms;
  auto arm = [&](mlir::Block& body, BasicBlock* start) -> LogicalResult {
    b_.SetInsertPoint(start);
    if (failed(Body(body))) return failure();
    arms.emplace_back();
    arms.back().first = b_.GetInsertBlock();
    for (mlir::Value value : body.getTerminator()->getOperands()) arms.back().second.push_back(GetLanes(value));
    b_.CreateBr(after);
    return success();
  };
  if (failed(arm(*op.thenBlock(), then_block))) return failure();
  if (else_block && failed(arm(*op.elseBlock(), else_block))) return failure();
  after->moveAfter(b_.GetInsertBlock());
  b_.SetInsertPoint(after);
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    Lanes merged;
    for (size_t lane = 0; lane < arms[0].second[index].size(); ++lane) {
      PHINode* phi = b_.CreatePHI(arms[0].second[index][lane]->getType(), arms.size());
      for (auto& [from, values] : arms) phi->addIncoming(values[index][lane], from);
      merged.push_back(phi);
    }
    SetLanes(result, merged);
  }
  return success();
}

// A loop with its test at the end, behind a test of the first iteration.
LogicalResult SimtTranslator::For(mlir::scf::ForOp op) {
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* body = BasicBlock::Create(context_, "loop", function_);
  BasicBlock* after = BasicBlock::Create(context_, "after", function_);
  llvm::Value *lower = Get(op.getLowerBound()), *upper = Get(op.getUpperBound()), *step = Get(op.getStep());
  b_.CreateCondBr(b_.CreateICmpSLT(lower, upper), body, after);
  b_.SetInsertPoint(body);
  PHINode* counter = b_.CreatePHI(lower->getType(), 2);
  counter->addIncoming(lower, before);
  Set(op.getInductionVar(), counter);
  llvm::SmallVector<llvm::SmallVector<PHINode*, 4>> carried;
  llvm::SmallVector<Lanes> initial;
  for (auto [argument, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    carried.emplace_back();
    initial.push_back(GetLanes(init));
    Lanes lanes;
    for (llvm::Value* value : initial.back()) {
      PHINode* phi = b_.CreatePHI(value->getType(), 2);
      phi->addIncoming(value, before);
      carried.back().push_back(phi);
      lanes.push_back(phi);
    }
    SetLanes(argument, lanes);
  }
  if (failed(Body(*op.getBody()))) return failure();
  llvm::SmallVector<Lanes> next;
  for (mlir::Value value : op.getBody()->getTerminator()->getOperands()) next.push_back(GetLanes(value));
  SetLocation(op.getLoc());
  llvm::Value* counted = b_.CreateAdd(counter, step);
  BasicBlock* latch = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(counted, upper), body, after);
  counter->addIncoming(counted, latch);
  after->moveAfter(latch);
  b_.SetInsertPoint(after);
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    Lanes lanes;
    for (size_t lane = 0; lane < initial[index].size(); ++lane) {
      carried[index][lane]->addIncoming(next[index][lane], latch);
      PHINode* phi = b_.CreatePHI(initial[index][lane]->getType(), 2);
      phi->addIncoming(initial[index][lane], before);
      phi->addIncoming(next[index][lane], latch);
      lanes.push_back(phi);
    }
    SetLanes(result, lanes);
  }
  return success();
}

LogicalResult SimtTranslator::While(mlir::scf::WhileOp op) {
  BasicBlock* entry = b_.GetInsertBlock();
  BasicBlock* test = BasicBlock::Create(context_, "while", function_);
  BasicBlock* body = BasicBlock::Create(context_, "do", function_);
  BasicBlock* after = BasicBlock::Create(context_, "after", function_);
  b_.CreateBr(test);
  b_.SetInsertPoint(test);
  llvm::SmallVector<llvm::SmallVector<PHINode*, 4>> carried;
  for (auto [argument, init] : llvm::zip(op.getBeforeArguments(), op.getInits())) {
    carried.emplace_back();
    Lanes lanes;
    for (llvm::Value* value : GetLanes(init)) {
      PHINode* phi = b_.CreatePHI(value->getType(), 2);
      phi->addIncoming(value, entry);
      carried.back().push_back(phi);
      lanes.push_back(phi);
    }
    SetLanes(argument, lanes);
  }
  if (failed(Body(*op.getBeforeBody()))) return failure();
  mlir::scf::ConditionOp condition = op.getConditionOp();
  b_.CreateCondBr(Get(condition.getCondition()), body, after);
  for (auto [argument, result, value] : llvm::zip(op.getAfterArguments(), op.getResults(), condition.getArgs())) {
    Lanes lanes = GetLanes(value);
    SetLanes(argument, lanes);
    SetLanes(result, lanes);
  }
  body->moveAfter(b_.GetInsertBlock());
  b_.SetInsertPoint(body);
  if (failed(Body(*op.getAfterBody()))) return failure();
  for (auto [phis, value] : llvm::zip(carried, op.getAfterBody()->getTerminator()->getOperands())) {
    Lanes lanes = GetLanes(value);
    for (auto [phi, lane] : llvm::zip(phis, lanes)) phi->addIncoming(lane, b_.GetInsertBlock());
  }
  b_.CreateBr(test);
  after->moveAfter(b_.GetInsertBlock());
  b_.SetInsertPoint(after);
  return success();
}

BasicBlock* SimtTranslator::BeginIf(llvm::Value* condition) {
  BasicBlock* then_block = BasicBlock::Create(context_, "", function_);
  BasicBlock* after = BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(condition, then_block, after);
  b_.SetInsertPoint(then_block);
  return after;
}

void SimtTranslator::EndIf(BasicBlock* after) {
  b_.CreateBr(after);
  after->moveAfter(b_.GetInsertBlock());
  b_.SetInsertPoint(after);
}

//===-- constants -------------------------------------------------------------------------------===//

llvm::Value* SimtTranslator::Number(mlir::Attribute value) {
  if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(value)) return llvm::ConstantInt::get(context_, integer.getValue());
  auto real = mlir::cast<mlir::FloatAttr>(value);
  llvm::Type* type = Type(real.getType());
  if (type->isIntegerTy()) return llvm::ConstantInt::get(context_, real.getValue().bitcastToAPInt());
  return llvm::ConstantFP::get(context_, real.getValue());
}

Lanes SimtTranslator::Constant(mlir::arith::ConstantOp op) {
  auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(op.getValue());
  if (!elements) return {Number(op.getValue())};
  Lanes lanes;
  for (mlir::Attribute element : elements.getValues<mlir::Attribute>()) lanes.push_back(Number(element));
  return lanes;
}

//===-- dispatch --------------------------------------------------------------------------------===//

LogicalResult SimtTranslator::Operation(mlir::Operation* op) {
  SetLocation(op->getLoc());
  using namespace simt;
  return llvm::TypeSwitch<mlir::Operation*, LogicalResult>(op)
      .Case([&](mlir::arith::ConstantOp constant) {
        SetLanes(constant, Constant(constant));
        return success();
      })
      .Case<mlir::func::ReturnOp, mlir::scf::YieldOp, mlir::scf::ConditionOp, AllocSharedOp, FreeSharedOp>([](auto) { return success(); })
      .Case([&](mlir::scf::IfOp x) { return If(x); })
      .Case([&](mlir::scf::ForOp x) { return For(x); })
      .Case([&](mlir::scf::WhileOp x) { return While(x); })
      .Case([&](ThreadIdOp x) {
        Set(x, Special("tid", llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x));
        return success();
      })
      .Case([&](LaneIdOp x) {
        Set(x, b_.CreateAnd(Special("tid", llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x), 31));
        return success();
      })
      .Case([&](WarpIdOp x) {
        if (!warp_id_) {
          // Through a shuffle the assembler sees that it is uniform.
          llvm::Value* tid = Special("tid", llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
          llvm::IRBuilder<>::InsertPointGuard guard(b_);
          b_.SetInsertPoint(llvm::cast<llvm::Instruction>(tid)->getNextNode());
          llvm::Value* warp = b_.CreateLShr(tid, 5);
          warp_id_ = result_.threads <= 32 ? b_.getInt32(0)
                                           : Intrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {b_.getInt32(-1), warp, b_.getInt32(0), b_.getInt32(31)});
        }
        Set(x, warp_id_);
        return success();
      })
      .Case([&](tile::ProgramIdOp x) {
        const unsigned ids[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
        static constexpr const char* kNames[] = {"pid_x", "pid_y", "pid_z"};
        Set(x, Special(kNames[x.getAxis()], ids[x.getAxis()]));
        return success();
      })
      .Case([&](tile::NumProgramsOp x) {
        const unsigned ids[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_z};
        static constexpr const char* kNames[] = {"programs_x", "programs_y", "programs_z"};
        Set(x, Special(kNames[x.getAxis()], ids[x.getAxis()]));
        return success();
      })
      .Case([&](LoadOp x) { return Load(x); })
      .Case([&](StoreOp x) { return Store(x); })
      .Case([&](AtomicRmwOp x) { return AtomicRmw(x); })
      .Case([&](AtomicCasOp x) { return AtomicCas(x); })
      .Case([&](AtomicSharedOp x) { return AtomicShared(x); })
      .Case([&](FenceOp x) {
        Asm(nullptr, ("fence.acq_rel." + tile::stringifyMemScope(x.getScope()) + ";").str(), "", {}, kMemory);
        return success();
      })
      .Case([&](LoadSharedOp x) { return LoadShared(x); })
      .Case([&](StoreSharedOp x) { return StoreShared(x); })
      .Case([&](BarrierOp) {
        if (result_.threads <= 32) Intrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {b_.getInt32(-1)});
        else Intrinsic(llvm::Intrinsic::nvvm_barrier0, {});
        return success();
      })
      .Case([&](WarpBarrierOp) {
        Intrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {b_.getInt32(-1)});
        return success();
      })
      .Case([&](CopyAsyncOp x) { return CopyAsync(x); })
      .Case([&](CommitCopiesOp) {
        Asm(nullptr, "cp.async.commit_group;", "", {}, kMemory);
        return success();
      })
      .Case([&](WaitCopiesOp x) {
        Asm(nullptr, "cp.async.wait_group " + std::to_string(x.getPending()) + ";", "", {}, kMemory);
        return success();
      })
      .Case([&](ShuffleOp x) { return Shuffle(x); })
      .Case([&](BallotOp x) {
        Set(x, Intrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {b_.getInt32(-1), Get(x.getCondition())}));
        return success();
      })
      .Case([&](LdmatrixOp x) { return Ldmatrix(x); })
      .Case([&](StmatrixOp x) { return Stmatrix(x); })
      .Case([&](MmaOp x) { return Mma(x); })
      .Case([&](WgmmaOp x) { return Wgmma(x); })
      .Case([&](WgmmaFenceOp x) {
        if (x.getProxy()) Asm(nullptr, "fence.proxy.async.shared::cta;", "", {}, kMemory | kConvergent);
        Asm(nullptr, "wgmma.fence.sync.aligned;", "", {}, kMemory | kConvergent);
        return success();
      })
      .Case([&](WgmmaCommitOp) {
        Asm(nullptr, "wgmma.commit_group.sync.aligned;", "", {}, kMemory | kConvergent);
        return success();
      })
      .Case([&](WgmmaWaitOp x) { return WgmmaWait(x); })
      .Case([&](ReportOp x) { return Report(x); })
      .Case([&](PrintOp x) { return Print(x); })
      .Case([&](tile::ExternOp x) { return Extern(x); })
      .Case([&](tile::InlineAsmOp x) { return InlineAsm(x); })
      .Case([&](tile::AssumeOp) { return success(); })
      .Case([&](tile::HintOp x) {
        SetLanes(x, GetLanes(x.getSource()));
        return success();
      })
      .Default([&](mlir::Operation* other) -> LogicalResult {
        if (mlir::isa<mlir::vector::VectorDialect>(other->getDialect())) return Vector(other);
        if (other->getNumResults() != 1 || other->getNumRegions() != 0) return Unsupported(other, other->getName().getStringRef());
        // Elementwise: scalars, or short vectors lane by lane.
        mlir::Type to = mlir::getElementTypeOrSelf(other->getResult(0));
        mlir::Type from = other->getNumOperands() == 0 ? to : mlir::getElementTypeOrSelf(other->getOperand(other->getNumOperands() - 1));
        if (auto bits = mlir::dyn_cast<mlir::arith::BitcastOp>(other))
          if (mlir::isa<mlir::VectorType>(bits.getType()) && from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
            return Unsupported(other, "a bitcast that changes the number of elements");
        Lanes result;
        llvm::SmallVector<Lanes> operands;
        size_t count = 1;
        for (mlir::Value operand : other->getOperands()) {
          operands.push_back(GetLanes(operand));
          count = std::max(count, operands.back().size());
        }
        for (size_t lane = 0; lane < count; ++lane) {
          llvm::SmallVector<llvm::Value*> scalars;
          for (Lanes& operand : operands) scalars.push_back(operand.size() == 1 ? operand[0] : operand[lane]);
          llvm::Value* value = Scalar(other, scalars, from, to);
          if (!value) return Unsupported(other, other->getName().getStringRef());
          result.push_back(value);
        }
        SetLanes(other->getResult(0), result);
        return success();
      });
}

//===-- the entry -------------------------------------------------------------------------------===//

absl::StatusOr<NvvmModule> SimtToNvvm(mlir::ModuleOp module, const NvvmOptions& options, llvm::LLVMContext& context) {
  mlir::func::FuncOp kernel;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    if (function->hasAttr("simt.kernel")) kernel = function;
  if (!kernel) return absl::InternalError("the module has no simt kernel");
  NvvmModule result;
  result.module = std::make_unique<llvm::Module>("kernel", context);
  result.module->setTargetTriple("nvptx64-nvidia-cuda");
  // 32-bit pointers to shared memory.
  result.module->setDataLayout("e-p3:32:32-p4:32:32-p5:32:32-i64:64-i128:128-v16:16-v32:32-n16:32:64");
  std::string error;
  mlir::ScopedDiagnosticHandler collect(module.getContext(), [&](mlir::Diagnostic& diagnostic) {
    if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error || !error.empty()) return success();
    llvm::raw_string_ostream out(error);
    auto place = diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>();
    if (place) out << place.getFilename().getValue() << ":" << place.getLine() << ":" << place.getColumn() << ": ";
    out << diagnostic.str();
    return success();
  });
  if (failed(SimtTranslator(options, context, &result).Kernel(kernel)))
    return error.find("not supported on GPUs") != std::string::npos ? absl::UnimplementedError(error)
                                                                       : absl::InternalError("generating code for the GPU: " + error);
  return result;
}

}  // namespace tessera::compiler
