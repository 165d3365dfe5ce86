"""DNS queries: what is understood is written back byte for byte, and no response is much longer than its query."""

from __future__ import annotations

import struct

from sandboxd.egress.dns import Code, Faulty, Unanswerable, parse_query, respond

_QUERY = struct.pack("!6H", 1, 0x0100, 1, 0, 0, 0) + b"\x08registry\x04test\0\0\1\0\1"
_EDNS = struct.pack("!6H", 1, 0x0100, 1, 0, 0, 1) + _QUERY[12:] + b"\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x0812345678"
SEEDS = (_QUERY, _EDNS, _QUERY[:-1], _QUERY[:12] + b"\xc0\x0c\0\1\0\1")


def one(data: bytes) -> None:
    try:
        query = parse_query(data)
    except Unanswerable:
        return
    except Faulty as refusal:
        assert len(refusal.response) == 12
        assert refusal.response[:2] == data[:2]
        return
    name = b"".join(bytes([len(label)]) + label for label in query.labels) + b"\0"
    assert query.question == name + struct.pack("!2H", query.qtype, 1) == data[12 : 12 + len(query.question)]
    assert query.name is None or (query.name.isascii() and query.name.count(".") == max(len(query.labels) - 1, 0))
    assert str(query).isprintable()
    for code, addresses in ((Code.NOERROR, (b"abcd",)), (Code.NOERROR, ()), (Code.NXDOMAIN, ())):
        response = respond(query, code, addresses)
        assert response[12 : 12 + len(query.question)] == query.question
        assert len(response) <= len(data) + 50
