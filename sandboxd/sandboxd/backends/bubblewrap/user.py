"""Which user of this host a sandbox runs as: never root.

A process whose user is the host's root may write the kernel's settings beneath /proc/sys by the mode of the files
alone, without any capability and in whatever user namespace it is; and it may read every file that a sandbox shows. So
a daemon that is root starts each sandbox as a user of its own that nobody else is.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

# No distribution gives these out (systemd's table of users and groups calls the range unused).
FIRST, COUNT = 0x70000000, 1 << 24
# Where fewer users exist, as in a container: its upper end, where systemd has its transient users.
FEW = 4096


class NoUserError(Exception):
    """The daemon is root and there is no other user that it could be."""


def choose(uid_map: str | None = None) -> int | None:
    """A user and group for one sandbox; None when the daemon is an ordinary user: the sandbox is that user.

    `uid_map` is the content of /proc/self/uid_map. Raises NoUserError.
    """
    if os.geteuid() != 0:
        return None
    rows = [tuple(int(field) for field in line.split()) for line in (uid_map or _uid_map()).splitlines()]
    end = max((first + count for first, _, count in rows), default=0)
    if any(first <= FIRST and first + count >= FIRST + COUNT for first, _, count in rows):
        return FIRST + secrets.randbelow(COUNT)
    if any(first <= end - FEW and end == first + count for first, _, count in rows):
        # The last number is often nobody's.
        return end - FEW + secrets.randbelow(FEW - 16)
    raise NoUserError("the daemon is root of a user namespace without other users")


def _uid_map() -> str:
    return Path("/proc/self/uid_map").read_text()
