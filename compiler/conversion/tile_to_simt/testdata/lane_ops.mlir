// Elementwise kernels: wide accesses, predicates from masks, one owner an element.
// RUN: tessera-opt %s -split-input-file -gpu-tile-passes -gpu-simt-passes | FileCheck %s

// CHECK-LABEL: func.func @add(
// CHECK-SAME: %[[X:.*]]: i64 {simt.pointer, tile.divisibility = 16 : i64}, %{{.*}}: i64 {{.*}}, %[[O:[^:]*]]: i64 {{.*}}, %[[N:[^:]*]]: i32
// CHECK-SAME: simt.kernel, simt.shared_bytes = 0 : i32, simt.threads = 128 : i32
// CHECK: %[[T:.*]] = simt.thread_id : i32
// CHECK: %[[FIRST:.*]] = arith.shli %[[T]], %c2_i32
// CHECK: %[[IN:.*]] = arith.cmpi slt, %{{.*}}, %[[N]]
// CHECK: simt.load %{{.*}} if %[[IN]] : vector<4xf32>
// Registers in one run are at constant distances.
// CHECK: arith.addi %{{.*}}, %c2048_i64 : i64
// CHECK: simt.load {{.*}} : vector<4xf32>
// CHECK-COUNT-2: simt.load {{.*}} : vector<4xf32>
// CHECK-COUNT-8: arith.addf
// CHECK: simt.store {{.*}} if {{.*}} : vector<4xf32>
// CHECK: simt.store {{.*}} if {{.*}} : vector<4xf32>
// CHECK-NOT: simt.store
func.func @add(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %pid = tile.program_id 0 : i32
  %c = arith.constant 1024 : i32
  %base = arith.muli %pid, %c : i32
  %bs = tile.splat %base : i32 -> tensor<1024xi32>
  %r = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %i = arith.addi %bs, %r : tensor<1024xi32>
  %ns = tile.splat %n : i32 -> tensor<1024xi32>
  %m = arith.cmpi slt, %i, %ns : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %i : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %xv = tile.load %xp mask %m : tensor<1024xi1> : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %yp = tile.addptr %ys, %i : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %yv = tile.load %yp mask %m : tensor<1024xi1> : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %s = arith.addf %xv, %yv : tensor<1024xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %op = tile.addptr %os, %i : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %op, %s mask %m : tensor<1024xi1> : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// -----

// A bound that nothing is known of: lane by lane, neighbouring lanes on neighbouring elements; `other` where masked off.
// CHECK-LABEL: func.func @odd(
// CHECK: %[[T:.*]] = simt.thread_id : i32
// CHECK: arith.addi %[[T]], %c128_i32
// CHECK-COUNT-8: simt.load %{{.*}} if %{{.*}} else %{{.*}} : f16 : f16
func.func @odd(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %ns = tile.splat %n : i32 -> tensor<1024xi32>
  %m = arith.cmpi slt, %i, %ns : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
  %xp = tile.addptr %xs, %i : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
  %one = arith.constant dense<1.0> : tensor<1024xf16>
  %xv = tile.load %xp mask %m : tensor<1024xi1> other %one : tensor<1024xf16> : tensor<1024x!tile.ptr<f16>> -> tensor<1024xf16>
  tile.store %xp, %xv mask %m : tensor<1024xi1> : tensor<1024x!tile.ptr<f16>>, tensor<1024xf16>
  return
}

// -----

// Fewer elements than threads: the lowest threads store, a scalar is stored by the first thread.
// CHECK-LABEL: func.func @small(
// CHECK: %[[T:.*]] = simt.thread_id : i32
// CHECK: %[[EXTRA:.*]] = arith.andi %[[T]], %c112_i32
// CHECK: %[[OWNER:.*]] = arith.cmpi eq, %[[EXTRA]], %c0_i32
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[T]], %c0_i32
// CHECK: simt.store %{{.*}}, %{{.*}} if %[[OWNER]] : i8
// CHECK: simt.store %{{.*}}, %{{.*}} if %[[FIRST]] : i8
func.func @small(%x: !tile.ptr<i8>) attributes {tile.kernel} {
  %i = tile.range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %v = arith.trunci %i : tensor<16xi32> to tensor<16xi8>
  %xs = tile.splat %x : !tile.ptr<i8> -> tensor<16x!tile.ptr<i8>>
  %xp = tile.addptr %xs, %i : tensor<16x!tile.ptr<i8>>, tensor<16xi32>
  tile.store %xp, %v : tensor<16x!tile.ptr<i8>>, tensor<16xi8>
  %c = arith.constant 1 : i8
  tile.store %x, %c : !tile.ptr<i8>, i8
  return
}

// -----

// Loops carry one scalar a register; outer products are made of lines without data movement.
// CHECK-LABEL: func.func @rows(
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, f32, f32, f32)
// CHECK: simt.load {{.*}} : vector<4xf32>
// CHECK-NOT: simt.alloc_shared
// CHECK: scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32, f32
func.func @rows(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %stride: i32 {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
  %c = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tile.expand_dims %r {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
  %ce = tile.expand_dims %c {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %ss = tile.splat %stride : i32 -> tensor<8x1xi32>
  %ro = arith.muli %re, %ss : tensor<8x1xi32>
  %rb = tile.broadcast %ro : tensor<8x1xi32> -> tensor<8x64xi32>
  %cb = tile.broadcast %ce : tensor<1x64xi32> -> tensor<8x64xi32>
  %off = arith.addi %rb, %cb : tensor<8x64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<8x64x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %off : tensor<8x64x!tile.ptr<f32>>, tensor<8x64xi32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<8x64x!tile.ptr<f32>>
  %op = tile.addptr %os, %off : tensor<8x64x!tile.ptr<f32>>, tensor<8x64xi32>
  %zero = arith.constant dense<0.0> : tensor<8x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<8x64xf32>) : i32 {
    %v = tile.load %xp : tensor<8x64x!tile.ptr<f32>> -> tensor<8x64xf32>
    %next = arith.addf %acc, %v : tensor<8x64xf32>
    scf.yield %next : tensor<8x64xf32>
  }
  tile.store %op, %sum : tensor<8x64x!tile.ptr<f32>>, tensor<8x64xf32>
  return
}
