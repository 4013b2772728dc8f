// Blocks of a described tensor are loaded through pointers, inside its bounds.
// RUN: tessera-opt %s -expand-descriptors -canonicalize | FileCheck %s

// CHECK-LABEL: func @copy
// CHECK-SAME: %[[P:[^:]*]]: !tile.ptr<f32>, %[[N:[^:]*]]: i32, %[[S:[^:]*]]: i64
func.func @copy(%p: !tile.ptr<f32>, %n: i32, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  // CHECK-NOT: make_desc
  %d = tile.make_desc %p, [%n, %n], [%s, %one] : !tile.ptr<f32> -> !tile.desc<[16, 32], f32>
  // CHECK-DAG: tile.range {end = 16 : i32, start = 0 : i32}
  // CHECK-DAG: tile.range {end = 32 : i32, start = 0 : i32}
  // CHECK-DAG: arith.cmpi sge
  // CHECK-DAG: arith.cmpi slt
  // CHECK: %[[MASK:.*]] = arith.andi {{.*}} : tensor<16x32xi1>
  // CHECK: %[[PTRS:.*]] = tile.addptr {{.*}} : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xi64>
  // CHECK: tile.load %[[PTRS]] mask %[[MASK]] : tensor<16x32xi1>
  %v = tile.desc_load %d[%i, %i] : !tile.desc<[16, 32], f32> -> tensor<16x32xf32>
  // CHECK: tile.store
  tile.desc_store %d[%i, %i], %v : !tile.desc<[16, 32], f32>, tensor<16x32xf32>
  // CHECK: tile.atomic_rmw fadd, relaxed, gpu
  tile.desc_store %d[%i, %i], %v reduce fadd : !tile.desc<[16, 32], f32>, tensor<16x32xf32>
  return
}

// Padding with NaN.
// CHECK-LABEL: func @nan
func.func @nan(%p: !tile.ptr<f16>, %n: i32, %out: tensor<16x!tile.ptr<f16>>) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, [%n], [%one] {nan_padding = true} : !tile.ptr<f16> -> !tile.desc<[16], f16>
  // CHECK: %[[NAN:.*]] = arith.constant dense<0x7E00> : tensor<16xf16>
  // CHECK: tile.load {{.*}} other %[[NAN]]
  %v = tile.desc_load %d[%n] : !tile.desc<[16], f16> -> tensor<16xf16>
  tile.store %out, %v : tensor<16x!tile.ptr<f16>>, tensor<16xf16>
  return
}
