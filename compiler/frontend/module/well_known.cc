#include "compiler/frontend/module/well_known.h"

#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

using Names = std::set<std::string>;

const Names& LanguageNames() {
  static const Names* names = new Names{
      "PropagateNan", "TRITON_MAX_TENSOR_NUMEL", "abs", "advance", "arange", "argmax", "argmin", "associative_scan", "assume",
      "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "bfloat16",
      "bitonic_merge", "block_type", "broadcast", "broadcast_to", "cast", "cat", "cdiv", "ceil", "clamp", "condition", "const",
      "constexpr", "constexpr_type", "cos", "cumprod", "cumsum", "debug_barrier", "device_assert", "device_print", "div_rn", "dot",
      "dot_scaled", "dtype", "erf", "exp", "exp2", "expand_dims", "extra", "fdiv", "flip", "float16", "float32", "float64",
      "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16", "floor", "fma", "full", "function_type", "gather",
      "histogram", "inline_asm_elementwise", "int1", "int16", "int32", "int64", "int8", "interleave", "join", "load",
      "load_tensor_descriptor", "log", "log2", "make_block_ptr", "make_tensor_descriptor", "map_elementwise", "math", "max",
      "max_constancy", "max_contiguous", "maximum", "min", "minimum", "multiple_of", "num_programs", "pair_uniform_to_normal",
      "permute", "philox", "philox_impl", "pi32_t", "pointer_type", "program_id", "rand", "rand4x", "randint", "randint4x", "randn",
      "randn4x", "range", "ravel", "reduce", "reduce_or", "reshape", "rsqrt", "sigmoid", "sin", "slice", "softmax", "sort", "split",
      "sqrt", "sqrt_rn", "squeeze", "static_assert", "static_print", "static_range", "store", "store_tensor_descriptor", "sum", "swizzle2d",
      "target_info", "tensor", "tensor_descriptor", "tensor_descriptor_type", "topk", "to_tensor", "trans", "tuple", "tuple_type",
      "uint16", "uint32", "uint64", "uint8", "uint_to_uniform_float", "umulhi", "unsqueeze", "view", "void", "where", "xor_sum", "zeros",
      "zeros_like"};
  return *names;
}

// tl.math has these; whatever else older kernels take from there is libdevice's.
bool IsLanguageMath(absl::string_view name) {
  for (absl::string_view known : {"abs", "cdiv", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2",
                                  "rsqrt", "sin", "sqrt", "sqrt_rn", "umulhi"})
    if (name == known) return true;
  return false;
}

std::optional<DType> LanguageDType(absl::string_view name) {
  std::optional<DType> dtype = ParseDType(name);
  if (dtype && LanguageName(*dtype) == name) return dtype;
  return std::nullopt;
}

std::optional<Constant> LanguageMember(absl::string_view name) {
  if (std::optional<DType> dtype = LanguageDType(name)) return Constant::Type(*dtype);
  if (name == "math") return Constant::Module("tl.math");
  if (name == "extra") return Constant::Module("tl.extra");
  if (name == "libdevice") return Constant::Module("libdevice");
  if (name == "core" || name == "standard" || name == "random" || name == "semantic") return Constant::Module("tl");
  if (name == "pi32_t") return Constant::PointerType(DType::kInt32);
  if (name == "TRITON_MAX_TENSOR_NUMEL") return Constant::Int(1048576);
  return Constant::Builtin(absl::StrCat("tl.", name));
}

std::optional<Constant> TritonMember(absl::string_view name) {
  if (name == "language") return Constant::Module("tl");
  if (name == "__version__") return Constant::String("3.6.0");
  if (name == "runtime" || name == "testing" || name == "backends" || name == "compiler" || name == "tools" || name == "knobs" ||
      name == "experimental")
    return Constant::External(absl::StrCat("triton.", name));
  return Constant::Builtin(absl::StrCat("triton.", name));
}

std::optional<Constant> MathMember(absl::string_view name) {
  if (name == "pi") return Constant::Float(3.141592653589793);
  if (name == "e") return Constant::Float(2.718281828459045);
  if (name == "tau") return Constant::Float(6.283185307179586);
  if (name == "inf") return Constant::Float(std::numeric_limits<double>::infinity());
  if (name == "nan") return Constant::Float(std::numeric_limits<double>::quiet_NaN());
  return Constant::Builtin(absl::StrCat("math.", name));
}

std::optional<Constant> TorchMember(absl::string_view name) {
  if (name == "inf" || name == "nan" || name == "pi" || name == "e") return MathMember(name);
  if (name == "__version__") return Constant::String("2.11.0");
  bool spelled_as_torch = absl::StrContains(name, "int") || absl::StrContains(name, "float") || name == "bool" || name == "half" ||
                          name == "long" || name == "short" || name == "double";
  if (spelled_as_torch)
    if (std::optional<DType> dtype = ParseDType(name)) return Constant::Type(*dtype);
  return std::nullopt;
}

}  // namespace

