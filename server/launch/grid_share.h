// A part of a launch's grid, for measurements that must be short. Pure.
#ifndef TESSERA_SERVER_LAUNCH_GRID_SHARE_H_
#define TESSERA_SERVER_LAUNCH_GRID_SHARE_H_

#include <cstdint>

namespace tessera::server {

struct GridShare {
  double wanted = 1;  // of the programs
  // Set by ReduceGrid: a launch of the part takes about this share of a whole launch's time.
  double ran = 1;
};

// Cuts a grid down to about share->wanted of its programs, the last dimension first, to a multiple of `parallel`, how many
// the device runs at once (at least as many, if there are): else some processors would be idle at the end, which a whole
// launch has once and a small part would have, too.
void ReduceGrid(uint32_t parallel, GridShare* share, uint32_t grid[3]);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_GRID_SHARE_H_
