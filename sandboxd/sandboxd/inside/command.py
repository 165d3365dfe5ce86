"""One command: a guard process that stands above everything that the command starts, and the command itself.

The guard is the parent that orphans below it fall back to, so that whatever a command forks, in whatever session, stays
its descendant. It starts the command, tells the supervisor how that went, and lives for as long as a descendant does.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from sandboxd.inside import processes, system

# What a guard tells: its command's pid; the error that kept it from starting and at which step; its wait status.
RECORD = struct.Struct("!cii")
STARTED, FAILED, ENDED = b"P", b"F", b"X"
IN_PREPARATION, IN_DIRECTORY, IN_PROGRAM = 0, 1, 2

# What this process may have changed; a command begins with the system's own dispositions.
SIGNALS = ("SIGCHLD", "SIGHUP", "SIGINT", "SIGPIPE", "SIGTERM", "SIGXFSZ")
# Commands go before the supervisor when the kernel looks for somebody to end (proc(5), oom_score_adj).
OOM_SCORE = 500
# How long a guard whose supervisor is gone tries to end what it guards.
ORPHANED_SECONDS = 5.0
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"


class Command:
    """What to run. `limits` are pairs of an RLIMIT constant and its value; `wrapper` is a program that runs it."""

    __slots__ = ("arguments", "directory", "environment", "limits", "wrapper")

    def __init__(
        self,
        arguments: Sequence[bytes],
        directory: bytes,
        environment: Mapping[bytes, bytes],
        limits: Sequence[tuple[int, int]],
        wrapper: Sequence[bytes] = (),
    ) -> None:
        self.arguments = arguments
        self.directory = directory
        self.environment = environment
        self.limits = limits
        self.wrapper = wrapper


class Streams:
    """The descriptors that a command gets: stdout and stderr are one; `stdin` -1 is /dev/null."""

    __slots__ = ("output", "stdin")

    def __init__(self, output: int, stdin: int = -1) -> None:
        self.output = output
        self.stdin = stdin

    def close(self) -> None:
        for descriptor in (self.output, self.stdin):
            if descriptor >= 0:
                os.close(descriptor)


def start_guard(command: Command, streams: Streams) -> tuple[int, int]:
    """Fork a guard for this command; its pid, and the pipe that it reports to. Raises OSError: no more processes."""
    reading, writing = os.pipe()
    try:
        guard = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if guard == 0:
        try:
            _guard(command, streams, writing)
        except BaseException:  # noqa: BLE001 whatever happens, the supervisor's code must not go on running here
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    os.close(writing)
    return guard, reading


def explain(number: int, step: int, command: Command) -> tuple[int, str]:
    """The exit code that a shell would give (POSIX.1-2017, XCU 2.8.2), and the reason for people."""
    reason = os.strerror(number)
    if step == IN_DIRECTORY:
        return 126, f"no such directory: {command.directory.decode(errors='replace')} ({reason})"
    if step == IN_PROGRAM:
        missing = number in (errno.ENOENT, errno.ENOTDIR)
        what = "no such program" if missing else "not a program"
        return 127 if missing else 126, f"{what}: {command.arguments[0].decode(errors='replace')} ({reason})"
    return 126, f"the command could not be prepared: {reason}"


def _guard(command: Command, streams: Streams, report: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _close_all_but({0, 1, 2, report, streams.output, streams.stdin})
    os.setsid()
    parent = os.getppid()
    if system.adopt_orphans() and parent != 1:
        # Where no namespace ends with the supervisor, the guard ends what it guards.
        signal.signal(signal.SIGTERM, lambda *_: _end_descendants())
        system.signal_at_parents_end(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)
    error_reading, error_writing = os.pipe()
    # A signal that comes before the command has its own dispositions waits until it has.
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        main = os.fork()
    except OSError as error:
        os.write(report, RECORD.pack(FAILED, error.errno or 0, IN_PREPARATION))
        os._exit(0)
    if main == 0:
        try:
            _become(command, streams, error_writing)
        finally:
            os._exit(126)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.write(report, RECORD.pack(STARTED, main, 0))
    os.close(error_writing)
    streams.close()
    if failure := os.read(error_reading, RECORD.size):
        os.write(report, failure)
    os.close(error_reading)
    _reap(main, report)
    os._exit(0)


def _reap(main: int, report: int) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == main:
            os.write(report, RECORD.pack(ENDED, status, 0))


def _end_descendants() -> None:
    guard = os.getpid()
    processes.end_all(
        lambda table: processes.descendants(table, [guard]),
        deadline=time.monotonic() + ORPHANED_SECONDS,
        whole_namespace=False,
    )
    os._exit(0)


def _become(command: Command, streams: Streams, error: int) -> None:
    """Turn this process into the command. Returns only after having told why not."""
    step = IN_PREPARATION
    try:
        _prepare(command, streams)
        step = IN_DIRECTORY
        os.chdir(command.directory)
        step = IN_PROGRAM
        _execute(command)
    except OSError as failure:
        os.write(error, RECORD.pack(FAILED, failure.errno or 0, step))


def _prepare(command: Command, streams: Streams) -> None:
    os.setsid()
    stdin = streams.stdin if streams.stdin >= 0 else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for target, descriptor in enumerate((stdin, streams.output, streams.output)):
        os.dup2(descriptor, target)
    os.umask(0o022)
    if system.LINUX:
        system.set_dumpable(True)  # else its files in /proc are not its own
        _offer_to_oom_killer()
    for which, wanted in command.limits:
        _, hard = resource.getrlimit(which)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(which, (value, value))
    for name in SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _offer_to_oom_killer() -> None:
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, str(OOM_SCORE).encode())
    os.close(descriptor)


def _execute(command: Command) -> None:
    refused: OSError | None = None
    missing: OSError | None = None
    for path in _candidates(command.arguments[0], command.environment.get(b"PATH", DEFAULT_PATH)):
        try:
            if command.wrapper:
                _check_program(path)
                arguments = [*command.wrapper, path, *command.arguments[1:]]
            else:
                arguments = list(command.arguments)
            os.execve(arguments[0] if command.wrapper else path, arguments, dict(command.environment))  # noqa: S606
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except PermissionError as error:
            refused = error
    raise refused or missing or FileNotFoundError(errno.ENOENT, "")


def _check_program(path: bytes) -> None:
    """What the system would say of a program that another one is to run."""
    mode = os.stat(path).st_mode  # noqa: PTH116 pathlib costs a third of the start
    if not stat.S_ISREG(mode) or not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _candidates(program: bytes, path: bytes) -> Iterator[bytes]:
    if b"/" in program:
        yield program
    elif program:
        yield from (directory + b"/" + program for directory in path.split(b":") if directory.startswith(b"/"))


def _close_all_but(kept: set[int]) -> None:
    last = -1
    for descriptor in sorted(fd for fd in kept if fd >= 0):
        if descriptor > last + 1:  # an empty range would be taken for all
            os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, 1 << 20 if sys.platform == "linux" else os.sysconf("SC_OPEN_MAX"))
