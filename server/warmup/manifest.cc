#include "server/warmup/manifest.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"
#include "yaml-cpp/yaml.h"

namespace tessera::server {
namespace {

class ManifestReader {
 public:
  ManifestReader(absl::string_view path, const ManifestFileReader& read_file)
      : path_(std::string(path)), read_file_(read_file) {}

  absl::StatusOr<std::vector<ManifestModule>> Read(const YAML::Node& root) {
    std::vector<ManifestModule> modules;
    if (root.IsNull()) return modules;
    RETURN_IF_ERROR(CheckKeys(root, {"modules"}, "the manifest"));
    const YAML::Node list = root["modules"];
    if (!list || !list.IsSequence())
      return At(list ? list : root, "'modules' with a list is expected");
    for (const YAML::Node& node : list) {
      ASSIGN_OR_RETURN(ManifestModule module, ReadModule(node));
      modules.push_back(std::move(module));
    }
    return modules;
  }

 private:
  absl::Status At(const YAML::Node& node, absl::string_view what) const {
    YAML::Mark mark = node.Mark();
    return Error(absl::StatusCode::kInvalidArgument, "BAD_MANIFEST",
                 absl::StrCat(path_, ":", mark.line + 1, ":", mark.column + 1, ": ", what));
  }
  std::string Where(const YAML::Node& node) const {
    return absl::StrCat(path_, ":", node.Mark().line + 1);
  }

  absl::Status CheckKeys(const YAML::Node& node, std::initializer_list<const char*> known,
                         absl::string_view of) const {
    if (!node.IsMap()) return At(node, absl::StrCat(of, " is made of 'key: value' lines"));
    for (const auto& entry : node) {
      bool found = false;
      for (const char* key : known) found |= entry.first.IsScalar() && entry.first.Scalar() == key;
      if (!found)
        return At(entry.first,
                  absl::StrCat(of, " has no '", entry.first.IsScalar() ? entry.first.Scalar() : "?",
                               "'; it has: ", absl::StrJoin(known, ", ")));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Scalar(const YAML::Node& node, absl::string_view what) const {
    if (!node.IsScalar()) return At(node, absl::StrCat(what, " is one value"));
    return node.Scalar();
  }

  absl::StatusOr<ManifestModule> ReadModule(const YAML::Node& node) {
    RETURN_IF_ERROR(CheckKeys(node, {"path", "source", "kernels"}, "a module"));
    ManifestModule module;
    module.where = Where(node);
    api::SourceFile file;
    file.set_path("manifest.py");
    if (node["path"]) {
      ASSIGN_OR_RETURN(std::string path, Scalar(node["path"], "path"));
      file.set_path(path);
    }
    if (node["source"]) {
      ASSIGN_OR_RETURN(*file.mutable_text(), Scalar(node["source"], "source"));
    } else if (node["path"]) {
      absl::StatusOr<std::string> text = read_file_(file.path());
      if (!text.ok()) return At(node["path"], text.status().message());
      file.set_text(*std::move(text));
    } else {
      return At(node, "a module has a path or a source");
    }
    module.files.push_back(std::move(file));
    const YAML::Node kernels = node["kernels"];
    if (!kernels || !kernels.IsSequence())
      return At(kernels ? kernels : node, "a module has 'kernels' with a list");
    for (const YAML::Node& kernel : kernels) {
      ASSIGN_OR_RETURN(ManifestItem item, ReadKernel(kernel));
      module.items.push_back(std::move(item));
    }
    return module;
  }

  absl::StatusOr<ManifestItem> ReadKernel(const YAML::Node& node) {
    RETURN_IF_ERROR(CheckKeys(
        node, {"name", "signature", "constants", "options", "config", "device"}, "a kernel"));
    ManifestItem item;
    item.where = Where(node);
    if (!node["name"]) return At(node, "a kernel has a name");
    ASSIGN_OR_RETURN(*item.request.mutable_kernel(), Scalar(node["name"], "name"));
    if (const YAML::Node signature = node["signature"]) {
      if (signature.IsScalar())
        item.request.add_signature(signature.Scalar());
      else if (!signature.IsSequence())
        return At(signature, "signature is a list of NAME=TYPE");
      else
        for (const YAML::Node& entry : signature) {
          ASSIGN_OR_RETURN(std::string text, Scalar(entry, "an entry of signature"));
          item.request.add_signature(text);
        }
    }
    if (const YAML::Node constants = node["constants"]) {
      if (!constants.IsMap()) return At(constants, "constants are NAME: VALUE");
      for (const auto& entry : constants) {
        api::NamedConstant* constant = item.request.add_constants();
        constant->set_name(entry.first.Scalar());
        RETURN_IF_ERROR(ReadConstant(entry.second, constant->mutable_value()));
      }
    }
    if (const YAML::Node options = node["options"])
      RETURN_IF_ERROR(ReadOptions(options, item.request.mutable_options()));
    if (const YAML::Node config = node["config"]) {
      ASSIGN_OR_RETURN(uint32_t number, Number(config));
      item.request.set_config(static_cast<int32_t>(number));
    }
    if (const YAML::Node device = node["device"]) {
      ASSIGN_OR_RETURN(*item.request.mutable_device(), Scalar(device, "device"));
    }
    return item;
  }

  absl::StatusOr<uint32_t> Number(const YAML::Node& node) const {
    uint32_t number = 0;
    if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &number))
      return At(node, "a whole number is expected");
    return number;
  }

