// Random numbers: Philox, bit for bit as Triton's.
#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/frontend/check/builtins.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::frontend {
namespace {

using Emit = std::function<Value(Emitter&, const Arguments&)>;

constexpr ElementType kInt32{DType::kInt32, false};
constexpr ElementType kUint32{DType::kUint32, false};
constexpr ElementType kInt64{DType::kInt64, false};
constexpr ElementType kUint64{DType::kUint64, false};

// The multipliers and key increments for words of 32 or 64 bits.
struct PhiloxConstants {
  uint64_t key_a, key_b, round_a, round_b;
};
constexpr PhiloxConstants k32{0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57};
constexpr PhiloxConstants k64{0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B, 0xD2E7470EE14C6C93, 0xCA5A826395121157};

Value Word(Emitter& e, uint64_t value, const ElementType& type) {
  return Value::Tensor(e.IrConstant(Constant::Int(Integer(value)), {type, {}}), {type, {}});
}

Value MulHi(Emitter& e, Value a, Value b) {
  if (!e.Unify(&a, &b)) return {};
  return Value::Tensor(e.Make<tile::MulHiUOp>(a.ir, b.ir), a.type);
}

std::vector<Value> Rounds(Emitter& e, std::vector<Value> c, Value k0, Value k1, int64_t rounds) {
  const ElementType type = c[0].type.element;
  const PhiloxConstants& k = type.bits() == 32 ? k32 : k64;
  auto exclusive_or = [&](const Value& a, const Value& b) { return e.Binary(BinaryOp::kBitXor, a, b); };
  for (int64_t i = 0; i < rounds && !e.failed(); ++i) {
    Value a = Word(e, k.round_a, type), b = Word(e, k.round_b, type);
    Value c0 = c[0], c2 = c[2];
    c[0] = exclusive_or(exclusive_or(MulHi(e, b, c2), c[1]), k0);
    c[2] = exclusive_or(exclusive_or(MulHi(e, a, c0), c[3]), k1);
    c[1] = e.Mul(b, c2);
    c[3] = e.Mul(a, c0);
    k0 = e.Add(k0, Word(e, k.key_a, type));
    k1 = e.Add(k1, Word(e, k.key_b, type));
  }
  return c;
}

std::vector<Value> Philox(Emitter& e, const Value& seed_value, std::vector<Value> counters, int64_t rounds) {
  Value seed = e.ToTensor(seed_value, "the seed");
  if (e.failed()) return {};
  if (!seed.type.element.is_int()) {
    e.Error(absl::StrCat("the seed must be an integer, not ", Describe(seed)));
    return {};
  }
  seed = e.Cast(seed, kUint64);
  for (Value& c : counters) {
    c = e.ToTensor(c, "a counter");
    if (e.failed()) return {};
    if (!c.type.element.is_int()) {
      e.Error(absl::StrCat("a counter must be an integer, not ", Describe(c)));
      return {};
    }
  }
  bool wide = counters[0].type.element.bits() == 64;
  const ElementType& word = wide ? kUint64 : kUint32;
  for (Value& c : counters) c = e.Cast(c, word);
  Value low = seed, high = Word(e, 0, kUint64);
  if (!wide) {
    low = e.Cast(seed, kUint32);
    high = e.Cast(e.Binary(BinaryOp::kShr, seed, Value::Int(32)), kUint32);
  }
  return Rounds(e, std::move(counters), low, high, rounds);
}

std::vector<Value> RandInt4x(Emitter& e, const Arguments& args) {
  std::optional<int64_t> rounds = e.ConstantInt(args, "n_rounds");
  Value offset = e.ToTensor(args["offset"], "the offset");
  if (!rounds || e.failed()) return {};
  if (!offset.type.element.is_int()) {
    e.Error(args.Range("offset"), absl::StrCat("the offset must be an integer or a block of them, not ", Describe(offset)));
    return {};
  }
  if (*rounds < 0 || *rounds > 64) {
    e.Error(args.Range("n_rounds"), "n_rounds must be 0 to 64");
    return {};
  }
  Value low = e.Cast(offset, kUint32);
  Value zero = Value::Tensor(e.IrConstant(Constant::Int(0), low.type), low.type);
  Value high = zero;
  if (offset.type.element.bits() > 32) high = e.Cast(e.Binary(BinaryOp::kShr, offset, Value::Int(32)), kUint32);
  return Philox(e, args["seed"], {low, high, zero, zero}, *rounds);
}

// A uniform float in [0, 1) from a word of random bits.
Value Uniform(Emitter& e, const Value& bits) {
  bool narrow = bits.type.element.bits() == 32;
  Value x = e.Bitcast(bits, narrow ? kInt32 : kInt64);
  x = e.Select(e.Compare(CompareOp::kLt, x, Value::Int(0)), e.Sub(e.Unary(UnaryOp::kNeg, x), Value::Int(1)), x);
  return e.Mul(x, Value::Of(Constant::Float(narrow ? 4.6566127342e-10 : 1.0842020432385337e-19)));
}

// Two normal values from two uniform ones (Box and Muller).
std::pair<Value, Value> Normals(Emitter& e, Value u1, Value u2) {
  Value least = e.ToTensor(Value::Of(Constant::Float(1.0e-7)));
  if (!e.Unify(&least, &u1)) return {};
  u1 = Value::Tensor(e.MinMax(true, least.ir, u1.ir, u1.type.element, false), u1.type);
  Value angle = e.Mul(Value::Of(Constant::Float(6.283185307179586)), u2);
  Value log = Value::Tensor(e.Make<mlir::math::LogOp>(u1.ir), u1.type);
  Value radius = e.Mul(Value::Of(Constant::Float(-2.0)), log);
  if (e.failed()) return {};
  radius.ir = e.Make<mlir::math::SqrtOp>(radius.ir);
  Value cos = Value::Tensor(e.Make<mlir::math::CosOp>(angle.ir), angle.type);
  Value sin = Value::Tensor(e.Make<mlir::math::SinOp>(angle.ir), angle.type);
  return {e.Mul(radius, cos), e.Mul(radius, sin)};
}

Value All(Emitter& e, std::vector<Value> values) { return e.failed() ? Value() : Value::Tuple(std::move(values)); }

Value PhiloxCall(Emitter& e, const Arguments& args) {
  std::optional<int64_t> rounds = e.ConstantInt(args, "n_rounds");
  if (!rounds) return {};
  return All(e, Philox(e, args["seed"], {args["c0"], args["c1"], args["c2"], args["c3"]}, *rounds));
}

Value RandInt(Emitter& e, const Arguments& args) {
  std::vector<Value> words = RandInt4x(e, args);
  return e.failed() ? Value() : words[0];
}

Value Rand(Emitter& e, const Arguments& args) {
  std::vector<Value> words = RandInt4x(e, args);
  return e.failed() ? Value() : Uniform(e, words[0]);
}

Value Rand4x(Emitter& e, const Arguments& args) {
  std::vector<Value> words = RandInt4x(e, args);
  for (Value& word : words) word = Uniform(e, word);
  return All(e, std::move(words));
}

Value Randn(Emitter& e, const Arguments& args) {
  std::vector<Value> words = RandInt4x(e, args);
  return e.failed() ? Value() : Normals(e, Uniform(e, words[0]), Uniform(e, words[1])).first;
}

Value Randn4x(Emitter& e, const Arguments& args) {
  std::vector<Value> words = RandInt4x(e, args);
  if (e.failed()) return {};
  auto [a, b] = Normals(e, Uniform(e, words[0]), Uniform(e, words[1]));
  auto [c, d] = Normals(e, Uniform(e, words[2]), Uniform(e, words[3]));
  return All(e, {a, b, c, d});
}

}  // namespace

void AddRandomBuiltins(BuiltinTable* t) {
  t->Add("philox", "seed, c0, c1, c2, c3, n_rounds=10", PhiloxCall);
  t->Add("randint", "seed, offset, n_rounds=10", RandInt);
  t->Add("randint4x", "seed, offset, n_rounds=10",
         [](Emitter& e, const Arguments& args) { return All(e, RandInt4x(e, args)); });
  t->Add("rand", "seed, offset, n_rounds=10", Rand);
  t->Add("rand4x", "seed, offset, n_rounds=10", Rand4x);
  t->Add("randn", "seed, offset, n_rounds=10", Randn);
  t->Add("randn4x", "seed, offset, n_rounds=10", Randn4x);
  t->Add("uint_to_uniform_float", "x", [](Emitter& e, const Arguments& args) -> Value {
    Value x = e.ToTensor(args["x"], "the operand");
    return e.failed() ? Value() : Uniform(e, x);
  });
  t->Add("pair_uniform_to_normal", "u1, u2", [](Emitter& e, const Arguments& args) -> Value {
    auto [a, b] = Normals(e, args["u1"], args["u2"]);
    return All(e, {a, b});
  });
}

}  // namespace tessera::frontend
