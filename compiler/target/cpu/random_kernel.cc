#include "compiler/target/cpu/random_kernel.h"

#include <algorithm>

namespace tessera::compiler {
namespace {

constexpr int kMostElements = 1024;

std::string Type(const std::vector<int>& shape, const std::string& element = "i32") {
  std::string text = "tensor<";
  for (int extent : shape) text += std::to_string(extent) + "x";
  return text + element + ">";
}

int Elements(const std::vector<int>& shape) {
  int n = 1;
  for (int extent : shape) n *= extent;
  return n;
}

std::string Str(int n) { return std::to_string(n); }

}  // namespace

std::vector<int> RandomKernel::RandomShape() {
  std::vector<int> shape;
  int rank = 1 + Below(3);
  for (int d = 0; d < rank; ++d) shape.push_back(1 << Below(rank == 1 ? 9 : rank == 2 ? 6 : 4));
  return shape;
}

RandomKernel::Block RandomKernel::Pick() { return blocks_[blocks_.size() - 1 - Below(std::min<int>(blocks_.size(), 6))]; }

// The same elements as a 1-D block of `elements`, cut or repeated.
RandomKernel::Block RandomKernel::Flat(const Block& block, int elements) {
  Block now{Fresh(), {Elements(block.shape)}};
  Line(now.name + " = tile.reshape " + block.name + " : " + Type(block.shape) + " -> " + Type(now.shape));
  while (Elements(now.shape) < elements) {
    Block twice{Fresh(), {2 * now.shape[0]}};
    Line(twice.name + " = tile.cat " + now.name + ", " + now.name + " : " + Type(now.shape) + " -> " + Type(twice.shape));
    now = twice;
  }
  while (Elements(now.shape) > elements) {
    std::string pairs = Fresh(), left = Fresh(), right = Fresh();
    std::vector<int> shape{now.shape[0] / 2, 2}, half{now.shape[0] / 2};
    Line(pairs + " = tile.reshape " + now.name + " : " + Type(now.shape) + " -> " + Type(shape));
    Line(left + ", " + right + " = tile.split " + pairs + " : " + Type(shape) + " -> " + Type(half) + ", " + Type(half));
    now = {Below(2) ? left : right, half};
  }
  return now;
}

RandomKernel::Block RandomKernel::OfShape(const std::vector<int>& shape) {
  for (int tries = 0; tries < 4; ++tries) {
    Block block = Pick();
    if (block.shape == shape) return block;
  }
  if (Below(2)) return Load(shape);
  Block flat = Flat(Pick(), Elements(shape)), block{Fresh(), shape};
  Line(block.name + " = tile.reshape " + flat.name + " : " + Type(flat.shape) + " -> " + Type(shape));
  return block;
}

// From the input, or from memory that the kernel also writes.
RandomKernel::Block RandomKernel::Load(const std::vector<int>& shape) {
  int n = Elements(shape), start = Below(kInputElements - 2 * kMostElements);
  std::string pointer = "%p" + Str(Below(3)), p = "!tile.ptr<i32>";
  std::string range = Fresh(), base = Fresh(), splat = Fresh(), pointers = Fresh(), flat = Fresh(), result = Fresh(), offset = Fresh();
  Line(range + " = tile.range {start = " + Str(start) + " : i32, end = " + Str(start + n) + " : i32} : tensor<" + Str(n) + "xi32>");
  int stride = Below(4) == 0 ? 1 + Below(2) : 1;
  std::string index = range;
  if (stride > 1) {
    std::string k = Fresh(), product = Fresh(), first = Fresh();
    Line(k + " = arith.constant dense<" + Str(stride) + "> : tensor<" + Str(n) + "xi32>");
    std::string zero_based = Fresh();
    Line(zero_based + " = tile.range {start = 0 : i32, end = " + Str(n) + " : i32} : tensor<" + Str(n) + "xi32>");
    Line(product + " = arith.muli " + zero_based + ", " + k + " : tensor<" + Str(n) + "xi32>");
    index = product;
  }
  Line(base + " = tile.addptr " + pointer + ", %n : " + p + ", i32");
  Line(splat + " = tile.splat " + base + " : " + p + " -> " + Type({n}, p));
  Line(pointers + " = tile.addptr " + splat + ", " + index + " : " + Type({n}, p) + ", tensor<" + Str(n) + "xi32>");
  if (Below(2)) {
    std::string limit = Fresh(), mask = Fresh();
    Line(limit + " = arith.constant dense<" + Str(start + Below(n + 1)) + "> : tensor<" + Str(n) + "xi32>");
    Line(mask + " = arith.cmpi slt, " + index + ", " + limit + " : tensor<" + Str(n) + "xi32>");
    Line(flat + " = tile.load " + pointers + " mask " + mask + " : " + Type({n}, "i1") + " : " + Type({n}, p) + " -> " + Type({n}));
  } else {
    Line(flat + " = tile.load " + pointers + " : " + Type({n}, p) + " -> " + Type({n}));
  }
  Line(result + " = tile.reshape " + flat + " : " + Type({n}) + " -> " + Type(shape));
  return {result, shape};
}

void RandomKernel::Store(const Block& block) {
  int n = Elements(block.shape);
  std::string pointer = "%p" + Str(1 + Below(2)), p = "!tile.ptr<i32>";
  // Mostly to places of its own, at times to those that loads read.
  int start = Below(3) ? 8192 + kMostElements * (next_store_++ % 48) : Below(kInputElements - 2 * kMostElements);
  std::string flat = Fresh(), range = Fresh(), splat = Fresh(), pointers = Fresh();
  Line(flat + " = tile.reshape " + block.name + " : " + Type(block.shape) + " -> " + Type({n}));
  Line(range + " = tile.range {start = " + Str(start) + " : i32, end = " + Str(start + n) + " : i32} : tensor<" + Str(n) + "xi32>");
  Line(splat + " = tile.splat " + pointer + " : " + p + " -> " + Type({n}, p));
  Line(pointers + " = tile.addptr " + splat + ", " + range + " : " + Type({n}, p) + ", tensor<" + Str(n) + "xi32>");
  Line("tile.store " + pointers + ", " + flat + " : " + Type({n}, p) + ", " + Type({n}));
}

void RandomKernel::Binary() {
  Block a = Pick(), b = OfShape(a.shape), c{Fresh(), a.shape};
  static const char* const kOps[] = {"arith.addi", "arith.subi", "arith.muli", "arith.xori", "arith.maxsi", "arith.minui", "tile.divs", "tile.remu"};
  std::string op = kOps[Below(8)];
  if (op.rfind("tile.", 0) == 0) {
    // Divisors that are never zero.
    std::string one = Fresh(), odd = Fresh();
    Line(one + " = arith.constant dense<5> : " + Type(a.shape));
    Line(odd + " = arith.ori " + b.name + ", " + one + " : " + Type(a.shape));
    std::string mask = Fresh(), small = Fresh();
    Line(mask + " = arith.constant dense<255> : " + Type(a.shape));
    Line(small + " = arith.andi " + odd + ", " + mask + " : " + Type(a.shape));
    b.name = small;
  }
  Line(c.name + " = " + op + " " + a.name + ", " + b.name + " : " + Type(a.shape));
  Keep(c);
}

void RandomKernel::Shape() {
  Block a = Pick();
  int rank = a.shape.size();
  switch (Below(5)) {
    case 0: {
      std::vector<int> order;
      for (int d = 0; d < rank; ++d) order.push_back(d);
      std::shuffle(order.begin(), order.end(), random_);
      Block c{Fresh(), {}};
      std::string list;
      for (int d : order) {
        c.shape.push_back(a.shape[d]);
        list += (list.empty() ? "" : ", ") + Str(d);
      }
      Line(c.name + " = tile.trans " + a.name + " {order = array<i32: " + list + ">} : " + Type(a.shape) + " -> " + Type(c.shape));
      return Keep(c);
    }
    case 1:
      return Keep(OfShape(RandomShape()));
    case 2: {
      if (rank == 3) return;
      int axis = Below(rank + 1), extent = 1 << Below(5);
      std::vector<int> one = a.shape, many = a.shape;
      one.insert(one.begin() + axis, 1);
      many.insert(many.begin() + axis, extent);
      if (Elements(many) > kMostElements) return;
      std::string expanded = Fresh();
      Block c{Fresh(), many};
      Line(expanded + " = tile.expand_dims " + a.name + " {axis = " + Str(axis) + " : i32} : " + Type(a.shape) + " -> " + Type(one));
      Line(c.name + " = tile.broadcast " + expanded + " : " + Type(one) + " -> " + Type(many));
      return Keep(c);
    }
    case 3: {
      if (2 * Elements(a.shape) > kMostElements || rank == 3) return;
      Block b = OfShape(a.shape), c{Fresh(), a.shape};
      c.shape.push_back(2);
      Line(c.name + " = tile.join " + a.name + ", " + b.name + " : " + Type(a.shape) + " -> " + Type(c.shape));
      return Keep(c);
    }
    case 4:
      return Keep(Flat(a, 1 << Below(9)));
  }
}

std::string RandomKernel::Region() {
  static const char* const kOps[] = {"arith.addi", "arith.maxsi", "arith.xori", "arith.muli", "arith.minui"};
  return "{\n^bb0(%u: i32, %w: i32):\n  %x = " + std::string(kOps[Below(5)]) + " %u, %w : i32\n  tile.yield %x : i32\n}";
}

void RandomKernel::Reduce() {
  Block a = Pick();
  int axis = Below(a.shape.size());
  Block c{Fresh(), a.shape};
  c.shape.erase(c.shape.begin() + axis);
  std::string result = c.shape.empty() ? "i32" : Type(c.shape);
  Line(c.name + " = tile.reduce(" + a.name + ") axis " + Str(axis) + " : (" + Type(a.shape) + ") -> " + result + " " + Region());
  if (!c.shape.empty()) return Keep(c);
  Block splat{Fresh(), RandomShape()};
  Line(splat.name + " = tile.splat " + c.name + " : i32 -> " + Type(splat.shape));
  Keep(splat);
}

void RandomKernel::Scan() {
  Block a = Pick(), c{Fresh(), a.shape};
  std::string reverse = Below(2) ? " {reverse}" : "";
  Line(c.name + " = tile.scan(" + a.name + ") axis " + Str(Below(a.shape.size())) + reverse + " : (" + Type(a.shape) + ") -> " + Type(a.shape) + " " + Region());
  Keep(c);
}

void RandomKernel::Gather() {
  Block a = Pick(), i = OfShape(a.shape), c{Fresh(), a.shape};
  int axis = Below(a.shape.size());
  std::string mask = Fresh(), index = Fresh();
  Line(mask + " = arith.constant dense<" + Str(a.shape[axis] - 1) + "> : " + Type(a.shape));
  Line(index + " = arith.andi " + i.name + ", " + mask + " : " + Type(a.shape));
  Line(c.name + " = tile.gather " + a.name + "[" + index + "] {axis = " + Str(axis) + " : i32} : " + Type(a.shape) + ", " + Type(a.shape) + " -> " + Type(a.shape));
  Keep(c);
}

void RandomKernel::Dot() {
  int m = 1 << Below(5), n = 1 << Below(6), k = 1 << Below(6);
  auto narrow = [&](const Block& wide) {
    std::string name = Fresh();
    Line(name + " = arith.trunci " + wide.name + " : " + Type(wide.shape) + " to " + Type(wide.shape, "i8"));
    return name;
  };
  std::string a = narrow(OfShape({m, k})), b = narrow(OfShape({k, n}));
  Block c = OfShape({m, n}), d{Fresh(), {m, n}};
  Line(d.name + " = tile.dot " + a + ", " + b + ", " + c.name + ", ieee : " + Type({m, k}, "i8") + " * " + Type({k, n}, "i8") + " -> " + Type({m, n}));
  Keep(d);
}

void RandomKernel::Loop(int depth) {
  int carried = 1 + Below(3);
  std::vector<Block> starts, arguments;
  for (int i = 0; i < carried; ++i) {
    starts.push_back(Pick());
    arguments.push_back({Fresh(), starts[i].shape});
  }
  std::string result = Fresh(), iv = Fresh(), types, inits;
  for (int i = 0; i < carried; ++i) {
    types += (i ? ", " : "") + Type(starts[i].shape);
    inits += (i ? ", " : "") + arguments[i].name + " = " + starts[i].name;
  }
  Line(result + ":" + Str(carried) + " = scf.for " + iv + " = %zero to %n step %one iter_args(" + inits + ") -> (" + types + ") : i32 {");
  std::vector<Block> outside = blocks_;
  for (const Block& argument : arguments) Keep(argument);
  std::string spread = Fresh();
  std::vector<int> shape = RandomShape();
  Line(spread + " = tile.splat " + iv + " : i32 -> " + Type(shape));
  Keep({spread, shape});
  for (int i = 0, n = 2 + Below(4); i < n; ++i) Statement(depth + 1);
  std::string yields;
  for (int i = 0; i < carried; ++i) {
    // New values, old ones, and one another's.
    Block value = Below(4) == 0 ? arguments[Below(carried)] : Pick();
    if (value.shape != starts[i].shape) value = OfShape(starts[i].shape);
    yields += (i ? ", " : "") + value.name;
  }
  Line("scf.yield " + yields + " : " + types);
  Line("}");
  blocks_ = outside;
  for (int i = 0; i < carried; ++i) Keep({result + "#" + Str(i), starts[i].shape});
}

void RandomKernel::Branch(int depth) {
  Block result{Fresh(), Pick().shape};
  std::string condition = Fresh(), limit = Fresh();
  Line(limit + " = arith.constant " + Str(1 + Below(3)) + " : i32");
  Line(condition + " = arith.cmpi slt, %n, " + limit + " : i32");
  Line(result.name + " = scf.if " + condition + " -> (" + Type(result.shape) + ") {");
  std::vector<Block> outside = blocks_;
  for (int branch = 0; branch < 2; ++branch) {
    if (branch) Line("} else {");
    for (int i = 0, n = Below(3); i < n; ++i) Statement(depth + 1);
    Line("scf.yield " + OfShape(result.shape).name + " : " + Type(result.shape));
    blocks_ = outside;
  }
  Line("}");
  Keep(result);
}

void RandomKernel::Statement(int depth) {
  int kind = Below(depth < 2 ? 16 : 13);
  if (kind < 4) return Binary();
  if (kind < 7) return Shape();
  if (kind == 7) return Reduce();
  if (kind == 8) return Scan();
  if (kind == 9) return Gather();
  if (kind == 10) return Dot();
  if (kind == 11) return Keep(Load(RandomShape()));
  if (kind == 12) return Store(Pick());
  if (kind == 15) return Branch(depth);
  Loop(depth);
}

std::string RandomKernel::Text() {
  Line("func.func @kernel(%p0: !tile.ptr<i32>, %p1: !tile.ptr<i32>, %p2: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {");
  Line("%zero = arith.constant 0 : i32");
  Line("%one = arith.constant 1 : i32");
  Keep(Load(RandomShape()));
  Keep(Load(RandomShape()));
  for (int i = 0, n = 4 + Below(10); i < n; ++i) Statement(0);
  for (size_t i = 0; i < 3 && i < blocks_.size(); ++i) Store(blocks_[blocks_.size() - 1 - i]);
  Line("return");
  Line("}");
  return text_;
}

}  // namespace tessera::compiler
