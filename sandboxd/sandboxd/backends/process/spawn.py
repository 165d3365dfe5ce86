"""Starting processes from one thread that lives as long as the daemon.

Two things belong to the thread that starts a process: the signal that the kernel sends when "the parent" ends is sent
when that thread ends (prctl(2), PR_SET_PDEATHSIG), and a new process is born in that thread's mount namespace.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SPAWN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: with an empty environment, these descriptors, and its stderr going to `stderr`.

    With `uid`, it runs as that user and group and in no other group.
    """

    argv: Sequence[str]
    stderr: int
    descriptors: Sequence[int] = field(default_factory=tuple)
    uid: int | None = None


class Spawner:
    """The thread. `prepare` is called in it first; what it raises is raised by every `spawn`."""

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        self._name = name
        self._prepare = prepare
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def spawn(self, launch: Launch) -> subprocess.Popen[bytes]:
        """Start it. Raises OSError when there is nothing to start, and TimeoutError.

        A process that was started for a caller who has gone meanwhile is killed.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        work = _Work(launch)
        self._work.put(work)
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                return await asyncio.wrap_future(work.done)
        except BaseException:
            work.abandon()
            raise

    def close(self) -> None:
        """Let the thread end. What it started with PR_SET_PDEATHSIG ends with it."""
        self._work.put(None)

    def _run(self) -> None:
        failure = self._prepared()
        while (work := self._work.get()) is not None:
            if failure is not None:
                work.fail(failure)
            else:
                work.run()

    def _prepared(self) -> OSError | None:
        try:
            if self._prepare is not None:
                self._prepare()
        except OSError as error:
            return error
        return None


class _Work:
    """One process to start, and who waits for it."""

    def __init__(self, launch: Launch) -> None:
        self.done: concurrent.futures.Future[subprocess.Popen[bytes]] = concurrent.futures.Future()
        self._launch = launch
        self._lock = threading.Lock()
        self._abandoned = False
        self._started: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        with self._lock:
            if self._abandoned:
                return
            try:
                self._started = _start(self._launch)
            except OSError as error:
                self.fail(error)
                return
        if self.done.set_running_or_notify_cancel():
            self.done.set_result(self._started)

    def fail(self, error: OSError) -> None:
        if self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)

    def abandon(self) -> None:
        """The caller has gone: what was started, or will be, is nobody's."""
        with self._lock:
            self._abandoned = True
            if self._started is not None:
                self._started.kill()
                self._started.wait()


def _start(launch: Launch) -> subprocess.Popen[bytes]:
    # No preexec_fn: Python code between fork and exec is not safe in a process with threads.
    return subprocess.Popen(
        list(launch.argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=launch.stderr,
        env={},
        cwd="/",
        pass_fds=tuple(launch.descriptors),
        start_new_session=True,
        user=launch.uid,
        group=launch.uid,
        extra_groups=None if launch.uid is None else (),
    )


def drain(descriptor: int, most: int = 1 << 16) -> str:
    """What waits in a pipe, as text, without waiting for more."""
    os.set_blocking(descriptor, False)
    said = b""
    try:
        while len(said) < most and (part := os.read(descriptor, most)):
            said += part
    except BlockingIOError:
        pass
    return said.decode(errors="replace").strip()
