// Accesses are checked against the extents of the buffers.
// RUN: tessera-opt %s -split-input-file -guard-accesses | FileCheck %s

// The buffer of the parameter that the address comes from; in or reported, at the predicate of the access.
// CHECK-LABEL: func.func @known(
// CHECK-SAME: %[[X:[^:]*]]: i64 {simt.pointer}, %[[P:[^:]*]]: i1, %[[Y:[^:]*]]: i64 {simt.pointer}, %[[XB:[^:]*]]: i64, %[[XE:[^:]*]]: i64, %[[YB:[^:]*]]: i64, %[[YE:[^:]*]]: i64)
// CHECK-SAME: simt.guarded
// CHECK: %[[A:.*]] = arith.addi %[[X]], %{{.*}}
// CHECK: %[[LAST:.*]] = arith.addi %[[A]], %c16_i64
// CHECK-DAG: %[[GE:.*]] = arith.cmpi uge, %[[A]], %[[XB]]
// CHECK-DAG: %[[LE:.*]] = arith.cmpi ule, %[[LAST]], %[[XE]]
// CHECK: %[[IN:.*]] = arith.andi %[[GE]], %[[LE]]
// CHECK: %[[OUT:.*]] = arith.xori %[[IN]], %true
// CHECK: %[[BAD:.*]] = arith.andi %[[OUT]], %[[P]]
// CHECK: %[[GOOD:.*]] = arith.andi %[[IN]], %[[P]]
// CHECK: simt.report access, "load of 16 bytes", %[[A]] if %[[BAD]]
// CHECK: simt.load %[[A]] if %[[GOOD]] : vector<4xf32>
func.func @known(%x: i64 {simt.pointer}, %p: i1, %y: i64 {simt.pointer}) attributes {simt.kernel, simt.threads = 32 : i32} {
  %c = arith.constant 64 : i64
  %a = arith.addi %x, %c : i64
  %v = simt.load %a if %p : vector<4xf32>
  return
}

// -----

// An address from elsewhere may lie in any buffer.
// CHECK-LABEL: func.func @unknown(
// CHECK: simt.load %{{.*}} if %{{.*}} : i64
// CHECK: arith.cmpi uge, %{{.*}}, %{{.*}}
// CHECK: arith.cmpi uge, %{{.*}}, %{{.*}}
// CHECK: arith.ori
// CHECK: simt.report access, "store of 2 bytes"
// CHECK: simt.store %{{.*}}, %{{.*}} if %{{.*}} : f16
func.func @unknown(%x: i64 {simt.pointer}, %y: i64 {simt.pointer}, %v: f16) attributes {simt.kernel, simt.threads = 32 : i32} {
  %a = simt.load %x : i64
  simt.store %a, %v : f16
  return
}
