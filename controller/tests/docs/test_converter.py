"""Hostile pages: each is done in its time and memory, or costs a process that is replaced."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from quickstarted.docs.converter import ProcessConverter
from quickstarted.docs.html.convert import convert, plain
from quickstarted.docs.problems import Problem, ReadError

URL = "https://docs.test/a"

HOSTILE = {
    "50,000 nested divs": "<div>" * 50_000 + "end" + "</div>" * 50_000,
    "unclosed pre": "<pre>" * 20_000 + "end",
    "an unclosed comment": "<p>end</p><!--" + "x" * 1_000_000,
    "1 MB of <": "end " + "<" * 1_000_000,
    "100,000 attributes": "<p " + " ".join(f"a{i}=1" for i in range(100_000)) + ">end",
    "100,000 attributes with > in them": "<p " + " ".join(f"a{i}='>'" for i in range(100_000)) + "><p>end",
    "100,000 attributes without values": "<p " + " ".join(f"a{i}" for i in range(100_000)) + ">end",
    "NULs and bad references": "end a\0b&#0;&#xffffff;&bogus;" * 10_000,
    "a list of 10 MB": "<ul>" + "<li><a href='/some/place'>an item</a></li>" * 250_000 + "</ul>end",
    "a list without end tags": "<ul>" + "<li>item" * 200_000 + "</ul>end",
    "nested lists": "<ul><li>x" * 20_000 + "end",
    "nested quotations": "<blockquote>" * 20_000 + "end",
    "nested tables": "<table><tr><td>" * 10_000 + "end",
    "nested tables with code": "<table><tr><td><pre>1</pre></td><td>" * 2_000 + "end",
    "nested emphasis": "<b>" * 50_000 + "end",
    "emphasis that is opened again in every paragraph": "".join(f"<b id={i}><p>" for i in range(20_000)) + "end",
    "unclosed links": "<a href=x>" * 50_000 + "end",
    "100,000 code blocks": "<pre>x</pre>" * 100_000 + "end",
    "one code block of 200,000 lines": "<pre>" + "<span class=line>x</span>\n" * 200_000 + "end</pre>",
    "cells that reach over others": "<table>" + "<tr><td colspan=1000 rowspan=1000>a" * 1_000 + "</table>end",
    "backquotes": "<pre>" + "`" * 300_000 + "</pre>end",
    "signs of Markdown": "<p>" + "*_[" * 200_000 + "end",
    "50,000 tabs": "<b role=tab>x</b>" * 50_000 + "<p role=tabpanel>y</p>" * 50_000 + "end",
    "nested admonitions": "<div class='admonition note'>" * 20_000 + "end",
    "a title of 3 MB": "<title>" + "x" * 3_000_000 + "</title>end",
    "a class of 2 MB": "<p class='" + "x " * 1_000_000 + "'>end",
    "hidden in hidden": "<div hidden>" * 10_000 + "<pre>end</pre>",
}  # fmt: skip


@pytest.fixture
def without_collector() -> Iterator[None]:
    """As in the converter's process."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("html", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.usefixtures("without_collector")
def test_a_hostile_page_is_converted_and_its_text_is_there(html: str) -> None:
    markdown = convert(html, URL).markdown
    assert "end" in markdown
    assert len(markdown) < 2 * len(html) + 2_000_000


def test_words_without_a_parser() -> None:
    html = "<title>T</title><script>no</script><!-- no --><p>a &amp; b<br>c</p><pre>x\n  y</pre><p unclosed"
    assert plain(html, URL).markdown == "T\na & b\nc\nx\ny"


# --- processes


@pytest.fixture
async def converter() -> AsyncIterator[ProcessConverter]:
    made = ProcessConverter(processes=1, html_seconds=3.0)
    yield made
    await made.close()


