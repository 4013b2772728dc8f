// A parsed and indexed module, for the tests of this folder.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_TESTING_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_TESTING_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/module/module_index.h"
#include "compiler/frontend/parse/parser.h"

namespace tessera::frontend {

class TestModule {
 public:
  explicit TestModule(const std::string& text) : TestModule({{"main.py", text}}) {}
  explicit TestModule(const std::vector<std::pair<std::string, std::string>>& files) {
    Diagnostics diagnostics;
    for (const auto& [path, text] : files) files_.push_back(Parse(static_cast<int>(files_.size()), path, text, &diagnostics));
    for (const Diagnostic& d : diagnostics.all()) ADD_FAILURE() << Render(d, files_);
    index_ = std::make_unique<ModuleIndex>(files_);
  }

  const ModuleIndex& index() const { return *index_; }
  const std::vector<File>& files() const { return files_; }

  // repr of a global of the first file; "undefined", or why it is not constant.
  std::string Value(const std::string& name) const {
    Lookup found = index_->Resolve(name, 0);
    if (found.found()) return Repr(found.value);
    return found.outcome == Lookup::Outcome::kUndefined ? "undefined" : "not constant: " + found.reason;
  }

 private:
  std::vector<File> files_;
  std::unique_ptr<ModuleIndex> index_;
};

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_TESTING_H_
