# Kernels and the host code around them, in the manner of real projects.
import math
from typing import Optional

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    """out = scale * x + y"""
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < n
    x = tl.load(x_ptr + where, mask=inside, other=0.0)
    y = tl.load(y_ptr + where, mask=inside, other=0.0)
    tl.store(out_ptr + where, scale * x + y, mask=inside)


@triton.autotune(
    configs=[
        triton.Config({"TILE_M": m, "TILE_N": n, "TILE_K": 32, "GROUP": 8}, num_warps=w, num_stages=s)
        for m, n in [(64, 64), (128, 64)]
        for w in (4, 8)
        for s in (2, 3)
        if m * n >= 4096
    ],
    key=["M", "N", "K"],
)
@triton.jit
def linear_gelu(a_ptr, w_ptr, bias_ptr, c_ptr, M, N, K, sam, sak, swk, swn, scm, scn,
                TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
                GROUP: tl.constexpr, GELU: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    band = GROUP * tiles_n
    first = pid // band * GROUP
    rows = min(tiles_m - first, GROUP)
    row = first + pid % band % rows
    col = (pid % band) // rows
    rm = row.to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    rn = col.to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    rk = tl.arange(0, TILE_K)
    acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k in range(0, K, TILE_K):
        live = k + rk < K
        a = tl.load(a_ptr + rm[:, None] * sam + (k + rk)[None, :] * sak,
                    mask=(rm[:, None] < M) & live[None, :], other=0.)
        w = tl.load(w_ptr + (k + rk)[:, None] * swk + rn[None, :] * swn,
                    mask=live[:, None] & (rn[None, :] < N), other=0.)
        acc = tl.dot(a, w, acc)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    if GELU:
        t = 2.0 * tl.sigmoid(1.5957691216 * (acc + 0.044715 * acc * acc * acc)) - 1.0
        acc = 0.5 * acc * (1.0 + t)
    elif not GELU and K > 0x7fff_ffff: pass
    tl.store(c_ptr + rm[:, None] * scm + rn[None, :] * scn, acc.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < M) & (rn[None, :] < N))


class Linear(torch.nn.Module):
    limits: dict[str, int] = {"rows": 1 << 20, **{}}

    def forward(self, a: torch.Tensor, w, bias: Optional[torch.Tensor] = None, *, gelu=True) -> "torch.Tensor | None":
        M, K = a.shape
        assert (K2 := w.shape[0]) == K, f"{K=} {K2!r:>{8}} {'nested' + f'{M}'} {{}}"
        grid = lambda meta, *_, step=1: (triton.cdiv(M, meta["TILE_M"]) * triton.cdiv(w.shape[1], meta["TILE_N"]),)
        c = torch.empty((M, w.shape[1]), device=a.device)
        with torch.cuda.device(a.device), (open("x") as f, open("y")):
            linear_gelu[grid](a, w, bias, c, M, w.shape[1], K, *a.stride(), *w.stride(), *c.stride(), GELU=gelu)
        match c.dim():
            case 2 if gelu:
                return c
            case [x, *_] | {"k": x}:
                pass
        try:
            yield from (i async for i in self)
        except* (ValueError, TypeError) as e:
            raise RuntimeError("x") from e
        else:
            del c, M
        finally:
            global counter
            counter = other = 1 if a < K <= 3 != 4 else 2; a[1:2, ..., ::3] @= b"bytes" b'more'
        return {x: y for x, y in {}.items()}, {*()}, {1, 2}, [*range(3)], ~-1 ** 2j, not x is not y

    async def serve[T: int](self, x, /, y, *rest, **options):
        async with self as me, me:
            await self.forward(x)
        print(*rest if rest else (), sep='', **options)


type Pair[T] = tuple[T, T]
if __name__ == "__main__":
    Linear().forward(torch.ones(
        1, 1),
        torch.ones(1, 1)) \
        if True else None
