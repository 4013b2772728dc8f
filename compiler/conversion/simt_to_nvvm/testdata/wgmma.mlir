// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// RUN: not simt-compile --target=sm_100a %s 2>&1 | FileCheck %s --check-prefix=OTHER
// Matrix instructions of a warp group: the first overwrites its accumulators, later ones keep them.
// OTHER: not supported on GPUs: wgmma on sm_100a

// CHECK: .visible .entry wgmma
func.func @wgmma(%a: i64, %r: i32, %o: i32) attributes {simt.kernel, simt.threads = 128 : i32, simt.shared_bytes = 32768 : i32} {
  %buffer = simt.alloc_shared 16384 align 1024 {offset = 0 : i32}
  %zero = arith.constant 0.0 : f32
  // CHECK: fence.proxy.async.shared::cta
  // CHECK: wgmma.fence.sync.aligned
  simt.wgmma_fence {proxy}
  // CHECK: setp.ne.b32 p, 0, 0;
  // CHECK: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{.*}}, p, 1, 1, 0, 1;
  %0:4 = "simt.wgmma"(%buffer, %o, %buffer, %o, %zero, %zero, %zero, %zero) {n = 8 : i32, k = 16 : i32, a_type = #simt<matrix_type f16>, b_type = #simt<matrix_type f16>, b_transpose,
    a_swizzle = #simt<swizzle b128>, a_leading_bytes = 16 : i32, a_stride_bytes = 1024 : i32, b_swizzle = #simt<swizzle b128>, b_leading_bytes = 16 : i32, b_stride_bytes = 1024 : i32,
    operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 4>} : (!simt.buffer, i32, !simt.buffer, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
  // CHECK: setp.ne.b32 p, 1, 0;
  // CHECK: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{.*}}, p, 1, 1, 0;
  %1:4 = "simt.wgmma"(%r, %r, %r, %r, %buffer, %o, %0#0, %0#1, %0#2, %0#3) {n = 8 : i32, k = 16 : i32, a_type = #simt<matrix_type f16>, b_type = #simt<matrix_type f16>,
    a_swizzle = #simt<swizzle none>, a_leading_bytes = 0 : i32, a_stride_bytes = 0 : i32, b_swizzle = #simt<swizzle b128>, b_leading_bytes = 16 : i32, b_stride_bytes = 1024 : i32,
    operandSegmentSizes = array<i32: 0, 0, 4, 1, 1, 4>} : (i32, i32, i32, i32, !simt.buffer, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
  // CHECK: wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {{.*}}, p, 1, 1;
  %2:4 = "simt.wgmma"(%buffer, %o, %buffer, %o, %1#0, %1#1, %1#2, %1#3) {n = 8 : i32, k = 32 : i32, a_type = #simt<matrix_type e4m3>, b_type = #simt<matrix_type e4m3>,
    a_swizzle = #simt<swizzle b64>, a_leading_bytes = 16 : i32, a_stride_bytes = 1024 : i32, b_swizzle = #simt<swizzle b32>, b_leading_bytes = 16 : i32, b_stride_bytes = 1024 : i32,
    operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 4>} : (!simt.buffer, i32, !simt.buffer, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
  // CHECK: wgmma.commit_group.sync.aligned
  simt.wgmma_commit
  // CHECK: wgmma.wait_group.sync.aligned 0
  %3:4 = simt.wgmma_wait 0, %2#0, %2#1, %2#2, %2#3 : f32, f32, f32, f32 -> f32, f32, f32, f32
  simt.store %a, %3#0 : f32
  simt.store %a, %3#3 : f32
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
