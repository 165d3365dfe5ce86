"""The first message of a TLS connection, read strictly for the name that the client asks for. Bytes in, name out.

The message may come split over any number of segments and records. Nothing is sent upstream before the whole of it has
been read and judged, and then exactly the bytes that came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.refusal import Refusal

# All bytes up to the end of the ClientHello. The largest real ones (post-quantum key shares, padding, resumption
# tickets) stay under 20 KiB; OpenSSL takes 128 KiB, Go 64 KiB.
MAX_CLIENT_HELLO = 64 * 1024

_RECORD_HEADER = 5  # RFC 8446, section 5.1
_MAX_FRAGMENT = 1 << 14
_HANDSHAKE = 22
_CLIENT_HELLO = 1  # RFC 8446, section 4
_SERVER_NAME = 0  # RFC 6066, section 3
_HOST_NAME = 0
_HIDING = {0xFE0D: "encrypted_client_hello (RFC 9849)", 0xFFCE: "encrypted_server_name"}


@dataclass(frozen=True, slots=True)
class ClientHello:
    """What a ClientHello says about its target: the server name as it was sent."""

    server_name: str


class ClientHelloReader:
    """Collects what a client sends until its ClientHello is whole.

    `received` is all that came: what has to go upstream, when the name is the right one.
    """

    def __init__(self) -> None:
        self.received = bytearray()
        self._position = 0  # of the record that is being read
        self._message = bytearray()  # the handshake message, out of the records so far

    def feed(self, data: bytes | bytearray | memoryview) -> ClientHello | None:
        """Take what came next; the ClientHello once it is complete.

        Raises Refusal as soon as the bytes can't become one: NON_TLS_ON_443 for anything that is not a well-formed
        ClientHello, TLS_NAME_MISSING, TLS_NAME_HIDDEN, or CLIENT_HELLO_TOO_LARGE.
        """
        self.received += data
        while self._take_record():
            if len(self._message) >= 4 and len(self._message) >= self._needed():
                return _server_name(_extensions(bytes(self._message[4:])))
        return None

    def _take_record(self) -> bool:
        """Add the next record to the message; False while it is not complete (RFC 8446, section 5.1)."""
        start = self._position + _RECORD_HEADER
        size = _check_record_header(self.received[self._position : start])
        if size is None:
            return False
        if start + size > MAX_CLIENT_HELLO:
            raise _too_large(start + size)
        _check_message(self._message[:4] + self.received[start : start + min(size, 4)])
        if len(self.received) < start + size:
            return False
        self._message += self.received[start : start + size]
        self._position = start + size
        return True

    def _needed(self) -> int:
        needed = 4 + int.from_bytes(self._message[1:4])
        if len(self._message) > needed:
            raise _not_tls("a second message in the ClientHello's record (RFC 8446, section 5.1)")
        return needed


def _check_message(start: bytes | bytearray) -> None:
    """Judge the beginning of the handshake message, as far as it is there (RFC 8446, section 4)."""
    if start and start[0] != _CLIENT_HELLO:
        raise _not_tls(f"a handshake message of type {start[0]}, not a ClientHello (RFC 8446, section 4)")
    if len(start) >= 4 and (size := 4 + int.from_bytes(start[1:4])) > MAX_CLIENT_HELLO:
        raise _too_large(size)


def _check_record_header(header: bytes | bytearray) -> int | None:
    """The fragment's length; None while the header is not complete. Each byte is judged as soon as it is there."""
    if header and header[0] != _HANDSHAKE:
        raise _not_tls(f"a first byte of {header[0]}, not a TLS handshake record (RFC 8446, section 5.1)")
    if len(header) > 1 and header[1] != 3:
        raise _not_tls(f"record version {header[1]}.x, not 3.x (RFC 8446, section 5.1)")
    if len(header) > 2 and header[2] > 4:
        raise _not_tls(f"record version 3.{header[2]} (RFC 8446, section 5.1)")
    if len(header) < _RECORD_HEADER:
        return None
    size = int.from_bytes(header[3:5])
    if not 0 < size <= _MAX_FRAGMENT:
        raise _not_tls(f"a record of {size} bytes; 1 to {_MAX_FRAGMENT} are allowed (RFC 8446, section 5.1)")
    return size


class _Fields:
    """Reads a structure of the TLS presentation language; all of it has to be used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise _not_tls("a ClientHello that ends early (RFC 8446, section 4.1.2)")
        return self._data[start : self._position]

    def vector(self, prefix: int, least: int = 0, multiple: int = 1) -> bytes:
        """A vector whose length takes `prefix` bytes."""
        content = self.take(int.from_bytes(self.take(prefix)))
        if len(content) < least or len(content) % multiple:
            raise _not_tls(f"a vector of {len(content)} bytes in the ClientHello (RFC 8446, section 4.1.2)")
        return content

    @property
    def left(self) -> bool:
        return self._position < len(self._data)

    def finish(self) -> None:
        if self.left:
            raise _not_tls("a ClientHello with bytes left over (RFC 8446, section 4.1.2)")


def _extensions(message: bytes) -> dict[int, bytes]:
    """The extensions of a ClientHello (RFC 8446, section 4.1.2): each type once."""
    hello = _Fields(message)
    version = hello.take(2)
    if version[0] != 3:
        raise _not_tls(f"a ClientHello of version {version[0]}.{version[1]} (RFC 8446, section 4.1.2)")
    hello.take(32)  # random
    if len(hello.vector(1)) > 32:
        raise _not_tls("a session id of more than 32 bytes (RFC 8446, section 4.1.2)")
    hello.vector(2, least=2, multiple=2)  # cipher suites
    hello.vector(1, least=1)  # compression methods
    if not hello.left:
        return {}
    found: dict[int, bytes] = {}
    for kind, content in _extension_list(hello.vector(2)):
        if kind in found:
            raise _not_tls(f"extension {kind} twice (RFC 8446, section 4.2)")
        found[kind] = content
    hello.finish()
    return found


def _extension_list(data: bytes) -> Iterator[tuple[int, bytes]]:
    fields = _Fields(data)
    while fields.left:
        kind = int.from_bytes(fields.take(2))
        yield kind, fields.vector(2)


def _server_name(extensions: dict[int, bytes]) -> ClientHello:
    for hiding, what in _HIDING.items():
        if hiding in extensions:
            raise Refusal(pb.TLS_NAME_HIDDEN, f"{what}: the name that the server will read can't be compared")
    if _SERVER_NAME not in extensions:
        raise Refusal(pb.TLS_NAME_MISSING, "no server_name extension (RFC 6066, section 3)")
    extension = _Fields(extensions[_SERVER_NAME])
    names = _Fields(extension.vector(2, least=1))
    extension.finish()
    kind, name = names.take(1)[0], names.vector(2, least=1)
    names.finish()  # one name of each type, and host_name is the only type
    if kind != _HOST_NAME:
        raise Refusal(pb.TLS_NAME_MISSING, f"a server name of type {kind} (RFC 6066, section 3)")
    return ClientHello(name.decode("latin-1"))


def _too_large(size: int) -> Refusal:
    return Refusal(pb.CLIENT_HELLO_TOO_LARGE, f"a ClientHello that takes {size} bytes; {MAX_CLIENT_HELLO} are allowed")


def _not_tls(detail: str) -> Refusal:
    return Refusal(pb.NON_TLS_ON_443, detail)
