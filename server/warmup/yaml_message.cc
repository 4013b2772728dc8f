#include "server/warmup/yaml_message.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "proto/tessera/v1/manifest.pb.h"
#include "server/status/error_detail.h"
#include "yaml-cpp/yaml.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A manifest is written by people; deeper is a mistake or an attack on the stack.
constexpr int kMaxDepth = 32;

absl::Status ErrorAt(absl::string_view path, int line, int column, absl::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_MANIFEST",
               absl::StrCat(path, ":", line, ":", column, ": ", what));
}

// "NamedPattern" -> what it is called in messages to people.
std::string NameOf(const Descriptor& type) {
  absl::string_view name = type.name();
  absl::ConsumePrefix(&name, "Manifest");
  if (name.empty()) return "the manifest";
  std::string text;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z' && !text.empty()) text += ' ';
    text += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  const char* article =
      absl::string_view("aeio").find(text[0]) == absl::string_view::npos ? "a " : "an ";
  return absl::StrCat(article, text);
}

bool IsNamed(const Descriptor& type) {
  return type.field_count() == 2 && type.field(0)->name() == "name" &&
         type.field(1)->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

// Types of arguments in the command line's spelling, "*fp16:16".
bool LooksLikeType(absl::string_view text) {
  if (absl::StartsWith(text, "*")) return true;
  return ParseDType(text.substr(0, text.find(':'))).has_value();
}

class Reader {
 public:
  explicit Reader(YamlPlaces* places) : places_(places) {}

  absl::Status ReadInto(const YAML::Node& node, Message* message, int depth) {
    places_->Set(*message, node.Mark().line + 1, node.Mark().column + 1);
    if (depth > kMaxDepth) return At(node, "nested too deep");
    if (auto* constant = dynamic_cast<api::Constant*>(message))
      return ReadConstant(node, constant, depth);
    if (auto* options = dynamic_cast<api::Options*>(message)) return ReadOptions(node, options);
    if (auto* pattern = dynamic_cast<api::ArgumentPattern*>(message); pattern && !node.IsMap())
      return ReadPattern(node, pattern, depth);
    if (auto* tensor = dynamic_cast<api::TensorPattern*>(message); tensor && node.IsScalar()) {
      tensor->set_text(node.Scalar());
      return absl::OkStatus();
    }
    const Descriptor& type = *message->GetDescriptor();
    if (dynamic_cast<api::ShapeRow*>(message) != nullptr)
      return ReadField(node, *type.field(0), message, depth);
    if (!node.IsMap())
      return At(node, absl::StrCat(NameOf(type), " is made of 'key: value' lines"));
    std::set<std::string> given;
    for (const auto& entry : node) {
      std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const FieldDescriptor* field = type.FindFieldByName(key);
      if (field == nullptr) {
        std::string known;
        for (int i = 0; i < type.field_count(); ++i)
          absl::StrAppend(&known, i == 0 ? "" : ", ", type.field(i)->name());
        return At(entry.first, absl::StrCat(NameOf(type), " has no '", key, "'; it has: ", known));
      }
      if (!given.insert(key).second)
        return At(entry.first, absl::StrCat("'", key, "' is given twice"));
      RETURN_IF_ERROR(ReadField(entry.second, *field, message, depth));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status At(const YAML::Node& node, absl::string_view what) const {
    return ErrorAt(places_->path(), node.Mark().line + 1, node.Mark().column + 1, what);
  }

  absl::Status ReadField(const YAML::Node& node, const FieldDescriptor& field, Message* message,
                         int depth) {
    const Reflection& reflection = *message->GetReflection();
    bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field.is_repeated()) {
      if (is_message) return ReadInto(node, reflection.MutableMessage(message, &field), depth + 1);
      return ReadScalar(node, field, message);
    }
    if (is_message && IsNamed(*field.message_type()) && node.IsMap())
      return ReadNamed(node, field, message, depth);
    bool one_will_do = !is_message || field.message_type() == api::Constant::descriptor();
    if (node.IsScalar() && one_will_do) {
      if (is_message) return ReadInto(node, reflection.AddMessage(message, &field), depth + 1);
      return ReadScalar(node, field, message);
    }
    if (!node.IsSequence()) {
      const char* shape = is_message && IsNamed(*field.message_type()) ? "NAME: VALUE" : "a list";
      return At(node, absl::StrCat("'", field.name(), "' is ", shape));
    }
    for (const YAML::Node& item : node) {
      if (is_message)
        RETURN_IF_ERROR(ReadInto(item, reflection.AddMessage(message, &field), depth + 1));
      else
        RETURN_IF_ERROR(ReadScalar(item, field, message));
    }
    return absl::OkStatus();
  }

  absl::Status ReadNamed(const YAML::Node& node, const FieldDescriptor& field, Message* message,
                         int depth) {
    const Reflection& reflection = *message->GetReflection();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return At(entry.first, "a name is expected");
      for (int i = 0; i < reflection.FieldSize(*message, &field); ++i) {
        const Message& other = reflection.GetRepeatedMessage(*message, &field, i);
        if (other.GetReflection()->GetString(other, field.message_type()->field(0)) ==
            entry.first.Scalar())
          return At(entry.first, absl::StrCat("'", entry.first.Scalar(), "' is given twice"));
      }
      Message* added = reflection.AddMessage(message, &field);
      places_->Set(*added, entry.first.Mark().line + 1, entry.first.Mark().column + 1);
      const Descriptor& type = *added->GetDescriptor();
      added->GetReflection()->SetString(added, type.field(0), entry.first.Scalar());
      RETURN_IF_ERROR(ReadField(entry.second, *type.field(1), added, depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status ReadScalar(const YAML::Node& node, const FieldDescriptor& field, Message* message) {
    const Reflection& reflection = *message->GetReflection();
    if (!node.IsScalar()) return At(node, absl::StrCat("'", field.name(), "' is one value"));
    const std::string& text = node.Scalar();
    auto set = [&](auto value, auto one, auto add) {
      field.is_repeated() ? (reflection.*add)(message, &field, value)
                          : (reflection.*one)(message, &field, value);
      return absl::OkStatus();
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return set(text, &Reflection::SetString, &Reflection::AddString);
      case FieldDescriptor::CPPTYPE_BOOL:
        if (text == "true" || text == "True" || text == "yes")
          return set(true, &Reflection::SetBool, &Reflection::AddBool);
        if (text == "false" || text == "False" || text == "no")
          return set(false, &Reflection::SetBool, &Reflection::AddBool);
        return At(node, absl::StrCat("'", field.name(), "' is true or false"));
      case FieldDescriptor::CPPTYPE_INT32: {
        int32_t value;
        if (!absl::SimpleAtoi(text, &value)) return NotANumber(node, field);
        return set(value, &Reflection::SetInt32, &Reflection::AddInt32);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        uint32_t value;
        if (!absl::SimpleAtoi(text, &value)) return NotANumber(node, field);
        return set(value, &Reflection::SetUInt32, &Reflection::AddUInt32);
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        int64_t value;
        if (!absl::SimpleAtoi(text, &value)) return NotANumber(node, field);
        return set(value, &Reflection::SetInt64, &Reflection::AddInt64);
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        uint64_t value;
        if (!absl::SimpleAtoi(text, &value)) return NotANumber(node, field);
        return set(value, &Reflection::SetUInt64, &Reflection::AddUInt64);
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value;
        if (!absl::SimpleAtod(text, &value))
          return At(node, absl::StrCat("'", field.name(), "' is a number"));
        return set(value, &Reflection::SetDouble, &Reflection::AddDouble);
      }
      default:
        return At(node, absl::StrCat("'", field.name(), "' cannot be written here"));
    }
  }

  absl::Status NotANumber(const YAML::Node& node, const FieldDescriptor& field) const {
    return At(node, absl::StrCat("'", field.name(), "': a whole number is expected"));
  }

  absl::Status ReadOptions(const YAML::Node& node, api::Options* options) {
    if (!node.IsMap()) return At(node, "options are NAME: VALUE");
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return At(entry.first, "a name is expected");
      const std::string& name = entry.first.Scalar();
      const FieldDescriptor* field = api::Options::descriptor()->FindFieldByName(name);
      if (field != nullptr && name != "extra") {
        RETURN_IF_ERROR(ReadScalar(entry.second, *field, options));
        continue;
      }
      if (!entry.second.IsScalar()) return At(entry.second, absl::StrCat(name, " is one value"));
      (*options->mutable_extra())[name] = entry.second.Scalar();
    }
    return absl::OkStatus();
  }

  absl::Status ReadConstant(const YAML::Node& node, api::Constant* constant, int depth) {
    if (depth > kMaxDepth) return At(node, "nested too deep");
    if (node.IsNull()) {
      constant->mutable_none();
      return absl::OkStatus();
    }
    if (node.IsSequence()) {
      constant->mutable_tuple();
      for (const YAML::Node& item : node)
        RETURN_IF_ERROR(ReadConstant(item, constant->mutable_tuple()->add_items(), depth + 1));
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

  // "*fp16:16" and "i64" are types, quoted or not; every other scalar is a value; a list is one of
  // several.
  absl::Status ReadPattern(const YAML::Node& node, api::ArgumentPattern* pattern, int depth) {
    if (node.IsSequence()) {
      for (const YAML::Node& item : node)
        RETURN_IF_ERROR(ReadInto(item, pattern->add_any_of(), depth + 1));
      if (node.size() == 0) return At(node, "an empty list gives no value");
      return absl::OkStatus();
    }
    if (node.IsScalar() && LooksLikeType(node.Scalar())) {
      pattern->set_text(node.Scalar());
      return absl::OkStatus();
    }
    return ReadInto(node, pattern->add_values(), depth + 1);
  }

  YamlPlaces* const places_;
};

}  // namespace

std::string YamlPlaces::Line(const Message& message) const {
  auto found = places_.find(&message);
  return found == places_.end() ? path_ : absl::StrCat(path_, ":", found->second.line);
}

std::string YamlPlaces::Place(const Message& message) const {
  auto found = places_.find(&message);
  return found == places_.end()
             ? path_
             : absl::StrCat(path_, ":", found->second.line, ":", found->second.column);
}

absl::Status YamlPlaces::At(const Message& message, absl::string_view what) const {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_MANIFEST",
               absl::StrCat(Place(message), ": ", what));
}

absl::Status ReadYaml(absl::string_view text, Message* message, YamlPlaces* places) {
  // The library reports bad text by an exception; it ends here.
  try {
    YAML::Node root = YAML::Load(std::string(text));
    if (root.IsNull()) return absl::OkStatus();
    return Reader(places).ReadInto(root, message, 0);
  } catch (const YAML::Exception& error) {
    return ErrorAt(places->path(), error.mark.line + 1, error.mark.column + 1, error.msg);
  }
}

std::string YamlScalar(absl::string_view text) {
  bool plain = !text.empty() && text.find_first_of(":#{}[]&*!|>'\"%@`,?\n\t\\") == text.npos &&
               text.front() != ' ' && text.back() != ' ' && text.front() != '-' && text != "~" &&
               text != "null" && text != "true" && text != "false" && text != "yes" && text != "no";
  if (plain) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else
      quoted += c;
  }
  return quoted + "\"";
}

}  // namespace tessera::server
