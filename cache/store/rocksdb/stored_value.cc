#include "cache/store/rocksdb/stored_value.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "cache/key/blake2b.h"
#include "cache/key/canonical_text.h"

namespace tessera::cache {
namespace {

constexpr absl::string_view kMagic = "TSV1";
constexpr size_t kChecksumOffset = 12;
constexpr size_t kChecksumBytes = 16;
constexpr size_t kHeaderBytes = kChecksumOffset + kChecksumBytes;

void AppendLittleEndian(uint32_t number, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) number |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return number;
}

std::string Checksum(const Family& family, absl::string_view key, absl::string_view start, absl::string_view payload) {
  std::string place;
  AppendField(family.name, key, &place);
  return Blake2b({place, start, payload}, kChecksumBytes);
}

}  // namespace

std::string EncodeValue(const Family& family, absl::string_view key, absl::string_view payload) {
  std::string value(kMagic);
  value.reserve(kHeaderBytes + payload.size());
  AppendLittleEndian(family.format_version, 2, &value);
  AppendLittleEndian(0, 2, &value);
  AppendLittleEndian(static_cast<uint32_t>(payload.size()), 4, &value);
  value.append(Checksum(family, key, value, payload));
  value.append(payload.data(), payload.size());
  return value;
}

DecodedValue DecodeValue(const Family& family, absl::string_view key, absl::string_view value) {
  DecodedValue decoded;
  if (value.size() < kHeaderBytes) {
    decoded.fault = absl::StrCat("its ", value.size(), " bytes are shorter than a header");
    return decoded;
  }
  const absl::string_view start = value.substr(0, kChecksumOffset);
  const absl::string_view payload = value.substr(kHeaderBytes);
  if (start.substr(0, kMagic.size()) != kMagic) {
    decoded.fault = "it does not start as a stored value";
  } else if (LittleEndian(start.substr(8, 4)) != payload.size()) {
    decoded.fault = absl::StrCat("it has ", payload.size(), " bytes where its header says ",
                                 LittleEndian(start.substr(8, 4)));
  } else if (value.substr(kChecksumOffset, kChecksumBytes) != Checksum(family, key, start, payload)) {
    decoded.fault = "its checksum differs";
  } else if (LittleEndian(start.substr(4, 2)) != family.format_version) {
    decoded.reason = MissReason::kOtherFormat;
  } else {
    decoded.reason = MissReason::kFound;
    decoded.payload = payload;
  }
  return decoded;
}

}  // namespace tessera::cache
