"""A large download through the gateway, over the same download without it.

`python -m bench.proxied PORT` serves a gateway for it in a process of its own and prints the proxy's port. The name
that the client asks for leads to PORT on this machine, whatever a resolver would say.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from sandboxd.backends.base import Planted
from sandboxd.egress.gateway import Gateway
from sandboxd.egress.policy import Policy

from bench import blob
from bench.measure import Work

PUBLIC = "1.1.1.1"  # what the name resolves to: judged like any address, and never dialled


@contextlib.asynccontextmanager
async def _child(module: str, *arguments: str) -> AsyncIterator[int]:
    """A server in a process of its own; the port that it prints. It ends at the end of its stdin."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await asyncio.wait_for(process.stdout.readline(), 30))
    finally:
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 30)


@contextlib.asynccontextmanager
async def download() -> AsyncIterator[Work]:
    """1 GiB over TLS in one connection."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        cert, key = await asyncio.to_thread(blob.certificate, Path(home))
        async with _child("bench.blob", str(cert), str(key)) as server, _child("bench.proxied", str(server)) as proxy:

            async def reference() -> None:
                await asyncio.to_thread(blob.download, server, cert, proxy=False)

            async def candidate() -> None:
                await asyncio.to_thread(blob.download, proxy, cert, proxy=True)

            yield Work(reference, candidate)


def _listener(kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    listener = socket.socket(socket.AF_INET, kind)
    listener.bind(("127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        listener.listen()
    listener.setblocking(False)
    return listener


async def serve(upstream: int) -> None:
    """A gateway on sockets of this process, until stdin ends."""

    async def resolve(_host: str) -> Sequence[str]:
        return [PUBLIC]

    async def dial(_address: str, _port: int) -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", upstream))
        return connection

    planted = Planted(
        proxy=_listener(),
        dns_udp=_listener(socket.SOCK_DGRAM),
        dns_tcp=_listener(),
        transparent={},
        redirected=False,
        pool="198.18.0.0/15",
    )
    policy = Policy(explicit=(blob.HOST,))
    gateway = Gateway(policy, planted, emit=lambda _event: None, resolver=resolve, dialler=dial)
    await gateway.start()
    print(planted.proxy.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    await gateway.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
