// RUN: not simt-compile --target=sm_89 %s 2>&1 | FileCheck %s
// RUN: simt-compile --target=sm_90a %s | FileCheck %s --check-prefix=FITS
// CHECK: RESOURCE_EXHAUSTED: the kernel needs 150000 bytes of shared memory for a block; the limit of sm_89 is 101376
// FITS: .target sm_90a
func.func @kernel() attributes {simt.kernel, simt.threads = 32 : i32, simt.shared_bytes = 150000 : i32} {
  return
}
