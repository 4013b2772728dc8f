"""How long tuning 24 configurations of a fused product takes, beside Triton's autotuner in the same run.

    tune_time.py ADDRESS          a running daemon with an empty state

For a new specialisation (everything compiled) and for a further shape of it (only measured). Goals: at most a quarter and a
fifth of Triton's time. Exit status 0: both met; 1: not; 77: no Triton, or no GPU.
"""

import importlib.util
import os
import sys
import tempfile
import time

GOALS = {"new specialisation": 1 / 4, "further shape": 1 / 5}
SHAPES = {"new specialisation": (4096, 4096, 4096), "further shape": (2048, 4096, 4096)}
GRID = "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)"


def kernel_path():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in ("fused_linear.py", "../../client/cli/bench/fused_linear.py"):
        if os.path.exists(os.path.join(here, path)):
            return os.path.join(here, path)
    raise FileNotFoundError("fused_linear.py")


def arguments(torch, m, n, k):
    torch.manual_seed(m)
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16) / k**0.5
    bias = torch.randn(n, device="cuda", dtype=torch.float16)
    out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    return {
        "a_ptr": a, "b_ptr": b, "bias_ptr": bias, "out_ptr": out, "M": m, "N": n, "K": k,
        "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1, "stride_om": n, "stride_on": 1,
    }


def error_of(torch, values):
    x = values["a_ptr"][:64].double() @ values["b_ptr"].double() + values["bias_ptr"].double()
    want = torch.nn.functional.gelu(x, approximate="tanh")
    return ((values["out_ptr"][:64].double() - want).norm() / want.norm()).item()


def triton_side(torch, triton, kernel, values):
    """Seconds of the first launch, which tunes, and the time of what it chose."""

    def grid(meta):
        return (triton.cdiv(values["M"], meta["BLOCK_M"]) * triton.cdiv(values["N"], meta["BLOCK_N"]),)

    torch.cuda.synchronize()
    begin = time.monotonic()
    kernel[grid](**values)
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    best = triton.testing.do_bench(lambda: kernel[grid](**values), return_mode="median")
    return seconds, best * 1e-3, str(kernel.best_config)


def daemon_side(client, tessera, module, values, effort):
    from tessera import wire

    tuning = wire.Service(client._channel, "TuningService")
    request = wire.message("TuneRequest")(effort=effort, budget_seconds=300)
    launch = request.launch
    launch.session, launch.module, launch.kernel = client.session, module.id, "fused_linear"
    launch.grid_expressions.append(GRID)
    gpu = None
    for name, value in values.items():
        gpu = client._fill(launch.arguments.add(name=name), value) or gpu
    launch.device = "cuda:0"
    begin = time.monotonic()
    tuned = client._call(tuning.Tune, request).tuning
    seconds = time.monotonic() - begin
    measured = [trial for trial in tuned.trials if trial.samples]
    return seconds, tuned.trials[tuned.chosen], len(measured), [trial.failure for trial in tuned.trials if trial.failure]


def main(address):
    try:
        import torch
        import triton
    except ImportError:
        return 77
    if not torch.cuda.is_available():
        return 77
    import tessera

    path = kernel_path()
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    spec = importlib.util.spec_from_file_location("fused_linear", path)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    # Both sides have loaded what they need before the first figure: torch's and Triton's set-up, the workers' assembler.
    warm = arguments(torch, 32, 1024, 1024)
    source.yardstick[(32,)](warm["a_ptr"], warm["b_ptr"], warm["out_ptr"], 1024, BLOCK=32)
    torch.cuda.synchronize()
    met = True
    with tessera.Client(address) as client:
        module = client.register(path)
        client.launch(
            module, "yardstick", 32,
            {"a_ptr": warm["a_ptr"], "b_ptr": warm["b_ptr"], "out_ptr": warm["out_ptr"], "K": 1024, "BLOCK": 32},
            enqueue=False,
        )
        for what, shape in SHAPES.items():
            values = arguments(torch, *shape)
            ours, chosen, count, failures = daemon_side(client, tessera, module, values, "full")
            theirs, best, config = triton_side(torch, triton, source.fused_linear, values)
            triton_error = error_of(torch, values)
            values["out_ptr"].fill_(float("nan"))
            client.launch(module, "fused_linear", GRID, values, enqueue=False)
            error = error_of(torch, values)
            ratio = ours / theirs
            good = ratio <= GOALS[what] and error < 2e-3
            met = met and good
            print(
                f"{'met' if good else 'MISSED'}: {what} {'x'.join(map(str, shape))}: {ours:.2f} s for {count} configurations,"
                f" Triton {theirs:.2f} s: {ratio:.3f}, goal {GOALS[what]:.2f}"
            )
            chosen_values = " ".join(f"{value.name}={value.value.integer}" for value in chosen.config.values)
            print(
                f"  ours chose {chosen_values}: {chosen.median_seconds * 1e6:.1f} us, error {error:.1e};"
                f" Triton {config}: {best * 1e6:.1f} us, error {triton_error:.1e}"
            )
            for failure in sorted(set(failures)):
                print(f"  rejected, {failures.count(failure)} times: {failure}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
