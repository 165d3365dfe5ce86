"""A paragraph's text as Markdown: runs of text with a style each, never nested, so that nothing can be malformed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

_SPACE = re.compile(r"[ \t\n\r\f\u00a0]+")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")
# What Markdown would read as markup inside a line: HTML Living Standard's character references and CommonMark 0.31.
_SPECIAL = re.compile(
    r"[\\`*]|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?[A-Za-z0-9]{1,31};)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)"
)
_LINKED_SPECIAL = re.compile(_SPECIAL.pattern + r"|[\[\]]")
_LINE_START = re.compile(r"^( {0,3})(#{1,6}(?=[ \t]|$)|[-+](?=[ \t]|$)|>|={1,}[ \t]*$|-{2,}[ \t]*$|~~~|\||:)")
_STARTERS = frozenset("#-+>=~|:0123456789")
_NUMBER_START = re.compile(r"^( {0,3}\d{1,9})([.)])(?=[ \t]|$)")
_HREF_UNSAFE = re.compile(r"[\s<>()\\\u0000-\u001f]")
BREAK_LINE = "\n"


class Style(NamedTuple):
    href: str = ""
    bold: bool = False
    italic: bool = False
    struck: bool = False
    code: bool = False


PLAIN = Style()


class Run(NamedTuple):
    """Text in one style; `raw` is already Markdown (an image)."""

    text: str
    style: Style = PLAIN
    raw: bool = False


def collapse(text: str) -> str:
    """White space as HTML shows it in prose."""
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
        return _SPACE.sub(" ", text)
    return _SPACE.sub(" ", text) if "\n" in text or "  " in text or "\t" in text else text


def render(runs: Sequence[Run], *, line_break: str = "  \n", gap: str = "\n\n") -> str:
    """The runs as Markdown; lines (from `<br>`) are separated by `line_break`, and by `gap` where lines between them
    are empty. No space at either end."""
    if len(runs) == 1:
        run = runs[0]
        if run.style is PLAIN and not run.raw:
            return escape(run.text.strip(" \n"))
    if not any(run.text == BREAK_LINE for run in runs):
        return _render_line(runs)
    empty = False
    parts: list[str] = []
    for text in (_render_line(line) for line in _split_lines(runs)):
        if not text:
            empty = True
            continue
        if parts:
            parts.append(gap if empty else line_break)
        parts.append(text)
        empty = False
    return "".join(parts)


def escape_line_starts(text: str) -> str:
    """`text` such that none of its lines starts a list, a heading, a quotation or the like."""
    if "\n" not in text:
        return _escape_line_start(text) if text[:1] in _STARTERS else text
    return "\n".join(map(_escape_line_start, text.split("\n")))


def _escape_line_start(line: str) -> str:
    return _NUMBER_START.sub(r"\1\\\2", _LINE_START.sub(r"\1\\\2", line))


def escape(text: str, *, linked: bool = False) -> str:
    """`text` such that nothing in it is markup; `linked` when it stands inside a link's brackets."""
    if linked:
        return _LINKED_SPECIAL.sub(lambda match: "\\" + match[0], text)
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)


def code_span(text: str) -> str:
    """An inline code span, delimited by more backquotes than it holds."""
    text = _SPACE.sub(" ", text)
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or (text != text.strip() and text.strip()) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def link(text: str, href: str) -> str:
    return f"[{text}]({safe_href(href)})"


def safe_href(href: str) -> str:
    """A link's target that ends where it should: odd characters percent-encoded (RFC 3986)."""
    return _HREF_UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), href)


def _split_lines(runs: Sequence[Run]) -> list[list[Run]]:
    lines: list[list[Run]] = [[]]
    for run in runs:
        if run.text == BREAK_LINE and not run.raw:
            lines.append([])
        else:
            lines[-1].append(run)
    return lines


def _render_line(runs: Sequence[Run]) -> str:
    parts: list[str] = []
    for href, group in groupby(_joined(runs), key=_href):
        inner = _styled(list(group))
        parts.append(_wrapped(inner, partial(link, href=href)) if href else inner)
    return "".join(parts).strip(" ")


def _href(run: Run) -> str:
    return run.style.href


def _wrapped(inner: str, wrap: Callable[[str], str]) -> str:
    """`inner` with its words wrapped and the spaces around them left outside."""
    body = inner.strip(" ")
    if not body:
        return inner
    lead = len(inner) - len(inner.lstrip(" "))
    return f"{inner[:lead]}{wrap(body)}{inner[lead + len(body) :]}"


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Neighbours of one style as one run, and one space where several meet."""
    joined: list[Run] = []
    same: list[str] = []  # texts of the runs that become one
    style, is_raw = PLAIN, False
    space = True  # at the start of a line no space is shown
    for run in (*runs, _END):
        text = run.text
        if run.style != style or run.raw != is_raw or run is _END:
            if same:
                joined.append(Run("".join(same), style, is_raw))
                same = []
            style, is_raw = run.style, run.raw
        if not is_raw and space and text.startswith(" "):
            text = text.lstrip(" ")
        if text:
            space = not is_raw and text[-1] == " "
            same.append(text)
    return joined


_END = Run("", Style("end"))

_MARKS: tuple[tuple[Callable[[Style], bool], str], ...] = (
    (lambda style: style.bold, "**"),
    (lambda style: style.italic, "*"),
    (lambda style: style.struck, "~~"),
)


def _styled(runs: list[Run], level: int = 0) -> str:
    """Marks from the outermost (bold) to the innermost (struck), then code or text."""
    if level == len(_MARKS) or not any(run.style.bold or run.style.italic or run.style.struck for run in runs):
        return "".join(map(_leaf, runs))
    is_marked, mark = _MARKS[level]
    parts: list[str] = []
    for marked, group in groupby(runs, key=lambda run: is_marked(run.style)):
        inner = _styled(list(group), level + 1)
        parts.append(_wrapped(inner, lambda body: f"{mark}{body}{mark}") if marked else inner)
    return "".join(parts)


def _leaf(run: Run) -> str:
    if run.raw:
        return run.text
    if run.style.code:
        return _wrapped(run.text, code_span)
    return escape(run.text, linked=bool(run.style.href))
