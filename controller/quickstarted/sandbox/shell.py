"""How shell text becomes a command: pure. Nothing here runs anything; the argv that it builds runs in the sandbox.

Every command runs in a shell of its own. For a session, the lines of `session.sh` around the command's text restore
the directory and the exported variables that the session's last command left, and save them again at its end, so that
`cd app` or `export PATH=…` in one step holds in the next, as in a reader's terminal. Shell variables that were not
exported, functions, options and traps end with their command.

The state lies in a file in the sandbox's TMPDIR, where the sandbox's own commands could change it: it can mislead only
them. The success script never reads it.

What the lines around a command cope with, in bash and in plain sh (POSIX.1-2017, XCU 2):
  * `exit`, `set -e` and syntax errors: the state is saved by an EXIT trap;
  * a trap on EXIT of the command's own: runs, after the state was saved; with that and an early exit the state of the
    command before stays;
  * `exec program`: the state of the command before stays, there is nobody left to save another;
  * `set -aefuvxC`, redirected or closed streams, a broken PATH, a full disk (the whole of the old state stays);
  * variables of any value, variables that were unset, a directory that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath

# Linux takes 128 KiB in one argument (MAX_ARG_STRLEN), and the contract in all of them; the rest is for session.sh.
MAX_COMMAND_BYTES = 120_000


class CommandError(ValueError):
    """Text that no shell can be given; the message says why, and is meant for who wrote the command."""


def session_argv(shell: str, command: str, exports: Mapping[str, str] | None = None) -> list[str]:
    """The argv that runs `command` as the next command of the sandbox's session.

    `exports` are set after the session's own variables, and stay in the session. Raises CommandError.
    """
    pairs = [f"{name}={value}" for name, value in (exports or {}).items()]
    for text in (command, *pairs):
        _check(text)
    return [*_shell(shell), "-c", _around(), PurePosixPath(shell).name, command, *pairs]


def clean_argv(shell: str, script: str) -> list[str]:
    """The argv that runs `script` on its own: no session, no start-up files. Raises CommandError."""
    _check(script)
    return [*_shell(shell), "-c", script, PurePosixPath(shell).name]


@cache
def _around() -> str:
    """`session.sh` as one line, so that the shell's messages count the lines of the command from 1."""
    lines = Path(__file__).with_name("session.sh").read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("#"))


def _shell(shell: str) -> list[str]:
    # bash reads ~/.bashrc even with -c when its stdin looks like a network connection.
    return [shell, "--norc", "--noprofile"] if PurePosixPath(shell).name == "bash" else [shell]


def _check(text: str) -> None:
    if "\0" in text:
        raise CommandError("the command holds a NUL character, which no shell accepts")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise CommandError("the command holds half of a surrogate pair, which is no character") from None
    if size > MAX_COMMAND_BYTES:
        raise CommandError(
            f"the command is {size:,} bytes long and {MAX_COMMAND_BYTES:,} is the most: write long files in parts"
        )
