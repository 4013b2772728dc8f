#!/usr/bin/env bash
# client_test.py with a daemon of its own.
set -euo pipefail
folder=$(mktemp -d /tmp/tessera_python_XXXXXX)
trap 'kill $daemon 2>/dev/null; wait $daemon 2>/dev/null || true; rm -rf "$folder"' EXIT
"$1" --ptx-daemon --listen="unix:$folder/t.sock" --state-dir="$folder" --metrics=off &
daemon=$!
for _ in $(seq 600); do [ -S "$folder/t.sock.fd" ] && break; sleep 0.05; done
mkdir "$folder/tessera"
for file in "${@:3}"; do cp "$file" "$folder/tessera/"; done
PYTHONPATH=$folder /usr/bin/python3 -P "$2" "unix:$folder/t.sock"
