// Apart from driver.cc, because the hash covers that file.
#include "absl/strings/str_cat.h"
#include "compiler/driver/driver.h"
#include "compiler/driver/source_hash.h"
#include "llvm/Config/llvm-config.h"

namespace tessera::compiler {

std::string CompilerBuild() { return absl::StrCat("tessera-", kSourceHash, "-llvm-", LLVM_VERSION_STRING); }

}  // namespace tessera::compiler
