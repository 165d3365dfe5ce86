"""Removing containers, for certain."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import docker.errors

from sandboxd.backends.base import BackendError
from sandboxd.backends.docker.cgroup import container_groups
from sandboxd.backends.docker.client import EngineClient, Lane, reason_of, status_of
from sandboxd.backends.process import tree

REMOVE_SECONDS = 60.0


async def remove_container(
    client: EngineClient, container: str, empty: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Remove a container and its volumes; return when the engine has none of that name. Raises BackendError.

    The engine removes it as well, when its input ends: then both are at it at once, and the loser waits. `empty` is
    called once when the engine fails: it removes the container's files where the engine can't.
    """
    deadline = time.monotonic() + REMOVE_SECONDS
    pause = 0.02
    while True:
        try:
            await client.call(lambda api: api.remove_container(container, v=True, force=True), lane=Lane.REMOVE)
            return
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if time.monotonic() > deadline:
                raise BackendError("BACKEND_DOWN", f"a container could not be removed: {reason_of(error)}") from error
            if status_of(error) == 500 and empty is not None:
                await empty()
                empty = None
            if status_of(error) not in (409, 500):
                raise BackendError("BACKEND_DOWN", f"a container could not be removed: {reason_of(error)}") from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


def emptier(container_id: str, pid: int, upper: Path | None) -> Callable[[], Awaitable[None]]:
    """What removes the files of a container that has ended, where its writable layer `upper` is on this host.

    An engine gives up at a tree that is deeper than it has descriptors for.
    """

    async def empty() -> None:
        if upper is not None and not container_groups(pid, container_id):
            await asyncio.to_thread(_empty, upper)

    return empty


def _empty(upper: Path) -> None:
    with contextlib.suppress(OSError):  # the engine is at it too, and says what is left
        for entry in list(upper.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                tree.remove(str(entry))
