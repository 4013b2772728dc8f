#!/usr/bin/env bash
# Warnings of compiles and launches, random order of programs, and Triton's variables, against one daemon.
set -euo pipefail
export TMPDIR=$TEST_TMPDIR TESSERA_STATE_DIR=$TEST_TMPDIR/state
tessera=$PWD/client/cli/tessera kernels=tests/integration/kernels/mistakes.py
has() { grep -c -- "$1" >/dev/null; }
fail() { echo "FAILED: $*"; exit 1; }
cleanup() { [ -z "${daemon:-}" ] || { kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; } || true; }
trap cleanup EXIT
mkdir -p "$TEST_TMPDIR/s"
export TESSERA_ADDRESS=unix:$(mktemp -u "$TEST_TMPDIR/s/XXXX")
[ ${#TESSERA_ADDRESS} -lt 100 ] || export TESSERA_ADDRESS=unix:$(mktemp -u /tmp/tessera-XXXXXX)
server/tesserad --listen="$TESSERA_ADDRESS" --state-dir="$TEST_TMPDIR/state" --metrics=off >"$TEST_TMPDIR/daemon.log" 2>&1 &
daemon=$!
until $tessera status >/dev/null 2>&1; do kill -0 $daemon || fail "the daemon ended: $(tail -3 "$TEST_TMPDIR/daemon.log")"; done

cd "$TEST_TMPDIR" && ln -sfn "$OLDPWD/tests" tests
python3 - <<'P'
import struct
def npy(path, count, fill):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % count
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%df" % count, *([fill] * count)))
npy("rows.npy", 4 * 1025, -1.0)
npy("x.npy", 1000, 1.0)
npy("big.npy", 65536, 1.0)
npy("out.npy", 65536, 0.0)
P
first_of_out() { python3 -c 'import struct; print(int(struct.unpack("<f", open("out.npy", "rb").read()[128:132])[0]))'; }
launch() { local kernel=$1; shift; $tessera launch $kernels:"$kernel" "$@" >out.txt 2>notes.txt; }
noted() { grep -q -- "$1" notes.txt || fail "no warning '$1' in: $(cat notes.txt)"; }
quiet() { ! grep -q warning notes.txt || fail "warnings that should not be: $(cat notes.txt)"; }

# In a compile and with the first launch: the source line beside each.
$tessera compile $kernels:row_max_of_zeros --signature 'x_ptr=*fp32,out_ptr=*fp32,cols=i32' --constexpr BLOCK=2048 2>notes.txt >/dev/null
noted 'mistakes.py:10:.*warning: lanes outside the mask hold 0'; noted 'tl.max(x, axis=0)'
launch row_max_of_zeros --grid 4 --arg x_ptr=@rows.npy --arg out_ptr=@out.npy:out --arg cols=1025 --constexpr BLOCK=2048
noted 'warning: lanes outside the mask hold 0'
noted 'warning: most lanes of this block are masked off: 1025 of 2048'; noted 'i < cols'
launch row_max_of_zeros --grid 4 --arg x_ptr=@rows.npy --arg out_ptr=@out.npy:out --arg cols=1025 --constexpr BLOCK=2048
quiet  # the second launch of a variant
launch row_max --grid 4 --arg x_ptr=@rows.npy --arg out_ptr=@out.npy:out --arg cols=1000 --constexpr BLOCK=1024
quiet

launch copy_without_mask --grid 4 --arg x_ptr=@x.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=256 --device cpu
noted 'no mask on the tail of this launch: program (3, 0, 0), lane 255 reads element 1023 of .x_ptr., which has 1000'; noted 'tl.load(x_ptr + i)'
launch copy_without_mask --grid 4 --arg x_ptr=@x.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=256 --device interpreter && fail "the interpreter refuses it"
noted 'no mask on the tail of this launch'
launch copy_without_mask --grid 4 --arg x_ptr=@x.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=128
quiet

launch wrapping_offset --grid 2 --arg x_ptr=@big.npy --arg out_ptr=@out.npy:out --arg a=65536 --arg b=65536 --constexpr BLOCK=256
noted 'this offset wraps around in 32 bits at this launch.s sizes: 65536 \* 65536 gives 0'; noted 'tl.program_id(0) \* a \* b'
launch wrapping_offset --grid 2 --arg x_ptr=@big.npy --arg out_ptr=@out.npy:out --arg a=16 --arg b=18 --constexpr BLOCK=256
quiet

launch half_sum --grid 1 --arg x_ptr=@big.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=1024
noted 'a sum of 1024 fp16 values is accumulated in fp16'

# Order of programs: in order by default, random and repeatable where asked.
launch last_program_wins --grid 1000 --arg out_ptr=@out.npy:out --device interpreter
[ "$(first_of_out)" = 999 ] || fail "programs run in order, the last one last"
launch last_program_wins --grid 1000 --arg out_ptr=@out.npy:out --device interpreter --program-order random:7
one=$(first_of_out); noted 'program order: random:7'
[ "$one" != 999 ] || fail "a random order ends with another program"
launch last_program_wins --grid 1000 --arg out_ptr=@out.npy:out --device interpreter --program-order random:7
[ "$(first_of_out)" = "$one" ] || fail "a seed gives the same order again"
launch last_program_wins --grid 1000 --arg out_ptr=@out.npy:out --device interpreter --program-order random:8
[ "$(first_of_out)" != "$one" ] || fail "another seed gives another order"
launch last_program_wins --grid 10 --arg out_ptr=@out.npy:out --device interpreter --program-order random; noted 'program order: random:[0-9]'
launch last_program_wins --grid 10 --arg out_ptr=@out.npy:out --device interpreter --program-order sequential; quiet
launch last_program_wins --grid 10 --arg out_ptr=@out.npy:out --device cpu --program-order random && fail "the cpu takes no order"
noted 'the device interpreter runs'
launch last_program_wins --grid 10 --arg out_ptr=@out.npy:out --program-order backwards && fail "an order that is none"
noted 'takes sequential, random or random:SEED'

# Triton's variables.
copy=(copy_without_mask --grid 2 --arg x_ptr=@x.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=256)
launch "${copy[@]}"; launch "${copy[@]}"
has '^hit' <out.txt || fail "a second launch hits: $(cat out.txt)"
TRITON_ALWAYS_COMPILE=1 launch "${copy[@]}"
has '^compiled' <out.txt || fail "TRITON_ALWAYS_COMPILE compiles again: $(cat out.txt)"
TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR=$TEST_TMPDIR/triton launch "${copy[@]}"
[ "$(find "$TEST_TMPDIR/triton" -name 'copy_without_mask.llvm' | wc -l)" = 1 ] || fail "TRITON_KERNEL_DUMP of a launch"
TRITON_INTERPRET=1 launch copy_without_mask --grid 4 --arg x_ptr=@x.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=256 && fail "TRITON_INTERPRET checks accesses"
noted 'copy_without_mask on interpreter'
square=(product --grid 1 --arg x_ptr=@big.npy --arg y_ptr=@big.npy --arg out_ptr=@out.npy:out --constexpr BLOCK=32)
TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR=$TEST_TMPDIR/tf32 launch "${square[@]}"
TRITON_F32_DEFAULT=ieee TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR=$TEST_TMPDIR/ieee launch "${square[@]}"
grep -rq 'tile.dot.* tf32 ' "$TEST_TMPDIR/tf32" && grep -rq 'tile.dot.* ieee ' "$TEST_TMPDIR/ieee" || fail "TRITON_F32_DEFAULT of a launch"
cat >tuned.py <<'P'
import triton
import triton.language as tl
@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)
P
tuned=(tuned.py:tuned --grid 'cdiv(n, BLOCK)' --arg x=@x.npy --arg out=@out.npy:out --arg n=1000)
TRITON_PRINT_AUTOTUNING=1 $tessera launch "${tuned[@]}" >out.txt
has 'Triton autotuning for function tuned' <out.txt && has 'best config selected: BLOCK: 64, num_warps: 2, num_ctas: 1, num_stages: 3, maxnreg: None;' <out.txt || fail "TRITON_PRINT_AUTOTUNING of a launch: $(cat out.txt)"
TRITON_PRINT_AUTOTUNING=1 $tessera tune "${tuned[@]}" >out.txt
has 'finished after .*s,' <out.txt && has 'best config selected: BLOCK: ' <out.txt || fail "TRITON_PRINT_AUTOTUNING of tune: $(cat out.txt)"
$tessera launch "${tuned[@]}" | has autotuning && fail "nothing is printed without TRITON_PRINT_AUTOTUNING"
echo PASS
