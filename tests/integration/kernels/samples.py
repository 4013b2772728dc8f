# Kernels whose best configuration depends on a value of the key, or on an argument outside the key.
import triton
import triton.language as tl


# The sum of x and y. Where `right` is false it takes some hundred times as long: the detour adds nothing, for it
# stays below 2, but no compiler knows.
@triton.jit
def sum_with_detour(x_ptr, y_ptr, out_ptr, n, right):
    detour = 0.5
    for _ in range(0, tl.where(right, 1, 50000)):
        detour = detour * 0.5 + 1
    offsets = tl.arange(0, 1024)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y + tl.where(detour > 3, 1.0, 0.0), mask=mask)


@triton.autotune(configs=[triton.Config({"REST": 0}), triton.Config({"REST": 1})], key=["n"])
@triton.jit
def depends_on_n(x_ptr, y_ptr, out_ptr, n, scale, REST: tl.constexpr):
    sum_with_detour(x_ptr, y_ptr, out_ptr, n, n % 2 == REST)


@triton.autotune(configs=[triton.Config({"REST": 0}), triton.Config({"REST": 1})], key=["n"])
@triton.jit
def depends_on_scale(x_ptr, y_ptr, out_ptr, n, scale, REST: tl.constexpr):
    sum_with_detour(x_ptr, y_ptr, out_ptr, n, scale % 2 == REST)
