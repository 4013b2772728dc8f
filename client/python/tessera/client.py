"""Calls and arguments."""

import mmap
import os

import grpc

from . import memory, wire
from .attach import DescriptorSocket

_DEFAULT_SOCKET = "/run/tessera/tesserad.sock"
_MAX_MESSAGE_BYTES = 256 << 20

LaunchRequest = wire.message("LaunchRequest")
Argument = wire.message("Argument")
Constant = wire.message("Constant")


class TesseraError(RuntimeError):
    """A call that failed: `code` (gRPC's name), `reason` (UPPER_SNAKE), `diagnostics` with source lines."""

    def __init__(self, code, message, reason="", diagnostics=()):
        super().__init__(f"{code}: {message}")
        self.code, self.reason, self.diagnostics = code, reason, list(diagnostics)


def _default_address():
    if os.environ.get("TESSERA_ADDRESS"):
        return os.environ["TESSERA_ADDRESS"]
    if not os.path.exists(_DEFAULT_SOCKET) and os.environ.get("XDG_RUNTIME_DIR"):
        return f"unix:{os.environ['XDG_RUNTIME_DIR']}/tessera/tesserad.sock"
    return f"unix:{_DEFAULT_SOCKET}"


def _error_of(error):
    detail = wire.message("ErrorDetail")()
    for key, value in error.trailing_metadata() or ():
        if key == "tessera-error-bin":
            detail.ParseFromString(value)
    return TesseraError(error.code().name, error.details(), detail.reason, detail.diagnostics)


class Event:
    """A CUDA event that this process and the daemon share. `event` is torch's."""

    def __init__(self, client, event, device_uuid):
        self.event = event
        request = wire.message("ImportEventRequest")(
            session=client.session, device=device_uuid, cuda_ipc_event=event.ipc_handle(), device_uuid=device_uuid
        )
        self.id = client._call(client._memory.ImportEvent, request).event


class HostBuffer:
    """Memory of the host that this process and the daemon share; `view` is writable."""

    def __init__(self, region, mapping):
        self.region, self._mapping = region, mapping
        self.view = memoryview(mapping)


class Module:
    """Kernels of one source text, registered with the daemon."""

    def __init__(self, client, response):
        self._client = client
        self.id = response.module
        self.kernels = [kernel.name for kernel in response.kernels]

    def launch(self, kernel, grid, **arguments):
        return self._client.launch(self, kernel, grid, arguments)


