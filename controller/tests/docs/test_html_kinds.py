"""Pages of twenty kinds from one source: 300 code blocks, with tabs, links, an admonition and a table on each page.

The Markdown is judged by markdown-it, not by anything of ours.
"""

from __future__ import annotations

import functools

import pytest
from markdown_it import MarkdownIt
from quickstarted.docs.html.convert import Converted, convert

from tests.support.docs_judge import exact, fences, hrefs, tidy
from tests.support.docs_pages import Kind, page
from tests.support.docs_samples import LINKS, NOISE, PAGE, SAMPLES, TABS
from tests.support.docs_wild import KINDS

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@functools.cache
def converted(kind: Kind) -> Converted:
    return convert(page(kind), PAGE)


def test_the_kinds_hold_three_hundred_blocks() -> None:
    assert len(KINDS) * len(SAMPLES) == 300


@each_kind
def test_every_code_block_comes_out_as_it_was_written_with_its_language(kind: Kind) -> None:
    got = [(language, tidy(text)) for language, text in fences(converted(kind).markdown)]
    wanted = [(sample.language, tidy(sample.text)) for sample in SAMPLES]
    assert exact([text for _, text in wanted], [text for _, text in got]) == len(SAMPLES)
    assert [block for block in wanted if block not in got] == []


@each_kind
def test_blocks_come_in_the_order_of_the_page_and_no_others(kind: Kind) -> None:
    wanted = [tidy(sample.text) for sample in (*SAMPLES, *(sample for _, sample in TABS))]
    assert [tidy(text) for _, text in fences(converted(kind).markdown)] == wanted


@each_kind
def test_each_tab_has_its_label_before_its_block(kind: Kind) -> None:
    labelled, label = [], ""
    for token in MarkdownIt().parse(converted(kind).markdown):
        if token.type == "inline" and token.content.startswith("**Tab"):
            label = token.content
        elif token.type == "fence" and label:
            labelled.append((label, token.content.rstrip("\n")))
            label = ""
    wanted = [(f"**Tab {index} of 3: {label}**", sample.text) for index, (label, sample) in enumerate(TABS, 1)]
    assert labelled == wanted


@each_kind
def test_every_link_is_absolute_and_none_is_lost_or_added(kind: Kind) -> None:
    assert hrefs(converted(kind).markdown) == [target for _, _, target in LINKS]


@each_kind
def test_navigation_footers_and_buttons_are_left_out(kind: Kind) -> None:
    assert [noise for noise in NOISE if noise in converted(kind).markdown] == []


@each_kind
def test_the_admonition_the_table_and_the_headings_are_there(kind: Kind) -> None:
    result = converted(kind)
    assert "> **Warning**\n>\n> Keep the key secret." in result.markdown
    assert "| Option | Meaning |\n| --- | --- |\n| `--port` | where it listens \\| default 80 |" in result.markdown
    assert [(heading.level, heading.text) for heading in result.headings] == [(1, "Getting started"), (2, "Usage")]
    assert all(result.markdown.startswith(f"{'#' * h.level} {h.text}", h.offset) for h in result.headings)
    assert result.title == "Getting started | Widget"


@each_kind
def test_a_fragment_leads_to_its_heading(kind: Kind) -> None:
    anchors = converted(kind).anchors
    name = "user-content-usage" if kind.name == "github" else "usage"
    assert converted(kind).markdown[anchors[name] :].lstrip().startswith(("## Usage", "Step 5"))
