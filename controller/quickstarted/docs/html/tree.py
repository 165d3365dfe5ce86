"""The small tree between reading a page and writing it: elements that mean something, text, and three leaves.

Wrappers without meaning (`div`, `span`, …) are not in it: a block-level one leaves `BREAK` marks where it began and
ended, so the tree stays as shallow as the page's structure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from quickstarted.docs.html.names import words


class Break:
    """Where a block-level wrapper began or ended: text on its two sides belongs to different paragraphs."""

    __slots__ = ()


BREAK: Final = Break()


@dataclass(slots=True)
class Anchor:
    """A place that a fragment can name."""

    name: str


@dataclass(slots=True)
class Code:
    """A block of code, verbatim, without a newline at its end. `links` are what the page linked inside it."""

    text: str
    language: str = ""
    links: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Element:
    """`blocky` is true when it holds something that can't be part of a paragraph's line."""

    tag: str
    attrs: dict[str, str | None] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    blocky: bool = False

    def get(self, name: str) -> str:
        """An attribute's value, "" when it has none."""
        return self.attrs.get(name) or ""


Node = Element | Code | Anchor | Break | str

HEADINGS: Final = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
# Elements that the writer knows; `tab` and `admonition` are ours.
BLOCKS: Final = words(
    "h1 h2 h3 h4 h5 h6 p ul ol li dl dt dd blockquote table tr hr summary details tab admonition caption"
)
INLINE: Final = words("a b strong i em del s strike code kbd samp tt img sub sup br var q td th")
# Wrappers that end a paragraph but mean nothing else.
BLOCK_WRAPPERS: Final = words(
    "address article aside body center dir div fieldset figcaption figure footer form frameset header hgroup html "
    "legend main menu nav optgroup search section tbody tfoot thead"
)


def plain_text(root: Element, limit: int = 2000) -> str:
    """The text below `root` on one line, at most `limit` characters."""
    parts: list[str] = []
    size = 0
    stack: list[Node] = [root]
    while stack and size < limit:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
            size += len(node)
        elif isinstance(node, Code):
            parts.append(node.text)
            size += len(node.text)
        elif isinstance(node, Element):
            stack.extend(reversed(node.children))
    return " ".join("".join(parts).split())[:limit]
