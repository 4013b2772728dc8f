# Kernels whose configurations differ in speed, and some that no configuration should be like.
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=4) for block in (1, 64, 256, 1024, 4096)],
    key=["n"],
)
@triton.jit
def scaled_sum(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x + y, mask=mask)


# BAD: 1 writes behind the end, 2 never ends, 3 gives other numbers.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64, "BAD": 0}),
        triton.Config({"BLOCK": 1024, "BAD": 1}),
        triton.Config({"BLOCK": 1024, "BAD": 2}),
        triton.Config({"BLOCK": 1024, "BAD": 3}),
        triton.Config({"BLOCK": 1024, "BAD": 0}),
    ],
    key=["n"],
)
@triton.jit
def with_bad_configurations(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    result = 2 * x + y
    if BAD == 1:
        tl.store(out_ptr + n + tl.arange(0, 16), tl.zeros([16], tl.float32))
    if BAD == 2:
        i = n
        while i > 0:
            i = tl.maximum(i, 1)
            tl.store(out_ptr, 0.0)
    if BAD == 3:
        result = result + 1
    tl.store(out_ptr + offsets, result, mask=mask)


# The fastest ones are not to be used: BAD 1 writes behind the end, 3 gives other numbers.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1, "BAD": 0}),
        triton.Config({"BLOCK": 4096, "BAD": 3}),
        triton.Config({"BLOCK": 4096, "BAD": 1}),
        triton.Config({"BLOCK": 256, "BAD": 0}),
    ],
    key=["n"],
)
@triton.jit
def with_tempting_configurations(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    if BAD == 3:
        result = tl.zeros([BLOCK], tl.float32)
    else:
        result = 2 * tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    if BAD == 1:
        tl.store(out_ptr + n + tl.arange(0, 16), tl.zeros([16], tl.float32))
    tl.store(out_ptr + offsets, result, mask=mask)
