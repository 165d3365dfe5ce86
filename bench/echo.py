"""The reference for calls and streams: a gRPC server that does nothing, in a process of its own.

`python -m bench.echo SOCKET` serves until its stdin ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from grpc import (
    RpcMethodHandler,
    aio,
    method_handlers_generic_handler,
    unary_stream_rpc_method_handler,
    unary_unary_rpc_method_handler,
)

CHUNK = b"x" * 65536
UNARY = "/bench.Echo/Unary"
STREAM = "/bench.Echo/Stream"


async def unary(request: bytes, _context: object) -> bytes:
    """What came goes back."""
    return request


async def stream(request: bytes, _context: object) -> AsyncIterator[bytes]:
    """As many chunks of 64 KiB as the request says."""
    for _ in range(int(request)):
        yield CHUNK


async def serve(socket: str) -> None:
    """Serve until stdin ends."""
    server = aio.server()
    handlers: dict[str, RpcMethodHandler[bytes, bytes]] = {
        "Unary": unary_unary_rpc_method_handler(unary),
        "Stream": unary_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((method_handlers_generic_handler("bench.Echo", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await asyncio.to_thread(sys.stdin.buffer.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
