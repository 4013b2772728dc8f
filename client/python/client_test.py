"""The Python client against a daemon on simulated GPUs, with memory of the host. Argument: the daemon's address."""

import sys

import tessera
from tessera.client import Argument


def tensor(buffer, dtype, size):
    argument = Argument()
    argument.tensor.region, argument.tensor.dtype = buffer.region, dtype
    argument.tensor.shape.append(size)
    return argument


def main(address):
    with tessera.Client(address) as client:
        device = client.status().devices[0]
        assert device.name == "cuda:0" and device.uuid.startswith("GPU-"), device
        module = client.register(source="test kernels in PTX")
        assert "add_one" in module.kernels, module.kernels

        buffer = client.host_buffer(4096)
        numbers = buffer.view.cast("i")
        arguments = {"p0": tensor(buffer, "int32", 1000), "p1": 1000, "TAG": 0}
        first = client.launch(module, "add_one", (8,), arguments)
        assert first.outcome == "compiled" and list(numbers[:1001]) == [1] * 1000 + [0], numbers[:5].tolist()
        later = client.launch(module, "add_one", ("cdiv(p1, 128)",), arguments, enqueue=True)
        client.synchronize()
        assert later.outcome == "hit" and list(numbers[:1000]) == [2] * 1000

        for kernel, grid, code in (("no_such_kernel", 1, "NOT_FOUND"), ("add_one", "1 +", "INVALID_ARGUMENT")):
            try:
                client.launch(module, kernel, grid, arguments)
                raise AssertionError(f"{kernel} with grid {grid} was launched")
            except tessera.TesseraError as error:
                assert error.code == code and error.reason, error
        try:
            client.launch(module, "report", 1, {"p0": 2, "TAG": 0})
            raise AssertionError("an access outside the buffers was no error")
        except tessera.TesseraError as error:
            assert error.reason == "OUT_OF_BOUNDS", error
    print("the Python client is right")


if __name__ == "__main__":
    main(sys.argv[1])
