// Products are fused with the sums that they go into; of two, the one with fewer uses, else the left one.
// RUN: tessera-opt %s -contract-multiply-add | FileCheck %s

// CHECK-LABEL: func @left_of_two
// CHECK-SAME: %[[A:[^:]*]]: tensor<4xf32>, %[[B:[^:]*]]: tensor<4xf32>
func.func @left_of_two(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[Q:.*]] = arith.mulf %[[B]], %[[B]]
  // CHECK-NEXT: %[[S:.*]] = math.fma %[[A]], %[[B]], %[[Q]]
  // CHECK-NEXT: return %[[S]]
  %p = arith.mulf %a, %b : tensor<4xf32>
  %q = arith.mulf %b, %b : tensor<4xf32>
  %s = arith.addf %p, %q : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL: func @fewer_uses
func.func @fewer_uses(%a: f32, %b: f32) -> (f32, f32) {
  // CHECK: %[[P:.*]] = arith.mulf %arg0, %arg1
  // CHECK: %[[S:.*]] = math.fma %arg1, %arg1, %[[P]]
  // CHECK: return %[[S]], %[[P]]
  %p = arith.mulf %a, %b : f32
  %q = arith.mulf %b, %b : f32
  %s = arith.addf %p, %q : f32
  return %s, %p : f32, f32
}

// CHECK-LABEL: func @subtracted
func.func @subtracted(%a: f64, %b: f64) -> (f64, f64) {
  // CHECK-DAG: %[[N:.*]] = arith.negf %arg0
  // CHECK-DAG: math.fma %[[N]], %arg1, %arg1
  // CHECK-DAG: %[[M:.*]] = arith.negf %arg1
  // CHECK-DAG: math.fma %arg0, %arg1, %[[M]]
  %p = arith.mulf %a, %b : f64
  %s = arith.subf %b, %p : f64
  %q = arith.mulf %a, %b : f64
  %t = arith.subf %q, %b : f64
  return %s, %t : f64, f64
}

// CHECK-LABEL: func @not_asked_for
func.func @not_asked_for(%a: f32, %h: f16) -> (f32, f16) attributes {tile.no_fp_fusion} {
  // CHECK-NOT: math.fma
  %p = arith.mulf %a, %a : f32
  %s = arith.addf %p, %a : f32
  %q = arith.mulf %h, %h : f16
  %t = arith.addf %q, %h : f16
  return %s, %t : f32, f16
}
