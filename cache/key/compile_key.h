// The key of a compiled artifact: everything that can change the code, and nothing else.
#ifndef TESSERA_CACHE_KEY_COMPILE_KEY_H_
#define TESSERA_CACHE_KEY_COMPILE_KEY_H_

#include <string>

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

// `closure` is KernelDescription.closure: the kernel's normalised source with all it uses. Of `job`, paths, line numbers and
// options at their defaults change nothing. `compiler_build` is compiler::CompilerBuild().
CompileKey MakeCompileKey(const storage::CompileJob& job, absl::string_view closure, absl::string_view compiler_build);

// The id of a module: BLAKE2b-256 over its files' names and texts, as 64 hex digits.
std::string ModuleId(const storage::ModuleRecord& module);

// The key in readable lines ("option num_warps = 8"), for `tessera cache explain`.
std::string Explain(absl::string_view canonical);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_KEY_COMPILE_KEY_H_
