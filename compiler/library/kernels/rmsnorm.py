"""out = x / sqrt(mean(x^2) + eps) * weight over the last dimension of x [rows, cols], in fp32."""
import triton
import triton.language as tl


@triton.jit
def rmsnorm_row(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < cols
    x = tl.load(x_ptr + row * x_stride + i, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    weight = tl.load(weight_ptr + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * out_stride + i, (x * scale * weight).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rmsnorm_blocks(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    out_row = out_ptr + row * out_stride
    i = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_row + start + i, mask=start + i < cols, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / cols + eps)
    for start in range(0, cols, BLOCK):
        inside = start + i < cols
        x = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + start + i, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_row + start + i, (x * scale * weight).to(out_ptr.dtype.element_ty), mask=inside)
