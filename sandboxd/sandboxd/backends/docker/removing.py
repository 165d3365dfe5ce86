"""Removing containers, for certain."""

from __future__ import annotations

import asyncio
import time

import docker.errors

from sandboxd.backends.base import BackendError
from sandboxd.backends.docker.client import EngineClient, Lane, reason_of, status_of

REMOVE_SECONDS = 60.0


async def remove_container(client: EngineClient, container: str) -> None:
    """Remove a container and its volumes; return when the engine has none of that name. Raises BackendError.

    The engine removes it as well, when its input ends: then both are at it at once, and the loser waits.
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
            if status_of(error) not in (409, 500):
                raise BackendError("BACKEND_DOWN", f"a container could not be removed: {reason_of(error)}") from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)
