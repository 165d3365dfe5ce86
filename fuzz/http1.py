"""Request heads, against h11; and response heads, against what is written from them."""

from __future__ import annotations

from collections.abc import Sequence

import h11
from sandboxd.egress import http1
from sandboxd.egress.refusal import Refusal

from fuzz import same_however_split

_GET = b"GET http://registry.test/a HTTP/1.1\r\nHost: registry.test\r\n"
SEEDS = (
    b"\0\0\0" + _GET + b"\r\n",
    b"\1\1\1" + _GET + b"Content-Length: 3\r\n\r\nabc",
    b"\1\0\7" + _GET + b"Transfer-Encoding: chunked\r\nConnection: keep-alive, x\r\nx: y\r\n\r\n",
    b"\5\5\5" + b"CONNECT registry.test:443 HTTP/1.0\r\n\r\n",
    b"\0\0\0" + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nProxy-Status: a\r\n\r\n",
)


def one(data: bytes) -> None:
    request = same_however_split(data, _read)
    if isinstance(request, http1.Request) and request.line.method != "CONNECT":
        _compare(request, data[3:])
    _response(data[3:])


def _read(pieces: Sequence[bytes]) -> object:
    buffer = b""
    try:
        for piece in pieces:
            buffer += piece
            if (end := http1.head_end(buffer, http1.MAX_REQUEST_HEAD)) >= 0:
                line = http1.parse_request_line(buffer[:end])
                http1.target_text(line)
                return http1.parse_request(line, buffer[:end])
    except Refusal as refusal:
        return refusal.reason
    return None


def _compare(request: http1.Request, data: bytes) -> None:
    """h11 reads what we accept in the same way, and what we would send upstream too."""
    for sent, target in ((data, request.line.target), (http1.request_head(request, "/", "a.test"), b"/")):
        server = h11.Connection(h11.SERVER)
        server.receive_data(sent)
        event = server.next_event()
        assert isinstance(event, h11.Request), event
        assert (event.method.decode(), event.target) == (request.line.method, target)
        if sent is data:
            assert list(event.headers) == [_as_theirs(*field) for field in request.fields]
        else:
            names = [name for name, _ in event.headers]
            assert names.count(b"host") == 1
            assert not [name for name in names if name.startswith((b"proxy-", b"x-sandboxd-"))]


def _as_theirs(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A field as h11 tells it: names, and the coding, in lower case."""
    return name.lower(), value.lower() if name.lower() == b"transfer-encoding" else value


def _response(data: bytes) -> None:
    for method in ("GET", "HEAD"):
        try:
            response = http1.parse_response(data, method)
        except Refusal:
            continue
        written = http1.response_head(response, response.framing, keep_alive=True)
        again = http1.parse_response(written, method)
        assert (again.status, again.framing, again.length) == (response.status, response.framing, response.length)
