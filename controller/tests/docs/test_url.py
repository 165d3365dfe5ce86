"""URLs as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.url import absolute, resolve

BASE = "https://docs.test/guide/start"
HOSTS = ("docs.test", "other.test")

MEANT = [
    ("as it is", "https://docs.test/a?b=c#d", "https://docs.test/a?b=c#d"),
    ("without a path", "https://docs.test", "https://docs.test/"),
    ("white space around", "  https://docs.test/a\n", "https://docs.test/a"),
    ("angle brackets", "<https://docs.test/a>", "https://docs.test/a"),
    ("quotation marks", '"https://docs.test/a"', "https://docs.test/a"),
    ("typographic quotation marks", "\u201chttps://docs.test/a\u201d", "https://docs.test/a"),
    ("backquotes and a full stop", "`https://docs.test/a`.", "https://docs.test/a"),
    ("brackets", "(https://docs.test/a)", "https://docs.test/a"),
    ("a bracket that belongs to it", "https://docs.test/a_(b)", "https://docs.test/a_(b)"),
    ("a bracket that doesn't", "https://docs.test/a_(b)).", "https://docs.test/a_(b)"),
    ("punctuation at its end", "https://docs.test/a?!,;:", "https://docs.test/a"),
    ("bold", "**https://docs.test/a**", "https://docs.test/a"),
    ("a Markdown link", "[the guide](https://docs.test/a)", "https://docs.test/a"),
    ("a Markdown link with a title", '[x](<https://docs.test/a> "t")', "https://docs.test/a"),
    ("no scheme", "docs.test/a", "https://docs.test/a"),
    ("no scheme, a host below", "api.docs.test/a", "https://api.docs.test/a"),
    ("no scheme, only the host", "docs.test", "https://docs.test/"),
    ("no scheme, a port", "docs.test:8443/a", "https://docs.test:8443/a"),
    ("two slashes", "//other.test/a", "https://other.test/a"),
    ("relative", "install", "https://docs.test/guide/install"),
    ("relative, a file", "install.html#pip", "https://docs.test/guide/install.html#pip"),
    ("relative, upwards", "../api/x", "https://docs.test/api/x"),
    ("relative, too far upwards", "../../../x", "https://docs.test/x"),
    ("absolute path", "/api", "https://docs.test/api"),
    ("only a fragment", "#usage", "https://docs.test/guide/start#usage"),
    ("only a query", "?page=2", "https://docs.test/guide/start?page=2"),
    ("capitals in the host", "HTTPS://DOCS.Test/A", "https://docs.test/A"),
    ("a dot after the host", "https://docs.test./a", "https://docs.test/a"),
    ("the usual port", "https://docs.test:443/a", "https://docs.test/a"),
    ("another port", "https://docs.test:8443/a", "https://docs.test:8443/a"),
    ("backslashes", "https:\\\\docs.test\\a", "https://docs.test/a"),
    ("dots in the path", "https://docs.test/a/./b/../c/../", "https://docs.test/a/"),
    ("spaces and letters beyond ASCII", "https://docs.test/a b/é", "https://docs.test/a%20b/%C3%A9"),
    ("escapes are kept", "https://docs.test/a%2Fb%20c", "https://docs.test/a%2Fb%20c"),
]


@pytest.mark.parametrize(("text", "url"), [row[1:] for row in MEANT], ids=[row[0] for row in MEANT])
def test_what_is_meant(text: str, url: str) -> None:
    assert resolve(text, base=BASE, hosts=HOSTS) == url
    assert absolute(url, base=BASE) == url


REFUSED = [
    ("nothing", "", Problem.MALFORMED_URL),
    ("only marks", " <>. ", Problem.MALFORMED_URL),
    ("a file", "file:///etc/passwd", Problem.SCHEME),
    ("another scheme", "ftp://docs.test/a", Problem.SCHEME),
    ("a script", "javascript:alert(1)", Problem.SCHEME),
    ("a user", "https://user@docs.test/", Problem.USERINFO),
    ("a host as a user", "https://docs.test@evil.test/", Problem.USERINFO),
    ("an address", "http://169.254.169.254/", Problem.MALFORMED_URL),
    ("an address as a number", "http://2130706433/", Problem.MALFORMED_URL),
    ("an address of version 6", "http://[::1]/", Problem.MALFORMED_URL),
    ("a half address of version 6", "http://[::1/", Problem.MALFORMED_URL),
    ("a port that is none", "https://docs.test:99999/", Problem.MALFORMED_URL),
    ("a port of letters", "https://docs.test:x/", Problem.MALFORMED_URL),
    ("a host beyond ASCII", "https://döcs.test/", Problem.MALFORMED_URL),
    ("full-width digits", "http://\uff11\uff12\uff17.0.0.1/", Problem.MALFORMED_URL),
    ("no host", "https:///a", Problem.MALFORMED_URL),
    ("a line break inside", "https://docs.test/a\nHost: x", Problem.MALFORMED_URL),
    ("a NUL", "https://docs.test\0.evil.test/", Problem.MALFORMED_URL),
    ("too long", f"https://docs.test/{'a' * 9000}", Problem.MALFORMED_URL),
]


@pytest.mark.parametrize(("text", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(text: str, problem: Problem) -> None:
    with pytest.raises(ReadError) as caught:
        resolve(text, base=BASE, hosts=HOSTS)
    assert caught.value.problem is problem
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("url", ["https://docs.test/a.", "https://docs.test/a_(b))", "https://docs.test/a,*"])
def test_what_a_server_names_is_taken_to_the_letter(url: str) -> None:
    assert absolute(url, base=BASE) == url


def test_a_missing_scheme_is_that_of_the_page_before() -> None:
    assert resolve("docs.test/a", base="http://docs.test/", hosts=HOSTS) == "http://docs.test/a"


@given(st.text(max_size=60) | st.text("htps:/.docest@[]#?%\\<>() \n0é", max_size=40))
def test_any_text_is_resolved_for_good_or_refused(text: str) -> None:
    try:
        url = resolve(text, base=BASE, hosts=HOSTS)
    except ReadError:
        return
    assert url.isascii()
    assert url.startswith(("http://", "https://"))
    assert " " not in url
    assert absolute(url, base=BASE) == url
