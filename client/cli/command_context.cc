#include "client/cli/command_context.h"

#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tessera::cli {

absl::StatusOr<Client*> CommandContext::Connect() {
  if (client_ != nullptr) return client_.get();
  if (use_private) {
    ASSIGN_OR_RETURN(daemon_, PrivateDaemon::Start({}));
    address = daemon_->address();
  }
  ASSIGN_OR_RETURN(client_, Client::Connect(address, "tessera"));
  return client_.get();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<std::pair<std::string, std::string>> SplitKernel(absl::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 || colon + 1 == text.size())
    return absl::InvalidArgumentError(absl::StrCat("expected FILE.py:KERNEL, got '", text, "'"));
  return std::make_pair(std::string(text.substr(0, colon)), std::string(text.substr(colon + 1)));
}

std::string JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) text.clear();
  return text;
}

void PrintJson(const google::protobuf::Message& message) { std::cout << JsonOf(message); }

}  // namespace tessera::cli
