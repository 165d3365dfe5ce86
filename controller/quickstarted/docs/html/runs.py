"""Collects the runs of a piece of the tree that is written on one line: a paragraph, a heading, a table's cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

from quickstarted.docs.html.inline import BREAK_LINE, PLAIN, Run, Style, code_span, collapse, escape, link, safe_href
from quickstarted.docs.html.names import words
from quickstarted.docs.html.tree import BLOCKS, Anchor, Break, Code, Element, Node

# What an address needs more than a prefix for: dot segments, backslashes, white space, IPv6, which may be malformed.
_UNUSUAL = re.compile(r"/\.|[\\\[\t\r\n]")
_LINKABLE = words("http https mailto ftp ftps tel")


class Links:
    """Makes links absolute. `page` is the page's own address, `base` what its relative links are relative to."""

    def __init__(self, page: str, base: str) -> None:
        self._page = page.partition("#")[0]
        self._base = base
        parts = urlsplit(base)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._directory = self._origin + (parts.path.rpartition("/")[0] or "") + "/"
        self.count = 0

    def absolute(self, href: str | None) -> str:
        """The absolute form of `href`; "" for what is no address to go to (`javascript:`, `data:`, nonsense)."""
        href = (href or "").strip()
        if not href or len(href) > 8000:
            return ""
        if href[0] == "#":
            return f"{self._page}{href}"
        if not _UNUSUAL.search(href):
            if href.startswith(("https://", "http://")):
                return href
            if href[0] == "/" and href[1:2] != "/":
                return self._origin + href
            if href[0] not in "./?" and ":" not in href:
                return self._directory + href
        try:
            absolute = urljoin(self._base, href)
            return absolute if urlsplit(absolute).scheme in _LINKABLE else ""
        except ValueError:
            return ""


def collect(
    root: Element, links: Links, style: Style = PLAIN, on_anchor: Callable[[str], None] | None = None
) -> list[Run]:
    """The runs below `root`. Blocks inside it become lines of their own, list items with a dash."""
    runs: list[Run] = []
    stack: list[tuple[Iterator[Node], Style, Element]] = [(iter(root.children), style, root)]
    while stack:
        nodes, style, parent = stack[-1]
        node = next(nodes, None)
        if node is None:
            stack.pop()
            _after(parent, style, runs)
        elif isinstance(node, str):
            runs.append(Run(collapse(node), style))
        elif isinstance(node, Element):
            if node.tag == "br":
                runs.append(Run(BREAK_LINE, style))
            elif node.tag == "img":
                runs += image(node, links, style)
            else:
                inner = styled(node, style, links)
                _before(node, inner, runs)
                stack.append((iter(node.children), inner, node))
        elif isinstance(node, Code):
            runs.append(Run(collapse(node.text.replace("\n", " ")), _with(style, code=True)))
        elif isinstance(node, Anchor):
            if on_anchor:
                on_anchor(node.name)
        elif isinstance(node, Break):
            runs.append(Run(BREAK_LINE, style))
    return runs


def quick_line(nodes: list[Node], links: Links) -> str | None:
    """What `render(collect(…))` gives for the usual line, text with a few plain links and code spans between, in a
    fraction of its time; None for any other line."""
    parts: list[str] = []
    text = ""  # that no element has interrupted
    space, styled_before, linked = True, False, 0
    for node in nodes:
        if isinstance(node, str):
            piece = collapse(node)
            if space:
                piece = piece.lstrip(" ")
            if piece:
                space, styled_before = piece[-1] == " ", False
                text += piece
            continue
        if styled_before or not isinstance(node, Element):
            return None
        styled = _quick_inline(node, links)
        if not styled:
            return None
        linked += styled[-1] == ")"
        space, styled_before = False, True
        parts += (escape(text), styled)
        text = ""
    parts.append(escape(text))
    links.count += linked
    return "".join(parts).rstrip(" ")


def _quick_inline(element: Element, links: Links) -> str:
    """An inline element that holds one text, or a link that holds one code span; "" for any other."""
    if len(element.children) != 1:
        return ""
    tag, inner = element.tag, element.children[0]
    if tag == "a":
        href = links.absolute(element.attrs.get("href"))
        if not href:
            return ""
        if isinstance(inner, Element) and inner.tag == "code":
            code = _quick_inline(inner, links)
            return link(code, href) if code else ""
    if not isinstance(inner, str):
        return ""
    text = collapse(inner)
    if not text or text[0] == " " or text[-1] == " ":
        return ""
    if tag == "a":
        return link(escape(text, linked=True), href)
    if tag in _CODE:
        return code_span(text)
    mark = _QUICK_MARKS.get(tag)
    return f"{mark}{escape(text)}{mark}" if mark else ""


_CODE = words("code kbd samp tt")
_QUICK_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "var": "*"}


def _with(
    style: Style, *, href: str = "", bold: bool = False, italic: bool = False, struck: bool = False, code: bool = False
) -> Style:
    """`style` with something added."""
    return Style(
        href or style.href, bold or style.bold, italic or style.italic, struck or style.struck, code or style.code
    )


def styled(element: Element, style: Style, links: Links) -> Style:
    """The style inside an element."""
    tag = element.tag
    if tag == "a":
        href = links.absolute(element.attrs.get("href"))
        if href:
            links.count += 1
            return _with(style, href=href)
    elif tag in ("b", "strong"):
        return style if style.bold else _with(style, bold=True)
    elif tag in ("i", "em", "var"):
        return style if style.italic else _with(style, italic=True)
    elif tag in ("del", "s", "strike"):
        return _with(style, struck=True)
    elif tag in _CODE:
        return _with(style, code=True)
    return style


def image(element: Element, links: Links, style: Style) -> list[Run]:
    """An image by its description and address; one without either is left out (a spacer, a tracking pixel)."""
    alt = " ".join(element.get("alt").split())[:300]
    source = element.attrs.get("src") or element.attrs.get("data-src") or ""
    absolute = links.absolute(source)
    if absolute and not source.startswith("data:"):
        return [Run(f"![{escape(alt, linked=True)}]({safe_href(absolute)})", style, raw=True)]
    return [Run(alt, style)] if alt else []


_WRAPPED = {"q": ("\u201c", "\u201d"), "sup": ("<sup>", "</sup>"), "sub": ("<sub>", "</sub>")}


def _before(node: Element, style: Style, runs: list[Run]) -> None:
    if node.tag == "li":
        runs += (Run(BREAK_LINE, style), Run("- ", style, raw=True))
    elif node.tag in BLOCKS:
        runs.append(Run(BREAK_LINE, style))
    elif node.tag in _WRAPPED and node.children:
        runs.append(Run(_WRAPPED[node.tag][0], style, raw=True))


def _after(node: Element, style: Style, runs: list[Run]) -> None:
    if node.tag in _WRAPPED and node.children:
        runs.append(Run(_WRAPPED[node.tag][1], style, raw=True))
    elif node.tag == "a" and style.href and not _has_text(runs, style):
        label = " ".join((node.get("aria-label") or node.get("title")).split())[:200]
        if label:
            runs.append(Run(label, style))
    elif node.tag in BLOCKS and runs and runs[-1].text != BREAK_LINE:
        runs.append(Run(BREAK_LINE, style))


def _has_text(runs: list[Run], style: Style) -> bool:
    for run in reversed(runs):
        if run.style.href != style.href:
            return False
        if run.text.strip():
            return True
    return False
