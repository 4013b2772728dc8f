// Entry function, loops and accesses of small kernels.
// RUN: tessera-opt %s -split-input-file -tile-to-loops="vector-bits=512 native-masks fma" -cse | FileCheck %s

// Consecutive pointers: one masked access a vector, at the address of its first lane.
// CHECK-LABEL: func.func @tessera_entry_copy(
// CHECK-SAME: %[[PARAMS:[^:]*]]: !llvm.ptr, %[[GRID:[^:]*]]: !llvm.ptr, %[[FIRST:[^:]*]]: i64, %[[LAST:[^:]*]]: i64, %[[CONTEXT:[^:]*]]: !llvm.ptr)
// CHECK: scf.for %[[PROGRAM:.*]] = %[[FIRST]] to %[[LAST]]
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %c64_i64{{.*}} step %c16_i64
// CHECK: llvm.intr.masked.load {{.*}} -> vector<16xi16>
// CHECK: arith.bitcast {{.*}} : vector<16xi16> to vector<16xf16>
// CHECK: llvm.intr.masked.store
// CHECK-NOT: scf.for
// CHECK: return
func.func @copy(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %x = tile.load %pp mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f16>> -> tensor<64xf16>
  tile.store %pp, %x mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f16>>, tensor<64xf16>
  return
}

// -----

// A bound that is a multiple of the vector makes the mask of a vector one bit: a branch around plain accesses.
// CHECK-LABEL: func.func @tessera_entry_whole_vectors(
// CHECK: scf.if %{{.*}} -> (vector<16xf32>)
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : vector<16xf32>
func.func @whole_vectors(%p: !tile.ptr<f32>, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %x = tile.load %pp mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  tile.store %pp, %x mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// -----

// A stride that is not known: gathers.
// CHECK-LABEL: func.func @tessera_entry_strided(
// CHECK: llvm.intr.masked.gather
// CHECK: llvm.intr.masked.scatter
func.func @strided(%p: !tile.ptr<f32>, %s: i32) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %ss = tile.splat %s : i32 -> tensor<64xi32>
  %o = arith.muli %r, %ss : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %pp = tile.addptr %ps, %o : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %x = tile.load %pp : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  tile.store %pp, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
