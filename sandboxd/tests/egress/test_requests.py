"""Requests to the proxy and captured on port 80, through real sockets: what goes upstream, and what comes back."""

from __future__ import annotations

import asyncio

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb

from tests.support.gateway import OK, Handler, Upstream, connect_request, running
from tests.support.paths import status_of

GET = b"GET http://registry.test/a HTTP/1.1\r\nHost: registry.test\r\n\r\n"
LAST = b"GET http://registry.test/b HTTP/1.1\r\nHost: registry.test\r\nConnection: close\r\n\r\n"

# id: what is sent to the proxy, status, reason
REFUSED = {
    "N02 Host beside another authority": (
        b"CONNECT registry.test:443 HTTP/1.1\r\nHost: docs.test\r\n\r\n",
        421,
        "AUTHORITY_MISMATCH",
    ),
    "N02 Host with another port": (
        b"CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:80\r\n\r\n",
        421,
        "AUTHORITY_MISMATCH",
    ),
    "N04 Host beside another URL": (
        b"GET http://registry.test/ HTTP/1.1\r\nHost: docs.test\r\n\r\n",
        421,
        "AUTHORITY_MISMATCH",
    ),
    "N04 Host with an address": (
        b"GET http://registry.test/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        421,
        "AUTHORITY_MISMATCH",
    ),
    "N04 Host that is malformed": (
        b"GET http://registry.test/ HTTP/1.1\r\nHost: registry.test, docs.test\r\n\r\n",
        400,
        "MALFORMED_REQUEST",
    ),
    "N04 an empty Host": (b"GET http://registry.test/ HTTP/1.1\r\nHost:\r\n\r\n", 400, "MALFORMED_REQUEST"),
    "N05 a docs host beside an allowed Host": (
        b"GET http://docs.test/ HTTP/1.1\r\nHost: registry.test\r\n\r\n",
        403,
        "DOCS_HOST_REQUIRES_READ_DOCS",
    ),
    "N11 a docs host on a connection as to a web server": (
        b"GET /x HTTP/1.1\r\nHost: docs.test\r\n\r\n",
        403,
        "DOCS_HOST_REQUIRES_READ_DOCS",
    ),
    "N11 an allowed host on a connection as to a web server": (
        b"GET /x HTTP/1.1\r\nHost: registry.test\r\n\r\n",
        400,
        "MALFORMED_TARGET",
    ),
    "N14 OPTIONS *": (b"OPTIONS * HTTP/1.1\r\nHost: registry.test\r\n\r\n", 400, "MALFORMED_TARGET"),
    "N14 TRACE": (b"TRACE http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\n\r\n", 405, "METHOD_NOT_ALLOWED"),
    "N14 the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "MALFORMED_REQUEST"),
    "N19 a websocket": (
        b"GET http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\nUpgrade: websocket\r\n\r\n",
        400,
        "UPGRADE_NOT_ALLOWED",
    ),
    "S07 TLS to the proxy": (b"\x16\x03\x01\x02\x00\x01\x00", 400, "MALFORMED_REQUEST"),
    "S10 a head that is too large": (b"GET /" + b"a" * 40000, 431, "HEADERS_TOO_LARGE"),
    "a head that ends early": (b"GET http://registry.test/ HT", 400, "MALFORMED_REQUEST"),
}


@pytest.mark.parametrize(("request_", "status", "reason"), REFUSED.values(), ids=REFUSED)
async def test_refused(request_: bytes, status: int, reason: str) -> None:
    async with running() as rig:
        client = await rig.connect("proxy")
        await client.send(request_)
        client.end_writing()
        answer = await client.rest()
        assert status_of(answer) == status
        assert b"\r\nServer: sandboxd\r\n" in answer
        assert f"\r\nX-Sandboxd-Reason: {reason.lower()}\r\n".encode() in answer
        assert b"<reset>" not in answer
        assert rig.reasons() == [reason]
        assert (rig.resolved, rig.dialled) == ([], [])


