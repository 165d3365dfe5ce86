"""The command line of bubblewrap. Pure: what a sandbox is, in; arguments out.

Order matters: later mounts cover earlier ones, and the root and /dev become read-only when all in them is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandboxd.backends.bubblewrap.host import View
from sandboxd.environment import CA_BUNDLE_PATH, HOME, TMP, WORKSPACE

# Everything of ours, beneath the read-only root, where no command can move it.
OURS = "/.supervisor"
EMPTY = f"{OURS}/empty"

# Memory file systems and their sizes in bytes: browsers and databases want shared memory, /run is for sockets and pids.
TMPFS = {"/dev/shm": 256 << 20, "/run": 16 << 20}  # noqa: S108 the sandbox's own

# What the supervisor needs until it is sealed; commands have none. Making listeners, a route and a redirect; ports and
# limits of namespaces and of tmpfs; passing its user number on to a nested namespace; emptying the bounding set.
CAPABILITIES = ("NET_ADMIN", "NET_BIND_SERVICE", "SYS_ADMIN", "SYS_RESOURCE", "SETFCAP", "SETPCAP")

HOST_NAME = "sandbox"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What one sandbox has: its directories on the host, and host files to put over the host's own.

    `files` are host paths by their paths inside.
    """

    workspace: Path
    home: Path
    tmp: Path
    inside: Path
    files: dict[str, Path]
    proc_files: Sequence[str]


def arguments(view: View, sandbox: Sandbox) -> list[str]:
    """Everything between bubblewrap's own name and the command."""
    return [
        *_namespaces(),
        *_system(view),
        *_own(sandbox),
        *_hidden(view, sandbox),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", "/", "--"),
    ]


def _namespaces() -> list[str]:
    capabilities = [part for name in CAPABILITIES for part in ("--cap-add", f"CAP_{name}")]
    return [
        *("--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"),
        *("--as-pid-1", "--die-with-parent", "--new-session", "--hostname", HOST_NAME),
        *("--cap-drop", "ALL", *capabilities),
    ]


def _system(view: View) -> list[str]:
    mounted = ["--proc", "/proc", "--dev", "/dev"]
    for path, size in TMPFS.items():
        mounted += ["--size", str(size), "--perms", "1777", "--tmpfs", path]
    for path in view.directories:
        mounted += ["--ro-bind", path, path]
    for path, target in view.links.items():
        mounted += ["--symlink", target, path]
    return mounted


def _own(sandbox: Sandbox) -> list[str]:
    mounted = []
    for source, target in ((sandbox.workspace, WORKSPACE), (sandbox.home, HOME), (sandbox.tmp, TMP)):
        mounted += ["--bind", str(source), target]
    mounted += ["--dir", "/var", "--symlink", TMP, "/var/tmp", "--symlink", "/run", "/var/run"]  # noqa: S108
    mounted += ["--dir", OURS, "--perms", "0555", "--dir", EMPTY]
    mounted += ["--ro-bind", str(sandbox.inside), f"{OURS}/inside"]
    for target, source in sandbox.files.items():
        if target == CA_BUNDLE_PATH:
            mounted += ["--dir", str(Path(target).parent)]
        mounted += ["--ro-bind", str(source), target]
    return mounted


def _hidden(view: View, sandbox: Sandbox) -> list[str]:
    mounted = []
    for path in (*view.hidden_files, *(f"/proc/{name}" for name in sandbox.proc_files)):
        mounted += ["--ro-bind", "/dev/null", path]
    for path in view.hidden_directories:
        mounted += ["--size", "4096", "--perms", "0555", "--tmpfs", path, "--remount-ro", path]
    return mounted
