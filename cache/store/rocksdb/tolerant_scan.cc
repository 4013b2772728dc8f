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

// Opens iterators over one column family. An iterator that met damage stays unusable, so each attempt has its own.
struct Attempts {
  rocksdb::DB* db;
  rocksdb::ColumnFamilyHandle* handle;

  // Null: what lies at `target` cannot be read.
  std::unique_ptr<rocksdb::Iterator> Seek(const std::string& target) const {
    rocksdb::ReadOptions options;
    options.fill_cache = false;  // a scan must not push out what launches need
    std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options, handle));
    it->Seek(target);
    return it->status().ok() ? std::move(it) : nullptr;
  }
};

// Keys as numbers of base 256, the first digit the most significant: `key` + 2^bit. False: that is beyond all keys.
bool AddPowerOfTwo(const std::string& key, size_t bit, std::string* sum) {
  *sum = key;
  unsigned carry = 1u << (bit % 8);
  for (size_t i = key.size() - bit / 8; i-- > 0;) {
    carry += static_cast<uint8_t>((*sum)[i]);
    (*sum)[i] = static_cast<char>(carry);
    carry >>= 8;
    if (carry == 0) return true;
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

// Seeking to `low` fails. An iterator on the first entry behind the damage, or null: nothing behind it can be read.
std::unique_ptr<rocksdb::Iterator> SeekBehindDamage(const Attempts& attempts, std::string low) {
  low.resize(std::max(kDigits, low.size()), '\0');
  std::unique_ptr<rocksdb::Iterator> it = attempts.Seek(low);
  if (it != nullptr) return it;
  // In steps that double, so that the readable entries between two damaged places are hardly ever leapt over.
  std::string high;
  for (size_t bit = 0; bit < 8 * low.size() && it == nullptr; ++bit) {
    if (!AddPowerOfTwo(low, bit, &high)) break;
    it = attempts.Seek(high);
  }
  if (it == nullptr) return nullptr;
  while (true) {
    const std::string middle = Middle(low, high);
    if (middle == low) return it;
    if (std::unique_ptr<rocksdb::Iterator> nearer = attempts.Seek(middle)) {
      it = std::move(nearer);
      high = middle;
    } else {
      low = middle;
    }
  }
}

}  // namespace

absl::Status TolerantScan(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, absl::string_view prefix,
                          absl::FunctionRef<bool(absl::string_view key, absl::string_view value)> visit,
                          absl::FunctionRef<bool(absl::string_view after, const rocksdb::Status& why)> skip) {
  const Attempts attempts{db, handle};
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options, handle));
  std::string last;                                // the last key that was visited
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
    it = SeekBehindDamage(attempts, next);
    if (it == nullptr) return absl::OkStatus();
  }
}

}  // namespace tessera::cache
