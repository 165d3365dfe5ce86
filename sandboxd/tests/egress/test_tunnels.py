"""TLS on port 443, through CONNECT and captured: nothing goes upstream before the right name was read."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from pathlib import Path as FilePath

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.limits import GatewayLimits

from tests.support.docs_site import certificate
from tests.support.gateway import Client, Handler, Rig, Upstream, client_hello, connect_request, running
from tests.support.tls_message import extension, hello_body, record, server_name, whole

HELLO = client_hello("registry.test")
RESET = struct.pack("ii", 1, 0)
ALERT = b"\x15\x03\x03\x00\x02\x02"
WAYS = ("CONNECT", "captured 443")


async def begin(rig: Rig, way: str) -> Client:
    """A connection to registry.test that waits for a ClientHello."""
    if way == "captured 443":
        return await rig.connect("443")
    client = await rig.connect("proxy")
    await client.send(connect_request())
    assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
    return client


# id: what is sent, reason, the alert's description or None when the connection just ends
REFUSED = {
    "T01 another server name": (client_hello("docs.test"), "TLS_NAME_MISMATCH", 112),
    "T01 a name below": (client_hello("a.registry.test"), "TLS_NAME_MISMATCH", 112),
    "T01 a name with NUL": (whole(server_name(b"registry.test\0.evil.test")), "TLS_NAME_MISMATCH", 112),
    "T01 an address as a name": (whole(server_name(b"203.0.113.7")), "TLS_NAME_MISMATCH", 112),
    "T01 a name with a port": (whole(server_name(b"registry.test:443")), "TLS_NAME_MISMATCH", 112),
    "T02 no server name": (client_hello(None), "TLS_NAME_MISSING", 112),
    "T13 a resumption of a docs host's session": (
        whole(server_name(b"docs.test"), extension(41, bytes(60))),
        "TLS_NAME_MISMATCH",
        112,
    ),
    "two server names": (whole(server_name(b"registry.test", b"docs.test")), "NON_TLS_ON_443", None),
    "an encrypted ClientHello": (
        whole(server_name(b"registry.test"), extension(0xFE0D, bytes(200))),
        "TLS_NAME_HIDDEN",
        112,
    ),
    "T04 a hello beyond 64 KiB": (b"\x16\x03\x01\x40\x00\x01\x01\x00\x00", "CLIENT_HELLO_TOO_LARGE", 80),
    "T06 SSH": (b"SSH-2.0-x\r\n", "NON_TLS_ON_443", None),
    "T06 HTTP": (b"GET / HTTP/1.1\r\n\r\n", "NON_TLS_ON_443", None),
    "T06 SSLv2": (b"\x80\x2e\x01\x03\x01", "NON_TLS_ON_443", None),
    "T06 an alert": (b"\x15\x03\x01\x00\x02\x02\x28", "NON_TLS_ON_443", None),
    "T06 random bytes": (b"\xa7\x91\x00\x13\x37", "NON_TLS_ON_443", None),
    "N12 another proxy request": (connect_request("docs.test:443"), "NON_TLS_ON_443", None),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("data", "reason", "alert"), REFUSED.values(), ids=REFUSED)
async def test_refused(way: str, data: bytes, reason: str, alert: int | None) -> None:
    async with running() as rig:
        client = await begin(rig, way)
        await client.send(data)
        assert await client.rest() == (b"" if alert is None else ALERT + bytes([alert]))
        assert rig.reasons() == [reason]
        [event] = rig.events
        assert (event.verdict, event.host, event.port) == (pb.REFUSED, "registry.test", 443)
        assert rig.resolved == (["registry.test"] if way == "CONNECT" else [])
        assert (rig.dialled, rig.upstream.connections) == ([], [])


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_hangs_up_before_its_hello_is_on_record(way: str) -> None:
    async with running() as rig:
        client = await begin(rig, way)
        await client.send(HELLO[:100])
        client.end_writing()
        assert await client.rest() == b""
        assert rig.reasons() == ["NON_TLS_ON_443"]
        assert rig.dialled == []


async def test_d02_a_name_that_was_resolved_is_on_record_though_the_client_is_gone() -> None:
    async with running() as rig:
        client = await rig.connect("proxy")
        await client.send(connect_request("data.registry.test:443"))
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.socket.close()
        [event] = await rig.until(rig.decisions, 1)
        assert (event.host, event.verdict) == ("data.registry.test", pb.REFUSED)
        assert rig.resolved == ["data.registry.test"]
        assert rig.dialled == []


SPLITS = {
    "T04 a byte a segment": [HELLO[i : i + 1] for i in range(len(HELLO))],
    "T04 the record header alone": [HELLO[:5], HELLO[5:]],
    "T04 a handshake in two records": [record(HELLO[5:100]), record(HELLO[100:])],
    "T04 16 KiB of padding": [whole(server_name(b"registry.test"), extension(21, bytes(16000)))],
    "T04 an ML-KEM key share": [record(hello_body(extension(51, bytes(1300)), server_name(b"registry.test")))],
    "H07 upper case": [whole(server_name(b"REGISTRY.Test"))],
    "H06 a trailing dot": [whole(server_name(b"registry.test."))],
    "data sent with it": [HELLO + b"early"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pieces", SPLITS.values(), ids=SPLITS)
async def test_a_hello_goes_upstream_as_it_came_once_it_is_whole(way: str, pieces: list[bytes]) -> None:
    async with running() as rig:
        client = await begin(rig, way)
        for piece in pieces:
            assert rig.upstream.received == b""
            await client.send(piece)
            await asyncio.sleep(0)
        await client.send(b"\r\n\r\n")
        assert await client.until(b"ok")
        assert rig.upstream.received == b"".join(pieces) + b"\r\n\r\n"
        assert rig.reasons() == ["REGISTRY_HOST"]
        assert rig.dialled == [("203.0.113.7", 443)]


async def test_a_hello_that_a_client_sends_without_waiting_for_200_is_taken() -> None:
    async with running() as rig:
        client = await rig.connect("proxy")
        await client.send(connect_request() + HELLO + b"\r\n\r\n")
        assert (await client.until(b"ok")).startswith(b"HTTP/1.1 200 Connection established\r\n\r\n")
        assert rig.upstream.received == HELLO + b"\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"CONNECT registry.test:443 HTTP/1.0\r\n\r\n", id="Python's http.client: HTTP/1.0 without Host"),
        pytest.param(b"CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test\r\n\r\n", id="Host without the port"),
        pytest.param(
            b"CONNECT REGISTRY.test.:443 HTTP/1.1\r\nHost: registry.test:443\r\n\r\n", id="H06 another spelling"
        ),
        pytest.param(
            b"CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\nProxy-Authorization: Basic YQ==\r\n\r\n",
            id="credentials are ignored",
        ),
    ],
)
async def test_connect_as_clients_send_it(head: bytes) -> None:
    async with running() as rig:
        client = await rig.connect("proxy")
        await client.send(head)
        assert b" 200 " in await client.until(b"\r\n\r\n")


async def test_a_decision_is_told_before_anything_goes_upstream_and_the_end_is_told_with_its_counts() -> None:
    held = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"answer")

    async with running(upstream=Upstream(handler)) as rig:
        client = await begin(rig, "CONNECT")
        await client.send(HELLO + b"\r\n\r\n")
        [decision] = await rig.until(rig.decisions, 1)
        assert (decision.verdict, decision.closed, decision.bytes_up) == (pb.ALLOWED, False, 0)
        held.set()
        assert await client.until(b"answer")
        client.end_writing()
        [end] = await rig.closed()
        assert (end.layer, end.host, end.target) == (decision.layer, decision.host, decision.target)
        assert (end.bytes_up, end.bytes_down, end.status) == (len(HELLO) + 4, 6, 200)
        assert end.duration.ToNanoseconds() > 0
        assert end.address == "203.0.113.7"


@pytest.mark.parametrize("way", WAYS)
async def test_s12_a_client_that_has_said_all_still_gets_its_answer(way: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.read()).endswith(b"question")  # until the end
        writer.write(b"answer")

    async with running(upstream=Upstream(handler)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO + b"question")
        client.end_writing()
        assert await client.rest() == b"answer"


@pytest.mark.parametrize("way", WAYS)
async def test_s12_a_server_that_has_said_all_still_gets_what_the_client_sends(way: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer")
        writer.write_eof()
        while await reader.read(65536):
            pass

    async with running(upstream=Upstream(handler)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO)
        assert await client.rest() == b"answer"
        await client.send(b"more")
        client.end_writing()
        await rig.closed()
        assert rig.upstream.received == HELLO + b"more"


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65536)
    writer.write(b"half of it")
    await writer.drain()
    await reader.read(65536)
    writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65536)


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_resets_resets_the_client(way: str) -> None:
    async with running(upstream=Upstream(_reset)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO)
        assert await client.receive() == b"half of it"
        await client.send(b"go")
        assert await client.rest() == b"<reset>"
        await rig.closed()
        assert rig.reasons() == ["REGISTRY_HOST"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handler", [pytest.param(_hang_up, id="S17 a server that hangs up without a byte")])
async def test_a_tunnel_in_which_the_server_said_nothing_has_failed(way: str, handler: Handler) -> None:
    async with running(upstream=Upstream(handler)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO)
        assert await client.rest() == b""
        client.end_writing()
        await rig.closed()
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_CLOSED"]
        assert rig.decisions()[1].verdict == pb.ERROR


@pytest.mark.parametrize("way", WAYS)
async def test_s17_a_server_that_says_nothing_ends_at_the_idle_deadline(way: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    async with running(upstream=Upstream(handler), limits=GatewayLimits(idle=0.05)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO)
        assert await client.rest() == b"<reset>"
        await rig.closed()
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_TIMEOUT"]


async def test_s12_a_byte_now_and_then_keeps_a_tunnel_alive() -> None:
    """Ten bytes, one every 0.1 s, take longer than the idle time of 0.9 s."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        for _ in range(10):
            await asyncio.sleep(0.1)
            writer.write(b"x")
        await reader.read()

    async with running(upstream=Upstream(handler), limits=GatewayLimits(idle=0.9)) as rig:
        client = await begin(rig, "CONNECT")
        await client.send(HELLO)
        assert await client.until(b"x" * 10)


