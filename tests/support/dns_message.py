"""DNS messages as a client writes and reads them, for the few forms that tests need."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

A, PTR, TXT, AAAA, OPT = 1, 12, 16, 28, 41


def name(labels: Sequence[bytes]) -> bytes:
    """Labels on the wire."""
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def question(
    labels: Sequence[bytes],
    qtype: int = A,
    *,
    qclass: int = 1,
    ident: int = 0x1234,
    flags: int = 0x0100,
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    more: bytes = b"",
) -> bytes:
    """A query; `more` stands behind the question."""
    return struct.pack("!6H", ident, flags, *counts) + name(labels) + struct.pack("!2H", qtype, qclass) + more


def opt(*, size: int = 1232, version: int = 0, flags: int = 0, options: bytes = b"") -> bytes:
    """An OPT record."""
    return b"\0" + struct.pack("!2HBBHH", OPT, size, 0, version, flags, len(options)) + options


def option(code: int, content: bytes) -> bytes:
    return struct.pack("!2H", code, len(content)) + content


@dataclass(frozen=True)
class Response:
    """What matters of a response. Records are (type, ttl, content)."""

    ident: int
    flags: int
    question: bytes
    answers: list[tuple[int, int, bytes]]
    authorities: list[tuple[int, int, bytes]]
    opt: tuple[int, int] | None  # payload size, extended code

    @property
    def code(self) -> int:
        return self.flags & 0xF | (self.opt[1] << 4 if self.opt else 0)


def read(message: bytes) -> Response:
    """Read a response of ours: its question first, owners compressed or root. Fails on anything left over."""
    ident, flags, questions, *counts = struct.unpack_from("!6H", message)
    position = 12
    for _ in range(questions):
        while message[position]:
            position += 1 + message[position]
        position += 5
    asked = message[12:position]
    sections: list[list[tuple[int, int, bytes]]] = []
    found_opt = None
    for count in counts:
        records = []
        for _ in range(count):
            position += 2 if message[position] >= 0xC0 else 1
            kind, cls, ttl, size = struct.unpack_from("!2HIH", message, position)
            position += 10
            if kind == OPT:
                found_opt = (cls, ttl >> 24)
            else:
                records.append((kind, ttl, message[position : position + size]))
            position += size
        sections.append(records)
    assert position == len(message)
    assert sections[2] == []
    return Response(ident, flags, asked, sections[0], sections[1], found_opt)
