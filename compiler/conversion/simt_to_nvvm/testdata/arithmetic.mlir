// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: simt-compile --target=sm_80 --assemble %s | FileCheck %s --check-prefixes=CHECK,SM80
// Arithmetic, math and conversions become the instructions that the language's rules allow.

// CHECK: .visible .entry arithmetic
func.func @arithmetic(%a: i64, %i: i32, %j: i32, %l: i64, %f: f32, %g: f32, %d: f64, %h: f16, %b: bf16, %e: i8) attributes {simt.kernel, simt.threads = 32 : i32} {
  // Division never traps, and LLVM must not think that the divisor is not zero.
  // CHECK: div.s32
  %0 = tile.divs %i, %j : i32
  simt.store %a, %0 {cache = #tile<cache cs>} : i32
  // CHECK: rem.u32
  %1 = tile.remu %i, %j : i32
  simt.store %a, %1 {cache = #tile<cache cs>} : i32
  // CHECK: div.s64
  %2 = tile.divs %l, %a : i64
  simt.store %a, %2 {cache = #tile<cache cs>} : i64
  // CHECK: mul.hi.u32
  %3 = tile.mulhiu %i, %j : i32
  simt.store %a, %3 {cache = #tile<cache cs>} : i32
  // CHECK: mul.hi.u64
  %4 = tile.mulhiu %l, %a : i64
  simt.store %a, %4 {cache = #tile<cache cs>} : i64
  // CHECK: div.full.f32
  %5 = arith.divf %f, %g : f32
  simt.store %a, %5 {cache = #tile<cache cs>} : f32
  // CHECK: div.rn.f32
  %6 = arith.divf %f, %g {tile.round_nearest} : f32
  simt.store %a, %6 {cache = #tile<cache cs>} : f32
  // CHECK: div.rn.f64
  %7 = arith.divf %d, %d : f64
  simt.store %a, %7 {cache = #tile<cache cs>} : f64
  // CHECK: max.NaN.f32
  %8 = arith.maximumf %f, %g : f32
  simt.store %a, %8 {cache = #tile<cache cs>} : f32
  // CHECK: max.f32
  %9 = arith.maxnumf %f, %g : f32
  simt.store %a, %9 {cache = #tile<cache cs>} : f32
  // CHECK: add.rn.f16
  %10 = arith.addf %h, %h : f16
  simt.store %a, %10 {cache = #tile<cache cs>} : f16
  // SM90: mul.rn.bf16
  // SM80: mul.rn.f32
  // SM80: cvt.rn.bf16.f32
  %11 = arith.mulf %b, %b : bf16
  simt.store %a, %11 {cache = #tile<cache cs>} : bf16
  // CHECK: ex2.approx.f32
  %12 = math.exp %f : f32
  simt.store %a, %12 {cache = #tile<cache cs>} : f32
  // CHECK: sqrt.approx.f32
  %13 = math.sqrt %f : f32
  simt.store %a, %13 {cache = #tile<cache cs>} : f32
  // CHECK: sqrt.rn.f32
  %14 = math.sqrt %f {tile.round_nearest} : f32
  simt.store %a, %14 {cache = #tile<cache cs>} : f32
  // CHECK: rsqrt.approx.f32
  %15 = math.rsqrt %f : f32
  simt.store %a, %15 {cache = #tile<cache cs>} : f32
  // CHECK: cvt.rmi.f32.f32
  %16 = math.floor %f : f32
  simt.store %a, %16 {cache = #tile<cache cs>} : f32
  // One polynomial beside the other, no branch: threads of a warp stay together, elements of a thread overlap.
  // CHECK: ex2.approx.ftz.f32
  // CHECK-NOT: bra
  // CHECK: copysign.f32
  %erf = math.erf %f : f32
  simt.store %a, %erf {cache = #tile<cache cs>} : f32
  // CHECK: cvt.rzi.s32.f32
  %19 = tile.fp_to_int %f : f32 -> i8
  simt.store %a, %19 {cache = #tile<cache cs>} : i8
  // CHECK: cvt.rzi.u64.f64
  %20 = tile.fp_to_int %d {is_unsigned} : f64 -> i64
  simt.store %a, %20 {cache = #tile<cache cs>} : i64
  // CHECK: cvt.rn.f32.s32
  %21 = arith.sitofp %i : i32 to f32
  simt.store %a, %21 {cache = #tile<cache cs>} : f32
  // SM90: cvt.rn.satfinite.e4m3x2.f32
  // SM80-NOT: e4m3x2
  %22 = tile.fp_to_fp %f : f32 -> f8E4M3FN
  %23 = arith.bitcast %22 : f8E4M3FN to i8
  simt.store %a, %23 {cache = #tile<cache cs>} : i8
  %24 = arith.bitcast %e : i8 to f8E5M2
  // SM90: cvt.rn.f16x2.e5m2x2
  %25 = tile.fp_to_fp %24 : f8E5M2 -> bf16
  simt.store %a, %25 {cache = #tile<cache cs>} : bf16
  // CHECK: cvt.rz.f16.f32
  %26 = tile.fp_to_fp %f {rounding = #tile<rounding rtz>} : f32 -> f16
  simt.store %a, %26 {cache = #tile<cache cs>} : f16
  %27 = tile.fp_to_fp %d : f64 -> bf16
  simt.store %a, %27 {cache = #tile<cache cs>} : bf16
  %28 = arith.bitcast %e : i8 to f8E4M3FNUZ
  %29 = tile.fp_to_fp %28 : f8E4M3FNUZ -> f16
  simt.store %a, %29 {cache = #tile<cache cs>} : f16
  %30 = arith.cmpf olt, %b, %25 : bf16
  %31 = arith.select %30, %b, %25 : bf16
  simt.store %a, %31 {cache = #tile<cache cs>} : bf16
  // CHECK: st.global.cs.v4
  %v = simt.load %a : vector<4xf32>
  %w = simt.load %l : vector<4xf32>
  %s = arith.addf %v, %w : vector<4xf32>
  %bits = vector.bitcast %s : vector<4xf32> to vector<8xf16>
  %one = vector.extract %bits[3] : f16 from vector<8xf16>
  simt.store %l, %one {cache = #tile<cache cs>} : f16
  simt.store %a, %s {cache = #tile<cache cs>} : vector<4xf32>
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
