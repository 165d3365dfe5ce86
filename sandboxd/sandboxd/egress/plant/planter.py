"""What all ways to plant have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sandboxd.backends.base import Planted
from sandboxd.inside.sockets import PlantedHere


class PlantError(Exception):
    """The listening sockets could not be made; the text says why, for people."""


def planted(here: PlantedHere) -> Planted:
    """What was made in a namespace, as the gateway takes it."""
    return Planted(here.proxy, here.dns_udp, here.dns_tcp, here.transparent, here.redirected, here.pool)


class Place(Protocol):
    """A sandbox's network namespace with its listening sockets in it."""

    planted: Planted

    async def findings(self) -> list[str]:
        """What is open or missing in the namespace, a sentence each. The gateway serves by now."""

    async def close(self) -> None:
        """Release what served the planting itself, not the sockets. Idempotent."""


class Planter(Protocol):
    """A way to make listening sockets in a container's network namespace."""

    async def plant(self, container: str, pid: int, confirm: Callable[[], bool]) -> Place:
        """`pid` is the container's first process on its host; `confirm` says whether it still is.

        Raises PlantError.
        """


class Companion(Protocol):
    """A program of ours in a container of its own, in the sandbox's network namespace."""

    async def send(self, data: bytes) -> None:
        """Give it input; returns when the engine has taken it. Raises OSError when the program is gone."""

    async def receive(self) -> bytes:
        """What it printed; empty when it has ended."""

    def complaint(self) -> str:
        """What it printed on stderr, for people."""

    async def close(self) -> None:
        """End it and remove its container. Idempotent."""


class Companions(Protocol):
    """Starts companions of one sandbox; the engine's side of planting without entering a namespace."""

    async def start(self, program: str, mounts: dict[str, Path]) -> Companion:
        """Run `program`, the text of a Python program. `mounts` are directories of this host, target to source.

        Raises PlantError.
        """
