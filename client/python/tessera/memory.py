"""What a tensor's memory is, in terms that another process can open.

Everything is asked of libcuda itself, so that it holds for any allocator: torch's, with and without expandable segments,
or another library's. Addresses are looked up in allocations; an allocation is known by its buffer id, which is never
given out twice, so memory that was freed and allocated again is not taken for the old one.
"""

import ctypes
import threading

_BUFFER_ID = 7  # CU_POINTER_ATTRIBUTE_BUFFER_ID
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_POSIX_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

_cuda = None
_lock = threading.Lock()


class CudaError(RuntimeError):
    pass


def _library():
    global _cuda
    with _lock:
        if _cuda is None:
            _cuda = ctypes.CDLL("libcuda.so.1")
    return _cuda


def _check(result, attempt):
    if result == 0:
        return
    text = ctypes.c_char_p()
    _library().cuGetErrorName(result, ctypes.byref(text))
    raise CudaError(f"{attempt}: {(text.value or b'CUDA error').decode()}")


def _attribute(address, attribute, kind):
    value = kind()
    _check(
        _library().cuPointerGetAttribute(ctypes.byref(value), attribute, ctypes.c_uint64(address)),
        f"asking about memory at {address:#x}",
    )
    return value.value


def device_uuid(ordinal):
    """The UUID of a GPU of this process, as the daemon and nvidia-smi spell it."""
    device = ctypes.c_int()
    _check(_library().cuDeviceGet(ctypes.byref(device), ordinal), f"finding GPU {ordinal}")
    raw = (ctypes.c_ubyte * 16)()
    _check(_library().cuDeviceGetUuid_v2(raw, device), "asking a GPU for its UUID")
    digits = bytes(raw).hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Allocation:
    """One allocation of this process: where it is, and how another process opens it."""

    def __init__(self, base, size, uuid, ipc_handle=None, chunks=None):
        self.base, self.size, self.uuid = base, size, uuid
        self.ipc_handle = ipc_handle  # bytes
        self.chunks = chunks  # [(descriptor, bytes)]; to be closed by whoever takes them


def buffer_ids(address, size):
    """Names the memory behind `size` bytes at `address`: one number for each piece of it, never given out again."""
    ids, at = [], address
    while at < address + max(size, 1):
        ids.append(_attribute(at, _BUFFER_ID, ctypes.c_uint64))
        at = sum(_piece(at))
    return tuple(ids)


def describe(address, size):
    """The allocation around `size` bytes at `address`."""
    cuda = _library()
    uuid = device_uuid(_attribute(address, _DEVICE_ORDINAL, ctypes.c_int))
    base, length = _piece(address)
    handle = (ctypes.c_ubyte * 64)()
    # Memory of the driver's virtual memory functions has no such handle.
    if cuda.cuIpcGetMemHandle(handle, ctypes.c_uint64(base)) == 0:
        return Allocation(base, length, uuid, ipc_handle=bytes(handle))
    return _describe_chunks(address, size, uuid)


def _piece(address):
    """Begin and size of the allocation around `address`, or of the piece of one that is mapped there."""
    base, length = ctypes.c_uint64(), ctypes.c_size_t()
    _check(
        _library().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), ctypes.c_uint64(address)),
        "finding a piece of an allocation",
    )
    return base.value, length.value


def _describe_chunks(address, size, uuid):
    cuda = _library()
    first, length = _piece(address)
    chunks, at = [], first
    try:
        while at < address + size:
            base, length = _piece(at)
            handle = ctypes.c_uint64()
            _check(
                cuda.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(at)),
                "finding the memory behind an address",
            )
            descriptor = ctypes.c_int(-1)
            result = cuda.cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, _POSIX_DESCRIPTOR, ctypes.c_uint64(0))
            cuda.cuMemRelease(handle)
            _check(result, "exporting memory by descriptor (was it allocated to be exported?)")
            chunks.append((descriptor.value, length))
            at = base + length
    except Exception:
        close_chunks(chunks)
        raise
    return Allocation(first, at - first, uuid, chunks=chunks)


def close_chunks(chunks):
    import os

    for descriptor, _ in chunks:
        os.close(descriptor)
