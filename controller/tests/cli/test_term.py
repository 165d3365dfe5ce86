"""Labels, wrapping and what a terminal may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.cli.term import LABEL, WIDTH, labelled, printable


def test_text_is_wrapped_at_spaces() -> None:
    assert labelled("ok", "a" * 69) == "ok       " + "a" * 69
    assert labelled("ok", "a" * 69 + " b") == "ok       " + "a" * 69 + "\n         b"
    assert labelled("ok", "a " * 34 + "bc") == "ok       " + "a " * 33 + "a\n         bc"


def test_a_word_that_is_too_long_is_kept_whole() -> None:
    assert labelled("error", "a " + "b" * 80 + " c") == "error    a\n         " + "b" * 80 + "\n         c"


def test_what_shall_not_be_wrapped_is_not() -> None:
    assert labelled("ok", "a " * 60, wrap=False) == "ok       " + "a " * 60


@given(st.text(st.sampled_from("ab "), max_size=300))
def test_wrapping_loses_nothing(text: str) -> None:
    lines = labelled("note", text).split("\n")
    assert " ".join(line[LABEL:] for line in lines) == text
    assert all(len(line) <= WIDTH or " " not in line[LABEL:].strip() for line in lines)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("é", "é"),
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\udce9", r"\xe9"),
        ("\u202e", r"\u202e"),
        ("\0", r"\x00"),
    ],
)
def test_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_all_that_is_shown_prints(text: str) -> None:
    assert printable(text).isprintable()
