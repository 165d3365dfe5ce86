"""Chunked bodies, against h11."""

from __future__ import annotations

from collections.abc import Sequence

import h11
from sandboxd.egress.framing import ChunkedBody
from sandboxd.egress.refusal import Refusal

from fuzz import same_however_split

SEEDS = (
    b"\0\0\0" + b"4\r\nabcd\r\n0\r\n\r\n",
    b"\1\1\1" + b"4;x=y\r\nabcd\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\nGET /",
    b"\2\0\3" + b"FFFFFFFFFFFFFFFF\r\n",
)

_HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def one(data: bytes) -> None:
    found = same_however_split(data, _read)
    if not isinstance(found, tuple):
        return
    payload, _, complete = found
    server = h11.Connection(h11.SERVER)
    server.receive_data(_HEAD + data[3:])
    server.next_event()
    theirs = b""
    try:
        while isinstance(event := server.next_event(), h11.Data):
            theirs += event.data
    except h11.RemoteProtocolError:
        assert not complete  # it refuses a line before its end, and we at its end
        return
    assert theirs == payload
    assert isinstance(event, h11.EndOfMessage) is complete


def _read(pieces: Sequence[bytes]) -> object:
    """Payload, rest and whether it is whole; or the reason of a refusal."""
    body = ChunkedBody()
    payload = rest = b""
    try:
        for piece in pieces:
            if body.complete:
                rest += piece
                continue
            parts, left = body.feed(memoryview(piece))
            payload += b"".join(parts)
            rest += left
    except Refusal as refusal:
        return refusal.reason
    return payload, rest, body.complete
