// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// Inline assembly with Triton's rules of packing: elements below 32 bits share a register, as many as a group has.

// CHECK: .visible .entry inline_asm
func.func @inline_asm(%a: i64, %i: i32, %h0: f16, %h1: f16, %b0: i8, %b1: i8, %b2: i8, %b3: i8) attributes {simt.kernel, simt.threads = 32 : i32} {
  // CHECK: shf.l.wrap.b32
  %0 = tile.inline_asm "shf.l.wrap.b32 $0, $1, $2, 4;", "=r,r,r"(%i, %i) {is_pure = true, pack = 1 : i32} : (i32, i32) -> i32
  simt.store %a, %0 : i32
  // CHECK: add.f16x2
  %1:2 = tile.inline_asm "add.f16x2 $0, $1, $1;", "=r,r"(%h0, %h1) {is_pure = true, pack = 2 : i32} : (f16, f16) -> (f16, f16)
  simt.store %a, %1#1 : f16
  // CHECK: prmt.b32
  %2:4 = tile.inline_asm "prmt.b32 $0, $1, $1, 0x0123;", "=r,r"(%b0, %b1, %b2, %b3) {is_pure = true, pack = 4 : i32} : (i8, i8, i8, i8) -> (i8, i8, i8, i8)
  simt.store %a, %2#3 : i8
  return
}
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
