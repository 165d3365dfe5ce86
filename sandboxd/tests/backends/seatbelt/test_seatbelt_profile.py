"""The profile's text: as it was when it was last looked at, and what must hold for every text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.backends.seatbelt.profile import SYSTEM, Places, PlacesError, profile

PLACES = Places(
    "/private/var/sbx/w",
    "/private/var/sbx/h",
    "/private/var/sbx/t",
    ["/Volumes/tools/.pyenv", "/Volumes/tools/.cargo/bin"],
    54321,
    ["/Volumes/tools/ca.pem"],
)
SNAPSHOT = Path(__file__).with_name("profile.sb")
NAMES = st.from_regex(r"[A-Za-z0-9 ._()\"\\;#-]{1,20}", fullmatch=True).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=2, max_size=4).map(lambda names: "/" + "/".join(names))


def expressions(text: str) -> list[list[object]]:
    """The text as its language reads it: lists of words, strings and lists."""
    tokens = re.findall(r';[^\n]*|#?"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+', text)
    stack: list[list[object]] = [[]]
    for token in tokens:
        if token.startswith(";"):
            continue
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(json.loads(token) if token.startswith('"') else token)
    assert len(stack) == 1
    return stack[0]  # type: ignore[return-value]  # a profile is a list of lists


def rules(text: str, action: str, operation: str) -> list[object]:
    """The filters of every rule of an action that names an operation."""
    found: list[object] = []
    for each in expressions(text):
        if each[0] == action and operation in [word for word in each if isinstance(word, str)]:
            found += [part for part in each if isinstance(part, list)]
    return found


def test_the_profile_is_as_it_was_when_it_was_last_looked_at() -> None:
    assert profile(PLACES) == SNAPSHOT.read_text()


def test_everything_is_denied_first() -> None:
    assert expressions(profile(PLACES))[:2] == [["version", "1"], ["deny", "default"]]


def test_the_only_way_out_is_the_one_port() -> None:
    text = profile(PLACES)
    outbound = rules(text, "allow", "network-outbound")
    assert [each for each in outbound if isinstance(each, list) and each[0] == "remote"] == [
        ["remote", "ip", "localhost:54321"]
    ]
    # A filter on the local side would allow every destination.
    assert [each for each in outbound if isinstance(each, list) and each[0] == "local"] == []
    assert "network*" not in text


@pytest.mark.parametrize(
    "word",
    ["no-sandbox", "mDNSResponder", "lsd", "launchservices", "appleevent", "coreservices", "(import", "iokit", "*:53"],
)
def test_what_would_be_a_door_is_not_in_it(word: str) -> None:
    assert word.lower() not in profile(PLACES).lower()


def test_no_others_process_and_no_others_terminal() -> None:
    text = profile(PLACES)
    assert rules(text, "allow", "signal") == [["target", "same-sandbox"]]
    terminals = [part for part in rules(text, "allow", "file-ioctl") if "ttys" in str(part)]
    assert terminals == [["require-all", ["regex", '#"^/dev/ttys[0-9]+$"'], ["extension", "com.apple.sandbox.pty"]]]
    assert "procargs" not in text


def written(text: str) -> list[str]:
    """The directories that may be written to."""
    filters = rules(text, "allow", "file-write*")
    return [str(part[1]) for part in filters if isinstance(part, list) and part[0] == "subpath"]


def test_only_its_own_directories_can_be_written() -> None:
    assert written(profile(PLACES)) == list(PLACES.writable)


def test_its_directories_and_all_above_them_stay_where_they_are() -> None:
    text = profile(PLACES)
    pinned = {part[1] for part in rules(text, "deny", "file-write-unlink") if isinstance(part, list)}
    assert pinned == {*PLACES.writable, "/private/var/sbx", "/private/var", "/private", "/"}
    # The last rule that fits counts.
    assert text.rindex("(deny file-write-unlink") > text.rindex("(allow file-read* file-write* (subpath")


@given(names=st.lists(PATHS, min_size=4, max_size=4, unique=True), port=st.integers(1024, 65535))
def test_whatever_the_paths_they_are_strings_and_nothing_else(names: list[str], port: int) -> None:
    places = Places(names[0], names[1], names[2], [names[3]], port)
    try:
        text = profile(places)
    except PlacesError:
        return
    plain = expressions(profile(PLACES))
    found = expressions(text)
    # As many rules of the same kinds: no path has become one.
    assert [each[0] for each in found] == [each[0] for each in plain]
    subpaths = [
        part[1] for part in rules(text, "allow", "file-write*") if isinstance(part, list) and part[0] == "subpath"
    ]
    assert subpaths == names[:3]


@pytest.mark.parametrize(
    "places",
    [
        Places("w", "/h/h", "/t/t", [], 2000),
        Places("/w/../x", "/h/h", "/t/t", [], 2000),
        Places("/w/w/", "/h/h", "/t/t", [], 2000),
        Places("/", "/h/h", "/t/t", [], 2000),
        Places("/w/w", "/w/w/h", "/t/t", [], 2000),
        Places("/w/w", "/h/h", "/t/t", ["/w"], 2000),
        Places(f"{SYSTEM[-1]}/w", "/h/h", "/t/t", [], 2000),
        Places("/w/w\n(allow default)", "/h/h", "/t/t", [], 2000),
        Places("/w/ẅ", "/h/h", "/t/t", [], 2000),
        Places("/w/w", "/h/h", "/t/t", [], 53),
        Places("/w/w", "/h/h", "/t/t", [], 70000),
    ],
    ids=str,
)
def test_places_that_no_profile_can_hold_are_refused(places: Places) -> None:
    with pytest.raises(PlacesError):
        profile(places)
