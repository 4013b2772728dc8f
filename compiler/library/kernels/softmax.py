"""Softmax over the last dimension of x [rows, cols], computed in fp32.

Two kernels: one block holds the whole row, or the row is walked in blocks (wide rows, and widths
just above a power of two, where one block would be mostly padding).
"""
import triton
import triton.language as tl


@triton.jit
def softmax_row(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < cols
    # -inf is the value that neither raises the maximum nor adds to the sum.
    x = tl.load(x_ptr + row * x_stride + i, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(out_ptr + row * out_stride + i, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def softmax_blocks(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    out_row = out_ptr + row * out_stride
    i = tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_row + start + i, mask=start + i < cols, other=float("-inf")).to(tl.float32)
        highest = tl.maximum(highest, x)
    top = tl.max(highest, axis=0)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_row + start + i, mask=start + i < cols, other=float("-inf")).to(tl.float32)
        sums += tl.exp(x - top)
    total = tl.sum(sums, axis=0)
    for start in range(0, cols, BLOCK):
        inside = start + i < cols
        x = tl.load(x_row + start + i, mask=inside, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - top) / total
        tl.store(out_row + start + i, y.to(out_ptr.dtype.element_ty), mask=inside)
