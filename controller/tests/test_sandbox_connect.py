"""Addresses as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from quickstarted.sandbox.connect import AddressError, parse

GOOD = [
    ("unix:/run/sandboxd.sock", "/run/sandboxd.sock"),
    ("unix:///run/sandboxd.sock", "/run/sandboxd.sock"),
    ("  unix:/run/sandboxd.sock\n", "/run/sandboxd.sock"),
    ("unix:sandboxd.sock", str(Path.cwd() / "sandboxd.sock")),
    ("unix:~/sandboxd.sock", str(Path.home() / "sandboxd.sock")),
]


@pytest.mark.parametrize(("text", "socket"), GOOD, ids=[row[0].strip() for row in GOOD])
def test_a_socket(text: str, socket: str) -> None:
    address = parse(text)
    assert (address.socket, address.text) == (socket, f"unix:{socket}")


BAD = [
    ("", "empty"),
    ("   ", "empty"),
    ("unix:", "no path"),
    ("/run/sandboxd.sock", "expected unix:/path"),
    ("localhost:7443", "expected unix:/path"),
    ("http://runner", "expected unix:/path"),
    ("grpcs://runner:7443", "not supported by this version"),
    ("ssh://me@runner", "not supported by this version"),
    ("unix:/a.sock,unix:/b.sock", "more than one"),
    ("unix:/a.sock unix:/b.sock", "more than one"),
    ("unix:/" + "x" * 120, "too long"),
    ("unix:/a\0b", "no path"),
]


@pytest.mark.parametrize(("text", "says"), BAD, ids=[repr(row[0])[:40] for row in BAD])
def test_text_that_names_no_runner_is_refused(text: str, says: str) -> None:
    with pytest.raises(AddressError, match=says):
        parse(text)
