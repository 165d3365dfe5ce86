"""Judges Markdown that was made from HTML, with parsers of its own: markdown-it for what was written, the standard
library's HTML parser for what was there. Shared by the tests of the docs room and its bench."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

from markdown_it import MarkdownIt
from markdown_it.token import Token
from quickstarted.docs.html.names import words as _words

_MARKDOWN = MarkdownIt("commonmark").enable("table").enable("strikethrough")
_VOID = _words("area base br col embed hr img input link meta source track wbr")
_LEFT_OUT = _words("nav footer script style template button svg noscript")
_LEFT_OUT_CLASSES = _words(
    "headerlink linenos lineno linenodiv related sphinxsidebar sr-only footer nav-wrapper toc toctree copybtn "
    "menu-bar sidebar apitoc nav navheader navfooter toc-backref"
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_LEFT_OUT_IDS = ("toc", "sidebar", "global-nav")
_LEFT_OUT_ROLES = _words("navigation search banner contentinfo")


def parse(markdown: str) -> list[Token]:
    return _MARKDOWN.parse(markdown)


def fences(markdown: str) -> list[tuple[str, str]]:
    """(language, text) of the code blocks in order."""
    return [(token.info, token.content.rstrip("\n")) for token in parse(markdown) if token.type == "fence"]


def hrefs(markdown: str) -> list[str]:
    return [str(token.attrs["href"]) for token in _inline(markdown) if token.type == "link_open"]


def words(markdown: str) -> str:
    """The text that a reader of the rendered page sees, code included, white space as one space."""
    parts = [token.content if token.type != "softbreak" else " " for token in _inline(markdown, code=True)]
    return " ".join(" ".join(parts).split())


def _inline(markdown: str, *, code: bool = False) -> Iterator[Token]:
    for token in parse(markdown):
        if token.type == "inline":
            yield from token.children or ()
        elif code and token.type == "fence":
            yield token


@dataclass
class Seen:
    """What a page holds outside its navigation."""

    blocks: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


class _Look(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.url = url
        self.seen = Seen()
        self._open: list[tuple[str, bool]] = []  # tag, whether it is left out
        self._pre = 0
        self._text: list[str] = []
        self._anchor: str | None = None
        self._anchor_text: list[str] = []

    @property
    def _out(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "br" and self._pre and not self._out:
            self._text.append("\n")
        if tag in _VOID:
            return
        classes = frozenset((values.get("class") or "").split())
        out = (
            self._out
            or tag in _LEFT_OUT
            or bool(classes & _LEFT_OUT_CLASSES)
            or values.get("role") in _LEFT_OUT_ROLES
            or values.get("id") in _LEFT_OUT_IDS
        )
        self._open.append((tag, out))
        if tag == "pre" and not out:
            self._pre += 1
            if self._pre == 1:
                self._text = []
        in_heading = any(name in _HEADINGS for name, _ in self._open)
        if tag == "a" and not out and not self._pre:
            href = values.get("href") or ""
            self._anchor = None if in_heading and href.startswith("#") else values.get("href")  # a permalink
            self._anchor_text = []

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID or not any(name == tag for name, _ in self._open):
            return
        out = self._out
        while self._open and self._open.pop()[0] != tag:
            pass
        if tag == "pre" and not out and self._pre:
            self._pre -= 1
            if not self._pre and (text := tidy("".join(self._text))):
                self.seen.blocks.append(text)
        if tag == "a" and self._anchor is not None:
            text = "".join(self._anchor_text).strip()
            if text and text not in "¶#§" and not self._anchor.startswith(("javascript:", "data:")):
                self.seen.links.append(urljoin(self.url, self._anchor))
            self._anchor = None

    def handle_data(self, data: str) -> None:
        if self._pre and not self._out:
            self._text.append(data)
        if self._anchor is not None:
            self._anchor_text.append(data)


def look(html: str, url: str) -> Seen:
    """The code blocks and links of a page, read without the converter's parser."""
    page = _Look(url)
    page.feed(html)
    page.close()
    return page.seen


def tidy(text: str) -> str:
    lines = text.replace("\u00a0", " ").replace("\r\n", "\n").split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines).rstrip()


def exact(wanted: list[str], got: list[str]) -> int:
    """How many of `wanted` are in `got`, each counted once."""
    return (Counter(wanted) & Counter(got)).total()
