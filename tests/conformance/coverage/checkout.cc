#include "tests/conformance/coverage/checkout.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/parse/parser.h"
#include "compiler/frontend/parse/walk.h"

namespace tessera::coverage {
namespace {

using frontend::Expr;
using frontend::ExprKind;
using frontend::Stmt;
using frontend::StmtKind;
using frontend::StmtPtr;

// @triton.jit, @jit, @triton.jit(...); other dialects' jit (gluon.jit) is not ours.
bool IsJitDecorator(const Expr& decorator) {
  if (decorator.kind == ExprKind::kCall && decorator.a) return IsJitDecorator(*decorator.a);
  if (decorator.kind == ExprKind::kName) return decorator.text == "jit";
  return decorator.kind == ExprKind::kAttribute && decorator.text == "jit" && decorator.a &&
         decorator.a->kind == ExprKind::kName && decorator.a->text == "triton";
}

bool LiteralOf(const Expr& e, storage::ConstantValue* value) {
  switch (e.kind) {
    case ExprKind::kInteger:
      value->set_integer(int64_t(e.integer));
      return !e.integer_overflow;
    case ExprKind::kFloat:
      value->set_real(e.real);
      return true;
    case ExprKind::kString:
      value->set_text(e.text);
      return true;
    case ExprKind::kBool:
      value->set_boolean(e.boolean);
      return true;
    case ExprKind::kNone:
      value->mutable_none();
      return true;
    default:
      return false;
  }
}

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }
std::string FolderOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Collects what is of interest in one file.
struct FileReader {
  std::string path;
  std::string parse_error;
  std::vector<JitFunction> functions;
  std::multimap<std::string, CallSite> call_sites;
  std::vector<std::pair<std::string, std::vector<frontend::ImportedName>>> imports;

  void Read(const std::vector<StmtPtr>& body, const std::string& prefix) {
    for (const StmtPtr& statement : body) {
      const Stmt& s = *statement;
      if (s.kind == StmtKind::kImport || s.kind == StmtKind::kFromImport) {
        imports.push_back({s.kind == StmtKind::kImport ? "" : s.text, s.imported});
        if (s.kind == StmtKind::kImport) imports.push_back({s.text, {}});
      }
      std::string inner = prefix;
      if (s.kind == StmtKind::kFunctionDef) {
        if (std::any_of(s.decorators.begin(), s.decorators.end(),
                        [](const frontend::ExprPtr& d) { return d && IsJitDecorator(*d); }))
          functions.push_back(
              {path, s.text, prefix + s.text, s.range.line, !prefix.empty(), parse_error});
        inner = prefix + s.text + ".<locals>.";
      } else if (s.kind == StmtKind::kClassDef) {
        inner = prefix + s.text + ".";
      }
      frontend::ForEachExpression(s, [this](const Expr& e) { ReadExpression(e); });
      Read(s.body, inner);
      Read(s.or_else, inner);
    }
  }

  void ReadExpression(const Expr& e) {
    if (e.kind == ExprKind::kCall && e.a && e.a->kind == ExprKind::kSubscript && e.a->a &&
        e.a->a->kind == ExprKind::kName) {
      CallSite site{path, e.range.line, e.items.size(), {}, {}};
      for (const frontend::Keyword& keyword : e.keywords) {
        storage::ConstantValue value;
        site.named[keyword.name] = true;
        if (keyword.value && LiteralOf(*keyword.value, &value)) site.keywords[keyword.name] = value;
      }
      call_sites.emplace(e.a->a->text, std::move(site));
    }
    frontend::ForEachChild(e, [this](const Expr& child) { ReadExpression(child); });
  }
};

}  // namespace

