#!/usr/bin/env bash
# The `tessera` command's forms and exit statuses, against a private daemon.
set -euo pipefail
export TMPDIR=$TEST_TMPDIR TESSERA_STATE_DIR=$TEST_TMPDIR/state
mkdir -p bin_dir && ln -sf "$PWD/client/cli/tessera" bin_dir/tessera && ln -sf "$PWD/server/tesserad" bin_dir/tesserad
export PATH=$PWD/bin_dir:$PATH
tessera=bin_dir/tessera
kernels=tests/integration/kernels/fused.py
has() { grep -c -- "$1" >/dev/null; }  # reads all of its input, unlike grep -q
fail() { echo "FAILED: $*"; exit 1; }

# NumPy arrays without NumPy: one kilofloat 0, 1, 2, ...
python3 - "$TEST_TMPDIR" <<'P'
import struct, sys
def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (descr, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
npy(sys.argv[1] + "/x.npy", "<f4", (1000,), struct.pack("<1000f", *range(1000)))
npy(sys.argv[1] + "/out.npy", "<f4", (1000,), b"\xff" * 4000)
P
for device in cpu interpreter; do
  $tessera launch $kernels:add --grid 'cdiv(n, BLOCK)' --arg x_ptr=@"$TEST_TMPDIR"/x.npy --arg y_ptr=@"$TEST_TMPDIR"/x.npy \
    --arg out_ptr=@"$TEST_TMPDIR"/out.npy:out --arg n=1000 --constexpr BLOCK=256 --device $device --private --repeat 3
  python3 - "$TEST_TMPDIR/out.npy" <<'P'
import struct, sys
data = open(sys.argv[1], "rb").read()[-4000:]
assert list(struct.unpack("<1000f", data)) == [2.0 * i for i in range(1000)], "wrong result"
P
done
$tessera launch $kernels:add --grid 4 --arg x_ptr=@"$TEST_TMPDIR"/x.npy --arg y_ptr=@"$TEST_TMPDIR"/x.npy \
  --arg out_ptr=@"$TEST_TMPDIR"/out.npy:out --arg n=1000 --constexpr BLOCK=256 --private | has '^hit' || fail "a new daemon on the state directory must hit"

$tessera compile $kernels:add --signature 'x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16,n=i32' --constexpr BLOCK=256 --emit tile | has tile.load || fail "--emit tile"
$tessera compile $kernels:add --signature 'x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16,n=i32' --constexpr BLOCK=256 --emit llvm | has 'define' || fail "--emit llvm"
$tessera compile $kernels:matmul_bias_gelu --config 1 --target interpreter --constexpr APPLY_GELU=True \
  --signature 'a_ptr=*fp16:16,b_ptr=*fp16:16,bias_ptr=*fp16,c_ptr=*fp16,M=i32,N=i32,K=i32,stride_am=i32,stride_ak=1,stride_bk=i32,stride_bn=1,stride_cm=i32,stride_cn=1' \
  --emit tile | has 'tensor<128x64xf32>' || fail "--config 1"
$tessera compile $kernels:add --signature 'x_ptr=*fp32' 2>err.txt && fail "missing parameters must fail"
grep -q "parameter 'y_ptr' is missing" err.txt || fail "the error must name the parameter: $(cat err.txt)"

$tessera ops ls --private | has '^softmax' || fail "ops ls"
$tessera cache stats --private | has artifacts || fail "cache stats"
$tessera cache ls --private | has add || fail "cache ls"
$tessera status --private --json | has '"state": "serving"' || fail "status --json"
status=0; $tessera frobnicate 2>/dev/null || status=$?
[ $status = 2 ] || fail "wrong usage exits with 2, not $status"
status=0; $tessera status --address unix:/nonexistent/socket 2>err.txt || status=$?
[ $status = 1 ] || fail "a failure exits with 1, not $status"
grep -q 'no daemon at' err.txt || fail "the error must say that no daemon is there"
echo PASS
