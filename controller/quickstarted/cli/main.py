"""The `quickstarted` command: which subcommand, and how it ends.

A subcommand is one module beside this one, with `HELP`, `add_arguments(parser)` and `run(args) -> int`. Only the module
that was asked for is imported, and it imports what it works with inside `run`: looking at a file must not cost the
start of gRPC and the models' SDKs. No exception reaches the user as a traceback unless QUICKSTARTED_DEBUG is set.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from quickstarted import __version__

USAGE = 3  # also when there is nothing to work on
INTERRUPTED = 130
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended

# The subcommands in the order of `--help`, each with its exit code when the fault is ours.
COMMANDS = {"run": 2, "validate": USAGE, "schema": USAGE, "mcp": 2}

DEBUG = "QUICKSTARTED_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return the exit code. Raises nothing, unless QUICKSTARTED_DEBUG is set."""
    argv = sys.argv[1:] if argv is None else list(argv)
    name = next((word for word in argv if not word.startswith("-")), "")
    _prepare_streams()
    try:
        code = _dispatch(name, argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _end("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _end("", BROKEN_PIPE)
    except Exception as error:  # the last resort: whatever it is, one line tells it
        if os.environ.get(DEBUG):
            raise
        told = f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
        return _end(f"{told} ({DEBUG}=1 shows where it comes from)", COMMANDS.get(name, USAGE))
    return code


def _dispatch(name: str, argv: list[str]) -> int:
    if name and name not in COMMANDS:
        return _end(_unknown(name), USAGE)
    try:
        # An option in front of the name is one of the whole command: its help lists all.
        args, rest = _parser([name] if argv[:1] == [name] else COMMANDS).parse_known_args(argv)
        if rest:
            args.parser.error(f"unknown arguments: {' '.join(rest)}")
    except SystemExit as end:  # argparse has printed what there is to say
        return end.code if isinstance(end.code, int) else 0
    code: int = args.run(args)
    return code


def _parser(names: Iterable[str]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="quickstarted",
        description="Test whether an AI agent can complete a project's quickstart using only its documentation.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"quickstarted {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        module = importlib.import_module(f"quickstarted.cli.{name}")
        sentence = f"{module.HELP[:1].upper()}{module.HELP[1:]}."
        command = commands.add_parser(name, help=module.HELP, description=sentence, allow_abbrev=False)
        command.set_defaults(run=module.run, parser=command)
        module.add_arguments(command)
    return parser


class _Parser(argparse.ArgumentParser):
    """argparse ends with 2 on wrong usage; here 2 says that a run gave no evidence."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n{self.format_usage()}See {self.prog} --help.\n")


def _unknown(name: str) -> str:
    from quickstarted.task.problems import nearest

    near = nearest(name, COMMANDS)
    hint = f"did you mean {near}?" if near else f"the commands are {', '.join(COMMANDS)}."
    return f"there is no command {name!r}; {hint}"


def _prepare_streams() -> None:
    """What is printed may be the name of a file, which need not be text. A stream that was closed swallows it."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - as long-lived as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _end(message: str, code: int) -> int:
    """Say why it ends here. When stdout is gone too, nothing may be left for the interpreter to write at its end."""
    if message:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"quickstarted: {message}\n")
            sys.stderr.flush()
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
