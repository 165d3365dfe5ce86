"""`quickstarted mcp`: one attempt at one task, by whoever speaks MCP on standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import sys

from quickstarted.cli import run as run_command

HELP = "serve a task's two tools over MCP on standard input and output, then run its check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the attempt; the exit code of `run`. Everything for people goes to standard error: MCP has the output."""
    if len(args.tasks) != 1 or args.repeat != 1 or args.agent != "replay":
        args.parser.error("mcp takes one task file, and neither --repeat nor --agent")
    from quickstarted.agents import registry

    args.agent = registry.STDIO
    with contextlib.redirect_stdout(sys.stderr):
        return run_command.run(args)
