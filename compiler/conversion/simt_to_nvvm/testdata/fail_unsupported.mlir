// RUN: not simt-compile --target=sm_90a %s 2>&1 | FileCheck %s
// What the GPU does not have is refused with its place in the kernel's source.

// CHECK: UNIMPLEMENTED: kernel.py:12:4: not supported on GPUs: atomic max on this type
func.func @kernel(%a: i64, %h: i8) attributes {simt.kernel, simt.threads = 32 : i32} {
  %0 = simt.atomic_rmw max, relaxed, gpu, %a, %h : i8 loc("kernel.py":12:4)
  return
}
