"""Long pages in parts: where a part ends, and the table of headings that comes first. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from urllib.parse import unquote

from quickstarted.docs.page import Heading, Page

PART_CHARS = 40_000
_TABLE_HEADINGS = 150
_FENCE_LINE = re.compile(r"^(?:[ >]|[-*+] |\d+[.)] )*(`{3,}|~{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """Characters `start` to `end` of a page; `number` of `count` counts the parts of a reading from the page's start.

    `in_code` is true when the cut at `end` goes through a code block that is longer than a part.
    """

    start: int
    end: int
    number: int
    count: int
    in_code: bool = False


class Cutter:
    """Cuts one page. The parts of a reading from 0, each at the end of the one before, are the page, nothing lost."""

    def __init__(self, page: Page, limit: int = PART_CHARS) -> None:
        self._text = page.markdown
        self._limit = limit
        self._headings = [offset for _, _, offset in page.headings]
        self._fences = _fences(self._text) if len(self._text) > limit else []
        self._starts = [0]
        while (end := self._end(self._starts[-1])) < len(self._text):
            self._starts.append(end)

    @property
    def count(self) -> int:
        return len(self._starts)

    def part(self, offset: int) -> Part:
        """The part that begins at `offset`, which is put within the page."""
        start = max(0, min(offset, max(0, len(self._text) - 1)))
        end = self._end(start)
        number = bisect_right(self._starts, start)
        return Part(start, end, number, self.count, end < len(self._text) and self._in_fence(end))

    def _end(self, start: int) -> int:
        """The last heading that leaves at least a quarter of a part; else an empty line, a line, the limit."""
        last = start + self._limit
        if last >= len(self._text):
            return len(self._text)
        first = start + self._limit // 4
        index = bisect_right(self._headings, last) - 1
        if index >= 0 and self._headings[index] > first:
            return self._headings[index]
        place = last
        while (place := self._text.rfind("\n\n", first, place)) != -1:
            if not self._in_fence(place):
                return place + 2
            place = max(first, self._fence_start(place))
        place = self._text.rfind("\n", first, last)
        return place + 1 if place != -1 else last

    def _in_fence(self, offset: int) -> bool:
        index = bisect_right(self._fences, (offset, len(self._text))) - 1
        return index >= 0 and self._fences[index][0] < offset < self._fences[index][1]

    def _fence_start(self, offset: int) -> int:
        return self._fences[bisect_right(self._fences, (offset, len(self._text))) - 1][0]


def _fences(text: str) -> list[tuple[int, int]]:
    """Where code blocks begin and end."""
    found: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for match in _FENCE_LINE.finditer(text):
        if opened is None:
            opened = (match.start(), match[1])
        elif match[1][0] == opened[1][0] and len(match[1]) >= len(opened[1]):
            found.append((opened[0], match.end()))
            opened = None
    if opened is not None:
        found.append((opened[0], len(text)))
    return found


def section_offset(page: Page, fragment: str) -> int | None:
    """Where `fragment` leads in the page's Markdown; None when the page has no such place. "" and "top" lead to 0."""
    name = fragment.partition(":~:")[0]
    for candidate in dict.fromkeys((name, unquote(name), f"user-content-{name}", unquote(name).lower())):
        if candidate in page.anchors:
            return page.anchors[candidate]
    return 0 if name.lower() in ("", "top") else None


def table_of_headings(page: Page) -> str:
    """The headings with their offsets; the deepest levels are left out, and that is said, when they are too many."""
    headings = page.headings
    shown: list[Heading] = headings
    for level in (5, 4, 3, 2, 1):
        if len(shown) <= _TABLE_HEADINGS:
            break
        shown = [heading for heading in headings if heading[0] <= level]
    omitted = len(headings) - min(len(shown), _TABLE_HEADINGS)
    shown = shown[:_TABLE_HEADINGS]
    if not shown:
        return ""
    top = min(level for level, _, _ in shown)
    lines = [f"{'  ' * (level - top)}- {text} (offset {offset})" for level, text, offset in shown]
    if omitted:
        lines.append(f"({omitted} more headings are not listed.)")
    return "\n".join(lines)
