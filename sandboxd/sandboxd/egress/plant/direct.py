"""Planting by a thread of the daemon that enters the sandbox's network namespace: the engine's host, as root.

setns(2) is a thread's matter, so each entry has a thread of its own that ends with it and is never used again. The
sockets stay in the namespace where they were made; the daemon serves them from outside.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sandboxd.backends.base import Planted
from sandboxd.egress.plant.closed import findings
from sandboxd.egress.plant.planter import PlantError, planted
from sandboxd.inside.sockets import plant_here

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
FINDINGS_SECONDS = 30.0


class EntryError(Exception):
    """The namespace could not be entered; the text says why."""


def may_enter(pid: int) -> bool:
    """Whether this process may open that process's network namespace (proc(5), PTRACE_MODE_READ_FSCREDS)."""
    try:
        os.close(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


async def within(pid: int, confirm: Callable[[], bool], work: Callable[[], T], *, deadline: float = 10.0) -> T:
    """Run `work` in the network namespace of process `pid`, in a thread that ends with it.

    `confirm` is asked after the namespace was opened: whether `pid` is still the sandbox's process, for a number can
    be taken over by another. Raises EntryError, what `work` raises, and TimeoutError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # there is a result when there is no error

    def run() -> None:
        try:
            _enter(pid, confirm)
            result = work()
        except BaseException as error:  # noqa: BLE001 it is raised again, where it is awaited
            loop.call_soon_threadsafe(finish, None, error)
        else:
            loop.call_soon_threadsafe(finish, result, None)

    threading.Thread(target=run, name=f"netns-{pid}", daemon=True).start()
    async with asyncio.timeout(deadline):
        return await done


def _enter(pid: int, confirm: Callable[[], bool]) -> None:
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise EntryError(f"the network namespace of process {pid} can't be opened: {error.strerror}") from error
    try:
        if not confirm():
            raise EntryError(f"process {pid} is not the sandbox's any more")
        # A namespace that is ours would put the sandbox's sockets on this host.
        if os.fstat(namespace).st_ino == Path("/proc/self/ns/net").stat().st_ino:
            raise EntryError("the sandbox shares this host's network")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise EntryError(f"the sandbox's network namespace can't be entered: {os.strerror(number)}")
    finally:
        os.close(namespace)


class DirectPlace:
    """A namespace that threads of this daemon can enter."""

    def __init__(self, planted: Planted, pid: int, confirm: Callable[[], bool]) -> None:
        self.planted = planted
        self._pid = pid
        self._confirm = confirm

    async def findings(self) -> list[str]:
        """Look around in the namespace."""
        try:
            return await within(self._pid, self._confirm, findings, deadline=FINDINGS_SECONDS)
        except (EntryError, TimeoutError, OSError) as error:
            return [f"it could not be looked at from inside: {error or 'no answer'}"]

    async def close(self) -> None:
        """There is nothing but the sockets."""


class DirectPlanter:
    """Plants by entering the namespace."""

    async def plant(self, container: str, pid: int, confirm: Callable[[], bool]) -> DirectPlace:
        """Make the sockets. Raises PlantError."""
        try:
            here = await within(pid, confirm, lambda: plant_here(may_redirect=True))
        except (EntryError, TimeoutError, OSError) as error:
            raise PlantError(str(error) or "the sockets were not made in time") from error
        return DirectPlace(planted(here), pid, confirm)
