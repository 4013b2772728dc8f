// YAML text read into a protobuf message, by the message's own field names.
//
// Unknown names, wrong kinds and numbers out of range are errors with line and column. The places
// of all messages are kept, so that later checks can point at them too.
#ifndef TESSERA_SERVER_WARMUP_YAML_MESSAGE_H_
#define TESSERA_SERVER_WARMUP_YAML_MESSAGE_H_

#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace tessera::server {

// Where messages stood in the text. Holds their addresses: valid while the root message neither
// moves nor changes.
class YamlPlaces {
 public:
  explicit YamlPlaces(absl::string_view path) : path_(std::string(path)) {}

  // "m.yaml:7", and "m.yaml:7:5"; of an unknown message the path alone.
  std::string Line(const google::protobuf::Message& message) const;
  std::string Place(const google::protobuf::Message& message) const;
  // INVALID_ARGUMENT (BAD_MANIFEST): "m.yaml:7:5: what".
  absl::Status At(const google::protobuf::Message& message, absl::string_view what) const;

  const std::string& path() const { return path_; }
  void Set(const google::protobuf::Message& message, int line, int column) {
    places_[&message] = {line, column};
  }

 private:
  struct Mark {
    int line = 0, column = 0;
  };
  std::string path_;
  std::unordered_map<const google::protobuf::Message*, Mark> places_;
};

// Beside proto's own kinds:
// - a list of messages {name, X} may be written as a map: `constants: {BLOCK: 64}`;
// - a list of scalars may be one scalar;
// - messages of the kinds Constant, Options, ArgumentPattern and TensorPattern have short forms
//   (README.md), and ShapeRow is a map of its values.
absl::Status ReadYaml(absl::string_view text, google::protobuf::Message* message,
                      YamlPlaces* places);

// The text that ReadYaml would read as this value: quoted where it must be.
std::string YamlScalar(absl::string_view text);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_YAML_MESSAGE_H_
