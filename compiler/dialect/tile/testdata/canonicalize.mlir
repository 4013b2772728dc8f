// RUN: tessera-opt %s --canonicalize | FileCheck %s
// What folds without knowing a target.

// CHECK-LABEL: func.func @division_by_one(
// CHECK-SAME: %[[X:.*]]: tensor<4xi32>)
func.func @division_by_one(%x: tensor<4xi32>) -> tensor<4xi32> {
  %one = arith.constant dense<1> : tensor<4xi32>
  %0 = tile.divs %x, %one : tensor<4xi32>
  %1 = tile.divu %0, %one : tensor<4xi32>
  // CHECK-NEXT: return %[[X]]
  return %1 : tensor<4xi32>
}

// CHECK-LABEL: func.func @division_of_constants(
func.func @division_of_constants() -> (i32, i32, i32) {
  %a = arith.constant -7 : i32
  %b = arith.constant 2 : i32
  // CHECK-DAG: %[[Q:.*]] = arith.constant -3 : i32
  // CHECK-DAG: %[[R:.*]] = arith.constant -1 : i32
  // CHECK-DAG: %[[U:.*]] = arith.constant 2147483644 : i32
  %0 = tile.divs %a, %b : i32
  %1 = tile.rems %a, %b : i32
  %2 = tile.divu %a, %b : i32
  // CHECK: return %[[Q]], %[[R]], %[[U]]
  return %0, %1, %2 : i32, i32, i32
}

// Division by zero is unspecified but stays what the target makes of it.
// CHECK-LABEL: func.func @division_by_zero(
func.func @division_by_zero(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %seven = arith.constant 7 : i32
  // CHECK: tile.divs
  %0 = tile.divs %seven, %zero : i32
  return %0 : i32
}

// CHECK-LABEL: func.func @splats(
func.func @splats() -> tensor<4x8xf32> {
  %c = arith.constant 2.5 : f32
  %0 = tile.splat %c : f32 -> tensor<4xf32>
  %1 = tile.expand_dims %0 {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  %2 = tile.broadcast %1 : tensor<4x1xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %[[C:.*]] = arith.constant dense<2.500000e+00> : tensor<4x8xf32>
  // CHECK-NEXT: return %[[C]]
  return %2 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @nothing_to_do(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>, %[[X:.*]]: tensor<4x8xf32>, %[[S:.*]]: f32)
func.func @nothing_to_do(%p: !tile.ptr<f32>, %x: tensor<4x8xf32>, %s: f32) -> (!tile.ptr<f32>, tensor<4x8xf32>, f32) {
  %zero = arith.constant 0 : i32
  %0 = tile.addptr %p, %zero : !tile.ptr<f32>, i32
  %1 = tile.reshape %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tile.trans %1 {order = array<i32: 0, 1>} : tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = tile.fp_to_fp %2 : tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = tile.splat %s : f32 -> tensor<1xf32>
  %5 = tile.unsplat %4 : tensor<1xf32> -> f32
  // CHECK-NEXT: return %[[P]], %[[X]], %[[S]]
  return %0, %3, %5 : !tile.ptr<f32>, tensor<4x8xf32>, f32
}

// CHECK-LABEL: func.func @conversions(
func.func @conversions() -> (f16, bf16, f8E4M3FN) {
  %c = arith.constant 1.00097656 : f32
  // CHECK-DAG: %[[H:.*]] = arith.constant 1.000980e+00 : f16
  // CHECK-DAG: %[[B:.*]] = arith.constant 1.000000e+00 : bf16
  %0 = tile.fp_to_fp %c : f32 -> f16
  %1 = tile.fp_to_fp %c {rounding = #tile<rounding rtz>} : f32 -> bf16
  // fp8 saturates: left to the targets.
  // CHECK: %[[E:.*]] = tile.fp_to_fp
  %2 = tile.fp_to_fp %c : f32 -> f8E4M3FN
  // CHECK: return %[[H]], %[[B]], %[[E]]
  return %0, %1, %2 : f16, bf16, f8E4M3FN
}

// A load whose value nobody reads goes, unless it is volatile.
// CHECK-LABEL: func.func @unused_loads(
func.func @unused_loads(%p: !tile.ptr<f32>) {
  // CHECK-NEXT: tile.load %{{.*}} {is_volatile}
  // CHECK-NEXT: return
  %0 = tile.load %p : !tile.ptr<f32> -> f32
  %1 = tile.load %p {is_volatile} : !tile.ptr<f32> -> f32
  return
}
