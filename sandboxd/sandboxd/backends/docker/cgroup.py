"""Control groups of a container on this host: one below the container's for each command.

A command is placed in its own group before it runs, so everything that it starts is in there, however often it forks,
starts a session or loses its parent: nothing inside a container can change its group. Ending a command is then exact
and works when no process can be started any more. The files are the kernel's (Documentation/admin-guide/cgroup-v2.rst
and cgroup-v1/freezer-subsystem.rst); on hosts with both hierarchies the second is used where the engine uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

KILL_SECONDS = 2.0
POLL_SECONDS = 0.01


class CgroupError(Exception):
    """A group could not be made, or would not become empty."""


def container_groups(pid: int, container_id: str) -> dict[str, Path]:
    """The container's directory in each hierarchy ("" is version 2), by its controller; empty when it isn't here.

    The container's id stands in the path of its groups: a process of that number that is another's has another path.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return {}
    mounts = _mounts()
    groups: dict[str, Path] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if container_id not in path:
            continue
        for controller in controllers.split(","):
            directory = mounts.get(controller)
            if directory is not None and (place := directory / path.lstrip("/")).is_dir():
                groups[controller] = place
    return groups


def _mounts() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point, kind, options = left.split()[4], right.split()[0], right.split()[-1]
        if kind == "cgroup2":
            found[""] = Path(point)
        elif kind == "cgroup":
            found.update(dict.fromkeys(options.split(","), Path(point)))
    return found


class CommandGroups:
    """Makes the groups of a container's commands. `root` is the container's own group."""

    def __init__(self, root: Path, first: int, *, second: bool) -> None:
        self._root = root
        self._first = first
        self._second = second

    @classmethod
    def of(cls, groups: dict[str, Path], first: int) -> CommandGroups | None:
        """From what `container_groups` found; None when this process may not make groups there.

        `first` is the container's first process.
        """
        for controller in ("", "freezer"):
            root = groups.get(controller)
            if root is not None and os.access(root / "cgroup.procs", os.W_OK) and os.access(root, os.W_OK):
                return cls(root, first, second=controller == "")
        return None

    def place(self, name: str, inner_pid: int) -> CommandGroup:
        """Put the process that calls itself `inner_pid` in there into a new group. Raises CgroupError."""
        outer = self._outer_pid(inner_pid)
        directory = self._root / name
        try:
            directory.mkdir()
            (directory / "cgroup.procs").write_text(str(outer))
            handle = os.pidfd_open(outer)
        except OSError as error:
            with contextlib.suppress(OSError):
                directory.rmdir()
            raise CgroupError(f"a command's control group could not be made: {error}") from error
        return CommandGroup(directory, handle, second=self._second)

    def _outer_pid(self, inner_pid: int) -> int:
        # What the engine starts in a container has the same parent as its first process, out of reach of what runs in
        # there: so a command can't give itself out for another by what it says.
        parent = _status(self._first).get("PPid")
        for pid in _pids(self._root):
            status = _status(pid)
            names = status.get("NSpid", "").split()
            if pid != self._first and status.get("PPid") == parent and names[-1:] == [str(inner_pid)]:
                return pid
        raise CgroupError(f"the command's process {inner_pid} is not there")


class CommandGroup:
    """The group of one command. `main` is a handle of its first process, which no other process can take over."""

    def __init__(self, directory: Path, main: int, *, second: bool) -> None:
        self._directory = directory
        self._main = main
        self._second = second

    def pids(self) -> list[int]:
        """The processes that are left, by their numbers on this host."""
        return _pids(self._directory)

    def signal_main(self, number: int) -> None:
        """Signal the first process, if it is still there."""
        if self._main >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._main, number)

    async def signal_all(self, number: int) -> None:
        """Signal everything in the group; it stands still meanwhile, so that none is missed and none is another's."""
        async with _Frozen(self._directory, second=self._second):
            self._send(number)

    async def kill(self) -> None:
        """End everything in the group; return when it is empty. Raises CgroupError after 2 s."""
        deadline = time.monotonic() + KILL_SECONDS
        while self.pids():
            if time.monotonic() > deadline:
                raise CgroupError(f"{len(self.pids())} processes of the command did not end in {KILL_SECONDS:g} s")
            if not self._kill_at_once():
                async with _Frozen(self._directory, second=self._second):
                    self._send(signal.SIGKILL)
            await asyncio.sleep(POLL_SECONDS)

    def _kill_at_once(self) -> bool:
        file = self._directory / "cgroup.kill"
        if not self._second or not file.exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            file.write_text("1")
        return True

    def _send(self, number: int) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def remove(self) -> bool:
        """Call it when the first process has ended: removes the group if nothing is left in it; whether it is gone."""
        if self._main >= 0:
            main, self._main = self._main, -1
            os.close(main)
        try:
            self._directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class _Frozen:
    """Stops a group's processes where they are, for as long as the block runs."""

    def __init__(self, directory: Path, *, second: bool) -> None:
        self._state = directory / ("cgroup.freeze" if second else "freezer.state")
        self._words = ("1", "0") if second else ("FROZEN", "THAWED")
        self._done = directory / ("cgroup.events" if second else "freezer.state")
        self._sign = "frozen 1" if second else "FROZEN"

    async def __aenter__(self) -> None:
        deadline = time.monotonic() + KILL_SECONDS / 4
        self._write(self._words[0])
        # A process that can't be frozen yet sits in a system call of the kernel's; it is signalled all the same.
        while time.monotonic() < deadline and self._sign not in self._read():  # noqa: ASYNC110 a file has no event
            await asyncio.sleep(0.001)

    async def __aexit__(self, *_: object) -> None:
        self._write(self._words[1])

    def _write(self, word: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._state.write_text(word)

    def _read(self) -> str:
        try:
            return self._done.read_text()
        except FileNotFoundError:
            return self._sign


def _status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status; none when there is no such process any more."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _pids(directory: Path) -> list[int]:
    try:
        return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
    except (FileNotFoundError, OSError):
        return []


@dataclass(frozen=True, slots=True)
class Counters:
    """How often a container's limits were reached since it began: kills for memory, refused processes."""

    memory: int
    pids: int


def counters(groups: dict[str, Path]) -> Counters:
    """Read them; what can't be read (the container is gone) counts as never."""
    memory = groups.get("memory", groups.get(""))
    pids = groups.get("pids", groups.get(""))
    first = "memory" in groups
    return Counters(
        _field(memory, "memory.oom_control" if first else "memory.events", "oom_kill"),
        _field(pids, "pids.events", "max"),
    )


def _field(directory: Path | None, file: str, name: str) -> int:
    if directory is None:
        return 0
    try:
        lines = (directory / file).read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)
