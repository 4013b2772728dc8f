// What is known about the values of a tensor along each of its dimensions.
//
// For dimension d, with all other indices fixed and runs aligned to multiples of their length:
//   contiguity[d]    length of runs in which each value is the one before plus 1 (for pointers: one element)
//   constancy[d]     length of runs of equal values
//   divisibility[d]  the first value of each contiguous run is a multiple of it (bytes for pointers)
// All are powers of two, at least 1. Scalars have one dimension of extent 1.
//
// Contiguity assumes, as Triton does, that index arithmetic does not wrap around.
#ifndef TESSERA_COMPILER_ANALYSIS_AXIS_INFO_H_
#define TESSERA_COMPILER_ANALYSIS_AXIS_INFO_H_

#include <cstdint>
#include <optional>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace tessera::compiler {

struct AxisInfo {
  llvm::SmallVector<int64_t, 3> contiguity, constancy, divisibility;
  std::optional<int64_t> constant;  // the one value of every element
  bool non_negative = false;        // as a signed integer

  static AxisInfo Unknown(mlir::Type type);
  int rank() const { return static_cast<int>(contiguity.size()); }
  bool operator==(const AxisInfo& other) const;
  // What holds for both.
  static AxisInfo Join(const AxisInfo& a, const AxisInfo& b);
};

llvm::raw_ostream& operator<<(llvm::raw_ostream& out, const AxisInfo& info);

// Axis information of every value below an operation (a func.func), through scf loops and branches. Reads
// "tile.divisibility" of function arguments.
class AxisInfoAnalysis {
 public:
  // kUnsigned: remainders are taken of values that are not negative, as Triton's own analysis assumes. Right for what
  // becomes an address: `(start + range) % n` of a negative start lies outside of every buffer.
  enum class Remainders { kSigned, kUnsigned };
  explicit AxisInfoAnalysis(mlir::Operation* root, Remainders remainders = Remainders::kSigned);
  // Known-nothing for values that were not there when the analysis ran.
  AxisInfo Get(mlir::Value value) const;

 private:
  void VisitBlock(mlir::Block& block);
  void VisitOp(mlir::Operation* op);
  AxisInfo Compute(mlir::Operation* op, unsigned result) const;
  const Remainders remainders_;
  llvm::DenseMap<mlir::Value, AxisInfo> info_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_AXIS_INFO_H_
