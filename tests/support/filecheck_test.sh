#!/usr/bin/env bash
# Runs the `// RUN:` lines of a textual IR file; %s is the file. The tool and FileCheck are on the PATH. A file that says
# `// REQUIRES: libdevice` is skipped where no CUDA toolkit is.
# usage: filecheck_test.sh FILE.mlir TOOL [DATA...]
set -euo pipefail
file=$1
tools=$(mktemp -d); trap 'rm -rf "$tools"' EXIT
ln -s "$PWD/$2" "$tools/${2##*/}"
export PATH="$tools:/usr/lib/llvm-19/bin:$PATH"  # FileCheck and not
if grep -qE '^//\s*REQUIRES: libdevice' "$file"; then
  libdevice=${TESSERA_LIBDEVICE:-${CUDA_HOME:-/usr/local/cuda}/nvvm/libdevice/libdevice.10.bc}
  [ -e "$libdevice" ] || { echo "skipped: no $libdevice"; exit 0; }
fi
ran=0
while IFS= read -r line; do
  command=${line#*RUN:}
  command=${command//%s/$file}
  bash -o pipefail -c "$command" || { echo "failed: $command"; exit 1; }
  ran=$((ran + 1))
done < <(grep -E '^//\s*RUN:' "$file")
[ "$ran" -gt 0 ] || { echo "no RUN line in $file"; exit 1; }
