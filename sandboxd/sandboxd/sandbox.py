"""One sandbox from its creation to its end: what a backend made, its gateway, its events and its commands.

States go one way: CREATING, then READY or FAILED; READY ends in DESTROYED, EXPIRED or LOST. However it ends, `end`
takes it apart in one order: the way out first, then the commands, then what the backend made.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog
from google.protobuf.timestamp_pb2 import Timestamp
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.backends.base import Backend, BackendError, BackendSandbox, Planted, SandboxRequest
from sandboxd.commands import Commands, to_duration
from sandboxd.events import EventLog
from sandboxd.lease import Lease
from sandboxd.refused import RefusedError
from sandboxd.wire import KINDS

if TYPE_CHECKING:  # its library takes its time to import, and only inspection needs it
    from sandboxd.egress.authority import Authority

DESTROY_SECONDS = 60.0
GATEWAY_CLOSE_SECONDS = 5.0
CANCEL_SECONDS = 30.0

T = TypeVar("T")

_log = structlog.get_logger()

_LIMITS = {"memory": pb.LimitReached.MEMORY, "pids": pb.LimitReached.PIDS, "disk": pb.LimitReached.DISK}
_EXIT_CAUSES = {
    pb.DESTROYED: pb.SANDBOX_DESTROYED,
    pb.EXPIRED: pb.EXEC_LEASE_EXPIRED,
    pb.LOST: pb.EXEC_SANDBOX_LOST,
    pb.FAILED: pb.EXEC_SANDBOX_LOST,
}


class Way(Protocol):
    """The way out of a sandbox, while it is served."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


MakeWay = Callable[[pb.NetworkPolicy, Planted, Callable[[pb.EgressDecision], None], "Authority | None"], Way]


@dataclass
class Identity:
    """What a sandbox was asked to be, and by whom."""

    sandbox_id: str
    run_id: str
    caller: str
    spec: pb.SandboxSpec
    spec_hash: bytes
    request: SandboxRequest
    node_id: str
    instance_id: str
    # Whom the sandbox trusts where the operator has TLS inspected.
    authority: Authority | None = None


