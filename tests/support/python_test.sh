#!/usr/bin/env bash
# Runs a test that is a Python program: its path from the root of the repository is the argument.
set -euo pipefail
exec python3 "$@"
