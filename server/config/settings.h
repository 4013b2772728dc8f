// The table of settings: name, manual, how to read and print it.
#ifndef TESSERA_SERVER_CONFIG_SETTINGS_H_
#define TESSERA_SERVER_CONFIG_SETTINGS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config/config.h"

namespace tessera::server {

struct Setting {
  std::string name;    // YAML key; the flag is the same with dashes
  std::string manual;  // what it does, in one or more lines
  std::function<absl::Status(absl::string_view text, Config* config)> read;
  std::function<std::string(const Config& config)> print;
};

const std::vector<Setting>& Settings();
const Setting* FindSetting(absl::string_view name);

// A configuration file that says everything and changes nothing.
std::string SampleConfig();
// The manual, as --help prints it.
std::string HelpText();

}  // namespace tessera::server

#endif  // TESSERA_SERVER_CONFIG_SETTINGS_H_
