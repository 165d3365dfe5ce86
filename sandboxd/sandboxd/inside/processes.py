"""Processes as the supervisor sees them: who descends from whom, what they use, and ending all of a set.

`/proc` on Linux, where in bubblewrap it holds the sandbox's own pid namespace; `ps` elsewhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping

# A sweep looks at every process so often before it stops the whole namespace.
SWEEPS = 20
PAUSE_SECONDS = 0.002


class Process:
    """One line of the table. `state` is the letter of proc(5) and ps(1): Z and X have ended, T is stopped."""

    __slots__ = ("group", "parent", "session", "state", "threads")

    def __init__(self, parent: int, group: int, session: int, state: str, threads: int) -> None:
        self.parent = parent
        self.group = group
        self.session = session
        self.state = state
        self.threads = threads


Table = Mapping[int, Process]


def read_table() -> dict[int, Process]:
    """Every process that has not ended, by its number."""
    return _from_proc() if sys.platform == "linux" else _from_ps()


def _from_proc() -> dict[int, Process]:
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 pathlib costs a third of the start
        if name.isdigit() and (process := _stat(name)) is not None:
            table[int(name)] = process
    return table


def _stat(name: str) -> Process | None:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 as above
            # The name is in parentheses and may hold some itself: the last one ends it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None  # it has ended meanwhile, or the file is covered: it is the supervisor
    state = chr(fields[0][0])
    if state in "ZX":
        return None
    return Process(int(fields[1]), int(fields[2]), int(fields[3]), state, int(fields[17]))


def _from_ps() -> dict[int, Process]:
    # ps on macOS has no session; a process group's leader is what setsid and setpgid leave to see.
    answer = subprocess.run(  # the absolute path: PATH is the sandbox's
        ["/bin/ps", "-axo", "pid=,ppid=,pgid=,state="], capture_output=True, check=False, timeout=5
    )
    table = {}
    for line in answer.stdout.decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3][0] != "Z":
            pid, parent, group = (int(field) for field in fields[:3])
            table[pid] = Process(parent, group, group, fields[3][0], 1)
    return table


def descendants(table: Table, roots: Iterable[int]) -> set[int]:
    """All that descend from `roots`, without the roots themselves."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


class Trail:
    """What a command started, where no process adopts orphans: followed by ancestry and by process group.

    A process that leaves its group and loses its parent between two looks is lost; so look often.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()

    def follow(self, table: Table, roots: Iterable[int]) -> set[int]:
        """What is left of it now, without the roots."""
        roots = set(roots)
        known = {pid for pid, process in table.items() if process.group in self._groups} - roots
        found = known | descendants(table, roots | known) - roots
        self._groups |= {table[pid].group for pid in found}
        return found


def send(pids: Iterable[int], number: int) -> None:
    """Signal each; one that has ended, or that is another user's, is passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def end_all(members: Callable[[Table], set[int]], *, deadline: float, whole_namespace: bool) -> bool:
    """End every process that `members` finds, and what they start meanwhile; whether none is left.

    They are stopped first, because a stopped process can't fork, and killed when a look finds no new one. Something
    that forks and exits faster than it can be looked for is caught only by stopping every process at once, which the
    kernel does without a gap (kill(2) with -1): with `whole_namespace` that is the last resort, and everybody else
    goes on a moment later. `deadline` is a time of the monotonic clock.
    """
    rounds = 0
    while found := members(table := read_table()):
        if time.monotonic() > deadline:
            return False
        rounds += 1
        if whole_namespace and rounds % 3 == 0:
            _end_while_all_stand_still(members, stopped={pid for pid in table if table[pid].state == "T"})
        else:
            _end_standing(members, found, deadline)
        time.sleep(PAUSE_SECONDS)
    return True


def _end_standing(members: Callable[[Table], set[int]], found: set[int], deadline: float) -> None:
    stopped: set[int] = set()
    for _ in range(SWEEPS):
        new = found - stopped
        if not new or time.monotonic() > deadline:
            break
        send(new, signal.SIGSTOP)
        stopped |= new
        found = members(read_table())
    send(found, signal.SIGKILL)


def _end_while_all_stand_still(members: Callable[[Table], set[int]], stopped: set[int]) -> None:
    os.kill(-1, signal.SIGSTOP)
    try:
        table = read_table()
        found = members(table)
        send(found, signal.SIGKILL)
    finally:
        send(read_table().keys() - stopped - {os.getpid()}, signal.SIGCONT)


def memory_bytes(pids: Iterable[int]) -> int:
    """Anonymous and shared memory of these processes; what several of them share is counted as often."""
    return sum(_status_bytes(pid) for pid in pids)


def _status_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 as above
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))


def proportional_bytes(pids: Iterable[int]) -> int:
    """The same with what is shared divided among those that share it; slow, so ask only when the sum is too high."""
    return sum(_proportional(pid) for pid in pids)


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 as above
            lines = file.read().splitlines()
    except OSError:
        # Not readable: counted in full rather than not at all.
        return _status_bytes(pid)
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")))
