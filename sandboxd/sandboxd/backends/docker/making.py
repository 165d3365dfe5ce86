"""Making a container, from its configuration to the moment when it is ready for commands; or nothing of it stays.

The name is known before the engine is asked, so that a container whose creation was cut short in any step is found and
removed. The engine is asked for everything in one go, for each round trip to it counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
import tarfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors

from sandboxd.backends.base import BackendError, SandboxRequest
from sandboxd.backends.docker import spec
from sandboxd.backends.docker.client import EngineClient, Hijacked, reason_of
from sandboxd.backends.docker.frames import Demultiplexer
from sandboxd.backends.docker.images import Image
from sandboxd.backends.docker.pump import Pump
from sandboxd.backends.docker.removing import emptier, remove_container
from sandboxd.environment import WORKSPACE

CREATE_SECONDS = 60.0
READY_SECONDS = 20.0
FACT_BYTES = 4096


@dataclass
class Facts:
    """What PID 1 says about its container, a `name=value` a line."""

    values: dict[str, str] = field(default_factory=dict)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    tested: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Made:
    """A container that is ready for commands. `shared` and `upper` only where its host is this one."""

    request: SandboxRequest
    image: Image
    id: str
    pid: int
    pump: Pump
    facts: Facts
    attached: Hijacked
    shared: Path | None
    upper: Path | None
    timings: dict[str, float]


class NotHereError(BackendError):
    """The engine does not see this host's files: it runs elsewhere."""


class _RlimitError(BackendError):
    """The engine may not set a resource limit."""