class Client:
    """A session with the daemon. Memory that it shared stays shared until close(), or until the process ends."""

    def __init__(self, address=None, name="python"):
        address = address or _default_address()
        self._channel = grpc.insecure_channel(
            address,
            options=[("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES), ("grpc.use_local_subchannel_pool", 1)],
        )
        self._modules = wire.Service(self._channel, "ModuleService")
        self._memory = wire.Service(self._channel, "MemoryService")
        self._launches = wire.Service(self._channel, "LaunchService")
        self._admin = wire.Service(self._channel, "AdminService")
        self._regions = {}  # buffer ids of a piece of memory: (region, its first byte here)
        self._order = {}  # device UUID: the two events that order launches with torch's stream
        if not address.startswith("unix:"):
            raise ValueError("memory is shared over a Unix socket: unix:/path")
        self._socket = DescriptorSocket(address[len("unix:") :] + ".fd", name)
        self.session = self._socket.session

    def close(self):
        self._socket.close()
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def status(self):
        return self._call(self._admin.GetStatus, wire.message("GetStatusRequest")())

    def register(self, path=None, source=None):
        """Registers a file, or a text; the module that it becomes."""
        if source is None:
            with open(path, encoding="utf-8") as file:
                source = file.read()
        request = wire.message("RegisterModuleRequest")(session=self.session)
        request.files.add(path=path or "module.py", text=source)
        return Module(self, self._call(self._modules.RegisterModule, request))

    # ---- Memory.

    def host_buffer(self, size):
        """New shared memory of the host, zeroed."""
        descriptor = os.memfd_create("tessera", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size)
            mapping = mmap.mmap(descriptor, size)
            request = wire.message("ImportMemoryRequest")(
                session=self.session, memfd=self._socket.offer(descriptor), size=size
            )
            region = self._call(self._memory.ImportMemory, request).region
        finally:
            os.close(descriptor)
        return HostBuffer(region, mapping)

    def share(self, address, size):
        """Region and offset of GPU memory of this process; imported once for each allocation."""
        buffers = memory.buffer_ids(address, size)
        if buffers in self._regions:
            region, base = self._regions[buffers]
            return region, address - base
        allocation = memory.describe(address, size)
        request = wire.message("ImportMemoryRequest")(
            session=self.session, device=allocation.uuid, device_uuid=allocation.uuid
        )
        if allocation.ipc_handle is not None:
            request.cuda_ipc = allocation.ipc_handle
        else:
            try:
                for descriptor, chunk in allocation.chunks:
                    request.vmm_chunks.chunks.add(ticket=self._socket.offer(descriptor), size=chunk)
            finally:
                memory.close_chunks(allocation.chunks)
        region = self._call(self._memory.ImportMemory, request).region
        self._regions[buffers] = (region, allocation.base)
        return region, address - allocation.base

    def release_shared(self):
        """Gives back all GPU memory that was shared; it is shared again when a launch needs it."""
        for region, _ in self._regions.values():
            request = wire.message("ReleaseMemoryRequest")(session=self.session, region=region)
            self._call(self._memory.ReleaseMemory, request)
        self._regions.clear()

    # ---- Launches.

    def event(self, device=None):
        """A new event, to be recorded on a stream of this process and waited for by launches, or the other way."""
        import torch

        with torch.cuda.device(device):
            event = torch.cuda.Event(enable_timing=False, interprocess=True)
            ordinal = torch.cuda.current_device()
        return Event(self, event, memory.device_uuid(ordinal))

    def launch(
        self,
        module,
        kernel,
        grid,
        arguments,
        *,
        device=None,
        stream=0,
        priority=0,
        wait=(),
        signal=(),
        enqueue=None,
        num_warps=0,
        num_stages=0,
        num_ctas=0,
        tag=0,
        timeout=None,
    ):
        """Launches. With CUDA tensors and no events given it is ordered with torch's current stream on both sides and
        returns when it is enqueued; else it returns when the kernel has ended, unless `enqueue` says otherwise."""
        request = LaunchRequest(
            session=self.session, module=module.id, kernel=kernel, stream=stream, priority=priority, tag=tag
        )
        for extent in (grid,) if isinstance(grid, (int, str)) else grid:
            if isinstance(extent, str):
                request.grid_expressions.append(extent)
            elif request.grid_expressions:
                request.grid_expressions.append(str(extent))
            else:
                request.grid.append(extent)
        if request.grid_expressions and request.grid:  # one form for all of them
            request.grid_expressions[:0] = [str(extent) for extent in request.grid]
            del request.grid[:]
        request.options.num_warps, request.options.num_stages = num_warps, num_stages
        request.options.num_ctas = num_ctas
        gpu = None
        for name, value in arguments.items():
            gpu = self._fill(request.arguments.add(name=name), value) or gpu
        request.device = device or (memory.device_uuid(gpu) if gpu is not None else "")
        request.wait_events.extend(event.id for event in wait)
        request.signal_events.extend(event.id for event in signal)
        ordered = gpu is not None and not wait and not signal
        if ordered:
            self._before(request, gpu)
        if enqueue if enqueue is not None else gpu is not None:
            request.answer = LaunchRequest.ENQUEUED
        response = self._call(self._launches.Launch, request, timeout=timeout)
        if ordered:
            self._after(request.device, gpu)
        return response

    def guard(self, mode, n=0):
        """Which of this session's launches on GPUs have every access checked: "DEFAULT", "NEVER", "FIRST", "EVERY_NTH"
        (one in `n`) or "ALWAYS" (GuardPolicy in memory.proto)."""
        request = wire.message("ConfigureSessionRequest")(session=self.session)
        request.guard.mode = request.guard.Mode.Value(mode)
        request.guard.n = n
        self._call(self._memory.ConfigureSession, request)

    def synchronize(self):
        """Waits for launches that were enqueued; raises if one of them failed."""
        request = wire.message("SynchronizeRequest")(session=self.session)
        response = self._call(self._launches.Synchronize, request)
        if response.failures:
            first = response.failures[0]
            code = next(code.name for code in grpc.StatusCode if code.value[0] == first.code)
            more = len(response.failures) - 1 + response.failures_dropped
            raise TesseraError(
                code, first.message + (f" (and {more} more launches)" if more else ""), first.error.reason
            )

    # ---- What the calls above consist of.

    def _call(self, call, request, timeout=None):
        try:
            return call(request, timeout=timeout)
        except grpc.RpcError as error:
            raise _error_of(error) from None

    def _before(self, request, ordinal):
        import torch

        if request.device not in self._order:
            self._order[request.device] = (self.event(ordinal), self.event(ordinal))
        ready, done = self._order[request.device]
        ready.event.record(torch.cuda.current_stream(ordinal))
        request.wait_events.append(ready.id)
        request.signal_events.append(done.id)

    def _after(self, device, ordinal):
        import torch

        torch.cuda.current_stream(ordinal).wait_event(self._order[device][1].event)

    def _fill(self, argument, value):
        """Returns the ordinal of the GPU that the argument's memory is on, if it is on one."""
        if value is None:
            argument.constant.none.SetInParent()
        elif isinstance(value, bool):
            argument.boolean = value
        elif isinstance(value, int):
            if value < 1 << 63:
                argument.integer = value
            else:
                argument.unsigned_integer = value
        elif isinstance(value, float):
            argument.real = value
        elif isinstance(value, str):
            argument.constant.text = value
        elif isinstance(value, (tuple, list)):
            argument.tuple.SetInParent()
            gpus = [self._fill(argument.tuple.items.add(), item) for item in value]
            return next((gpu for gpu in gpus if gpu is not None), None)
        elif hasattr(value, "data_ptr"):
            return self._fill_tensor(argument, value)
        elif isinstance(value, (Argument, Constant)):
            (argument if isinstance(value, Argument) else argument.constant).MergeFrom(value)
        else:
            raise TypeError(f"argument '{argument.name}': {type(value).__name__} cannot be passed to a kernel")
        return None

    def _fill_tensor(self, argument, tensor):
        if not tensor.is_cuda:
            raise ValueError(f"tensor '{argument.name}' is not on a GPU; use host_buffer for memory of the host")
        to = argument.tensor
        to.dtype = str(tensor.dtype).split(".")[-1]
        to.shape.extend(tensor.shape)
        to.strides.extend(tensor.stride())
        to.is_scalar = tensor.dim() == 0
        if tensor.numel() == 0:
            return tensor.device.index
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        to.region, to.byte_offset = self.share(tensor.data_ptr(), extent * tensor.element_size())
        return tensor.device.index
