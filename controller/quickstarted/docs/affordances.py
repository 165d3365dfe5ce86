"""What a site offers to machines: `llms.txt`, Markdown variants of pages, Markdown by negotiation.

`--affordances none` withholds them, so that what is tested are the pages that people read. The prompt stays the same,
and what is withheld looks like what isn't there.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from urllib.parse import parse_qsl, urlsplit

from quickstarted.docs.fetch import ACCEPT, Response
from quickstarted.docs.media import content_type
from quickstarted.docs.problems import ReadError
from quickstarted.docs.url import without_fragment

_LLMS = re.compile(r"(?:^|/)llms(?:[-_][a-z0-9_-]{1,40})?\.(?:txt|md)$", re.IGNORECASE)
_VARIANT = re.compile(r"\.(?:md|mdx|markdown)$", re.IGNORECASE)
_FORMATS = frozenset(("md", "markdown", "raw-markdown"))

NEGOTIATED = "text/markdown, text/html;q=0.5, */*;q=0.1"


class Affordance(StrEnum):
    LLMS_TXT = "llms.txt"
    MARKDOWN_VARIANT = "markdown_variant"
    NEGOTIATION = "markdown_negotiation"


def affordance_of(url: str, pages: Iterable[str]) -> Affordance | None:
    """What kind of affordance `url` is; None for a page. The task's own `pages` are never one."""
    if without_fragment(url) in (without_fragment(page) for page in pages):
        return None
    parts = urlsplit(url)
    if _LLMS.search(parts.path):
        return Affordance.LLMS_TXT
    if _VARIANT.search(parts.path) or any(
        name in ("format", "output", "raw") and value.lower() in _FORMATS for name, value in parse_qsl(parts.query)
    ):
        return Affordance.MARKDOWN_VARIANT
    return None


def is_negotiated(response: Response) -> bool:
    """Whether Markdown came for a URL that doesn't name it."""
    media_type, _ = content_type(response.header("content-type"))
    return media_type in ("text/markdown", "text/x-markdown") and affordance_of(response.url, ()) is None


def variants_of(url: str) -> tuple[str, ...]:
    """Where tools put the Markdown variant of a page."""
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc}"
    path = parts.path
    if path.endswith("/"):
        return (f"{base}{path}index.md", f"{base}{path.rstrip('/')}.md") if path != "/" else (f"{base}/index.md",)
    return (f"{base}{path.removesuffix('.html')}.md",)


def llms_files_of(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    return tuple(f"{parts.scheme}://{parts.netloc}/{name}" for name in ("llms.txt", "llms-full.txt"))


async def probe(page: str, get: Callable[[str, str], Awaitable[Response]]) -> dict[str, object]:
    """What exists for a page: the fields of the `affordances` event. `get` takes a URL and an Accept header, asks by
    all rules of reading, and raises ReadError."""
    found: dict[str, object] = {}
    for url in llms_files_of(page):
        name = url.rpartition("/")[2]
        found[name] = url if await _is_text(url, ACCEPT, get) else None
    variant = None
    for url in variants_of(page):
        if variant is None and await _is_text(url, ACCEPT, get):
            variant = url
    found[Affordance.MARKDOWN_VARIANT] = variant
    found[Affordance.NEGOTIATION] = await _is_markdown(page, get)
    return found


async def _is_text(url: str, accept: str, get: Callable[[str, str], Awaitable[Response]]) -> bool:
    """Whether a text is there: a site's own page for what isn't there comes as HTML, often with status 200."""
    try:
        response = await get(url, accept)
    except ReadError:
        return False
    media_type, _ = content_type(response.header("content-type"))
    start = response.body[:200].lstrip().lower()
    return response.status == 200 and media_type != "text/html" and not start.startswith((b"<!doctype", b"<html"))


async def _is_markdown(page: str, get: Callable[[str, str], Awaitable[Response]]) -> bool:
    try:
        response = await get(page, NEGOTIATED)
    except ReadError:
        return False
    return response.status == 200 and is_negotiated(response)
