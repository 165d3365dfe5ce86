"""The engine's framing of an attached stream without a terminal: sans-I/O.

Each frame is a byte for the stream (0 stdin, 1 stdout, 2 stderr), three zero bytes, the payload's length as a 32-bit
big-endian number, and the payload (Engine API, "Attach to a container", stream format).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

STDOUT = 1
STDERR = 2
HEADER = struct.Struct(">BxxxL")


class FrameError(ValueError):
    """The bytes are no such stream: a connection that can't be used any more."""


class Demultiplexer:
    """Takes bytes as they come and gives each frame's payload, in pieces where it came in pieces."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, memoryview]]:
        """The payload in `data`, as (stream, bytes). Raises FrameError."""
        view = memoryview(data)
        while view:
            if self._left:
                piece = view[: self._left]
                self._left -= len(piece)
                view = view[len(piece) :]
                yield self._stream, piece
                continue
            need = HEADER.size - len(self._head)
            self._head += view[:need]
            view = view[need:]
            if len(self._head) == HEADER.size:
                self._stream, self._left = HEADER.unpack(self._head)
                if self._stream > STDERR or any(self._head[1:4]):
                    raise FrameError(f"not a frame: {bytes(self._head)!r}")
                self._head.clear()
