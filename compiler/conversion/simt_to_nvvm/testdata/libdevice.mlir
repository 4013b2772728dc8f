// REQUIRES: libdevice
// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// RUN: simt-compile --target=sm_80 --assemble %s | FileCheck %s
// Math functions of libdevice are inlined.

// CHECK: .visible .entry math
// CHECK-NOT: call
func.func @math(%a: i64, %f: f32, %g: f32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %0 = math.log %f : f32
  simt.store %a, %0 {cache = #tile<cache cs>} : f32
  %1 = tile.extern "__nv_tanhf"(%f) : (f32) -> f32
  simt.store %a, %1 {cache = #tile<cache cs>} : f32
  %2 = arith.remf %f, %g : f32
  simt.store %a, %2 {cache = #tile<cache cs>} : f32
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
