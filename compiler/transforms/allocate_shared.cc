// allocate-shared: every buffer of shared memory gets its offset, and the kernel "simt.shared_bytes".
//
// A buffer lives from simt.alloc_shared to simt.free_shared in the same block, or to the end of the block; buffers whose
// lives do not overlap share their place. First fit, in program order.
#include <vector>

#include "compiler/dialect/simt/simt.h"
#include "compiler/transforms/gpu_transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

struct Buffer {
  simt::AllocSharedOp op;
  int first = 0, last = 0;  // positions in program order
  int64_t offset = 0;
};

class AllocateShared : public PassWrapper<AllocateShared, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AllocateShared)
  StringRef getArgument() const override { return "allocate-shared"; }
  StringRef getDescription() const override { return "offsets of buffers of shared memory"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function->hasAttr("simt.kernel")) return;
    std::vector<Buffer> buffers;
    llvm::DenseMap<Value, size_t> index;
    int position = 0;
    VisitBlock(function.getBody().front(), &position, &buffers, &index);
    int64_t total = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      Buffer& buffer = buffers[i];
      int64_t alignment = buffer.op.getAlignment();
      // Behind each overlapping neighbour in turn until nothing is in the way.
      for (bool moved = true; moved;) {
        moved = false;
        buffer.offset = llvm::alignTo(buffer.offset, alignment);
        for (size_t k = 0; k < i; ++k) {
          const Buffer& other = buffers[k];
          bool together = other.first <= buffer.last && buffer.first <= other.last;
          if (!together || other.offset >= buffer.offset + int64_t(buffer.op.getBytes()) || buffer.offset >= other.offset + int64_t(AllocSize(other))) continue;
          buffer.offset = other.offset + AllocSize(other);
          moved = true;
        }
      }
      buffer.op.setOffset(static_cast<uint32_t>(buffer.offset));
      total = std::max(total, buffer.offset + AllocSize(buffer));
    }
    Builder b(function.getContext());
    function->setAttr("simt.shared_bytes", b.getI32IntegerAttr(static_cast<int32_t>(llvm::alignTo(total, 16))));
  }

 private:
  static int64_t AllocSize(const Buffer& buffer) {
    simt::AllocSharedOp op = buffer.op;
    return op.getBytes();
  }

  void VisitBlock(Block& block, int* position, std::vector<Buffer>* buffers, llvm::DenseMap<Value, size_t>* index) {
    llvm::SmallVector<size_t> open;
    for (Operation& op : block) {
      ++*position;
      if (auto alloc = dyn_cast<simt::AllocSharedOp>(op)) {
        (*index)[alloc.getResult()] = buffers->size();
        open.push_back(buffers->size());
        buffers->push_back({alloc, *position, -1, 0});
      } else if (auto free = dyn_cast<simt::FreeSharedOp>(op)) {
        (*buffers)[(*index)[free.getBuffer()]].last = *position;
      }
      for (Region& region : op.getRegions())
        for (Block& inner : region) VisitBlock(inner, position, buffers, index);
    }
    for (size_t i : open)
      if ((*buffers)[i].last < 0) (*buffers)[i].last = *position;
  }
};

}  // namespace

std::unique_ptr<Pass> CreateAllocateSharedPass() { return std::make_unique<AllocateShared>(); }

}  // namespace tessera::compiler
