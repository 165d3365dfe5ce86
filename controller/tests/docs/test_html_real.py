"""Real documentation, as Debian packages ship it: the pages that the tools of people made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from quickstarted.docs.html.convert import convert

from tests.support.docs_judge import Seen, exact, fences, hrefs, look, tidy

ROOTS = {
    "click": "/usr/share/doc/python-click-doc/html",
    "django": "/usr/share/doc/python-django-doc/html",
    "flask": "/usr/share/doc/python-flask-doc/html",
    "requests": "/usr/share/doc/python-requests-doc/html",
    "tornado": "/usr/share/doc/python-tornado-doc/html",
}
PAGES = 20  # of each package, evenly spread over its pages with code


def pages_of(name: str) -> list[Path]:
    root = Path(ROOTS[name]).resolve()
    pages = sorted(path for path in root.rglob("*.html") if b"<pre" in path.read_bytes())
    assert pages, f"{ROOTS[name]} has no pages: install the documentation packages that .ci/run lists"
    return pages[:: max(1, len(pages) // PAGES)][:PAGES]


@pytest.mark.parametrize("name", ROOTS)
def test_code_blocks_are_exact_and_links_are_kept(name: str) -> None:
    wanted, kept = Seen(), Seen()
    exact_blocks = kept_links = 0
    for path in pages_of(name):
        html, url = path.read_text("utf-8", "replace"), f"https://{name}.test/{path.name}"
        seen, markdown = look(html, url), convert(html, url).markdown
        blocks, links = [tidy(text) for _, text in fences(markdown)], [unquote(link) for link in hrefs(markdown)]
        sought = [unquote(link) for link in seen.links]
        wanted.blocks += seen.blocks
        wanted.links += sought
        exact_blocks += exact(seen.blocks, blocks)
        kept_links += exact(sought, links)
        kept.links += list((Counter(sought) - Counter(links)).elements())
    assert len(wanted.blocks) > 50
    assert exact_blocks >= 0.99 * len(wanted.blocks)
    assert kept_links >= 0.99 * len(wanted.links), kept.links[:10]


def test_a_quickstart_reads_as_its_author_wrote_it() -> None:
    path = Path(ROOTS["flask"]).resolve() / "quickstart.html"
    result = convert(path.read_text("utf-8"), "https://flask.test/quickstart.html")
    assert result.markdown.startswith("# Quickstart\n\nEager to get started?")
    assert "```text\n$ flask --app hello run\n * Serving Flask app 'hello'\n" in result.markdown
    assert "> **Note: Application Discovery Behavior**\n>\n> As a shortcut" in result.markdown
    assert "[Installation](https://flask.test/installation.html)" in result.markdown
    assert "¶" not in result.markdown
