#!/usr/bin/env bash
# The MPS control daemon for this machine's GPUs: mps.sh start|stop|status|env (README.md beside this says what for).
set -euo pipefail

export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
export CUDA_MPS_LOG_DIRECTORY=${CUDA_MPS_LOG_DIRECTORY:-/tmp/nvidia-mps-log}

control() {
  local path
  for path in "$(command -v nvidia-cuda-mps-control || true)" /usr/local/nvidia/bin/nvidia-cuda-mps-control \
              /usr/bin/nvidia-cuda-mps-control; do
    [ -x "$path" ] && { echo "$path"; return; }
  done
  echo "nvidia-cuda-mps-control is not installed; it comes with the driver" >&2
  exit 1
}

running() { echo get_server_list | "$(control)" >/dev/null 2>&1; }

case ${1:-} in
  start)
    running && { echo "MPS is running, pipes in $CUDA_MPS_PIPE_DIRECTORY"; exit 0; }
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    "$(control)" -d
    for _ in $(seq 50); do running && { echo "MPS started, pipes in $CUDA_MPS_PIPE_DIRECTORY"; exit 0; }; sleep 0.1; done
    echo "MPS did not start; see $CUDA_MPS_LOG_DIRECTORY/control.log" >&2
    exit 1 ;;
  stop) running && echo quit | "$(control)" || true ;;
  status)
    if running; then echo "running; servers: $(echo get_server_list | "$(control)" | tr '\n' ' ')"
    else echo "not running"; exit 1; fi ;;
  env) echo "export CUDA_MPS_PIPE_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY" ;;
  *) echo "usage: mps.sh start|stop|status|env" >&2; exit 2 ;;
esac
