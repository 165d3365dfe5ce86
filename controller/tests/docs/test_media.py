"""What a body is, by its type, its name or its first bytes; and what each kind becomes."""

from __future__ import annotations

import pytest
from quickstarted.docs.media import Kind, UnreadableTypeError, kind_of
from quickstarted.docs.page import make_page

ROWS = [
    ("HTML", "text/html; charset=utf-8", "/a", b"", Kind.HTML),
    ("in capitals", "TEXT/HTML", "/a", b"", Kind.HTML),
    ("XHTML", "application/xhtml+xml", "/a", b"", Kind.HTML),
    ("Markdown", "text/markdown", "/a", b"", Kind.MARKDOWN),
    ("Markdown served as text", "text/plain", "/README.md", b"", Kind.MARKDOWN),
    ("text", "text/plain", "/a", b"", Kind.TEXT),
    ("JSON", "application/json", "/a", b"", Kind.JSON),
    ("a kind of JSON", "application/ld+json", "/a", b"", Kind.JSON),
    ("XML", "application/xml", "/a", b"", Kind.XML),
    ("a kind of XML", "application/atom+xml", "/a", b"", Kind.XML),
    ("PDF", "application/pdf", "/a", b"", Kind.PDF),
    ("Markdown served as bytes", "application/octet-stream", "/a/README.MD", b"# a", Kind.MARKDOWN),
    ("bytes named Markdown", "application/octet-stream", "/a.md", b"a\0b", "application/octet-stream"),
    ("bytes", "application/octet-stream", "/a", b"", "application/octet-stream"),
    ("an image", "image/png", "/a.md", b"", "image/png"),
    ("a drawing", "image/svg+xml", "/a", b"", "image/svg+xml"),
    ("a style sheet", "text/css", "/a", b"", "text/css"),
    ("an archive", "application/zip", "/a", b"", "application/zip"),
    ("no type, HTML by its start", None, "/a", b"\n <!DOCTYPE html>", Kind.HTML),
    ("no type, PDF by its start", None, "/a", b"%PDF-1.7", Kind.PDF),
    ("no type, XML by its start", "", "/a", b"<?xml ?>", Kind.XML),
    ("no type, text", "nonsense", "/a", b"hello", Kind.TEXT),
    ("no type, bytes", None, "/a", b"a\0", "none given"),
]


@pytest.mark.parametrize(("header", "path", "body", "kind"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_kind(header: str | None, path: str, body: bytes, kind: Kind | str) -> None:
    if isinstance(kind, Kind):
        assert kind_of(header, f"https://docs.test{path}", body) is kind
        return
    with pytest.raises(UnreadableTypeError) as caught:
        kind_of(header, f"https://docs.test{path}", body)
    assert caught.value.type == kind


def test_text_and_markdown_are_given_as_they_are() -> None:
    assert make_page(b"a\r\n  b\n", "text/plain", "https://docs.test/a").markdown == "a\n  b\n"
    page = make_page(b"# A\n\n[x](y)\n", "text/markdown", "https://docs.test/a")
    assert (page.markdown, page.title, page.anchors) == ("# A\n\n[x](y)\n", "A", {"a": 0})


@pytest.mark.parametrize(("header", "kind"), [("application/json", "json"), ("text/xml", "xml")])
def test_data_is_given_as_a_code_block(header: str, kind: str) -> None:
    page = make_page(b'{"a": "```\n```"}\n', header, "https://docs.test/a")
    assert page.markdown == f'```{kind}\n{{"a": "```\n```"}}\n```'.replace(f"```{kind}", f"````{kind}")[:-3] + "````"


def test_characters_that_were_lost_are_told() -> None:
    page = make_page(b"<p>a\xff", "text/html; charset=utf-8", "https://docs.test/a")
    assert page.markdown == "a\ufffd"
    assert page.notes == [
        "1 character of this page could not be decoded (charset utf-8 by its header); shown as \ufffd."
    ]
