// The key in lines for people. It reads the canonical text, never the job: what it prints is what the key holds.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cache/key/blake2b.h"
#include "cache/key/canonical_text.h"
#include "cache/key/compile_key.h"

namespace tessera::cache {
namespace {

using Fields = std::vector<CanonicalField>;

constexpr size_t kShownColumns = 200;

Fields Parsed(absl::string_view text) {
  Fields fields;
  if (!ParseCanonical(text, &fields)) fields.clear();
  return fields;
}

absl::string_view Value(const Fields& fields, absl::string_view name) {
  for (const CanonicalField& field : fields) {
    if (field.name == name) return field.value;
  }
  return "";
}

std::string RealText(absl::string_view hex_bits) {
  uint64_t bits = 0;
  double real = 0;
  if (!absl::SimpleHexAtoi(hex_bits, &bits)) return std::string(hex_bits);
  std::memcpy(&real, &bits, sizeof(real));
  return absl::StrFormat("%.17g", real);
}

std::string ConstantText(absl::string_view text) {
  const Fields fields = Parsed(text);
  if (fields.size() != 1) return "?";
  const CanonicalField& field = fields[0];
  if (field.name == "none") return "None";
  if (field.name == "real") return RealText(field.value);
  if (field.name == "text") return absl::StrCat("\"", absl::CEscape(field.value), "\"");
  if (field.name == "dtype") return absl::StrCat("dtype ", field.value);
  if (field.name == "function") return absl::StrCat("function ", field.value);
  if (field.name != "tuple") return std::string(field.value);
  std::string items;
  for (const CanonicalField& item : Parsed(field.value)) {
    absl::StrAppend(&items, items.empty() ? "" : ", ", ConstantText(item.value));
  }
  return absl::StrCat("(", items, ")");
}

std::string DescriptorText(absl::string_view text) {
  std::string line = "descriptor of";
  std::string shape, padding;
  for (const CanonicalField& field : Parsed(text)) {
    if (field.name == "element") absl::StrAppend(&line, " ", field.value);
    if (field.name == "block") absl::StrAppend(&shape, shape.empty() ? "" : ", ", field.value);
    if (field.name == "padding") padding = absl::StrCat(", padded with ", field.value);
  }
  return absl::StrCat(line, "[", shape, "]", padding);
}

// "x: *fp16, divisible by 16", "BLOCK = 128"
std::string ParameterText(absl::string_view text) {
  std::string name, line;
  for (const CanonicalField& field : Parsed(text)) {
    if (field.name == "name") name = std::string(field.value);
    if (field.name == "type") line = absl::StrCat(": ", field.value);
    if (field.name == "constant") line = absl::StrCat(" = ", ConstantText(field.value));
    if (field.name == "descriptor") line = absl::StrCat(": ", DescriptorText(field.value));
    if (field.name == "tuple") {
      std::string items;
      for (const CanonicalField& item : Parsed(field.value)) {
        absl::StrAppend(&items, items.empty() ? "" : "; ", ParameterText(item.value));
      }
      line = absl::StrCat(": (", items, ")");
    }
    if (field.name == "divisible") absl::StrAppend(&line, ", divisible by ", field.value);
    if (field.name == "equals") absl::StrAppend(&line, ", always ", field.value);
  }
  return absl::StrCat(name, line);
}

std::string LongText(absl::string_view text) {
  return absl::StrCat(text.size(), " bytes, blake2b ", absl::BytesToHexString(Blake2b({text}, 16)));
}

// The first line in which two texts differ.
std::string FirstDifference(absl::string_view name, absl::string_view one, absl::string_view other) {
  const std::vector<absl::string_view> ours = absl::StrSplit(one, '\n'), theirs = absl::StrSplit(other, '\n');
  size_t line = 0;
  while (line < ours.size() && line < theirs.size() && ours[line] == theirs[line]) ++line;
  const auto at = [line](const std::vector<absl::string_view>& lines) {
    return line < lines.size() ? lines[line].substr(0, kShownColumns) : absl::string_view("(ends here)");
  };
  return absl::StrCat("the ", name, " differs first in line ", line + 1, ":\n  - ", at(ours), "\n  + ", at(theirs), "\n");
}

}  // namespace

std::string Explain(absl::string_view canonical) {
  Fields fields;
  if (!ParseCanonical(canonical, &fields) || fields.empty() || fields[0].name != "version") {
    return absl::StrCat("no compile key of this version (", LongText(canonical), ")\n");
  }
  std::string lines;
  for (const CanonicalField& field : fields) {
    const Fields pair = Parsed(field.value);
    if (field.name == "parameter") {
      absl::StrAppend(&lines, "parameter ", ParameterText(field.value), "\n");
    } else if (field.name == "option" || field.name == "setting") {
      absl::StrAppend(&lines, field.name, " ", Value(pair, "name"), " = ", Value(pair, "value"), "\n");
    } else if (field.name == "override" || field.name == "function") {
      absl::StrAppend(&lines, field.name, " ", Value(pair, "name"), " = ", LongText(Value(pair, "value")), "\n");
    } else if (field.name == "closure" || field.name == "files") {
      absl::StrAppend(&lines, field.name, " = ", LongText(field.value), "\n");
    } else {
      absl::StrAppend(&lines, field.name, " = ", field.value, "\n");
    }
  }
  return lines;
}

std::string ExplainDifference(absl::string_view one, absl::string_view other) {
  if (one == other) return "";
  const auto lines_of = [](absl::string_view canonical) -> std::vector<std::string> {
    return absl::StrSplit(Explain(canonical), '\n', absl::SkipEmpty());
  };
  const std::vector<std::string> ours = lines_of(one), theirs = lines_of(other);
  const auto append_missing = [](const std::vector<std::string>& from, const std::vector<std::string>& in,
                                 const char* mark, std::string* text) {
    for (const std::string& line : from) {
      if (std::find(in.begin(), in.end(), line) == in.end()) absl::StrAppend(text, mark, line, "\n");
    }
  };
  std::string text;
  append_missing(ours, theirs, "- ", &text);
  append_missing(theirs, ours, "+ ", &text);
  const Fields our_fields = Parsed(one), their_fields = Parsed(other);
  for (const char* name : {"closure", "files"}) {
    const absl::string_view here = Value(our_fields, name), there = Value(their_fields, name);
    if (here != there) absl::StrAppend(&text, FirstDifference(name, here, there));
  }
  return text;
}

}  // namespace tessera::cache
