"""HTTP/1.1 heads, strictly: bytes in, requests and responses out, and back to bytes. No socket, no clock.

Stricter than h11, which takes a bare LF, folded lines, Content-Length beside Transfer-Encoding and any version. What
two programs may read in two ways is refused, so that a server never sees another request than the one that was judged.
Nothing of a head is passed on as it came: `request_head` and `response_head` write it anew from what was understood.
Bodies are in `framing`.

Each refusal names its rule. Sections are of RFC 9112 unless they say RFC 9110.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.refusal import Refusal, printable

# A request's head. Precedents: nginx 32 KiB (4 buffers of 8 KiB), Node 16 KiB, Tomcat 8 KiB; and for the number of
# fields 100 in Apache httpd (LimitRequestFields) and Python's http.client.
MAX_REQUEST_HEAD = 32 * 1024
MAX_REQUEST_FIELDS = 100
# A response's: servers that list a long Content-Security-Policy need more. curl takes 300 KiB in all, Go 10 MiB.
MAX_RESPONSE_HEAD = 64 * 1024
MAX_RESPONSE_FIELDS = 200

# Methods that are passed on. RFC 9110, section 9, without CONNECT, which is its own path, and without TRACE, which
# shows a client what the gateway adds; and PATCH (RFC 5789).
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110, section 5.5, without other control characters
_VERSION = re.compile(rb"HTTP/1\.([01])")
_TARGET = re.compile(rb"[\x21\x22\x24-\x7e]+")  # visible ASCII without "#": RFC 3986 with what browsers leave bare
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([\t \x21-\x7e\x80-\xff]*))?")
_LENGTH = re.compile(rb"[0-9]{1,18}")  # RFC 9110, section 8.6, within 2^63
_BARE = re.compile(rb"\r(?=[^\n])|(?<!\r)\n")
_NAMES = {b"\r": "CR", b"\n": "LF"}
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?]*)(.*))?", re.ASCII | re.DOTALL)

# RFC 9110, section 7.6.1, and what older clients send. Proxy-* is between the client and this gateway. The names in
# _OURS could tell a client a verdict that is not the gateway's.
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings"}
)
_OURS = (b"proxy-", b"x-sandboxd-", b"x-proxy-error")

Field = tuple[bytes, bytes]  # name as it was sent, value without the spaces around it


class Framing(Enum):
    """How the length of a body is told, section 6.3."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until close"


