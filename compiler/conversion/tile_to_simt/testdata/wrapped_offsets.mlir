// RUN: tessera-opt -gpu-tile-passes -gpu-simt-passes %s | FileCheck %s
// Offsets that wrap around at a multiple of 16 stay contiguous in runs of 16, whatever is known of their sign: 16 bytes a
// load. Around at any other number they do not.

// CHECK-LABEL: func.func @wrapped
// CHECK: simt.load {{.*}} : vector<8xf16>
func.func @wrapped(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                   %n: i32 {tile.divisibility = 16 : i64}, %start: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %s = tile.splat %start : i32 -> tensor<1024xi32>
  %i = arith.addi %s, %r : tensor<1024xi32>
  %m = tile.splat %n : i32 -> tensor<1024xi32>
  %w = tile.rems %i, %m : tensor<1024xi32>
  %p = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
  %a = tile.addptr %p, %w : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
  %v = tile.load %a : tensor<1024x!tile.ptr<f16>> -> tensor<1024xf16>
  %q = tile.splat %out : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
  %b = tile.addptr %q, %r : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
  tile.store %b, %v : tensor<1024x!tile.ptr<f16>>, tensor<1024xf16>
  return
}

// CHECK-LABEL: func.func @odd
// CHECK-NOT: simt.load {{.*}} : vector
func.func @odd(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.divisibility = 16 : i64},
               %n: i32, %start: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %s = tile.splat %start : i32 -> tensor<1024xi32>
  %i = arith.addi %s, %r : tensor<1024xi32>
  %m = tile.splat %n : i32 -> tensor<1024xi32>
  %w = tile.rems %i, %m : tensor<1024xi32>
  %p = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
  %a = tile.addptr %p, %w : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
  %v = tile.load %a : tensor<1024x!tile.ptr<f16>> -> tensor<1024xf16>
  %q = tile.splat %out : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
  %b = tile.addptr %q, %r : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
  tile.store %b, %v : tensor<1024x!tile.ptr<f16>>, tensor<1024xf16>
  return
}