@pytest.mark.parametrize("way", WAYS)
async def test_s12_a_tunnel_ends_at_the_absolute_deadline_however_busy_it_is(way: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()
            await asyncio.sleep(0)

    async with running(upstream=Upstream(handler), limits=GatewayLimits(absolute=1.0)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO)
        assert (await client.rest()).endswith(b"<reset>")
        assert rig.reasons() == ["REGISTRY_HOST"]


@pytest.mark.parametrize("way", WAYS)
async def test_s11_a_hello_has_to_come_in_time(way: str) -> None:
    async with running(limits=GatewayLimits(head=0.5)) as rig:
        client = await begin(rig, way)
        await client.send(HELLO[:10])
        assert await client.rest() == ALERT + b"\x50"
        assert rig.reasons() == ["CLIENT_TIMEOUT"]


async def test_a_slow_reader_slows_its_server_down() -> None:
    """Backpressure: a server that could send without end gets rid of no more than the sockets' buffers hold."""
    sent = 0
    stuck = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.read(65536)
        try:
            while True:
                writer.write(bytes(1 << 16))
                async with asyncio.timeout(0.5):
                    await writer.drain()
                sent += 1 << 16
        except TimeoutError:
            stuck.set()
            await writer.drain()

    async with running(upstream=Upstream(handler)) as rig:
        client = await begin(rig, "CONNECT")
        await client.send(HELLO)
        async with asyncio.timeout(30):
            await stuck.wait()
        assert 0 < sent < 64 << 20
        received = 0
        while received < sent:
            received += len(await client.receive(1 << 20))


async def test_t11_real_tls_goes_through_unseen_and_its_bytes_are_counted(tmp_path: FilePath) -> None:
    """OpenSSL on both ends: the certificate that the client checks is the server's own.

    What no host policy can see is what is inside: another Host, an upload (T09 to T12). The counts are on record.
    """
    served = certificate(tmp_path, "registry.test")

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.readexactly(1 << 20)
        writer.write(data[::-1])
        await writer.drain()

    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=served)
    upstream = Upstream()
    async with server, running(upstream=upstream) as rig:
        upstream.port = server.sockets[0].getsockname()[1]
        client = await begin(rig, "CONNECT")
        trusted = ssl.create_default_context(cafile=str(tmp_path / "registry.test.pem"))
        reader, writer = await asyncio.open_connection(sock=client.socket, ssl=trusted, server_hostname="registry.test")
        data = bytes(range(256)) * 4096
        writer.write(data)
        assert await reader.readexactly(len(data)) == data[::-1]
        writer.close()
        [end] = await rig.closed()
        assert end.bytes_up > len(data)
        assert end.bytes_down > len(data)
        client = await begin(rig, "CONNECT")
        with pytest.raises(ssl.SSLCertVerificationError):  # T08: checking the server's name is the client's business
            await asyncio.open_connection(
                sock=client.socket, ssl=ssl.create_default_context(), server_hostname="registry.test"
            )
