"""All sandboxes of this daemon: admission, leases, adoption, and their end.

Admission is decided here and at once; there is no queue. A sweep a second compares deadlines with a monotonic clock.
What has ended is kept for a while with its logs and events, so that a controller that was cut off finds out.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd import environment, journal, lease, resources
from sandboxd.backends.base import Backend, BackendError, BackendKind, Limits, SandboxRequest
from sandboxd.backends.registry import Backends
from sandboxd.commands import seconds
from sandboxd.instances import Instance
from sandboxd.refused import RefusedError, invalid
from sandboxd.sandbox import Identity, MakeWay, Sandbox
from sandboxd.wire import FROM_KINDS, KINDS

if TYPE_CHECKING:
    from sandboxd.egress.authority import Authority

SWEEP_SECONDS = 1.0
RETENTION_SECONDS = 600.0
MAX_ENDED = 2_000
MAX_TOMBSTONES = 10_000
REAP_SECONDS = 60.0
# How many are made at once: starting is bound by processors, and a burst of starts should not starve what runs.
CREATES = max(4, 2 * (os.cpu_count() or 1))

# Bounds of what a spec may ask for. Of memory it is what the host has: what can never be met fails at once.
MAX_CPUS = 4096
MIN_MEMORY = 16 << 20
MIN_PIDS, MAX_PIDS = 8, 1 << 22
MIN_DISK, MAX_DISK = 1 << 20, 1 << 50

# The states in which a journal leaves what its daemon took with it.
_LIVING = ("CREATING", "READY")

FEATURES = ("exec-log", "events", "archives", "adopt")

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """What an operator decides. Bytes, seconds, and a host path for the bundle."""

    slots: int = 256
    defaults: Limits = field(default_factory=Limits)
    ca_bundle: str | None = None
    min_disk_free: int = 1 << 30
    # Each sandbox has a certificate authority of its own, whose holder looks into its TLS.
    inspect: bool = False


class Registry:
    """The sandboxes. `make_way` makes the gateway of one."""

    def __init__(
        self,
        instance: Instance,
        backends: Backends,
        make_way: MakeWay,
        config: RegistryConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance = instance
        self.backends = backends
        self.config = config
        self.draining = False
        self._make_way = make_way
        self._clock = clock
        self._journal = journal.Journal(instance.directory)
        self._sandboxes: dict[str, Sandbox] = {}
        self._lost: dict[str, journal.Entry] = {}
        self._lost_until = 0.0
        self._tombstones: dict[tuple[str, str], float] = {}
        self._creating = asyncio.Semaphore(CREATES)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # --- its own life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take over from dead instances, and begin to sweep."""
        await self._journal.open()
        for dead in self.instance.dead():
            for entry in await asyncio.to_thread(journal.read, self.instance.state / "instances" / dead):
                if entry.state in _LIVING:
                    self._lost[entry.sandbox_id] = entry
        self._lost_until = self._clock() + RETENTION_SECONDS
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sweep"),
            asyncio.create_task(self._reap(), name="reap"),
        ]

    async def end_all(self) -> None:
        """End every sandbox, and take no more."""
        self.drain()
        await asyncio.gather(*(sandbox.end(pb.DESTROYED) for sandbox in self._sandboxes.values()))

    async def close(self) -> None:
        """End everything and give everything back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.end_all()
        for sandbox in self._sandboxes.values():
            sandbox.forget()
        await self.backends.close()
        await self._journal.close()

    async def _reap(self) -> None:
        """Remove what dead instances left: at the start, and now and then for daemons that die beside this one."""
        while True:
            dead = self.instance.dead()
            reaped = {backend.kind.value for backend in self.backends.all() if await self._reap_backend(backend)}
            for name in dead:
                entries = await asyncio.to_thread(journal.read, self.instance.state / "instances" / name)
                # Its directory is what later starts find it by: kept until all that it can have left is gone.
                if {entry.backend for entry in entries} <= reaped:
                    await asyncio.to_thread(self.instance.forget, name)
            await asyncio.sleep(REAP_SECONDS)

    async def _reap_backend(self, backend: Backend) -> bool:
        """Whether nothing of dead instances is left on a backend."""
        try:
            removed = await backend.reap()
        except BackendError as error:
            level = logging.DEBUG if error.reason == "BACKEND_DOWN" else logging.WARNING
            _log.log(level, "reap_failed", backend=backend.kind.value, error=error.message)
            return False
        if removed:
            _log.info("reaped", backend=backend.kind.value, sandboxes=list(removed))
        return True

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """End what is over, and forget what ended long ago."""
        now = self._clock()
        for sandbox in list(self._sandboxes.values()):
            why = sandbox.lease.over(now)
            if why and not sandbox.ending:
                failure = pb.Failure(reason=pb.LEASE_EXPIRED, message=f"the lease is over: {why}")
                self._own(sandbox.end(pb.EXPIRED, failure))
        ended = sorted(
            (sandbox for sandbox in self._sandboxes.values() if sandbox.ended_at is not None),
            key=lambda sandbox: sandbox.ended_at or 0.0,
        )
        spare = len(ended) - MAX_ENDED
        for index, sandbox in enumerate(ended):
            if index < spare or (sandbox.ended_at or 0.0) + RETENTION_SECONDS <= now:
                self._forget(sandbox)
        if now >= self._lost_until:
            self._lost.clear()
        self._tombstones = {key: until for key, until in self._tombstones.items() if until > now}

    def _forget(self, sandbox: Sandbox) -> None:
        del self._sandboxes[sandbox.identity.sandbox_id]
        sandbox.forget()
        self._own(self._drop_entry(sandbox.identity.sandbox_id))

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        """Keep a task of the registry's alive until it is done."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    # --- creating -------------------------------------------------------------------------------------------------

    async def create(self, asked: pb.CreateRequest, caller: str) -> Sandbox:
        """Admit a sandbox and begin to make it. Raises RefusedError."""
        spec_hash = hashlib.sha256(asked.spec.SerializeToString(deterministic=True)).digest()
        known = self._sandboxes.get(asked.sandbox_id)
        if known is None:
            self._check_new(asked, caller)
            held = self._lease(asked)
            limits = self._limits(asked.spec.resources)
            kind = FROM_KINDS.get(asked.spec.backend)
            backend = await self.backends.choose(kind, allow_unenforced=asked.spec.allow_unenforced)
            # From here to its entry nothing is awaited: two calls can't take one slot, or one id.
            known = self._sandboxes.get(asked.sandbox_id)
        if known is not None:
            return self._same(known, asked, spec_hash, caller)
        self._check_new(asked, caller)
        sandbox = self._sandbox(asked, caller, spec_hash, held, backend, limits)
        self._sandboxes[asked.sandbox_id] = sandbox
        try:
            await self._journal.put(self._entry(sandbox))
        except BaseException as error:
            del self._sandboxes[asked.sandbox_id]
            if isinstance(error, journal.JournalError):
                raise RefusedError("DISK_LOW", f"the journal can't be written: {error}", retry_after=10.0) from error
            raise
        sandbox.begin(self._creating)
        self._notify()
        return sandbox

    def _same(self, known: Sandbox, asked: pb.CreateRequest, spec_hash: bytes, caller: str) -> Sandbox:
        if known.identity.caller != caller or known.identity.spec_hash != spec_hash:
            raise RefusedError(
                "ID_REUSED", f"sandbox {asked.sandbox_id!r} exists with another spec", sandbox_id=asked.sandbox_id
            )
        known.lease.check_owner(asked.owner_token)
        return known

    def _check_new(self, asked: pb.CreateRequest, caller: str) -> None:
        if (caller, asked.sandbox_id) in self._tombstones:
            raise RefusedError("TOMBSTONED", f"sandbox {asked.sandbox_id!r} was destroyed before it was created")
        if asked.sandbox_id in self._lost:
            raise self._lost_refusal(asked.sandbox_id)
        for feature in asked.spec.required_features:
            if feature not in FEATURES:
                raise RefusedError("FEATURE_UNKNOWN", f"this daemon has no feature {feature!r}", feature=feature)
        if self.draining:
            raise RefusedError("DRAINING", "this daemon is draining: it takes no more sandboxes", retry_after=5.0)
        if self.used() >= self.config.slots:
            raise RefusedError("NO_SLOT", f"all {self.config.slots} slots are taken", retry_after=1.0)
        if disk_free(self.instance.directory) < self.config.min_disk_free:
            raise RefusedError("DISK_LOW", "the runner's disk is nearly full", retry_after=10.0)

    def _lease(self, asked: pb.CreateRequest) -> lease.Lease:
        now = self._clock()
        ttl = lease.checked("lease_ttl", seconds(asked.lease_ttl), lease.DEFAULT_TTL, lease.MIN_TTL, lease.MAX_TTL)
        lifetime = lease.checked(
            "hard_lifetime", seconds(asked.hard_lifetime), lease.DEFAULT_LIFETIME, 1.0, lease.MAX_LIFETIME
        )
        return lease.Lease(lease.owner_hash(asked.owner_token), ttl, now + ttl, now + lifetime)

    def _limits(self, asked: pb.Resources) -> Limits:
        defaults = self.config.defaults
        # 0 is the default of each.
        if not 0 <= asked.cpus <= MAX_CPUS:
            raise invalid("spec.resources.cpus", f"{asked.cpus:g}", f"0 to {MAX_CPUS}")
        total, _ = resources.memory()
        _check_resource("memory_bytes", asked.memory_bytes, MIN_MEMORY, total)
        _check_resource("pids", asked.pids, MIN_PIDS, MAX_PIDS)
        _check_resource("disk_bytes", asked.disk_bytes, MIN_DISK, MAX_DISK)
        return Limits(
            cpus=asked.cpus or defaults.cpus,
            memory_bytes=asked.memory_bytes or defaults.memory_bytes,
            pids=asked.pids or defaults.pids,
            disk_bytes=asked.disk_bytes or defaults.disk_bytes,
            nofile=defaults.nofile,
        )

    def _sandbox(
        self,
        asked: pb.CreateRequest,
        caller: str,
        spec_hash: bytes,
        held: lease.Lease,
        backend: Backend,
        limits: Limits,
    ) -> Sandbox:
        honoured = pb.SandboxSpec()
        honoured.CopyFrom(asked.spec)
        honoured.backend = KINDS[backend.kind]
        honoured.resources.CopyFrom(
            pb.Resources(
                cpus=limits.cpus,
                memory_bytes=limits.memory_bytes,
                pids=limits.pids,
                disk_bytes=limits.disk_bytes,
            )
        )
        request = SandboxRequest(
            sandbox_id=asked.sandbox_id,
            image=asked.spec.image,
            limits=limits,
            environment=self._environment(backend),
            ca_bundle=self.config.ca_bundle,
            max_lifetime=held.hard_end - self._clock(),
        )
        identity = Identity(
            asked.sandbox_id,
            asked.run_id,
            caller,
            honoured,
            spec_hash,
            request,
            self.instance.node_id,
            self.instance.instance_id,
            _authority(asked.sandbox_id) if self._inspects(backend) else None,
        )
        directory = self.instance.directory / "sandboxes" / asked.sandbox_id
        return Sandbox(identity, held, backend, self._make_way, directory, self._on_change, self._clock)

    def _environment(self, backend: Backend) -> dict[str, str]:
        path = os.pathsep.join(each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each)
        bundle = self.config.ca_bundle
        if backend.kind in (BackendKind.LOCAL, BackendKind.SEATBELT):
            # The host's own file system: the bundle is where it is, and each has its own way to a proxy, or none.
            return environment.build(path=path, proxy=None, ca_bundle=bundle)
        has_bundle = bundle is not None or self._inspects(backend)
        return environment.build(path=path, ca_bundle=environment.CA_BUNDLE_PATH if has_bundle else None)

    def _inspects(self, backend: Backend) -> bool:
        return self.config.inspect and backend.kind in (BackendKind.DOCKER, BackendKind.BUBBLEWRAP)

    # --- finding and ending ---------------------------------------------------------------------------------------

    def get(self, sandbox_id: str, caller: str) -> Sandbox:
        """A sandbox of the caller's. Another's is unknown to it. Raises RefusedError."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None and sandbox_id in self._lost and self._lost[sandbox_id].caller == caller:
            raise self._lost_refusal(sandbox_id)
        if sandbox is None or sandbox.identity.caller != caller:
            raise RefusedError("SANDBOX_UNKNOWN", f"there is no sandbox {sandbox_id!r}", sandbox_id=sandbox_id)
        return sandbox

    def owned(self, sandbox_id: str, caller: str, token: bytes) -> Sandbox:
        """A sandbox that the caller may change. Raises RefusedError."""
        sandbox = self.get(sandbox_id, caller)
        sandbox.lease.check_owner(token)
        return sandbox

    def all(self, caller: str, run_id: str = "", *, ended: bool = False) -> list[Sandbox]:
        """The caller's sandboxes, of one run or of all."""
        return [
            sandbox
            for sandbox in self._sandboxes.values()
            if sandbox.identity.caller == caller
            and run_id in ("", sandbox.identity.run_id)
            and (ended or not sandbox.over)
        ]

    def renew(self, sandbox: Sandbox, ttl: float) -> None:
        """Renew a lease. Raises RefusedError when the sandbox has ended."""
        if sandbox.over:
            raise sandbox.refusal()
        ttl = lease.checked("lease_ttl", ttl, lease.DEFAULT_TTL, lease.MIN_TTL, lease.MAX_TTL)
        sandbox.lease.renew(self._clock(), ttl)

    async def adopt(self, run_id: str, caller: str, token: bytes, new_token: bytes) -> list[Sandbox]:
        """Give the living sandboxes of a run to another controller. Raises RefusedError when a token is wrong."""
        found = self.all(caller, run_id)
        for sandbox in found:
            sandbox.lease.check_owner(token)
        for sandbox in found:
            sandbox.lease.adopt(new_token, self._clock())
            await self._journal.put(self._entry(sandbox))
        return found

    async def destroy(self, sandbox_id: str, caller: str, token: bytes, *, wait: bool) -> Sandbox | None:
        """End a sandbox. An unknown id leaves a tombstone, and None comes back."""
        if sandbox_id not in self._sandboxes:
            if len(self._tombstones) < MAX_TOMBSTONES:
                self._tombstones[caller, sandbox_id] = self._clock() + RETENTION_SECONDS
            return None
        sandbox = self.owned(sandbox_id, caller, token)
        ending = sandbox.end(pb.DESTROYED)
        if wait:
            await ending
        else:
            self._own(ending)
        return sandbox

    def _lost_refusal(self, sandbox_id: str) -> RefusedError:
        return RefusedError(
            "SANDBOX_LOST",
            "the daemon that had this sandbox was killed, and the sandbox with it",
            cause="SANDBOXD_RESTARTED",
            sandbox_id=sandbox_id,
        )

    # --- telling --------------------------------------------------------------------------------------------------

    def used(self) -> int:
        """The slots that are taken."""
        return sum(1 for sandbox in self._sandboxes.values() if not sandbox.over)

    def capacity(self) -> pb.Capacity:
        """What can be taken now."""
        total, free = resources.memory()
        disk = disk_free(self.instance.directory)
        state, why = pb.Capacity.SERVING, ""
        if self.draining:
            state, why = pb.Capacity.DRAINING, "no more sandboxes are taken"
        elif disk < self.config.min_disk_free:
            state, why = pb.Capacity.DEGRADED, "the disk is nearly full"
        return pb.Capacity(
            state=state,
            why=why,
            slots_total=self.config.slots,
            slots_used=self.used(),
            memory_total_bytes=total,
            memory_free_bytes=free,
            disk_free_bytes=disk,
        )

    @property
    def change(self) -> asyncio.Event:
        """Set when capacity has changed since this was asked for; ask again for the next change."""
        return self._changed

    def drain(self) -> int:
        """Take no more sandboxes; how many run."""
        self.draining = True
        self._notify()
        return self.used()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _drop_entry(self, sandbox_id: str) -> None:
        with contextlib.suppress(journal.JournalError):  # it is told as ended, which it is
            await self._journal.forget(sandbox_id)

    async def _on_change(self, sandbox: Sandbox) -> None:
        name = pb.SandboxState.Name(sandbox.state)
        _log.info(
            "sandbox",
            sandbox_id=sandbox.identity.sandbox_id,
            state=name,
            backend=sandbox.backend.kind.value,
            error=sandbox.error.message if sandbox.error is not None else None,
        )
        try:
            await self._journal.state(sandbox.identity.sandbox_id, name)
        except journal.JournalError as error:
            # A successor will think that it was killed with this daemon, and reap what is gone already.
            _log.error("journal_failed", sandbox_id=sandbox.identity.sandbox_id, error=str(error))
        self._notify()

    def _entry(self, sandbox: Sandbox) -> journal.Entry:
        identity = sandbox.identity
        return journal.Entry(
            identity.sandbox_id,
            identity.run_id,
            identity.caller,
            sandbox.lease.owner,
            identity.spec_hash,
            sandbox.lease.generation,
            sandbox.backend.kind.value,
            pb.SandboxState.Name(sandbox.state),
        )


def _authority(name: str) -> Authority:
    from sandboxd.egress.authority import Authority

    return Authority(name)


def _check_resource(name: str, value: int, low: int, high: int) -> None:
    if value and not low <= value <= high:
        raise invalid(f"spec.resources.{name}", str(value), f"0 for the default, or {low} to {high}")


def disk_free(path: Path) -> int:
    """Bytes that an ordinary user may still write where the sandboxes are."""
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize
