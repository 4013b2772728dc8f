#include "server/config/config.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/config/settings.h"
#include "yaml-cpp/yaml.h"

namespace tessera::server {
namespace {

absl::Status At(absl::string_view path, const YAML::Mark& mark, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", mark.line + 1, ":", mark.column + 1, ": ", what));
}

absl::Status UnknownSetting(absl::string_view name) {
  std::string known;
  for (const Setting& setting : Settings())
    absl::StrAppend(&known, known.empty() ? "" : ", ", setting.name);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no setting '", name, "'; there are: ", known));
}

absl::Status ApplyFile(const std::string& path, Config* config) {
  std::ifstream file(path);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("reading the configuration ", path));
  std::stringstream text;
  text << file.rdbuf();
  return ApplyYaml(text.str(), path, config);
}

absl::Status ApplyFlag(absl::string_view argument, Config* config) {
  absl::string_view flag = argument;
  if (flag == "--help" || flag == "-h") {
    config->print_help = true;
    return absl::OkStatus();
  }
  if (flag == "--print-config") {
    config->print_config = true;
    return absl::OkStatus();
  }
  if (!absl::ConsumePrefix(&flag, "--"))
    return absl::InvalidArgumentError(absl::StrCat("'", argument, "' is no flag; see --help"));
  size_t equals = flag.find('=');
  if (equals == absl::string_view::npos)
    return absl::InvalidArgumentError(
        absl::StrCat("flag ", argument, " has no value: ", argument, "=VALUE"));
  std::string name = absl::StrReplaceAll(flag.substr(0, equals), {{"-", "_"}});
  if (name == "config") return absl::OkStatus();  // read before
  const Setting* setting = FindSetting(name);
  if (setting == nullptr) return UnknownSetting(name);
  absl::Status read = setting->read(flag.substr(equals + 1), config);
  if (!read.ok())
    return absl::InvalidArgumentError(
        absl::StrCat("flag --", flag.substr(0, equals), ": ", read.message()));
  return absl::OkStatus();
}

// Whether files can be made in `directory`, or it can be made.
bool Usable(const std::string& directory) {
  if (access(directory.c_str(), W_OK | X_OK) == 0) return true;
  if (errno != ENOENT) return false;
  std::string parent = std::filesystem::path(directory).parent_path().string();
  return access(parent.c_str(), W_OK | X_OK) == 0;
}

std::string Or(const std::optional<std::string>& value, const std::string& otherwise) {
  return value && !value->empty() ? *value : otherwise;
}

std::string HomeCache(const Environment& environment) {
  return Or(environment("HOME"), "/tmp") + "/.cache";
}

absl::Status FillPlaces(const Environment& environment, Config* config) {
  if (config->listen.empty()) {
    std::string directory = "/run/tessera";
    if (!Usable(directory)) {
      std::optional<std::string> runtime = environment("XDG_RUNTIME_DIR");
      if (!runtime || runtime->empty())
        return absl::InvalidArgumentError(
            "/run/tessera cannot be used and XDG_RUNTIME_DIR is not set; say where to listen: "
            "--listen=unix:/path");
      directory = *runtime + "/tessera";
    }
    config->listen = absl::StrCat("unix:", directory, "/tesserad.sock");
  }
  if (!absl::StartsWith(config->listen, "unix:/"))
    return absl::InvalidArgumentError(
        absl::StrCat("listen: '", config->listen,
                     "' is not accepted; unix:/absolute/path is (TCP is tcp_listen)"));
  if (config->state_dir.empty()) {
    config->state_dir = "/var/lib/tessera";
    if (!Usable(config->state_dir))
      config->state_dir = Or(environment("XDG_CACHE_HOME"), HomeCache(environment)) + "/tessera";
  }
  return absl::OkStatus();
}

}  // namespace

std::string Config::socket_path() const {
  absl::string_view path = listen;
  absl::ConsumePrefix(&path, "unix:");
  // gRPC also knows unix:///path.
  while (absl::StartsWith(path, "//")) path.remove_prefix(1);
  return std::string(path);
}

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

absl::Status ApplyYaml(absl::string_view text, absl::string_view path, Config* config) {
  YAML::Node root;
  // The library reports bad text by an exception; it ends here.
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::ParserException& error) {
    return At(path, error.mark, error.msg);
  }
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) return At(path, root.Mark(), "'setting: value' lines are expected");
  for (const auto& entry : root) {
    std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const Setting* setting = FindSetting(name);
    if (setting == nullptr) return At(path, entry.first.Mark(), UnknownSetting(name).message());
    if (!entry.second.IsScalar())
      return At(path, entry.second.Mark(), absl::StrCat(name, " wants one value"));
    absl::Status read = setting->read(entry.second.Scalar(), config);
    if (!read.ok()) return At(path, entry.second.Mark(), absl::StrCat(name, ": ", read.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> LoadConfig(const std::vector<std::string>& arguments,
                                  const Environment& environment) {
  Config config;
  std::string file = Or(environment("TESSERA_CONFIG"), "");
  for (absl::string_view argument : arguments)
    if (absl::ConsumePrefix(&argument, "--config=")) file = std::string(argument);
  if (!file.empty()) RETURN_IF_ERROR(ApplyFile(file, &config));
  if (std::optional<std::string> listen = environment("TESSERA_LISTEN");
      listen && !listen->empty()) {
    // The client's variable names plain paths too.
    config.listen = absl::StartsWith(*listen, "/") ? "unix:" + *listen : *listen;
  }
  if (std::optional<std::string> state = environment("TESSERA_STATE_DIR"); state && !state->empty())
    config.state_dir = *state;
  for (const std::string& argument : arguments) RETURN_IF_ERROR(ApplyFlag(argument, &config));
  if (config.print_help || config.print_config) return config;
  RETURN_IF_ERROR(FillPlaces(environment, &config));
  return config;
}

}  // namespace tessera::server
