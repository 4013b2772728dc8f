// Arithmetic on 16-bit floats is done in f32 and rounded after each operation; storage and selection stay narrow.
// RUN: tessera-opt %s -widen-small-floats | FileCheck %s

// CHECK-LABEL: func @rounds_twice
func.func @rounds_twice(%a: tensor<64xf16>, %b: tensor<64xf16>) -> tensor<64xf16> {
  // CHECK: %[[A:.*]] = tile.fp_to_fp %{{.*}} : tensor<64xf16> -> tensor<64xf32>
  // CHECK: %[[B:.*]] = tile.fp_to_fp %{{.*}} : tensor<64xf16> -> tensor<64xf32>
  // CHECK: %[[M:.*]] = arith.mulf %[[A]], %[[B]] : tensor<64xf32>
  // CHECK: %[[R:.*]] = tile.fp_to_fp %[[M]] : tensor<64xf32> -> tensor<64xf16>
  %m = arith.mulf %a, %b : tensor<64xf16>
  // CHECK: %[[W:.*]] = tile.fp_to_fp %[[R]] : tensor<64xf16> -> tensor<64xf32>
  // CHECK: arith.addf %[[W]], %{{.*}} : tensor<64xf32>
  // CHECK: tile.fp_to_fp %{{.*}} : tensor<64xf32> -> tensor<64xf16>
  %s = arith.addf %m, %a : tensor<64xf16>
  return %s : tensor<64xf16>
}

// CHECK-LABEL: func @comparison
func.func @comparison(%a: bf16, %b: bf16) -> bf16 {
  // CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
  %c = arith.cmpf olt, %a, %b : bf16
  // CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : bf16
  %s = arith.select %c, %a, %b : bf16
  return %s : bf16
}

// Constants are widened at compile time; conversions from integers round once.
// CHECK-LABEL: func @constants
func.func @constants(%a: tensor<64xf16>, %i: tensor<64xi32>) -> tensor<64xf16> {
  // CHECK: arith.sitofp %{{.*}} : tensor<64xi32> to tensor<64xf16>
  %f = arith.sitofp %i : tensor<64xi32> to tensor<64xf16>
  %k = arith.constant dense<1.5> : tensor<64xf16>
  // CHECK: arith.constant dense<1.500000e+00> : tensor<64xf32>
  // CHECK: arith.mulf {{.*}} : tensor<64xf32>
  %m = arith.mulf %f, %k : tensor<64xf16>
  return %m : tensor<64xf16>
}

// CHECK-LABEL: func @in_combine_functions
func.func @in_combine_functions(%a: tensor<64xf16>) -> f16 {
  %s = tile.reduce(%a) axis 0 : (tensor<64xf16>) -> f16 {
  ^bb0(%x: f16, %y: f16):
    // CHECK: arith.addf {{.*}} : f32
    // CHECK: tile.fp_to_fp {{.*}} : f32 -> f16
    %0 = arith.addf %x, %y : f16
    tile.yield %0 : f16
  }
  return %s : f16
}

// CHECK-LABEL: func @sums_of_products
func.func @sums_of_products(%a: tensor<16x16xf16>, %c: tensor<16x16xf16>) -> tensor<16x16xf16> {
  // CHECK: tile.dot %arg0, %arg0, %{{.*}} : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
  // CHECK: tile.fp_to_fp %{{.*}} : tensor<16x16xf32> -> tensor<16x16xf16>
  %d = tile.dot %a, %a, %c, ieee : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf16>
  return %d : tensor<16x16xf16>
}
