"""The tools in the home of the daemon's user that a sandbox may see: those that PATH names, and nothing else of it."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sandboxd.backends.process.tree import is_directory

# What a directory of PATH in the user's home belongs to, and what of it is needed to run its programs. Directories that
# may hold credentials (~/.cargo, ~/.config) are never among them.
TOOLS: Mapping[str, Sequence[str]] = {
    ".asdf": (".asdf",),
    ".bun/bin": (".bun/bin",),
    ".cargo/bin": (".cargo/bin", ".rustup"),
    ".deno/bin": (".deno/bin",),
    ".goenv": (".goenv",),
    ".local/bin": (".local/bin", ".local/share/uv", ".local/share/pipx"),
    ".local/share/fnm": (".local/share/fnm",),
    ".local/share/mise": (".local/share/mise",),
    ".nodenv": (".nodenv",),
    ".nvm": (".nvm",),
    ".pyenv": (".pyenv",),
    ".rbenv": (".rbenv",),
    ".sdkman": (".sdkman",),
    ".volta": (".volta",),
}


def homes() -> list[str]:
    """The home of the daemon's user: what HOME says and what the user database says."""
    found = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):  # a user without a name
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    return list(dict.fromkeys(home.rstrip("/") for home in found if home.startswith("/") and home.rstrip("/")))


def tools_of(entries: Iterable[str], homes: Sequence[str]) -> Iterator[str]:
    """The directories that the entries of PATH beneath these homes need."""
    for entry in entries:
        for home in homes:
            if not is_beneath(entry, home):
                continue
            for tool, needed in TOOLS.items():
                if is_beneath(entry, str(Path(home, tool))):
                    yield from (str(place) for name in needed if is_directory(place := Path(home, name)))


def outermost(paths: Iterable[str]) -> list[str]:
    """Each once, without those that are beneath another."""
    found: list[str] = []
    for path in sorted(dict.fromkeys(paths)):
        if not any(is_beneath(path, other) for other in found):
            found.append(path)
    return found


def is_beneath(path: str, directory: str) -> bool:
    """Whether a path is a directory's or within it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
