// What is known of index and pointer blocks: runs of consecutive and of equal values.
// RUN: tessera-opt %s -mlir-disable-threading -print-axis-info -o /dev/null | FileCheck %s

func.func @offsets(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %m: i32) attributes {tile.kernel} {
  %pid = tile.program_id 0 : i32
  %size = arith.constant 64 : i32
  %start = arith.muli %pid, %size : i32
  // CHECK: %[[R:[0-9]+]]: contiguity = [64], divisibility = [1099511627776], constancy = [1]
  %r = tile.range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  // CHECK-NEXT: contiguity = [1], divisibility = [64], constancy = [64]
  %s = tile.splat %start : i32 -> tensor<64xi32>
  // CHECK-NEXT: contiguity = [64], divisibility = [64], constancy = [1]
  %o = arith.addi %s, %r : tensor<64xi32>
  // CHECK-NEXT: contiguity = [1], divisibility = [16], constancy = [64]
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  // A bound that is a multiple of 16 cuts no run of 16.
  // CHECK-NEXT: constancy = [16]
  %mask = arith.cmpi slt, %o, %ns : tensor<64xi32>
  // Wrapping around at a multiple of 16 keeps runs of 16.
  // CHECK-NEXT: contiguity = [16], divisibility = [16], constancy = [1]
  %w = tile.rems %o, %ns : tensor<64xi32>
  %ms = tile.splat %m : i32 -> tensor<64xi32>
  // CHECK: contiguity = [1], divisibility = [1], constancy = [1]
  %v = tile.rems %o, %ms : tensor<64xi32>
  %eight = arith.constant dense<8> : tensor<64xi32>
  // CHECK: contiguity = [1], divisibility = [{{[0-9]+}}], constancy = [8]
  %q = tile.divs %o, %eight : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  // CHECK: contiguity = [64], divisibility = [16], constancy = [1]
  %pp = tile.addptr %ps, %o : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  return
}

func.func @columns(%stride: i32) attributes {tile.kernel} {
  %r = tile.range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
  // CHECK: contiguity = [32, 1], divisibility = [1099511627776, 1], constancy = [1, 1]
  %c = tile.expand_dims %r {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
  // CHECK-NEXT: contiguity = [32, 1], divisibility = [1099511627776, 1], constancy = [1, 16]
  %b = tile.broadcast %c : tensor<32x1xi32> -> tensor<32x16xi32>
  // CHECK-NEXT: contiguity = [1, 32], divisibility = {{.*}}, constancy = [16, 1]
  %t = tile.trans %b {order = array<i32: 1, 0>} : tensor<32x16xi32> -> tensor<16x32xi32>
  return
}

// Through loops, only what holds in every iteration.
func.func @loop(%n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %four = arith.constant 4 : i32
  %r = tile.range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %k = arith.constant dense<4> : tensor<16xi32>
  %u = scf.for %i = %zero to %n step %four iter_args(%x = %r) -> (tensor<16xi32>) : i32 {
    // CHECK: contiguity = [16], divisibility = [4], constancy = [1]
    %y = arith.addi %x, %k : tensor<16xi32>
    scf.yield %y : tensor<16xi32>
  }
  return
}
