"""How the daemon is reached. A unix socket of mode 0600 now; whoever may open it is its owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import grpc

# A vanished host is noticed in 15 s; without these a stream to it hangs for good. The peer pings as often.
OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
)
# `sun_path` of Linux has 108 bytes with the final NUL, of macOS 104.
MAX_PATH = 103


class ListenError(Exception):
    """The address can't be listened on; the message says why."""


@contextlib.contextmanager
def listening(server: grpc.aio.Server, path: Path) -> Iterator[None]:
    """Bind the server to a unix socket, and remove the socket at the end. Raises ListenError."""
    path = path.absolute()
    if len(os.fsencode(path)) > MAX_PATH:
        raise ListenError(f"{path} is longer than the {MAX_PATH} bytes that a unix socket's path may have")
    _check_directory(path.parent)
    with _alone_in(path.parent):
        _make_room(path)
        before = os.umask(0o177)
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError:
            raise ListenError(f"{path} can't be bound; is its directory writable?") from None
        finally:
            os.umask(before)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _check_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise ListenError(f"{directory} can't be used: {error.strerror}") from None
    sticky = found.st_mode & stat.S_ISVTX
    if found.st_uid not in (os.getuid(), 0) or (found.st_mode & 0o022 and not sticky):
        raise ListenError(f"others may write in {directory}: they could put their own socket there")


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Of daemons that start at once in a directory, one after the other looks for a socket and binds its own."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _make_room(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ListenError(f"{path} exists and is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)  # left by a daemon that was killed
            return
        except OSError as error:
            raise ListenError(f"{path} is in use: {error.strerror}") from None
    raise ListenError(f"another daemon is listening on {path}")