@dataclass(frozen=True, slots=True)
class RequestLine:
    """The first line of a request, before its target is understood."""

    method: str
    target: bytes
    minor: int  # HTTP/1.minor


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose head is well-formed. `host` is the Host field, not yet understood; `length` is of its body."""

    line: RequestLine
    fields: tuple[Field, ...]
    host: str | None
    framing: Framing
    length: int
    keep_alive: bool
    expects_continue: bool


@dataclass(frozen=True, slots=True)
class Response:
    """A response whose head is well-formed. `length` is of its body, when its framing is LENGTH."""

    status: int
    phrase: bytes
    fields: tuple[Field, ...]
    framing: Framing
    length: int
    keep_alive: bool


def head_end(buffer: bytes | bytearray, limit: int) -> int:
    """Where the head at the start of a buffer ends, its blank line included; -1 when it is not complete.

    Raises Refusal as soon as the bytes so far can't become a head, so that nobody waits for the end of one.
    """
    end = buffer.find(b"\r\n\r\n", 0, limit)
    if bare := _BARE.search(buffer, 0, limit if end < 0 else end + 1):
        raise _malformed(f"a bare {_NAMES[bare[0]]} in the head (section 2.2)")
    if end >= 0:
        return end + 4
    if buffer and not _TOKEN.match(buffer, 0, 1):
        raise _malformed(f"'{printable(buffer[:16])}' does not begin a head (section 2.1)")
    if len(buffer) >= limit:
        raise Refusal(pb.HEADERS_TOO_LARGE, f"the head is longer than {limit} bytes")
    return -1


def parse_request_line(head: bytes) -> RequestLine:
    """The request line of a complete head. Its target may hold anything but what would end the line."""
    line = head.partition(b"\r\n")[0]
    method, _, rest = line.partition(b" ")
    target, _, version = rest.rpartition(b" ")
    found = _VERSION.fullmatch(version)
    if found is None:
        raise _malformed(f"the request line ends in '{printable(version, 40)}'; HTTP/1.1 or HTTP/1.0 (section 2.3)")
    name = method.decode("latin-1")
    if name not in METHODS and name not in ("CONNECT", "TRACE"):
        raise _malformed(f"'{printable(method, 40)}' is none of {', '.join(METHODS)}, CONNECT (RFC 9110, section 9)")
    return RequestLine(name, target, int(found[1]))


def parse_request(line: RequestLine, head: bytes) -> Request:
    """The rest of a complete head."""
    fields = _parse_fields(head, MAX_REQUEST_FIELDS)
    framing, length = _request_framing(line, fields)
    return Request(
        line=line,
        fields=fields,
        host=_host(line, fields),
        framing=framing,
        length=length,
        keep_alive=_keep_alive(line.minor, fields),
        expects_continue=_expects_continue(line, fields),
    )


def target_text(line: RequestLine) -> str:
    """The request target as text, when it is visible ASCII without a fragment (section 3.2)."""
    if _TARGET.fullmatch(line.target) is None:
        raise Refusal(pb.MALFORMED_TARGET, f"'{printable(line.target, 80)}' is no request target (section 3.2)")
    return line.target.decode("ascii")


def split_absolute(target: str) -> tuple[str, str]:
    """Authority and origin-form of an absolute-form target (section 3.2.2). Raises Refusal unless it is http."""
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise Refusal(pb.MALFORMED_TARGET, f"'{printable(target, 80)}' is not a URL (section 3.2.2)")
    scheme, authority, path = found[1].lower(), found[2], found[3]
    if scheme != "http":
        raise Refusal(pb.SCHEME_NOT_ALLOWED, f"{printable(scheme, 40)} is not carried here; http, or CONNECT for https")
    if authority is None:
        raise Refusal(pb.MALFORMED_TARGET, f"'{printable(target, 80)}' has no authority (RFC 9110, section 4.2.1)")
    return authority, path if path.startswith("/") else "/" + path


def parse_response(head: bytes, method: str) -> Response:
    """A complete response head, answering a request of that method. Raises Refusal with UPSTREAM_MALFORMED."""
    try:
        found = _STATUS.fullmatch(head.partition(b"\r\n")[0])
        if found is None:
            raise _malformed("the status line (section 4)")
        minor, status, phrase = int(found[1]), int(found[2]), found[3] or b""
        if status in (101, 407):  # nothing was upgraded, and this gateway alone is the client's proxy
            raise _malformed(f"status {status} (RFC 9110, section {'15.2.2' if status == 101 else '15.5.8'})")
        fields = _parse_fields(head, MAX_RESPONSE_FIELDS)
        framing, length = _response_framing(status, method, minor, fields)
    except Refusal as refusal:
        raise Refusal(pb.UPSTREAM_MALFORMED, refusal.detail) from None
    keep_alive = _keep_alive(minor, fields) and framing is not Framing.UNTIL_CLOSE
    return Response(status, phrase, fields, framing, length, keep_alive)


def request_head(request: Request, path: str, host: str) -> bytes:
    """The head to send upstream: origin-form, HTTP/1.1, the canonical host, and a body framed as `request.framing`."""
    lines = [f"{request.line.method} {path} HTTP/1.1".encode(), b"Host: " + host.encode()]
    lines += _end_to_end(request.fields, drop={b"host", b"content-length", b"expect"})
    lines += _framing_fields(request.framing, request.length)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def response_head(response: Response, framing: Framing, *, keep_alive: bool) -> bytes:
    """The head to send to the client, with a body framed as `framing`, which may differ from the server's."""
    lines = [b"HTTP/1.1 %d %s" % (response.status, response.phrase)]
    # Without a body, Content-Length tells what a GET would have got (RFC 9110, section 8.6): it stays, but for 204.
    told = framing is Framing.NONE and response.status != 204
    lines += _end_to_end(response.fields, drop=set() if told else {b"content-length"})
    lines += _framing_fields(framing, response.length)
    lines.append(b"Connection: keep-alive" if keep_alive else b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _parse_fields(head: bytes, limit: int) -> tuple[Field, ...]:
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")[1:]
    if len(lines) > limit:
        raise Refusal(pb.HEADERS_TOO_LARGE, f"more than {limit} fields")
    return tuple(map(_parse_field, lines))


def _parse_field(line: bytes) -> Field:
    name, colon, value = line.partition(b":")
    value = value.strip(b" \t")
    if colon and _TOKEN.fullmatch(name) and _VALUE.fullmatch(value):
        return name, value
    rule = "a folded line (section 5.2)" if line[:1] in (b" ", b"\t") else "no field line (section 5)"
    raise _malformed(f"'{printable(line, 80)}' is {rule}")


def _values(fields: Sequence[Field], name: bytes) -> list[bytes]:
    return [value for key, value in fields if key.lower() == name]


def _tokens(fields: Sequence[Field], name: bytes) -> set[bytes]:
    """The members of a list field, lower case (RFC 9110, section 5.6.1)."""
    members = b",".join(_values(fields, name)).lower().split(b",")
    return {member.strip(b" \t") for member in members} - {b""}


def _host(line: RequestLine, fields: Sequence[Field]) -> str | None:
    hosts = _values(fields, b"host")
    if len(hosts) > 1:
        raise _malformed("more than one Host (section 3.2)")
    if not hosts and line.minor == 1:
        raise _malformed("no Host (section 3.2)")
    return hosts[0].decode("latin-1") if hosts else None


def _request_framing(line: RequestLine, fields: Sequence[Field]) -> tuple[Framing, int]:
    coded = _is_chunked(fields)
    length = _content_length(fields)
    if coded and length is not None:
        raise _malformed("Content-Length beside Transfer-Encoding (section 6.1)")
    if coded and line.minor == 0:
        raise _malformed("Transfer-Encoding in HTTP/1.0 (section 6.1)")
    if line.method == "CONNECT" and (coded or length):
        raise _malformed("a body with CONNECT (RFC 9110, section 9.3.6)")
    if coded:
        return Framing.CHUNKED, 0
    return (Framing.NONE, 0) if length is None else (Framing.LENGTH, length)


def _response_framing(status: int, method: str, minor: int, fields: Sequence[Field]) -> tuple[Framing, int]:
    """Section 6.3, where the first rule that fits decides."""
    coded = _is_chunked(fields)
    length = _content_length(fields)
    if coded and length is not None:
        raise _malformed("Content-Length beside Transfer-Encoding (section 6.1)")
    if coded and minor == 0:
        raise _malformed("Transfer-Encoding in HTTP/1.0 (section 6.1)")
    if method == "HEAD" or status < 200 or status in (204, 304):
        return Framing.NONE, 0
    if coded:
        return Framing.CHUNKED, 0
    return (Framing.UNTIL_CLOSE, 0) if length is None else (Framing.LENGTH, length)


def _is_chunked(fields: Sequence[Field]) -> bool:
    codings = _values(fields, b"transfer-encoding")
    if codings and [coding.lower() for coding in codings] != [b"chunked"]:
        raise _malformed(f"Transfer-Encoding '{printable(b', '.join(codings), 40)}', not chunked alone (section 6.1)")
    return bool(codings)


def _content_length(fields: Sequence[Field]) -> int | None:
    values = _values(fields, b"content-length")
    if not values:
        return None
    if len(values) > 1 or _LENGTH.fullmatch(values[0]) is None:
        raise _malformed(f"Content-Length '{printable(b', '.join(values), 40)}', not one number (section 6.3)")
    return int(values[0])


def _keep_alive(minor: int, fields: Sequence[Field]) -> bool:
    options = _tokens(fields, b"connection") | _tokens(fields, b"proxy-connection")
    return b"close" not in options and (minor == 1 or b"keep-alive" in options)


def _expects_continue(line: RequestLine, fields: Sequence[Field]) -> bool:
    expected = _tokens(fields, b"expect")
    if expected - {b"100-continue"}:
        raise _malformed("an expectation other than 100-continue (RFC 9110, section 10.1.1)")
    return bool(expected) and line.minor == 1


def upgrades(request: Request) -> set[bytes]:
    """The protocols that a request offers to change to, lower case (RFC 9110, section 7.8)."""
    return _tokens(request.fields, b"upgrade")


def _end_to_end(fields: Sequence[Field], drop: set[bytes]) -> Iterable[bytes]:
    """Field lines without those for one hop (RFC 9110, section 7.6.1), those in the gateway's name, and `drop`.

    No Via is added, against RFC 9110, section 7.6.3: servers answer differently behind a proxy, and a quickstart should
    meet what its reader meets. Loops can't arise, because the gateway's own addresses are never dialled.
    """
    gone = _HOP_BY_HOP | _tokens(fields, b"connection") | drop
    for name, value in fields:
        key = name.lower()
        if key not in gone and not key.startswith(_OURS):
            yield name + b": " + value


def _framing_fields(framing: Framing, length: int) -> list[bytes]:
    match framing:
        case Framing.CHUNKED:
            return [b"Transfer-Encoding: chunked"]
        case Framing.LENGTH:
            return [b"Content-Length: %d" % length]
        case _:
            return []


def _malformed(detail: str) -> Refusal:
    return Refusal(pb.MALFORMED_REQUEST, detail)
