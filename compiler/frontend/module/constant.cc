#include "compiler/frontend/module/constant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/frontend/lex/lexer.h"
#include "compiler/frontend/module/module_index.h"
#include "compiler/frontend/parse/printer.h"

namespace tessera::frontend {
namespace {

// Values nested deeper or larger than this are not compared or printed to their end. Lists may contain themselves.
constexpr int kMaxDepth = 100;
constexpr int kMaxNodes = 200'000;

// Frees nested lists one after the other instead of recursively: they may be nested a million deep.
void FreeItems(std::vector<Constant>* items) {
  thread_local std::vector<std::vector<Constant>*>* pending = nullptr;
  if (pending) {
    pending->push_back(items);
    return;
  }
  std::vector<std::vector<Constant>*> work = {items};
  pending = &work;
  while (!work.empty()) {
    std::vector<Constant>* next = work.back();
    work.pop_back();
    delete next;
  }
  pending = nullptr;
}

Constant WithItems(ConstantKind kind, std::vector<Constant> items) {
  Constant value;
  value.kind = kind;
  value.items = std::shared_ptr<std::vector<Constant>>(new std::vector<Constant>(std::move(items)), FreeItems);
  return value;
}

class ReprPrinter {
 public:
  std::string Take() { return std::move(out_); }

  void Print(const Constant& v, int depth) {
    if (depth > kMaxDepth || --nodes_ < 0) {
      out_ += "...";
      return;
    }
    switch (v.kind) {
      case ConstantKind::kNone: out_ += "None"; return;
      case ConstantKind::kBool: out_ += v.boolean ? "True" : "False"; return;
      case ConstantKind::kInt: out_ += ToString(v.integer); return;
      case ConstantKind::kFloat: out_ += FloatText(v.real); return;
      case ConstantKind::kString: out_ += StringText(v.text); return;
      case ConstantKind::kDType: absl::StrAppend(&out_, "tl.", LanguageName(v.dtype)); return;
      case ConstantKind::kPointerType: absl::StrAppend(&out_, "tl.pointer_type(tl.", LanguageName(v.dtype), ")"); return;
      case ConstantKind::kTuple: return List("(", v, v.items->size() == 1 ? ",)" : ")", depth);
      case ConstantKind::kList: return List("[", v, "]", depth);
      case ConstantKind::kSet: return v.items->empty() ? void(out_ += "set()") : List("{", v, "}", depth);
      case ConstantKind::kDict:
        out_ += '{';
        for (size_t i = 0; i + 1 < v.items->size(); i += 2) {
          if (i > 0) out_ += ", ";
          Print((*v.items)[i], depth + 1);
          out_ += ": ";
          Print((*v.items)[i + 1], depth + 1);
        }
        out_ += '}';
        return;
      case ConstantKind::kFunction: absl::StrAppend(&out_, "<function ", v.function->name, ">"); return;
      case ConstantKind::kLambda: out_ += "<lambda>"; return;
      case ConstantKind::kModule: absl::StrAppend(&out_, "<module ", v.text, ">"); return;
      case ConstantKind::kBuiltin: out_ += v.text; return;
      case ConstantKind::kConfig: return List("triton.Config(", v, ")", depth);
      case ConstantKind::kExternal: absl::StrAppend(&out_, "<external ", v.text, ">"); return;
    }
  }

 private:
  void List(absl::string_view open, const Constant& v, absl::string_view close, int depth) {
    out_.append(open.data(), open.size());
    for (size_t i = 0; i < v.items->size(); ++i) {
      if (i > 0) out_ += ", ";
      Print((*v.items)[i], depth + 1);
      if (nodes_ < 0) break;
    }
    out_.append(close.data(), close.size());
  }

