"""What is made for machines, told from what is made for people."""

from __future__ import annotations

import pytest
from quickstarted.docs.affordances import Affordance, affordance_of, variants_of

PAGES = ("https://docs.test/README.md#top",)

ROWS = [
    ("a page", "https://docs.test/guide", None),
    ("a page about them", "https://docs.test/guide/llms-txt", None),
    ("the index", "https://docs.test/llms.txt", Affordance.LLMS_TXT),
    ("the whole", "https://docs.test/docs/llms-full.txt", Affordance.LLMS_TXT),
    ("a part", "https://docs.test/llms_small.txt", Affordance.LLMS_TXT),
    ("in capitals", "https://docs.test/LLMS.TXT", Affordance.LLMS_TXT),
    ("another text", "https://docs.test/robots.txt", None),
    ("a Markdown variant", "https://docs.test/guide.md", Affordance.MARKDOWN_VARIANT),
    ("of a file", "https://docs.test/guide.html.md?x", Affordance.MARKDOWN_VARIANT),
    ("by a query", "https://docs.test/guide?format=md", Affordance.MARKDOWN_VARIANT),
    ("another query", "https://docs.test/guide?format=html&md=1", None),
    ("a page of the task", "https://docs.test/README.md", None),
    ("the same at another host", "https://other.test/README.md", Affordance.MARKDOWN_VARIANT),
]


@pytest.mark.parametrize(("url", "kind"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_kind(url: str, kind: Affordance | None) -> None:
    assert affordance_of(url, PAGES) is kind


VARIANTS = [
    ("https://docs.test/", ("https://docs.test/index.md",)),
    ("https://docs.test/a", ("https://docs.test/a.md",)),
    ("https://docs.test/a.html?b", ("https://docs.test/a.md",)),
    ("https://docs.test/a/", ("https://docs.test/a/index.md", "https://docs.test/a.md")),
]


@pytest.mark.parametrize(("url", "variants"), VARIANTS)
def test_where_variants_are(url: str, variants: tuple[str, ...]) -> None:
    assert variants_of(url) == variants
