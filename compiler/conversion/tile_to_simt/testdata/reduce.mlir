// Reductions: registers, then shuffles, then one exchange among warps.
// RUN: tessera-opt %s -split-input-file -gpu-tile-passes -gpu-simt-passes | FileCheck %s

// CHECK-LABEL: func.func @row_sum(
// CHECK: simt.shared_bytes = 16 : i32
// CHECK: %[[LANE:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// CHECK: simt.load {{.*}} : vector<4xf32>
// CHECK: simt.load {{.*}} : vector<4xf32>
// CHECK-COUNT-7: arith.addf
// CHECK: simt.shuffle xor, %{{.*}}, %c16_i32 : f32
// CHECK: simt.shuffle xor, %{{.*}}, %c1_i32 : f32
// CHECK: %[[B:.*]] = simt.alloc_shared 16 align 16 {offset = 0 : i32}
// CHECK: simt.store_shared %[[B]][%{{.*}}], %{{.*}} if %[[LANE]] : f32
// CHECK-NEXT: simt.barrier
// CHECK-NEXT: simt.load_shared %[[B]][%c0_i32{{.*}}] : vector<4xf32>
// CHECK: simt.free_shared %[[B]]
// CHECK-NOT: simt.barrier
func.func @row_sum(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %i : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %xv = tile.load %xp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%xv) axis 0 : (tensor<1024xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    tile.yield %r : f32
  }
  tile.store %o, %sum : !tile.ptr<f32>, f32
  return
}

// -----

// Rows that a warp owns need no shared memory, and neither does the subtraction of what was reduced from its source.
// CHECK-LABEL: func.func @center_rows(
// CHECK: simt.shared_bytes = 0 : i32
// CHECK-COUNT-5: simt.shuffle xor
// CHECK-NOT: simt.alloc_shared
// CHECK: arith.subf
// CHECK: simt.store {{.*}} : vector<4xf32>
func.func @center_rows(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 4 : i32} : tensor<4xi32>
  %c = tile.range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
  %ce = tile.expand_dims %c {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
  %stride = arith.constant dense<128> : tensor<4x1xi32>
  %ro = arith.muli %re, %stride : tensor<4x1xi32>
  %rb = tile.broadcast %ro : tensor<4x1xi32> -> tensor<4x128xi32>
  %cb = tile.broadcast %ce : tensor<1x128xi32> -> tensor<4x128xi32>
  %off = arith.addi %rb, %cb : tensor<4x128xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<4x128x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %off : tensor<4x128x!tile.ptr<f32>>, tensor<4x128xi32>
  %xv = tile.load %xp : tensor<4x128x!tile.ptr<f32>> -> tensor<4x128xf32>
  %max = tile.reduce(%xv) axis 1 : (tensor<4x128xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    tile.yield %m : f32
  }
  %me = tile.expand_dims %max {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  %mb = tile.broadcast %me : tensor<4x1xf32> -> tensor<4x128xf32>
  %d = arith.subf %xv, %mb : tensor<4x128xf32>
  tile.store %xp, %d : tensor<4x128x!tile.ptr<f32>>, tensor<4x128xf32>
  return
}

// -----

// Scans: in the thread, exclusive prefixes of lanes, one exchange of the warps' totals.
// CHECK-LABEL: func.func @cumsum(
// CHECK: simt.shared_bytes = 16 : i32
// CHECK-COUNT-3: arith.addf
// CHECK: simt.shuffle index
// CHECK: simt.store_shared
// CHECK: simt.barrier
// CHECK: simt.load_shared
// CHECK-NOT: simt.barrier
func.func @cumsum(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 512 : i32} : tensor<512xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %i : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
  %xv = tile.load %xp : tensor<512x!tile.ptr<f32>> -> tensor<512xf32>
  %y = tile.scan(%xv) axis 0 : (tensor<512xf32>) -> tensor<512xf32> {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    tile.yield %r : f32
  }
  tile.store %xp, %y : tensor<512x!tile.ptr<f32>>, tensor<512xf32>
  return
}
