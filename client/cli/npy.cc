#include "client/cli/npy.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace tessera::cli {
namespace {

constexpr char kMagic[] = "\x93NUMPY";

// The text behind 'key': in the header's dict literal, up to the end of that value.
std::string Field(absl::string_view dict, absl::string_view key) {
  size_t at = dict.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return "";
  at += key.size() + 3;
  while (at < dict.size() && dict[at] == ' ') ++at;
  size_t end = at;
  if (at < dict.size() && dict[at] == '(') end = dict.find(')', at) + 1;
  else end = dict.find_first_of(",}", at);
  return std::string(dict.substr(at, end == absl::string_view::npos ? end : end - at));
}

}  // namespace

int64_t NpyArray::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::vector<int64_t> NpyArray::strides() const {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    size_t d = fortran_order ? i : shape.size() - 1 - i;
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  std::stringstream stream;
  stream << file.rdbuf();
  std::string bytes = stream.str();
  auto broken = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(path, " is no .npy file: ", why)); };
  if (bytes.size() < 10 || bytes.compare(0, 6, kMagic) != 0) return broken("it does not begin with the magic bytes");
  int version = static_cast<unsigned char>(bytes[6]);
  size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3 || bytes.size() < 8 + length_bytes) return broken("unknown format version");
  uint32_t header_length = 0;
  std::memcpy(&header_length, bytes.data() + 8, length_bytes);
  size_t begin = 8 + length_bytes + header_length;
  if (begin > bytes.size()) return broken("the header is cut off");
  NpyArray array;
  absl::string_view dict(bytes.data() + 8 + length_bytes, header_length);
  array.descr = Field(dict, "descr");
  if (array.descr.size() >= 2 && array.descr[0] == '\'') array.descr = array.descr.substr(1, array.descr.size() - 2);
  array.fortran_order = Field(dict, "fortran_order") == "True";
  std::string shape = Field(dict, "shape");
  if (shape.size() < 2 || shape[0] != '(' || array.descr.size() < 3) return broken("the header has no descr or shape");
  for (absl::string_view part : absl::StrSplit(shape.substr(1, shape.size() - 2), ',')) {
    part = absl::StripAsciiWhitespace(part);
    int64_t extent = 0;
    if (part.empty()) continue;
    if (!absl::SimpleAtoi(part, &extent) || extent < 0) return broken("unreadable shape");
    array.shape.push_back(extent);
  }
  if (array.descr[0] == '>') return absl::InvalidArgumentError(absl::StrCat(path, " is big-endian; only little-endian arrays are read"));
  int64_t element_bytes = 0;
  if (!absl::SimpleAtoi(absl::string_view(array.descr).substr(array.descr[0] == '<' || array.descr[0] == '|' || array.descr[0] == '=' ? 2 : 1), &element_bytes) ||
      element_bytes < 1)
    return broken(absl::StrCat("element type '", array.descr, "' is not supported"));
  array.header = bytes.substr(0, begin);
  array.data = bytes.substr(begin);
  if (static_cast<int64_t>(array.data.size()) != array.elements() * element_bytes)
    return broken(absl::StrCat("it holds ", array.data.size(), " bytes of data, its shape needs ", array.elements() * element_bytes));
  return array;
}

absl::Status WriteNpy(const std::string& path, const NpyArray& array) {
  std::string temporary = path + ".writing";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << array.header << array.data;
    file.flush();
    if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", temporary, ": ", std::strerror(errno)));
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("replacing ", path));
  return absl::OkStatus();
}

NpyArray MakeNpy(absl::string_view descr, std::vector<int64_t> shape, int64_t element_bytes) {
  NpyArray array;
  array.descr = std::string(descr);
  array.shape = std::move(shape);
  array.data.assign(array.elements() * element_bytes, 0);
  std::string extents = absl::StrJoin(array.shape, ", ");
  if (array.shape.size() == 1) extents += ",";
  std::string dict = absl::StrCat("{'descr': '", array.descr, "', 'fortran_order': False, 'shape': (", extents, "), }");
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  uint16_t length = dict.size();
  array.header = std::string(kMagic, 6) + std::string("\1\0", 2) + std::string(reinterpret_cast<char*>(&length), 2) + dict;
  return array;
}

std::string DTypeOfDescr(absl::string_view descr) {
  if (!descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=')) descr.remove_prefix(1);
  struct Row {
    const char *npy, *short_name;
  };
  static constexpr Row kRows[] = {{"b1", "i1"}, {"?", "i1"}, {"i1", "i8"}, {"i2", "i16"}, {"i4", "i32"}, {"i8", "i64"},
                                  {"u1", "u8"}, {"u2", "u16"}, {"u4", "u32"}, {"u8", "u64"}, {"f2", "fp16"}, {"f4", "fp32"}, {"f8", "fp64"}};
  for (const Row& row : kRows)
    if (descr == row.npy) return row.short_name;
  return "";
}

}  // namespace tessera::cli
