#!/usr/bin/env bash
# `tessera tunings` and `tessera bench` against a daemon of their own.
set -euo pipefail
tessera=${TESSERA:-client/cli/tessera} tesserad=${TESSERAD:-server/tesserad}
dir=$(mktemp -d /tmp/tuning_commands.XXXXXX)  # a socket's path is short
fail() { echo "FAILED: $*"; exit 1; }
has() { grep -c -- "$1" >/dev/null; }  # reads all of its input, unlike grep -q
"$tesserad" --listen="unix:$dir/s.sock" --state-dir="$dir/state" --metrics=off 2>"$dir/log" & daemon=$!
trap 'kill "$daemon" 2>/dev/null && wait "$daemon" || true; rm -rf "$dir"' EXIT
export TESSERA_ADDRESS="unix:$dir/s.sock"
for _ in $(seq 600); do "$tessera" status >/dev/null 2>&1 && break; sleep 0.05; done

cat > "$dir/k.py" <<'K'
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=4) for b in (64, 256, 1024)], key=["n"])
@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
K
python3 -c "
import struct
header = \"{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }\".ljust(117) + '\n'
for name in 'xo': open('$dir/' + name + '.npy', 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + bytes(4000))"
arguments=("$dir/k.py:double" --device cpu --grid "cdiv(n, BLOCK)" --arg "x_ptr=@$dir/x.npy" --arg "out_ptr=@$dir/o.npy:out" --arg n=1000)
tunings() { "$tessera" tunings "$@"; }

# Policies.
tunings policy exhaustive --kernel double --bucket n=exact | has '^double: exhaustive' || fail "policy"
tunings policy sometimes 2>"$dir/err" && fail "a policy that there is not must fail"
has sometimes <"$dir/err" || fail "the error must name the policy: $(cat "$dir/err")"
tunings policy --bucket n 2>"$dir/err" && fail "a bucket without a rule must fail"
tunings freeze double | has frozen || fail "freeze"
"$tessera" tune "${arguments[@]}" --effort quick | has 'bucket n=' || fail "tune"
tunings ls double | has 'BLOCK=[0-9]' || fail "ls"
tunings list double | has 'BLOCK=[0-9]' || fail "list"
"$tessera" launch "${arguments[@]}" >/dev/null
tunings explain double | has '^double on cpu:0, bucket' || fail "explain"
tunings explain double | has '^budget: ' || fail "explain tells the budget"

# Pins.
bucket=$(tunings ls double --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["tunings"][0]["bucket"])')
tunings pin double --bucket "$bucket" --config 2 --device cpu:0 | has pinned || fail "pin"
tunings ls double | has 'configuration 2, pinned' || fail "ls tells the pin"
tunings pin double --bucket "$bucket" --config 9 --device cpu:0 2>/dev/null && fail "a configuration that there is not must fail"

# Files of others.
tunings export double --device cpu:0 -o "$dir/out" | has 'double.autotune.json' || fail "export"
has '"kwargs":{"BLOCK":64}' <"$dir/out/double.autotune.json" || fail "the file: $(cat "$dir/out/double.autotune.json")"
tunings forget double | has '1 forgotten' || fail "forget"
tunings forget 2>/dev/null && fail "forgetting everything must be said"
tunings import "$dir/k.py:double" "$dir/out/double.autotune.json" --device cpu:0 | has '1 imported' || fail "import"
tunings ls double | has 'imported from double.autotune.json' || fail "ls tells where it is from"
tunings export double --device cpu:0 --format serving-engine -o "$dir/engine" | has 'device_name=' || fail "export for serving engines"
tunings forget double >/dev/null
tunings import "$dir/k.py:double" "$dir"/engine/*.json --device cpu:0 | has '1 imported' || fail "import from serving engines"
echo '{"key": 1}' > "$dir/bad.autotune.json"
tunings import "$dir/k.py:double" "$dir/bad.autotune.json" --device cpu:0 2>"$dir/err" && fail "a bad file must fail"
has 'bad.autotune.json: .*configs_timings' <"$dir/err" || fail "the error must name the file and what is wrong: $(cat "$dir/err")"

# Measuring.
for cache in cold warm; do
  "$tessera" bench kernel "${arguments[@]}" --l2 $cache --repeats 12 --quantiles 0.5,0.9 >"$dir/bench"
  has "$cache cache, 12 launches" <"$dir/bench" && has '0.9 quantile: kernel' <"$dir/bench" && has 'GB/s' <"$dir/bench" || fail "bench kernel: $(cat "$dir/bench")"
done
"$tessera" bench kernel "${arguments[@]}" --quantiles 2 2>/dev/null && fail "a quantile above 1 must fail"
"$tessera" bench trace --calls 40 --policy fixed --policy candidates --trace common-and-rare --device cpu -o "$dir/study" >"$dir/report" 2>/dev/null
has 'Least total time' <"$dir/report" || fail "bench trace: $(cat "$dir/report")"
for file in report.txt summary.csv summary.json trace_common-and-rare.csv cumulative_common-and-rare.svg cumulative_common-and-rare.png fused_linear.py; do
  [ -s "$dir/study/$file" ] || fail "bench trace must write $file"
done
echo PASS
