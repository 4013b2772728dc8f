#include "server/tuning/candidate_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace tessera::server {
namespace {

double Doublings(int64_t a, int64_t b) {
  if (a == b) return 0;
  if (a <= 0 || b <= 0) return 1;
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

const storage::ConstantValue* ValueOf(const storage::TuneConfig& config, const std::string& name) {
  for (const storage::NamedConstant& value : config.values())
    if (value.name() == name) return &value.value();
  return nullptr;
}

double Distance(const storage::ConstantValue& a, const storage::ConstantValue& b) {
  if (a.has_integer() && b.has_integer()) return Doublings(a.integer(), b.integer());
  return a.SerializeAsString() == b.SerializeAsString() ? 0 : 1;
}

}  // namespace

std::vector<size_t> SpreadOut(size_t count) {
  std::vector<size_t> order;
  std::vector<bool> taken(count, false);
  auto take = [&](size_t i) {
    if (!taken[i]) order.push_back(i);
    taken[i] = true;
  };
  size_t stride = 1;
  while (stride * 2 < count) stride *= 2;
  for (; stride > 0; stride /= 2)
    for (size_t i = stride / 2; i < count; i += stride) take(i);
  for (size_t i = 0; i < count; ++i) take(i);
  return order;
}

double ConfigDistance(const storage::TuneConfig& a, const storage::TuneConfig& b) {
  double distance = 0;
  for (const storage::NamedConstant& value : a.values()) {
    const storage::ConstantValue* other = ValueOf(b, value.name());
    distance += other == nullptr ? 1 : Distance(value.value(), *other);
  }
  for (const storage::NamedConstant& value : b.values()) distance += ValueOf(a, value.name()) == nullptr;
  const storage::LaunchOptions &x = a.options(), &y = b.options();
  return distance + Doublings(x.num_warps(), y.num_warps()) + Doublings(x.num_stages(), y.num_stages()) +
         Doublings(x.num_ctas(), y.num_ctas()) + Doublings(x.maxnreg(), y.maxnreg());
}

double Promise(const storage::TuneConfig& config, const std::vector<MeasuredConfig>& measured) {
  if (measured.empty()) return 1;
  double weights = 0, sum = 0, best = std::numeric_limits<double>::infinity();
  for (const MeasuredConfig& one : measured) {
    const double weight = std::exp2(-2 * ConfigDistance(config, *one.config)), log = std::log(one.seconds);
    weights += weight;
    sum += weight * log;
    best = std::min(best, log);
  }
  return weights > 0 ? std::exp(2 * (best - sum / weights)) : 1;
}

}  // namespace tessera::server
