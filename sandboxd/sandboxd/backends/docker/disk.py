"""How much a container has written: its writable layer, and what it keeps open after having removed it.

ext4 has no quota for a layer, so the layer is measured again and again. Walking never follows a link and never leaves
the layer: its content is hostile. Each entry counts at least a kilobyte, so that millions of empty files have a price.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

ENTRY_BYTES = 1024
BLOCK = 512


def layer_bytes(upper: Path, enough: int) -> int:
    """Bytes on disk beneath the writable layer; stops counting once `enough` is passed."""
    total = 0
    # A layer that is being removed, because its container ended, has no size that matters.
    with contextlib.suppress(OSError):
        for size in _sizes(upper):
            total += size
            if total > enough:
                break
    return total


def _sizes(upper: Path) -> Iterator[int]:
    seen: set[int] = set()
    # fwalk opens each directory by its parent's descriptor and compares what it opened with what it saw.
    for _, directories, files, descriptor in os.fwalk(upper, onerror=None, follow_symlinks=False):
        for name in (*directories, *files):
            with contextlib.suppress(OSError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    if found.st_ino in seen:
                        yield ENTRY_BYTES
                        continue
                    seen.add(found.st_ino)
                yield max(found.st_blocks * BLOCK, ENTRY_BYTES)


def removed_bytes(pids: Iterable[int], device: int) -> int:
    """Bytes of files on this device that have no name any more and that these processes hold open."""
    held: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = Path(entry.path).stat()
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0 and found.st_dev == device:
                        held[found.st_ino] = found.st_blocks * BLOCK
    return sum(held.values())
