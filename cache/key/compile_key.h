// The key of a compiled artifact: everything that can change the code, and nothing else.
#ifndef TESSERA_CACHE_KEY_COMPILE_KEY_H_
#define TESSERA_CACHE_KEY_COMPILE_KEY_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::cache {

// `canonical` is length-prefixed and unambiguous; `hash` (32 bytes, BLAKE2b-256 of it) addresses the entry. Stores
// keep both and compare `canonical` on a hit.
struct CompileKey {
  std::string canonical;
  std::string hash;
  std::string hex() const;
};

// The source of a compile as the key holds it: normalised, without comments, positions and paths.
struct SourceText {
  SourceText() = default;
  SourceText(absl::string_view closure) : closure(closure) {}  // NOLINT: most kernels have nothing else
  SourceText(const char* closure) : closure(closure) {}
  SourceText(std::string closure) : closure(std::move(closure)) {}

  std::string closure;  // KernelDescription.closure: the kernel with all it uses
  // The same of functions that are passed to the kernel as values, by name: they are no callees of it.
  std::map<std::string, std::string> functions;
};

// The functions that `job` passes as values.
std::vector<std::string> FunctionsOf(const storage::CompileJob& job);

// Of `job`, paths, line numbers and options at their defaults change nothing. Where the text of a function that it
// passes is not in `source`, the files as they are stand for it. `compiler_build` is compiler::CompilerBuild().
CompileKey MakeCompileKey(const storage::CompileJob& job, const SourceText& source, absl::string_view compiler_build);

// The id of a module: BLAKE2b-256 over its files' names and texts, as 64 hex digits.
std::string ModuleId(const storage::ModuleRecord& module);

// The key in readable lines ("option num_warps = 8"), for `tessera cache explain`.
std::string Explain(absl::string_view canonical);

// Why two keys are not one: the lines in which they differ, "- " those of `one` and "+ " those of `other`, and where
// their sources part. "" if they are equal.
std::string ExplainDifference(absl::string_view one, absl::string_view other);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_KEY_COMPILE_KEY_H_
