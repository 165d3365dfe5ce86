"""The way from a seatbelt sandbox to its gateway: one loopback port, and a secret that its proxy variables carry.

Loopback is the whole host's, so a port alone does not tell who dials. The first request of a connection has to present
the sandbox's secret as proxy credentials (RFC 7617), as every tool does that is given a proxy's URL with a user in it;
then the connection is passed on to the gateway, which listens on a unix socket that only the daemon can reach.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path

LOOPBACK = "127.0.0.1"
# The gateway's own bounds for a request's head; what is longer it would refuse too.
MAX_HEAD = 32 << 10
HEAD_SECONDS = 10.0
CHUNK = 64 << 10
BACKLOG = 1024
END_OF_HEAD = b"\r\n\r\n"

REFUSAL = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\n"
    b"Server: sandboxd\r\n"
    b'Proxy-Authenticate: Basic realm="sandboxd"\r\n'
    b"Content-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Front:
    """Listens from its start and serves from `start` on. `gateway` is the listening socket that the gateway takes."""

    def __init__(self) -> None:
        self._secret = secrets.token_urlsafe(24)
        expected = base64.b64encode(f"sandbox:{self._secret}".encode())
        self._expected = b"basic " + expected
        self._directory = tempfile.mkdtemp(prefix="sandboxd-")
        try:
            self._listener = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
            self.port: int = self._listener.getsockname()[1]
            self._path = str(Path(self._directory, "gateway"))
            self.gateway = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.gateway.bind(self._path)
            self.gateway.listen(BACKLOG)
            self.gateway.setblocking(False)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """What the sandbox's proxy variables say."""
        return f"http://sandbox:{self._secret}@{LOOPBACK}:{self.port}"

    async def start(self) -> None:
        """Serve."""
        self._server = await asyncio.start_server(self._accepted, sock=self._listener, limit=MAX_HEAD)

    async def close(self) -> None:
        """Stop serving, and end what is open. Idempotent."""
        if self._server is not None:
            self._server.close()
        self._listener.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._directory, True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # it is closed below, and the client knows no more than that
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(END_OF_HEAD)
        rest = self.admitted(head)
        if rest is None:
            writer.write(REFUSAL)
            await writer.drain()
            return
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(self._path)
        try:
            upstream_writer.write(rest)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, upstream_writer))
                both.create_task(_copy(upstream_reader, writer))
        except* OSError:
            pass  # one of the two is gone, and so is the connection
        finally:
            upstream_writer.close()

    def admitted(self, head: bytes) -> bytes | None:
        """The head without its credentials, which are nobody else's to see; None when they are missing or wrong."""
        lines = head.split(b"\r\n")
        given = [line for line in lines[1:] if line.lower().startswith(b"proxy-authorization:")]
        if len(given) != 1:
            return None
        kind, _, credentials = given[0].partition(b":")[2].strip().partition(b" ")
        presented = kind.lower() + b" " + credentials.strip()
        if not hmac.compare_digest(presented, self._expected):
            return None
        return b"\r\n".join(line for line in lines if line is not given[0])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the one side ends; then the other hears of it."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def unreachable_sockets() -> tuple[socket.socket, socket.socket]:
    """A UDP and a TCP socket for a name server that no sandbox can ask: its profile allows the proxy's port alone."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((LOOPBACK, 0))
    stream = socket.create_server((LOOPBACK, 0))
    for each in (datagrams, stream):
        each.setblocking(False)
        os.set_inheritable(each.fileno(), False)
    return datagrams, stream
