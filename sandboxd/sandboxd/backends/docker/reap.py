"""Removes what daemons that were killed left on the engine; never what belongs to one that lives.

A container says by its labels whose it is. Only those of this machine and this state directory are looked at, and an
instance is dead when its lock in that directory can be had, or is gone (`sandboxd.instances`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker
import docker.errors

from sandboxd.backends.base import BackendError
from sandboxd.backends.docker import spec
from sandboxd.backends.docker.client import EngineClient, Lane, reason_of
from sandboxd.backends.docker.removing import emptier, remove_container
from sandboxd.instances import Instance

DIRECTORY = "docker"


async def reap(client: EngineClient, instance: Instance, owner: spec.Owner) -> Sequence[str]:
    """Remove what dead instances left; the ids of their sandboxes."""
    labels = [f"{spec.NODE_LABEL}={owner.node}", f"{spec.STATE_LABEL}={owner.state}"]

    def work(api: docker.APIClient) -> list[dict[str, Any]]:
        return list(api.containers(all=True, filters={"label": labels}))

    try:
        found = await client.call(work, lane=Lane.REMOVE)
    except docker.errors.APIError as error:
        raise BackendError("BACKEND_DOWN", reason_of(error)) from error
    removed = []
    for other in sorted({container["Labels"][spec.INSTANCE_LABEL] for container in found}):
        if instance.is_alive(other):
            continue
        for container in found:
            if container["Labels"][spec.INSTANCE_LABEL] == other:
                await _remove(client, container["Id"])
                removed.append(container["Labels"].get(spec.SANDBOX_LABEL, ""))
        shutil.rmtree(instance.state / "instances" / other / DIRECTORY, ignore_errors=True)
    return sorted({name for name in removed if name})


async def _remove(client: EngineClient, container: str) -> None:
    try:
        found = await client.call(lambda api: api.inspect_container(container), lane=Lane.REMOVE)
    except docker.errors.APIError:
        found = {}  # it is just being removed
    upper = ((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    pid = (found.get("State") or {}).get("Pid") or 0
    await remove_container(client, container, emptier(container, pid, Path(upper) if upper else None))
