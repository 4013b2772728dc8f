"""A mixed load for a long time, with all features on: no error, and resident memory and open descriptors flat.

usage: tests/soak/soak.py [--minutes=15] [--settle-minutes=5] [--rate=LAUNCHES_PER_SECOND_AND_CLIENT]
Run it on a quiet machine, after ./dev build //server:tesserad //client/cli:tessera //tests/soak:mixed_load, with
TESSERA_BINARIES=DIR where the three lie in one folder. Prints a line every few seconds; the last one says PASS, or why not.
"""
import os
import sys
import threading

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, "tests/support")
if not os.environ.get("TESSERA_BINARIES") and os.path.isdir("bazel-bin/server") and not os.path.exists("server/tesserad"):
    import operator_test

    operator_test.binary = lambda name: os.path.abspath("bazel-bin/" + {
        "tesserad": "server/tesserad", "tessera": "client/cli/tessera", "mixed_load": "tests/soak/mixed_load"}[name])
from operator_test import *  # noqa: F403,E402
import operator_test  # noqa: E402


def flag(name, default):
    for argument in sys.argv[1:]:
        if argument.startswith("--%s=" % name):
            return float(argument.split("=", 1)[1])
    return default


MINUTES = flag("minutes", 15)
SETTLE = min(flag("settle-minutes", 5), MINUTES / 3)
RATE = flag("rate", 100)
# What a flat line may do: allocators give memory back late, and histories fill up.
GROWTH_SHARE, GROWTH_BYTES, GROWTH_DESCRIPTORS = 0.05, 16 << 20, 8


def slope(samples, key):
    """Growth over the samples by least squares, in units of `key` from the first to the last."""
    n = len(samples)
    times = [s["time"] for s in samples]
    values = [s[key] for s in samples]
    mean_t, mean_v = sum(times) / n, sum(values) / n
    spread = sum((t - mean_t) ** 2 for t in times)
    if spread == 0:
        return 0.0
    return sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values)) / spread * (times[-1] - times[0])


def sample(daemon, start):
    status = daemon.status()
    by_role = {}
    for process in status["processes"]:
        if process["role"] == "worker":
            continue  # replaced now and then, and bounded by a limit of its own
        by_role["bytes " + process["role"]] = int(process["resident_bytes"])
        by_role["descriptors " + process["role"]] = process["descriptors"]
    return dict(by_role, time=time.monotonic() - start, launches=int(status["launches"]), variants=status["kernel_variants"],
                regions=status["regions"], sessions=status["sessions"], compiles=int(status["compiles"]))


def main():
    state = tempfile.mkdtemp(prefix="soak", dir=TMP)
    manifest = os.path.join(state, "manifest.yaml")
    with open(manifest, "w") as f:
        f.write('ops:\n  - op: softmax\n    tensors: {x: "fp32[M, N]", out: "fp32[M, N]"}\n    shapes: [{M: 8, N: 128}]\n    first_launch: true\n')
    errors = []
    # Few variants at once, so that loading and unloading goes on all the time.
    with Daemon(os.path.join(state, "state"), "--warmup-manifest=" + manifest, "--jit-monitor=warn", "--max-variants=24",
                "--log-level=warn") as daemon:
        daemon.wait_ready()
        start = time.monotonic()
        end = start + MINUTES * 60
        stop = threading.Event()

        def load():
            seed = 0
            while time.monotonic() < end - 1 and not stop.is_set():
                seed += 1
                seconds = max(1, int(min(20, end - time.monotonic())))
                done = subprocess.run([operator_test.binary("mixed_load"), "--address=" + daemon.address, "--kernels=" + KERNELS,
                                       "--seconds=%d" % seconds, "--seed=%d" % seed, "--rate=%g" % RATE],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                if done.returncode != 0:
                    errors.append(done.stdout.strip()[-2000:])

        def operate():
            """What an operator's tools do meanwhile."""
            while not stop.wait(2):
                try:
                    fetch(daemon.metrics + "/metrics")
                    fetch(daemon.metrics + "/")
                    daemon.tessera("manifest", "record", "--window=5m")
                    daemon.process.send_signal(signal.SIGHUP)
                except Exception as error:  # noqa: BLE001
                    errors.append("operating: %r" % error)

        threads = [threading.Thread(target=load), threading.Thread(target=operate)]
        for thread in threads:
            thread.start()
        samples = []
        every = max(1.0, MINUTES * 60 / 180)
        try:
            while time.monotonic() < end:
                time.sleep(min(every, max(0.1, end - time.monotonic())))
                samples.append(sample(daemon, start))
                s = samples[-1]
                if len(samples) % 4 == 1:
                    print("%5.0f s: %d launches, %d compiles, %d variants, %d regions; daemon %.1f MiB, %d descriptors" % (
                        s["time"], s["launches"], s["compiles"], s["variants"], s["regions"], s["bytes daemon"] / 2**20,
                        s["descriptors daemon"]), flush=True)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        log = daemon.log_text()
    with open(os.path.join(OUTPUTS, "soak.json"), "w") as f:
        json.dump(samples, f)
    check(not errors, "errors of the load: %d, the first: %s" % (len(errors), errors[:1]))
    for line in log.splitlines():
        check(" E " not in line, "an error in the log: " + line)
    settled = [s for s in samples if s["time"] >= SETTLE * 60]
    keys = [k for k in settled[0] if k.startswith(("bytes", "descriptors")) and all(k in s for s in settled)]
    for key in sorted(keys):
        first = sum(s[key] for s in settled[:5]) / len(settled[:5])
        growth = slope(settled, key)
        allowed = max(GROWTH_SHARE * first, GROWTH_BYTES) if key.startswith("bytes") else GROWTH_DESCRIPTORS
        print("%-32s %14.0f, growth over %.1f min: %+.0f (allowed %.0f)" % (
            key, first, (settled[-1]["time"] - settled[0]["time"]) / 60, growth, allowed), flush=True)
        check(growth <= allowed, key + " grows")
    print("%d launches in %.1f min" % (samples[-1]["launches"], MINUTES))
    print("PASS")


main()
