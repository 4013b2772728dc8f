#include "server/launch/grid_share.h"

#include <algorithm>
#include <numeric>

namespace tessera::server {
namespace {

uint64_t Programs(const uint32_t grid[3]) { return uint64_t{grid[0]} * grid[1] * grid[2]; }

uint64_t Waves(const uint32_t grid[3], uint32_t parallel) {
  return (Programs(grid) + parallel - 1) / parallel;
}

}  // namespace

void ReduceGrid(uint32_t parallel, GridShare* share, uint32_t grid[3]) {
  parallel = std::max(parallel, 1u);
  const uint64_t whole = Waves(grid, parallel);
  double left = share->wanted;
  for (int i = 2; i >= 0 && left < 1; --i) {
    uint64_t each = 1;  // programs of one step of this dimension
    for (int j = 0; j < i; ++j) each *= grid[j];
    const double wanted = grid[i] * left;
    if (wanted < 1 && each > 1) {  // one step is too much: the next dimension is cut down, too
      grid[i] = 1;
      left = std::max(wanted, static_cast<double>(parallel) / static_cast<double>(each));
      continue;
    }
    uint64_t step = parallel / std::gcd<uint64_t>(each, parallel);
    uint64_t some = std::max<uint64_t>(static_cast<uint64_t>(wanted), 1);
    if (some > step || i == 0) some = std::max(some / step * step, step);
    grid[i] = static_cast<uint32_t>(std::min<uint64_t>(some, grid[i]));
    break;
  }
  share->ran = static_cast<double>(Waves(grid, parallel)) / static_cast<double>(whole);
}

}  // namespace tessera::server
