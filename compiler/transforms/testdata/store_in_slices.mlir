// What follows a large product becomes a loop over slices of its rows.
// RUN: tessera-opt %s -split-input-file -store-in-slices="num-warps=4" | FileCheck %s

// Bias and activation are computed on what comes back from shared memory; nothing of the whole block's size is left.
// CHECK-LABEL: func.func @epilogue(
// CHECK: %[[D:.*]] = tile.dot {{.*}} -> tensor<64x128xf32>
// CHECK-NOT: tensor<64x128xf32>
// CHECK: %[[B:.*]] = tile.shared_put %[[D]] : tensor<64x128xf32> ->
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %c8_i32{{.*}} step
// CHECK: %[[FIRST:.*]] = arith.muli %[[I]], %c8_i32
// CHECK: tile.range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
// CHECK: tile.splat %[[FIRST]]
// CHECK: tile.shared_slice %[[B]][%[[I]]] : {{.*}} -> tensor<8x128xf32>
// CHECK: tile.broadcast %{{.*}} : tensor<1x128xf32> -> tensor<8x128xf32>
// CHECK: math.erf %{{.*}} : tensor<8x128xf32>
// CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<8x128xi1>
// CHECK: tile.shared_free %[[B]]
// CHECK-NOT: tile.store
func.func @epilogue(%a: tensor<64x32xf16>, %b: tensor<32x128xf16>, %bias: tensor<1x128xf32>, %out: !tile.ptr<f16>, %stride: i32, %m: i32) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %d = tile.dot %a, %b, %zero, ieee : tensor<64x32xf16> * tensor<32x128xf16> -> tensor<64x128xf32>
  %bb = tile.broadcast %bias : tensor<1x128xf32> -> tensor<64x128xf32>
  %s = arith.addf %d, %bb : tensor<64x128xf32>
  %e = math.erf %s : tensor<64x128xf32>
  %v = arith.truncf %e : tensor<64x128xf32> to tensor<64x128xf16>
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %c = tile.range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %ce = tile.expand_dims %c {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
  %ss = tile.splat %stride : i32 -> tensor<64x1xi32>
  %rs = arith.muli %re, %ss : tensor<64x1xi32>
  %os = tile.splat %out : !tile.ptr<f16> -> tensor<64x1x!tile.ptr<f16>>
  %orow = tile.addptr %os, %rs : tensor<64x1x!tile.ptr<f16>>, tensor<64x1xi32>
  %ob = tile.broadcast %orow : tensor<64x1x!tile.ptr<f16>> -> tensor<64x128x!tile.ptr<f16>>
  %cb = tile.broadcast %ce : tensor<1x128xi32> -> tensor<64x128xi32>
  %p = tile.addptr %ob, %cb : tensor<64x128x!tile.ptr<f16>>, tensor<64x128xi32>
  %ms = tile.splat %m : i32 -> tensor<64x1xi32>
  %in = arith.cmpi slt, %re, %ms : tensor<64x1xi32>
  %mask = tile.broadcast %in : tensor<64x1xi1> -> tensor<64x128xi1>
  tile.store %p, %v mask %mask : tensor<64x128xi1> : tensor<64x128x!tile.ptr<f16>>, tensor<64x128xf16>
  return
}

// -----

// What is reduced too is computed once, and kept.
// CHECK-LABEL: func.func @reduced(
// CHECK: %[[E:.*]] = math.exp %{{.*}} : tensor<64x128xf32>
// CHECK: %[[SUM:.*]] = tile.reduce(%[[E]])
// CHECK-DAG: tile.shared_put %[[E]]
// CHECK-DAG: tile.shared_put %[[SUM]] : tensor<64xf32>
// CHECK: scf.for
// CHECK-NOT: math.exp
// CHECK: arith.divf %{{.*}}, %{{.*}} : tensor<8x128xf32>
func.func @reduced(%a: tensor<64x32xf16>, %b: tensor<32x128xf16>, %out: !tile.ptr<f32>) attributes {tile.kernel} {
  %one = arith.constant dense<1.0> : tensor<64x128xf32>
  %d = tile.dot %a, %b, %one, ieee : tensor<64x32xf16> * tensor<32x128xf16> -> tensor<64x128xf32>
  %e = math.exp %d : tensor<64x128xf32>
  %sum = tile.reduce(%e) axis 1 : (tensor<64x128xf32>) -> tensor<64xf32> {
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    tile.yield %z : f32
  }
  %se = tile.expand_dims %sum {axis = 1 : i32} : tensor<64xf32> -> tensor<64x1xf32>
  %sb = tile.broadcast %se : tensor<64x1xf32> -> tensor<64x128xf32>
  %q = arith.divf %e, %sb : tensor<64x128xf32>
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %c = tile.range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %ce = tile.expand_dims %c {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
  %rows = arith.constant dense<128> : tensor<64x1xi32>
  %columns = arith.constant dense<1> : tensor<1x128xi32>
  %rs = arith.muli %re, %rows : tensor<64x1xi32>
  %cs = arith.muli %ce, %columns : tensor<1x128xi32>
  %rb = tile.broadcast %rs : tensor<64x1xi32> -> tensor<64x128xi32>
  %cb = tile.broadcast %cs : tensor<1x128xi32> -> tensor<64x128xi32>
  %o = arith.addi %rb, %cb : tensor<64x128xi32>
  %os = tile.splat %out : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %p = tile.addptr %os, %o : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  tile.store %p, %q : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xf32>
  return
}

// -----

// Stored in columns, or without a product: left alone.
// CHECK-LABEL: func.func @columns(
// CHECK-NOT: scf.for
func.func @columns(%a: tensor<64x32xf16>, %b: tensor<32x128xf16>, %out: !tile.ptr<f32>) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %d = tile.dot %a, %b, %zero, ieee : tensor<64x32xf16> * tensor<32x128xf16> -> tensor<64x128xf32>
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %c = tile.range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %ce = tile.expand_dims %c {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
  %rows = arith.constant dense<1> : tensor<64x1xi32>
  %columns = arith.constant dense<64> : tensor<1x128xi32>
  %rs = arith.muli %re, %rows : tensor<64x1xi32>
  %cs = arith.muli %ce, %columns : tensor<1x128xi32>
  %rb = tile.broadcast %rs : tensor<64x1xi32> -> tensor<64x128xi32>
  %cb = tile.broadcast %cs : tensor<1x128xi32> -> tensor<64x128xi32>
  %o = arith.addi %rb, %cb : tensor<64x128xi32>
  %os = tile.splat %out : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %p = tile.addptr %os, %o : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  tile.store %p, %d : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xf32>
  return
}

// CHECK-LABEL: func.func @no_product(
// CHECK-NOT: scf.for
func.func @no_product(%x: tensor<64x128xf32>, %out: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %c = tile.range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %ce = tile.expand_dims %c {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
  %rows = arith.constant dense<128> : tensor<64x1xi32>
  %columns = arith.constant dense<1> : tensor<1x128xi32>
  %rs = arith.muli %re, %rows : tensor<64x1xi32>
  %cs = arith.muli %ce, %columns : tensor<1x128xi32>
  %rb = tile.broadcast %rs : tensor<64x1xi32> -> tensor<64x128xi32>
  %cb = tile.broadcast %cs : tensor<1x128xi32> -> tensor<64x128xi32>
  %o = arith.addi %rb, %cb : tensor<64x128xi32>
  %os = tile.splat %out : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %p = tile.addptr %os, %o : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  tile.store %p, %x : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xf32>
  return
}
