// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// Operations parse, verify and print as they were.

// CHECK-LABEL: func.func @memory
func.func @memory(%a: i64, %p: i1, %v: vector<4xf32>) attributes {simt.kernel, simt.threads = 128 : i32} {
  // CHECK: simt.thread_id : i32
  %t = simt.thread_id : i32
  // CHECK: simt.load %{{.*}} if %{{.*}} else %{{.*}} : vector<4xf32> : vector<4xf32>
  %0 = simt.load %a if %p else %v : vector<4xf32> : vector<4xf32>
  // CHECK: simt.load %{{.*}} {cache = #tile<cache cg>} : f16
  %1 = simt.load %a {cache = #tile<cache cg>} : f16
  // CHECK: simt.store %{{.*}}, %{{.*}} if %{{.*}} : vector<4xf32>
  simt.store %a, %0 if %p : vector<4xf32>
  // CHECK: simt.alloc_shared 1024 align 16
  %b = simt.alloc_shared 1024 align 16
  // CHECK: simt.store_shared %{{.*}}[%{{.*}}], %{{.*}} : f16
  simt.store_shared %b[%t], %1 : f16
  // CHECK: simt.barrier
  simt.barrier
  // CHECK: simt.load_shared %{{.*}}[%{{.*}}] : f16
  %2 = simt.load_shared %b[%t] : f16
  // CHECK: simt.free_shared
  simt.free_shared %b
  // CHECK: simt.shuffle xor, %{{.*}}, %{{.*}} : f16
  %3 = simt.shuffle xor, %2, %t : f16
  // CHECK: simt.report assert, "message", %{{.*}} if %{{.*}}
  simt.report assert, "message", %a if %p
  return
}

// CHECK-LABEL: func.func @matrices
func.func @matrices(%r: i32, %c: f32) {
  // CHECK: simt.mma 16 x 8 x 16, f16(%{{.*}}), f16(%{{.*}}), (%{{.*}}) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
  %0:4 = simt.mma 16 x 8 x 16, f16 (%r, %r, %r, %r), f16 (%r, %r), (%c, %c, %c, %c) : i32, i32, i32, i32 * i32, i32 + f32, f32, f32, f32 -> f32, f32, f32, f32
  // CHECK: simt.wgmma_wait 0, %{{.*}} : f32 -> f32
  %1 = simt.wgmma_wait 0, %0#0 : f32 -> f32
  return
}
