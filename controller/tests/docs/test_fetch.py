"""One request on the wire, against a real server that misbehaves, with the real rules for addresses and TLS."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from quickstarted.docs.dial import AddressRules, CheckedBackend, resolve_name, tls_context
from quickstarted.docs.fetch import HttpFetcher, Response
from quickstarted.docs.problems import Problem, ReadError

from tests.support.docs_site import PUBLIC, Dialler, Reply, Request, Site, certificate, html, names

MB = 1024 * 1024


@dataclass
class Wire:
    site: Site
    dialler: Dialler
    addresses: dict[str, list[str]]
    fetcher: HttpFetcher

    async def get(self, url: str, seconds: float = 20.0) -> Response:
        return await self.fetcher.get(url, seconds=seconds)


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    site = Site({"/": html("<p>hello")})
    await site.start()
    dialler = Dialler({80: site.port, 8080: site.port})
    addresses = {"docs.test": [PUBLIC]}
    backend = CheckedBackend(AddressRules(), names(addresses), dialler)
    fetcher = HttpFetcher(backend, limit=2 * MB, idle_seconds=0.3)
    yield Wire(site, dialler, addresses, fetcher)
    await fetcher.close()
    await site.close()


async def test_a_page_comes_with_its_headers_and_the_request_says_who_asks(wire: Wire) -> None:
    response = await wire.get("http://docs.test/?x=%20y#fragment")
    assert (response.status, response.url) == (404, "http://docs.test/?x=%20y")
    response = await wire.get("http://docs.test/")
    assert (response.status, response.body, response.header("Content-Type")) == (
        200,
        b"<p>hello",
        "text/html; charset=utf-8",
    )
    request = wire.site.requests[0]
    assert (request.path, request.host) == ("/?x=%20y", "docs.test")
    assert request.headers["user-agent"].startswith("quickstarted/")
    assert request.headers["accept"].startswith("text/html,")
    assert "cookie" not in request.headers


async def test_the_checked_address_is_dialled_and_the_name_goes_into_the_host_header(wire: Wire) -> None:
    wire.addresses["docs.test"] = [PUBLIC, "203.0.113.11"]
    await wire.get("http://docs.test:8080/")
    assert wire.dialler.dialled == [(PUBLIC, 8080)]
    assert wire.site.requests[0].host == "docs.test:8080"


async def test_cookies_are_not_sent_back(wire: Wire) -> None:
    wire.site.pages["/"] = Reply(b"x", headers=[("set-cookie", "a=b")])
    await wire.get("http://docs.test/")
    await wire.get("http://docs.test/")
    assert all("cookie" not in request.headers for request in wire.site.requests)


PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2002:a00:1::",
    "2001::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "2001:db8::1",
    "nonsense",
]


@pytest.mark.parametrize("address", PRIVATE)
async def test_no_name_leads_to_a_private_address(wire: Wire, address: str) -> None:
    wire.addresses["docs.test"] = [PUBLIC, address]
    with pytest.raises(ReadError) as caught:
        await wire.get("http://docs.test/")
    assert caught.value.problem is Problem.PRIVATE_ADDRESS
    assert address in caught.value.message
    assert wire.dialler.dialled == []


async def test_an_operator_may_open_a_private_network(wire: Wire) -> None:
    wire.addresses["docs.test"] = ["10.1.2.3"]
    rules = AddressRules(allow_private=(ip_network("10.1.0.0/16"),))
    fetcher = HttpFetcher(CheckedBackend(rules, names(wire.addresses), wire.dialler))
    assert (await fetcher.get("http://docs.test/", seconds=20)).status == 200
    await fetcher.close()
    assert wire.dialler.dialled == [("10.1.2.3", 80)]


async def test_a_mapped_preview_may_be_anywhere_but_only_it(wire: Wire) -> None:
    wire.addresses |= {"preview.test": ["127.0.0.1"], "docs.test": ["127.0.0.1"]}
    rules = AddressRules(exempt=frozenset([("preview.test", 8080)]))
    fetcher = HttpFetcher(CheckedBackend(rules, names(wire.addresses), wire.dialler))
    assert (await fetcher.get("http://preview.test:8080/", seconds=20)).status == 200
    for url in ("http://preview.test/", "http://docs.test:8080/"):
        with pytest.raises(ReadError, match="not a public address"):
            await fetcher.get(url, seconds=20)
    await fetcher.close()


async def test_another_address_is_tried_when_one_refuses(wire: Wire) -> None:
    class Second(Dialler):
        async def connect_tcp(self, host: str, *rest: object, **more: object) -> object:  # type: ignore[override]
            if host == PUBLIC:
                self.dialled.append((host, 0))
                raise __import__("httpcore").ConnectError("refused")
            return await super().connect_tcp(host, *rest, **more)  # type: ignore[arg-type]

    wire.addresses["docs.test"] = [PUBLIC, "203.0.113.11"]
    dialler = Second({80: wire.site.port})
    fetcher = HttpFetcher(CheckedBackend(AddressRules(), names(wire.addresses), dialler))
    assert (await fetcher.get("http://docs.test/", seconds=20)).status == 200
    assert [host for host, _ in dialler.dialled] == [PUBLIC, "203.0.113.11"]
    await fetcher.close()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"
FAULTS = [
    ("no name", "http://nowhere.test/", None, Problem.DNS, "can't be resolved"),
    ("nobody listens", "http://docs.test:8081/", None, Problem.CONNECT, "no connection"),
    ("no HTTP", "/", Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"), Problem.PROTOCOL, "not speak HTTP"),
    ("nothing", "/", Reply(raw=b""), Problem.PROTOCOL, "not speak HTTP"),
    ("cut in the middle", "/", Reply(b"abc", length=100), Problem.PROTOCOL, "not speak HTTP"),
    ("cut in a chunk", "/", Reply(raw=HEAD + b"transfer-encoding: chunked\r\n\r\nff\r\nabc"), Problem.PROTOCOL, "HTTP"),
    (
        "two lengths",
        "/",
        Reply(raw=HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        Problem.PROTOCOL,
        "HTTP",
    ),
    ("endless headers", "/", Reply(raw=HEAD + b"x: y\r\n" * 40_000), Problem.PROTOCOL, "HTTP"),
    ("silent after the head", "/", Reply(b"", length=5, hold=True), Problem.TIMEOUT, "not heard from"),
    ("silent from the start", "/", Reply(raw=b"", hold=True), Problem.TIMEOUT, "not heard from"),
    ("large by its length", "/", Reply(b"", length=3 * MB, hold=True), Problem.TOO_LARGE, "over 2 MB"),
    ("large in fact", "/", Reply(raw=HEAD + b"\r\n" + b"x" * (3 * MB)), Problem.TOO_LARGE, "over 2 MB"),
    (
        "large once decompressed",
        "/",
        Reply(gzip.compress(b"ab" * 3 * MB), headers=[("content-encoding", "gzip")]),
        Problem.TOO_LARGE,
        "",
    ),
    (
        "not what its encoding says",
        "/",
        Reply(b"abc", headers=[("content-encoding", "br")]),
        Problem.BAD_ENCODING,
        "br",
    ),
]


@pytest.mark.parametrize(("url", "reply", "problem", "words"), [r[1:] for r in FAULTS], ids=[r[0] for r in FAULTS])
async def test_a_fault_is_told_as_what_it_is(
    wire: Wire, url: str, reply: Reply | None, problem: Problem, words: str
) -> None:
    if reply is not None:
        wire.site.pages["/"] = reply
        url = "http://docs.test/"
    with pytest.raises(ReadError) as caught:
        await wire.get(url)
    assert caught.value.problem is problem
    assert words in caught.value.message
    wire.site.pages["/"] = html("still here")
    assert (await wire.get("http://docs.test/")).body == b"still here"


async def test_a_request_ends_at_its_deadline_though_bytes_keep_coming(wire: Wire) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    fetcher = HttpFetcher(
        CheckedBackend(AddressRules(), names(wire.addresses), Dialler({80: server.sockets[0].getsockname()[1]}))
    )
    with pytest.raises(ReadError, match="not answered in full within 1 s"):
        await fetcher.get("http://docs.test/", seconds=0.6)
    await fetcher.close()
    server.close()


async def test_a_cancelled_request_leaves_no_connection(wire: Wire) -> None:
    asked = asyncio.Event()

    def hold(request: Request) -> Reply:
        asked.set()
        return Reply(b"", length=5, hold=True)

    wire.site.pages["/"] = hold
    task = asyncio.create_task(wire.get("http://docs.test/"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wire.site.pages["/"] = html("next")
    assert (await wire.get("http://docs.test/")).body == b"next"


async def test_the_resolver_asks_for_the_absolute_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.9", port))] * 2

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    assert list(await resolve_name("docs.test", 443)) == ["203.0.113.9"]
    assert asked == ["docs.test."]


# --- TLS


@pytest.fixture
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wire]:
    context = certificate(tmp_path, "docs.test")
    context.set_alpn_protocols(["http/1.1"])
    site = Site({"/": html("<p>hello")})
    await site.start(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "docs.test.pem"))
    dialler = Dialler({443: site.port})
    addresses = {"docs.test": [PUBLIC], "other.test": [PUBLIC]}
    fetcher = HttpFetcher(CheckedBackend(AddressRules(), names(addresses), dialler))
    yield Wire(site, dialler, addresses, fetcher)
    await fetcher.close()
    await site.close()


async def test_the_operators_authorities_are_honoured_and_the_name_is_sent(secure: Wire) -> None:
    assert (await secure.get("https://docs.test/")).body == b"<p>hello"
    assert secure.dialler.dialled == [(PUBLIC, 443)]


async def test_a_certificate_for_another_name_is_refused_with_the_reason(secure: Wire) -> None:
    with pytest.raises(ReadError, match=r"certificate is not valid: .*mismatch") as caught:
        await secure.get("https://other.test/")
    assert caught.value.problem is Problem.TLS
    assert secure.site.requests == []


async def test_an_unknown_authority_is_refused_with_the_reason(secure: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ReadError, match=r"certificate is not valid: self.signed certificate") as caught:
        await secure.get("https://docs.test/")
    assert caught.value.problem is Problem.TLS


async def test_a_server_without_tls_is_told(wire: Wire) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fetcher = HttpFetcher(CheckedBackend(AddressRules(), names(wire.addresses), Dialler({443: port})))
    with pytest.raises(ReadError, match="TLS failed") as caught:
        await fetcher.get("https://docs.test/", seconds=20)
    assert caught.value.problem is Problem.TLS
    await fetcher.close()
    server.close()


def test_the_systems_authorities_are_used_when_an_operator_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    context = tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


async def test_http_2_is_spoken_with_a_server_that_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = certificate(tmp_path, "docs.test")
    context.set_alpn_protocols(["h2", "http/1.1"])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "docs.test.pem"))
    seen: list[dict[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65_536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    seen.append(dict(event.headers))
                    connection.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/html")])
                    connection.send_data(event.stream_id, b"<p>two", end_stream=True)
            writer.write(connection.data_to_send())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    dialler = Dialler({443: server.sockets[0].getsockname()[1]})
    fetcher = HttpFetcher(CheckedBackend(AddressRules(), names({"docs.test": [PUBLIC]}), dialler))
    for _ in range(2):
        response = await fetcher.get("https://docs.test/a?b", seconds=20)
        assert (response.status, response.body, response.header("content-type")) == (200, b"<p>two", "text/html")
    assert [(request[b":authority"], request[b":path"]) for request in seen] == [(b"docs.test", b"/a?b")] * 2
    assert len(dialler.dialled) == 1
    await fetcher.close()
    server.close()
