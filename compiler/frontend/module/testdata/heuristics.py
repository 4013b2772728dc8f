# Heuristics as lambdas, with constants and functions of the module.
import triton
import triton.language as tl

LIMIT = 512


def clip(value, limit):
    return value if value < limit else limit


def warps(args):
    block = args["BLOCK"]
    if block >= 2 * LIMIT:
        return 8
    return 4


@triton.heuristics({
    "HAS_BIAS": lambda args: args["bias"] is not None,
    "BLOCK": lambda nargs: clip(triton.next_power_of_2(nargs["n"]), LIMIT),
    "EVEN": lambda args: args["n"] % args["BLOCK"] == 0,
    "WARPS": warps,
})
@triton.jit
def k(p, bias, n, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, WARPS: tl.constexpr):
    tl.store(p, n)
