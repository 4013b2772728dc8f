# Kernels for launches whose results are compared on the device, each with configurations that do wrong.
import triton
import triton.language as tl


# BAD: 1 is wrong in an element near the end, 2 writes behind the end, 3 writes an input, 4 has NaN where there is a number,
# 5 a number where there is NaN, 6 leaves the last block out, 7 never ends.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024, "BAD": 0}),
        triton.Config({"BLOCK": 1024, "BAD": 1}),
        triton.Config({"BLOCK": 1024, "BAD": 2}),
        triton.Config({"BLOCK": 1024, "BAD": 3}),
        triton.Config({"BLOCK": 1024, "BAD": 4}),
        triton.Config({"BLOCK": 1024, "BAD": 5}),
        triton.Config({"BLOCK": 1024, "BAD": 6}),
        triton.Config({"BLOCK": 1024, "BAD": 7}),
        triton.Config({"BLOCK": 4096, "BAD": 0}),
    ],
    key=["n"],
)
@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = tl.load(x_ptr + offsets, mask=mask) * 2
    if BAD == 1:
        y = tl.where(offsets == n - 3, y + 1000, y)
    if BAD == 2:
        tl.store(out_ptr + n + tl.arange(0, 16), tl.zeros([16], tl.float32))
    if BAD == 3:
        tl.store(x_ptr + offsets, y + 1000, mask=offsets == 5)
    if BAD == 4:
        y = tl.where(offsets == 7, float("nan"), y)
    if BAD == 5:
        y = tl.where(y != y, 1.0, y)
    if BAD == 6:
        mask = mask & (offsets < n - BLOCK)
    if BAD == 7:
        i = n
        while i > 0:
            i = tl.maximum(i, 1)
            tl.store(out_ptr, 0.0)
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


# BAD: 1 is off by one in an element near the end.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024, "BAD": 0}),
        triton.Config({"BLOCK": 1024, "BAD": 1}),
        triton.Config({"BLOCK": 4096, "BAD": 0}),
    ],
    key=["n"],
)
@triton.jit
def next_integer(x_ptr, out_ptr, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = tl.load(x_ptr + offsets, mask=mask) + 1
    if BAD == 1:
        y = tl.where(offsets == n - 3, y + 1, y)
    tl.store(out_ptr + offsets, y, mask=mask)


# BAD: 1 adds twice.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024, "BAD": 0}),
        triton.Config({"BLOCK": 1024, "BAD": 1}),
        triton.Config({"BLOCK": 4096, "BAD": 0}),
    ],
    key=["n"],
    reset_to_zero=["out_ptr"],
)
@triton.jit
def added(x_ptr, out_ptr, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.atomic_add(out_ptr + offsets, x, mask=mask)
    if BAD == 1:
        tl.atomic_add(out_ptr + offsets, x, mask=mask)


# In place. Never ends on values that were not restored. BAD: 1 is a little off everywhere.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024, "BAD": 0}),
        triton.Config({"BLOCK": 1024, "BAD": 1}),
        triton.Config({"BLOCK": 4096, "BAD": 0}),
    ],
    key=["n"],
    restore_value=["x_ptr"],
)
@triton.jit
def doubled_in_place(x_ptr, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    largest = tl.max(x, axis=0)
    while largest > 1000.0:
        largest = tl.maximum(largest, 1001.0)
        tl.store(x_ptr, largest)
    y = 2 * x + 1
    if BAD == 1:
        y = y + 1
    tl.store(x_ptr + offsets, y, mask=mask)
