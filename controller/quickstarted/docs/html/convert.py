"""One HTML page, from text to Markdown with what the reader needs to know about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape

from selectolax.lexbor import LexborHTMLParser, LexborNode

from quickstarted.docs.html.guard import defuse
from quickstarted.docs.html.pick import main_content
from quickstarted.docs.html.read import Reader
from quickstarted.docs.html.runs import Links
from quickstarted.docs.html.signs import Sign, is_shell, signs_of
from quickstarted.docs.html.tree import BREAK, Element
from quickstarted.docs.html.writer import Heading, Writer, Written

_MAX_NAVIGATION_LINKS = 60
_REFRESH = re.compile(r"^\s*(\d+)(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'\s>]+)", re.IGNORECASE)
_MAX_REFRESH_SECONDS = 5


@dataclass(slots=True)
class Converted:
    """`refresh` is where a meta refresh of at most five seconds leads, absolute; `canonical` is only told.

    `markdown_variant` is a Markdown form of the page that the page itself names.
    """

    markdown: str
    title: str = ""
    headings: list[Heading] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    links: int = 0
    signs: list[Sign] = field(default_factory=list)
    refresh: str = ""
    canonical: str = ""
    markdown_variant: str = ""


def convert(html: str, url: str) -> Converted:
    """Never raises for any text; `url` is the page's own address, absolute."""
    tree = LexborHTMLParser(defuse(html))
    links = Links(url, _base(tree, url))
    title = _title(tree)
    body = tree.body or tree.css_first("frameset")
    if body is None:
        return Converted("", title, signs=[Sign.EMPTY])
    written = _written(body, links)
    if is_shell(tree, written.markdown):
        written = _written(body, links, keep_noscript=True)
    heading = written.headings[0].text if written.headings else ""
    return Converted(
        written.markdown,
        title or heading,
        written.headings,
        written.anchors,
        written.links,
        signs_of(tree, title=title, heading=heading, text=written.markdown),
        refresh=_refresh(tree, links),
        canonical=_link(tree, links, 'link[rel="canonical"]'),
        markdown_variant=_link(tree, links, 'link[rel="alternate"][type="text/markdown"]'),
    )


def plain(html: str, url: str) -> Converted:
    """The page's words without a parser, in linear time: for a page that `convert` could not finish in its limits."""
    text = re.sub(r"<(script|style)\b[^>]*+>.*?(?:</\1\b[^>]*+>|\Z)", " ", html, flags=re.DOTALL | re.IGNORECASE)
    text = re.sub(r"<!--.*?(?:-->|\Z)", " ", text, flags=re.DOTALL)
    text = unescape(re.sub(r"</?[A-Za-z][^<>]*+>?", "\n", text))
    lines = (line.strip() for line in text.split("\n"))
    return Converted("\n".join(line for line in lines if line))


def _written(body: LexborNode, links: Links, *, keep_noscript: bool = False) -> Written:
    links.count = 0
    reading = Reader(keep_noscript=keep_noscript).read(body)
    written = Writer(links).write(main_content(reading))
    if written.links == 0 and reading.navigation:
        navigation = _navigation(reading.navigation, links)
        if navigation is not None:
            extra = Writer(links).write(navigation)
            written.markdown = f"{written.markdown}\n\n{extra.markdown}".lstrip("\n")
            written.links = extra.links
    return written


def _navigation(nodes: list[LexborNode], links: Links) -> Element | None:
    """The links of the page's navigation, for a page whose own text leads nowhere."""
    items: dict[str, Element] = {}
    for node in nodes:
        for anchor in node.css("a"):
            href = links.absolute(anchor.attributes.get("href"))
            text = " ".join(anchor.text().split())[:100]
            if text and href and "#" not in href and href not in items and len(items) < _MAX_NAVIGATION_LINKS:
                items[href] = Element("li", {}, [Element("a", {"href": href}, [text])])
    if not items:
        return None
    intro = Element("p", {}, ["(The page's own text has no links. Its navigation leads to:)"])
    return Element("main", {}, [intro, BREAK, Element("ul", {}, [*items.values()], blocky=True)], blocky=True)


def _title(tree: LexborHTMLParser) -> str:
    node = tree.css_first("title")
    return " ".join(node.text().split())[:300] if node is not None else ""


def _base(tree: LexborHTMLParser, url: str) -> str:
    node = tree.css_first("base[href]")
    href = node.attributes.get("href") if node is not None else None
    return (Links(url, url).absolute(href) or url) if href else url


def _link(tree: LexborHTMLParser, links: Links, selector: str) -> str:
    node = tree.css_first(selector)
    return links.absolute(node.attributes.get("href")) if node is not None else ""


def _refresh(tree: LexborHTMLParser, links: Links) -> str:
    for node in tree.css("meta[http-equiv]")[:20]:
        if (node.attributes.get("http-equiv") or "").lower() != "refresh":
            continue
        match = _REFRESH.match((node.attributes.get("content") or "")[:2000])
        if match and len(match[1]) < 3 and int(match[1]) <= _MAX_REFRESH_SECONDS:
            return links.absolute(match[2])
    return ""
