#!/usr/bin/env bash
# Every test that the table of faults in README.md names exists.
set -euo pipefail
cd tests/conformance
missing=0 count=0
for name in $(sed -n '/^## Faults/,$p' README.md | grep -o '`[A-Z][A-Za-z0-9]*\.[A-Za-z0-9]*`' | tr -d '\`' | sort -u); do
  count=$((count + 1))
  grep -qE "^TEST(_P)?\(${name%%.*}, ${name#*.}\)" ./*_test.cc || { echo "no test $name"; missing=1; }
done
[ $count -ge 30 ] || { echo "only $count tests are named"; exit 1; }
exit $missing
