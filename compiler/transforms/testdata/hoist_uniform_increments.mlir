// Pointer blocks that advance by a scalar are recomputed from a carried scalar; others by the number of iterations.
// RUN: tessera-opt %s -hoist-uniform-increments -canonicalize | FileCheck %s

// CHECK-LABEL: func @pointers
// CHECK-SAME: %[[INIT:[^:]*]]: tensor<64x!tile.ptr<f32>>, %[[STRIDE:[^:]*]]: i32
func.func @pointers(%init: tensor<64x!tile.ptr<f32>>, %stride: i32, %n: i32) -> tensor<64x!tile.ptr<f32>> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = tile.splat %stride : i32 -> tensor<64xi32>
  // CHECK: %[[WIDE:.*]] = arith.extsi %[[STRIDE]] : i32 to i64
  // CHECK: %[[LAST:.*]] = scf.for {{.*}} iter_args(%[[N:.*]] = %{{.*}}) -> (i64)
  // CHECK: %[[D:.*]] = tile.splat %[[N]] : i64 -> tensor<64xi64>
  // CHECK: %[[P:.*]] = tile.addptr %[[INIT]], %[[D]]
  // CHECK: tile.load %[[P]]
  // CHECK: %[[NEXT:.*]] = arith.addi %[[N]], %[[WIDE]] : i64
  // CHECK: scf.yield %[[NEXT]] : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%p = %init) -> (tensor<64x!tile.ptr<f32>>) : i32 {
    %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
    tile.store %p, %v : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
    %next = tile.addptr %p, %step : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    scf.yield %next : tensor<64x!tile.ptr<f32>>
  }
  // CHECK: %[[E:.*]] = tile.splat %[[LAST]] : i64
  // CHECK: %[[R:.*]] = tile.addptr %[[INIT]], %[[E]]
  // CHECK: return %[[R]]
  return %last : tensor<64x!tile.ptr<f32>>
}

// CHECK-LABEL: func @different_amounts
// CHECK-SAME: %[[INIT:[^:]*]]: tensor<64xi32>, %[[BY:[^:]*]]: tensor<64xi32>
func.func @different_amounts(%init: tensor<64xi32>, %by: tensor<64xi32>, %out: tensor<64x!tile.ptr<i32>>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // CHECK: scf.for {{.*}} iter_args(%[[N:.*]] = %{{.*}}) -> (i32)
  // CHECK: %[[COUNT:.*]] = tile.splat %[[N]] : i32 -> tensor<64xi32>
  // CHECK: %[[D:.*]] = arith.muli %[[COUNT]], %[[BY]]
  // CHECK: %[[V:.*]] = arith.addi %[[INIT]], %[[D]]
  // CHECK: tile.store %{{.*}}, %[[V]]
  %last = scf.for %i = %zero to %n step %one iter_args(%v = %init) -> (tensor<64xi32>) : i32 {
    tile.store %out, %v : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
    %next = arith.addi %v, %by : tensor<64xi32>
    scf.yield %next : tensor<64xi32>
  }
  return
}

// A sum of what the loop computes stays a carried block.
// CHECK-LABEL: func @sums_stay
func.func @sums_stay(%init: tensor<64xi32>, %p: tensor<64x!tile.ptr<i32>>, %n: i32) -> tensor<64xi32> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // CHECK: scf.for {{.*}} -> (tensor<64xi32>)
  %last = scf.for %i = %zero to %n step %one iter_args(%v = %init) -> (tensor<64xi32>) : i32 {
    %x = tile.load %p : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
    %next = arith.addi %v, %x : tensor<64xi32>
    scf.yield %next : tensor<64xi32>
  }
  return %last : tensor<64xi32>
}
