"""The profile of a sandbox, in seatbelt's own language. Pure: places in, text out.

Everything is denied first, and what follows allows the least that shells, interpreters and package managers need. Of
several rules that fit, the last one counts. Paths are real ones (/private/tmp, not /tmp), because that is what the
kernel compares; they stand in the text as JSON strings, which the language reads alike.

What is left out on purpose: name resolution (mDNSResponder, port 53), LaunchServices and Apple events, which start
programs outside of the sandbox; other terminals; the processes of others; `with no-sandbox`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sandboxd.backends.process.tools import is_beneath, outermost

# The system's own, readable by everybody; secrets in them are kept by their modes.
SYSTEM = (
    "/System",
    "/Library/Apple",
    "/Library/Developer",
    "/Library/Frameworks",
    "/Library/Java",
    "/bin",
    "/nix/store",
    "/opt",
    "/private/etc",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
    "/sbin",
    "/usr",
)
WRITABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/fd", "/dev/stdout", "/dev/stderr")
DEVICES = (*WRITABLE_DEVICES, "/dev/random", "/dev/stdin", "/dev/urandom")

# A terminal's other end, to whom the system gave it when it was made.
OWN_TERMINAL = '(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))'

# What the C library asks of the system: who a user is, notifications, where its temporary directory is.
SERVICES = (
    "com.apple.bsd.dirhelper",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
)
# How much machine there is. Others' arguments and environments (kern.procargs2) are not among it.
SYSCTL_PREFIXES = ("hw.", "machdep.cpu.", "vm.loadavg", "net.routetable.")
SYSCTLS = (
    "kern.argmax",
    "kern.boottime",
    "kern.hostname",
    "kern.maxfilesperproc",
    "kern.maxproc",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osvariant_status",
    "kern.osversion",
    "kern.secure_kernel",
    "kern.usrstack64",
    "kern.version",
    "sysctl.proc_cputype",
    "vm.pagesize",
)


class PlacesError(ValueError):
    """A place that no profile can be written for; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Places:
    """Real, absolute paths of the host, and the one port of loopback that may be dialled."""

    workspace: str
    home: str
    tmp: str
    tools: Sequence[str]
    proxy_port: int
    # Files that may be read besides: the operator's certificates.
    files: Sequence[str] = ()

    @property
    def writable(self) -> tuple[str, str, str]:
        return self.workspace, self.home, self.tmp


def profile(places: Places) -> str:
    """The text of the profile. Raises PlacesError."""
    _check(places)
    readable = outermost([*SYSTEM, *places.tools])
    parts = [
        "(version 1)",
        "(deny default)",
        "; processes: its own",
        "(allow process-exec process-fork)",
        "(allow signal process-info* (target same-sandbox))",
        f"(allow sysctl-read {_each('sysctl-name-prefix', SYSCTL_PREFIXES)} {_each('sysctl-name', SYSCTLS)})",
        f"(allow mach-lookup {_each('global-name', SERVICES)})",
        "(allow ipc-posix-sem)",
        "; files: the system and tools for reading, its own directories for everything",
        "(allow file-read-metadata)",
        f'(allow file-read* (literal "/") {_each("subpath", readable)} {_each("literal", places.files)})',
        f"(allow file-read* {_each('literal', DEVICES)})",
        f"(allow file-write-data file-ioctl {_each('literal', WRITABLE_DEVICES)})",
        f"(allow file-read* file-write* {_each('subpath', places.writable)})",
        f"(deny file-write-unlink file-write-setugid {_each('literal', places.writable)})",
        f"(deny file-write-unlink {_each('literal', _ancestors(places.writable))})",
        "; terminals: those that it makes",
        "(allow pseudo-tty)",
        '(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))',
        f"(allow file-read* file-write* file-ioctl {OWN_TERMINAL})",
        "; network: servers of its own, and one way out",
        '(allow network-bind network-inbound (local ip "localhost:*"))',
        f'(allow network-outbound (remote ip "localhost:{places.proxy_port}"))',
        f"(allow network-bind network-inbound network-outbound {_each('subpath', places.writable)})",
    ]
    return "\n".join(parts) + "\n"


def _check(places: Places) -> None:
    if not 1024 <= places.proxy_port <= 65535:
        raise PlacesError(f"port {places.proxy_port}; allowed is 1024 to 65535")
    for path in (*places.writable, *places.tools, *places.files):
        pure = PurePosixPath(path)
        if not pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == "/":
            raise PlacesError(f"{path!r} is not the real path of a directory or file")
        if any(ord(character) < 0x20 or ord(character) > 0x7E for character in path):
            raise PlacesError(f"{path!r} has characters that the profile's language may read differently")
    for own in places.writable:
        for other in (*SYSTEM, *places.tools, *(each for each in places.writable if each != own)):
            if is_beneath(own, other) or is_beneath(other, own):
                raise PlacesError(f"{own} and {other} lie within each other")


def _each(what: str, names: Iterable[str]) -> str:
    return " ".join(f"({what} {json.dumps(name)})" for name in names)


def _ancestors(paths: Iterable[str]) -> list[str]:
    """Every directory above: whoever could rename one would move the sandbox's own out from under its rules."""
    found = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    return sorted(found)
