"""Opening and making files beneath a directory without ever following a link. Blocking.

Every component is opened relative to its parent's descriptor with O_NOFOLLOW, and `..` is never a component, so
whatever a hostile command does to the tree meanwhile, nothing outside it is touched. The same calls work on Linux and
macOS.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence

from sandboxd.backends.base import BackendError

MAX_NAME = 255  # NAME_MAX of every common file system
MAX_PATH = 4096
MAX_DEPTH = 64

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def parts(path: bytes, *, what: str = "path") -> tuple[bytes, ...]:
    """The components of a relative path; none for the root itself. Raises BackendError (SPEC_INVALID)."""
    if path in (b"", b"."):
        return ()
    if len(path) > MAX_PATH:
        raise _refused(what, path, f"{MAX_PATH} bytes at most")
    if path.startswith(b"/"):
        raise _refused(what, path, "a path relative to the workspace")
    if b"\0" in path:
        raise _refused(what, path, "a path without NUL")
    found = tuple(part for part in path.rstrip(b"/").split(b"/") if part != b".")
    if len(found) > MAX_DEPTH:
        raise _refused(what, path, f"{MAX_DEPTH} components at most")
    for part in found:
        if part == b"..":
            raise _refused(what, path, "a path without '..'")
        if not part:
            raise _refused(what, path, "a path without '//'")
        if len(part) > MAX_NAME:
            raise _refused(what, path, f"components of {MAX_NAME} bytes at most")
    return found


@contextlib.contextmanager
def directory(root: int, path: Sequence[bytes], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory at a path beneath `root`; with `make`, what is missing is made.

    Raises BackendError: PATH_NOT_FOUND, SPEC_INVALID when a component is a link or no directory, or DISK_LOW.
    """
    current = os.dup(root)
    try:
        for index, part in enumerate(path):
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=current)
                child = os.open(part, _DIRECTORY, dir_fd=current)
            except OSError as error:
                raise _cannot_open(path[: index + 1], error) from None
            os.close(current)
            current = child
        yield current
    finally:
        os.close(current)


def _cannot_open(path: Sequence[bytes], error: OSError) -> BackendError:
    name = printable(b"/".join(path))
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BackendError("DISK_LOW", f"{name}: it could not be made: {error.strerror}")
    if error.errno == errno.ENOENT:
        return BackendError("PATH_NOT_FOUND", f"{name}: there is no such directory", path=name)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return BackendError("SPEC_INVALID", f"{name}: it is a link or no directory, and links are not followed")
    return BackendError("SPEC_INVALID", f"{name}: {error.strerror}")


def printable(name: bytes) -> str:
    """A name for messages: printable ASCII, everything else escaped."""
    return name.decode("ascii", "backslashreplace").encode("unicode_escape").decode("ascii")[:300]


def _refused(what: str, path: bytes, allowed: str) -> BackendError:
    found = printable(path)
    return BackendError("SPEC_INVALID", f"{what}: found {found!r}; allowed is {allowed}", field=what, found=found)
