#include "cache/store/rocksdb/tolerant_scan.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "cache/store/rocksdb/rocksdb_status.h"

namespace tessera::cache {
namespace {

// More digits than the keys of any family but tunings have; those keys are told apart by fewer.
constexpr size_t kDigits = 48;

absl::string_view View(const rocksdb::Slice& slice) { return absl::string_view(slice.data(), slice.size()); }

bool CanSeek(rocksdb::Iterator* it, const std::string& target) {
  it->Seek(target);
  return it->status().ok();
}

// Keys as numbers of base 256: the smallest one above all that share the first `digits` bytes of `key`, filled up with
// zeros. False: there is none.
bool NextAfter(const std::string& key, size_t digits, std::string* next) {
  *next = key;
  std::fill(next->begin() + digits, next->end(), '\0');
  for (size_t i = digits; i-- > 0;) {
    if (++(*next)[i] != '\0') return true;
  }
  return false;
}

std::string Middle(const std::string& low, const std::string& high) {
  std::string middle(low.size(), '\0');
  unsigned carry = 0;  // of the addition, from the last digit on
  for (size_t i = low.size(); i-- > 0;) {
    const unsigned sum = static_cast<uint8_t>(low[i]) + static_cast<uint8_t>(high[i]) + carry;
    middle[i] = static_cast<char>(sum);
    carry = sum >> 8;
  }
  unsigned remainder = carry;
  for (char& digit : middle) {
    const unsigned value = (remainder << 8) | static_cast<uint8_t>(digit);
    digit = static_cast<char>(value / 2);
    remainder = value % 2;
  }
  return middle;
}

// Seeking to `low` fails. Puts `it` on the first entry behind the damage. False: nothing behind it can be read.
bool SeekBehindDamage(rocksdb::Iterator* it, std::string low) {
  low.resize(std::max(kDigits, low.size()), '\0');
  std::string high;
  bool found = CanSeek(it, low);
  if (found) return true;
  // In growing steps, so that the readable entries between two damaged places are not leapt over.
  for (size_t digits = low.size(); digits > 0 && !found; --digits) {
    found = NextAfter(low, digits, &high) && CanSeek(it, high);
  }
  if (!found) return false;
  while (true) {
    const std::string middle = Middle(low, high);
    if (middle == low) break;
    (CanSeek(it, middle) ? high : low) = middle;
  }
  return CanSeek(it, high);
}

}  // namespace

absl::Status TolerantScan(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, absl::string_view prefix,
                          absl::FunctionRef<bool(absl::string_view key, absl::string_view value)> visit,
                          absl::FunctionRef<bool(absl::string_view after, const rocksdb::Status& why)> skip) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;  // a scan must not push out what launches need
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options, handle));
  std::string last;         // the last key that was visited
  std::string next(prefix.data(), prefix.size());  // where the next entry is looked for
  it->Seek(next);
  while (true) {
    if (it->Valid()) {
      const absl::string_view key = View(it->key());
      if (!absl::StartsWith(key, prefix)) return absl::OkStatus();
      if (!visit(key, View(it->value()))) return absl::OkStatus();
      last.assign(key.data(), key.size());
      next = last + '\0';
      it->Next();
      continue;
    }
    const rocksdb::Status status = it->status();
    if (status.ok()) return absl::OkStatus();
    if (!status.IsCorruption() && !status.IsIOError()) return FromRocksdb(status, "reading " + handle->GetName());
    if (!skip(last, status)) return absl::OkStatus();
    if (!SeekBehindDamage(it.get(), next)) return absl::OkStatus();
  }
}

}  // namespace tessera::cache
