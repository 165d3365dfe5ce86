"""A daemon that is killed: makes one sandbox, says so, and waits. Arguments: engine, state directory, way to plant."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sandboxd.backends.base import ExecRequest, Limits, SandboxRequest, Stream
from sandboxd.backends.docker import DockerBackend
from sandboxd.environment import build
from sandboxd.instances import instance


class Nowhere:
    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        pass


async def main(host: str, state: str, plant: str) -> None:
    with instance(Path(state)) as own:
        backend = DockerBackend(
            node_id=own.node_id, instance_id=own.instance_id, state=own.state, host=host, plant=plant
        )
        request = SandboxRequest("abandoned", "python:3.12-slim", Limits(), build(path=""))
        sandbox = await backend.create(request)
        await sandbox.plant()
        await sandbox.start(ExecRequest("one", ["sh", "-c", "(setsid sleep 1001 &); exec sleep 1002"]), Nowhere())
        print(own.instance_id, sandbox.container_id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
