"""Making paths reachable for the users that sandboxes run as, when the daemon is root.

bubblewrap finds what it mounts by path, as the sandbox's user, which may not pass directories such as /root. So the
thread that starts bubblewrap moves to a mount namespace of its own and covers each such directory with an empty one
that everybody may pass, in which only what is needed appears, at its own path. The host sees nothing of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from sandboxd.backends.process.tree import is_directory

CLONE_NEWNS = 0x00020000
MS_REC, MS_BIND, MS_SLAVE = 0x4000, 0x1000, 0x80000
OTHERS_MAY_PASS = 0o001


def enter(needed: Sequence[str]) -> None:
    """Move the calling thread to a mount namespace in which everybody can reach the paths `needed`.

    Blocking; for a thread that does nothing else. Raises OSError when the daemon may not make mounts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    blocked = blocked_by(needed)
    if not blocked:
        return
    _call(libc.unshare, CLONE_NEWNS)
    # What the host unmounts must go from here too, and nothing from here may reach the host.
    _call(libc.mount, None, b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None)
    for top, paths in blocked.items():
        _cover(libc, top, paths)


def blocked_by(needed: Iterable[str]) -> dict[str, list[str]]:
    """The paths that others can't reach, by the first directory on the way that they may not pass."""
    found: dict[str, list[str]] = {}
    for path in sorted({os.path.realpath(each) for each in needed}):
        for directory in reversed(Path(path).parents):
            with contextlib.suppress(OSError):
                if not directory.stat().st_mode & OTHERS_MAY_PASS:
                    found.setdefault(str(directory), []).append(path)
                    break
    return found


def _cover(libc: ctypes.CDLL, top: str, paths: Sequence[str]) -> None:
    # Opened before the cover hides them.
    opened = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            opened.append((path, os.open(path, os.O_PATH | os.O_CLOEXEC), is_directory(path)))
    try:
        _call(libc.mount, b"tmpfs", os.fsencode(top), b"tmpfs", ctypes.c_ulong(0), b"size=1m,mode=755")
        for path, descriptor, whole in opened:
            target = Path(path)
            (target if whole else target.parent).mkdir(mode=0o755, parents=True, exist_ok=True)
            if not whole:
                target.touch()
            source = os.fsencode(f"/proc/self/fd/{descriptor}")
            _call(libc.mount, source, os.fsencode(path), None, ctypes.c_ulong(MS_BIND), None)
    finally:
        for _, descriptor, _ in opened:
            os.close(descriptor)


def _call(function: object, *arguments: object) -> None:
    if function(*arguments) != 0:  # type: ignore[operator]  # ctypes' functions have no public type
        number = ctypes.get_errno()
        raise OSError(number, f"{getattr(function, '__name__', 'call')}: {os.strerror(number)}")
