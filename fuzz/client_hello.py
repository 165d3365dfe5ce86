"""ClientHellos, against OpenSSL's own parser: what we read a name from, it reads the same name from, or refuses."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress

from sandboxd.egress.client_hello import ClientHelloReader
from sandboxd.egress.refusal import Refusal

from fuzz import same_however_split


def _hello(name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    sent = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


_REAL = _hello("registry.test")
_SPLIT = _REAL[:3] + (100).to_bytes(2) + _REAL[5:105] + _REAL[:3] + (len(_REAL) - 105).to_bytes(2) + _REAL[105:]
SEEDS = (b"\0\0\0" + _REAL, b"\1\1\1" + _SPLIT, b"\7\0\1" + _hello(None))

_SERVER = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
_seen: list[str | None] = []


def _remember(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
    _seen.append(name)


_SERVER.sni_callback = _remember


def one(data: bytes) -> None:
    name = same_however_split(data, _read)
    if not isinstance(name, str):
        return
    _seen.clear()
    received = ssl.MemoryBIO()
    received.write(data[3:])
    with suppress(ssl.SSLError, UnicodeError):  # it has no certificate, or does not like what it reads
        _SERVER.wrap_bio(received, ssl.MemoryBIO(), server_side=True).do_handshake()
    assert _seen in ([], [name]) or not name.isascii(), (_seen, name)


def _read(pieces: Sequence[bytes]) -> object:
    reader = ClientHelloReader()
    try:
        for piece in pieces:
            if (hello := reader.feed(piece)) is not None:
                return hello.server_name
    except Refusal as refusal:
        return refusal.reason
    return None