  std::string out_;
  int nodes_ = kMaxNodes;
};

bool EqualBounded(const Constant& a, const Constant& b, int depth, int* nodes) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
    return a.as_real() == b.as_real();
  }
  if (a.kind != b.kind || depth > kMaxDepth || --*nodes < 0) return false;
  switch (a.kind) {
    case ConstantKind::kString: case ConstantKind::kModule: case ConstantKind::kBuiltin: case ConstantKind::kExternal:
      return a.text == b.text;
    case ConstantKind::kDType: case ConstantKind::kPointerType: return a.dtype == b.dtype;
    case ConstantKind::kFunction: return a.function == b.function;
    case ConstantKind::kLambda: return a.lambda == b.lambda && a.scope == b.scope;
    case ConstantKind::kTuple: case ConstantKind::kList: case ConstantKind::kConfig: {
      if (a.items->size() != b.items->size()) return false;
      for (size_t i = 0; i < a.items->size(); ++i)
        if (!EqualBounded((*a.items)[i], (*b.items)[i], depth + 1, nodes)) return false;
      return true;
    }
    case ConstantKind::kSet: case ConstantKind::kDict: {  // in any order
      size_t step = a.kind == ConstantKind::kDict ? 2 : 1;
      if (a.items->size() != b.items->size()) return false;
      for (size_t i = 0; i < a.items->size(); i += step) {
        bool found = false;
        for (size_t j = 0; j < b.items->size() && !found; j += step)
          found = EqualBounded((*a.items)[i], (*b.items)[j], depth + 1, nodes) &&
                  (step == 1 || EqualBounded((*a.items)[i + 1], (*b.items)[j + 1], depth + 1, nodes));
        if (!found) return false;
      }
      return true;
    }
    default: return true;  // None
  }
}

bool ToStorageBounded(const Constant& value, int depth, int* nodes, storage::ConstantValue* out) {
  if (depth > kMaxDepth || --*nodes < 0) return false;
  switch (value.kind) {
    case ConstantKind::kNone: out->mutable_none(); return true;
    case ConstantKind::kBool: out->set_boolean(value.boolean); return true;
    case ConstantKind::kInt:
      if (value.integer > std::numeric_limits<int64_t>::max()) {
        out->set_unsigned_integer(static_cast<uint64_t>(value.integer));
      } else {
        out->set_integer(static_cast<int64_t>(value.integer));
      }
      return true;
    case ConstantKind::kFloat: out->set_real(value.real); return true;
    case ConstantKind::kString:
      if (!IsUtf8(value.text)) return false;
      out->set_text(value.text);
      return true;
    case ConstantKind::kDType: out->set_dtype(std::string(ShortName(value.dtype))); return true;
    case ConstantKind::kPointerType: out->set_dtype(absl::StrCat("*", ShortName(value.dtype))); return true;
    case ConstantKind::kFunction:
      if (value.function->kind != Function::Kind::kJit) return false;
      out->set_function(value.function->name);
      return true;
    case ConstantKind::kTuple: case ConstantKind::kList: {
      storage::ConstantValue::Tuple* tuple = out->mutable_tuple();
      for (const Constant& item : *value.items)
        if (!ToStorageBounded(item, depth + 1, nodes, tuple->add_items())) return false;
      return true;
    }
    default: return false;
  }
}

}  // namespace

Constant Constant::Bool(bool value) {
  Constant c;
  c.kind = ConstantKind::kBool;
  c.boolean = value;
  return c;
}

Constant Constant::Int(Integer value) {
  Constant c;
  c.kind = ConstantKind::kInt;
  c.integer = value;
  return c;
}

Constant Constant::Float(double value) {
  Constant c;
  c.kind = ConstantKind::kFloat;
  c.real = value;
  return c;
}

namespace {

Constant WithText(ConstantKind kind, std::string text) {
  Constant c;
  c.kind = kind;
  c.text = std::move(text);
  return c;
}

Constant WithType(ConstantKind kind, DType dtype) {
  Constant c;
  c.kind = kind;
  c.dtype = dtype;
  return c;
}

}  // namespace

Constant Constant::String(std::string value) { return WithText(ConstantKind::kString, std::move(value)); }
Constant Constant::Type(DType value) { return WithType(ConstantKind::kDType, value); }
Constant Constant::PointerType(DType element) { return WithType(ConstantKind::kPointerType, element); }
Constant Constant::Tuple(std::vector<Constant> items) { return WithItems(ConstantKind::kTuple, std::move(items)); }
Constant Constant::List(std::vector<Constant> items) { return WithItems(ConstantKind::kList, std::move(items)); }
Constant Constant::Dict(std::vector<Constant> items) { return WithItems(ConstantKind::kDict, std::move(items)); }
Constant Constant::Module(std::string name) { return WithText(ConstantKind::kModule, std::move(name)); }
Constant Constant::Builtin(std::string name) { return WithText(ConstantKind::kBuiltin, std::move(name)); }
Constant Constant::External(std::string name) { return WithText(ConstantKind::kExternal, std::move(name)); }

