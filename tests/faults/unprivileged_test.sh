#!/usr/bin/env bash
# Daemon and client as unprivileged users: the same one, and two users that share the socket's group.
# Needs root to change users; elsewhere it runs the first part as whoever runs it.
set -euo pipefail
work=$(mktemp -d /tmp/tessera_unprivileged.XXXXXX); chmod 755 "$work"
mkdir "$work/bin" "$work/data"
cp -L client/cli/tessera server/tesserad tests/integration/bad_input_test "$work/bin/"; mkdir -p "$work/tests/integration/kernels"; cp -L tests/integration/kernels/fused.py "$work/tests/integration/kernels/"; cp -L tests/integration/kernels/fused.py "$work/data/"
python3 - "$work/data" <<'P'
import struct, sys
def npy(path, data):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
npy(sys.argv[1] + "/x.npy", struct.pack("<1000f", *range(1000)))
npy(sys.argv[1] + "/out.npy", b"\xff" * 4000)
P
pids=()
finish() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$work"; }
trap finish EXIT
fail() { echo "FAILED: $*"; cat "$work"/*.log 2>/dev/null | tail -20; exit 1; }

as() { # UID GID command...
  local uid=$1 gid=$2; shift 2
  if [ "$(id -u)" = 0 ]; then setpriv --reuid "$uid" --regid "$gid" --clear-groups --inh-caps=-all "$@"; else "$@"; fi
}
launch() { # socket
  echo "$work/bin/tessera" launch "$work/data/fused.py:add" --grid 4 --arg x_ptr=@"$work/data/x.npy" --arg y_ptr=@"$work/data/x.npy" \
    --arg out_ptr=@"$work/data/out.npy":out --arg n=1000 --constexpr BLOCK=256 --address "unix:$1"
}
start() { # name uid gid flags...
  local name=$1 uid=$2 gid=$3; shift 3
  mkdir "$work/$name"; [ "$(id -u)" != 0 ] || chown "$uid:$gid" "$work/$name"
  as "$uid" "$gid" "$work/bin/tesserad" --listen="unix:$work/$name/tesserad.sock" --state-dir="$work/$name/state" --metrics=off "$@" >"$work/$name.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 400); do [ -S "$work/$name/tesserad.sock.fd" ] && return; sleep 0.05; done
  fail "$name did not start"
}
check() {
  python3 - "$work/data/out.npy" <<'P' || fail "wrong result"
import struct, sys
assert list(struct.unpack("<1000f", open(sys.argv[1], "rb").read()[-4000:])) == [2.0 * i for i in range(1000)]
P
}

[ "$(id -u)" != 0 ] || chown -R 12001:12000 "$work/data"
start same 12001 12000
as 12001 12000 $(launch "$work/same/tesserad.sock") || fail "same user"
check
bad_input() { # socket: every bad input gets its error, and the daemon goes on serving
  (cd "$work" && as 12001 12000 env -i TESSERA_TEST_ADDRESS="unix:$1" bin/bad_input_test)
}
bad_input "$work/same/tesserad.sock" || fail "bad input, same user"
if [ "$(id -u)" = 0 ]; then
  start group 12002 12000 --socket-mode=0660
  chmod 755 "$work/group"
  as 12001 12000 $(launch "$work/group/tesserad.sock") || fail "another user of the socket's group"
  check
  bad_input "$work/group/tesserad.sock" || fail "bad input, another user of the socket's group"
  if as 12003 12003 $(launch "$work/group/tesserad.sock") 2>/dev/null; then fail "a user outside the group must be refused"; fi
  as 12001 12000 $(launch "$work/group/tesserad.sock") || fail "still serving"
fi
echo PASS
