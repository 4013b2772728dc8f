// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// RUN: simt-compile --target=sm_80 --assemble %s | FileCheck %s
// Accesses are as wide as their values; predicates and hints are part of the instruction.

// CHECK: .visible .entry memory
// CHECK: .reqntid 128, 1, 1
func.func @memory(%a: i64, %p: i1, %n: i32, %f: f32, %h: f16, %b: bf16) attributes {simt.kernel, simt.threads = 128 : i32, simt.shared_bytes = 1024 : i32} {
  %c16 = arith.constant 16 : i64
  %c32 = arith.constant 32 : i64
  %next = arith.addi %a, %c16 : i64
  %far = arith.addi %a, %c32 : i64
  // CHECK: ld.global.v4.f32
  %v = simt.load %a : vector<4xf32>
  // CHECK: @%p{{.*}} ld.global.v4.b32 {{{.*}}}, [%rd{{.*}}+16];
  %w = simt.load %next if %p else %v : vector<4xf32> : vector<4xf32>
  // CHECK: st.global.wt.v4.b32
  simt.store %a, %w {cache = #tile<cache wt>} : vector<4xf32>
  // CHECK: @%p{{.*}} ld.global.cg.v4.b32
  %x = simt.load %far if %p {cache = #tile<cache cg>} : vector<8xf16>
  // CHECK: @%p{{.*}} st.global.L1::evict_first.v4.b32
  simt.store %next, %x if %p {evict = #tile<evict evict_first>} : vector<8xf16>
  // CHECK: ld.global.L1::evict_last.b16
  %y = simt.load %a {evict = #tile<evict evict_last>} : bf16
  // CHECK: ld.volatile.global.b32
  %z = simt.load %a {is_volatile} : i32
  // CHECK: @%p{{.*}} ld.global.b8
  %byte = simt.load %a if %p : i8
  // CHECK: ld.global.v4.u32
  %bytes = simt.load %far : vector<16xi8>
  // CHECK: ld.global.u8
  %bool = simt.load %next : i1
  // CHECK: @%p{{.*}} st.global.wt.b16
  simt.store %a, %y if %p {cache = #tile<cache wt>} : bf16
  // CHECK: @%p{{.*}} st.global.wt.b8
  simt.store %a, %byte if %bool {cache = #tile<cache wt>} : i8
  simt.store %far, %bytes {cache = #tile<cache wt>} : vector<16xi8>
  // CHECK: ld.global.v2.f64
  %d = simt.load %far : vector<2xf64>
  // CHECK: st.global.v2.f64
  simt.store %a, %d : vector<2xf64>
  simt.store %a, %z {cache = #tile<cache wt>} : i32

  %buffer = simt.alloc_shared 1024 align 16 {offset = 0 : i32}
  %other = simt.alloc_shared 512 align 16 {offset = 512 : i32}
  %t = simt.thread_id : i32
  %s = arith.constant 4 : i32
  %o = arith.muli %t, %s : i32
  // CHECK: st.shared.f32
  simt.store_shared %buffer[%o], %f : f32
  // CHECK: bar.sync 0
  simt.barrier
  // CHECK: ld.shared.f32 {{.*}}+512]
  %q = simt.load_shared %other[%o] : f32
  // CHECK: @%p{{.*}} ld.shared.b32
  %r = simt.load_shared %other[%o] if %p : f32
  // CHECK: @%p{{.*}} st.shared.b32
  simt.store_shared %buffer[%o], %r if %p : f32
  simt.store %a, %q {cache = #tile<cache wt>} : f32
  // CHECK: cp.async.cg.shared.global [%r{{.*}}+512], [%rd{{.*}}+16], 16, %r
  simt.copy_async %other[%o], %next bytes 16 if %p
  // CHECK: cp.async.ca.shared.global [%r{{.*}}], [%rd{{.*}}], 8;
  simt.copy_async %buffer[%o], %a bytes 8
  // CHECK: cp.async.commit_group
  simt.commit_copies
  // CHECK: cp.async.wait_group 1
  simt.wait_copies 1
  // CHECK: bar.warp.sync
  simt.warp_barrier
  // CHECK: fence.acq_rel.gpu
  simt.fence gpu
  // CHECK: atom.relaxed.cta.shared.add.u32
  simt.atomic_shared add, %buffer[%o], %n if %p
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
