"""The first process of a sandbox: it starts commands, ends them with all that they started, and ends with its daemon.

In bubblewrap it is process 1 of the sandbox's pid namespace, so that its end is everybody's; on the local backend it is
an ordinary child of the daemon that adopts orphans. One thread, one loop. Commands' output does not pass through here:
the daemon sends the writing ends of its pipes. When the daemon's end of the socket closes, this ends.
"""

from __future__ import annotations

import array
import contextlib
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

from sandboxd.inside import frames, processes, selftest, sockets, system
from sandboxd.inside.command import ENDED, FAILED, RECORD, STARTED, Command, Streams, explain, start_guard
from sandboxd.inside.frames import Frame, FrameError
from sandboxd.inside.processes import Table

READ_BYTES = 1 << 16
# A command and all that it started are gone within this, or the daemon is told that they aren't.
KILL_SECONDS = 4.0
# How long a guard may take to see that nothing is left, before there is another look for what is.
GUARD_SECONDS = 0.1
# How often memory and processes are looked at where no control group counts them. A look takes a tenth at most.
WATCH_SECONDS = 0.2
WATCH_SHARE = 10.0
CROWDED = 0.98
# With the fewest files of any use to a program, a tmpfs can't fill the kernel's memory with names.
TMPFS_INODES = 16384


class Guarded:
    """A command in this sandbox. `guard` is 0 once the guard has ended, `main` 0 until the main process is known."""

    __slots__ = ("command", "ended", "guard", "handle", "main", "number", "report", "trail", "waiting")

    def __init__(self, number: int, command: Command, guard: int, report: int) -> None:
        self.number = number
        self.command = command
        self.guard = guard
        self.report = report
        self.main = 0
        self.handle = -1  # of the main process; a number can be taken over by another
        self.ended = False  # the daemon knows how the main process ended
        self.waiting: list[int] = []  # signals that came before the main process was known
        self.trail = processes.Trail()

    def started(self, main: int) -> None:
        self.main = main
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # it has ended already
                self.handle = os.pidfd_open(main)
        for number in self.waiting:
            self.signal(number)

    def signal(self, number: int) -> None:
        """Signal the main process, if it is still there."""
        if self.ended:
            return
        if not self.main:
            self.waiting.append(number)
        elif self.handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.handle, number)
        elif not hasattr(os, "pidfd_open"):
            processes.send([self.main], number)

    def close(self) -> None:
        for descriptor in (self.report, self.handle):
            if descriptor >= 0:
                os.close(descriptor)
        self.report = self.handle = -1


class Settings:
    """What the daemon says first."""

    def __init__(self, fields: tuple[bytes, ...]) -> None:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        self.isolated = values[b"isolated"] == b"yes"
        self.uid = int(values[b"uid"])
        self.gid = int(values[b"gid"])
        self.seccomp = values[b"seccomp"]
        self.empty = os.fsdecode(values[b"empty"])
        self.tmpfs = [pair.rsplit(b"=", 1) for pair in values[b"tmpfs"].split(b"\0") if pair]
        # 0: somebody else looks after it.
        self.memory = int(values[b"memory"])
        self.pids = int(values[b"pids"])
        self.wrapper = [part for part in values[b"wrapper"].split(b"\0") if part]
        self.limits = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, int(values[b"nofile"])),
            (resource.RLIMIT_FSIZE, int(values[b"fsize"])),
        ]
        if self.pids:
            # In a user namespace of its own, this is the sandbox's number of processes (setrlimit(2)).
            self.limits.append((resource.RLIMIT_NPROC, self.pids))


