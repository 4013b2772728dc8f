#include "server/warmup/manifest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

absl::Status CheckModule(const ParsedManifest& parsed, const api::ManifestModule& module) {
  int kinds = (!module.path().empty() || !module.source().empty()) + (module.files_size() > 0) +
              !module.op().empty() + !module.id().empty();
  if (kinds != 1)
    return parsed.places.At(
        module, "a module has one of: path, source, files, op (a shipped op's kernels), id");
  if (module.kernels_size() == 0)
    return parsed.places.At(module, "a module has 'kernels' with a list");
  for (const api::ManifestKernel& kernel : module.kernels()) {
    if (kernel.name().empty()) return parsed.places.At(kernel, "a kernel has a name");
    if (kernel.signature_size() > 0 && kernel.arguments_size() + kernel.shapes_size() > 0)
      return parsed.places.At(kernel,
                              "a kernel has a signature (one variant) or arguments and shapes");
    if (kernel.config() != 0 && kernel.configs_size() > 0)
      return parsed.places.At(kernel, "a kernel has config (one number) or configs (several)");
    if (kernel.has_first_launch() && kernel.signature_size() > 0)
      return parsed.places.At(kernel.first_launch(),
                              "a first launch needs arguments; a signature has no values");
    if (kernel.has_first_launch() &&
        (kernel.first_launch().grid_size() < 1 || kernel.first_launch().grid_size() > 3))
      return parsed.places.At(kernel.first_launch(),
                              "a first launch has a grid of one to three extents");
    if (!kernel.device().empty() && kernel.devices_size() > 0)
      return parsed.places.At(kernel, "a kernel has device or devices");
  }
  return absl::OkStatus();
}

absl::Status CheckOp(const ParsedManifest& parsed, const api::ManifestOp& op) {
  if (op.op().empty()) return parsed.places.At(op, "an op has a name: op: linear");
  if (op.tensors_size() == 0) return parsed.places.At(op, "an op has tensors");
  for (const api::NamedTensor& tensor : op.tensors())
    if (tensor.value().text().empty() && tensor.value().dtypes_size() == 0)
      return parsed.places.At(tensor, "a tensor is written fp16[M, K], or has dtypes and a shape");
  return absl::OkStatus();
}

absl::Status CheckTuning(const ParsedManifest& parsed, const api::ManifestTuning& tuning) {
  if (tuning.kernel().empty() || tuning.bucket().empty() || tuning.values_size() == 0)
    return parsed.places.At(tuning, "a tuning has a kernel, a bucket and values");
  if (tuning.path().empty() + tuning.op().empty() + tuning.id().empty() != 2)
    return parsed.places.At(tuning, "a tuning has one of: path, op, id");
  return absl::OkStatus();
}

storage::SourceFile SourceFile(const std::string& path, const std::string& text) {
  storage::SourceFile file;
  file.set_path(path);
  file.set_text(text);
  return file;
}

}  // namespace

ManifestFileReader FilesOfRequest(const google::protobuf::RepeatedPtrField<api::SourceFile>& files,
                                  std::vector<std::string>* wanted) {
  std::map<std::string, std::string> texts;
  for (const api::SourceFile& file : files) texts[file.path()] = file.text();
  return [texts = std::move(texts),
          wanted](const std::string& path) -> absl::StatusOr<std::string> {
    auto found = texts.find(path);
    if (found != texts.end()) return found->second;
    if (wanted != nullptr) {
      if (std::find(wanted->begin(), wanted->end(), path) == wanted->end()) wanted->push_back(path);
      return std::string();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' did not come with the request; the daemon does not read files for clients"));
  };
}

absl::StatusOr<std::shared_ptr<const ParsedManifest>> ParseManifest(
    absl::string_view text, absl::string_view path, const ManifestFileReader& read_file) {
  auto parsed = std::make_shared<ParsedManifest>(path.empty() ? "manifest" : path);
  RETURN_IF_ERROR(ReadYaml(text, &parsed->manifest, &parsed->places));
  for (const api::ManifestModule& module : parsed->manifest.modules()) {
    RETURN_IF_ERROR(CheckModule(*parsed, module));
    std::vector<storage::SourceFile>& sources = parsed->sources.emplace_back();
    auto add = [&](const std::string& name, const std::string& given,
                   const google::protobuf::Message& at) -> absl::Status {
      if (!given.empty()) {
        sources.push_back(SourceFile(name.empty() ? "manifest.py" : name, given));
        return absl::OkStatus();
      }
      absl::StatusOr<std::string> read = read_file(name);
      if (!read.ok()) return parsed->places.At(at, read.status().message());
      sources.push_back(SourceFile(name, *read));
      return absl::OkStatus();
    };
    if (!module.path().empty() || !module.source().empty())
      RETURN_IF_ERROR(add(module.path(), module.source(), module));
    for (const api::SourceFile& file : module.files()) {
      if (file.path().empty()) return parsed->places.At(file, "a file has a path");
      RETURN_IF_ERROR(add(file.path(), file.text(), file));
    }
  }
  for (const api::ManifestOp& op : parsed->manifest.ops()) RETURN_IF_ERROR(CheckOp(*parsed, op));
  for (const api::ManifestTuning& tuning : parsed->manifest.tunings())
    RETURN_IF_ERROR(CheckTuning(*parsed, tuning));
  return std::shared_ptr<const ParsedManifest>(std::move(parsed));
}

}  // namespace tessera::server
