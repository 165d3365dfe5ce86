"""A page: what a body becomes once it is read, in Markdown, with what is worth telling about it. Pure, and not quick:
it runs in the converter's process (`converter`, `worker`)."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from quickstarted.docs.charset import Decoded, decode
from quickstarted.docs.media import Kind, content_type, kind_of

Heading = tuple[int, str, int]  # level, text, offset in characters

_FENCE = re.compile(r"^(?:[ >]|[-*+] |\d+[.)] )*(`{3,}|~{3,})")
_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")


@dataclass(slots=True, weakref_slot=True)
class Page:
    """`anchors` gives the offset that a fragment leads to. `notes` are for the model, `flags` for the record."""

    kind: str
    markdown: str
    title: str = ""
    headings: list[Heading] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    charset: str = ""
    charset_from: str = ""
    refresh: str = ""
    canonical: str = ""
    markdown_variant: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Page:
        headings = [(int(level), str(text), int(offset)) for level, text, offset in value["headings"]]
        return cls(**{**value, "headings": headings})


def make_page(body: bytes, header: str | None, url: str, *, how: Literal["full", "plain"] = "full") -> Page:
    """The page that `body`, served at `url` with the Content-Type `header`, holds.

    `how` "plain" takes an HTML page's words without parsing it. Raises UnreadableTypeError and PdfError.
    """
    kind = kind_of(header, url, body)
    if kind is Kind.PDF:
        from quickstarted.docs.pdf import pdf_markdown  # pypdf is loaded only for a PDF

        text = pdf_markdown(body)
        headings, anchors = outline(text)
        return Page(kind, text, headings=headings, anchors=anchors)
    _, charset = content_type(header)
    decoded = decode(body, charset, markup=kind in (Kind.HTML, Kind.XML))
    page = _html(decoded.text, url, how) if kind is Kind.HTML else _text(decoded.text, kind)
    page.charset, page.charset_from = decoded.charset, decoded.how
    page.notes += _about(decoded)
    return page


def _about(decoded: Decoded) -> list[str]:
    if not decoded.replaced:
        return []
    found = (
        "nobody said which charset" if decoded.how == "fallback" else f"charset {decoded.charset} by its {decoded.how}"
    )
    count = "1 character" if decoded.replaced == 1 else f"{decoded.replaced} characters"
    return [f"{count} of this page could not be decoded ({found}); shown as \ufffd."]


def _html(text: str, url: str, how: str) -> Page:
    from quickstarted.docs.html.convert import convert, plain  # lexbor is loaded only for HTML

    converted = plain(text, url) if how == "plain" else convert(text, url)
    return Page(
        Kind.HTML,
        converted.markdown,
        converted.title,
        [(heading.level, heading.text, heading.offset) for heading in converted.headings],
        converted.anchors,
        [str(sign) for sign in converted.signs],
        refresh=converted.refresh,
        canonical=converted.canonical,
        markdown_variant=converted.markdown_variant,
    )


def _text(text: str, kind: Kind) -> Page:
    text = text.replace("\r\n", "\n").replace("\0", "\ufffd")
    if kind is Kind.MARKDOWN:
        headings, anchors = outline(text)
        return Page(kind, text, headings[0][1] if headings else "", headings, anchors)
    if kind is Kind.TEXT:
        return Page(kind, text)
    longest = max((len(ticks) for ticks in re.findall(r"^ {0,3}(`{3,})", text, re.MULTILINE)), default=2)
    fence = "`" * max(3, longest + 1)
    return Page(kind, f"{fence}{kind}\n{text.rstrip()}\n{fence}")


def outline(markdown: str) -> tuple[list[Heading], dict[str, int]]:
    """The headings of a Markdown text, outside its code blocks, and their anchors as code hosts name them."""
    headings: list[Heading] = []
    anchors: dict[str, int] = {}
    fence = ""
    offset = 0
    for line in markdown.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
        elif not fence and (match := _ATX.match(line)):
            headings.append((len(match[1]), match[2][:200], offset))
            slug = re.sub(r"[^\w\- ]", "", match[2].lower()).replace(" ", "-")
            anchors.setdefault(slug, offset)
        offset += len(line) + 1
    return headings, anchors
