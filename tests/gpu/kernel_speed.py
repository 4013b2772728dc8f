"""Kernels beside Triton's, from one source text: medians of replays of CUDA graphs, in turns.

    kernel_speed.py TESSERA             the command line, which compiles them
Prints; checks that results agree. Exit status 77: no torch, no Triton or no GPU.
"""

import ctypes
import json
import statistics
import sys

from compile_time import compile_by_hand

LAUNCHES, ROUNDS = 20, 15


class Cubin:
    """One of our kernels, loaded into torch's context."""

    def __init__(self, torch, tessera, subject, text, target):
        self.driver = ctypes.CDLL("libcuda.so.1")
        facts = json.loads(compile_by_hand(tessera, subject, text, "metadata", target))
        code = compile_by_hand(tessera, subject, text, "object", target)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), code))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, facts["entry_symbol"].encode()))
        self.check(self.driver.cuFuncSetAttribute(function, 8, int(facts["shared_bytes"])))  # dynamic shared memory
        self.function, self.facts = function, facts
        self.report = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
        values = []
        for parameter in facts["parameters"]:
            value = subject.arguments[parameter["name"]]
            if hasattr(value, "data_ptr"):
                values.append(ctypes.c_uint64(value.data_ptr()))
            else:
                values.append(ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int32(value))
        values.append(ctypes.c_uint64(self.report.data_ptr()))
        self.values = values
        self.pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values))
        self.grid = subject.grid

    @staticmethod
    def check(code):
        if code != 0:
            raise RuntimeError(f"CUDA error {code}")

    def launch(self, stream):
        self.check(self.driver.cuLaunchKernel(self.function, self.grid, 1, 1, int(self.facts["threads"]), 1, 1,
                                              int(self.facts["shared_bytes"]), ctypes.c_void_p(stream), self.pointers, None))


def graph_of(torch, launch):
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            launch()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def medians(torch, graphs):
    times = [[] for _ in graphs]
    for _ in range(ROUNDS):
        for graph, mine in zip(graphs, times):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            mine.append(start.elapsed_time(end) / LAUNCHES * 1e3)
    return [statistics.median(mine) for mine in times]


def main(tessera):
    try:
        import torch
        import triton  # noqa: F401

        if not torch.cuda.is_available():
            raise ImportError("no GPU")
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    import side_by_side

    target = "sm_90a" if torch.cuda.get_device_capability() == (9, 0) else "sm_%d%d" % torch.cuda.get_device_capability()
    subjects = [
        side_by_side.matmul(torch, 4096, 4096, 4096, config, gelu, 8, stages)
        for gelu in (True, False)
        for config, stages in (((128, 256, 64), 4), ((128, 256, 64), 3), ((128, 128, 64), 4))
    ]
    subjects += [side_by_side.softmax(torch, 16384, 1024), side_by_side.rms_norm(torch, 16384, 1024)]
    right = True
    for subject in subjects:
        text = side_by_side.fresh(subject.text)
        output = subject.arguments.get("c", subject.arguments.get("y", subject.arguments.get("out")))
        kernel = side_by_side.triton_kernel(text, subject.kernel)
        side_by_side.launch_triton(kernel, subject)
        torch.cuda.synchronize()
        expected = output.float().clone()
        output.fill_(float("nan"))
        cubin = Cubin(torch, tessera, subject, text, target)
        cubin.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        error = ((output.float() - expected).norm() / expected.norm()).item()
        right &= error < 1e-3
        graphs = [graph_of(torch, lambda: cubin.launch(torch.cuda.current_stream().cuda_stream)),
                  graph_of(torch, lambda: side_by_side.launch_triton(kernel, subject))]
        mine, theirs = medians(torch, graphs)
        print(f"{subject.name}, {subject.num_warps} warps, {subject.num_stages} stages: {mine:.1f} us, Triton {theirs:.1f} us, "
              f"rate {theirs / mine:.3f} of Triton's; {cubin.facts['registers']} registers, {cubin.facts.get('spills', 0)} bytes spilled; "
              f"difference {error:.1e}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
