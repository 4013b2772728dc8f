#!/usr/bin/env bash
# Runs the `// RUN:` lines of a textual IR file; %s is the file. tessera-opt and FileCheck are on the PATH.
# usage: filecheck_test.sh FILE.mlir TESSERA_OPT [DATA...]
set -euo pipefail
file=$1
tools=$(mktemp -d); trap 'rm -rf "$tools"' EXIT
ln -s "$PWD/$2" "$tools/tessera-opt"
ln -s /usr/bin/FileCheck-19 "$tools/FileCheck"
ln -s /usr/bin/not-19 "$tools/not" 2>/dev/null || true
export PATH="$tools:$PATH"
ran=0
while IFS= read -r line; do
  command=${line#*RUN:}
  command=${command//%s/$file}
  bash -o pipefail -c "$command" || { echo "failed: $command"; exit 1; }
  ran=$((ran + 1))
done < <(grep -E '^//\s*RUN:' "$file")
[ "$ran" -gt 0 ] || { echo "no RUN line in $file"; exit 1; }
