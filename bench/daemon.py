"""A daemon for measurements, and the few calls on it. No controller: what is measured is sandboxd and the wire."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from grpc import aio
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

TOKEN = b"a token of the benchmark"
START_SECONDS = 30.0
_numbers = itertools.count(1)


@contextlib.asynccontextmanager
async def child(*argv: str, socket: str) -> AsyncIterator[aio.Channel]:
    """A server in a process of its own, and a channel to it. It ends at the end of its stdin."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            await asyncio.wait_for(channel.channel_ready(), START_SECONDS)
            yield channel
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), START_SECONDS)
        except TimeoutError:
            process.kill()
            raise


@contextlib.asynccontextmanager
async def daemon(*options: str) -> AsyncIterator[Client]:
    """A sandboxd with a state of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        socket = str(Path(home) / "sandboxd.sock")
        before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = home
        try:
            # Its log would stand between the bars; writing it is a part of what is measured all the same.
            command = ("-m", "sandboxd", "serve", "--unix", socket, "--exit-with-stdin", *options)
            async with child(*command, socket=socket) as channel:
                yield Client(channel)
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before


class Client:
    """The calls that the measurements make."""

    def __init__(self, channel: aio.Channel) -> None:
        self.sandboxes = rpc.SandboxServiceStub(channel)
        self.execs = rpc.ExecServiceStub(channel)

    async def create(self, backend: pb.BackendKind.ValueType, image: str = "") -> str:
        """A sandbox that is ready; its id."""
        sandbox = f"bench-{os.getpid()}-{next(_numbers)}"
        spec = pb.SandboxSpec(backend=backend, image=image, allow_unenforced=backend == pb.LOCAL)
        await self.sandboxes.Create(
            pb.CreateRequest(
                sandbox_id=sandbox, spec=spec, run_id="bench", owner_token=TOKEN, lease_ttl=Duration(seconds=600)
            )
        )
        async for state in self.sandboxes.Watch(pb.WatchRequest(sandbox_id=sandbox)):
            if state.state == pb.READY:
                return sandbox
        raise RuntimeError(f"{sandbox} is {pb.SandboxState.Name(state.state)}: {state.error.message}")

    async def destroy(self, sandbox: str) -> None:
        """End it, and wait until nothing of it is left."""
        await self.sandboxes.Destroy(pb.DestroyRequest(sandbox_id=sandbox, owner_token=TOKEN, wait=True))

    @contextlib.asynccontextmanager
    async def sandbox(self, backend: pb.BackendKind.ValueType, image: str = "") -> AsyncIterator[str]:
        """A sandbox for a while."""
        sandbox = await self.create(backend, image)
        try:
            yield sandbox
        finally:
            await self.destroy(sandbox)

    async def run(self, sandbox: str, *argv: str, output_limit: int = 0) -> int:
        """Run a command to its exit record; the bytes of output that came."""
        exec_id = f"exec-{next(_numbers)}"
        spec = pb.ExecSpec(argv=argv, timeout=Duration(seconds=300), output_limit=output_limit)
        await self.execs.Start(pb.StartRequest(sandbox_id=sandbox, owner_token=TOKEN, exec_id=exec_id, spec=spec))
        received = 0
        async for record in self.execs.ReadLog(pb.ReadLogRequest(sandbox_id=sandbox, exec_id=exec_id, follow=True)):
            kind = record.WhichOneof("record")
            if kind == "data":
                received += len(record.data.data)
            elif kind == "exit":
                if record.exit.code != 0:
                    raise RuntimeError(f"{argv} ended with {record.exit.code}: {record.exit.message}")
                return received
        raise RuntimeError(f"the log of {argv} has no exit record")
