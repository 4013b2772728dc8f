// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// Matrix instructions of a warp. Each PTX line is accepted by the assembler.

// CHECK: .visible .entry matrix
func.func @matrix(%a: i64, %r: i32, %c: f32, %d: f64, %o: i32) attributes {simt.kernel, simt.threads = 128 : i32, simt.shared_bytes = 32768 : i32} {
  %buffer = simt.alloc_shared 16384 align 128 {offset = 0 : i32}
  // CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
  %m:4 = simt.ldmatrix %buffer[%o] : i32, i32, i32, i32
  // CHECK-DAG: ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16
  %n:2 = simt.ldmatrix %buffer[%o] {transpose} : i32, i32
  // CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
  %0:4 = simt.mma 16 x 8 x 16, f16 (%m#0, %m#1, %m#2, %m#3), f16 (%n#0, %n#1), (%c, %c, %c, %c) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
  // CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
  %1:4 = simt.mma 16 x 8 x 16, bf16 (%m#0, %m#1, %m#2, %m#3), bf16 (%n#0, %n#1), (%0#0, %0#1, %0#2, %0#3) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
  // CHECK-DAG: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
  %2:4 = simt.mma 16 x 8 x 8, tf32 (%m#0, %m#1, %m#2, %m#3), tf32 (%n#0, %n#1), (%1#0, %1#1, %1#2, %1#3) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
  // CHECK-DAG: mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32
  %3:4 = simt.mma 16 x 8 x 32, e4m3 (%m#0, %m#1, %m#2, %m#3), e5m2 (%n#0, %n#1), (%2#0, %2#1, %2#2, %2#3) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
  // CHECK-DAG: mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
  %4:4 = simt.mma 16 x 8 x 32, s8 (%m#0, %m#1, %m#2, %m#3), s8 (%n#0, %n#1), (%r, %r, %r, %r) : i32, i32, i32, i32 * i32, i32 + i32, i32, i32, i32 -> i32, i32, i32, i32
  // CHECK-DAG: mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64
  %5:2 = simt.mma 8 x 8 x 4, f64 (%d), f64 (%d), (%d, %d) : f64 * f64 + f64, f64 -> f64, f64
  // CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16
  %6:2 = simt.mma 16 x 8 x 16, f16 (%m#0, %m#1, %m#2, %m#3), f16 (%n#0, %n#1), (%r, %r) : i32, i32, i32, i32 * i32, i32 + i32, i32 -> i32, i32
  // CHECK-DAG: stmatrix.sync.aligned.m8n8.x2.shared.b16
  simt.stmatrix %buffer[%o], %6#0, %6#1 : i32, i32
  simt.store %a, %3#0 {cache = #tile<cache cs>} : f32
  simt.store %a, %4#0 {cache = #tile<cache cs>} : i32
  simt.store %a, %5#0 {cache = #tile<cache cs>} : f64
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
