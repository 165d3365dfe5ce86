"""Lines for a terminal: a label column, wrapped text beside it, colour where it is wanted.

Whatever is shown went through `printable`: names of files and words of tasks come from strangers, and a terminal obeys
escape sequences.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TextIO

WIDTH = 78
LABEL = 9

_COLOURS = {"ok": "32", "note": "36", "warning": "33", "error": "31"}


def use_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colour, and nobody said no (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb" and stream.isatty()


def labelled(label: str, text: str, *, wrap: bool = True, colour: bool = False) -> str:
    """A label in its column and text beside it, wrapped at spaces; words that are too long stand out on the right."""
    text = printable(text)
    head, *rest = _wrapped(text, WIDTH - LABEL) if wrap else [text]
    column = f"{label:<{LABEL}}"
    if colour and label in _COLOURS:
        column = f"\x1b[{_COLOURS[label]}m{column}\x1b[0m"
    return "\n".join((column + head, *(" " * LABEL + line for line in rest)))


def printable(text: str) -> str:
    """Text in one line, in which what doesn't print is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte of a file's name that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def _wrapped(text: str, width: int) -> Iterator[str]:
    while len(text) > width:
        end = text.rfind(" ", 0, width + 1)
        if end <= 0:
            end = text.find(" ", width)
        if end < 0:
            break
        yield text[:end]
        text = text[end + 1 :]
    yield text
