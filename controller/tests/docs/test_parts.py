"""Long pages in parts: nothing is lost between them, and they end where a reader would turn the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.docs.page import Page, outline
from quickstarted.docs.parts import Cutter, section_offset, table_of_headings


def page_of(markdown: str) -> Page:
    headings, anchors = outline(markdown)
    return Page("markdown", markdown, headings=headings, anchors=anchors)


def pieces(page: Page, limit: int) -> list[str]:
    cutter, offset, found = Cutter(page, limit), 0, []
    while True:
        part = cutter.part(offset)
        found.append(page.markdown[part.start : part.end])
        assert part.number == len(found)
        if part.end == len(page.markdown):
            assert part.count == len(found)
            return found
        assert part.end > offset
        offset = part.end


lines = st.sampled_from(["# One", "## Two", "text", "", "", "```", "~~~~", "long " * 20, "- item", "> ```", "x" * 300])


@given(st.lists(lines, max_size=80).map("\n".join), st.integers(20, 400))
def test_the_parts_together_are_the_page(markdown: str, limit: int) -> None:
    found = pieces(page_of(markdown), limit)
    assert "".join(found) == markdown
    assert all(len(piece) <= limit for piece in found)


@given(st.text(max_size=300), st.integers(1, 50), st.integers(-10, 400))
def test_any_offset_has_a_part(markdown: str, limit: int, offset: int) -> None:
    cutter = Cutter(page_of(markdown), limit)
    part = cutter.part(offset)
    assert 0 <= part.start <= part.end <= len(markdown)
    assert 1 <= part.number <= part.count


SECTION = "word " * 12


def test_a_part_ends_before_a_heading_where_it_can() -> None:
    page = page_of("\n\n".join(f"## {n}\n\n{SECTION}" for n in range(12)))
    for piece in pieces(page, 200):
        assert piece.startswith("## ")


def test_without_headings_a_part_ends_at_an_empty_line_and_not_inside_code() -> None:
    code = "```\n" + "line\n\n" * 20 + "```"
    page = page_of(f"{SECTION}\n\n{SECTION}\n\n{code}\n\n{SECTION}")
    assert [piece.count("```") for piece in pieces(page, 150)] == [0, 2, 0]


def test_a_code_block_longer_than_a_part_is_cut_at_a_line_and_that_is_told() -> None:
    page = page_of("```\n" + "0123456789\n" * 50 + "```")
    part = Cutter(page, 100).part(0)
    assert part.in_code
    assert page.markdown[: part.end].endswith("0123456789\n")


def test_a_line_longer_than_a_part_is_cut_at_the_limit() -> None:
    assert [len(piece) for piece in pieces(page_of("x" * 250), 100)] == [100, 100, 50]


FRAGMENTS = [
    ("", 0),
    ("top", 0),
    ("usage", 10),
    ("Usage", 10),
    ("caf%C3%A9", 20),
    ("install", 30),
    ("usage:~:text=word", 10),
    ("nowhere", None),
]


@pytest.mark.parametrize(("fragment", "offset"), FRAGMENTS)
def test_a_fragment_leads_to_its_place(fragment: str, offset: int | None) -> None:
    page = Page("html", "x" * 50, anchors={"usage": 10, "café": 20, "user-content-install": 30})
    assert section_offset(page, fragment) == offset


def test_the_table_of_headings_gives_their_offsets() -> None:
    page = page_of("# A\n\n## B\n\n```\n# no heading\n```\n\n## C")
    assert table_of_headings(page) == "- A (offset 0)\n  - B (offset 5)\n  - C (offset 33)"


def test_a_long_table_leaves_out_the_deepest_levels_and_says_so() -> None:
    page = page_of("\n".join(["# A", *(f"## {n}\n### x\n### y" for n in range(100))]))
    table = table_of_headings(page)
    assert table.count("\n") == 101
    assert table.endswith("(200 more headings are not listed.)")


def test_a_table_of_too_many_headings_of_one_level_ends() -> None:
    table = table_of_headings(page_of("\n".join(f"# {n}" for n in range(1000))))
    assert table.endswith("(850 more headings are not listed.)")
