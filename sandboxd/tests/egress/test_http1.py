"""The grammar of heads: what is refused, and that h11 reads the rest as we do."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress import http1
from sandboxd.egress.http1 import Framing, Request, Response
from sandboxd.egress.refusal import Refusal

from tests.support.splits import byte_by_byte, cut_at


def read(data: bytes) -> Request | None:
    """The request at the start of some bytes; None when it is not complete."""
    end = http1.head_end(data, http1.MAX_REQUEST_HEAD)
    if end < 0:
        return None
    line = http1.parse_request_line(data[:end])
    return http1.parse_request(line, data[:end])


def get(*fields: bytes, line: bytes = b"GET / HTTP/1.1", host: bytes = b"Host: registry.test") -> bytes:
    return b"\r\n".join([line, *([host] if host else []), *fields]) + b"\r\n\r\n"


MALFORMED = {
    "S01 Content-Length beside Transfer-Encoding": get(b"Content-Length: 4", b"Transfer-Encoding: chunked"),
    "S01 the other way round": get(b"Transfer-Encoding: chunked", b"Content-Length: 4"),
    "S02 two lengths": get(b"Content-Length: 4", b"Content-Length: 5"),
    "S02 one length twice": get(b"Content-Length: 4", b"content-length: 4"),
    "S02 a list": get(b"Content-Length: 4, 4"),
    "S02 a plus sign": get(b"Content-Length: +4"),
    "S02 a minus sign": get(b"Content-Length: -1"),
    "S02 hexadecimal": get(b"Content-Length: 0x4"),
    "S02 25 digits": get(b"Content-Length: " + b"1" * 25),
    "S02 no digits": get(b"Content-Length:"),
    "S02 digits of another script": get("Content-Length: ４".encode()),  # noqa: RUF001
    "an unknown coding": get(b"Transfer-Encoding: gzip"),
    "chunked behind another": get(b"Transfer-Encoding: gzip, chunked"),
    "chunked twice": get(b"Transfer-Encoding: chunked, chunked"),
    "chunked in two fields": get(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "chunked and identity": get(b"Transfer-Encoding: chunked, identity"),
    "a vertical tab": get(b"Transfer-Encoding:\x0bchunked"),
    "nearly chunked": get(b"Transfer-Encoding: xchunked"),
    "an empty coding": get(b"Transfer-Encoding:"),
    "S04 a coding in HTTP/1.0": get(b"Transfer-Encoding: chunked", line=b"GET / HTTP/1.0"),
    "no Host": get(host=b""),
    "two Hosts": get(b"Host: registry.test"),
    "two different Hosts": get(b"Host: docs.test"),
    "S06 a space before the colon": get(b"X-A : x"),
    "S06 a space before Host's colon": get(host=b"Host : registry.test"),
    "S06 a folded line": get(b" folded"),
    "S06 a line folded by a tab": get(b"\tfolded"),
    "S06 a space before the first field": get(host=b" Host: registry.test"),
    "S06 LF in the place of CRLF": get().replace(b"\r\n", b"\n"),
    "S06 one LF": b"GET / HTTP/1.1\nHost: registry.test\r\n\r\n",
    "S06 a bare CR in a value": get(b"X-A: a\rb"),
    "S06 a bare CR at the end of a value": get(b"X-A: a\r"),
    "S06 NUL in a value": get(b"X-A: a\0b"),
    "S06 a bell in a value": get(b"X-A: a\x07b"),
    "S06 DEL in a value": get(b"X-A: a\x7fb"),
    "S06 a field without a colon": get(b"X-A"),
    "S06 a field without a name": get(b": a"),
    "S06 a bracket in a name": get(b"X(A: a"),
    "S06 a name that is not ASCII": get("Ä: a".encode()),
    "S07 HTTP/2.0": get(line=b"GET / HTTP/2.0"),
    "S07 HTTP/1.2": get(line=b"GET / HTTP/1.2"),
    "S07 HTTP/0.9": get(line=b"GET /"),
    "S07 the preface of HTTP/2": get(line=b"PRI * HTTP/2.0"),
    "S07 a version in lower case": get(line=b"GET / http/1.1"),
    "S07 a version with a leading zero": get(line=b"GET / HTTP/01.1"),
    "S07 a space behind the version": get(line=b"GET / HTTP/1.1 "),
    "S07 a method in lower case": get(line=b"get / HTTP/1.1"),
    "S07 a method that nobody has": get(line=b"BREW / HTTP/1.1"),
    "S07 a long method": get(line=b"A" * 20000 + b" / HTTP/1.1"),
    "S07 no method": get(line=b" / HTTP/1.1"),
    "S07 an empty line": b"\r\n\r\n",
    "S07 a line before the request": b"\r\n" + get(),
    "S07 a TLS record": b"\x16\x03\x01\x02\x00\x01",
    "an expectation that nobody has": get(b"Expect: 200-maybe"),
    "CONNECT with a body": get(b"Content-Length: 4", line=b"CONNECT registry.test:443 HTTP/1.1"),
    "CONNECT with a coding": get(b"Transfer-Encoding: chunked", line=b"CONNECT registry.test:443 HTTP/1.1"),
}

TOO_LARGE = {
    "S10 a request line of 33 KiB": get(line=b"GET /" + b"a" * 33 * 1024 + b" HTTP/1.1"),
    "S10 a method of 40 KiB": b"A" * 40 * 1024,
    "S10 a field of 70 KiB": get(b"X-A: " + b"a" * 70 * 1024),
    "S10 1500 fields": get(*[b"X-A: a"] * 1500),
    "S10 190 values": get(*[b"X-A: a"] * 190),
    "S10 101 fields": get(*[b"X-A: a"] * 100),
    "S10 32 KiB without an end": b"GET /" + b"a" * 32 * 1024,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed(data: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read(data)
    assert refused.value.reason == pb.MALFORMED_REQUEST
    assert "section" in refused.value.detail


@pytest.mark.parametrize("data", TOO_LARGE.values(), ids=TOO_LARGE)
def test_too_large(data: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read(data)
    assert refused.value.reason == pb.HEADERS_TOO_LARGE


@pytest.mark.parametrize(
    ("data", "framing", "length"),
    [
        pytest.param(get(), Framing.NONE, 0, id="no body"),
        pytest.param(get(b"Content-Length: 0"), Framing.LENGTH, 0, id="an empty body"),
        pytest.param(get(b"content-LENGTH:\t42 \t"), Framing.LENGTH, 42, id="spaces around a value"),
        pytest.param(get(b"Content-Length: 0042"), Framing.LENGTH, 42, id="leading zeros"),
        pytest.param(get(b"Transfer-Encoding: Chunked"), Framing.CHUNKED, 0, id="chunked in any case"),
        pytest.param(get(*[b"X-A: a"] * 99), Framing.NONE, 0, id="S10 100 fields are allowed"),
        pytest.param(get(b"X-A:"), Framing.NONE, 0, id="an empty value"),
        pytest.param(get(b"X-A: \xe4\xff"), Framing.NONE, 0, id="a value that is not ASCII"),
        pytest.param(get(host=b"", line=b"GET / HTTP/1.0"), Framing.NONE, 0, id="HTTP/1.0 without Host"),
    ],
)
def test_well_formed(data: bytes, framing: Framing, length: int) -> None:
    request = read(data)
    assert request is not None
    assert (request.framing, request.length) == (framing, length)


@pytest.mark.parametrize(
    ("data", "keep_alive"),
    [
        pytest.param(get(), True, id="HTTP/1.1 goes on"),
        pytest.param(get(b"Connection: x, CLOSE"), False, id="until it says close"),
        pytest.param(get(b"Proxy-Connection: close"), False, id="also in the old way"),
        pytest.param(get(line=b"GET / HTTP/1.0"), False, id="HTTP/1.0 ends"),
        pytest.param(get(b"Connection: keep-alive", line=b"GET / HTTP/1.0"), True, id="unless it says keep-alive"),
    ],
)
def test_keep_alive(data: bytes, keep_alive: bool) -> None:
    request = read(data)
    assert request is not None
    assert request.keep_alive is keep_alive


def test_a_request_is_written_anew_without_what_is_for_one_hop_or_in_our_name() -> None:
    request = read(
        get(
            b"User-Agent: pip/25",
            b"Connection: keep-alive, X-Secret",
            b"X-Secret: a",
            b"Keep-Alive: timeout=5",
            b"Proxy-Authorization: Basic YQ==",
            b"Proxy-Anything: a",
            b"TE: trailers",
            b"Trailer: X-T",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAM",
            b"Expect: 100-continue",
            b"X-Sandboxd-Verdict: allowed",
            b"x-proxy-error: no",
            b"Content-Length: 0003",
            b"Accept:   */*  ",
            line=b"POST http://registry.test/a HTTP/1.1",
            host=b"HOST: REGISTRY.test:80",
        )
    )
    assert request is not None
    assert http1.request_head(request, "/a", "registry.test") == (
        b"POST /a HTTP/1.1\r\nHost: registry.test\r\nUser-Agent: pip/25\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n"
    )
    assert request.expects_continue


@pytest.mark.parametrize(
    ("head", "method", "framing", "length"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5", "GET", Framing.LENGTH, 5, id="a length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", "GET", Framing.CHUNKED, 0, id="chunks"),
        pytest.param(b"HTTP/1.1 200 OK", "GET", Framing.UNTIL_CLOSE, 0, id="until the end"),
        pytest.param(b"HTTP/1.0 200 OK", "GET", Framing.UNTIL_CLOSE, 0, id="HTTP/1.0"),
        pytest.param(b"HTTP/1.1 200", "GET", Framing.UNTIL_CLOSE, 0, id="without a phrase or its space"),
        pytest.param(b"HTTP/1.1 200 ", "GET", Framing.UNTIL_CLOSE, 0, id="without a phrase"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5", "HEAD", Framing.NONE, 0, id="HEAD"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", "HEAD", Framing.NONE, 0, id="HEAD and chunks"),
        pytest.param(b"HTTP/1.1 204 No\r\nContent-Length: 5", "GET", Framing.NONE, 0, id="204"),
        pytest.param(b"HTTP/1.1 304 No\r\nContent-Length: 5", "GET", Framing.NONE, 0, id="304"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: a", "GET", Framing.NONE, 0, id="103"),
    ],
)
def test_a_response(head: bytes, method: str, framing: Framing, length: int) -> None:
    response = http1.parse_response(head + b"\r\n\r\n", method)
    assert (response.framing, response.length) == (framing, length)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"HTTP/2 200 OK", id="another version"),
        pytest.param(b"HTTP/1.1 99 No", id="a status of two digits"),
        pytest.param(b"HTTP/1.1 600 No", id="a status beyond 599"),
        pytest.param(b"HTTP/1.1 2000 OK", id="a status of four digits"),
        pytest.param(b"HTTP/1.1  200 OK", id="two spaces"),
        pytest.param(b"ICY 200 OK", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 O\0K", id="NUL in the phrase"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket", id="N19 an upgrade that nobody asked for"
        ),
        pytest.param(b"HTTP/1.1 407 Proxy Authentication Required", id="N16 a server that claims to be the proxy"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", id="S01 two framings"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5", id="S02 two lengths"),
        pytest.param(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", id="S04 chunks in HTTP/1.0"),
        pytest.param(b"HTTP/1.1 200 OK\r\n folded", id="S06 a folded line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A: a\rb", id="S06 a bare CR"),
        pytest.param(b"HTTP/1.1 200 OK" + b"\r\nX-A: a" * 201, id="S10 201 fields"),
    ],
)
def test_a_response_that_is_refused(head: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        http1.parse_response(head + b"\r\n\r\n", "GET")
    assert refused.value.reason == pb.UPSTREAM_MALFORMED


@pytest.mark.parametrize(
    ("framing", "told"),
    [
        (Framing.LENGTH, b"Content-Length: 5\r\n"),
        (Framing.CHUNKED, b"Transfer-Encoding: chunked\r\n"),
        (Framing.UNTIL_CLOSE, b""),
    ],
)
def test_n16_a_response_is_written_anew_without_a_verdict_that_is_not_ours(framing: Framing, told: bytes) -> None:
    fields = [
        b"Server: nginx",
        b"X-Sandboxd-Verdict: allowed",
        b"x-sandboxd-reason: registry_host",
        b"X-Proxy-Error: none",
        b"Proxy-Authenticate: Basic",
        b"Proxy-Status: a",
        b"Connection: X-Hop",
        b"X-Hop: a",
        b"Keep-Alive: timeout=5",
        b"Upgrade: h2c",
        b"Trailer: X-T",
        b"Content-Length: 5",
    ]
    response = http1.parse_response(b"HTTP/1.1 200 Fine\r\n" + b"\r\n".join(fields) + b"\r\n\r\n", "GET")
    assert http1.response_head(response, framing, keep_alive=True) == (
        b"HTTP/1.1 200 Fine\r\nServer: nginx\r\n" + told + b"Connection: keep-alive\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("status", "method", "told"),
    [
        pytest.param(200, "HEAD", True, id="HEAD tells what GET would get"),
        pytest.param(304, "GET", True, id="304 too"),
        pytest.param(204, "GET", False, id="204 tells nothing"),
    ],
)
def test_a_length_without_a_body(status: int, method: str, told: bool) -> None:
    response = http1.parse_response(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status, method)
    assert (b"Content-Length: 5" in http1.response_head(response, Framing.NONE, keep_alive=True)) is told


# --- Properties ---------------------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    b"GET|POST|CONNECT| |/|http://a.test/|HTTP/1.1|HTTP/1.0|\r\n|\r\n\r\n|\n|\r|Host: a.test|Content-Length: 3"
    b"|Transfer-Encoding: chunked|X: y|:|\t|\0|\xff|a".split(b"|")
)
HEADS = st.one_of(
    st.binary(max_size=200),
    st.lists(FRAGMENTS, max_size=12).map(b"".join),
    st.lists(FRAGMENTS, max_size=6).map(lambda parts: get(*parts)),
)


def outcome(pieces: list[bytes]) -> object:
    """What comes of reading pieces as they arrive."""
    buffer = b""
    try:
        for piece in pieces:
            buffer += piece
            if (request := read(buffer)) is not None:
                return request
    except Refusal as refusal:
        return refusal.reason
    return None


@given(HEADS, st.lists(st.integers(0, 200), max_size=5))
@example(b"GET / HTTP/1.1\r\nHost: a.test\r\r\n\r\n", [29])
@example(b"GET /\xff HTTP/1.1\r\nHost: a.test\r\r\n\r\n", [30])
@example(get() + b"\n", [5])
def test_any_split_of_the_bytes_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert outcome(cut_at(data, cuts)) == outcome([data])
    assert outcome(byte_by_byte(data)) == outcome([data])


@given(HEADS)
def test_what_is_accepted_h11_reads_in_the_same_way(data: bytes) -> None:
    try:
        request = read(data)
    except Refusal:
        return
    if request is None or request.line.method == "CONNECT":
        return
    try:
        http1.target_text(request.line)
    except Refusal:
        return
    theirs = h11.Connection(h11.SERVER)
    theirs.receive_data(data)
    event = theirs.next_event()
    assert isinstance(event, h11.Request)
    assert event.method.decode() == request.line.method
    assert event.target == request.line.target
    ours = [(name.lower(), value) for name, value in request.fields]
    assert [(name, value.lower()) for name, value in event.headers] == [(name, value.lower()) for name, value in ours]


@given(HEADS)
def test_what_is_written_upstream_is_read_back_as_the_same_request(data: bytes) -> None:
    try:
        request = read(data)
    except Refusal:
        return
    if request is None or request.line.method == "CONNECT":
        return
    again = read(http1.request_head(request, "/", "a.test"))
    assert again is not None
    assert (again.line.method, again.line.target, again.host) == (request.line.method, b"/", "a.test")
    assert (again.framing, again.length) == (request.framing, request.length)


@given(st.binary(max_size=300), st.sampled_from(["GET", "HEAD"]))
def test_a_response_is_understood_or_refused(data: bytes, method: str) -> None:
    for head in (data, b"HTTP/1.1 200 OK\r\n" + data):
        try:
            response = http1.parse_response(head + b"\r\n\r\n", method)
        except Refusal:
            continue
        written = http1.response_head(response, response.framing, keep_alive=True)
        again = http1.parse_response(written, method)
        assert isinstance(again, Response)
        assert (again.status, again.framing, again.length) == (response.status, response.framing, response.length)
