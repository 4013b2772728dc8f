"""out = activation(x @ w + bias), x [M, K], w [K, N], bias [N] or none, out [M, N]; any strides."""
import triton
import triton.language as tl


@triton.jit
def gelu_tanh(x):
    # x * sigmoid(2 u) equals 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
    return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=8, num_stages=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1}, num_warps=4, num_stages=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def linear(x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K,
           stride_xm, stride_xk, stride_wk, stride_wn, stride_bias, stride_om, stride_on,
           ACTIVATION: tl.constexpr, PRECISION: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    tl.static_assert(BLOCK_K >= 16, "a dot needs at least 16 products")
    # Neighbouring programs share rows of x: GROUP_M rows of tiles are walked column by column.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * tiles_n)
    rows = min(tiles_m - group * GROUP_M, GROUP_M)
    inside = pid % (GROUP_M * tiles_n)
    tile_m = group * GROUP_M + inside % rows
    tile_n = inside // rows

    # 64-bit offsets: a tensor may have more than 2^31 elements.
    m = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x = x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk
    w = w_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first_k in range(0, K, BLOCK_K):
        in_k = k < K - first_k
        a = tl.load(x, mask=(m[:, None] < M) & in_k[None, :], other=0.0)
        b = tl.load(w, mask=in_k[:, None] & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        x += BLOCK_K * stride_xk
        w += BLOCK_K * stride_wk

    if bias_ptr is not None:
        acc += tl.load(bias_ptr + n * stride_bias, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == "gelu":
        acc = gelu_tanh(acc)
    elif ACTIVATION == "relu":
        acc = tl.maximum(acc, 0.0)
    out = out_ptr + m[:, None] * stride_om + n[None, :] * stride_on
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
