// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// Every operation parses, verifies and prints as it was.

// CHECK-LABEL: func.func @program
func.func @program() -> (i32, i32) attributes {tile.kernel} {
  // CHECK: tile.program_id 0 : i32
  %0 = tile.program_id 0 : i32
  // CHECK: tile.num_programs 2 : i32
  %1 = tile.num_programs 2 : i32
  return %0, %1 : i32, i32
}

// CHECK-LABEL: func.func @shape
func.func @shape(%s: f32, %x: tensor<4x2xf32>, %v: tensor<4xf32>, %one: tensor<1xf32>) -> f32 {
  // CHECK: tile.range {end = 8 : i32, start = 4 : i32} : tensor<4xi32>
  %0 = tile.range {start = 4 : i32, end = 8 : i32} : tensor<4xi32>
  // CHECK: tile.splat %{{.*}} : f32 -> tensor<4x2xf32>
  %1 = tile.splat %s : f32 -> tensor<4x2xf32>
  // CHECK: tile.expand_dims %{{.*}} {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  %2 = tile.expand_dims %v {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  // CHECK: tile.broadcast %{{.*}} : tensor<4x1xf32> -> tensor<4x8xf32>
  %3 = tile.broadcast %2 : tensor<4x1xf32> -> tensor<4x8xf32>
  // CHECK: tile.reshape %{{.*}} {allow_reorder} : tensor<4x2xf32> -> tensor<8xf32>
  %4 = tile.reshape %x {allow_reorder} : tensor<4x2xf32> -> tensor<8xf32>
  // CHECK: tile.trans %{{.*}} {order = array<i32: 1, 0>} : tensor<4x2xf32> -> tensor<2x4xf32>
  %5 = tile.trans %x {order = array<i32: 1, 0>} : tensor<4x2xf32> -> tensor<2x4xf32>
  // CHECK: tile.join %{{.*}}, %{{.*}} : tensor<4xf32> -> tensor<4x2xf32>
  %6 = tile.join %v, %v : tensor<4xf32> -> tensor<4x2xf32>
  // CHECK: tile.split %{{.*}} : tensor<4x2xf32> -> tensor<4xf32>, tensor<4xf32>
  %7, %8 = tile.split %x : tensor<4x2xf32> -> tensor<4xf32>, tensor<4xf32>
  // CHECK: tile.cat %{{.*}}, %{{.*}} : tensor<4xf32> -> tensor<8xf32>
  %9 = tile.cat %v, %v : tensor<4xf32> -> tensor<8xf32>
  // CHECK: tile.unsplat %{{.*}} : tensor<1xf32> -> f32
  %10 = tile.unsplat %one : tensor<1xf32> -> f32
  return %10 : f32
}