class Supervisor:
    """The loop and what it knows."""

    def __init__(self, channel: socket.socket, *, adopts: bool) -> None:
        self._channel = channel
        self._adopts = adopts  # orphans become this process's children
        self._decoder = frames.Decoder()
        self._received: list[int] = []  # descriptors whose frame is not complete yet
        self._commands: dict[int, Guarded] = {}
        self._settings: Settings | None = None
        self._sealed = False
        self._look_at = 0.0
        self._crowded = False
        self._poll = select.poll()
        self._woken, wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the daemon's end of the socket closes; then end whatever still runs."""
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._send(Frame(frames.READY))
        try:
            while self._step():
                pass
        finally:
            self._end_everything()

    def _step(self) -> bool:
        for descriptor, _ in self._poll.poll(self._patience()):
            if descriptor == self._channel.fileno():
                if not self._read_channel():
                    return False
            elif descriptor == self._woken:
                os.read(self._woken, 4096)
            else:
                self._read_reports(descriptor)
        self._reap()
        if self._watches() and time.monotonic() >= self._look_at:
            self._look()
        return True

    def _watches(self) -> bool:
        if self._settings is None or not self._commands:
            return False
        return bool(self._settings.memory or self._settings.pids) or not self._adopts

    def _patience(self) -> float | None:
        return max(0.0, self._look_at - time.monotonic()) * 1000 if self._watches() else None

    # --- The daemon ---------------------------------------------------------------------------------------------

    def _read_channel(self) -> bool:
        space = socket.CMSG_SPACE(frames.MAX_DESCRIPTORS * struct.calcsize("i"))
        try:
            data, ancillary, flags, _ = self._channel.recvmsg(READ_BYTES, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except ConnectionError:
            return False
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(content) - len(content) % struct.calcsize("i")
                self._received += array.array("i", content[:whole])
        if not data or flags & socket.MSG_CTRUNC:
            return False
        for frame in self._decoder.feed(data):
            self._handle(frame)
        return True

    def _handle(self, frame: Frame) -> None:
        descriptors = self._received[: frame.descriptors]
        del self._received[: frame.descriptors]
        if frame.kind == frames.START:
            self._start(frame, Streams(*descriptors))
        elif frame.kind == frames.SIGNAL:
            self._signal(frame)
        elif frame.kind == frames.KILL:
            self._kill(frame.number)
        elif frame.kind == frames.CONFIGURE:
            self._settings = Settings(frame.fields)
        else:
            self._prepare(frame)

    def _prepare(self, frame: Frame) -> None:
        steps = {frames.PLANT: self._plant, frames.SEAL: self._seal, frames.TEST: self._test}
        if frame.kind not in steps:
            raise FrameError(f"a frame of kind {frame.kind!r}")
        try:
            steps[frame.kind](frame)
        except (OSError, system.SealError) as error:
            self._send(Frame(frames.ANSWER, frame.number, [str(error).encode()]))

    def _plant(self, frame: Frame) -> None:
        settings = self._configured()
        system.open_low_ports()
        for path, size in settings.tmpfs:
            system.limit_inodes(os.fsdecode(path), int(size), TMPFS_INODES)
        planted = sockets.plant_here(may_redirect=frame.fields[0] == b"yes")
        passed = [planted.proxy, planted.dns_udp, planted.dns_tcp, *(planted.transparent[p] for p in (80, 443))]
        answer = [b"", b"yes" if planted.redirected else b"no", planted.pool.encode()]
        self._send(Frame(frames.ANSWER, frame.number, answer, len(passed)), passed)
        for listener in passed:
            listener.close()

    def _seal(self, frame: Frame) -> None:
        settings = self._configured()
        if settings.isolated and not self._sealed:
            system.set_dumpable(True)  # else its own /proc is not its to write
            system.seal(settings.uid, settings.gid, settings.seccomp, empty=settings.empty)
            system.set_dumpable(False)
        self._sealed = True
        self._send(Frame(frames.ANSWER, frame.number, [b""]))

    def _test(self, frame: Frame) -> None:
        problems = selftest.check_here(filtered=self._sealed)
        self._send(Frame(frames.ANSWER, frame.number, ["; ".join(problems).encode()]))

    def _configured(self) -> Settings:
        if self._settings is None:
            raise FrameError("no settings came first")
        return self._settings

    def _send(self, frame: Frame, passed: list[socket.socket] | None = None) -> None:
        data = frame.encode()
        ancillary = []
        if passed:
            ancillary = [
                (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno() for listener in passed]))
            ]
        try:
            sent = self._channel.sendmsg([data], ancillary)
            self._channel.sendall(data[sent:])
        except (BrokenPipeError, ConnectionError):
            return  # the next read finds the end

    # --- Commands -----------------------------------------------------------------------------------------------

    def _start(self, frame: Frame, streams: Streams) -> None:
        settings = self._configured()
        directory, count, *rest = frame.fields
        arguments, variables = rest[: int(count)], rest[int(count) :]
        environment = dict(variable.split(b"=", 1) for variable in variables)
        command = Command(arguments, directory, environment, settings.limits, settings.wrapper)
        try:
            if settings.isolated and not self._sealed:
                raise PermissionError(0, "the sandbox is not sealed")
            guard, report = start_guard(command, streams)
        except OSError as error:
            code, text = explain(error.errno or 0, 0, command)
            self._tell_end(frame.number, code, text=text)
            self._send(Frame(frames.GONE, frame.number))
            return
        finally:
            streams.close()
        os.set_blocking(report, False)
        self._commands[frame.number] = Guarded(frame.number, command, guard, report)
        self._poll.register(report, select.POLLIN)

    def _signal(self, frame: Frame) -> None:
        command = self._commands.get(frame.number)
        if command is None:
            return
        number = int(frame.fields[0])
        if frame.fields[1] == b"all":
            processes.send(self._members(processes.read_table(), command), number)
        else:
            command.signal(number)

    def _kill(self, number: int) -> None:
        command = self._commands.get(number)
        problem = "" if command is None else self._end(command)
        self._send(Frame(frames.DONE, number, [problem.encode()]))

    def _end(self, command: Guarded) -> str:
        """End a command with all that it started, and wait until its guard is gone; what went wrong, or nothing."""
        deadline = time.monotonic() + KILL_SECONDS
        # A look at many processes is no picture of one moment, so one may be missed; a guard misses none, because the
        # kernel tells it when it has no child any more.
        while command.number in self._commands and time.monotonic() < deadline:
            processes.end_all(
                lambda table: self._members(table, command), deadline=deadline, whole_namespace=os.getpid() == 1
            )
            # One that the command had stopped can't be told.
            processes.send([command.guard] if command.guard else [], signal.SIGCONT)
            self._await_end(command, min(deadline, time.monotonic() + GUARD_SECONDS))
        return f"processes of the command did not end in {KILL_SECONDS:g} s" if command.number in self._commands else ""

    def _await_end(self, command: Guarded, deadline: float) -> None:
        while True:
            self._reap()
            if command.number not in self._commands or time.monotonic() > deadline:
                return
            time.sleep(processes.PAUSE_SECONDS)

    def _members(self, table: Table, command: Guarded) -> set[int]:
        """What a command has started and is left, its guard excepted.

        Who kills its guard makes its processes orphans, which come to this process without a mark of whose they are:
        they belong to every command that has lost its guard, and to any when none has.
        """
        if not self._adopts:
            return command.trail.follow(table, {command.guard} & table.keys())
        if command.guard in table:
            below = processes.descendants(table, [command.guard])
            return below if self._without_guard() else below | self._orphans(table)
        return self._orphans(table)

    def _orphans(self, table: Table) -> set[int]:
        guards = {command.guard for command in self._commands.values()} & table.keys()
        everybody = set(table) if os.getpid() == 1 else processes.descendants(table, [os.getpid()])
        return everybody - guards - processes.descendants(table, guards) - {os.getpid()}

    def _without_guard(self) -> list[Guarded]:
        return [command for command in self._commands.values() if not command.guard]

    # --- How commands end ---------------------------------------------------------------------------------------

    def _read_reports(self, descriptor: int) -> None:
        command = next((c for c in self._commands.values() if c.report == descriptor), None)
        if command is not None and not self._read_report(command):
            self._poll.unregister(descriptor)

    def _read_report(self, command: Guarded) -> bool:
        """Take one record, if there is one; False at the end."""
        try:
            record = os.read(command.report, RECORD.size)
        except BlockingIOError:
            return True
        if len(record) < RECORD.size:
            return False
        kind, first, second = RECORD.unpack(record)
        if kind == STARTED:
            command.started(first)
        elif kind == FAILED and not command.ended:
            command.ended = True
            code, text = explain(first, second, command.command)
            self._tell_end(command.number, code, text=text)
        elif kind == ENDED:
            self._tell_status(command, first)
        return True

    def _tell_status(self, command: Guarded, status: int) -> None:
        if not command.ended:
            command.ended = True
            code = os.waitstatus_to_exitcode(status)
            self._tell_end(command.number, code if code >= 0 else 128 - code, max(0, -code))

    def _tell_end(self, number: int, code: int, by: int = 0, text: str = "") -> None:
        self._send(Frame(frames.EXITED, number, [b"%d" % code, b"%d" % by, text.encode()]))

    def _reap(self) -> None:
        ended = _reaped()
        # Guards first: what one said last tells whose a main process was.
        guards = {command.guard for command in self._commands.values()}
        for pid, status in sorted(ended, key=lambda each: each[0] not in guards):
            self._ended(pid, status)
        for command in self._without_guard():
            # Twice, because of what one look may miss.
            if not any(self._members(processes.read_table(), command) for _ in range(2)):
                self._finish(command)

    def _ended(self, pid: int, status: int) -> None:
        for command in list(self._commands.values()):
            if command.guard == pid:
                command.guard = 0
                self._read_last_reports(command)
                if status == 0 and self._adopts:
                    self._finish(command)
                return
            if command.main == pid:
                self._tell_status(command, status)
                return

    def _read_last_reports(self, command: Guarded) -> None:
        with contextlib.suppress(KeyError):  # its end has been read already
            self._poll.unregister(command.report)
        os.set_blocking(command.report, True)
        while self._read_report(command):
            pass

    def _finish(self, command: Guarded) -> None:
        if not command.ended:
            # Nobody saw it, because its guard was killed: most likely with it.
            self._tell_end(command.number, 128 + signal.SIGKILL, signal.SIGKILL)
        self._send(Frame(frames.GONE, command.number))
        command.close()
        del self._commands[command.number]

    def _end_everything(self) -> None:
        """Nothing outlives the supervisor. The kernel sees to it where it is the first process of a namespace."""
        if os.getpid() != 1:
            processes.end_all(self._everything, deadline=time.monotonic() + KILL_SECONDS, whole_namespace=False)

    def _everything(self, table: Table) -> set[int]:
        found = processes.descendants(table, [os.getpid()])
        return found.union(*(self._members(table, command) for command in self._commands.values()))

    # --- Limits -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        began = time.monotonic()
        settings = self._configured()
        table = processes.read_table()
        if not self._adopts:
            for command in self._commands.values():
                command.trail.follow(table, {command.guard} & table.keys())
        if settings.pids:
            # This process counts too. What can't fork tries again a moment later, so the limit itself is seldom seen.
            crowded = 1 + sum(process.threads for process in table.values()) >= settings.pids * CROWDED
            if crowded and not self._crowded:
                self._send(Frame(frames.LIMIT, 0, [b"pids"]))
            self._crowded = crowded
        if settings.memory:
            self._look_at_memory(table, settings.memory)
        self._look_at = time.monotonic() + max(WATCH_SECONDS, WATCH_SHARE * (time.monotonic() - began))

    def _look_at_memory(self, table: Table, limit: int) -> None:
        guards = {command.guard for command in self._commands.values()}
        others = set(table) - guards - {os.getpid()}
        if processes.memory_bytes(others) <= limit or processes.proportional_bytes(others) <= limit:
            return
        sizes = {c.number: processes.memory_bytes(self._members(table, c)) for c in self._commands.values()}
        largest = max(sizes, key=lambda number: sizes[number])
        self._send(Frame(frames.LIMIT, largest, [b"memory"]))
        self._end(self._commands[largest])


def _reaped() -> list[tuple[int, int]]:
    """The children that have ended, and how."""
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        ended.append((pid, status))
    return ended


def main() -> None:
    """Be the supervisor on the socket whose descriptor is the first argument."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    system.set_dumpable(False)
    adopts = os.getpid() == 1 or system.adopt_orphans()
    Supervisor(socket.socket(fileno=int(sys.argv[1])), adopts=adopts).run()
    # Nothing is left to tidy up, and as process 1 this takes everything with it.
    os._exit(0)
