// How the values of a tuning-key argument fall into buckets. Pure.
#ifndef TESSERA_SERVER_TUNING_BUCKET_RULE_H_
#define TESSERA_SERVER_TUNING_BUCKET_RULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::server {

struct BucketRule {
  enum class Kind { kExact, kPow2, kGeometric, kEdges };
  Kind kind = Kind::kExact;
  double step = 2;             // kGeometric: ratio of neighbouring bounds, 1.05 to 16
  std::vector<int64_t> edges;  // kEdges: upper bounds, ascending

  // "exact", "pow2", "geometric:1.5", "edges:64,128,4096". INVALID_ARGUMENT says what is accepted.
  static absl::StatusOr<BucketRule> Parse(absl::string_view text);
  std::string ToString() const;

  // The bucket of a value by its largest member: "512" (exact), "pow2:512" holds 257 to 512,
  // "geo:607", "to:128", "above:4096". Values of 16 and less, zero and negative ones included, are
  // exact under pow2 and geometric: they are counts and flags, not sizes.
  std::string Label(int64_t value) const;
};

// The number in a label, for distances between buckets; false: there is none.
bool LabelValue(absl::string_view label, int64_t* value);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_BUCKET_RULE_H_
