"""Many connections over one pair of pipes: the relay's frames, sans-I/O, the same text at both ends.

A frame is a byte for its kind, the connection's number and the payload's length as 32-bit big-endian numbers, and the
payload. Each direction of each connection has a window: its sender has so many bytes in flight at most, until the
receiver says that some have been taken off its hands. So one reader that stands still costs one window of memory and
holds up nobody else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER = struct.Struct(">BLL")

HELLO = 1  # json: the sockets are made
OPEN = 2  # a connection: the listener, then the address that was dialled
DATA = 3
END = 4  # no more data in this direction
RESET = 5  # the connection is gone
CREDIT = 6  # so many bytes were taken (32-bit)
QUERY = 7  # a datagram to the name server; the number is the question's
ANSWER = 8
LOOK = 9  # look around in the namespace
FOUND = 10  # json: what was found

WINDOW = 256 << 10
CHUNK = 64 << 10
# Longer than the longest payload, a datagram of 64 KiB.
MAX_PAYLOAD = 128 << 10

# The listeners, as OPEN names them; the transparent ones are named by their port.
PROXY, DNS = 1, 2
OPENED = struct.Struct(">H4s")
NUMBER = struct.Struct(">L")


class MuxError(ValueError):
    """The bytes are no frames: the relay can't be used any more."""


def frame(kind: int, number: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return HEADER.pack(kind, number, len(payload)) + payload


class Unframer:
    """Takes bytes as they come and gives whole frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The frames that are whole now: kind, number, payload. Raises MuxError."""
        self._held += data
        at = 0
        while len(self._held) - at >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._held, at)
            if not HELLO <= kind <= FOUND or length > MAX_PAYLOAD:
                raise MuxError(f"a frame of kind {kind} and {length} bytes")
            if len(self._held) - at - HEADER.size < length:
                break
            at += HEADER.size
            payload = bytes(self._held[at : at + length])
            at += length
            yield kind, number, payload
        del self._held[:at]