Checkout::Checkout(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (fs::recursive_directory_iterator
           it(folder, fs::directory_options::skip_permission_denied, ignored),
       end;
       it != end; it.increment(ignored)) {
    if (ignored || it->path().extension() != ".py" || !it->is_regular_file()) continue;
    std::ifstream stream(it->path(), std::ios::binary);
    files_[fs::relative(it->path(), folder).string()].text.assign(
        std::istreambuf_iterator<char>(stream), {});
  }
  for (const auto& [path, contents] : files_) by_base_name_[BaseName(path)].push_back(path);
  for (auto& file : files_) {
    const std::string& path = file.first;
    Contents& contents = file.second;
    frontend::Diagnostics diagnostics;
    std::vector<frontend::File> parsed;
    parsed.push_back(frontend::Parse(0, path, contents.text, &diagnostics));
    FileReader reader;
    reader.path = path;
    for (const frontend::Diagnostic& diagnostic : diagnostics.all())
      if (diagnostic.severity == frontend::Severity::kError && reader.parse_error.empty())
        reader.parse_error = frontend::Render(diagnostic, parsed);
    reader.Read(parsed[0].body, "");
    std::move(reader.functions.begin(), reader.functions.end(), std::back_inserter(functions_));
    call_sites_.merge(reader.call_sites);

    std::set<std::string> imports;
    auto add = [&](const std::string& module) {  // "pkg.a", "..b" or "a"
      size_t dots = 0;
      while (dots < module.size() && module[dots] == '.') ++dots;
      const std::string tail = absl::StrReplaceAll(module.substr(dots), {{".", "/"}});
      if (dots == 0) {
        if (std::string found = Find(tail + ".py"); !tail.empty() && !found.empty())
          imports.insert(found);
        return;
      }
      std::string base = FolderOf(path);
      for (size_t i = 1; i < dots && !base.empty(); ++i)
        base = FolderOf(base.substr(0, base.size() - 1));
      if (files_.count(base + tail + ".py"))
        imports.insert(base + tail + ".py");
      else if (files_.count(base + tail + (tail.empty() ? "" : "/") + "__init__.py"))
        imports.insert(base + tail + (tail.empty() ? "" : "/") + "__init__.py");
    };
    for (const auto& [module, names] : reader.imports) {
      if (!module.empty()) add(module);
      for (const frontend::ImportedName& name : names) {
        if (module.empty())
          add(name.name);
        else
          add(module.back() == '.'
                  ? module + name.name
                  : absl::StrCat(module, ".", name.name));  // a module of a package
      }
    }
    imports.erase(path);
    contents.imports.assign(imports.begin(), imports.end());
  }
}

std::string Checkout::Find(const std::string& suffix) const {
  auto it = by_base_name_.find(BaseName(suffix));
  if (it == by_base_name_.end()) return "";
  for (const std::string& path : it->second)
    if (path == suffix || absl::EndsWith(path, "/" + suffix) || absl::EndsWith(suffix, "/" + path))
      return path;
  return "";
}

std::string Checkout::Locate(absl::string_view path_or_module) const {
  std::string name(path_or_module);
  if (absl::EndsWith(name, ".py")) return Find(name);
  name = absl::StrReplaceAll(name, {{".", "/"}});
  std::string found = Find(name + ".py");
  return found.empty() ? Find(name + "/__init__.py") : found;
}

std::vector<storage::SourceFile> Checkout::ModuleOf(const std::string& path) const {
  std::vector<storage::SourceFile> result;
  std::set<std::string> seen = {path};
  std::vector<std::string> queue = {path};
  for (size_t i = 0; i < queue.size(); ++i) {
    auto it = files_.find(queue[i]);
    if (it == files_.end()) continue;
    storage::SourceFile& file = result.emplace_back();
    file.set_path(it->first);
    file.set_text(it->second.text);
    for (const std::string& import : it->second.imports)
      if (seen.insert(import).second) queue.push_back(import);
  }
  return result;
}

std::vector<CallSite> Checkout::CallSites(const std::string& name) const {
  std::vector<CallSite> result;
  for (auto [it, end] = call_sites_.equal_range(name); it != end; ++it)
    result.push_back(it->second);
  return result;
}

}  // namespace tessera::coverage
