"""Client of the Tessera daemon: launches of Triton-language kernels out of process."""

from .client import Client, Event, Module, TesseraError

__all__ = ["Client", "Event", "Module", "TesseraError"]
