"""The client of one runner: one channel, one owner token, one batch of lease renewals, many sandboxes.

`Runner.open` is the way in; `Runner.create` answers with a `RemoteSandbox` that is ready. Losing a call never loses a
command: output and events are read again from where they broke off.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from grpc import aio
from quickstarted_api.v1 import sandbox_pb2 as pb

from quickstarted.sandbox.base import SandboxError
from quickstarted.sandbox.calls import Backoff, Link, duration
from quickstarted.sandbox.connect import Address, open_channel
from quickstarted.sandbox.errors import CallError, Outcome, from_failure, outcome, read
from quickstarted.sandbox.names import name_of
from quickstarted.sandbox.remote import RemoteSandbox, Stubs

# The versions of the contract that this client speaks.
API_MIN, API_MAX = 1, 1

LEASE_SECONDS = 60.0
# Images are pulled while a sandbox is created, and a full runner is waited for.
READY_SECONDS = 900.0
WAIT_SECONDS = 3600.0
# Between two tries at a full runner that did not say how long to wait.
FULL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A sandbox that somebody wants. `lifetime` is in seconds: it is gone after that whatever happens."""

    sandbox_id: str
    spec: pb.SandboxSpec
    lifetime: float


@dataclass
class Runner:
    """One sandboxd. Made by `open`; must be closed on the event loop that opened it."""

    link: Link
    info: pb.GetInfoResponse
    run_id: str
    lease_seconds: float
    _channel: aio.Channel
    _stubs: Stubs
    _token: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _leased: dict[str, RemoteSandbox] = field(default_factory=dict)
    _keeper: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, address: Address, *, run_id: str, name: str | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> Runner:
        """Connect, and check that both sides speak a common version. Raises SandboxError."""
        link = Link(name or address.text)
        if not await asyncio.to_thread(os.path.exists, address.socket):
            raise SandboxError(
                "BACKEND_DOWN", f"there is no socket {address.socket}", {"remedy": "start sandboxd there"}
            )
        channel = open_channel(address)
        stubs = Stubs.over(channel)
        try:
            info = await link.call(stubs.runner.GetInfo, pb.GetInfoRequest())
            _check_range(info, link.runner)
        except BaseException:
            await channel.close()
            raise
        longest = info.limits.max_lease_ttl.ToTimedelta().total_seconds() or lease_seconds
        return cls(link, info, run_id, min(lease_seconds, longest), channel, stubs)

    async def close(self) -> None:
        """Let go of the runner. Sandboxes that were not closed are left to their leases."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._channel.close()

    async def __aenter__(self) -> Runner:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def lose(self, error: SandboxError) -> None:
        """The runner is gone for good, and all its sandboxes with it."""
        self.link.lose(error)
        for sandbox in self._leased.values():
            sandbox.link.lose(error)

    async def create(self, wanted: Wanted, on_wait: Callable[[str], None] = lambda _: None) -> RemoteSandbox:
        """Make a sandbox and wait until it is ready. Raises SandboxError.

        A runner without room is waited for; `on_wait` is told why. Cancelling destroys what was made so far.
        """
        sandbox = RemoteSandbox(
            wanted.sandbox_id,
            Link(self.link.runner),
            time.monotonic(),
            self._stubs,
            self._token,
            on_close=lambda sandbox_id: self._leased.pop(sandbox_id, None),
        )
        try:
            await self._admit(wanted, on_wait)
            self._lease(sandbox)
            sandbox.ready(await self._wait_ready(sandbox), self.info)
        except BaseException:
            # Also when the create's answer was lost: destroying an id that the runner never saw forbids it for ever.
            with contextlib.suppress(SandboxError):  # why it failed matters more; its lease ends it
                await sandbox.close()
            raise
        return sandbox

    async def _admit(self, wanted: Wanted, on_wait: Callable[[str], None]) -> None:
        request = pb.CreateRequest(
            sandbox_id=wanted.sandbox_id,
            spec=wanted.spec,
            run_id=self.run_id,
            owner_token=self._token,
            lease_ttl=duration(self.lease_seconds),
            hard_lifetime=duration(wanted.lifetime),
        )
        deadline = time.monotonic() + WAIT_SECONDS
        told = ""
        while True:
            try:
                await self.link.call(self._stubs.sandboxes.Create, request)
            except CallError as error:
                full = outcome(error.reason) in (Outcome.WAIT, Outcome.ELSEWHERE)
                pause = error.retry_after or FULL_SECONDS
                if not full or time.monotonic() + pause > deadline:
                    raise
                if error.message != told:
                    told = error.message
                    on_wait(told)
                await self.link.pause(pause)
            else:
                return

    async def _wait_ready(self, sandbox: RemoteSandbox) -> pb.Sandbox:
        request = pb.WatchRequest(sandbox_id=sandbox.sandbox_id)
        backoff = Backoff()
        try:
            async with asyncio.timeout(READY_SECONDS):
                while True:
                    state = await self._watch(request)
                    if state is not None:
                        return state
                    await sandbox.link.pause(backoff.seconds())
        except TimeoutError:
            message = f"the runner {self.link.runner} did not make a sandbox within {READY_SECONDS:.0f} s"
            raise SandboxError("NOT_READY", message) from None

    async def _watch(self, request: pb.WatchRequest) -> pb.Sandbox | None:
        """The sandbox once it is ready; None when the stream broke. Raises SandboxError when it can't be made."""
        call = self._stubs.sandboxes.Watch(request)
        try:
            while isinstance(state := await call.read(), pb.Sandbox):
                if state.state == pb.READY:
                    return state
                if state.HasField("error"):
                    raise from_failure(state.error)
                if state.state != pb.CREATING:
                    ended = name_of(pb.SandboxState.DESCRIPTOR, state.state)
                    raise SandboxError("SANDBOX_LOST", f"the sandbox was {ended} before it was ready")
        except aio.AioRpcError as error:
            failure = read(error, self.link.runner)
            if not failure.transient:
                raise failure from None
        finally:
            call.cancel()
        return None

    def _lease(self, sandbox: RemoteSandbox) -> None:
        sandbox.renewed = time.monotonic()
        self._leased[sandbox.sandbox_id] = sandbox
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_leases(), name="leases")
            self._keeper.add_done_callback(self._keeper_ended)

    def _keeper_ended(self, keeper: asyncio.Task[None]) -> None:
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self.lose(SandboxError("BUG", f"leases are no longer renewed: {error!r}"))

    async def _keep_leases(self) -> None:
        """Renew all leases in one call each third of their time, so that two calls may be lost."""
        while True:
            await asyncio.sleep(self.lease_seconds / 3)
            if not self._leased:
                continue
            request = pb.RenewLeasesRequest(
                sandbox_ids=list(self._leased), owner_token=self._token, lease_ttl=duration(self.lease_seconds)
            )
            try:
                response = await self.link.call(
                    self._stubs.sandboxes.RenewLeases, request, seconds=self.lease_seconds / 3
                )
            except SandboxError as error:
                self._not_renewed(error)
            else:
                self._renewed(response)

    def _renewed(self, response: pb.RenewLeasesResponse) -> None:
        for result in response.results:
            sandbox = self._leased.get(result.sandbox_id)
            if sandbox is None:
                continue  # closed meanwhile
            if result.HasField("error"):
                sandbox.link.lose(from_failure(result.error))
            else:
                sandbox.renewed = time.monotonic()

    def _not_renewed(self, error: SandboxError) -> None:
        """The runner did not answer. Its leases end by themselves after their whole time; until then there is hope."""
        for sandbox in self._leased.values():
            if time.monotonic() - sandbox.renewed > self.lease_seconds:
                sandbox.link.lose(error)


def _check_range(info: pb.GetInfoResponse, runner: str) -> None:
    if info.api_min > API_MAX or info.api_max < API_MIN:
        raise SandboxError(
            "API_RANGE",
            f"the runner {runner} (sandboxd {info.software_version}) speaks versions {info.api_min} to {info.api_max} "
            f"of the contract, and this quickstarted {API_MIN} to {API_MAX}; update the older one",
        )