class Maker:
    """Makes the containers of one daemon instance."""

    def __init__(self, client: EngineClient, owner: spec.Owner, home: Path) -> None:
        self._client = client
        self._owner = owner
        self._home = home
        self._undoing: set[asyncio.Task[None]] = set()
        self._sets_nofile = True
        self._names: set[str] = set()
        self.unremoved: set[str] = set()

    async def make(self, request: SandboxRequest, image: Image, profile: str, *, local: bool) -> Made:
        """Create and start; `local` says that the engine sees this host's files. Raises BackendError."""
        try:
            return await self._make(request, image, profile, local=local)
        except _RlimitError:
            # An engine without CAP_SYS_RESOURCE can't go above its own limit, which is then the lower one.
            self._sets_nofile = False
            return await self._make(request, image, profile, local=local)

    async def _make(self, request: SandboxRequest, image: Image, profile: str, *, local: bool) -> Made:
        name = spec.container_name(self._owner, request.sandbox_id)
        shared = self._home / request.sandbox_id if local else None
        if name in self._names:
            raise BackendError("ID_REUSED", f"there is a sandbox {request.sandbox_id} already")
        self._names.add(name)
        if shared is not None:
            _share(shared, request.ca_bundle)
        config = spec.container(
            request, self._owner, image_env=image.env, seccomp=profile, shared=shared, nofile=self._sets_nofile
        )
        copied = request.ca_bundle if not local else None
        making = asyncio.ensure_future(
            self._client.call(lambda api: _create(api, name, config, copied), deadline=CREATE_SECONDS)
        )
        pump: Pump | None = None
        try:
            began = time.monotonic()
            inspected, attached = await asyncio.shield(making)
            created = time.monotonic()
            pump = Pump(request.sandbox_id)
            facts = listen(pump, attached)
            await _until_ready(facts, request.image)
        except BaseException as error:
            await self._undo(making, name, shared, pump)
            if isinstance(error, docker.errors.APIError):
                raise _refusal(error, request.image) from error
            raise
        timings = {"create": created - began, "ready": time.monotonic() - created}
        upper = (inspected["GraphDriver"].get("Data") or {}).get("UpperDir") if local else None
        return Made(
            request,
            image,
            inspected["Id"],
            inspected["State"]["Pid"],
            pump,
            facts,
            attached,
            shared,
            Path(upper) if upper and _readable(Path(upper)) else None,
            timings,
        )

    async def _undo(self, making: asyncio.Future[Any], name: str, shared: Path | None, pump: Pump | None) -> None:
        task = asyncio.create_task(self._undo_all(making, name, shared, pump))
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)
        await asyncio.shield(task)

    async def _undo_all(self, making: asyncio.Future[Any], name: str, shared: Path | None, pump: Pump | None) -> None:
        # A creation in flight ends first: removing what is not there yet would miss it.
        await asyncio.wait([making], timeout=CREATE_SECONDS)
        if pump is not None:
            pump.close()
        elif making.done() and not making.cancelled() and making.exception() is None:
            making.result()[1].close()
        with contextlib.suppress(BackendError):  # kept in mind, and tried again by reap
            await self._discard(name, shared)

    async def remove(self, made: Made) -> None:
        """Remove a container and what it has on this host. Raises BackendError, and keeps it in mind then."""

        name = spec.container_name(self._owner, made.request.sandbox_id)
        await self._discard(name, made.shared, emptier(made.id, made.pid, made.upper))

    async def discard(self, made: Made) -> None:
        """Remove a container that is not to be used after all. Raises BackendError."""
        made.pump.close()
        await self.remove(made)

    async def _discard(
        self, name: str, shared: Path | None, empty: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.unremoved.add(name)
        await remove_container(self._client, name, empty)
        self.unremoved.discard(name)
        self._names.discard(name)
        if shared is not None:
            await asyncio.to_thread(shutil.rmtree, shared, ignore_errors=True)

    async def close(self) -> None:
        """Wait for what is being undone."""
        if self._undoing:
            await asyncio.wait(self._undoing, timeout=CREATE_SECONDS)


def _share(shared: Path, ca_bundle: str | None) -> None:
    shared.mkdir(parents=True)
    shared.chmod(0o711)  # the container's root may be another user of this host
    if ca_bundle is not None:
        (shared / spec.BUNDLE).write_bytes(Path(ca_bundle).read_bytes())
        (shared / spec.BUNDLE).chmod(0o444)


def _create(
    api: docker.APIClient, name: str, config: dict[str, Any], ca_bundle: str | None
) -> tuple[dict[str, Any], Hijacked]:
    container = api.create_container_from_config(config, name)["Id"]
    if ca_bundle is not None:
        api.put_archive(container, "/", _as_archive(Path(ca_bundle)))
    # Before the start, so that nothing that PID 1 says is missed and its input never ends by mistake.
    attached = Hijacked(api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stream": 1}))
    try:
        api.start(container)
        return api.inspect_container(container), attached
    except BaseException:
        attached.close()
        raise


def _as_archive(bundle: Path) -> bytes:
    data = bundle.read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(spec.BUNDLE_STAGE.lstrip("/"))
        entry.size = len(data)
        entry.mode = 0o444
        tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def listen(pump: Pump, attached: Hijacked) -> Facts:
    """Read what PID 1 says, and notice its end."""
    facts = Facts()
    loop = asyncio.get_running_loop()
    frames = Demultiplexer()
    said = bytearray()

    def tell(work: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(work, *arguments)

    def learn(line: str) -> None:
        name, _, value = line.partition("=")
        facts.values.setdefault(name, value)
        if name == "ready":
            facts.ready.set()
        elif name == "vsock":
            facts.tested.set()

    def received(data: bytes) -> None:
        for _, payload in frames.feed(data):
            if len(said) < FACT_BYTES:  # later writes are no facts: commands can reach PID 1's output
                said.extend(payload)
        *lines, rest = bytes(said).split(b"\n")
        said[:] = rest
        for line in lines:
            tell(learn, line.decode(errors="replace"))

    pump.add(attached, received, lambda: tell(facts.over.set))
    return facts


async def _until_ready(facts: Facts, image: str) -> None:
    ready = asyncio.ensure_future(facts.ready.wait())
    over = asyncio.ensure_future(facts.over.wait())
    try:
        await asyncio.wait([ready, over], timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ready.cancel()
        over.cancel()
    if not facts.ready.is_set():
        raise _unusable(image, "its shell ended, or did not answer, before the sandbox was ready")
    if "workspace" in facts.values:
        raise _unusable(image, f"it has files in {WORKSPACE}, where a task starts with none")


def _refusal(error: docker.errors.APIError, image: str) -> BackendError:
    said = reason_of(error)
    if "/bin/sh" in said:
        return _unusable(image, f"it has no /bin/sh that could run ({said})")
    if "setting rlimit" in said:
        return _RlimitError("ISOLATION_UNAVAILABLE", f"the engine could not make the container: {said}", why=said)
    if "bind source path does not exist" in said:
        return NotHereError("ISOLATION_UNAVAILABLE", said, why=said)
    if "no space left" in said:
        return BackendError("DISK_LOW", f"the engine could not make a container: {said}")
    return BackendError("ISOLATION_UNAVAILABLE", f"the engine could not make the container: {said}", why=said)


def _unusable(image: str, why: str) -> BackendError:
    message = f"the image {image} can't be a sandbox: {why}"
    return BackendError("SPEC_INVALID", message, field="image", found=image, allowed="an image with a POSIX shell")


def _readable(directory: Path) -> bool:
    try:
        return next(directory.iterdir(), directory) is not None
    except OSError:
        return False
