#include "server/warmup/write_manifest.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/launch/recipe.h"
#include "server/warmup/yaml_message.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

// Quoted always: an unquoted `*` or `@` begins something else in YAML, and quotes tell text from
// numbers.
std::string Quoted(const std::string& text) {
  std::string scalar = YamlScalar(text);
  return scalar[0] == '"' ? scalar : absl::StrCat("\"", scalar, "\"");
}

std::string ConstantText(const api::Constant& constant) {
  switch (constant.kind_case()) {
    case api::Constant::kText:
      return Quoted(constant.text());
    case api::Constant::kTuple: {
      std::vector<std::string> items;
      for (const api::Constant& item : constant.tuple().items())
        items.push_back(ConstantText(item));
      return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
    }
    default:
      return LiteralText(constant);
  }
}

std::string PatternText(const api::ArgumentPattern& pattern) {
  bool plain_value = pattern.values_size() == 1 && pattern.type().empty() &&
                     !pattern.values(0).has_tuple() && pattern.any_of_size() == 0;
  if (plain_value) return ConstantText(pattern.values(0));
  if (!pattern.text().empty()) return Quoted(pattern.text());
  std::vector<std::string> parts;
  if (pattern.any_of_size() > 0) {
    for (const api::ArgumentPattern& one : pattern.any_of()) parts.push_back(PatternText(one));
    return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
  }
  if (!pattern.type().empty()) parts.push_back(absl::StrCat("type: ", Quoted(pattern.type())));
  if (pattern.values_size() > 0) {
    std::vector<std::string> values;
    for (const api::Constant& value : pattern.values()) values.push_back(ConstantText(value));
    parts.push_back(absl::StrCat("values: [", absl::StrJoin(values, ", "), "]"));
  }
  if (pattern.has_range())
    parts.push_back(absl::StrFormat("range: {from: %d, to: %d, by: %s}", pattern.range().from(),
                                    pattern.range().to(),
                                    pattern.range().by().empty() ? "class" : pattern.range().by()));
  if (pattern.classes_size() > 0)
    parts.push_back(absl::StrCat("classes: [", absl::StrJoin(pattern.classes(), ", "), "]"));
  if (pattern.aligned_size() > 0) {
    std::vector<const char*> kinds;
    for (bool aligned : pattern.aligned()) kinds.push_back(aligned ? "true" : "false");
    parts.push_back(absl::StrCat("aligned: [", absl::StrJoin(kinds, ", "), "]"));
  }
  if (!pattern.expression().empty())
    parts.push_back(absl::StrCat("expression: ", Quoted(pattern.expression())));
  if (pattern.tuple_size() > 0) {
    std::vector<std::string> items;
    for (const api::ArgumentPattern& item : pattern.tuple()) items.push_back(PatternText(item));
    parts.push_back(absl::StrCat("tuple: [", absl::StrJoin(items, ", "), "]"));
  }
  if (pattern.has_tensor_descriptor()) {
    const auto& descriptor = pattern.tensor_descriptor();
    parts.push_back(
        absl::StrCat("tensor_descriptor: {type: ", descriptor.type(), ", block: [",
                     absl::StrJoin(descriptor.block(), ", "), "]",
                     descriptor.padding().empty() ? "" : ", padding: ", descriptor.padding(), "}"));
  }
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

template <typename Patterns>
std::string PatternMap(const Patterns& patterns) {
  std::vector<std::string> parts;
  for (const api::NamedPattern& pattern : patterns)
    parts.push_back(absl::StrCat(YamlScalar(pattern.name()), ": ", PatternText(pattern.value())));
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

template <typename Constants>
std::string ConstantMap(const Constants& constants) {
  std::vector<std::string> parts;
  for (const api::NamedConstant& constant : constants)
    parts.push_back(
        absl::StrCat(YamlScalar(constant.name()), ": ", ConstantText(constant.value())));
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

std::string OptionMap(const api::Options& options) {
  std::vector<std::string> parts;
  auto add = [&](const char* name, uint32_t value) {
    if (value != 0) parts.push_back(absl::StrCat(name, ": ", value));
  };
  add("num_warps", options.num_warps());
  add("num_stages", options.num_stages());
  add("num_ctas", options.num_ctas());
  add("maxnreg", options.maxnreg());
  std::map<std::string, std::string> extra(options.extra().begin(), options.extra().end());
  for (const auto& [name, value] : extra)
    parts.push_back(absl::StrCat(YamlScalar(name), ": ", Quoted(value)));
  return parts.empty() ? "" : absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

// "key: value" pairs of a kernel, in the order in which people read them.
std::vector<std::string> KernelParts(const api::ManifestKernel& kernel, bool with_shapes) {
  std::vector<std::string> parts = {absl::StrCat("name: ", YamlScalar(kernel.name()))};
  if (kernel.signature_size() > 0) {
    std::vector<std::string> entries;
    for (const std::string& entry : kernel.signature()) entries.push_back(Quoted(entry));
    parts.push_back(absl::StrCat("signature: [", absl::StrJoin(entries, ", "), "]"));
  }
  if (kernel.arguments_size() > 0)
    parts.push_back(absl::StrCat("arguments: ", PatternMap(kernel.arguments())));
  if (kernel.constants_size() > 0)
    parts.push_back(absl::StrCat("constants: ", ConstantMap(kernel.constants())));
  if (std::string options = OptionMap(kernel.options()); !options.empty())
    parts.push_back(absl::StrCat("options: ", options));
  if (kernel.config() != 0) parts.push_back(absl::StrCat("config: ", kernel.config()));
  if (kernel.configs_size() > 0)
    parts.push_back(absl::StrCat("configs: [", absl::StrJoin(kernel.configs(), ", "), "]"));
  if (!kernel.device().empty()) parts.push_back(absl::StrCat("device: ", Quoted(kernel.device())));
  if (kernel.has_required())
    parts.push_back(absl::StrCat("required: ", kernel.required() ? "true" : "false"));
  if (kernel.launches() != 0) parts.push_back(absl::StrCat("launches: ", kernel.launches()));
  if (with_shapes && kernel.shapes_size() > 0) {
    std::vector<std::string> rows;
    for (const api::ShapeRow& row : kernel.shapes()) rows.push_back(PatternMap(row.values()));
    parts.push_back(absl::StrCat("shapes: [", absl::StrJoin(rows, ", "), "]"));
  }
  return parts;
}

// A literal block keeps text as it is if it is lines of printable characters that end; other text
// is quoted.
void AppendText(const std::string& text, const std::string& indent, std::string* yaml) {
  // Its last line must hold something, or readers take it for blank lines behind the text.
  size_t last = text.size() < 2 ? 0 : text.rfind('\n', text.size() - 2) + 1;
  bool block = !text.empty() && text.back() == '\n' &&
               text.find_first_not_of(" \t\n", last) != std::string::npos;
  for (unsigned char c : text) block &= c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f);
  if (block) {
    // The indicator says how deep the block is, for its first line may begin with blanks.
    absl::StrAppend(yaml, "|2\n");
    for (absl::string_view line :
         absl::StrSplit(absl::string_view(text).substr(0, text.size() - 1), '\n'))
      absl::StrAppend(yaml, line.empty() ? "" : indent, line.empty() ? "" : "  ", line, "\n");
    return;
  }
  *yaml += '"';
  for (unsigned char c : text) {
    if (c == '\n')
      *yaml += "\\n";
    else if (c == '"' || c == '\\')
      absl::StrAppend(yaml, "\\", std::string(1, static_cast<char>(c)));
    else if (c < 0x20 || c == 0x7f)
      absl::StrAppendFormat(yaml, "\\x%02x", c);
    else
      *yaml += static_cast<char>(c);
  }
  *yaml += "\"\n";
}

void AppendKernel(const api::ManifestKernel& kernel, std::string* yaml) {
  bool first = true;
  for (const std::string& part : KernelParts(kernel, false)) {
    absl::StrAppend(yaml, first ? "      - " : "        ", part, "\n");
    first = false;
  }
  if (kernel.shapes_size() == 0) return;
  absl::StrAppend(yaml, "        shapes:\n");
  for (const api::ShapeRow& row : kernel.shapes())
    absl::StrAppend(yaml, "          - ", PatternMap(row.values()), "\n");
}

void AppendModule(const api::ManifestModule& module, std::string* yaml) {
  const char* lead = "  - ";
  auto line = [&](const std::string& text) {
    absl::StrAppend(yaml, lead, text, "\n");
    lead = "    ";
  };
  if (!module.op().empty()) line(absl::StrCat("op: ", YamlScalar(module.op())));
  if (!module.id().empty()) line(absl::StrCat("id: ", Quoted(module.id())));
  if (!module.path().empty()) line(absl::StrCat("path: ", Quoted(module.path())));
  if (!module.source().empty()) {
    absl::StrAppend(yaml, lead, "source: ");
    lead = "    ";
    AppendText(module.source(), "    ", yaml);
  }
  if (module.files_size() > 0) {
    line("files:");
    for (const api::SourceFile& file : module.files()) {
      absl::StrAppend(yaml, "      - path: ", Quoted(file.path()), "\n        text: ");
      AppendText(file.text(), "        ", yaml);
    }
  }
  line("kernels:");
  for (const api::ManifestKernel& kernel : module.kernels()) AppendKernel(kernel, yaml);
}

void AppendTuning(const api::ManifestTuning& tuning, std::string* yaml) {
  std::vector<std::string> parts = {absl::StrCat("kernel: ", YamlScalar(tuning.kernel()))};
  if (!tuning.path().empty()) parts.push_back(absl::StrCat("path: ", Quoted(tuning.path())));
  if (!tuning.op().empty()) parts.push_back(absl::StrCat("op: ", YamlScalar(tuning.op())));
  if (!tuning.id().empty()) parts.push_back(absl::StrCat("id: ", Quoted(tuning.id())));
  parts.push_back(absl::StrCat("bucket: ", Quoted(tuning.bucket())));
  if (!tuning.device().empty()) parts.push_back(absl::StrCat("device: ", Quoted(tuning.device())));
  parts.push_back(absl::StrCat("values: ", ConstantMap(tuning.values())));
  if (std::string options = OptionMap(tuning.options()); !options.empty())
    parts.push_back(absl::StrCat("options: ", options));
  if (tuning.seconds() > 0) parts.push_back(absl::StrFormat("seconds: %.4g", tuning.seconds()));
  if (!tuning.reason().empty()) parts.push_back(absl::StrCat("reason: ", Quoted(tuning.reason())));
  absl::StrAppend(yaml, "  - ", absl::StrJoin(parts, "\n    "), "\n");
}

}  // namespace

std::string KernelLine(const api::ManifestKernel& kernel) {
  return absl::StrCat("- {", absl::StrJoin(KernelParts(kernel, true), ", "), "}");
}

std::string WriteManifest(const api::Manifest& manifest) {
  std::string yaml;
  if (!manifest.comment().empty())
    absl::StrAppend(&yaml, "comment: ", Quoted(manifest.comment()), "\n");
  if (manifest.has_required())
    absl::StrAppend(&yaml, "required: ", manifest.required() ? "true" : "false", "\n");
  if (manifest.devices_size() > 0) {
    std::vector<std::string> devices;
    for (const std::string& device : manifest.devices()) devices.push_back(Quoted(device));
    absl::StrAppend(&yaml, "devices: [", absl::StrJoin(devices, ", "), "]\n");
  }
  if (manifest.modules_size() > 0) absl::StrAppend(&yaml, "modules:\n");
  for (const api::ManifestModule& module : manifest.modules()) AppendModule(module, &yaml);
  if (manifest.tunings_size() > 0) absl::StrAppend(&yaml, "tunings:\n");
  for (const api::ManifestTuning& tuning : manifest.tunings()) AppendTuning(tuning, &yaml);
  return yaml;
}

}  // namespace tessera::server
