"""softmax(q k^T * scale) v, one block of queries a program: what a real attention kernel has, to measure the compiler by.

q [Z, HQ, M, D], k and v [Z, HKV, N, D], out like q, any strides; lse [Z, HQ, M] gets the logarithm of each row's sum.
Grouped queries, causal masks, sliding windows, a soft cap, an additive bias, ALiBi, sequence lengths per batch.
"""
import triton
import triton.language as tl

LOG2E: tl.constexpr = 1.4426950408889634


@triton.jit
def soft_capped(scores, CAP: tl.constexpr):
    # CAP * tanh(scores / CAP), by exponentials
    doubled = 2.0 * scores / CAP
    return CAP * (1.0 - 2.0 / (tl.exp(doubled) + 1.0))


@triton.jit
def load_rows(base, rows, cols, stride_row, stride_col, row_end, D: tl.constexpr, D_IS_PADDED: tl.constexpr, CHECK_ROWS: tl.constexpr):
    pointers = base + rows[:, None] * stride_row + cols[None, :] * stride_col
    if CHECK_ROWS and D_IS_PADDED:
        return tl.load(pointers, mask=(rows[:, None] < row_end) & (cols[None, :] < D), other=0.0)
    elif CHECK_ROWS:
        return tl.load(pointers, mask=rows[:, None] < row_end, other=0.0)
    elif D_IS_PADDED:
        return tl.load(pointers, mask=cols[None, :] < D, other=0.0)
    else:
        return tl.load(pointers)


@triton.jit
def attend(acc, row_sum, row_max, q, k_base, v_base, bias_base, m, d, first, last, n_end,
           stride_kn, stride_kd, stride_vn, stride_vd, stride_bm, stride_bn,
           scale, slope, shift,
           D: tl.constexpr, D_IS_PADDED: tl.constexpr, BLOCK_N: tl.constexpr,
           CAUSAL: tl.constexpr, WINDOW: tl.constexpr, CAP: tl.constexpr,
           HAS_BIAS: tl.constexpr, HAS_ALIBI: tl.constexpr, MASKED: tl.constexpr):
    """Columns [first, last) of the scores; MASKED where some of them must not count."""
    for start in tl.range(first, last, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        n = start + tl.arange(0, BLOCK_N)
        k = load_rows(k_base, n, d, stride_kn, stride_kd, n_end, D, D_IS_PADDED, MASKED)
        scores = tl.dot(q, tl.trans(k)) * scale
        if CAP > 0.0:
            scores = soft_capped(scores, CAP)
        if HAS_BIAS:
            bias = tl.load(bias_base + m[:, None] * stride_bm + n[None, :] * stride_bn, mask=n[None, :] < n_end, other=0.0)
            scores += bias.to(tl.float32)
        if HAS_ALIBI:
            distance = tl.abs(m[:, None] + shift - n[None, :])
            scores -= slope * distance.to(tl.float32)
        scores *= LOG2E
        if MASKED:
            inside = n[None, :] < n_end
            if CAUSAL:
                inside = inside & (n[None, :] <= m[:, None] + shift)
            if WINDOW > 0:
                inside = inside & (n[None, :] > m[:, None] + shift - WINDOW)
            scores = tl.where(inside, scores, float("-inf"))

        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        # A row without any column so far must not turn -inf - -inf into NaN.
        safe_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp2(scores - safe_max[:, None])
        decay = tl.exp2(row_max - safe_max)
        row_sum = row_sum * decay + tl.sum(weights, axis=1)
        acc = acc * decay[:, None]
        v = load_rows(v_base, n, d, stride_vn, stride_vd, n_end, D, D_IS_PADDED, MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc)
        row_max = new_max
    return acc, row_sum, row_max


@triton.jit
def flash_attention(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, bias_ptr, alibi_ptr, lengths_ptr,
                    stride_qz, stride_qh, stride_qm, stride_qd,
                    stride_kz, stride_kh, stride_kn, stride_kd,
                    stride_vz, stride_vh, stride_vn, stride_vd,
                    stride_oz, stride_oh, stride_om, stride_od,
                    stride_bz, stride_bh, stride_bm, stride_bn,
                    stride_lz, stride_lh,
                    HQ, M, N, scale,
                    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
                    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, CAP: tl.constexpr,
                    HAS_BIAS: tl.constexpr, HAS_ALIBI: tl.constexpr, HAS_LENGTHS: tl.constexpr):
    tl.static_assert(BLOCK_D >= D, "one block holds a whole head")
    D_IS_PADDED: tl.constexpr = BLOCK_D != D
    block = tl.program_id(0)
    batch = (tl.program_id(1) // HQ).to(tl.int64)
    head = (tl.program_id(1) % HQ).to(tl.int64)
    kv_head = head // GROUP

    n_end = N
    if HAS_LENGTHS:
        n_end = tl.minimum(tl.load(lengths_ptr + batch), N)
    shift = n_end - M  # the last query sees the last key

    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    q_base = q_ptr + batch * stride_qz + head * stride_qh
    k_base = k_ptr + batch * stride_kz + kv_head * stride_kh
    v_base = v_ptr + batch * stride_vz + kv_head * stride_vh
    bias_base = bias_ptr
    if HAS_BIAS:
        bias_base = bias_ptr + batch * stride_bz + head * stride_bh
    slope = 0.0
    if HAS_ALIBI:
        slope = tl.load(alibi_ptr + head).to(tl.float32)

    q = load_rows(q_base, m, d, stride_qm, stride_qd, M, D, D_IS_PADDED, True)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)

    # Columns that some row sees, and of those the ones that every row sees: they need no mask.
    end = n_end
    if CAUSAL:
        end = tl.minimum(n_end, tl.maximum((block + 1) * BLOCK_M + shift, 0))
    begin = 0
    if WINDOW > 0:
        begin = tl.maximum(block * BLOCK_M + shift - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
    full_end = n_end // BLOCK_N * BLOCK_N
    if CAUSAL:
        full_end = tl.minimum(full_end, tl.maximum(block * BLOCK_M + shift + 1, 0) // BLOCK_N * BLOCK_N)
    if WINDOW > 0:
        full_end = begin
    full_end = tl.maximum(full_end, begin)

    acc, row_sum, row_max = attend(acc, row_sum, row_max, q, k_base, v_base, bias_base, m, d, begin, full_end, n_end,
                                   stride_kn, stride_kd, stride_vn, stride_vd, stride_bm, stride_bn, scale, slope, shift,
                                   D, D_IS_PADDED, BLOCK_N, CAUSAL, WINDOW, CAP, HAS_BIAS, HAS_ALIBI, False)
    acc, row_sum, row_max = attend(acc, row_sum, row_max, q, k_base, v_base, bias_base, m, d, full_end, end, n_end,
                                   stride_kn, stride_kd, stride_vn, stride_vd, stride_bm, stride_bn, scale, slope, shift,
                                   D, D_IS_PADDED, BLOCK_N, CAUSAL, WINDOW, CAP, HAS_BIAS, HAS_ALIBI, True)

    empty = row_sum == 0.0
    acc = acc / tl.where(empty, 1.0, row_sum)[:, None]
    lse = tl.where(empty, float("-inf"), (row_max + tl.log2(row_sum)) / LOG2E)
    tl.store(lse_ptr + batch * stride_lz + head * stride_lh + m, lse, mask=m < M)
    out = out_ptr + batch * stride_oz + head * stride_oh + m[:, None] * stride_om + d[None, :] * stride_od
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (d[None, :] < D))
