"""PyTorch tensors from a Python process: launches of the daemon in turns with torch's own work, without waiting.

    torch_client_test.py ADDRESS          a running daemon
Runs itself once with each form of torch's allocator. Exit status 0: all right; 77: no torch, or no GPU.
"""

import os
import subprocess
import sys
import time

KERNELS = '''
import triton
import triton.language as tl


@triton.jit
def scale_add(x_ptr, y_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    y = tl.load(y_ptr + i, mask=inside, other=0.0)
    tl.store(out_ptr + i, x * factor + y, mask=inside)
'''


def turns(client, torch, launch, tensors, rounds):
    """x grows by torch and by the daemon in turns; both orders must hold."""
    x, one = tensors
    for _ in range(rounds):
        x.mul_(2)  # torch, on its current stream
        launch(x, one)  # the daemon: x = x + 1
        x.sub_(x - x)  # torch again: reads what the daemon wrote
    client.synchronize()
    torch.cuda.synchronize()


def fused_matmul(client, torch, rounds):
    """The fused product in turns with torch's own work: who is right shows at the end, nobody waits before."""
    module = client.register(os.environ["TESSERA_TEST_KERNELS"])
    size, count = 256, 4
    inputs = [torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(count)]
    weights = torch.randn(size, size, device="cuda", dtype=torch.float16) / 8
    bias = torch.randn(size, device="cuda", dtype=torch.float16)
    out = torch.empty(size, size, device="cuda", dtype=torch.float16)
    wanted = [
        torch.nn.functional.gelu(x.double() @ weights.double() + bias.double(), approximate="tanh") for x in inputs
    ]
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    strides = {"stride_am": size, "stride_ak": 1, "stride_bk": size, "stride_bn": 1, "stride_cm": size, "stride_cn": 1}
    begin = time.monotonic()
    for i in range(rounds):
        out.fill_(float("nan"))
        client.launch(
            module, "matmul_bias_gelu", "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",
            {"a_ptr": inputs[i % count], "b_ptr": weights, "bias_ptr": bias, "c_ptr": out,
             "M": size, "N": size, "K": size, **strides, "APPLY_GELU": True},
        )
        close = torch.isclose(out.double(), wanted[i % count], rtol=0.002, atol=0.002)
        wrong += close.logical_not_().sum()
    sent = time.monotonic() - begin
    client.synchronize()
    assert wrong.item() == 0, f"{wrong.item()} elements are wrong"
    return f"{rounds} launches of matmul_bias_gelu right, {sent / rounds * 1e6:.1f} us each with torch's check"


def main(address):
    import torch

    import tessera

    expandable = "expandable" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    with tessera.Client(address) as client:
        ptx = os.environ.get("TESSERA_TEST_PTX") is not None
        module = client.register(source="test kernels in PTX" if ptx else KERNELS)
        torch.manual_seed(0)
        for size in (1000, 3_000_000, 30_000_000):
            if ptx:
                x = torch.zeros(size, dtype=torch.int32, device="cuda")

                def launch(x, _):
                    client.launch(module, "add_one", ((x.numel() + 127) // 128,), {"p0": x, "p1": x.numel(), "TAG": 0})

                expected = torch.zeros_like(x)
            else:
                x = torch.zeros(size, dtype=torch.float32, device="cuda")

                def launch(x, one):
                    client.launch(
                        module, "scale_add", ("cdiv(n, BLOCK)",),
                        {"x_ptr": x, "y_ptr": one, "out_ptr": x, "n": x.numel(), "factor": 1.0, "BLOCK": 1024},
                    )

                expected = torch.zeros_like(x)
            one = torch.ones_like(x)
            turns(client, torch, launch, (x, one), 20)
            for _ in range(20):
                expected = expected * 2 + 1
            assert torch.equal(x, expected), (size, x[:4], expected[:4])
            view = x[size // 2 :]  # in the middle of an allocation
            before = view.clone()
            launch(view, one[size // 2 :])
            client.synchronize()
            torch.cuda.synchronize()
            assert torch.equal(view, before + 1) and torch.equal(x[: size // 2], expected[: size // 2])
        try:
            client.launch(module, "no_such_kernel", (1,), {})
            raise AssertionError("a kernel that is not there was launched")
        except tessera.TesseraError as error:
            assert error.code == "NOT_FOUND", error
        rounds = int(os.environ.get("TESSERA_TEST_LAUNCHES", "10000"))
        fused = "" if ptx or "TESSERA_TEST_KERNELS" not in os.environ else fused_matmul(client, torch, rounds)
        device = client.status().devices[0]
        print(f"torch {torch.__version__}, {'expandable segments' if expandable else 'default allocator'}: right; "
              f"{device.name} {device.uuid}, {device.gpu.handles_open} handles open; {fused}")
    return 0


if __name__ == "__main__":
    if "--inner" in sys.argv:
        sys.exit(main(sys.argv[1]))
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("no GPU")
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    for configuration in ("", "expandable_segments:True"):
        environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=configuration)
        done = subprocess.run([sys.executable, __file__, sys.argv[1], "--inner"], env=environment)
        if done.returncode != 0:
            sys.exit(1)
