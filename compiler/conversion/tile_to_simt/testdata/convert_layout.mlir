// From one layout to another: by name, by shuffle, through shared memory.
// RUN: tessera-opt %s -split-input-file -gpu-simt-passes | FileCheck %s

#a = #tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>
#renamed = #tile.layout<registers = [2, 1], lanes = [4, 8, 16, 32, 64], warps = [128]>

// CHECK-LABEL: func.func @rename(
// CHECK: simt.shared_bytes = 0
// CHECK-NOT: simt.shuffle
// CHECK: %[[V:.*]] = simt.load
// CHECK: %[[B:.*]] = vector.extract %[[V]][1]
// CHECK: %[[C:.*]] = vector.extract %[[V]][2]
// CHECK: return
func.func @rename(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel, simt.threads = 64 : i32} {
  %i = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #a>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #a>
  %xp = tile.addptr %xs, %i : tensor<256x!tile.ptr<f32>, #a>, tensor<256xi32, #a>
  %v = tile.load %xp : tensor<256x!tile.ptr<f32>, #a> -> tensor<256xf32, #a>
  %w = tile.convert_layout %v : tensor<256xf32, #a> -> tensor<256xf32, #renamed>
  %j = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #renamed>
  %ys = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #renamed>
  %yp = tile.addptr %ys, %j : tensor<256x!tile.ptr<f32>, #renamed>, tensor<256xi32, #renamed>
  tile.store %yp, %w : tensor<256x!tile.ptr<f32>, #renamed>, tensor<256xf32, #renamed>
  return
}

// -----

#a = #tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>
#lanes = #tile.layout<registers = [1, 2], lanes = [64, 32, 16, 8, 4], warps = [128]>

// CHECK-LABEL: func.func @among_lanes(
// CHECK: simt.shared_bytes = 0
// CHECK-COUNT-4: simt.shuffle index
// CHECK-NOT: simt.shuffle
// CHECK: return
func.func @among_lanes(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel, simt.threads = 64 : i32} {
  %i = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #a>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #a>
  %xp = tile.addptr %xs, %i : tensor<256x!tile.ptr<f32>, #a>, tensor<256xi32, #a>
  %v = tile.load %xp : tensor<256x!tile.ptr<f32>, #a> -> tensor<256xf32, #a>
  %w = tile.convert_layout %v : tensor<256xf32, #a> -> tensor<256xf32, #lanes>
  %j = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #lanes>
  %ys = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #lanes>
  %yp = tile.addptr %ys, %j : tensor<256x!tile.ptr<f32>, #lanes>, tensor<256xi32, #lanes>
  tile.store %yp, %w : tensor<256x!tile.ptr<f32>, #lanes>, tensor<256xf32, #lanes>
  return
}

// -----

#a = #tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>
#spread = #tile.layout<registers = [64, 128], lanes = [1, 2, 4, 8, 16], warps = [32]>

// CHECK-LABEL: func.func @through_shared(
// CHECK: simt.shared_bytes = 1024
// CHECK: %[[B:.*]] = simt.alloc_shared 1024
// CHECK: simt.store_shared %[[B]]
// CHECK: simt.barrier
// CHECK-NEXT: simt.load_shared %[[B]]
// CHECK: simt.free_shared %[[B]]
func.func @through_shared(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel, simt.threads = 64 : i32} {
  %i = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #a>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #a>
  %xp = tile.addptr %xs, %i : tensor<256x!tile.ptr<f32>, #a>, tensor<256xi32, #a>
  %v = tile.load %xp : tensor<256x!tile.ptr<f32>, #a> -> tensor<256xf32, #a>
  %w = tile.convert_layout %v : tensor<256xf32, #a> -> tensor<256xf32, #spread>
  %j = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #spread>
  %ys = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #spread>
  %yp = tile.addptr %ys, %j : tensor<256x!tile.ptr<f32>, #spread>, tensor<256xi32, #spread>
  tile.store %yp, %w : tensor<256x!tile.ptr<f32>, #spread>, tensor<256xf32, #spread>
  return
}
