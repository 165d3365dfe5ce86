"""How bytes become text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.docs.charset import decode

LONG = "Grüße aus Köln, schöne Straßen und viele Menschen. " * 20
JAPANESE = "これは文書の例です。日本語の文字を判定します。" * 10
UTF8, UTF16 = '<meta charset="utf-8">', '<meta charset="utf-16">'
XML = '<?xml version="1.0" encoding="latin1"?>'

ROWS = [
    ("the header's", "é".encode("latin-1"), "iso-8859-1", "é", "header"),
    ("a label in quotes and capitals", "é".encode("latin-1"), '"ISO-8859-1"', "é", "header"),
    ("latin-1 is read as Windows does", b"\x93x\x94", "iso-8859-1", "\u201cx\u201d", "header"),
    ("the header beats meta", f"{UTF8}é".encode("latin-1"), "latin1", f"{UTF8}é", "header"),
    ("a byte order mark", b"\xef\xbb\xbf\xc3\xa9", None, "é", "bom"),
    ("a mark of UTF-16", "é".encode("utf-16"), None, "é", "bom"),
    ("a mark that contradicts the header", b"\xef\xbb\xbf\xc3\xa9", "latin-1", "é", "bom"),
    ("a mark that agrees with the header", b"\xef\xbb\xbf\xc3\xa9", "utf-8", "é", "header"),
    ("meta", b'<meta charset="windows-1251">\xcf', None, '<meta charset="windows-1251">П', "meta"),
    (
        "meta in its older form",
        b"<meta http-equiv=content-type content='text/html; charset=koi8-r'>\xf0",
        None,
        "<meta http-equiv=content-type content='text/html; charset=koi8-r'>П",
        "meta",
    ),
    ("the declaration of XML", f"{XML}é".encode("latin-1"), None, f"{XML}é", "meta"),
    ("meta that comes too late", b" " * 1024 + b'<meta charset="windows-1251">', None, None, "detected"),
    ("meta that says UTF-16 and can't mean it", f"{UTF16}é".encode(), None, f"{UTF16}é", "meta"),
    ("meta that is wrong", b'<meta charset="utf-8">' + LONG.encode("cp1252"), None, None, "detected"),
    ("UTF-8 that nobody declared", "é".encode(), None, "é", "detected"),
    ("another that nobody declared", JAPANESE.encode("euc_jp"), None, JAPANESE, "detected"),
    ("a label that nobody knows", "é".encode(), "x-klingon", "é", "detected"),
    ("a label that is no charset", b"aGk=", "base64", "aGk=", "detected"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "declared", "text", "how"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_charset(body: bytes, declared: str | None, text: str | None, how: str) -> None:
    decoded = decode(body, declared)
    assert decoded.how == how
    assert decoded.replaced == 0
    if text is not None:
        assert decoded.text == text


def test_what_the_declared_charset_can_not_read_is_replaced_and_counted() -> None:
    decoded = decode(b"a\xffb\xfe", "utf-8")
    assert (decoded.text, decoded.replaced) == ("a\ufffdb\ufffd", 2)


@given(
    st.binary(max_size=300), st.sampled_from([None, "utf-8", "utf-16", "shift_jis", "gb2312", "euc-kr", "big5", "x"])
)
def test_any_bytes_are_text(body: bytes, declared: str | None) -> None:
    assert isinstance(decode(body, declared).text, str)
