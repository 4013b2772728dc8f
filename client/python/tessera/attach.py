"""The socket beside gRPC's that carries descriptors. Its end tells the daemon that this process is gone."""

import socket
import threading

from . import wire

AttachRequest = wire.message("AttachRequest")
AttachResponse = wire.message("AttachResponse")


class DescriptorSocket:
    def __init__(self, path, client_name):
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(path)
        except PermissionError:
            raise PermissionError(
                f"{path} belongs to a group that this process is not in: after joining it, log in again or use newgrp"
            ) from None
        except OSError as error:
            raise ConnectionError(f"no daemon at {path}: {error}; start one with tesserad") from None
        request = AttachRequest()
        request.hello.client_name = client_name
        self.session = self._exchange(request)[0].session

    def offer(self, descriptor):
        """Hands a descriptor over (it may be closed afterwards); returns the ticket that names it in an import."""
        request = AttachRequest()
        request.offer.SetInParent()
        return self._exchange(request, [descriptor])[0].ticket

    def fetch(self, region):
        """A descriptor of memory that the daemon made, with the answer that says how large it is."""
        request = AttachRequest()
        request.fetch.region = region
        response, descriptors = self._exchange(request)
        return descriptors[0], response

    def close(self):
        self._socket.close()

    def _exchange(self, request, descriptors=()):
        with self._lock:
            socket.send_fds(self._socket, [request.SerializeToString()], list(descriptors))
            data, received, _, _ = socket.recv_fds(self._socket, 4096, 1)
        if not data:
            raise ConnectionError("the daemon closed the descriptor socket")
        response = AttachResponse.FromString(data)
        if response.code != 0:
            raise RuntimeError(response.message)
        return response, received
