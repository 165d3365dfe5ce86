"""The grammar of hostnames and what an allowlist entry matches."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from quickstarted_api.hosts import HostError, first_match, matches, parse_host, quoted

LABEL_63 = "a" * 63
NAME_253 = ".".join([LABEL_63, LABEL_63, LABEL_63, "a" * 61])

ACCEPTED = {
    "a name": ("docs.example.org", "docs.example.org"),
    "case folds": ("Docs.EXAMPLE.Org", "docs.example.org"),
    "one trailing dot folds": ("docs.example.org.", "docs.example.org"),
    "an A-label": ("xn--dcs-sna.example.org", "xn--dcs-sna.example.org"),
    "a single label": ("localhost", "localhost"),
    "a label that begins with a digit": ("3proxy.test", "3proxy.test"),
    "digits, but not in the last label": ("1.2.3.test", "1.2.3.test"),
    "a last label that begins with a digit": ("files.3com", "files.3com"),
    "hyphens inside": ("a--b-c.test", "a--b-c.test"),
    "a label of 63": (f"{LABEL_63}.test", f"{LABEL_63}.test"),
    "a name of 253": (NAME_253, NAME_253),
    "a name of 253 with its dot": (f"{NAME_253}.", NAME_253),
}

REFUSED = {
    "nothing": ("", "empty"),
    "blank": ("  ", "empty"),
    "a dot": (".", "empty label"),
    "two dots at the end": ("registry.test..", "empty label"),
    "two dots inside": ("registry..test", "empty label"),
    "a dot in front": (".registry.test", "hostname registry.test: it matches its subdomains already"),
    "a pattern": ("*.registry.test", "hostname registry.test: it matches its subdomains already"),
    "a pattern for everything": ("*", "pattern"),
    "a pattern at the end": ("registry.*", "pattern"),
    "a scheme": ("https://registry.test", "a URL; give the bare hostname registry.test"),
    "a scheme, a user, a port and a path": ("ftp://u:p@Registry.test:21/x?y#z", "give the bare hostname registry.test"),
    "a scheme without a host": ("https://", "a URL; give a bare hostname"),
    "a port": ("registry.test:443", "a port in it; give the bare hostname registry.test"),
    "an empty port": ("registry.test:", "a port in it"),
    "a port that is none": ("registry.test:+443", '":"'),
    "a path": ("registry.test/simple", "a path in it; give the bare hostname registry.test"),
    "a slash": ("registry.test/", "a path in it; give the bare hostname registry.test"),
    "a backslash": ("registry.test\\x", "a path in it"),
    "a query": ("registry.test?x", "a path in it"),
    "a user": ("user@registry.test", "a user in it; give the bare hostname registry.test"),
    "an IPv4 address": ("10.0.0.1", "IP address"),
    "an IPv4 address with a dot": ("10.0.0.1.", "IP address"),
    "an IPv4 address with a port": ("10.0.0.1:443", "a port in it"),
    "a range": ("10.0.0.0/8", "range of IP addresses"),
    "an address as one number": ("2130706433", "IP address"),
    "an address in hexadecimal": ("0x7f000001", "IP address"),
    "an address in octal": ("0177.0.0.1", "IP address"),
    "a short address": ("127.1", "IP address"),
    "a short hexadecimal address": ("0x7f.1", "IP address"),
    "a last label of 0x alone": ("registry.0x", "IP address"),
    "a last label of hexadecimal digits": ("registry.0XfF", "IP address"),
    "zero": ("0", "IP address"),
    "a last label that is a number": ("registry.test.9", "IP address"),
    "an IPv6 address": ("::1", "IP address"),
    "an IPv6 address in brackets": ("[::1]", "IP address"),
    "an IPv6 address with a zone": ("fe80::1%eth0", "IP address"),
    "a label of 64": ("a" * 64 + ".test", "64 characters; 63 are allowed"),
    "a name of 254": (NAME_253 + "a", "254 characters; 253 are allowed"),
    "a hyphen in front of a label": ("a.-b.test", '"-b" begins or ends with a hyphen'),
    "a hyphen at a label's end": ("a.b-.test", '"b-" begins or ends with a hyphen'),
    "an empty A-label": ("xn--.test", "hyphen"),
    "an underscore": ("a_b.test", '"_"'),
    "a percent escape": ("registry.test%00", '"%"'),
    "a list": ("registry.test,evil.test", '","'),
    "a space": ("registry.test evil.test", "a space in it"),
    "a space at the end": ("registry.test ", "a space in it"),
    "a tab": ("registry.test\t", "control character"),
    "a line break": ("registry.test\nevil.test", r'found "registry.test\nevil.test", which has a control character'),
    "a line break at the end": ("registry.test\n", "control character"),
    "a NUL": ("evil.test\0.registry.test", r"evil.test\x00.registry.test"),
    "letters that are not ASCII": ("döcs.example.org", "give its ASCII form xn--dcs-sna.example.org"),
    "a letter that the older rules replace": ("straße.example.org", "begins with xn--"),
    "a ligature that the older rules replace": ("ﬁles.example.org", "begins with xn--"),
    "full-width digits": ("１２７.０.０.１", "not ASCII"),  # noqa: RUF001
    "ideographic full stops": ("127。0。0。1", "not ASCII"),
    "circled letters": ("ⓛocalhost", "not ASCII"),
    "a letter whose lower case is ASCII": ("\u212aelvin.test", "not ASCII"),
    "half of a surrogate pair": ("\ud800.test", r"\ud800"),
    "an override of the writing direction": ("\u202etset.yrtsiger", r"\u202e"),
}


@pytest.mark.parametrize(("text", "canonical"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_hostname_has_one_canonical_form(text: str, canonical: str) -> None:
    assert parse_host(text) == canonical


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_hostname_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(HostError) as refusal:
        parse_host(text)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("host", "entry", "covered"),
    [
        ("registry.test", "registry.test", True),
        ("a.registry.test", "registry.test", True),
        ("a.b.registry.test", "registry.test", True),
        ("registry.test", "a.registry.test", False),
        ("registry.test.evil.test", "registry.test", False),
        ("evilregistry.test", "registry.test", False),
        ("registry.test-evil.test", "registry.test", False),
        ("test", "registry.test", False),
        ("registry", "registry.test", False),
    ],
)
def test_an_entry_covers_itself_and_its_subdomains(host: str, entry: str, *, covered: bool) -> None:
    assert matches(host, entry) is covered


def test_the_first_entry_that_covers_a_host_is_named() -> None:
    entries = ("files.test", "registry.test", "a.registry.test")
    assert first_match("a.registry.test", entries) == "registry.test"
    assert first_match("evil.test", entries) is None


def strict(text: str) -> bool:
    """The grammar a second time, without a regular expression."""
    name = text[:-1] if text.endswith(".") else text
    labels = name.split(".")
    letters = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    digits = set("0123456789")

    def is_label(label: str) -> bool:
        inner = letters | digits | {"-"}
        return 1 <= len(label) <= 63 and set(label) <= inner and "-" not in (label[0], label[-1])

    last = labels[-1].lower()
    number = set(last) <= digits or (last[:2] == "0x" and set(last[2:]) <= digits | set("abcdef"))
    return len(name) <= 253 and all(map(is_label, labels)) and not number


NEAR_MISSES = st.text(alphabet="aZ09-.xX0:/*@_ \n\0é\u212a。", max_size=12)
JOINED = st.lists(st.text(alphabet="ab0-", max_size=65), max_size=6).map(".".join)


@given(NEAR_MISSES | JOINED | st.text() | st.just(NAME_253).map(lambda name: name + "."))
@example("0x")
@example("a.")
def test_nothing_but_the_grammar_is_accepted_and_the_result_is_stable(text: str) -> None:
    if strict(text):
        canonical = parse_host(text)
        assert canonical == text.lower().removesuffix(".") == parse_host(canonical)
        assert canonical.isascii()
    else:
        with pytest.raises(HostError) as refusal:
            parse_host(text)
        assert str(refusal.value).isprintable()


HOSTS = st.lists(st.sampled_from(["a", "b", "ab", "test"]), min_size=1, max_size=4).map(tuple)


@given(HOSTS, HOSTS)
def test_matching_is_by_whole_labels(host: tuple[str, ...], entry: tuple[str, ...]) -> None:
    assert matches(".".join(host), ".".join(entry)) is (host[-len(entry) :] == entry)


@given(st.text(max_size=200))
def test_quoted_text_is_one_printable_line_of_bounded_length(text: str) -> None:
    shown = quoted(text, 40)
    assert shown.isprintable()
    assert len(shown) <= 2 + 10 * 40


def test_long_text_is_cut_where_it_is_quoted() -> None:
    assert quoted("a" * 60) == f'"{"a" * 60}"'
    assert quoted("a" * 61) == f'"{"a" * 59}…"'


def test_the_rules_cost_no_import_of_the_wire() -> None:
    heavy = "{name for name in sys.modules if name.partition('.')[0] in ('grpc', 'google')}"
    code = f"import sys; import quickstarted_api.hosts; sys.exit(repr({heavy}) if {heavy} else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
