// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: simt-compile --target=sm_80 --assemble %s | FileCheck %s --check-prefixes=CHECK,SM80
// Every kind of atomic operation, on each type that the language has it for.

// CHECK: .visible .entry atomics
func.func @atomics(%a: i64, %p: i1, %i: i32, %l: i64, %f: f32, %d: f64, %h: f16, %b: bf16) attributes {simt.kernel, simt.threads = 32 : i32} {
  // CHECK: @%p{{.*}} atom.acq_rel.gpu.global.add.u32
  %0 = simt.atomic_rmw add, acq_rel, gpu, %a, %i if %p : i32
  // CHECK: atom.relaxed.sys.global.and.b64
  %1 = simt.atomic_rmw and, relaxed, sys, %a, %l : i64
  // CHECK: atom.acquire.cta.global.or.b32
  %2 = simt.atomic_rmw or, acquire, cta, %a, %i : i32
  // CHECK: atom.release.gpu.global.xor.b32
  %3 = simt.atomic_rmw xor, release, gpu, %a, %i : i32
  // CHECK: max.s32
  %4 = simt.atomic_rmw max, relaxed, gpu, %a, %i : i32
  // CHECK: min.s64
  %5 = simt.atomic_rmw min, relaxed, gpu, %a, %l : i64
  // CHECK: max.u32
  %6 = simt.atomic_rmw umax, relaxed, gpu, %a, %i : i32
  // CHECK: min.u64
  %7 = simt.atomic_rmw umin, relaxed, gpu, %a, %l : i64
  // CHECK: exch.b32
  %8 = simt.atomic_rmw xchg, relaxed, gpu, %a, %f : f32
  // CHECK: add.f32
  %9 = simt.atomic_rmw fadd, relaxed, gpu, %a, %f : f32
  // CHECK: add.f64
  %10 = simt.atomic_rmw fadd, relaxed, gpu, %a, %d : f64
  // CHECK: add.noftz.f16
  %11 = simt.atomic_rmw fadd, relaxed, gpu, %a, %h : f16
  // SM90: add.noftz.bf16
  // SM80: atom.relaxed.gpu.global.cas.b16
  %12 = simt.atomic_rmw fadd, relaxed, gpu, %a, %b if %p : bf16
  // CHECK: atom.relaxed.gpu.global.max.s32
  // CHECK: atom.relaxed.gpu.global.min.u32
  %13 = simt.atomic_rmw fmax, relaxed, gpu, %a, %f if %p : f32
  // CHECK: atom.relaxed.gpu.global.min.s64
  // CHECK: atom.relaxed.gpu.global.max.u64
  %14 = simt.atomic_rmw fmin, relaxed, gpu, %a, %d : f64
  // CHECK: max.f16
  // CHECK: atom.relaxed.gpu.global.cas.b16
  %fmax = simt.atomic_rmw fmax, relaxed, gpu, %a, %h if %p : f16
  // CHECK: min.{{b?}}f{{16|32}}
  // CHECK: atom.relaxed.gpu.global.cas.b16
  %fmin = simt.atomic_rmw fmin, relaxed, gpu, %a, %b : bf16
  // CHECK: atom.acq_rel.gpu.global.cas.b32
  %15 = simt.atomic_cas acq_rel, gpu, %a, %i, %0 : i32
  // CHECK: @%p{{.*}} atom.relaxed.gpu.global.cas.b64
  %16 = simt.atomic_cas relaxed, gpu, %a, %d, %10 if %p : f64
  // CHECK: atom.relaxed.gpu.global.cas.b16
  %17 = simt.atomic_cas relaxed, gpu, %a, %h, %11 : f16
  %fv = vector.broadcast %f : f32 to vector<4xf32>
  %hv = vector.broadcast %h : f16 to vector<4xf16>
  %bv = vector.broadcast %b : bf16 to vector<2xbf16>
  // SM90: atom.relaxed.gpu.global.add.v4.f32
  // SM80-COUNT-4: atom.relaxed.gpu.global.add.f32
  %18 = simt.atomic_rmw fadd, relaxed, gpu, %a, %fv if %p : vector<4xf32>
  // CHECK-COUNT-2: add.noftz.f16x2
  %19 = simt.atomic_rmw fadd, relaxed, gpu, %a, %hv if %p : vector<4xf16>
  // SM90: add.noftz.bf16x2
  // SM80-COUNT-2: cas.b16
  %20 = simt.atomic_rmw fadd, relaxed, gpu, %a, %bv : vector<2xbf16>
  simt.store %a, %18 : vector<4xf32>
  simt.store %a, %13 : f32
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
