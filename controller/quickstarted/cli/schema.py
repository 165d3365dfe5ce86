"""`quickstarted schema`: the shape of a task file, for an editor that checks and completes while one is written."""

from __future__ import annotations

import argparse
import sys

HELP = "print the JSON Schema of a task file, for editors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes: nothing."""
    parser.epilog = (
        "An editor with yaml-language-server takes the saved file from a task's first line: "
        "# yaml-language-server: $schema=task.schema.json"
    )


def run(_: argparse.Namespace) -> int:
    """Print it."""
    from pathlib import Path

    import quickstarted.task

    sys.stdout.write((Path(quickstarted.task.__path__[0]) / "schema.json").read_text("utf-8"))
    return 0