@dataclass
class Sandbox:
    """A sandbox. `on_change` is awaited after each change of state, to journal it; `clock` is the leases'."""

    identity: Identity
    lease: Lease
    backend: Backend
    make_way: MakeWay
    directory: Path
    on_change: Callable[[Sandbox], Awaitable[None]]
    clock: Callable[[], float] = time.monotonic
    state: pb.SandboxState.ValueType = pb.CREATING
    error: pb.Failure | None = None
    ended_at: float | None = None
    timings: dict[str, float] = field(default_factory=dict)
    commands: Commands | None = None

    def __post_init__(self) -> None:
        self.created = Timestamp()
        self.created.GetCurrentTime()
        self.events = EventLog(self._running)
        self._made: BackendSandbox | None = None
        self._way: Way | None = None
        self._changed = asyncio.Event()
        self._watching: list[asyncio.Task[None]] = []
        self._making: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    # --- making ---------------------------------------------------------------------------------------------------

    def begin(self, creating: asyncio.Semaphore) -> None:
        """Start making it; `creating` bounds how many are made at once."""
        self._making = asyncio.create_task(self._make(creating), name=f"make {self.identity.sandbox_id}")

    async def _make(self, creating: asyncio.Semaphore) -> None:
        try:
            async with creating:
                await self._bring_up()
        except BackendError as error:
            failure = pb.Failure(
                reason=pb.Reason.Value(error.reason), message=error.message, metadata=dict(error.metadata)
            )
            self._start_ending(pb.FAILED, failure)
        except Exception as error:  # noqa: BLE001 - what can't be made must end as that, not stay CREATING
            _log.exception("create_failed", sandbox_id=self.identity.sandbox_id)
            message = f"an unexpected error of the daemon: {type(error).__name__}; its log has it"
            self._start_ending(pb.FAILED, pb.Failure(reason=pb.BUG, message=message))

    async def _bring_up(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True)
        made = self._made = await self._timed("create", self.backend.create(self._request()))
        self.commands = Commands(made, self.events, self.directory, self._stuck)
        planted = await self._timed("plant", made.plant())
        if planted is not None:
            authority = self.identity.authority
            self._way = self.make_way(self.identity.spec.network, planted, self.events.egress, authority)
            await self._way.start()
        await self._timed("self_test", made.self_test())
        self._watching = [
            asyncio.create_task(self._watch(self._watch_limits(made)), name=f"limits {self.identity.sandbox_id}"),
            asyncio.create_task(self._watch(self._watch_end(made)), name=f"end {self.identity.sandbox_id}"),
        ]
        await self._become(pb.READY)

    def _request(self) -> SandboxRequest:
        """What the backend is asked for; with an authority of its own the sandbox gets a bundle of its own."""
        request, authority = self.identity.request, self.identity.authority
        if authority is None:
            return request
        bundle = self.directory / "ca.pem"
        known = Path(request.ca_bundle).read_bytes() if request.ca_bundle is not None else b""
        bundle.write_bytes(known + b"\n" + authority.pem)
        return replace(request, ca_bundle=str(bundle))

    async def _timed(self, step: str, work: Awaitable[T]) -> T:
        started = time.monotonic()
        try:
            return await work
        finally:
            self.timings[step] = time.monotonic() - started

    # --- while it lives -------------------------------------------------------------------------------------------

    def ready(self) -> Commands:
        """Its commands. Raises RefusedError when it is not READY."""
        if self.state == pb.READY and self._ending is None and self.commands is not None:
            return self.commands
        raise self.refusal()

    def made(self) -> BackendSandbox:
        """What the backend made. Raises RefusedError when it is not READY."""
        self.ready()
        assert self._made is not None
        return self._made

    def refusal(self) -> RefusedError:
        """Why nothing can be done in it now."""
        name = pb.SandboxState.Name(self.state)
        if self.error is not None:
            refusal = RefusedError(pb.Reason.Name(self.error.reason), self.error.message)
            refusal.metadata.update(self.error.metadata)
            return refusal
        if self.state == pb.EXPIRED:
            return RefusedError("LEASE_EXPIRED", "its lease has expired")
        return RefusedError("NOT_READY", f"the sandbox is {name if self._ending is None else 'being ended'}")

    def known_commands(self) -> Commands:
        """Its commands, also when it has ended: their logs are kept a while. Raises RefusedError."""
        if self.commands is None:
            raise self.refusal()
        return self.commands

    def _running(self) -> list[str]:
        return self.commands.running() if self.commands is not None else []

    async def _watch(self, watching: Awaitable[None]) -> None:
        try:
            await watching
        except Exception as error:  # noqa: BLE001 - a sandbox that isn't watched any more can't be trusted
            _log.exception("watch_failed", sandbox_id=self.identity.sandbox_id)
            self._stuck(f"it could not be watched any more: {error}")

    async def _watch_limits(self, made: BackendSandbox) -> None:
        async for hit in made.limits_hit():
            if self.commands is not None:
                self.commands.limit_hit(_LIMITS[hit.kind], hit.value)

    async def _watch_end(self, made: BackendSandbox) -> None:
        cause = await made.ended()
        failure = pb.Failure(reason=pb.SANDBOX_LOST, message=f"the sandbox went away: {cause}")
        failure.metadata["cause"] = cause
        self._start_ending(pb.LOST, failure)

    def _stuck(self, why: str) -> None:
        failure = pb.Failure(reason=pb.SANDBOX_LOST, message=f"the sandbox was ended because {why}")
        failure.metadata["cause"] = why
        self._start_ending(pb.LOST, failure)

    # --- the end --------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""
        return self.ended_at is not None

    @property
    def ending(self) -> bool:
        """Whether its end has begun."""
        return self._ending is not None

    async def end(self, state: pb.SandboxState.ValueType, failure: pb.Failure | None = None) -> None:
        """End it, whatever its state; returns when nothing of it is left. The first end stands."""
        await asyncio.shield(self._start_ending(state, failure))

    def _start_ending(self, state: pb.SandboxState.ValueType, failure: pb.Failure | None = None) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(state, failure), name=f"end {self.identity.sandbox_id}")
        return self._ending

    async def _end(self, state: pb.SandboxState.ValueType, failure: pb.Failure | None) -> None:
        making = [self._making] if self._making is not None else []
        await self._step("cancel", _cancelled([*self._watching, *making]), CANCEL_SECONDS)
        if self._way is not None:
            await self._step("close its gateway", self._way.close(), GATEWAY_CLOSE_SECONDS)
        if self.commands is not None:
            await self._step("end its commands", self.commands.end_all(_EXIT_CAUSES[state]), CANCEL_SECONDS)
        if self._made is not None:
            problem = await self._step("remove", self._made.destroy(), DESTROY_SECONDS)
            if problem:
                # It is told, and the next start of a daemon removes what is left.
                failure = failure or pb.Failure(reason=pb.BACKEND_DOWN, message=f"could not be removed: {problem}")
        self.error = failure
        self.ended_at = self.clock()
        await self._become(state, failure.message if failure is not None else "")
        self.events.close()

    async def _step(self, what: str, work: Awaitable[None], seconds: float) -> str:
        """One step of the end. Whatever happens to it, the next ones follow; why it failed, or nothing."""
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            why = f"it took more than {seconds:g} s"
        except BackendError as error:
            why = error.message
        except Exception as error:  # noqa: BLE001 - a slot would be taken for ever
            _log.exception("end_failed", sandbox_id=self.identity.sandbox_id, step=what)
            return f"an unexpected error of the daemon: {type(error).__name__}"
        else:
            return ""
        _log.warning("end_failed", sandbox_id=self.identity.sandbox_id, step=what, error=why)
        return why

    def forget(self) -> None:
        """Its retention time is over: give back what its logs hold."""
        if self.commands is not None:
            self.commands.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- telling --------------------------------------------------------------------------------------------------

    async def _become(self, state: pb.SandboxState.ValueType, detail: str = "") -> None:
        self.state = state
        self.events.lifecycle(state, detail)
        try:
            await self.on_change(self)
        finally:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def watch(self) -> AsyncGenerator[pb.Sandbox, None]:
        """The sandbox now, and after each change, until its end."""
        while True:
            changed = self._changed
            yield self.to_pb()
            if self.over:
                return
            await changed.wait()

    def to_pb(self) -> pb.Sandbox:
        """The sandbox as the contract has it."""
        now = self.clock()
        made = self._made
        told = pb.Sandbox(
            sandbox_id=self.identity.sandbox_id,
            run_id=self.identity.run_id,
            state=self.state,
            error=self.error,
            generation=self.lease.generation,
            node_id=self.identity.node_id,
            instance_id=self.identity.instance_id,
            backend=KINDS[self.backend.kind],
            enforced=self.backend.enforced,
            resources=self.identity.spec.resources,
            created=self.created,
            labels=dict(self.identity.spec.labels),
            last_event_seq=self.events.last_seq,
        )
        if not self.over:
            told.lease_left.CopyFrom(to_duration(self.lease.ends - now))
            told.lifetime_left.CopyFrom(to_duration(self.lease.hard_end - now))
        if made is not None:
            told.image, told.image_digest = made.image, made.image_digest
            told.workspace, told.shell = made.workspace, made.shell
        for step, took in self.timings.items():
            told.timings[step].CopyFrom(to_duration(took))
        if self.commands is not None:
            told.exec_ids.extend(self.commands.ids())
        return told


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks that are not this one, and wait until they have ended."""
    current = asyncio.current_task()
    others = [task for task in tasks if task is not current]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
