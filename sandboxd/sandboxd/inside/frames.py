"""The conversation between the daemon and a sandbox's supervisor: frames over a stream socket. Bytes in, frames out.

A frame has a kind, the number of the command or question that it is about, and byte strings. File descriptors travel
beside its first byte; the frame says how many. The daemon treats what comes back as a stranger's: everything is
bounded, and what does not parse ends the sandbox.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

# From the daemon.
CONFIGURE = b"C"  # alternating names and values; the first frame
PLANT = b"P"  # make the listening sockets
SEAL = b"L"  # give up every privilege; nothing runs before it
TEST = b"T"  # check from inside that there is no way out but the gateway
START = b"S"  # cwd, the number of arguments, arguments, NAME=value …; descriptors: output [, stdin]
SIGNAL = b"G"  # the signal's number, "all" or "main"
KILL = b"K"

# From the supervisor.
READY = b"R"  # it runs, and has not read anything yet
ANSWER = b"A"  # to PLANT (with the sockets), SEAL or TEST of the same number: empty, or what went wrong
DONE = b"D"  # the answer to KILL: empty, or what went wrong
EXITED = b"X"  # how a command's main process ended, or why there was none: code, signal or 0, text
GONE = b"E"  # nothing of the command is left
LIMIT = b"M"  # which limit was reached: memory or pids

# Arguments and environment are at most 128 KiB each on the wire's side, and descriptors travel apart.
MAX_FRAME = 4 << 20
MAX_DESCRIPTORS = 8

_HEADER = struct.Struct("!IcQBI")  # bytes that follow the length, kind, number, descriptors, fields
_LENGTH = struct.Struct("!I")


class FrameError(Exception):
    """The other side does not speak this protocol; the text says what was found."""


class Frame:
    """One message."""

    __slots__ = ("descriptors", "fields", "kind", "number")

    def __init__(self, kind: bytes, number: int = 0, fields: Sequence[bytes] = (), descriptors: int = 0) -> None:
        self.kind = kind
        self.number = number
        self.fields = tuple(fields)
        self.descriptors = descriptors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        return f"Frame({self.kind!r}, {self.number}, {self.fields!r}, {self.descriptors})"

    def encode(self) -> bytes:
        """The frame as bytes. Raises FrameError when it is too long."""
        body = b"".join(part for field in self.fields for part in (_LENGTH.pack(len(field)), field))
        length = _HEADER.size - _LENGTH.size + len(body)
        if length > MAX_FRAME:
            raise FrameError(f"a frame of {length} bytes; {MAX_FRAME} are allowed")
        return _HEADER.pack(length, self.kind, self.number, self.descriptors, len(self.fields)) + body


class Decoder:
    """Frames from bytes, in whatever pieces they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now. Raises FrameError; the decoder is of no use after that."""
        self._buffer += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not _HEADER.size - _LENGTH.size <= length <= MAX_FRAME:
            raise FrameError(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        _, kind, number, descriptors, count = _HEADER.unpack_from(self._buffer)
        if descriptors > MAX_DESCRIPTORS:
            raise FrameError(f"a frame with {descriptors} descriptors")
        fields = _fields(bytes(self._buffer[_HEADER.size : end]), count)
        del self._buffer[:end]
        return Frame(kind, number, fields, descriptors)


def _fields(body: bytes, count: int) -> list[bytes]:
    fields = []
    at = 0
    while at < len(body):
        if len(body) - at < _LENGTH.size:
            raise FrameError("a frame that ends within a field")
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length > len(body) - at:
            raise FrameError("a field that is longer than its frame")
        fields.append(body[at : at + length])
        at += length
    if len(fields) != count:
        raise FrameError(f"a frame of {len(fields)} fields that says {count}")
    return fields