bool IsLanguageName(absl::string_view name) { return LanguageNames().count(std::string(name)) > 0; }

std::optional<Constant> WellKnownModule(absl::string_view path) {
  std::string p(path);
  if (p == "triton") return Constant::Module("triton");
  if (p == "libdevice" || absl::EndsWith(p, ".libdevice")) return Constant::Module("libdevice");
  if (p == "triton.language" || p == "triton.language.core" || p == "triton.language.standard" || p == "triton.language.random" ||
      p == "triton.language.semantic")
    return Constant::Module("tl");
  if (p == "triton.language.math") return Constant::Module("tl.math");
  if (p == "triton.language.extra") return Constant::Module("tl.extra");
  constexpr absl::string_view kExtra = "triton.language.extra.";  // .cuda, .hip, .intel
  if (absl::StartsWith(p, kExtra) && p.find('.', kExtra.size()) == std::string::npos) return Constant::Module("tl.extra.cuda");
  if (p == "triton.language.target_info") return Constant::Module("tl.target_info");
  if (p == "torch" || p == "math" || p == "builtins") return Constant::Module(p);
  if (p == "triton.runtime.jit" || p == "triton.runtime.autotuner") return Constant::Module("triton");
  return std::nullopt;
}

std::optional<Constant> WellKnownName(absl::string_view name) {
  if (name == "tl") return Constant::Module("tl");
  if (name == "triton") return Constant::Module("triton");
  if (name == "libdevice" || name == "tldevice") return Constant::Module("libdevice");
  return std::nullopt;
}

std::optional<Constant> WellKnownMember(absl::string_view module, absl::string_view name) {
  if (module == "triton") return TritonMember(name);
  if (module == "tl") return LanguageMember(name);
  if (module == "tl.math") return Constant::Builtin(absl::StrCat(IsLanguageMath(name) ? "tl." : "libdevice.", name));
  if (module == "libdevice") return Constant::Builtin(absl::StrCat("libdevice.", name));
  if (module == "tl.target_info") return Constant::Builtin(absl::StrCat("tl.target_info.", name));
  if (module == "tl.extra" || module == "tl.extra.cuda") {
    if (name == "libdevice") return Constant::Module("libdevice");
    if (module == "tl.extra") return Constant::Module("tl.extra.cuda");
    return Constant::Builtin(absl::StrCat("tl.extra.cuda.", name));
  }
  if (module == "math") return MathMember(name);
  if (module == "torch") {
    if (std::optional<Constant> member = TorchMember(name)) return member;
    return Constant::External(absl::StrCat("torch.", name));
  }
  if (module == "builtins") return PythonBuiltin(name);
  return std::nullopt;
}

std::optional<Constant> ExternalValue(absl::string_view path) {
  // Host code asks which GPU it runs on. All such questions are answered for one machine, an H200 under CUDA, so that a
  // description depends on the source alone; what another target cannot run it refuses later.
  if (path == "torch.version.hip") return Constant::None();
  if (path == "torch.version.cuda") return Constant::String("13.0");
  if (path == "triton.target.backend") return Constant::String("cuda");
  if (path == "triton.target.arch") return Constant::Int(90);
  if (path == "triton.target.warp_size") return Constant::Int(32);
  if (path == "torch.cuda.properties.multi_processor_count") return Constant::Int(132);
  if (path == "torch.cuda.properties.total_memory") return Constant::Int(Integer{141} << 30);
  if (path == "torch.cuda.properties.shared_memory_per_multiprocessor") return Constant::Int(233472);
  if (path == "torch.cuda.properties.warp_size") return Constant::Int(32);
  if (path == "torch.cuda.properties.major") return Constant::Int(9);
  if (path == "torch.cuda.properties.minor") return Constant::Int(0);
  if (path == "torch.cuda.properties.name") return Constant::String("NVIDIA H200");
  if (path == "sys.platform") return Constant::String("linux");
  if (path == "typing.TYPE_CHECKING") return Constant::Bool(false);
  return std::nullopt;
}

std::optional<Constant> PythonBuiltin(absl::string_view name) {
  static const Names* names = new Names{
      "abs",  "all",  "any",   "bin",  "bool", "callable", "chr",  "dict", "divmod", "enumerate", "filter", "float",    "format",
      "frozenset", "getattr", "hasattr", "hex", "int",   "isinstance", "len", "list", "map",  "max",    "min",       "ord",    "pow",      "print",
      "property", "range", "repr", "reversed", "round", "set",  "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "zip",
      "object", "classmethod", "ValueError", "RuntimeError", "AssertionError", "NotImplementedError", "TypeError", "ImportError",
      "Exception", "KeyError", "iter", "next", "id", "bytes", "complex"};
  if (names->count(std::string(name)) == 0) return std::nullopt;
  return Constant::Builtin(std::string(name));
}

}  // namespace tessera::frontend
