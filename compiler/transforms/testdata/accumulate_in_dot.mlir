// A product from zero that is only added to something starts from that.
// RUN: tessera-opt %s -accumulate-in-dot | FileCheck %s

// CHECK-LABEL: func @added
// CHECK-SAME: %[[A:[^:]*]]: tensor<16x16xf32>, %[[X:[^:]*]]: tensor<16x16xf32>
func.func @added(%a: tensor<16x16xf32>, %x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tile.dot %a, %a, %zero, ieee : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
  %y = arith.mulf %x, %x : tensor<16x16xf32>
  // CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[X]]
  // CHECK: %[[D:.*]] = tile.dot %[[A]], %[[A]], %[[Y]],
  // CHECK-NOT: arith.addf
  // CHECK: return %[[D]]
  %s = arith.addf %y, %d : tensor<16x16xf32>
  return %s : tensor<16x16xf32>
}

// CHECK-LABEL: func @used_twice
func.func @used_twice(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tile.dot %a, %a, %zero, ieee : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
  // CHECK: arith.addf
  %s = arith.addf %d, %d : tensor<16x16xf32>
  return %s : tensor<16x16xf32>
}
