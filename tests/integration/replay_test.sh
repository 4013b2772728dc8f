#!/usr/bin/env bash
# Recorded launches give the recorded results on the interpreter and on the CPU.
set -euo pipefail
tar -C "$TEST_TMPDIR" -xJf tests/conformance/cases.tar.xz
export TMPDIR=$TEST_TMPDIR
mkdir bin_dir && ln -s "$PWD/client/cli/tessera" bin_dir/tessera && ln -s "$PWD/server/tesserad" bin_dir/tesserad
for device in interpreter cpu; do
  for family in add_kernel row_softmax rms_norm attention linear; do
    echo "== $family on $device"
    match="$family-*"
    PATH=$PWD/bin_dir:$PATH bin_dir/tessera replay "$TEST_TMPDIR/cases" --device $device --match "$match" --private
  done
done
