"""The docker backend: makes containers and finds out what this daemon can do about them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker.errors

from sandboxd.backends.base import Availability, BackendError, BackendKind, SandboxRequest
from sandboxd.backends.docker import seccomp, spec
from sandboxd.backends.docker.cgroup import CommandGroups, container_groups
from sandboxd.backends.docker.client import EngineClient, reason_of
from sandboxd.backends.docker.companion import DockerCompanions
from sandboxd.backends.docker.images import Image, Images
from sandboxd.backends.docker.making import Made, Maker, NotHereError
from sandboxd.backends.docker.reap import DIRECTORY, reap
from sandboxd.backends.docker.removing import remove_container
from sandboxd.backends.docker.sandbox import DockerSandbox, Reach
from sandboxd.egress.plant.direct import DirectPlanter, may_enter
from sandboxd.egress.plant.helper import HelperPlanter
from sandboxd.egress.plant.planter import Planter
from sandboxd.egress.plant.relay import RelayPlanter
from sandboxd.instances import Instance

PROBE_SECONDS = 8.0
CREATES = 4
# The first API with private control-group namespaces and errno in seccomp rules: Docker 20.10.
MIN_API = (1, 41)
ENGINE_REMEDY = "use Docker 20.10 or newer on Linux, with seccomp and the memory, cpu and pids control groups"


class DockerBackend:
    """Sandboxes as containers of one engine.

    `host` is the engine's address as in DOCKER_HOST, None for the environment's. `plant` is "auto" or the name of a
    way to plant (`Reach`): it is forced, and refused where it can't be had. `helper_image` is an image with Python for
    helpers and relays, where a sandbox's own image has none. What this backend keeps on disk is in the instance's
    directory.
    """

    kind = BackendKind.DOCKER
    enforced = True
    uses_image = True

    def __init__(
        self,
        *,
        node_id: str,
        instance_id: str,
        state: Path,
        host: str | None = None,
        plant: str = "auto",
        helper_image: str = "",
        pull_seconds: float = 900.0,
    ) -> None:
        self._instance = Instance(node_id, instance_id, state.resolve())
        place = hashlib.sha256(bytes(self._instance.state)).hexdigest()[:16]
        self._owner = spec.Owner(node_id, instance_id, place)
        self._home = self._instance.directory / DIRECTORY
        self._client = EngineClient(host)
        self._images = Images(self._client, pull_seconds)
        self._forced = None if plant == "auto" else Reach(plant)
        self._reach = self._forced
        self._helper_image = helper_image
        self._info: dict[str, Any] = {}
        self._creating = asyncio.Semaphore(CREATES)
        self._maker = Maker(self._client, self._owner, self._home)

    async def probe(self) -> Availability:
        """Whether the engine answers and can enforce what a sandbox promises."""
        try:
            info = await self._client.call(lambda api: api.info(), deadline=PROBE_SECONDS)
            api = await self._client.call(lambda api: str(api.api_version), deadline=PROBE_SECONDS)
        except BackendError as error:
            remedy = "start docker, or name its socket in DOCKER_HOST; its user must be in the group of the socket"
            return Availability(False, error.message, remedy)
        except docker.errors.APIError as error:
            return Availability(False, f"the docker engine refused to be asked: {reason_of(error)}")
        self._info = info
        missing = _missing(info, api)
        version = str(info.get("ServerVersion", ""))
        if missing:
            return Availability(False, f"the docker engine has {'; and '.join(missing)}", ENGINE_REMEDY, version)
        return Availability(True, version=version)

    async def create(self, request: SandboxRequest) -> DockerSandbox:
        """Make a container that runs nothing yet."""
        if not self._info:
            available = await self.probe()
            if not available.available:
                raise BackendError("BACKEND_UNSUPPORTED", available.why, why=available.why, remedy=available.remedy)
        image = await self._images.get(request.image)
        request = self._possible(request)
        async with self._creating:
            made = await self._make(request, image)
            reach = self._reach = self._reach or _detect(made)
        made.timings["pull"] = image.seconds
        return DockerSandbox(self._client, made, reach, self._planter(made, reach), self._maker.remove)

    def _possible(self, request: SandboxRequest) -> SandboxRequest:
        """The request with no more processors than the engine has, which refuses to be asked for more."""
        cpus = min(request.limits.cpus, float(self._info.get("NCPU") or request.limits.cpus))
        return replace(request, limits=replace(request.limits, cpus=cpus))

    async def _make(self, request: SandboxRequest, image: Image) -> Made:
        profile = self._profile()
        if self._reach is Reach.REMOTE or not self._may_be_here():
            self._require(Reach.REMOTE)
            return await self._maker.make(request, image, profile, local=False)
        try:
            made = await self._maker.make(request, image, profile, local=True)
        except NotHereError:
            self._require(Reach.REMOTE)
            return await self._maker.make(request, image, profile, local=False)
        found = _detect(made)
        allowed = {Reach.HOST: (Reach.HOST, Reach.USER), Reach.USER: (Reach.USER,), Reach.REMOTE: ()}[found]
        if self._forced is not None and self._forced not in allowed:
            await self._maker.discard(made)
            self._require(found)
        if found is Reach.REMOTE:
            await self._maker.discard(made)
            return await self._maker.make(request, image, profile, local=False)
        return made

    def _require(self, found: Reach) -> None:
        """Refuse when a stronger way to plant was asked for than the one that can be had."""
        if self._forced not in (None, found):
            raise BackendError(
                "ISOLATION_UNAVAILABLE",
                f"planting is set to {self._forced}, but with the engine at {self._client.host} this daemon can only "
                f"use {found}",
                why=f"{self._forced} is not possible with this engine",
                remedy=f"set it to auto or {found}, or run sandboxd as root on the engine's own host",
            )
        self._reach = found

    def _may_be_here(self) -> bool:
        """Whether the engine seems to run on this host; its first container shows it for certain."""
        return (
            sys.platform == "linux"
            and self._client.host.startswith(("unix://", "/"))
            and self._info.get("KernelVersion") == platform.release()
            and self._info.get("OperatingSystem") != "Docker Desktop"
        )

    def _planter(self, made: Made, reach: Reach) -> Planter:
        if reach is Reach.HOST:
            return DirectPlanter()
        companions = DockerCompanions(
            self._client, self._images, self._owner, made, self._profile(), self._helper_image, self._maker.unremoved
        )
        return HelperPlanter(companions, self._home) if reach is Reach.USER else RelayPlanter(companions)

    def _profile(self) -> str:
        return seccomp.profile(self._info["Architecture"])

    async def reap(self) -> Sequence[str]:
        """Remove what dead instances left, and what of ours could not be removed before."""
        for name in list(self._maker.unremoved):
            await remove_container(self._client, name)
            self._maker.unremoved.discard(name)
        return await reap(self._client, self._instance, self._owner)

    async def close(self) -> None:
        """Finish removing what was given up, and let the engine go."""
        await self._maker.close()
        await self._client.close()
        with contextlib.suppress(OSError):
            self._home.rmdir()


def _missing(info: dict[str, Any], api: str) -> list[str]:
    """What an engine lacks for the promises of a sandbox."""
    missing = []
    if info.get("OSType") != "linux":
        missing.append(f"containers of {info.get('OSType')}, not Linux")
    if tuple(int(part) for part in api.split(".")) < MIN_API:
        missing.append(f"API version {api}, older than {MIN_API[0]}.{MIN_API[1]}")
    if info.get("Architecture") not in seccomp.ARCHITECTURES:
        missing.append(f"the architecture {info.get('Architecture')}, for which there is no seccomp profile")
    if not any(str(option).startswith("name=seccomp") for option in info.get("SecurityOptions") or []):
        missing.append("no seccomp")
    for name, what in (("MemoryLimit", "memory"), ("CpuCfsQuota", "processor time"), ("PidsLimit", "processes")):
        if not info.get(name):
            missing.append(f"no limit of {what}")
    return missing


def _detect(made: Made) -> Reach:
    """What this daemon can do about a container that it made."""
    groups = container_groups(made.pid, made.id)
    if not groups or made.shared is None:
        return Reach.REMOTE
    if may_enter(made.pid) and CommandGroups.of(groups, made.pid) is not None:
        return Reach.HOST
    return Reach.USER
