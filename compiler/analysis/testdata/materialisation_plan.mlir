// Which blocks are kept in memory, and which nests make them.
// RUN: tessera-opt %s -mlir-disable-threading -split-input-file -tile-to-loops="vector-bits=512 print-plan" -o /dev/null | FileCheck %s

// Softmax: three passes over the row. Only the exponentials are kept, in the nest that sums them; the input is read
// again instead.
// CHECK: scratch 4096 bytes
// CHECK-NEXT: buffer 0: 1024xf32, value, at 0
// CHECK-NEXT: block of func.func:
// CHECK-NEXT: nest 1024 along 0: tile.reduce
// CHECK-NEXT: nest 1024 along 0: math.exp -> 0, tile.reduce
// CHECK-NEXT: nest 1024: tile.store
func.func @softmax(%p: !tile.ptr<f32>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %pp = tile.addptr %ps, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %x = tile.load %pp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %m = tile.reduce(%x) axis 0 : (tensor<1024xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.maxnumf %a, %b : f32
    tile.yield %0 : f32
  }
  %ms = tile.splat %m : f32 -> tensor<1024xf32>
  %d = arith.subf %x, %ms : tensor<1024xf32>
  %e = math.exp %d : tensor<1024xf32>
  %s = tile.reduce(%e) axis 0 : (tensor<1024xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  }
  %ss = tile.splat %s : f32 -> tensor<1024xf32>
  %q = arith.divf %e, %ss : tensor<1024xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %op = tile.addptr %os, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %op, %q : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// -----

// A product in a loop: one buffer for the sums, updated in place; an operand from outside the loop is packed before it.
// CHECK: buffer [[SUM:[0-9]+]]: 32x32xf32, carried
// CHECK: buffer [[A:[0-9]+]]: 1024xf32, packed a
// CHECK: buffer [[B:[0-9]+]]: 1024xf32, packed b
// CHECK: block of func.func:
// CHECK-NEXT: pack a -> [[A]]
// CHECK-NEXT: start operand 0 -> [[SUM]]
// CHECK-NEXT: scf.for -> [[SUM]]
// CHECK-NEXT: nest 32x32: tile.store
// CHECK-NEXT: block of scf.for:
// CHECK-NEXT: pack b -> [[B]]
// CHECK-NEXT: tile.dot -> [[SUM]]
// CHECK-NOT: yield
func.func @product(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %r2 = tile.reshape %r : tensor<1024xi32> -> tensor<32x32xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<32x32x!tile.ptr<f32>>
  %pp = tile.addptr %ps, %r2 : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xi32>
  %a = tile.load %pp : tensor<32x32x!tile.ptr<f32>> -> tensor<32x32xf32>
  %zero = arith.constant dense<0.0> : tensor<32x32xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %u = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<32x32xf32>) : i32 {
    %is = tile.splat %i : i32 -> tensor<32x32xi32>
    %bp = tile.addptr %pp, %is : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xi32>
    %b = tile.load %bp : tensor<32x32x!tile.ptr<f32>> -> tensor<32x32xf32>
    %d = tile.dot %a, %b, %c, ieee : tensor<32x32xf32> * tensor<32x32xf32> -> tensor<32x32xf32>
    scf.yield %d : tensor<32x32xf32>
  }
  tile.store %pp, %u : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xf32>
  return
}

// -----

// Two carried blocks that change places go through a temporary.
// CHECK: block of scf.for:
// CHECK-NEXT: yield operand 0 -> [[X:[0-9]+]] through [[T:[0-9]+]]
// CHECK-NEXT: yield operand 1 -> [[Y:[0-9]+]]
func.func @swap(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %k = arith.constant dense<7> : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %u:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %r, %y = %k) -> (tensor<64xi32>, tensor<64xi32>) : i32 {
    scf.yield %y, %x : tensor<64xi32>, tensor<64xi32>
  }
  tile.store %pp, %u#0 : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  return
}

// -----

// A load stays before a later write to memory that it may read.
// CHECK: buffer 0: 64xi32, load
// CHECK: nest 64: tile.load -> 0
// CHECK-NEXT: nest 64: tile.store
// CHECK-NEXT: nest 64: tile.store
func.func @write_between(%p: !tile.ptr<i32>, %q: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %qs = tile.splat %q : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %qp = tile.addptr %qs, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %x = tile.load %pp : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  tile.store %qp, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  tile.store %pp, %x : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  return
}
