"""A web site for tests of reading documentation: real HTTP over loopback, with every way to misbehave that a table
names. Names are resolved by the test, and dialled addresses are recorded before they lead here."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpcore

# Of RFC 5737: it reaches nothing of anybody's, and the rules let it pass.
PUBLIC = "203.0.113.10"


@dataclass(frozen=True)
class Reply:
    """`raw` is sent instead of everything else; `pause` comes after the head, `hold` keeps the connection open."""

    body: bytes = b""
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("content-type", "text/html; charset=utf-8"),)
    length: int | None = None
    pause: float = 0.0
    hold: bool = False
    raw: bytes | None = None


@dataclass(frozen=True)
class Request:
    host: str
    path: str
    headers: dict[str, str]


Answer = Reply | Callable[[Request], Reply]


def html(text: str, status: int = 200) -> Reply:
    return Reply(text.encode(), status)


def redirect(to: str, status: int = 302) -> Reply:
    return Reply(b"", status, [("location", to)])


@dataclass
class Site:
    """Pages by path, or by `host/path`; what isn't there is 404. `requests` are all that came."""

    pages: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    concurrent: int = 0
    most_at_once: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def paths(self) -> list[str]:
        """What was asked for, robots.txt aside."""
        return [request.path for request in self.requests if request.path != "/robots.txt"]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        request = Request(headers.get("host", ""), head[0].split(" ")[1], headers)
        self.requests.append(request)
        self.concurrent += 1
        self.most_at_once = max(self.most_at_once, self.concurrent)
        try:
            answer = self.pages.get(f"{request.host}{request.path}", self.pages.get(request.path))
            if answer is None:
                answer = Reply(b"<h1>Nothing here</h1>", 404)
            reply = answer(request) if callable(answer) else answer
            await _send(reply, writer)
            if reply.hold:
                await asyncio.sleep(3600)
        finally:
            self.concurrent -= 1
        return reply.raw is None and reply.length is None


async def _send(reply: Reply, writer: asyncio.StreamWriter) -> None:
    if reply.raw is not None:
        writer.write(reply.raw)
        await writer.drain()
        return
    length = len(reply.body) if reply.length is None else reply.length
    lines = [f"HTTP/1.1 {reply.status} X", f"content-length: {length}", *(f"{n}: {v}" for n, v in reply.headers)]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    await writer.drain()
    await asyncio.sleep(reply.pause)
    writer.write(reply.body)
    await writer.drain()


class Dialler(httpcore.AsyncNetworkBackend):
    """Leads every address to the site, and remembers which one it was."""

    def __init__(self, ports: dict[int, int]) -> None:
        self.dialled: list[tuple[str, int]] = []
        self._ports = ports  # port asked for: port of a site
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[tuple[int, int, int]] | None = None,  # type: ignore[override]  # we need no others
    ) -> httpcore.AsyncNetworkStream:
        self.dialled.append((host, port))
        if port not in self._ports:
            raise httpcore.ConnectError("connection refused")
        return await self._inner.connect_tcp("127.0.0.1", self._ports[port], timeout)


def names(addresses: dict[str, list[str]]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver that knows these names."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host not in addresses:
            raise OSError("Name or service not known")
        return addresses[host]

    return resolve


def certificate(directory: Path, name: str, *, days: int = 2) -> ssl.SSLContext:
    """A server's context with a certificate for `name`, which is its own authority: `directory/NAME.pem`."""
    key, pem = directory / f"{name}.key", directory / f"{name}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         str(days), "-keyout", str(key), "-out", str(pem), "-subj", f"/CN={name}", "-addext",
         f"subjectAltName=DNS:{name}"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context
