"""The wire: what a call costs, and how fast a command's output reaches the controller."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from grpc import aio
from quickstarted_api.v1 import sandbox_pb2 as pb

from bench import echo
from bench.daemon import child, daemon
from bench.measure import Work

CALLS = 200
OUTPUT_BYTES = 1 << 30


@contextlib.asynccontextmanager
async def echo_server() -> AsyncIterator[aio.Channel]:
    """The server that does nothing."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        socket = str(Path(home) / "echo.sock")
        async with child("-m", "bench.echo", socket, socket=socket) as channel:
            yield channel


@contextlib.asynccontextmanager
async def unary() -> AsyncIterator[Work]:
    """A call that reads a sandbox, over an echo of as many bytes."""
    async with echo_server() as channel, daemon() as client, client.sandbox(pb.LOCAL) as sandbox:
        bare: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(echo.UNARY)
        get = client.sandboxes.Get
        request = pb.GetRequest(sandbox_id=sandbox)
        answer = (await get(request)).SerializeToString()

        async def reference() -> None:
            for _ in range(CALLS):
                await bare(answer)

        async def candidate() -> None:
            for _ in range(CALLS):
                await get(request)

        yield Work(reference, candidate)


@contextlib.asynccontextmanager
async def output() -> AsyncIterator[Work]:
    """1 GiB of a command's output, over as many bytes in a bare stream of chunks of 64 KiB."""
    async with echo_server() as channel, daemon() as client, client.sandbox(pb.LOCAL) as sandbox:
        bare: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(echo.STREAM)

        async def reference() -> None:
            received = 0
            async for chunk in bare(str(OUTPUT_BYTES // len(echo.CHUNK)).encode()):
                received += len(chunk)
            assert received == OUTPUT_BYTES

        async def candidate() -> None:
            command = ("head", "-c", str(OUTPUT_BYTES), "/dev/zero")
            received = await client.run(sandbox, *command, output_limit=2 * OUTPUT_BYTES)
            assert received == OUTPUT_BYTES, f"{received} bytes of {OUTPUT_BYTES} came"

        yield Work(reference, candidate)
