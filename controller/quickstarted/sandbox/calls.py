"""Calls to a runner that survive a flaky connection: every one has a deadline, and is made again when nobody answered.

Every call of the contract may be made again: ids are chosen here, so that a call that arrived twice answers with what
exists. A `Link` knows when what it leads to, a runner or one sandbox, is gone for good, and ends all tries.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Protocol, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from grpc import aio

from quickstarted.sandbox import errors
from quickstarted.sandbox.base import SandboxError

# Long enough for a busy runner and a restarted connection, short enough that nobody thinks it hangs.
CALL_SECONDS = 20.0
# A runner that restarts answers within that; one that does not is taken for gone.
TRIES_SECONDS = 15.0
# From the first to the longest wait between two tries of a call or a stream.
FIRST_BACKOFF = 0.1
LAST_BACKOFF = 5.0

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Method(Protocol[Request, Response]):
    """A unary method of a stub."""

    def __call__(self, request: Request, *, timeout: float | None = None) -> aio.UnaryUnaryCall[Request, Response]: ...


def duration(seconds: float) -> Duration:
    """Seconds as the wire has them."""
    value = Duration()
    value.FromTimedelta(timedelta(seconds=seconds))
    return value


class Backoff:
    """Waits between tries: doubling, with full jitter above a half, so that many clients do not come back at once."""

    def __init__(self) -> None:
        self._next = FIRST_BACKOFF

    def reset(self) -> None:
        self._next = FIRST_BACKOFF

    def seconds(self) -> float:
        seconds = self._next * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._next = min(self._next * 2, LAST_BACKOFF)
        return seconds


class Link:
    """The way to a runner, or to one sandbox on it. `runner` is its name for people."""

    def __init__(self, runner: str) -> None:
        self.runner = runner
        self._lost: SandboxError | None = None
        self._gone = asyncio.Event()

    @property
    def lost(self) -> SandboxError | None:
        """Why it is gone for good, if it is."""
        return self._lost

    def lose(self, error: SandboxError) -> None:
        """It is gone for good: from now on calls end with this error instead of being made again."""
        if self._lost is None:
            self._lost = error
            self._gone.set()

    async def pause(self, seconds: float) -> None:
        """Wait before the next try. Raises the error at once when all is lost."""
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            return
        assert self._lost
        raise self._lost

    async def call(
        self, method: Method[Request, Response], request: Request, *, seconds: float = CALL_SECONDS
    ) -> Response:
        """Make a call that may take `seconds`, again for at most `TRIES_SECONDS` where nobody answered.

        Raises CallError, or why it is gone for good.
        """
        started = time.monotonic()
        tries_until = started + min(seconds, TRIES_SECONDS)
        backoff = Backoff()
        while True:
            try:
                return await method(request, timeout=max(started + seconds - time.monotonic(), 0.001))
            except aio.AioRpcError as error:
                failure = errors.read(error, self.runner)
            pause = failure.retry_after or backoff.seconds()
            if not failure.transient or time.monotonic() + pause >= tries_until:
                raise self._lost or failure
            await self.pause(pause)


async def finish(work: Coroutine[object, object, None]) -> None:
    """Run clean-up to its end, also when the caller is cancelled meanwhile; the work has its own deadline."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
