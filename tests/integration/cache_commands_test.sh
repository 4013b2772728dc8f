#!/usr/bin/env bash
# The `tessera cache` commands against a daemon of their own.
set -euo pipefail
tessera=${TESSERA:-client/cli/tessera} tesserad=${TESSERAD:-server/tesserad}
dir=$(mktemp -d /tmp/cache_commands.XXXXXX)  # a socket's path is short
fail() { echo "FAILED: $*"; exit 1; }
start() {  # STATE: starts a daemon on it and waits until it answers
  "$tesserad" --listen="unix:$dir/s.sock" --state-dir="$dir/$1" --metrics=off 2>>"$dir/log" & daemon=$!
  export TESSERA_ADDRESS="unix:$dir/s.sock"
  for _ in $(seq 600); do "$tessera" status >/dev/null 2>&1 && return; sleep 0.05; done
  cat "$dir/log"; fail "the daemon does not answer"
}
stop() { kill "$daemon"; wait "$daemon" || true; }
trap '[ -z "${daemon:-}" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true; rm -rf "$dir"' EXIT

cat > "$dir/k.py" <<'K'
import triton
import triton.language as tl

@triton.jit
def fill(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, i.to(tl.float32), mask=i < n)
K
python3 -c "
import struct
header = \"{'descr': '<f4', 'fortran_order': False, 'shape': (100,), }\".ljust(117) + '\n'
open('$dir/o.npy', 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + bytes(400))"
launch() { "$tessera" launch "$dir/k.py:fill" --grid 1 --arg "out_ptr=@$dir/o.npy:out" --arg n=100 --constexpr BLOCK=128 "$@"; }

start one
launch >/dev/null
launch --num-warps 8 >/dev/null
"$tessera" cache stats | grep -q 'artifacts .*2 entries' || fail "stats"
"$tessera" cache ls | grep -q 'fill for cpu' || fail "ls"
keys=($("$tessera" cache ls | awk '{print $1}'))
"$tessera" cache explain "${keys[0]}" | grep -q 'kernel = fill' || fail "explain"
"$tessera" cache explain "${keys[0]}" "${keys[1]}" | grep -q 'num_warps = 8' || fail "explain two keys"
"$tessera" cache explain 00 && fail "explain of what is not there must fail"
"$tessera" cache gc --dry-run | grep -q '0 entries .* would go' || fail "gc --dry-run"
"$tessera" cache gc | grep -q '0 entries .* went' || fail "gc"
"$tessera" cache verify | grep -q ' 0 damaged' || fail "verify"
"$tessera" cache export "$dir/bundle" | grep -q '3 entries' || fail "export"
"$tessera" cache export "$dir/again" >/dev/null
cmp "$dir/bundle" "$dir/again" || fail "two exports of one content differ"
"$tessera" cache export "$dir/none" --kernel nobody | grep -q '^0 entries' || fail "export of no kernel"
stop

start two
"$tessera" cache import "$dir/bundle" | grep -q '3 entries imported' || fail "import"
launch | grep -q hit || fail "a launch after the import is a hit"
launch --num-warps 8 | grep -q hit || fail "and so is the other one"
"$tessera" cache import "$dir/bundle" | grep -q '0 entries imported, 3 were there' || fail "import again"
head -c 3000 "$dir/bundle" > "$dir/short"
"$tessera" cache import "$dir/short" 2>/dev/null && fail "a bundle that was cut short must fail"
"$tessera" cache import "$dir/k.py" 2>/dev/null && fail "a file that is no bundle must fail"
stop
echo passed