def children() -> set[int]:
    """Processes of ours that still run."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(entry.name))
    return found


async def test_one_process_serves_page_after_page(converter: ProcessConverter) -> None:
    before = children()
    for number in range(3):
        page = await converter.page(f"<h1>{number}</h1>".encode(), "text/html", URL)
        assert page.markdown == f"# {number}"
        assert page.headings == [(1, str(number), 0)]
    assert len(children() - before) == 1
    await converter.close()
    assert children() == before


async def test_a_large_controller_does_not_make_its_converter_look_large(converter: ProcessConverter) -> None:
    ballast = b"x" * (800 << 20)
    before = children()
    await converter.page(b"x", "text/plain", URL)
    first = children() - before
    assert len(first) == 1
    await converter.page(b"x", "text/plain", URL)
    assert children() - before == first
    assert len(ballast) > 0


# A stray end tag hides from the counting look that these elements stay open.
BOMB = ("".join(f"<b id={i}><p></x></x>" for i in range(9_000)) + "end").encode()


async def test_a_page_that_takes_too_much_is_given_by_its_words_and_the_process_is_replaced(
    converter: ProcessConverter,
) -> None:
    page = await converter.page(BOMB, "text/html", URL)
    assert page.markdown == "end"
    assert page.flags == ["plain_words_only"]
    assert "could not be parsed within the limits" in page.notes[0]
    assert (await converter.page(b"<p>next", "text/html", URL)).markdown == "next"


async def test_a_cancelled_conversion_ends_its_process(converter: ProcessConverter) -> None:
    before = children()
    await converter.page(b"x", "text/plain", URL)
    task = asyncio.create_task(converter.page(BOMB, "text/html", URL))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == before
    assert (await converter.page(b"<p>next", "text/html", URL)).markdown == "next"


async def test_a_process_that_was_killed_is_replaced(converter: ProcessConverter) -> None:
    before = children()
    await converter.page(b"x", "text/plain", URL)
    (worker,) = children() - before
    os.kill(worker, 9)
    while worker in children():
        time.sleep(0.01)  # noqa: ASYNC251  # the loop would notice it otherwise
    assert (await converter.page(b"<p>next", "text/html", URL)).markdown == "next"


async def test_the_process_sees_nothing_of_our_environment(
    converter: ProcessConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUICKSTARTED_ANTHROPIC_API_KEY", "canary")
    before = children()
    await converter.page(b"x", "text/plain", URL)
    (worker,) = children() - before
    environment = Path(f"/proc/{worker}/environ").read_bytes()
    assert b"canary" not in environment
    assert {entry.split(b"=")[0] for entry in environment.split(b"\0") if entry} <= {
        b"PATH", b"PYTHONPATH", b"LANG", b"LC_ALL", b"TMPDIR", b"LC_CTYPE",
    }  # fmt: skip


# --- PDF


def pdf(text: str | None) -> bytes:
    """A PDF of one page with a line of text, or an empty page."""
    content = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, data in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, data)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + table
    return out + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start


async def test_the_text_layer_of_a_pdf_is_read(converter: ProcessConverter) -> None:
    page = await converter.page(pdf("Install the widget"), "application/pdf", URL)
    assert page.markdown == "## Page 1\n\nInstall the widget"
    assert page.kind == "pdf"


BROKEN = [
    ("a scan", pdf(None), "no text layer"),
    ("no PDF", b"%PDF-1.7 nothing", "can't be parsed"),
    ("cut", pdf("x")[:200], "can't be parsed"),
    ("pages that are their own parents", pdf("x").replace(b"Kids[3 0 R]", b"Kids[2 0 R]"), "can't be"),
    ("an endless table", pdf("x").replace(b"trailer<<", b"trailer<</Prev 400 "), ""),
]


@pytest.mark.parametrize(("body", "words"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
async def test_a_broken_pdf_is_an_error_with_its_reason(converter: ProcessConverter, body: bytes, words: str) -> None:
    try:
        page = await converter.page(body, "application/pdf", URL)
    except ReadError as error:
        assert error.problem in (Problem.PDF, Problem.CONVERSION)  # noqa: PT017
        assert words in error.message  # noqa: PT017
    else:
        assert words == ""
        assert "x" in page.markdown


async def test_an_unreadable_type_is_named(converter: ProcessConverter) -> None:
    with pytest.raises(ReadError, match="image/png") as caught:
        await converter.page(b"x", "image/png", URL)
    assert caught.value.problem is Problem.UNREADABLE_TYPE
