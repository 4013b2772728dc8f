// Sums are added as the threads of a GPU add them.
// RUN: tessera-opt %s -order-sums | FileCheck %s

// One element a thread: the lanes are folded in halves.
// CHECK-LABEL: func @lanes
// CHECK: tile.reshape %arg0 : tensor<4xf32> -> tensor<1x2x2xf32>
// CHECK: tile.reduce({{.*}}) axis 1 : (tensor<1x2x2xf32>) -> tensor<1x2xf32>
// CHECK: tile.reshape {{.*}} -> tensor<1x2x1xf32>
// CHECK: tile.reduce({{.*}}) axis 1 : (tensor<1x2x1xf32>) -> tensor<1x1xf32>
// CHECK: tile.unsplat
func.func @lanes(%x: tensor<4xf32>) -> f32 {
  %s = tile.reduce(%x) axis 0 : (tensor<4xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  }
  return %s : f32
}

// Four consecutive elements a thread, of two warps: threads add theirs in order, then lanes, then warps.
// CHECK-LABEL: func @threads
// CHECK: tile.reduce({{.*}}) axis 1 {ordered} : (tensor<64x4xf32>) -> tensor<64xf32>
// CHECK: tensor<64xf32> -> tensor<2x2x16xf32>
// CHECK: (tensor<2x2x1xf32>) -> tensor<2x1xf32>
// CHECK: tensor<2xf32> -> tensor<1x2x1xf32>
func.func @threads(%p: !tile.ptr<f32> {tile.divisibility = 16}) -> f32 attributes {tile.num_warps = 2 : i32} {
  %range = tile.range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %ptr = tile.addptr %base, %range : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %x = tile.load %ptr : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %s = tile.reduce(%x) axis 0 : (tensor<256xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  }
  return %s : f32
}

// A product is fused with the first addition.
// CHECK-LABEL: func @product
// CHECK: %[[HIGH:.*]] = arith.mulf
// CHECK: math.fma {{.*}}, {{.*}}, %[[HIGH]] : tensor<1x4xbf16>
func.func @product(%x: tensor<8xbf16>) -> bf16 {
  %p = arith.mulf %x, %x : tensor<8xbf16>
  %s = tile.reduce(%p) axis 0 : (tensor<8xbf16>) -> bf16 {
  ^bb0(%a: bf16, %b: bf16):
    %0 = arith.addf %a, %b : bf16
    tile.yield %0 : bf16
  }
  return %s : bf16
}

// Other functions, and sums whose order is given, stay.
// CHECK-LABEL: func @others
// CHECK-NOT: tile.reshape
func.func @others(%x: tensor<8xf32>) -> (f32, f32) {
  %m = tile.reduce(%x) axis 0 : (tensor<8xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.maxnumf %a, %b : f32
    tile.yield %0 : f32
  }
  %s = tile.reduce(%x) axis 0 {ordered} : (tensor<8xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  }
  return %m, %s : f32, f32
}
