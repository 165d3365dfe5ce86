"""A paragraph's text as Markdown: runs of text with a style each, never nested, so that nothing can be malformed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

_SPACE = re.compile(r"[ \t\n\r\f\u00a0]+")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")
# What Markdown would read as markup inside a line: HTML Living Standard's character references and CommonMark 0.31.
_SPECIAL = re.compile(
    r"[\\`*]|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?[A-Za-z0-9]{1,31};)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)"
)
_LINKED_SPECIAL = re.compile(_SPECIAL.pattern + r"|[\[\]]")
_LINE_START = re.compile(r"^( {0,3})(#{1,6}(?=[ \t]|$)|[-+](?=[ \t]|$)|>|={1,}[ \t]*$|-{2,}[ \t]*$|~~~|\||:)")
_NUMBER_START = re.compile(r"^( {0,3}\d{1,9})([.)])(?=[ \t]|$)")
_HREF_UNSAFE = re.compile(r"[\s<>()\\\u0000-\u001f]")
BREAK_LINE = "\n"


@dataclass(frozen=True, slots=True)
class Style:
    href: str = ""
    bold: bool = False
    italic: bool = False
    struck: bool = False
    code: bool = False


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Run:
    """Text in one style; `raw` is already Markdown (an image)."""

    text: str
    style: Style = PLAIN
    raw: bool = False


def collapse(text: str) -> str:
    """White space as HTML shows it in prose."""
    return _SPACE.sub(" ", _INVISIBLE.sub("", text))


def render(runs: Sequence[Run], *, line_break: str = "  \n", gap: str = "\n\n") -> str:
    """The runs as Markdown; lines (from `<br>`) are separated by `line_break`, and by `gap` where lines between them
    are empty. No space at either end."""
    if len(runs) == 1 and runs[0].style is PLAIN and not runs[0].raw:
        return escape(runs[0].text.strip(" \n"))
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
    return "\n".join(_NUMBER_START.sub(r"\1\\\2", _LINE_START.sub(r"\1\\\2", line)) for line in text.split("\n"))


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
    for href, group in groupby(_joined(runs), key=lambda run: run.style.href):
        inner = _styled(list(group), 0)
        body = inner.strip(" ")
        if href and body:
            lead, trail = inner[: len(inner) - len(inner.lstrip(" "))], inner[len(inner.rstrip(" ")) :]
            parts.append(f"{lead}{link(body, href)}{trail}")
        else:
            parts.append(inner)
    return "".join(parts).strip(" ")


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Neighbours of one style as one run, and one space where several meet."""
    joined: list[Run] = []
    space = True  # at the start of a line no space is shown
    for (style, raw), group in groupby(runs, key=lambda run: (run.style, run.raw)):
        text = "".join(run.text for run in group)
        if not raw:
            text = _SPACE.sub(" ", text)
            if space and text.startswith(" "):
                text = text[1:]
        if text:
            space = not raw and text.endswith(" ")
            joined.append(Run(text, style, raw))
    return joined


_MARKS: tuple[tuple[Callable[[Style], bool], str], ...] = (
    (lambda style: style.bold, "**"),
    (lambda style: style.italic, "*"),
    (lambda style: style.struck, "~~"),
)


def _styled(runs: list[Run], level: int) -> str:
    """Marks from the outermost (bold) to the innermost; three levels, then code or text."""
    if level == len(_MARKS):
        return "".join(_leaf(run) for run in runs)
    is_marked, mark = _MARKS[level]
    parts: list[str] = []
    for marked, group in groupby(runs, key=lambda run: is_marked(run.style)):
        inner = _styled(list(group), level + 1)
        body = inner.strip(" ")
        if marked and body:
            lead, trail = inner[: len(inner) - len(inner.lstrip(" "))], inner[len(inner.rstrip(" ")) :]
            parts.append(f"{lead}{mark}{body}{mark}{trail}")
        else:
            parts.append(inner)
    return "".join(parts)


def _leaf(run: Run) -> str:
    if run.raw:
        return run.text
    if run.style.code and run.text.strip():
        text = run.text
        lead, trail = text[: len(text) - len(text.lstrip(" "))], text[len(text.rstrip(" ")) :]
        return f"{lead}{code_span(text.strip(' '))}{trail}"
    return escape(run.text, linked=bool(run.style.href))
