"""Removes what daemons that were killed left on the engine; never what belongs to one that lives.

A container says by its labels whose it is. Only those of this machine and this state directory are looked at, and an
instance is dead when its lock in that directory can be had, or is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import docker
import docker.errors

from sandboxd.backends.base import BackendError
from sandboxd.backends.docker import spec
from sandboxd.backends.docker.client import EngineClient, Lane, reason_of
from sandboxd.backends.docker.removing import remove_container

DIRECTORY = "docker"


def instance_directory(state: Path, instance: str) -> Path:
    """Where an instance keeps what its docker sandboxes need on the host."""
    return state / "instances" / instance / DIRECTORY


async def reap(client: EngineClient, state: Path, owner: spec.Owner) -> Sequence[str]:
    """Remove what dead instances left; the ids of their sandboxes."""
    labels = [f"{spec.NODE_LABEL}={owner.node}", f"{spec.STATE_LABEL}={owner.state}"]

    def work(api: docker.APIClient) -> list[dict[str, Any]]:
        return list(api.containers(all=True, filters={"label": labels}))

    try:
        found = await client.call(work, lane=Lane.REMOVE)
    except docker.errors.APIError as error:
        raise BackendError("BACKEND_DOWN", reason_of(error)) from error
    removed = []
    for instance in sorted({container["Labels"][spec.INSTANCE_LABEL] for container in found} - {owner.instance}):
        with _dead(state, instance) as dead:
            if not dead:
                continue
            for container in found:
                if container["Labels"][spec.INSTANCE_LABEL] == instance:
                    await remove_container(client, container["Id"])
                    removed.append(container["Labels"].get(spec.SANDBOX_LABEL, ""))
            shutil.rmtree(instance_directory(state, instance), ignore_errors=True)
    return sorted({name for name in removed if name})


@contextlib.contextmanager
def _dead(state: Path, instance: str) -> Iterator[bool]:
    try:
        with (state / "instances" / instance / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
    except FileNotFoundError:
        yield True
    except BlockingIOError:
        yield False
