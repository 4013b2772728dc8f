// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// Control flow: results and values carried through loops; programs and lanes.

// CHECK: .visible .entry control
func.func @control(%a: i64, %n: i32, %f: f32) attributes {simt.kernel, simt.threads = 64 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // CHECK-DAG: mov.u32 %r{{.*}}, %ctaid.y
  // CHECK-DAG: mov.u32 %r{{.*}}, %nctaid.x
  %pid = tile.program_id 1 : i32
  %programs = tile.num_programs 0 : i32
  %lane = simt.lane_id : i32
  // CHECK-DAG: shfl.sync.idx
  %warp = simt.warp_id : i32
  %s0 = arith.addi %pid, %programs : i32
  %s1 = arith.addi %lane, %warp : i32
  %s2 = arith.addi %s0, %s1 : i32
  %sum:2 = scf.for %i = %zero to %n step %one iter_args(%x = %s2, %y = %f) -> (i32, f32) : i32 {
    %x1 = arith.addi %x, %i : i32
    %y1 = arith.mulf %y, %f : f32
    scf.yield %x1, %y1 : i32, f32
  }
  %big = arith.cmpi sgt, %sum#0, %n : i32
  // The condition is uniform, but LLVM's branches are as right where it is not.
  %chosen = scf.if %big -> f32 {
    // CHECK: shfl.sync.bfly
    %m = simt.shuffle xor, %sum#1, %one : f32
    scf.yield %m : f32
  } else {
    scf.yield %f : f32
  }
  %last = scf.while (%k = %n) : (i32) -> i32 {
    %more = arith.cmpi sgt, %k, %zero : i32
    scf.condition(%more) %k : i32
  } do {
  ^bb0(%k: i32):
    %half = arith.shrsi %k, %one : i32
    scf.yield %half : i32
  }
  %h = arith.truncf %chosen : f32 to f16
  // CHECK: shfl.sync.up
  %up = simt.shuffle up, %h, %one : f16
  %wide = arith.extf %chosen : f32 to f64
  // CHECK-COUNT-2: shfl.sync.down
  %down = simt.shuffle down, %wide, %one : f64
  // CHECK: vote.sync.ballot
  %vote = simt.ballot %big
  simt.store %a, %up {cache = #tile<cache cs>} : f16
  simt.store %a, %down {cache = #tile<cache cs>} : f64
  simt.store %a, %vote {cache = #tile<cache cs>} : i32
  simt.store %a, %last {cache = #tile<cache cs>} : i32
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
