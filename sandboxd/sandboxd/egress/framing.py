"""HTTP/1.1 bodies: where one ends, and how it is framed anew. Bytes in, payload out; no socket.

A body is never passed on in the framing that it came in: chunk extensions and trailers end here, and the chunks that
leave are the gateway's own. So a length that two programs could read in two ways never travels. Sections are of
RFC 9112.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.http1 import Framing
from sandboxd.egress.refusal import Refusal, printable

# A chunk's size, its extension included. Section 7.1.1 asks for a limit; Go's net/http has 4 KiB.
MAX_CHUNK_LINE = 4096
# All trailers together; they are dropped, but read to their end.
MAX_TRAILERS = 8192

LAST_CHUNK = b"0\r\n\r\n"

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")  # within 2^60
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


class Body(Protocol):
    """What is left of a body on one connection."""

    complete: bool
    # How many bytes may be read from the connection without reading beyond the body; None when it can't be known.
    wants: int | None

    def feed(self, data: memoryview) -> tuple[Sequence[memoryview], memoryview]:
        """The payload in what was read, and the rest that is not of this body. Raises Refusal."""

    def end(self) -> bool:
        """Whether the body is whole when the connection ends here."""


def reader(framing: Framing, length: int) -> Body:
    """A reader for a body that is about to begin."""
    match framing:
        case Framing.CHUNKED:
            return ChunkedBody()
        case Framing.UNTIL_CLOSE:
            return OpenBody()
        case _:
            return SizedBody(length)


class SizedBody:
    """A body of known length; of none, with 0 (section 6.2)."""

    def __init__(self, length: int) -> None:
        self.wants: int | None = length
        self.complete = length == 0

    def feed(self, data: memoryview) -> tuple[Sequence[memoryview], memoryview]:
        left = self.wants or 0
        payload = data[:left]
        self.wants = left - len(payload)
        self.complete = self.wants == 0
        return (payload,) if payload else (), data[left:]

    def end(self) -> bool:
        return self.complete


class OpenBody:
    """A body that lasts until the connection ends (section 6.3, rule 8)."""

    wants: int | None = None
    complete = False

    def feed(self, data: memoryview) -> tuple[Sequence[memoryview], memoryview]:
        return (data,) if data else (), data[len(data) :]

    def end(self) -> bool:
        self.complete = True
        return True


class ChunkedBody:
    """A body in chunks (section 7.1), read strictly: CRLF alone ends a line, and only `;` follows a size."""

    wants: int | None = None

    def __init__(self) -> None:
        self.complete = False
        self._line = bytearray()  # of a size line or a trailer, so far
        self._left = 0  # of the chunk's data
        self._after_data = False  # the CRLF behind a chunk's data comes next
        self._trailers = -1  # bytes of trailers so far; -1 before the last chunk

    def feed(self, data: memoryview) -> tuple[Sequence[memoryview], memoryview]:
        payload: list[memoryview] = []
        while data and not self.complete:
            if self._left:
                payload.append(data[: self._left])
                self._left -= len(payload[-1])
                self._after_data = self._left == 0
                data = data[len(payload[-1]) :]
            else:
                data = self._take_line(data)
        return payload, data

    def end(self) -> bool:
        return self.complete

    def _take_line(self, data: memoryview) -> memoryview:
        """Add data to the line being collected, up to its end; act on the line when it is whole."""
        limit = 2 if self._after_data else MAX_CHUNK_LINE if self._trailers < 0 else MAX_TRAILERS
        room = bytes(data[: limit + 1 - len(self._line)])
        end = room.find(b"\n")
        taken = room if end < 0 else room[: end + 1]
        self._line += taken
        wrong = not b"\r\n".startswith(self._line) if self._after_data else len(self._line) > limit
        if wrong or (end >= 0 and not self._line.endswith(b"\r\n")):
            raise _malformed(f"'{printable(self._line, 40)}' does not end in CRLF where it should (section 7.1)")
        if end >= 0:
            line = bytes(self._line[:-2])
            self._line.clear()
            self._act(line)
        return data[len(taken) :]

    def _act(self, line: bytes) -> None:
        if self._after_data:
            self._after_data = False
        elif self._trailers >= 0:
            self._act_on_trailer(line)
        elif found := _SIZE.fullmatch(line):
            self._left = int(found[1], 16)
            self._trailers = 0 if self._left == 0 else -1
        else:
            raise _malformed(f"'{printable(line, 40)}' is no chunk size (section 7.1)")

    def _act_on_trailer(self, line: bytes) -> None:
        self._trailers += len(line) + 2
        if not line:
            self.complete = True
        elif _TRAILER.fullmatch(line) is None or self._trailers > MAX_TRAILERS:
            raise _malformed(f"'{printable(line, 40)}' is no trailer (section 7.1.2)")


def chunk(size: int) -> bytes:
    """What stands before a chunk's data; CRLF stands behind it."""
    return b"%x\r\n" % size


def _malformed(detail: str) -> Refusal:
    return Refusal(pb.MALFORMED_REQUEST, f"body: {detail}")
