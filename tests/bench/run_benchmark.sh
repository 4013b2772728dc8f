#!/usr/bin/env bash
# Runs a benchmark at a small size. usage: run_benchmark.sh BINARY FLAGS...
set -euo pipefail
"$@" --directory="${TEST_TMPDIR:-/tmp}/benchmark"
