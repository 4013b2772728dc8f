// RUN: simt-compile --target=sm_90a --assemble %s | FileCheck %s
// Reports and prints: the message's index goes to the launch's report, the text to the metadata. Lines are kept.

// CHECK: .visible .entry reports
func.func @reports(%a: i64, %p: i1, %f: f16, %i: i8) attributes {simt.kernel, simt.threads = 32 : i32} {
  %element = simt.lane_id : i32
  %none = arith.constant 0 : i64
  // CHECK-DAG: .loc {{[0-9]+}} 7 3
  // CHECK-DAG: atom.relaxed.sys.global.cas.b32
  simt.report assert, "x is negative", %none if %p loc("kernel.py":7:3)
  simt.report access, "load of x", %a if %p loc("kernel.py":8:3)
  // CHECK-DAG: atom.relaxed.sys.global.add.u32
  simt.print "x: ", %f[%element of 32] operand 0 if %p : f16 loc("kernel.py":9:3)
  simt.print "x: ", %i[%element of 32] operand 1 {hex} : i8 loc("kernel.py":9:3)
  return
} loc("kernel.py":1:1)
// CHECK: .file {{[0-9]+}} "kernel.py"
// CHECK: // message: 'x is negative' kind '' operand 0 at kernel.py:7
// CHECK: // message: 'load of x' kind '' operand 0 at kernel.py:8
// CHECK: // message: 'x: ' kind 'fp16' operand 0 at kernel.py:9
// CHECK: // message: 'x: ' kind 'x8' operand 1 at kernel.py:9
// CHECK: // {{registers: [1-9][0-9]*, spills: 0 bytes|not assembled: no assembler}}
