"""`quickstarted validate`: what is wrong with task files, without running them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quickstarted.task.load import Suite
    from quickstarted.task.problems import Problem

HELP = "check task files without running them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="TASK",
        help="a task file, a directory of *.yaml and *.yml files, or a glob; without any: tasks/, else this directory",
    )
    parser.epilog = "Exit codes: 0 all are valid, 1 some are not, 3 there is nothing to check or the usage is wrong."


def run(args: argparse.Namespace) -> int:
    """Check what was named and print a line or more for each file."""
    from quickstarted.cli import term
    from quickstarted.task.files import NothingFoundError
    from quickstarted.task.load import load_suite

    try:
        suite = load_suite(args.paths)
    except NothingFoundError as error:
        sys.stderr.write("".join(f"quickstarted validate: {term.printable(line)}\n" for line in error.args))
        return 3
    colour = term.use_colour(sys.stdout)
    lines = (term.labelled(label, text, wrap=label != "ok", colour=colour) for label, text in report(suite))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if suite.errors else 0


def report(suite: Suite) -> Iterator[tuple[str, str]]:
    """Labels and texts in the order of the files: that a file is valid, or why it is not, and its warnings."""
    tasks = {task.source: task for task in suite.tasks}
    problems: dict[str, list[Problem]] = {}
    for problem in suite.problems:
        problems.setdefault(problem.file, []).append(problem)
    for file in suite.files:
        if task := tasks.get(file):
            yield "ok", f"{file} ({task.name}, {task.modes})"
        for problem in problems.get(file, ()):
            # A warning of the task as a whole stands below the line that names it.
            yield problem.severity, str(problem) if problem.line or task is None else problem.message
    if alone := sum(not task.replay for task in suite.tasks):
        have, them = ("task has", "it") if alone == 1 else ("tasks have", "them")
        yield "note", f"{alone} {have} no replay commands, so only an agent can run {them}."
