# Lists of configurations in the shapes that projects write them.
import itertools

import tuning.db
import triton
import triton.language as tl


@triton.autotune(
    [
        triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s)
        for m, n in [(64, 64), (128, 64), (256, 64)]
        if m * n <= 8192
        for w, s in itertools.product([4, 8], [2, 3])
    ],
    ["M", "N"],
)
@triton.jit
def from_comprehension(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)


def is_hip():
    return triton.runtime.driver.active.get_current_target().backend == "hip"


def make_configs(base, *, warps=4):
    configs = [triton.Config({"BM": base, "BN": base, "waves_per_eu": 2}, num_warps=warps, maxnreg=128)]
    if is_hip():
        return configs
    smaller = base // 2
    configs.append(triton.Config(dict(BM=smaller, BN=smaller)))
    return configs


@triton.autotune(configs=make_configs(64), key=["M"], reset_to_zero=["p"], restore_value=("q",))
@triton.jit
def from_function(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)


CONFIGS = []
for stages in range(3):
    CONFIGS.append(triton.Config({"BM": 32, "BN": 2**stages}, num_stages=stages))


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def from_global(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)


@triton.autotune(configs=tuning.db.load("from_outside"), key=["M"])
@triton.jit
def from_outside(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)


def small_blocks(configs, named_args, **kwargs):
    return [c for c in configs if c.kwargs["BM"] * c.kwargs["BN"] <= 4096]


@triton.autotune(configs=[triton.Config({"BM": b, "BN": 64}) for b in (32, 64, 128)], key=["M"],
                 prune_configs_by={"early_config_prune": small_blocks})
@triton.jit
def pruned(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)


def blocks_within(configs, named_args, **kwargs):
    rows = named_args["M"]
    width = kwargs["N"]
    return [c for c in configs if c.kwargs["BM"] <= rows and c.kwargs["BN"] <= width] or configs[:1]


def estimate(M, BM, BN, num_warps, **kwargs):
    return (M + BM - 1) // BM * BM / num_warps


@triton.autotune(configs=[triton.Config({"BM": b, "BN": 64}, num_warps=w) for b in (32, 64, 128) for w in (4, 8)], key=["M"],
                 prune_configs_by={"early_config_prune": blocks_within, "perf_model": estimate, "top_k": 2})
@triton.jit
def pruned_by_launch(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)


@triton.autotune(configs=[triton.Config({"BM": 32, "BN": 64}, pre_hook=lambda nargs: nargs["p"].zero_())], key=["M"])
@triton.jit
def hooked(p, q, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(p, M)
