"""out = gelu(a @ b + bias): one tile of the output for each program, 24 configurations."""
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8},
                  num_warps=8 if m * n >= 8192 else 4, num_stages=4 if k == 32 else 3)
    for m in (64, 16, 32, 128) for n in (64, 32, 128) for k in (32, 64)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def fused_linear(a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K,
                 stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    # Programs that run side by side share rows of a and columns of b.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first = (pid // in_group) * GROUP_M
    rows = min(tiles_m - first, GROUP_M)
    tile_m = first + (pid % in_group) % rows
    tile_n = (pid % in_group) // rows

    m = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_K):
        inside = begin + k < K
        x = tl.load(a, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        y = tl.load(b, mask=inside[:, None] & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk

    acc += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    # 0.5 x (1 + tanh(u)) is x sigmoid(2 u)
    acc = acc * tl.sigmoid(1.5957691216057308 * (acc + 0.044715 * acc * acc * acc))
    out = out_ptr + m[:, None] * stride_om + n[None, :] * stride_on
    tl.store(out, acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def yardstick(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    """A product that nothing tunes: how fast the machine is just now."""
    i = tl.arange(0, BLOCK)
    column = tl.program_id(0) * BLOCK + i
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for begin in range(0, K, BLOCK):
        x = tl.load(a_ptr + i[:, None] * K + begin + i[None, :])
        y = tl.load(b_ptr + (begin + i)[:, None] * (tl.num_programs(0) * BLOCK) + column[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out_ptr + i[:, None] * (tl.num_programs(0) * BLOCK) + column[None, :], acc.to(tl.float16))
