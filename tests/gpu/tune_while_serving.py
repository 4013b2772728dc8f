"""Tuning 24 configurations while launches go on: what it costs them, and how far repeated tunings agree.

    tune_while_serving.py ADDRESS [cpu:0|cuda:0]          a running daemon with an empty state

- Under load: one client launches a short kernel in a closed loop, and the product that is tuned now and then; tuning in the
  background is on and off in alternation. Goal: the 99th percentile with it exceeds the one without by no more than the
  bound that the daemon is configured to.
- Repeated: a shape is tuned 20 times, then all picks are timed in turns. Goal: their times differ by less than 2 %.

Exit status 0: both met; 1: not; 77: no such device.
"""

import random
import statistics
import struct
import sys
import time

from tune_time import GRID, kernel_path

ALTERNATIONS = {"cpu": 5, "cuda": 20}
REPEATS = 20
LONGEST_BLOCK = 60  # seconds
EVERY = 8  # every so many launches are of the product
SHAPES = {"cpu": (64, 512, 512), "cuda": (1024, 1024, 1024)}
ROUNDS = {"cpu": 101, "cuda": 501}


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Bench:
    def __init__(self, client, device):
        from tessera import wire

        self.client, self.device, self.wire = client, device, wire
        self.kind = device.partition(":")[0]
        self.tuning = wire.Service(client._channel, "TuningService")
        self.module = client.register(kernel_path())
        m, n, k = SHAPES[self.kind]
        sizes = {"a_ptr": (max(m, 32), k), "b_ptr": (k, n), "bias_ptr": (1, n), "out_ptr": (max(m, 32), n)}
        self.memory = {name: self.matrix(*size) for name, size in sizes.items()}
        scalars = {"M": m, "N": n, "K": k, "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1,
                   "stride_om": n, "stride_on": 1}
        self.product = self.request("fused_linear", self.memory, scalars)
        self.product.grid_expressions.append(GRID)
        self.short = self.request("yardstick", {name: self.memory[name] for name in ("a_ptr", "b_ptr", "out_ptr")}, {"K": k})
        block = self.short.arguments.add(name="BLOCK")
        block.constant.integer = 32
        self.short.grid.append(n // 32)

    def matrix(self, rows, columns):
        if self.kind == "cuda":
            import torch

            return torch.randn(rows, columns, device=self.device, dtype=torch.float16) / columns**0.25
        buffer = self.client.host_buffer(rows * columns * 2)
        values = [random.gauss(0, columns**-0.25) for _ in range(rows * columns)]
        buffer.view[:] = struct.pack(f"{len(values)}e", *values)
        return buffer, rows, columns

    def request(self, kernel, memory, scalars):
        request = self.wire.message("LaunchRequest")(
            session=self.client.session, module=self.module.id, kernel=kernel, device=self.device
        )
        for name, value in {**memory, **scalars}.items():
            argument = request.arguments.add(name=name)
            if isinstance(value, tuple):
                argument.tensor.region, argument.tensor.dtype = value[0].region, "float16"
                argument.tensor.shape.extend(value[1:])
            else:
                self.client._fill(argument, value)
        return request

    def launch(self, request):
        """Seconds until the answer, and of the kernel."""
        begin = time.monotonic()
        response = self.client._call(self.client._launches.Launch, request)
        return time.monotonic() - begin, response.kernel_seconds

    def call(self, method, name, **fields):
        return self.client._call(getattr(self.tuning, method), self.wire.message(name)(**fields))

    def explain(self):
        return self.call("ExplainTunings", "ExplainTuningsRequest", kernel="fused_linear")

    def set_policy(self, policy):
        self.call("SetPolicy", "SetPolicyRequest", kernel="fused_linear", policy=policy)

    def tune(self):
        request = self.wire.message("TuneRequest")(effort="full", budget_seconds=300, launch=self.product)
        return self.client._call(self.tuning.Tune, request).tuning

    def block(self, tunes, launches):
        """Latencies of the short kernel while a tuning lasts, or over so many launches."""
        self.set_policy("fixed")
        self.call("ForgetTuning", "ForgetTuningRequest", kernel="fused_linear")
        for _ in range(50):
            self.launch(self.short)
        if tunes:
            self.set_policy("bucketed")
        latencies, begin, done = [], time.monotonic(), False
        while not done:
            for _ in range(100):
                latencies.append(self.launch(self.short)[0])
                if len(latencies) % EVERY == 0:
                    self.launch(self.product)
            if tunes:
                done = any(site.state == "tuned" for site in self.explain().sites)
            else:
                done = len(latencies) >= launches
            if time.monotonic() - begin > LONGEST_BLOCK:
                raise SystemExit(f"not tuned after {LONGEST_BLOCK} s: {self.explain()}")
        return latencies

    def under_load(self):
        self.launch(self.short), self.launch(self.product)
        before = self.explain().budget
        latencies = {True: [], False: []}
        each = []
        for _ in range(ALTERNATIONS[self.kind]):
            on = self.block(True, 0)
            off = self.block(False, len(on))
            latencies[True] += on
            latencies[False] += off
            each.append(quantile(on, 0.99) - quantile(off, 0.99))
        after = self.explain().budget
        on, off = (quantile(latencies[tunes], 0.99) for tunes in (True, False))
        good = on - off <= after.latency_bound_seconds
        print(
            f"{'met' if good else 'MISSED'}: launches while 24 configurations are tuned, {len(each)} times, {len(latencies[True])}"
            f" launches: p99 {on * 1e6:.0f} us, without {off * 1e6:.0f} us: {(on - off) * 1e6:+.0f} us, bound"
            f" {after.latency_bound_seconds * 1e6:.0f} us"
        )
        print(
            f"  in each alternation: {', '.join(f'{delta * 1e6:+.0f}' for delta in each)} us; medians"
            f" {statistics.median(latencies[True]) * 1e6:.0f} and {statistics.median(latencies[False]) * 1e6:.0f} us; held up"
            f" {after.launches_held_up - before.launches_held_up} launches for"
            f" {(after.held_up_seconds - before.held_up_seconds) * 1e3:.1f} ms, bound overrun {after.overruns - before.overruns} times"
        )
        return good

    def repeated(self):
        self.set_policy("fixed")
        picks, seconds = [], []
        configs = [trial.config.SerializeToString() for trial in self.tune().trials]
        for _ in range(REPEATS):
            self.call("ForgetTuning", "ForgetTuningRequest", kernel="fused_linear")
            begin = time.monotonic()
            tuned = self.tune()
            seconds.append(time.monotonic() - begin)
            picks.append(tuned.trials[tuned.chosen].config.SerializeToString())
        times = {pick: [] for pick in picks}
        for _ in range(ROUNDS[self.kind]):
            for pick in random.sample(sorted(times), len(times)):
                self.product.config = configs.index(pick) + 1
                times[pick].append(self.launch(self.product)[1])
        self.product.config = 0
        medians = sorted(statistics.median(samples) for samples in times.values())
        spread = medians[-1] / medians[0] - 1
        good = spread < 0.02
        flips = sum(a != b for a, b in zip(picks, picks[1:]))
        print(
            f"{'met' if good else 'MISSED'}: {REPEATS} tunings picked {len(times)} of {len(configs)} configurations ({flips} changes from"
            f" one to the next), true times {', '.join(f'{median * 1e6:.2f}' for median in medians)} us, apart by"
            f" {spread * 100:.2f} %, goal 2 %; {statistics.median(seconds):.2f} s a tuning"
        )
        return good


def main(address, device="cuda:0"):
    import tessera

    with tessera.Client(address) as client:
        if device not in {known.name for known in client.status().devices}:
            return 77
        bench = Bench(client, device)
        results = [bench.under_load(), bench.repeated()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
