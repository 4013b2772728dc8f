#include "cache/bundle/bundle_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/key/blake2b.h"

namespace tessera::cache {
namespace {

constexpr absl::string_view kStart = "TSBUNDLE";
constexpr uint32_t kVersion = 1;
constexpr size_t kStartBytes = 16;
constexpr absl::string_view kMagic = "TSBF";
constexpr size_t kChecksumOffset = 20, kChecksumBytes = 16;
constexpr size_t kHeaderChecksumOffset = 36, kHeaderChecksumBytes = 8;
constexpr size_t kHeaderBytes = 44;
// Nothing that a cache holds comes near it.
constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30;
constexpr size_t kMaxFindings = 100;

void AppendLittleEndian(uint64_t number, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) number |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return number;
}

std::string HeaderChecksum(absl::string_view header) {
  return Blake2b({header.substr(0, kHeaderChecksumOffset)}, 16).substr(0, kHeaderChecksumBytes);
}

std::string Checksum(absl::string_view header, absl::string_view key, absl::string_view payload) {
  return Blake2b({header.substr(4, kChecksumOffset - 4), key, payload}, kChecksumBytes);
}

std::string EndPayload(uint64_t frames, const std::string& checksums) {
  std::string payload;
  AppendLittleEndian(frames, 8, &payload);
  return payload + Blake2b({checksums}, 32);
}

struct Header {
  bool sound = false;
  uint64_t key_bytes = 0, payload_bytes = 0;
};

Header ParseHeader(absl::string_view bytes) {
  Header header;
  if (bytes.substr(0, kMagic.size()) != kMagic) return header;
  if (bytes.substr(kHeaderChecksumOffset, kHeaderChecksumBytes) != HeaderChecksum(bytes)) return header;
  header.key_bytes = LittleEndian(bytes.substr(8, 4));
  header.payload_bytes = LittleEndian(bytes.substr(12, 8));
  header.sound = header.key_bytes <= kMaxFrameBytes && header.payload_bytes <= kMaxFrameBytes;
  return header;
}

}  // namespace

std::string BundleStart() {
  std::string start(kStart);
  AppendLittleEndian(kVersion, 4, &start);
  AppendLittleEndian(0, 4, &start);
  return start;
}

std::string FrameWriter::Frame(FrameKind kind, absl::string_view key, absl::string_view payload) {
  std::string frame(kMagic);
  frame.reserve(kHeaderBytes + key.size() + payload.size());
  AppendLittleEndian(static_cast<uint64_t>(kind), 4, &frame);
  AppendLittleEndian(key.size(), 4, &frame);
  AppendLittleEndian(payload.size(), 8, &frame);
  const std::string checksum = Checksum(frame, key, payload);
  frame.append(checksum);
  frame.append(HeaderChecksum(frame));
  frame.append(key.data(), key.size());
  frame.append(payload.data(), payload.size());
  ++frames_;
  checksums_.append(checksum);
  return frame;
}

std::string FrameWriter::End() { return Frame(FrameKind::kEnd, "", EndPayload(frames_, checksums_)); }

absl::Status FrameParser::Feed(absl::string_view piece) {
  buffer_.append(piece.data(), piece.size());
  if (!started_) {
    if (buffer_.size() < kStartBytes) return absl::OkStatus();
    const absl::Status start = Start();
    if (!start.ok()) return start;
  }
  size_t at = 0;
  const absl::string_view buffer(buffer_);
  while (buffer_.size() - at >= kHeaderBytes) {
    const Header header = ParseHeader(buffer.substr(at, kHeaderBytes));
    if (!header.sound) {
      Skip(consumed_ + at);
      const size_t next = buffer.find(kMagic, at + 1);
      // The magic may be cut at the end of the buffer.
      at = next != absl::string_view::npos ? next : buffer_.size() - kMagic.size() + 1;
      continue;
    }
    const uint64_t bytes = kHeaderBytes + header.key_bytes + header.payload_bytes;
    if (buffer_.size() - at < bytes) break;
    skipping_ = false;
    const absl::string_view key = buffer.substr(at + kHeaderBytes, header.key_bytes);
    const absl::string_view payload = buffer.substr(at + kHeaderBytes + header.key_bytes, header.payload_bytes);
    const absl::string_view checksum = buffer.substr(at + kChecksumOffset, kChecksumBytes);
    const FrameKind kind = static_cast<FrameKind>(buffer_[at + 4]);
    if (checksum != Checksum(buffer.substr(at, kHeaderBytes), key, payload)) {
      ++damaged_;
      Finding(absl::StrCat("a damaged frame at byte ", consumed_ + at));
    } else if (kind == FrameKind::kEnd) {
      End(payload);
    } else if (!ended_) {
      ++frames_;
      checksums_.append(checksum.data(), checksum.size());
      on_frame_(kind, key, payload);
    }
    at += bytes;
  }
  consumed_ += at;
  buffer_.erase(0, at);
  return absl::OkStatus();
}

absl::Status FrameParser::Start() {
  const absl::string_view start = absl::string_view(buffer_).substr(0, kStartBytes);
  if (start.substr(0, kStart.size()) != kStart) return absl::InvalidArgumentError("this is no bundle of a cache");
  const uint64_t version = LittleEndian(start.substr(kStart.size(), 4));
  if (version != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("the bundle has version ", version, "; this build reads version ", kVersion));
  }
  started_ = true;
  consumed_ = kStartBytes;
  buffer_.erase(0, kStartBytes);
  return absl::OkStatus();
}

absl::Status FrameParser::Finish() {
  if (!started_) return absl::InvalidArgumentError("this is no bundle of a cache");
  if (!buffer_.empty()) Skip(consumed_);
  if (!ended_) Finding("the end is missing: the bundle was cut short");
  if (findings_.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the bundle is damaged: ", findings_.front()));
}

// One finding for each stretch that makes no sense.
void FrameParser::Skip(size_t from) {
  if (skipping_) return;
  skipping_ = true;
  ++damaged_;
  Finding(absl::StrCat("no frame at byte ", from));
}

void FrameParser::Finding(std::string text) {
  if (findings_.size() < kMaxFindings) findings_.push_back(std::move(text));
}

void FrameParser::End(absl::string_view payload) {
  ended_ = true;
  if (payload == EndPayload(frames_, checksums_)) return;
  Finding(absl::StrCat(frames_, " sound frames are not all that were written, or not those"));
}

}  // namespace tessera::cache