Constant Constant::Set(std::vector<Constant> items) {
  // Equal numbers of different kinds are one element: the key of 1, 1.0 and True is "1".
  std::set<std::string> seen;
  std::vector<Constant> kept;
  for (Constant& item : items) {
    std::string key = Repr(item);
    if (item.is(ConstantKind::kBool)) key = item.boolean ? "1" : "0";
    if (item.is(ConstantKind::kFloat) && std::floor(item.real) == item.real && std::fabs(item.real) < 1e18)
      key = ToString(static_cast<Integer>(item.real));
    if (seen.insert(key).second) kept.push_back(std::move(item));
  }
  return WithItems(ConstantKind::kSet, std::move(kept));
}

Constant Constant::Of(const Function* function) {
  Constant c;
  c.kind = ConstantKind::kFunction;
  c.function = function;
  return c;
}

bool InRange(Integer value) {
  return value >= std::numeric_limits<int64_t>::min() && value <= static_cast<Integer>(std::numeric_limits<uint64_t>::max());
}

std::string ToString(Integer value) {
  if (value == 0) return "0";
  bool negative = value < 0;
  unsigned __int128 magnitude = negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  for (; magnitude != 0; magnitude /= 10) digits += static_cast<char>('0' + static_cast<int>(magnitude % 10));
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string Repr(const Constant& value) {
  ReprPrinter printer;
  printer.Print(value, 0);
  return printer.Take();
}

std::string KindName(const Constant& value) {
  switch (value.kind) {
    case ConstantKind::kNone: return "None";
    case ConstantKind::kBool: return "bool";
    case ConstantKind::kInt: return "int";
    case ConstantKind::kFloat: return "float";
    case ConstantKind::kString: return "str";
    case ConstantKind::kDType: return "tl.dtype";
    case ConstantKind::kPointerType: return "pointer type";
    case ConstantKind::kTuple: return "tuple";
    case ConstantKind::kList: return "list";
    case ConstantKind::kDict: return "dict";
    case ConstantKind::kSet: return "set";
    case ConstantKind::kFunction: return value.function->kind == Function::Kind::kJit ? "jit function" : "function";
    case ConstantKind::kLambda: return "lambda";
    case ConstantKind::kModule: return "module";
    case ConstantKind::kBuiltin: return absl::StrCat("builtin '", value.text, "'");
    case ConstantKind::kConfig: return "triton.Config";
    case ConstantKind::kExternal: return absl::StrCat("'", value.text, "' from outside the module");
  }
  return "value";
}

bool Equal(const Constant& a, const Constant& b) {
  int nodes = kMaxNodes;
  return EqualBounded(a, b, 0, &nodes);
}

std::optional<storage::ConstantValue> ToStorage(const Constant& value) {
  storage::ConstantValue out;
  int nodes = kMaxNodes;
  if (!ToStorageBounded(value, 0, &nodes, &out)) return std::nullopt;
  return out;
}

std::optional<Constant> FromStorage(const storage::ConstantValue& value, const ModuleIndex& module, std::string* error) {
  using Value = storage::ConstantValue;
  switch (value.kind_case()) {
    case Value::kNone: return Constant::None();
    case Value::kBoolean: return Constant::Bool(value.boolean());
    case Value::kInteger: return Constant::Int(value.integer());
    case Value::kUnsignedInteger: return Constant::Int(value.unsigned_integer());
    case Value::kReal: return Constant::Float(value.real());
    case Value::kText: return Constant::String(value.text());
    case Value::kDtype: {
      absl::string_view name = value.dtype();
      bool pointer = absl::ConsumePrefix(&name, "*");
      std::optional<DType> dtype = ParseDType(name, error);
      if (!dtype) return std::nullopt;
      return pointer ? Constant::PointerType(*dtype) : Constant::Type(*dtype);
    }
    case Value::kFunction: {
      const Function* function = module.FindJitFunction(value.function());
      if (function) return Constant::Of(function);
      *error = absl::StrCat("the module has no jit function '", value.function(), "'");
      return std::nullopt;
    }
    case Value::kTuple: {
      std::vector<Constant> items;
      for (const Value& item : value.tuple().items()) {
        std::optional<Constant> read = FromStorage(item, module, error);
        if (!read) return std::nullopt;
        items.push_back(*std::move(read));
      }
      return Constant::Tuple(std::move(items));
    }
    case Value::KIND_NOT_SET: break;
  }
  *error = "a constant without a value";
  return std::nullopt;
}

}  // namespace tessera::frontend
