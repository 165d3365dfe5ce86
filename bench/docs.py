"""How long documentation takes from HTML to Markdown: ours over markdownify, on the same pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from markdownify import markdownify
from quickstarted.docs.html.convert import convert

from bench.measure import Work
from tests.support.docs_pages import page
from tests.support.docs_samples import PAGE
from tests.support.docs_wild import KINDS


@contextlib.asynccontextmanager
async def convert_pages() -> AsyncIterator[Work]:
    """A page of each of the twenty kinds that the tests draw."""
    pages = [page(kind) for kind in KINDS]

    async def reference() -> None:
        for html in pages:
            markdownify(html)

    async def candidate() -> None:
        for html in pages:
            convert(html, PAGE)

    yield Work(reference=reference, candidate=candidate)
