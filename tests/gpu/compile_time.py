"""Cold compiles of the daemon beside Triton's: source text that no cache knows to the end of its first launch.

    compile_time.py ADDRESS TESSERA     a running daemon (one worker), and the command line for the size of the PTX
Exit status 0: every goal is met; 1: one is not; 77: no torch, no Triton or no GPU.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["CUDA_CACHE_DISABLE"] = "1"
ROUNDS, WARM_UP = 5, 2
MATMUL_PTX_BYTES = 60_000


def ours(client, torch, subject, text):
    start = time.perf_counter()
    module = client.register(source=text)
    client.launch(module, subject.kernel, (subject.grid,), {**subject.arguments, **subject.constants},
                  num_warps=subject.num_warps, num_stages=subject.num_stages)
    client.synchronize()
    return time.perf_counter() - start


def tritons(side_by_side, torch, subject, text):
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        kernel = side_by_side.triton_kernel(text, subject.kernel)
        start = time.perf_counter()
        side_by_side.launch_triton(kernel, subject)
        torch.cuda.synchronize()
        return time.perf_counter() - start


def signature(subject):
    words = []
    for name, value in subject.arguments.items():
        if hasattr(value, "data_ptr"):
            words.append(f"{name}=*fp16:16")
        elif isinstance(value, int):
            words.append(f"{name}=i32:16" if value % 16 == 0 else f"{name}=i32")
        else:
            words.append(f"{name}=fp32")
    return ",".join(words)


def compile_by_hand(tessera, subject, text, stage, target):
    """A stage of the kernel from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [tessera, "compile", f"{path}:{subject.kernel}", "--target", target, "--signature", signature(subject),
                   "--num-warps", str(subject.num_warps), "--num-stages", str(subject.num_stages), "--emit", stage]
        for name, value in subject.constants.items():
            command += ["--constexpr", f"{name}={value}"]
        return subprocess.run(command + (["--json"] if stage == "metadata" else []), check=True, stdout=subprocess.PIPE).stdout


def main(address, tessera):
    try:
        import torch
        import triton

        if not torch.cuda.is_available():
            raise ImportError("no GPU")
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    import side_by_side
    from tessera import Client

    config = (128, 256, 64)
    subjects = [
        (side_by_side.matmul(torch, 4096, 4096, 4096, config, True, 8, 3), 1 / 3),
        (side_by_side.matmul(torch, 4096, 4096, 4096, config, False, 8, 3), 1 / 3),
        (side_by_side.softmax(torch, 4096, 1024), 1 / 2),
        (side_by_side.rms_norm(torch, 4096, 1024), 1 / 2),
    ]
    met = True
    target = "sm_90a" if torch.cuda.get_device_capability() == (9, 0) else "sm_%d%d" % torch.cuda.get_device_capability()
    with Client(address) as client:
        for subject, goal in subjects:
            times = {"ours": [], "Triton": []}
            for _ in range(WARM_UP + ROUNDS):
                times["ours"].append(ours(client, torch, subject, side_by_side.fresh(subject.text)))
                times["Triton"].append(tritons(side_by_side, torch, subject, side_by_side.fresh(subject.text)))
            mine, theirs = (statistics.median(times[who][WARM_UP:]) for who in ("ours", "Triton"))
            good = mine <= goal * theirs
            met &= good
            print(f"cold compile, {subject.name}: {mine * 1e3:.0f} ms, Triton {triton.__version__} {theirs * 1e3:.0f} ms, "
                  f"ratio {mine / theirs:.3f}, goal {goal:.3f}: {'met' if good else 'MISSED'}")
            if subject.kernel == "matmul":
                size = len(compile_by_hand(tessera, subject, side_by_side.fresh(subject.text), "ptx", target))
                good = size <= MATMUL_PTX_BYTES
                met &= good
                print(f"PTX, {subject.name}: {size} bytes, goal {MATMUL_PTX_BYTES}: {'met' if good else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
