"""The docker backend over the docker SDK. Needs an engine, with an image python:3.12-slim."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import docker
from quickstarted_api.v1 import sandbox_pb2 as pb

from bench.daemon import daemon
from bench.measure import Work
from tests.support import engine

IMAGE = "python:3.12-slim"
IDLE = ["sh", "-c", "while :; do sleep 1000; done"]


@contextlib.asynccontextmanager
async def ready() -> AsyncIterator[Work]:
    """A sandbox that is ready for its first command, over a bare container without a network."""
    with engine.running():
        sdk = docker.from_env()
        async with daemon() as client:

            async def reference() -> float:
                start = time.perf_counter()
                container = await asyncio.to_thread(
                    sdk.containers.run, IMAGE, IDLE, network_mode="none", detach=True, labels={"bench": "reference"}
                )
                seconds = time.perf_counter() - start
                await asyncio.to_thread(container.remove, force=True)
                return seconds

            async def candidate() -> float:
                start = time.perf_counter()
                sandbox = await client.create(pb.DOCKER, IMAGE)
                seconds = time.perf_counter() - start
                await client.destroy(sandbox)
                return seconds

            yield Work(reference, candidate)


@contextlib.asynccontextmanager
async def command() -> AsyncIterator[Work]:
    """`true` from its start to its exit record, over the SDK's exec_run."""
    with engine.running():
        sdk = docker.from_env()
        async with daemon() as client, client.sandbox(pb.DOCKER, IMAGE) as sandbox:
            container = await asyncio.to_thread(
                sdk.containers.run, IMAGE, IDLE, network_mode="none", detach=True, labels={"bench": "reference"}
            )
            try:

                async def reference() -> None:
                    code, _ = await asyncio.to_thread(container.exec_run, ["true"])
                    assert code == 0

                async def candidate() -> None:
                    await client.run(sandbox, "true")

                yield Work(reference, candidate)
            finally:
                await asyncio.to_thread(container.remove, force=True)
