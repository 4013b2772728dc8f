// Random kernels as textual tile IR, for comparing targets with the interpreter.
#ifndef TESSERA_COMPILER_TARGET_CPU_RANDOM_KERNEL_H_
#define TESSERA_COMPILER_TARGET_CPU_RANDOM_KERNEL_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tessera::compiler {

// A kernel over %p0 (i32, kInputElements elements, read), %p1 (i32, kOutputElements, written and read), %p2 (like %p1)
// and %n (i32). It uses shape operations, reductions, scans, gathers, masked accesses, loops and branches on blocks of
// i32. Every access stays inside for 0 <= n <= 3. The same seed gives the same text everywhere.
class RandomKernel {
 public:
  static constexpr int kInputElements = 4096, kOutputElements = 65536;
  explicit RandomKernel(uint32_t seed) : random_(seed) {}
  std::string Text();

 private:
  struct Block {
    std::string name;
    std::vector<int> shape;
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  std::string Fresh() { return "%v" + std::to_string(next_++); }
  void Line(const std::string& text) { text_ += text + "\n"; }
  std::vector<int> RandomShape();
  Block Pick();
  Block OfShape(const std::vector<int>& shape);
  Block Load(const std::vector<int>& shape);
  Block Flat(const Block& block, int elements);
  void Store(const Block& block);
  void Keep(const Block& block) { blocks_.push_back(block); }
  void Statement(int depth);
  void Binary();
  void Shape();
  void Reduce();
  void Scan();
  void Gather();
  void Dot();
  void Loop(int depth);
  void Branch(int depth);
  std::string Region();

  std::mt19937 random_;
  std::string text_;
  std::vector<Block> blocks_;
  std::vector<std::string> scalars_;
  int next_ = 0;
  int next_store_ = 0;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_CPU_RANDOM_KERNEL_H_
