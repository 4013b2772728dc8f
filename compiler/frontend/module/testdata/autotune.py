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
