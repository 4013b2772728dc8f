// Barriers where threads could meet out of order, and nowhere else.
// RUN: tessera-opt %s -split-input-file -allocate-shared -insert-barriers | FileCheck %s

// One buffer's stores are one phase; a later buffer that takes its place waits for the last read.
// CHECK-LABEL: func.func @phases(
// CHECK: simt.alloc_shared 512 align 16 {offset = 0 : i32}
// CHECK-NEXT: simt.store_shared
// CHECK-NEXT: simt.store_shared
// CHECK-NEXT: simt.barrier
// CHECK-NEXT: simt.load_shared
// CHECK-NEXT: simt.load_shared
// CHECK-NEXT: simt.free_shared
// CHECK-NEXT: simt.alloc_shared 256 align 16 {offset = 0 : i32}
// CHECK-NEXT: simt.barrier
// CHECK-NEXT: simt.store_shared
func.func @phases(%i: i32, %x: f32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %b = simt.alloc_shared 512 align 16
  simt.store_shared %b[%i], %x : f32
  simt.store_shared %b[%i], %x : f32
  %0 = simt.load_shared %b[%i] : f32
  %1 = simt.load_shared %b[%i] : f32
  simt.free_shared %b
  %c = simt.alloc_shared 256 align 16
  simt.store_shared %c[%i], %x : f32
  simt.free_shared %c
  return
}

// -----

// Buffers that live together do not overlap, so nothing waits.
// CHECK-LABEL: func.func @apart(
// CHECK: simt.alloc_shared 100 align 4 {offset = 0 : i32}
// CHECK: simt.alloc_shared 64 align 16 {offset = 112 : i32}
// CHECK-NOT: simt.barrier
func.func @apart(%i: i32, %x: f32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %b = simt.alloc_shared 100 align 4
  %c = simt.alloc_shared 64 align 16
  simt.store_shared %b[%i], %x : f32
  simt.store_shared %c[%i], %x : f32
  simt.free_shared %b
  simt.free_shared %c
  return
}

// -----

// What is written before a loop and read in it takes one barrier in front of the loop.
// CHECK-LABEL: func.func @before_the_loop(
// CHECK: simt.store_shared
// CHECK: simt.barrier
// CHECK: scf.for
// CHECK-NOT: simt.barrier
func.func @before_the_loop(%i: i32, %x: f32, %n: i32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %b = simt.alloc_shared 512 align 16
  simt.store_shared %b[%i], %x : f32
  %s = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %x) -> (f32) : i32 {
    %v = simt.load_shared %b[%k] : f32
    %t = arith.addf %acc, %v : f32
    scf.yield %t : f32
  }
  simt.free_shared %b
  return
}

// -----

// A round's store meets the reads of the round before.
// CHECK-LABEL: func.func @carried(
// CHECK: scf.for
// CHECK: simt.barrier
// CHECK-NEXT: simt.store_shared
// CHECK-NEXT: simt.barrier
// CHECK-NEXT: simt.load_shared
func.func @carried(%i: i32, %x: f32, %n: i32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %k = %c0 to %n step %c1 : i32 {
    %b = simt.alloc_shared 512 align 16
    simt.store_shared %b[%i], %x : f32
    %v = simt.load_shared %b[%k] : f32
    simt.free_shared %b
  }
  return
}

// -----

// Counting starts behind the zeros.
// CHECK-LABEL: func.func @atomics(
// CHECK: simt.store_shared
// CHECK-NEXT: simt.barrier
// CHECK-NEXT: simt.atomic_shared
// CHECK-NEXT: simt.atomic_shared
// CHECK-NEXT: simt.barrier
// CHECK-NEXT: simt.load_shared
func.func @atomics(%i: i32, %x: i32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %b = simt.alloc_shared 512 align 16
  simt.store_shared %b[%i], %x : i32
  simt.atomic_shared add, %b[%i], %x
  simt.atomic_shared add, %b[%i], %x
  %0 = simt.load_shared %b[%i] : i32
  simt.free_shared %b
  return
}