// CHECK-LABEL: func.func @memory
func.func @memory(%p: !tile.ptr<f16>, %b: tensor<4x!tile.ptr<f16>>, %o: tensor<4xi32>, %m: tensor<4xi1>, %v: tensor<4xf16>, %q: !tile.ptr<i32>, %i: i32) {
  // CHECK: tile.addptr %{{.*}}, %{{.*}} : tensor<4x!tile.ptr<f16>>, tensor<4xi32>
  %0 = tile.addptr %b, %o : tensor<4x!tile.ptr<f16>>, tensor<4xi32>
  // CHECK: tile.ptr_cast %{{.*}} : !tile.ptr<f16> -> !tile.ptr<i8>
  %1 = tile.ptr_cast %p : !tile.ptr<f16> -> !tile.ptr<i8>
  // CHECK: tile.ptr_to_int %{{.*}} : !tile.ptr<f16> -> i64
  %2 = tile.ptr_to_int %p : !tile.ptr<f16> -> i64
  // CHECK: tile.int_to_ptr %{{.*}} : i64 -> !tile.ptr<f16, 3>
  %3 = tile.int_to_ptr %2 : i64 -> !tile.ptr<f16, 3>
  // CHECK: tile.load %{{.*}} : !tile.ptr<f16> -> f16
  %4 = tile.load %p : !tile.ptr<f16> -> f16
  // CHECK: tile.load %{{.*}} mask %{{.*}} : tensor<4xi1> other %{{.*}} : tensor<4xf16> {cache = #tile<cache cg>, evict = #tile<evict evict_last>, is_volatile} : tensor<4x!tile.ptr<f16>> -> tensor<4xf16>
  %5 = tile.load %0 mask %m : tensor<4xi1> other %v : tensor<4xf16> {cache = #tile<cache cg>, evict = #tile<evict evict_last>, is_volatile} : tensor<4x!tile.ptr<f16>> -> tensor<4xf16>
  // CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<4xi1> : tensor<4x!tile.ptr<f16>>, tensor<4xf16>
  tile.store %0, %5 mask %m : tensor<4xi1> : tensor<4x!tile.ptr<f16>>, tensor<4xf16>
  // CHECK: tile.atomic_rmw fadd, relaxed, gpu, %{{.*}}, %{{.*}} mask %{{.*}} : tensor<4xi1> : tensor<4x!tile.ptr<f16>>, tensor<4xf16> -> tensor<4xf16>
  %6 = tile.atomic_rmw fadd, relaxed, gpu, %0, %v mask %m : tensor<4xi1> : tensor<4x!tile.ptr<f16>>, tensor<4xf16> -> tensor<4xf16>
  // CHECK: tile.atomic_cas acq_rel, sys, %{{.*}}, %{{.*}}, %{{.*}} : !tile.ptr<i32>, i32
  %7 = tile.atomic_cas acq_rel, sys, %q, %i, %i : !tile.ptr<i32>, i32
  // CHECK: tile.barrier
  tile.barrier
  return
}

// CHECK-LABEL: func.func @descriptors
func.func @descriptors(%p: !tile.ptr<f16>, %n: i32, %s: i64, %v: tensor<8x16xf16>) {
  // CHECK: tile.make_desc %{{.*}}, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}] {nan_padding = true} : <f16> -> <[8, 16], f16>
  %0 = tile.make_desc %p, [%n, %n], [%s, %s] {nan_padding = true} : !tile.ptr<f16> -> !tile.desc<[8, 16], f16>
  // CHECK: tile.desc_load %{{.*}}[%{{.*}}, %{{.*}}] : <[8, 16], f16> -> tensor<8x16xf16>
  %1 = tile.desc_load %0[%n, %n] : !tile.desc<[8, 16], f16> -> tensor<8x16xf16>
  // CHECK: tile.desc_store %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} reduce fadd : <[8, 16], f16>, tensor<8x16xf16>
  tile.desc_store %0[%n, %n], %1 reduce fadd : !tile.desc<[8, 16], f16>, tensor<8x16xf16>
  return
}

// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic(%f: tensor<4xf32>, %i: tensor<4xi32>) {
  // CHECK: tile.fp_to_fp %{{.*}} : tensor<4xf32> -> tensor<4xf8E4M3FN>
  %0 = tile.fp_to_fp %f : tensor<4xf32> -> tensor<4xf8E4M3FN>
  // CHECK: tile.fp_to_fp %{{.*}} {rounding = #tile<rounding rtz>} : tensor<4xf32> -> tensor<4xbf16>
  %1 = tile.fp_to_fp %f {rounding = #tile<rounding rtz>} : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: tile.fp_to_int %{{.*}} {is_unsigned} : tensor<4xf32> -> tensor<4xi8>
  %2 = tile.fp_to_int %f {is_unsigned} : tensor<4xf32> -> tensor<4xi8>
  // CHECK: tile.divs
  %3 = tile.divs %i, %i : tensor<4xi32>
  // CHECK: tile.divu
  %4 = tile.divu %i, %i : tensor<4xi32>
  // CHECK: tile.rems
  %5 = tile.rems %i, %i : tensor<4xi32>
  // CHECK: tile.remu
  %6 = tile.remu %i, %i : tensor<4xi32>
  // CHECK: tile.mulhiu
  %7 = tile.mulhiu %i, %i : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%a: tensor<16x32xf16>, %b: tensor<32x16xf16>, %c: tensor<16x16xf32>, %x: tensor<4x8xf32>, %k: tensor<4x8xi32>, %bins: tensor<8xi32>, %m: tensor<8xi1>) {
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}}, tf32x3 : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
  %0 = tile.dot %a, %b, %c, tf32x3 : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
  // CHECK: tile.reduce(%{{.*}}, %{{.*}}) axis 1 {ordered} : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  %1:2 = tile.reduce(%x, %k) axis 1 {ordered} : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%p: f32, %i: i32, %q: f32, %j: i32):
    // CHECK: tile.yield %{{.*}}, %{{.*}} : f32, i32
    tile.yield %p, %j : f32, i32
  }
  // CHECK: tile.scan(%{{.*}}) axis 0 {reverse} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tile.scan(%x) axis 0 {reverse} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %q : f32
    tile.yield %s : f32
  }
  // CHECK: tile.map(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xi32>
  %3 = tile.map(%x) : (tensor<4x8xf32>) -> tensor<4x8xi32> {
  ^bb0(%p: f32):
    %s = tile.fp_to_int %p : f32 -> i32
    tile.yield %s : i32
  }
  // CHECK: tile.sort %{{.*}} {descending} : tensor<4x8xf32>
  %4 = tile.sort %x {descending} : tensor<4x8xf32>
  // CHECK: tile.gather %{{.*}}[%{{.*}}] {axis = 1 : i32} : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
  %5 = tile.gather %x[%k] {axis = 1 : i32} : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
  // CHECK: tile.histogram %{{.*}} mask %{{.*}} : tensor<8xi1> : tensor<8xi32> -> tensor<4xi32>
  %6 = tile.histogram %bins mask %m : tensor<8xi1> : tensor<8xi32> -> tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @checks
