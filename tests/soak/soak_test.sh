#!/usr/bin/env bash
# The soak, for half a minute: the long one is started by hand (soak.py).
set -euo pipefail
exec python3 tests/soak/soak.py --minutes=0.5 --rate=50
