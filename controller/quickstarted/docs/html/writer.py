"""Writes the tree down as Markdown, with the offsets of its headings and anchors.

One loop over the tree with its own stack. Containers (list items, quotations) are prefixes of lines; there is no
buffer that is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from quickstarted.docs.html import table
from quickstarted.docs.html.inline import (
    BREAK_LINE,
    PLAIN,
    Run,
    Style,
    collapse,
    escape,
    escape_line_starts,
    link,
    render,
)
from quickstarted.docs.html.names import words
from quickstarted.docs.html.runs import Links, collect, image, quick_line, styled
from quickstarted.docs.html.tree import HEADINGS, INLINE, Anchor, Break, Code, Element, Node, plain_text

MAX_INDENT = 16  # containers whose prefix is written; deeper ones share it
_MAX_CODE_LINKS = 30
_TICKS = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Heading:
    """`offset` is where its line begins, in characters."""

    level: int
    text: str
    offset: int


@dataclass(slots=True)
class Written:
    markdown: str
    headings: list[Heading] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    links: int = 0


@dataclass(slots=True)
class _Container:
    first: str
    rest: str
    used: bool = False


@dataclass(slots=True)
class _Open:
    """An element that is being written."""

    nodes: Iterator[Node]
    style: Style
    element: Element | None = None
    contained: bool = False
    number: int = 0  # of the next item of an `ol`
    tight: bool = False
    items: int = 0


class Writer:
    """One document's writing."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._out: list[str] = []
        self._size = 0
        self._runs: list[Run] = []
        self._containers: list[_Container] = []
        self._stack: list[_Open] = []
        self._waiting: list[str] = []  # anchors that belong to the next block
        self._glue = False  # no empty line before the next block
        self._written = Written("")

    def write(self, root: Element) -> Written:
        self._stack.append(_Open(iter(root.children), PLAIN))
        while self._stack:
            top = self._stack[-1]
            node = next(top.nodes, None)
            if node is None:
                self._leave(self._stack.pop())
            elif isinstance(node, str):
                self._runs.append(Run(collapse(node), top.style))
            elif isinstance(node, Break):
                self._flush()
            elif isinstance(node, Anchor):
                self._waiting.append(node.name)
            elif isinstance(node, Code):
                self._code(node)
            else:
                self._enter(node, top)
        self._flush()
        for name in self._waiting:
            self._written.anchors.setdefault(name, self._size)
        self._written.markdown = "".join(self._out)
        self._written.links = self._links.count
        return self._written

    # --- elements

    def _enter(self, element: Element, top: _Open) -> None:
        tag = element.tag
        if tag in INLINE or tag == "br":
            self._inline(element, top)
            return
        self._flush()
        if tag in HEADINGS:
            self._heading(element)
        elif tag == "table":
            self._table(element, top)
        elif tag == "hr":
            self._emit("---")
        elif tag == "li":
            self._item(element, top)
        elif tag == "dt":
            self._container("- ", "  ")
            # A term is bold; a signature with links in it would only be cut into pieces.
            style = Style(top.style.href, bold=True) if not element.blocky and _is_text(element) else top.style
            self._line_of(element, style)
            self._containers.pop()
        elif not element.blocky:
            self._line(element, top.style)
        else:
            self._push_block(element, top)

    def _inline(self, element: Element, top: _Open) -> None:
        if element.tag == "br":
            self._runs.append(Run(BREAK_LINE, top.style))
        elif element.tag == "img":
            self._runs += image(element, self._links, top.style)
        elif element.blocky:
            self._stack.append(_Open(iter(element.children), styled(element, top.style, self._links), element))
        else:
            whole = Element("span", {}, [element])
            self._runs += collect(whole, self._links, top.style, self._waiting.append)

    def _line(self, element: Element, style: Style) -> None:
        """A block that is one paragraph."""
        if element.tag in ("summary", "caption"):
            style = Style(style.href, bold=True)
        contained = self._open_container(element)
        self._before_content(element)
        self._line_of(element, style)
        self._after_content(element)
        if contained:
            self._containers.pop()

    def _line_of(self, element: Element, style: Style) -> None:
        text = quick_line(element.children, self._links) if style is PLAIN else None
        if text is None:
            self._runs += collect(element, self._links, style, self._waiting.append)
            self._flush()
        elif text:
            self._emit(escape_line_starts(text))

    def _push_block(self, element: Element, top: _Open) -> None:
        opened = _Open(iter(element.children), top.style, element)
        if element.tag in ("ul", "ol"):
            start = element.get("start")
            opened.number = int(start) if start.isdigit() and start.isascii() and len(start) < 9 else 1
            opened.tight = _is_tight(element)
        opened.contained = self._open_container(element)
        self._before_content(element)
        self._stack.append(opened)

    def _leave(self, opened: _Open) -> None:
        element = opened.element
        if element is None or element.tag in INLINE:
            return
        self._flush()
        self._after_content(element)
        if opened.contained:
            self._containers.pop()

    def _open_container(self, element: Element) -> bool:
        if element.tag in ("blockquote", "admonition"):
            self._container("> ", "> ")
        elif element.tag == "dd":
            self._container("  ", "  ")
        else:
            return False
        return True

    def _before_content(self, element: Element) -> None:
        if element.tag == "admonition":
            self._emit(f"**{escape(element.get('title'))}**")
        elif element.tag == "tab" and "label" in element.attrs:
            label = escape(element.get("label"))
            self._emit(f"**Tab {element.get('index')} of {element.get('count')}: {label}**")

    def _after_content(self, element: Element) -> None:
        if element.tag == "tab" and "missing" in element.attrs:
            self._emit(f"*(Tabs without content in this page: {escape(element.get('missing'))})*")

    def _item(self, element: Element, top: _Open) -> None:
        marker = "- "
        if top.element is not None and top.element.tag == "ol":
            value = element.get("value")
            if value.isdigit() and value.isascii() and len(value) < 9:
                top.number = int(value)
            marker = f"{top.number}. "
            top.number += 1
        # The first item follows what its list stands in: without a gap only in an item of a tight list.
        self._glue = top.tight and (top.items > 0 or any(opened.tight for opened in self._stack[-3:-1]))
        top.items += 1
        self._container(marker, " " * len(marker))
        if element.blocky:
            self._stack.append(_Open(iter(element.children), top.style, element, contained=True, tight=top.tight))
            return
        self._line_of(element, top.style)
        self._containers.pop()

    def _heading(self, element: Element) -> None:
        text = quick_line(element.children, self._links)
        if text is None:
            runs = collect(element, self._links, on_anchor=self._waiting.append)
            text = render(runs, line_break=" ", gap=" ")
        if not text:
            return
        level = HEADINGS[element.tag]
        offset = self._emit(f"{'#' * level} {text}")
        self._written.headings.append(Heading(level, plain_text(element, 200), offset))

    def _table(self, element: Element, top: _Open) -> None:
        grid = table.grid_of(element)
        if not grid.rows:
            self._stack.append(_Open(iter(element.children), top.style, Element("div")))
            return
        for child in element.children:
            if isinstance(child, Element) and child.tag == "caption":
                self._line(child, top.style)
        if table.is_simple(grid):
            lines = table.as_markdown(grid, self._links, self._waiting)
            if max(len(row) for row in grid.rows) > 1 or grid.header:
                self._emit("\n".join(lines))
                return
        self._stack.append(_Open(iter(table.as_blocks(grid)), top.style, Element("div")))

    def _code(self, code: Code) -> None:
        self._flush()
        longest = max((len(ticks) for ticks in _TICKS.findall(code.text)), default=0)
        fence = "`" * max(3, longest + 1)
        self._emit(f"{fence}{code.language}\n{code.text}\n{fence}")
        seen: dict[str, str] = {}
        for text, href in code.links:
            if not href.startswith("#") and (absolute := self._links.absolute(href)):
                seen.setdefault(absolute, text)
        if seen:
            self._links.count += len(seen)
            shown = [link(escape(text, linked=True), href) for href, text in list(seen.items())[:_MAX_CODE_LINKS]]
            more = f" and {len(seen) - _MAX_CODE_LINKS} more" if len(seen) > _MAX_CODE_LINKS else ""
            self._emit(f"Links in this code: {', '.join(shown)}{more}")

    # --- text

    def _flush(self) -> None:
        """The runs so far become a paragraph."""
        if not self._runs:
            return
        text = render(self._runs)
        self._runs = []
        if text:
            self._emit(escape_line_starts(text))

    def _container(self, first: str, rest: str) -> None:
        if len(self._containers) >= MAX_INDENT:
            first = rest = ""
        self._containers.append(_Container(first, rest))

    def _emit(self, text: str) -> int:
        """Write a block; returns its offset."""
        if self._out:
            self._put("\n" if self._glue else self._gap())
        self._glue = False
        offset = self._size
        if self._waiting:
            for name in self._waiting:
                self._written.anchors.setdefault(name, offset)
            self._waiting.clear()
        if not self._containers:
            self._put(text)
            return offset
        first = rest = ""
        for container in self._containers:
            first += container.rest if container.used else container.first
            rest += container.rest
            container.used = True
        if "\n" in text:
            bare = rest.rstrip()
            head, *lines = text.split("\n")
            text = "\n".join([head, *(rest + line if line else bare for line in lines)])
        self._put(first + text)
        return offset

    def _gap(self) -> str:
        """The empty line between two blocks, with the marks of the quotations that both are in."""
        marks = "".join([container.rest for container in self._containers if container.used]).rstrip()
        return f"\n{marks}\n"

    def _put(self, text: str) -> None:
        self._out.append(text)
        self._size += len(text)


_FITS_A_TIGHT_ITEM = words("p ul ol")


def _is_text(element: Element) -> bool:
    return all(not isinstance(child, Element) for child in element.children)


def _is_tight(items: Element) -> bool:
    """Whether the items are lines: no empty lines between them."""
    for item in items.children:
        if not isinstance(item, Element) or not item.blocky:
            continue
        paragraphs = 0
        for child in item.children:
            if isinstance(child, Code):
                return False
            if isinstance(child, Element) and (child.blocky or child.tag not in INLINE):
                if child.tag not in _FITS_A_TIGHT_ITEM:
                    return False
                paragraphs += child.tag == "p"
        if paragraphs > 1:
            return False
    return True
