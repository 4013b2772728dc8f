// Homes and demands: what keeps a layout, what is computed twice, what is converted.
// RUN: tessera-opt %s -split-input-file -assign-layouts -cse | FileCheck %s

// Neighbours in memory in one thread, as many as an access of 16 bytes takes, then lanes, then warps.
// CHECK-LABEL: func.func @copy(
// CHECK-SAME: simt.threads = 128 : i32
// CHECK: tile.range {{.*}} : tensor<2048xi32, #tile.layout<registers = [1, 2, 4, 1024], lanes = [8, 16, 32, 64, 128], warps = [256, 512]>>
// CHECK-NOT: tile.convert_layout
// CHECK: tile.store
func.func @copy(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 2048 : i32} : tensor<2048xi32>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<2048x!tile.ptr<f16>>
  %xp = tile.addptr %xs, %i : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
  %v = tile.load %xp : tensor<2048x!tile.ptr<f16>> -> tensor<2048xf16>
  tile.store %xp, %v : tensor<2048x!tile.ptr<f16>>, tensor<2048xf16>
  return
}

// -----

// A transposing copy: each side as its memory likes it, one conversion between, of the narrow value.
// CHECK-LABEL: func.func @transpose(
// CHECK: tile.load {{.*}} -> tensor<64x64xf16, #tile.layout<registers = [1, 2, 4, {{.*}}], lanes = [8, 16, 32, {{.*}}>>
// CHECK: %[[C:.*]] = tile.convert_layout %{{.*}} : tensor<64x64xf16, {{.*}}> -> tensor<64x64xf16, #tile.layout<registers = [64, 128, {{.*}}>>
// CHECK: arith.extf %[[C]]
// CHECK-NOT: tile.convert_layout
// CHECK: tile.store
func.func @transpose(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tile.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %c64r = arith.constant dense<64> : tensor<64x1xi32>
  %c64c = arith.constant dense<64> : tensor<1x64xi32>
  %rs = arith.muli %re, %c64r : tensor<64x1xi32>
  %cs = arith.muli %ce, %c64c : tensor<1x64xi32>
  %r0 = tile.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %c0 = tile.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %re : tensor<64x1xi32> -> tensor<64x64xi32>
  %c1 = tile.broadcast %cs : tensor<1x64xi32> -> tensor<64x64xi32>
  %from = arith.addi %r0, %c0 : tensor<64x64xi32>
  %to = arith.addi %r1, %c1 : tensor<64x64xi32>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %xp = tile.addptr %xs, %from : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %v = tile.load %xp : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
  %w = arith.extf %v : tensor<64x64xf16> to tensor<64x64xf32>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %yp = tile.addptr %ys, %to : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  tile.store %yp, %w : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// A short vector that is added to each row is read in the layout of the rows.
// CHECK-LABEL: func.func @bias(
// CHECK-NOT: tile.convert_layout
// CHECK: tile.store
func.func @bias(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %b: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tile.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %c64 = arith.constant dense<64> : tensor<64x1xi32>
  %rs = arith.muli %re, %c64 : tensor<64x1xi32>
  %r0 = tile.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %c0 = tile.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %r0, %c0 : tensor<64x64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %at : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %v = tile.load %xp : tensor<64x64x!tile.ptr<f32>> -> tensor<64x64xf32>
  %bs = tile.splat %b : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %bp = tile.addptr %bs, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %bv = tile.load %bp : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %be = tile.expand_dims %bv {axis = 0 : i32} : tensor<64xf32> -> tensor<1x64xf32>
  %bb = tile.broadcast %be : tensor<1x64xf32> -> tensor<64x64xf32>
  %s = arith.addf %v, %bb : tensor<64x64xf32>
  tile.store %xp, %s : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