  absl::Status ReadOptions(const YAML::Node& node, api::Options* options) {
    if (!node.IsMap()) return At(node, "options are NAME: VALUE");
    for (const auto& entry : node) {
      std::string name = entry.first.Scalar();
      if (name == "num_warps" || name == "num_stages" || name == "num_ctas" || name == "maxnreg") {
        ASSIGN_OR_RETURN(uint32_t number, Number(entry.second));
        if (name == "num_warps") options->set_num_warps(number);
        if (name == "num_stages") options->set_num_stages(number);
        if (name == "num_ctas") options->set_num_ctas(number);
        if (name == "maxnreg") options->set_maxnreg(number);
        continue;
      }
      ASSIGN_OR_RETURN((*options->mutable_extra())[name], Scalar(entry.second, name));
    }
    return absl::OkStatus();
  }

  absl::Status ReadConstant(const YAML::Node& node, api::Constant* constant) {
    if (node.IsNull()) {
      constant->mutable_none();
      return absl::OkStatus();
    }
    if (node.IsSequence()) {
      constant->mutable_tuple();
      for (const YAML::Node& item : node)
        RETURN_IF_ERROR(ReadConstant(item, constant->mutable_tuple()->add_items()));
      return absl::OkStatus();
    }
    if (!node.IsScalar())
      return At(node,
                "a constant is a number, True, False, None, text, a dtype, fn:NAME or a list");
    absl::string_view text = node.Scalar();
    bool quoted = node.Tag() == "!";
    int64_t integer;
    uint64_t large;
    double real;
    if (quoted)
      constant->set_text(std::string(text));
    else if (text == "None")
      constant->mutable_none();
    else if (text == "True" || text == "true" || text == "False" || text == "false")
      constant->set_boolean(text == "True" || text == "true");
    else if (absl::SimpleAtoi(text, &integer))
      constant->set_integer(integer);
    else if (absl::SimpleAtoi(text, &large))
      constant->set_unsigned_integer(large);
    else if (absl::SimpleAtod(text, &real))
      constant->set_real(real);
    else if (absl::ConsumePrefix(&text, "fn:"))
      constant->set_function(std::string(text));
    else if (ParseDType(text))
      constant->set_dtype(std::string(text));
    else
      constant->set_text(std::string(text));
    return absl::OkStatus();
  }

  const std::string path_;
  const ManifestFileReader& read_file_;
};

}  // namespace

absl::StatusOr<std::vector<ManifestModule>> ParseManifest(absl::string_view text,
                                                          absl::string_view path,
                                                          const ManifestFileReader& read_file) {
  if (path.empty()) path = "manifest";
  // The library reports bad text by an exception; it ends here.
  try {
    return ManifestReader(path, read_file).Read(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    return Error(
        absl::StatusCode::kInvalidArgument, "BAD_MANIFEST",
        absl::StrCat(path, ":", error.mark.line + 1, ":", error.mark.column + 1, ": ", error.msg));
  }
}

}  // namespace tessera::server
