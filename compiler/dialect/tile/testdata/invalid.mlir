// RUN: tessera-opt %s --split-input-file --verify-diagnostics
// What the verifiers refuse, and how they say it.

func.func @range() {
  // expected-error @+1 {{result must have end - start elements}}
  %0 = tile.range {start = 0 : i32, end = 8 : i32} : tensor<4xi32>
  return
}

// -----

func.func @splat(%s: f32) {
  // expected-error @+1 {{element type differs from the scalar}}
  %0 = tile.splat %s : f32 -> tensor<4xf16>
  return
}

// -----

func.func @expand(%x: tensor<4xf32>) {
  // expected-error @+1 {{result must be the source with a 1 inserted at the axis}}
  %0 = tile.expand_dims %x {axis = 0 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  return
}

// -----

func.func @broadcast(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{only dimensions of extent 1 are repeated}}
  %0 = tile.broadcast %x : tensor<4x2xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @reshape(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{source and result differ in number or type of elements}}
  %0 = tile.reshape %x : tensor<4x2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @trans(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{order is no permutation}}
  %0 = tile.trans %x {order = array<i32: 1, 1>} : tensor<4x2xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @split(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{last dimension must have extent 2 and be dropped}}
  %0, %1 = tile.split %x : tensor<4x4xf32> -> tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @addptr(%p: !tile.ptr<f32>, %o: tensor<4xi32>) {
  // expected-error @+1 {{pointer and offset differ in shape}}
  %0 = tile.addptr %p, %o : !tile.ptr<f32>, tensor<4xi32>
  return
}

// -----

func.func @load_type(%p: !tile.ptr<f32>) {
  // expected-error @+1 {{value type 'f16' is not the pointee 'f32'}}
  %0 = tile.load %p : !tile.ptr<f32> -> f16
  return
}

// -----

func.func @load_bool(%p: !tile.ptr<i1>) {
  // expected-error @+1 {{memory is never accessed as i1; use i8}}
  %0 = tile.load %p : !tile.ptr<i1> -> i1
  return
}

// -----

func.func @load_mask(%p: tensor<4x!tile.ptr<f32>>, %m: tensor<8xi1>) {
  // expected-error @+1 {{pointer and mask differ in shape}}
  %0 = tile.load %p mask %m : tensor<8xi1> : tensor<4x!tile.ptr<f32>> -> tensor<4xf32>
  return
}

// -----

func.func @load_other(%p: !tile.ptr<f32>, %m: i1, %o: f16) {
  // expected-error @+1 {{other has type 'f16', not 'f32'}}
  %0 = tile.load %p mask %m : i1 other %o : f16 : !tile.ptr<f32> -> f32
  return
}

// -----

func.func @int_to_ptr(%i: i32) {
  // expected-error @+1 {{an address is an i64}}
  %0 = tile.int_to_ptr %i : i32 -> !tile.ptr<f32>
  return
}

// -----

func.func @desc(%p: !tile.ptr<f32>, %n: i32, %s: i64) {
  // expected-error @+1 {{takes an extent and a stride for each dimension}}
  %0 = tile.make_desc %p, [%n], [%s] : !tile.ptr<f32> -> !tile.desc<[4, 4], f32>
  return
}

// -----

func.func @desc_load(%d: !tile.desc<[4, 4], f32>, %i: i32) {
  // expected-error @+1 {{is not the descriptor's}}
  %0 = tile.desc_load %d[%i, %i] : !tile.desc<[4, 4], f32> -> tensor<4x8xf32>
  return
}

// -----

func.func @dot(%a: tensor<16x32xf16>, %c: tensor<16x16xf32>) {
  // expected-error @+1 {{shapes do not multiply}}
  %0 = tile.dot %a, %a, %c, ieee : tensor<16x32xf16> * tensor<16x32xf16> -> tensor<16x16xf32>
  return
}

// -----

func.func @reduce_axis(%x: tensor<4xf32>) {
  // expected-error @+1 {{axis 1 is outside rank 1}}
  %0 = tile.reduce(%x) axis 1 : (tensor<4xf32>) -> f32 {
  ^bb0(%p: f32, %q: f32):
    tile.yield %p : f32
  }
  return
}

// -----

func.func @reduce_region(%x: tensor<4xf32>) {
  // expected-error @+1 {{combine region must work on 'f32'}}
  %0 = tile.reduce(%x) axis 0 : (tensor<4xf32>) -> f32 {
  ^bb0(%p: f32, %q: f16):
    tile.yield %p : f32
  }
  return
}

// -----

func.func @gather(%x: tensor<4x8xf32>, %i: tensor<8x8xi32>) {
  // expected-error @+1 {{source and index differ in an extent beside the axis}}
  %0 = tile.gather %x[%i] {axis = 1 : i32} : tensor<4x8xf32>, tensor<8x8xi32> -> tensor<8x8xf32>
  return
}

// -----

func.func @hint(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{needs an entry for each dimension}}
  %0 = tile.hint %x {divisibility = array<i64: 16>} : tensor<4x8xi32>
  return
}

// -----

func.func @print(%x: i32) {
  // expected-error @+1 {{says for each operand whether it is unsigned}}
  tile.print "x"(%x) {hex = false, is_unsigned = array<i1>} : i32
  return
}

// -----

// expected-error @+1 {{layout does not cover the tensor}}
func.func @holes(%x: tensor<8xf32, #tile.layout<registers = [1], lanes = [2], warps = []>>) {
  return
}

// -----

// expected-error @+1 {{layout has a basis 8 outside of the tensor}}
func.func @outside(%x: tensor<8xf32, #tile.layout<registers = [1, 8], lanes = [2, 4], warps = []>>) {
  return
}

// -----

// expected-error @+1 {{layout holds an element twice in registers}}
func.func @twice(%x: tensor<8xf32, #tile.layout<registers = [1, 2, 3], lanes = [4], warps = []>>) {
  return
}

// -----

func.func @reshaping(%x: tensor<8xf32>) {
  // expected-error @+1 {{changes the layout alone}}
  %0 = tile.convert_layout %x : tensor<8xf32> -> tensor<4x2xf32>
  return
}
