// A folder of Python files that somebody wrote, and the jit functions in it.
#ifndef TESSERA_TESTS_CONFORMANCE_COVERAGE_CHECKOUT_H_
#define TESSERA_TESTS_CONFORMANCE_COVERAGE_CHECKOUT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::coverage {

struct JitFunction {
  std::string path;  // of its file, relative to the folder
  std::string name;
  std::string qualified_name;  // as Python has it: "Outer.f", "test.<locals>.kernel"
  int line = 0;
  bool nested = false;      // inside a function or class
  std::string parse_error;  // of its file, inside or outside of it: "" if the file parses
};

// A launch `name[grid](...)` whose arguments are written out.
struct CallSite {
  std::string path;
  int line = 0;
  size_t positional = 0;                                   // positional arguments
  std::map<std::string, storage::ConstantValue> keywords;  // those that are literals
  std::map<std::string, bool> named;                       // all keywords
};

class Checkout {
 public:
  // Reads every .py file below `folder`. Unreadable files are left out.
  explicit Checkout(const std::string& folder);

  const std::vector<JitFunction>& functions() const { return functions_; }

  // The file and the files of the folder that it imports, directly or not, the file first.
  std::vector<storage::SourceFile> ModuleOf(const std::string& path) const;

  // The path in the folder of a file that was recorded elsewhere ("/elsewhere/src/pkg/a.py", or
  // "pkg.a" as a module's name). "": none.
  std::string Locate(absl::string_view path_or_module) const;

  // Launches of a function by this name, anywhere in the folder.
  std::vector<CallSite> CallSites(const std::string& name) const;

 private:
  struct Contents {
    std::string text;
    std::vector<std::string> imports;  // paths in the folder
  };
  std::string Find(const std::string& suffix) const;

  std::map<std::string, Contents> files_;
  std::map<std::string, std::vector<std::string>> by_base_name_;  // "a.py" -> paths
  std::vector<JitFunction> functions_;
  std::multimap<std::string, CallSite> call_sites_;
};

}  // namespace tessera::coverage

#endif  // TESSERA_TESTS_CONFORMANCE_COVERAGE_CHECKOUT_H_
