"""Helpers and relays: programs of ours in containers that share a sandbox's network namespace and nothing else.

Such a container has no capability, no file that it could write and no way to gain anything. It runs in the sandbox's
own image when that has Python, else in the image that the operator named; never in one that was not chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import docker.errors

from sandboxd.backends.base import BackendError
from sandboxd.backends.docker import spec
from sandboxd.backends.docker.client import EngineClient, Hijacked, reason_of
from sandboxd.backends.docker.frames import STDOUT, Demultiplexer
from sandboxd.backends.docker.images import Images
from sandboxd.backends.docker.making import Made
from sandboxd.backends.docker.pump import Pump
from sandboxd.backends.docker.removing import remove_container
from sandboxd.egress.plant.planter import PlantError

START_SECONDS = 60.0
COMPLAINT_BYTES = 4096
MEMORY_BYTES = 256 << 20
PIDS = 32
NOFILE = 4096


class DockerCompanion:
    """A running companion."""

    def __init__(self, client: EngineClient, name: str, attached: Hijacked, pump: Pump, unremoved: set[str]) -> None:
        self._client = client
        self._name = name
        self._attached = attached
        self._pump = pump
        self._unremoved = unremoved
        self._loop = asyncio.get_running_loop()
        self._frames = Demultiplexer()
        self._printed: asyncio.Queue[bytes] = asyncio.Queue()
        self._said = bytearray()
        self._sender = ThreadPoolExecutor(1, "docker-companion")
        pump.add(attached, self._received, lambda: self._tell(b""))

    def _received(self, data: bytes) -> None:
        for stream, payload in self._frames.feed(data):
            if stream == STDOUT:
                self._tell(bytes(payload))
            elif len(self._said) < COMPLAINT_BYTES:
                self._said += payload

    def _tell(self, data: bytes) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._printed.put_nowait, data)

    async def send(self, data: bytes) -> None:
        """Give it input."""
        await self._loop.run_in_executor(self._sender, self._attached.send, data)

    async def receive(self) -> bytes:
        """What it printed."""
        data = await self._printed.get()
        if not data:
            self._printed.put_nowait(data)
        return data

    def complaint(self) -> str:
        """The last line that it printed on stderr."""
        lines = self._said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    async def close(self) -> None:
        """Remove it."""
        self._sender.shutdown(wait=False, cancel_futures=True)
        self._unremoved.add(self._name)
        await remove_container(self._client, self._name)
        self._unremoved.discard(self._name)
        self._pump.drop(self._attached)


class DockerCompanions:
    """Starts the companions of one sandbox."""

    def __init__(
        self,
        client: EngineClient,
        images: Images,
        owner: spec.Owner,
        made: Made,
        profile: str,
        helper_image: str,
        unremoved: set[str],
    ) -> None:
        """`unremoved` keeps the names of containers that could not be removed yet."""
        self._client = client
        self._images = images
        self._owner = owner
        self._made = made
        self._profile = profile
        self._helper_image = helper_image
        self._unremoved = unremoved

    async def start(self, program: str, mounts: dict[str, Path]) -> DockerCompanion:
        """Run a Python program beside the sandbox. Raises PlantError and BackendError."""
        python = self._made.facts.values.get("python", "")
        image, env = self._made.request.image, self._made.image.env
        if not python:
            if not self._helper_image:
                raise BackendError(
                    "ISOLATION_UNAVAILABLE",
                    f"planting needs Python in a container, and the image {image} has none",
                    why=f"the image {image} has no python3",
                    remedy="name an image that has Python 3.10 or newer in the daemon's helper_image",
                )
            image, python = self._helper_image, "python3"
            env = (await self._images.get(image)).env
        name = f"{spec.container_name(self._owner, self._made.request.sandbox_id)}-plant"
        config = self._config(image, [python, "-I", "-S", "-B", "-c", program], spec.init_environment({}, env), mounts)

        def work(api: docker.APIClient) -> Hijacked:
            container = api.create_container_from_config(config, name)["Id"]
            attached = Hijacked(
                api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            )
            try:
                api.start(container)
            except BaseException:
                attached.close()
                raise
            return attached

        try:
            attached = await self._client.call(work, deadline=START_SECONDS)
        except docker.errors.APIError as error:
            await remove_container(self._client, name)
            raise PlantError(f"its container did not start: {reason_of(error)}") from error
        return DockerCompanion(self._client, name, attached, self._made.pump, self._unremoved)

    def _config(self, image: str, command: list[str], env: list[str], mounts: dict[str, Path]) -> dict[str, Any]:
        return {
            "Image": image,
            "User": "0:0",
            "Entrypoint": command,
            "Cmd": [],
            "Env": env,
            "WorkingDir": "/",
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": {**spec.owner_labels(self._owner), spec.SANDBOX_LABEL: self._made.request.sandbox_id},
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "HostConfig": {
                "AutoRemove": True,
                "RestartPolicy": {"Name": "no"},
                "LogConfig": {"Type": "none"},
                "NetworkMode": f"container:{self._made.id}",
                "IpcMode": "private",
                "CgroupnsMode": "private",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges", f"seccomp={self._profile}"],
                "MaskedPaths": list(spec.MASKED_PATHS),
                "ReadonlyPaths": list(spec.READONLY_PATHS),
                "Memory": MEMORY_BYTES,
                "MemorySwap": MEMORY_BYTES,
                "PidsLimit": PIDS,
                "Ulimits": [
                    {"Name": "nofile", "Soft": NOFILE, "Hard": NOFILE},
                    {"Name": "core", "Soft": 0, "Hard": 0},
                ],
                "Mounts": [spec.bind(source, target) for target, source in mounts.items()],
            },
        }
