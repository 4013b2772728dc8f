#!/usr/bin/env bash
# All that a GPU machine can show, from the bundle (or from bazel-bin in a source tree); the last line counts:
# 'N passed, N failed', or 'skipped: no GPU'.
#
#   run.sh [PART...]   parts: executor runtime kills serving torch latency mps conformance replay compile tune speed; without one: all but
#                      speed, which only prints
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
export TESSERA_TEST_GPU=1
passed=0 failed=0

ls /dev/nvidia[0-9]* >/dev/null 2>&1 || { echo "skipped: no GPU"; exit 0; }
find_binary() {
  local path
  for path in "bin/$1" "bazel-bin/tests/gpu/$1" "bazel-bin/runtime/cuda/$1" "bazel-bin/server/$1" "bazel-bin/client/cli/$1"; do
    [ -x "$path" ] && { echo "$root/$path"; return 0; }
  done
  return 1
}
python=$(command -v python3)
export PYTHONPATH=$root/client/python${PYTHONPATH:+:$PYTHONPATH}
mps() { bash "$root/deploy/mps/mps.sh" "$@"; }

# A gtest binary: its own counts.
gtest() {
  local name=$1 binary; shift
  binary=$(find_binary "$name") || { echo "-- $name: not built"; return; }
  echo "== $name $*"
  local log; log=$(mktemp)
  timeout "${LIMIT:-200}" "$binary" "$@" >"$log" 2>&1
  local status=$? p f
  grep -E '^\[  FAILED|us each|^guarded: |^executor of cuda|serving again|next session|executor deaths|compute capability|belongs to|Failure$|skipped' "$log" | sort -u | head -40
  p=$(grep -c '^\[       OK \]' "$log"); f=$(grep -c '^\[  FAILED  \].*ms)' "$log")
  if [ $status -ne 0 ] && [ "$f" = 0 ]; then f=1; echo "-- $name ended with status $status"; tail -15 "$log"; fi
  passed=$((passed + p)) failed=$((failed + f))
  rm -f "$log"
}

# Anything else: one case.
case_() {
  local name=$1; shift
  echo "== $name"
  if timeout "${LIMIT:-200}" "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "-- FAILED: $name"; fi
}

# A tesserad of our own for the time of a case.
with_daemon() {
  local folder daemon status; folder=$(mktemp -d)
  daemon=$(find_binary tesserad) || { echo "-- tesserad: not built"; return 1; }
  CUDA_CACHE_DISABLE=${CUDA_CACHE_DISABLE:-0} "$daemon" ${DAEMON_FLAGS:-} --listen="unix:$folder/t.sock" --state-dir="$folder/state" --metrics=off --log-level=warn &
  local pid=$!
  for _ in $(seq 200); do [ -S "$folder/t.sock.fd" ] && break; sleep 0.1; done
  TESSERA_ADDRESS=unix:$folder/t.sock "$@"; status=$?
  kill $pid; wait $pid 2>/dev/null; rm -rf "$folder"
  return $status
}
torch() {
  echo "== PyTorch tensors from Python"
  with_daemon timeout 120 bash -c '"$0" tests/gpu/torch_client_test.py "$TESSERA_ADDRESS"' "$python"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) ;;
    *) failed=$((failed + 1)); echo "-- FAILED: PyTorch tensors" ;;
  esac
}

# Against tesserad with its compiler; kernels from where they lie in the bundle or in the source tree.
for kernels in tests/gpu/fused.py tests/integration/kernels/fused.py; do
  [ -f "$root/$kernels" ] && export TESSERA_TEST_KERNELS=$root/$kernels && break
done
serving() { with_daemon gtest serving_test; }
executor() { gtest cuda_executor_test; }
runtime() { gtest gpu_runtime_test '--gtest_filter=GpuRuntimeTest.*-*Kills*'; }
kills() { gtest gpu_runtime_test --gtest_filter=*Kills*; }
latency() { binary=$(find_binary launch_latency) && case_ "launch latency, time slices" "$binary"; }
mps_part() {
  if ! mps start; then echo "-- no MPS here"; return; fi
  eval "$(mps env)"
  binary=$(find_binary launch_latency) && case_ "launch latency, MPS" "$binary" --check
  TESSERA_TEST_NO_FAULTS=1 gtest gpu_runtime_test --gtest_filter=*Kills*:*ManyLaunches*:*ReportsTheGpu*:*Guards*
  serving
  torch
  tune_serving
  mps stop
}
conformance() { LIMIT=400 gtest gpu_conformance_test; }
replay() {
  local cli; cli=$(find_binary tessera) || return
  [ -d cases ] || { [ -f cases.tar.xz ] && mkdir cases && tar -xJf cases.tar.xz -C cases --strip-components=1; }
  [ -d cases ] && case_ "replay of recorded launches" "$cli" replay cases --private --device cuda:0
}

# Beside Triton. One worker, so that it is warm.
compile() {
  local cli; cli=$(find_binary tessera) || return
  echo "== cold compiles beside Triton"
  CUDA_CACHE_DISABLE=1 DAEMON_FLAGS=--workers=1 with_daemon timeout 200 bash -c '"$0" tests/gpu/compile_time.py "$TESSERA_ADDRESS" "$1"' "$python" "$cli"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) ;;
    *) failed=$((failed + 1)); echo "-- FAILED: cold compiles" ;;
  esac
}
tune() {
  echo "== tuning beside Triton"
  with_daemon timeout 200 bash -c '"$0" tests/gpu/tune_time.py "$TESSERA_ADDRESS"' "$python"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) ;;
    *) failed=$((failed + 1)); echo "-- FAILED: tuning beside Triton" ;;
  esac
  tune_serving
}
tune_serving() {
  echo "== tuning while serving"
  with_daemon timeout 200 bash -c '"$0" tests/gpu/tune_while_serving.py "$TESSERA_ADDRESS"' "$python"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) ;;
    *) failed=$((failed + 1)); echo "-- FAILED: tuning while serving" ;;
  esac
}
speed() {
  local cli; cli=$(find_binary tessera) || return
  echo "== kernels beside Triton"
  timeout 200 "$python" tests/gpu/kernel_speed.py "$cli"
  [ $? = 1 ] && { failed=$((failed + 1)); echo "-- FAILED: kernels beside Triton"; }
}

parts=("$@"); [ $# -gt 0 ] || parts=(executor runtime kills serving torch conformance replay compile tune latency mps)
for part in "${parts[@]}"; do
  case $part in
    mps) mps_part ;;
    torch) torch ;;
    *) "$part" ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
