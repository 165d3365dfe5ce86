"""TLS messages, byte by byte, for hellos that no library would send."""

from __future__ import annotations


def vector(content: bytes, prefix: int) -> bytes:
    """A vector of the TLS presentation language, its length in `prefix` bytes."""
    return len(content).to_bytes(prefix) + content


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + vector(content, 2)


def server_name(*names: bytes) -> bytes:
    """A server_name extension."""
    return extension(0, vector(b"".join(b"\0" + vector(name, 2) for name in names), 2))


def hello_body(
    *found: bytes,
    session: bytes = b"",
    ciphers: bytes = b"\x13\x01",
    compression: bytes = b"\0",
    extensions: bool = True,
    behind: bytes = b"",
) -> bytes:
    """A ClientHello message with its handshake header."""
    body = b"\x03\x03" + bytes(32) + vector(session, 1) + vector(ciphers, 2) + vector(compression, 1)
    if extensions:
        body += vector(b"".join(found), 2)
    return b"\1" + vector(body + behind, 3)


def record(content: bytes, *, kind: int = 22, version: bytes = b"\x03\x01") -> bytes:
    return bytes([kind]) + version + vector(content, 2)


def whole(*extensions: bytes) -> bytes:
    """A ClientHello in one record."""
    return record(hello_body(*extensions))
