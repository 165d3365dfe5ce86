"""What of this host a bubblewrap sandbox sees, read-only: an allowlist, not the root directory with holes.

System directories, the tools in the user's home that PATH names, and the interpreter of the supervisor. What an
ordinary user could not read is covered, and so are the host's unix sockets: a read-only mount does not keep anybody
from connecting to one.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandboxd.backends.process.supervisor import interpreter
from sandboxd.backends.process.tools import homes, is_beneath, outermost, tools_of
from sandboxd.backends.process.tree import is_directory, is_socket

# Those that exist; /nix/var has the socket of a daemon that builds with a network.
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/nix/var/nix/profiles",
)
# NixOS finds its programs through this link, in a directory that the sandbox has of its own.
LINKS = ("/run/current-system",)

# Tools that look for their own directory in HOME, which in a sandbox is another: a link leads there.
HOME_LINKS = (".rustup",)

# World-readable files that tell about the kernel, or about others' keys.
PROC_FILES = ("kallsyms", "key-users", "keys", "latency_stats", "sched_debug", "timer_list")

_R, _X = 0o4, 0o1


@dataclass(frozen=True, slots=True)
class View:
    """The parts of the host, by their paths, which are the same inside.

    `links` are symbolic links and their targets. `hidden` are files and directories to cover. `home_links` are made in
    the sandbox's HOME.
    """

    directories: Sequence[str]
    links: Mapping[str, str]
    hidden_files: Sequence[str]
    hidden_directories: Sequence[str]
    home_links: Mapping[str, str]
    path: str

    def shows(self, path: str) -> bool:
        """Whether a path is beneath one of the directories."""
        return any(is_beneath(path, directory) for directory in self.directories)


def view(path: str, *, as_other: bool) -> View:
    """What of this host a sandbox sees, when the daemon's PATH is `path`. Blocking.

    With `as_other`, the sandbox runs as a user without any right of its own, and what it can't read needs no cover.
    """
    own_homes = homes()
    tools = list(tools_of(path.split(os.pathsep), own_homes))
    links, system = _links([*SYSTEM, *LINKS])
    directories = outermost([*system, *tools, str(Path(sys.base_prefix).resolve()), str(Path(interpreter()).parent)])
    hidden = [] if as_other else list(_private(["/etc", *_children("/opt")]))
    hidden += [socket for socket in _sockets() if any(is_beneath(socket, directory) for directory in directories)]
    home_links = {
        name: str(Path(home, name)) for home in own_homes for name in HOME_LINKS if str(Path(home, name)) in tools
    }
    found = View(
        directories,
        links,
        [each for each in hidden if not is_directory(each)],
        [each for each in hidden if is_directory(each)],
        home_links,
        "",
    )
    entries = dict.fromkeys(entry for entry in path.split(os.pathsep) if _is_usable(entry, found))
    return View(
        found.directories,
        found.links,
        found.hidden_files,
        found.hidden_directories,
        found.home_links,
        os.pathsep.join(entries),
    )


def _is_usable(entry: str, found: View) -> bool:
    real = os.path.realpath(entry)
    return entry.startswith("/") and found.shows(real) and is_directory(real)


def _links(paths: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Which of these are symbolic links, with their targets, and which are directories."""
    links: dict[str, str] = {}
    directories = []
    for each in paths:
        path = Path(each)
        if path.is_symlink():
            links[each] = str(path.readlink())
        elif is_directory(path):
            directories.append(each)
    return links, directories


def _children(directory: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(directory))
    except OSError:
        return []


def _private(tops: Iterable[str]) -> Iterator[str]:
    """What this user may read beneath these and others may not; of /opt's children, only themselves."""
    for top in tops:
        if _is_private(top):
            yield top
        elif top == "/etc":
            yield from _private_within(top)


def _private_within(top: str) -> Iterator[str]:
    for directory, names, files in os.walk(top, followlinks=False):
        for name in list(names):
            path = str(Path(directory, name))
            if _is_private(path):
                names.remove(name)
                yield path
        yield from (path for name in files if _is_private(path := str(Path(directory, name))))


def _is_private(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        return False
    needed = _R | _X if stat.S_ISDIR(mode) else _R
    return mode & needed != needed and os.access(path, os.R_OK)


def _sockets() -> list[str]:
    """The host's unix sockets that have a path (proc(5), /proc/net/unix)."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    paths = {fields[7] for line in lines if len(fields := line.split(None, 7)) == 8 and fields[7].startswith("/")}
    return sorted(path for each in paths if is_socket(path := os.path.realpath(each)))
