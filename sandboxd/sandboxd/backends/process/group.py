"""A control group for a sandbox, where the daemon may make one: the kernel then counts memory, processes and cores.

In the second version of control groups one directory does it; in the first, one in each controller's hierarchy. The
group is made below the daemon's own, or below the nearest group above it that hands these controllers on. Files and
rules are the kernel's: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandboxd.backends.base import Limits

# Without these two a group is of no use; cores are a courtesy to the neighbours.
NEEDED = ("memory", "pids")
CONTROLLERS = (*NEEDED, "cpu")
SECOND = ""  # the second version, as /proc/self/cgroup has it
PERIOD_MICROSECONDS = 100_000
REMOVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Counters:
    """How often the kernel ended a process for memory, and refused to make one, since the group was made."""

    memory: int = 0
    pids: int = 0


class Parents:
    """Where groups can be made, found once. Falsy where they can't be."""

    def __init__(self, own: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/proc/self/mountinfo")) -> None:
        self.directories = _parents(own, mounts)

    def __bool__(self) -> bool:
        return bool(self.directories)

    def group(self, name: str) -> Group | None:
        """A group that is not made yet; None where there is nowhere to make it."""
        if not self.directories:
            return None
        return Group({controller: parent / name for controller, parent in self.directories.items()})


class Group:
    """The directories of one group by controller; all the same directory in the second version."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self.directories = dict(directories)

    def make(self, limits: Limits) -> bool:
        """Make it and set its limits; False, with nothing left behind, when it turns out that it can't be."""
        try:
            for directory in set(self.directories.values()):
                directory.mkdir()
            for controller, directory in self.directories.items():
                for file, value in _settings(controller, limits):
                    (directory / file).write_text(value)
        except OSError:
            self.remove()
            return False
        with contextlib.suppress(OSError):
            # Swap can be left out of the kernel; memory alone would then still hold.
            self._forbid_swap(limits)
        return True

    def _forbid_swap(self, limits: Limits) -> None:
        if SECOND in self.directories:
            (self.directories[SECOND] / "memory.swap.max").write_text("0")
        else:
            (self.directories["memory"] / "memory.memsw.limit_in_bytes").write_text(str(limits.memory_bytes))

    def take(self, pid: int) -> bool:
        """Put a process in, and so what it starts from now on; False, with the group removed, when that can't be."""
        try:
            for directory in set(self.directories.values()):
                (directory / "cgroup.procs").write_text(str(pid))
        except OSError:
            self.leave(pid)
            self.remove()
            return False
        return True

    def leave(self, pid: int) -> None:
        """Put a process back to the parents."""
        for directory in set(self.directories.values()):
            with contextlib.suppress(OSError):
                (directory.parent / "cgroup.procs").write_text(str(pid))

    def pids(self) -> list[int]:
        """The processes that are in it, as this host numbers them."""
        directory = self.directories.get(SECOND) or self.directories["pids"]
        with contextlib.suppress(OSError):
            return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
        return []

    def counters(self) -> Counters:
        """Read them; what can't be read (the group is gone) counts as never."""
        second = self.directories.get(SECOND)
        memory = second or self.directories["memory"]
        pids = second or self.directories["pids"]
        return Counters(
            _field(memory / ("memory.events" if second else "memory.oom_control"), "oom_kill"),
            _field(pids / "pids.events", "max"),
        )

    def remove(self) -> bool:
        """Remove it, once it is empty; whether it is gone. Blocking: the kernel takes a moment to forget processes."""
        deadline = time.monotonic() + REMOVE_SECONDS
        left = set(self.directories.values())
        while left and time.monotonic() < deadline:
            left = {directory for directory in left if not _removed(directory)}
            if left:
                time.sleep(0.005)
        return not left


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _settings(controller: str, limits: Limits) -> list[tuple[str, str]]:
    quota = str(int(limits.cpus * PERIOD_MICROSECONDS))
    settings = {
        "memory": [("memory.limit_in_bytes", str(limits.memory_bytes))],
        "pids": [("pids.max", str(limits.pids))],
        "cpu": [("cpu.cfs_period_us", str(PERIOD_MICROSECONDS)), ("cpu.cfs_quota_us", quota)],
        SECOND: [
            ("memory.max", str(limits.memory_bytes)),
            ("pids.max", str(limits.pids)),
            ("cpu.max", f"{quota} {PERIOD_MICROSECONDS}"),
        ],
    }
    return settings[controller]


def _field(file: Path, name: str) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)


def _parents(own: Path, mounts: Path) -> dict[str, Path]:
    try:
        places = _mounts(mounts.read_text())
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except (OSError, ValueError):
        return {}
    paths = {controller: path for _, names, path in lines for controller in names.split(",")}
    first = {
        controller: places[controller] / paths[controller].lstrip("/")
        for controller in CONTROLLERS
        if controller in places and controller in paths
    }
    first = {controller: directory for controller, directory in first.items() if _may_make(directory)}
    if all(controller in first for controller in NEEDED):
        return first
    if SECOND in places and SECOND in paths:
        return _second(places[SECOND], places[SECOND] / paths[SECOND].lstrip("/"))
    return {}


def _second(root: Path, own: Path) -> dict[str, Path]:
    """A group that has processes can't hand controllers on, so the parent is the nearest one that already does."""
    for directory in (own, *own.parents):
        with contextlib.suppress(OSError):
            handed_on = (directory / "cgroup.subtree_control").read_text().split()
            if all(controller in handed_on for controller in CONTROLLERS) and _may_make(directory):
                return {SECOND: directory}
        if directory == root:
            break
    return {}


def _may_make(directory: Path) -> bool:
    # Moving a process needs the right to write to the nearest group above both; being root, or owning the tree, is it.
    return os.access(directory, os.W_OK) and os.access(directory / "cgroup.procs", os.W_OK)


def _mounts(text: str) -> dict[str, Path]:
    """Where each controller's hierarchy is, from mountinfo (proc(5))."""
    found: dict[str, Path] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        point, kind, options = left.split()[4], right.split()[0], right.split()[-1]
        if kind == "cgroup2":
            found[SECOND] = Path(point)
        elif kind == "cgroup":
            found.update(dict.fromkeys(options.split(","), Path(point)))
    return found