func.func @checks(%x: tensor<4xf32>, %c: i1, %m: tensor<4xi1>, %p: tensor<4x!tile.ptr<f32>>) {
  // CHECK: tile.extern "__nv_tanhf"(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = tile.extern "__nv_tanhf"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: tile.inline_asm "mov.b32 $0, $1;", "=r,r"(%{{.*}}) {is_pure = true, pack = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tile.inline_asm "mov.b32 $0, $1;", "=r,r"(%x) {is_pure = true, pack = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: tile.hint %{{.*}} {contiguity = array<i64: 4>, divisibility = array<i64: 16>} : tensor<4x!tile.ptr<f32>>
  %2 = tile.hint %p {divisibility = array<i64: 16>, contiguity = array<i64: 4>} : tensor<4x!tile.ptr<f32>>
  // CHECK: tile.assume %{{.*}}
  tile.assume %c
  // CHECK: tile.assert %{{.*}}, "in range" mask %{{.*}} : tensor<4xi1> : tensor<4xi1>
  tile.assert %m, "in range" mask %m : tensor<4xi1> : tensor<4xi1>
  // CHECK: tile.print " x: "(%{{.*}}) {hex = false, is_unsigned = array<i1: false>} : tensor<4xf32>
  tile.print " x: "(%x) {hex = false, is_unsigned = array<i1: false>} : tensor<4xf32>
  return
}

#rows = #tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>
#wide = #tile.layout<registers = [32, 64], lanes = [1, 2, 4, 8, 16], warps = [128]>

// CHECK-LABEL: func.func @placement
func.func @placement(%x: tensor<256xf32, #rows>) {
  // CHECK: tile.convert_layout %{{.*}} : tensor<256xf32, #tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>> -> tensor<256xf32, #tile.layout<registers = [32, 64], lanes = [1, 2, 4, 8, 16], warps = [128]>>
  %0 = tile.convert_layout %x : tensor<256xf32, #rows> -> tensor<256xf32, #wide>
  // CHECK: %[[PUT:.*]] = tile.shared_put %{{.*}} : tensor<256xf32, {{.*}}> -> <[256], f32, fast = 0, stages = 1>
  %put = tile.shared_put %x : tensor<256xf32, #rows> -> !tile.shared<[256], f32, fast = 0, stages = 1>
  %c = arith.constant 1 : i32
  // CHECK: tile.shared_slice %[[PUT]][%{{.*}}] : <[256], f32, fast = 0, stages = 1> -> tensor<32xf32>
  %slice = tile.shared_slice %put[%c] : !tile.shared<[256], f32, fast = 0, stages = 1> -> tensor<32xf32>
  tile.shared_free %put : !tile.shared<[256], f32, fast = 0, stages = 1>
  // CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : tensor<256xf32, #tile.layout<
  %1 = arith.cmpf olt, %0, %0 : tensor<256xf32, #wide>
  // CHECK: tile.reduce(%{{.*}}) axis 0 : (tensor<256xf32, #tile.layout<{{.*}}>>) -> f32
  %2 = tile.reduce(%0) axis 0 : (tensor<256xf32, #wide>) -> f32 {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %q : f32
    tile.yield %s : f32
  }
  return
}
