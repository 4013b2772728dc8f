// Names from outside a module that mean something to the compiler. Private to this folder.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_WELL_KNOWN_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_WELL_KNOWN_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "compiler/frontend/module/constant.h"

namespace tessera::frontend {

// A module by its import path: "triton.language.extra.cuda.libdevice" is "libdevice".
std::optional<Constant> WellKnownModule(absl::string_view path);

// What `name` means when it is imported from a module that nobody knows: tl, triton and libdevice keep their meaning.
std::optional<Constant> WellKnownName(absl::string_view name);

// An attribute of a kModule other than files and classes of ours. nullopt: it has none.
std::optional<Constant> WellKnownMember(absl::string_view module, absl::string_view name);

// The value of something outside the module that host code asks about ("torch.version.hip").
std::optional<Constant> ExternalValue(absl::string_view path);

// Whether Triton's `tl` has this name: what hasattr(tl, ...) answers.
bool IsLanguageName(absl::string_view name);

// Python's builtins, by name; among them float, int, min, range.
std::optional<Constant> PythonBuiltin(absl::string_view name);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_WELL_KNOWN_H_
