"""Kernels that compile_time.py and kernel_speed.py run under Tessera and under Triton, from one source text."""

import importlib.util
import itertools
import os
import sys
import tempfile

HEADER = "import triton\nimport triton.language as tl\n\n\n"

# `NONCE` becomes another number in each text, so that no cache knows it.
MATMUL = HEADER + '''@triton.jit
def matmul(a, b, bias, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr,
           GELU: tl.constexpr):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    width = GM * nn
    group = pid // width
    size = min(nm - group * GM, GM)
    pm = group * GM + (pid % width) % size
    pn = (pid % width) // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    ap = a + rm[:, None] * sam + rk[None, :]
    bp = b + rk[:, None] * sbk + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(bp, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK
        bp += BK * sbk
    acc = acc + tl.load(bias + rn)[None, :].to(tl.float32) + NONCE
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.70710678118654752))
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    tl.store(c + om[:, None] * scm + on[None, :], acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))
'''

SOFTMAX = HEADER + '''@triton.jit
def softmax(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf")).to(tl.float32)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + i, (v / (tl.sum(v, 0) + NONCE)).to(tl.float16), mask=i < n)
'''

RMS_NORM = HEADER + '''@triton.jit
def rms_norm(out, x, w, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / n + eps + NONCE)
    weight = tl.load(w + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out + row * stride + i, (v * scale * weight).to(tl.float16), mask=i < n)
'''

_count = itertools.count(1)


def fresh(text):
    """The text with a number that no other has, too small to change a result."""
    return text.replace("NONCE", repr((os.getpid() + next(_count) / 4096.0) * 1e-30))


class Subject:
    """One launch: kernel, its arguments in order of the parameters, constants, grid."""

    def __init__(self, name, text, kernel, arguments, constants, grid, num_warps, num_stages):
        self.name, self.text, self.kernel = name, text, kernel
        self.arguments, self.constants, self.grid = arguments, constants, grid
        self.num_warps, self.num_stages = num_warps, num_stages


def matmul(torch, m, n, k, config, gelu, num_warps, num_stages):
    bm, bn, bk = config
    half = dict(dtype=torch.float16, device="cuda")
    a, b = torch.randn(m, k, **half), torch.randn(k, n, **half) / k**0.5
    arguments = {"a": a, "b": b, "bias": torch.randn(n, **half), "c": torch.empty(m, n, **half), "M": m, "N": n, "K": k,
                 "sam": a.stride(0), "sbk": b.stride(0), "scm": n}
    constants = {"BM": bm, "BN": bn, "BK": bk, "GM": 8, "GELU": gelu}
    name = f"matmul {m}x{n}x{k}{' + GELU' if gelu else ''} {bm}x{bn}x{bk}"
    return Subject(name, MATMUL, "matmul", arguments, constants, -(-m // bm) * -(-n // bn), num_warps, num_stages)


def softmax(torch, rows, columns):
    x = torch.randn(rows, columns, dtype=torch.float16, device="cuda")
    arguments = {"x": x, "y": torch.empty_like(x), "stride": columns, "n": columns}
    block = 1 << (columns - 1).bit_length()
    return Subject(f"softmax {rows}x{columns}", SOFTMAX, "softmax", arguments, {"BLOCK": block}, rows, 4 if block < 4096 else 16, 3)


def rms_norm(torch, rows, columns):
    x = torch.randn(rows, columns, dtype=torch.float16, device="cuda")
    arguments = {"out": torch.empty_like(x), "x": x, "w": torch.randn(columns, dtype=torch.float16, device="cuda"),
                 "stride": columns, "n": columns, "eps": 1e-6}
    block = 1 << (columns - 1).bit_length()
    return Subject(f"rms_norm {rows}x{columns}", RMS_NORM, "rms_norm", arguments, {"BLOCK": block}, rows, 4 if block < 4096 else 16, 3)


def triton_kernel(text, kernel):
    """The kernel in a module of its own; Triton reads its source from a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    name = f"side_by_side_{os.path.basename(file.name)[:-3]}"
    spec = importlib.util.spec_from_file_location(name, file.name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return getattr(module, kernel)


def launch_triton(kernel, subject):
    kernel[(subject.grid,)](*subject.arguments.values(), **subject.constants, num_warps=subject.num_warps, num_stages=subject.num_stages)
