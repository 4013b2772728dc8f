"""Kernels with a mistake each, and one whose result depends on the order of its programs."""
import triton
import triton.language as tl


@triton.jit
def row_max_of_zeros(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + i, mask=i < cols, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def row_max(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + i, mask=i < cols, other=-float("inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def copy_without_mask(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def wrapping_offset(x_ptr, out_ptr, a, b, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + tl.program_id(0) * a * b + i))


@triton.jit
def half_sum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK)).to(tl.float16)
    tl.store(out_ptr, tl.sum(x, axis=0).to(tl.float32))


@triton.jit
def last_program_wins(out_ptr):
    tl.store(out_ptr, tl.program_id(0).to(tl.float32))


@triton.jit
def product(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + i[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(x_ptr + at), tl.load(y_ptr + at)))