async def test_n01_the_answer_for_a_docs_host_names_read_docs() -> None:
    async with running() as rig:
        answer = await rig.ask("proxy", connect_request("docs.test:443"))
        phrase = answer.split(b"\r\n")[0]
        assert phrase == b"HTTP/1.1 403 Documentation host docs.test: use the read_docs tool"
        assert b"Connection: close" in answer


async def test_an_answer_to_head_has_no_body() -> None:
    async with running() as rig:
        answer = await rig.ask("proxy", b"HEAD http://docs.test/ HTTP/1.1\r\nHost: docs.test\r\n\r\n")
        assert status_of(answer) == 403
        assert answer.endswith(b"\r\n\r\n")


async def test_a_request_for_the_gateway_itself_is_answered_with_a_banner_and_is_no_event() -> None:
    async with running() as rig:
        for host in (b"127.0.0.1:3128", b"localhost", b"[::1]:3128"):
            answer = await rig.ask("proxy", b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            assert status_of(answer) == 400
            assert b"\r\nServer: sandboxd\r\n" in answer
        assert status_of(await rig.ask("proxy", b"GET / HTTP/1.0\r\n\r\n")) == 400
        assert rig.events == []


async def test_n10_pipelined_requests_are_judged_one_by_one() -> None:
    async with running() as rig:
        docs = b"GET http://docs.test/b HTTP/1.1\r\nHost: docs.test\r\n\r\n"
        answer = await rig.ask("proxy", GET + docs + LAST)
        first, second = answer.split(b"ok", 1)
        assert status_of(first) == 200
        assert status_of(second) == 403
        assert rig.reasons() == ["REGISTRY_HOST", "DOCS_HOST_REQUIRES_READ_DOCS"]
        assert rig.upstream.received == b"GET /a HTTP/1.1\r\nHost: registry.test\r\n\r\n"


async def test_n11_two_hosts_never_share_a_connection_and_one_host_keeps_its_own() -> None:
    async with running() as rig:
        client = await rig.connect("proxy")
        for host in ("registry.test", "registry.test", "files.test", "registry.test"):
            await client.send(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert status_of(await client.until(b"ok")) == 200
        hosts = [bytes(received).count(b"Host: registry.test") for received in rig.upstream.connections]
        assert hosts == [2, 0, 1]
        assert rig.resolved == ["registry.test", "files.test", "registry.test"]
        assert len(await rig.closed(4)) == 4
        assert rig.reasons() == ["REGISTRY_HOST", "REGISTRY_HOST", "EXPLICIT_HOST", "REGISTRY_HOST"]


def canned(*answers: bytes, close: bool = True) -> Handler:
    """A server that answers the requests of a connection with given bytes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        if not close:
            await reader.read()

    return handler


async def test_n17_a_redirect_is_relayed_and_not_followed() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://docs.test/\r\nContent-Length: 0\r\n\r\n"
    async with running(upstream=Upstream(canned(moved))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert status_of(answer) == 302
        assert b"Location: http://docs.test/\r\n" in answer
        assert rig.resolved == ["registry.test"]


async def test_n16_a_server_can_not_tell_a_verdict() -> None:
    fake = b"HTTP/1.1 200 OK\r\nX-Sandboxd-Verdict: allowed\r\nX-Proxy-Error: no\r\nContent-Length: 2\r\n\r\nok"
    async with running(upstream=Upstream(canned(fake))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert answer.lower().count(b"x-") == 0
        assert answer.endswith(b"ok")


async def test_n19_an_offer_of_h2c_is_dropped_and_the_request_goes_on() -> None:
    async with running() as rig:
        fields = b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
        answer = await rig.ask(
            "proxy", b"GET http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\n" + fields + b"\r\n"
        )
        assert status_of(answer) == 200
        assert rig.upstream.received == b"GET / HTTP/1.1\r\nHost: registry.test\r\n\r\n"


async def test_n19_a_server_that_switches_protocols_unasked_is_malformed() -> None:
    switched = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nopaque"
    async with running(upstream=Upstream(canned(switched))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert status_of(answer) == 502
        assert b"opaque" not in answer
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_MALFORMED"]


RESPONSES = {
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"Content-Length: 5\r\n", b"hello"),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: a\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
    ),
    "until the end": (
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
    ),
    "interim responses before it": (
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"Content-Length: 5\r\n",
        b"hello",
    ),
    "S18 compressed data is not looked into": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\0\xff",
        b"Content-Encoding: gzip\r\n",
        b"\x1f\x8b\0\xff",
    ),
    "204 without a body": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", b"204 No Content\r\n", b"\r\n\r\n"),
    "304 without a body": (b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", b"Content-Length: 5\r\n", b"\r\n\r\n"),
    "what follows a body is dropped": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 Fake\r\n\r\n",
        b"Content-Length: 5\r\n",
        b"hello",
    ),
}


@pytest.mark.parametrize(("response", "field", "body"), RESPONSES.values(), ids=RESPONSES)
async def test_a_response_is_framed_anew(response: bytes, field: bytes, body: bytes) -> None:
    async with running(upstream=Upstream(canned(response))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert field in answer
        assert answer.endswith(b"\r\n\r\n" + body.removeprefix(b"\r\n\r\n"))
        [end] = await rig.closed()
        assert end.status == status_of(answer)


async def test_chunks_go_to_a_client_of_http10_until_the_end() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    async with running(upstream=Upstream(canned(chunked))) as rig:
        answer = await rig.ask("proxy", b"GET http://registry.test/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        head, body = answer.split(b"\r\n\r\n")
        assert body == b"hello"
        assert b"Transfer-Encoding" not in head
        assert b"Connection: close" in head
        assert rig.upstream.received.startswith(b"GET / HTTP/1.1\r\nHost: registry.test\r\n")


async def test_head_keeps_the_length_and_has_no_body() -> None:
    async with running(
        upstream=Upstream(canned(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", OK, close=False))
    ) as rig:
        client = await rig.connect("proxy")
        await client.send(b"HEAD http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\n\r\n" + LAST)
        answer = await client.rest()
        first, second, body = answer.split(b"\r\n\r\n")
        assert b"Content-Length: 5" in first
        assert (status_of(second), body) == (200, b"ok")
        assert len(rig.upstream.connections) == 1


BODIES = {
    "a length": (b"Content-Length: 5\r\n\r\nhello", b"Content-Length: 5\r\n\r\nhello"),
    "S08 chunks, their extensions and trailers dropped": (
        b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nHost: evil.test\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
}


@pytest.mark.parametrize(("sent", "received"), BODIES.values(), ids=BODIES)
async def test_a_request_body_is_framed_anew(sent: bytes, received: bytes) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b""
        while not data.endswith(received):
            more = await reader.read(100)
            assert more
            data += more
        writer.write(OK)

    async with running(upstream=Upstream(handler)) as rig:
        head = b"POST http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\nConnection: close\r\n"
        assert status_of(await rig.ask("proxy", head + sent)) == 200
        [end] = await rig.closed()
        assert end.method == "POST"
        assert end.bytes_up == len(rig.upstream.received)


async def test_s08_a_malformed_chunk_is_refused_and_the_server_sees_no_end_of_it() -> None:
    async with running(upstream=Upstream(_swallow)) as rig:
        head = b"POST http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await rig.ask("proxy", head + b"5\r\nhello\r\n0x4\r\nevil\r\n")
        assert status_of(answer) == 400
        assert rig.reasons() == ["REGISTRY_HOST", "MALFORMED_REQUEST"]
        assert b"0\r\n\r\n" not in rig.upstream.received


async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def test_a_client_that_waits_for_100_gets_it_from_the_gateway_once_it_is_allowed() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Expect" not in head
        await reader.readexactly(5)
        writer.write(OK)

    async with running(upstream=Upstream(handler)) as rig:
        client = await rig.connect("proxy")
        fields = b"Expect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n"
        await client.send(b"PUT http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\n" + fields + b"\r\n")
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hello")
        assert status_of(await client.rest()) == 200
        refused = b"PUT http://docs.test/ HTTP/1.1\r\nHost: docs.test\r\n" + fields + b"\r\n"
        assert status_of(await rig.ask("proxy", refused)) == 403


async def test_an_answer_that_comes_before_the_body_was_sent_reaches_the_client() -> None:
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with running(upstream=Upstream(canned(early))) as rig:
        head = b"POST http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\nContent-Length: 1000000\r\n\r\n"
        answer = await rig.ask("proxy", head)
        assert status_of(answer) == 413
        assert b"Connection: close" in answer
        assert answer.endswith(b"no")


@pytest.mark.parametrize(
    ("response", "reason", "status"),
    [
        pytest.param(b"", "UPSTREAM_CLOSED", 502, id="S17 a server that hangs up"),
        pytest.param(b"HTTP/1.1 200 O", "UPSTREAM_CLOSED", 502, id="S17 in the middle of its head"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "UPSTREAM_MALFORMED", 502, id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\nX: y\n\n", "UPSTREAM_MALFORMED", 502, id="bare line feeds"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 20, "UPSTREAM_MALFORMED", 502, id="nothing but 100"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000, "UPSTREAM_MALFORMED", 502, id="a head without end"),
    ],
)
async def test_a_server_that_fails_before_it_answered(response: bytes, reason: str, status: int) -> None:
    async with running(upstream=Upstream(canned(response))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert status_of(answer) == status
        assert rig.reasons() == ["REGISTRY_HOST", reason]
        assert rig.events[1].verdict == pb.ERROR
        await rig.closed()


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        pytest.param(b"Content-Length: 9\r\n\r\nhel", "UPSTREAM_CLOSED", id="inside a body of known length"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", "UPSTREAM_CLOSED", id="between two chunks"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n3\r\nhelXYZ", "UPSTREAM_MALFORMED", id="in a malformed chunk"),
    ],
)
async def test_a_server_that_fails_inside_its_answer_resets_the_client(response: bytes, reason: str) -> None:
    async with running(upstream=Upstream(canned(b"HTTP/1.1 200 OK\r\n" + response))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert answer.endswith(b"<reset>")
        assert not answer.endswith(b"0\r\n\r\n<reset>")
        assert rig.reasons() == ["REGISTRY_HOST", reason]
        assert (await rig.closed())[0].status == 200


async def test_an_answer_of_5xx_is_relayed_and_told() -> None:
    down = b"HTTP/1.1 503 Down\r\nContent-Length: 4\r\n\r\ndown"
    async with running(upstream=Upstream(canned(down))) as rig:
        answer = await rig.ask("proxy", LAST)
        assert status_of(answer) == 503
        assert answer.endswith(b"down")
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_SERVER_ERROR"]
        assert [(event.verdict, event.status) for event in rig.decisions()] == [(pb.ALLOWED, 0), (pb.ERROR, 503)]


async def test_a_kept_connection_that_the_server_has_closed_is_made_anew() -> None:
    async with running(upstream=Upstream(canned(OK))) as rig:
        client = await rig.connect("proxy")
        for _ in range(3):
            await client.send(GET)
            assert (await client.until(b"ok")).startswith(b"HTTP/1.1 200")
        assert len(rig.upstream.connections) == 3
        assert rig.reasons() == ["REGISTRY_HOST"] * 3


async def test_a_kept_connection_that_ends_as_a_request_arrives_is_made_anew_for_a_get_and_not_for_a_post() -> None:
    served = asyncio.Event()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")  # and hang up without an answer
        served.set()

    async with running(upstream=Upstream(once)) as rig:
        client = await rig.connect("proxy")
        for _ in range(2):
            await client.send(GET)
            assert status_of(await client.until(b"ok")) == 200
        assert len(rig.upstream.connections) == 2
        await client.send(b"POST http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\n\r\n")
        assert status_of(await client.rest()) == 502
        assert len(rig.upstream.connections) == 2


CAPTURED = {
    "T16 no Host": (b"GET / HTTP/1.1\r\n\r\n", 400, "MALFORMED_REQUEST"),
    "T16 two Hosts": (b"GET / HTTP/1.1\r\nHost: registry.test\r\nHost: docs.test\r\n\r\n", 400, "MALFORMED_REQUEST"),
    "T16 another Host": (b"GET / HTTP/1.1\r\nHost: docs.test\r\n\r\n", 421, "AUTHORITY_MISMATCH"),
    "T16 another allowed Host": (b"GET / HTTP/1.1\r\nHost: files.test\r\n\r\n", 421, "AUTHORITY_MISMATCH"),
    "T16 another port in Host": (b"GET / HTTP/1.1\r\nHost: registry.test:8080\r\n\r\n", 421, "AUTHORITY_MISMATCH"),
    "T16 an address in Host": (b"GET / HTTP/1.1\r\nHost: 198.18.0.1\r\n\r\n", 421, "AUTHORITY_MISMATCH"),
    "T16 a URL of another host": (
        b"GET http://docs.test/ HTTP/1.1\r\nHost: registry.test\r\n\r\n",
        421,
        "AUTHORITY_MISMATCH",
    ),
    "T16 HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: registry.test\r\n\r\n", 400, "MALFORMED_REQUEST"),
    "T16 CONNECT": (connect_request(), 405, "METHOD_NOT_ALLOWED"),
    "N14 TRACE": (b"TRACE / HTTP/1.1\r\nHost: registry.test\r\n\r\n", 405, "METHOD_NOT_ALLOWED"),
    "N14 OPTIONS *": (b"OPTIONS * HTTP/1.1\r\nHost: registry.test\r\n\r\n", 400, "MALFORMED_TARGET"),
    "N08 https": (b"GET https://registry.test/ HTTP/1.1\r\nHost: registry.test\r\n\r\n", 400, "SCHEME_NOT_ALLOWED"),
    "S06 a bare LF": (b"GET / HTTP/1.1\nHost: registry.test\n\n", 400, "MALFORMED_REQUEST"),
}


@pytest.mark.parametrize(("request_", "status", "reason"), CAPTURED.values(), ids=CAPTURED)
async def test_captured_on_port_80_and_refused(request_: bytes, status: int, reason: str) -> None:
    async with running() as rig:
        answer = await rig.ask("80", request_)
        assert status_of(answer) == status
        assert rig.reasons() == [reason]
        assert rig.events[0].layer == pb.TRANSPARENT_HTTP
        assert (rig.resolved, rig.dialled) == ([], [])


async def test_t16_a_captured_connection_is_judged_again_at_each_request() -> None:
    async with running() as rig:
        client = await rig.connect("80")
        await client.send(b"GET /a HTTP/1.1\r\nHost: registry.test\r\n\r\n")
        assert status_of(await client.until(b"ok")) == 200
        await client.send(b"GET http://registry.test/b HTTP/1.1\r\nHost: registry.test:80\r\n\r\n")
        assert status_of(await client.until(b"ok")) == 200
        await client.send(b"GET /c HTTP/1.1\r\nHost: docs.test\r\n\r\n")
        assert status_of(await client.rest()) == 421
        assert rig.reasons() == ["REGISTRY_HOST", "REGISTRY_HOST", "AUTHORITY_MISMATCH"]
        assert b"docs.test" not in rig.upstream.received


@pytest.mark.parametrize("port", ["80", "443"])
@pytest.mark.parametrize("address", ["127.1.200.200", "198.18.9.9", "8.8.8.8", "127.0.0.1"])
async def test_t15_a_captured_connection_to_an_address_that_stands_for_no_name_is_reset(
    port: str, address: str
) -> None:
    async with running() as rig:
        client = await rig.connect(port, address=address)
        assert await client.rest() == b"<reset>"
        assert rig.reasons() == ["UNMAPPED_ADDRESS"]
        assert rig.events[0].target == f"{address}:{port}"
        assert (rig.resolved, rig.dialled) == ([], [])


async def test_t15_a_connection_to_the_listener_itself_is_reset() -> None:
    async with running() as rig:
        client = await rig.connect("443", address="198.18.0.1")
        rig.destinations.clear()
        assert await client.rest() == b"<reset>"
        assert rig.reasons() == ["UNMAPPED_ADDRESS"]
