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


def remainder(value, by):
    return value % by


def is_multiple(value: int, by: int) -> bool:
    """Whether value is a multiple of by."""
    return remainder(value, by) == 0


def is_wide(args):
    return args["n"] >= LIMIT


@triton.heuristics({
    "HAS_BIAS": lambda args: args["bias"] is not None,
    "BLOCK": lambda nargs: clip(triton.next_power_of_2(nargs["n"]), LIMIT),
    "EVEN": lambda args: args["n"] % args["BLOCK"] == 0,
    "WARPS": warps,
    "LINEAR": lambda args: not is_multiple(args["stride"], args["n"] + 1) or args["n"] == 0,
    "WIDE": is_wide,
})
@triton.jit
def k(p, bias, n, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, WARPS: tl.constexpr,
      stride, LINEAR: tl.constexpr, WIDE: tl.constexpr):
    tl.store(p, n)
