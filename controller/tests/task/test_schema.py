"""Every field of a task: what it may hold, what it becomes, and what is said of all else."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.task.document import Other
from quickstarted.task.problems import field_name
from quickstarted.task.schema import MAX_INTEGER, SCHEMA, Fault, page_url
from voluptuous import MultipleInvalid

URL = "https://docs.test/start"


def task(**fields: Any) -> dict[str, Any]:
    """The smallest task, with fields of it replaced; `None` takes one away."""
    base = {"name": "t", "goal": "do it", "docs": {"entrypoint": URL}, "success": {"script": "true"}}
    return {key: value for key, value in {**base, **fields}.items() if value is not None}


def faults(value: Any) -> list[str]:
    """What the schema says, in order, as `field: message`."""
    with pytest.raises(MultipleInvalid) as refusal:
        SCHEMA(value)
    return [f"{field_name([*map(key_or_index, fault.path)])}: {fault.msg}" for fault in refusal.value.errors]


def key_or_index(step: Any) -> str | int:
    return step if isinstance(step, int) else str(step)


NOT_A_STRING = {
    "nothing": (None, "found nothing; give"),
    "a boolean": (Other("a boolean", "yes"), "found yes, which YAML reads as a boolean; put it in quotes to make it"),
    "a date": (Other("a date", "2024-01-31"), "found 2024-01-31, which YAML reads as a date; put it in quotes"),
    "a number": (7, "found 7, a number; put it in quotes to make it"),
    "a list": (["x"], "found a list; give"),
    "an empty list": ([], "found an empty list; give"),
    "a mapping": ({"x": "y"}, 'found a mapping; give'),
    "a blank": (" \n", "found a blank string; give"),
    "an empty string": ("", "found a blank string; give"),
    "another loader's boolean": (True, "found true, a boolean; put it in quotes"),
    "another loader's date": (datetime.date(2024, 1, 31), "found 2024-01-31, a date; put it in quotes"),
}  # fmt: skip
STRINGS = {
    "name": lambda value: task(name=value) | {"name": value},
    "goal": lambda value: task() | {"goal": value},
    "docs.entrypoint": lambda value: task(docs={"entrypoint": value}),
    "docs.path[1]": lambda value: task(docs={"path": [URL, value]}),
    "docs.allow[1]": lambda value: task(docs={"entrypoint": URL, "allow": ["a.test", value]}),
    "network.allow[0]": lambda value: task(network={"allow": [value]}),
    "network.only[0]": lambda value: task(network={"only": [value]}),
    "success.script": lambda value: task(success={"script": value}),
    "setup[0]": lambda value: task(setup=[value]),
    "replay[2]": lambda value: task(replay=["a", "b", value]),
}


@pytest.mark.parametrize("field", STRINGS)
@pytest.mark.parametrize(("value", "says"), NOT_A_STRING.values(), ids=NOT_A_STRING)
def test_a_string_is_a_string_that_is_not_blank(field: str, value: Any, says: str) -> None:
    (fault,) = faults(STRINGS[field](value))
    assert fault.startswith(f"{field}: {says}")


LISTS = {
    "docs.allow": lambda value: task(docs={"entrypoint": URL, "allow": value}),
    "docs.path": lambda value: task(docs={"path": value}),
    "network.allow": lambda value: task(network={"allow": value}),
    "network.only": lambda value: task(network={"only": value}),
    "setup": lambda value: task(setup=value),
    "replay": lambda value: task(replay=value),
}


@pytest.mark.parametrize("field", LISTS)
@pytest.mark.parametrize("value", ["x.test", 7, Other("a boolean", "yes"), {"x": "y"}], ids=repr)
def test_a_list_is_a_list(field: str, value: Any) -> None:
    (fault,) = faults(LISTS[field](value))
    assert fault.startswith(f"{field}: found ")
    assert "give a list of" in fault
    assert ('put "- " in front of it' in fault) is isinstance(value, str)


@pytest.mark.parametrize("field", ["docs", "success", "network", "budgets"])
@pytest.mark.parametrize("value", ["x", 7, ["x"], [], Other("a boolean", "no")], ids=repr)
def test_a_mapping_is_a_mapping(field: str, value: Any) -> None:
    (fault,) = faults(task(**{field: value}))
    assert fault.startswith(f"{field}: found ")
    assert "give a mapping with the key" in fault


OPTIONAL = {
    "setup": task() | {"setup": None},
    "replay": task() | {"replay": None},
    "network": task() | {"network": None},
    "budgets": task() | {"budgets": None},
    "image": task() | {"image": None},
    "docs.allow": task(docs={"entrypoint": URL, "allow": None}),
    "network.allow": task(network={"allow": None}),
}


@pytest.mark.parametrize("value", OPTIONAL.values(), ids=OPTIONAL)
def test_an_optional_field_may_be_left_empty(value: Any) -> None:
    SCHEMA(value)


def test_an_empty_list_of_the_only_hosts_has_to_be_meant() -> None:
    assert SCHEMA(task(network={"only": []}))["network"] == {"only": []}
    assert faults(task(network={"only": None})) == [
        "network.only: found nothing; give a list of hostnames, empty for no host at all"
    ]


NAMES = {"t", "T", "7", "-", "_", "a.b", "duckdb-quickstart", "a" * 100}
NO_NAMES = {".", "..", ".a", "a b", "a/b", "a\\b", "../x", "a\n", "a:b", "é", "a\u212a", "٣", "a*"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name(name: str) -> None:
    assert SCHEMA(task(name=name))["name"] == name


@pytest.mark.parametrize("name", sorted(NO_NAMES))
def test_what_is_no_name_as_it_becomes_a_directory(name: str) -> None:
    (fault,) = faults(task(name=name))
    assert fault.startswith('name: found "')
    assert "letters, digits" in fault


def test_a_name_has_100_characters() -> None:
    assert faults(task(name="a" * 101)) == ["name: found 101 characters; give at most 100"]


IMAGES = ["python:3.12-slim", "registry.test:5000/team/x:1", "x@sha256:00ff", "Ubuntu"]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image(image: str) -> None:
    assert SCHEMA(task(image=image))["image"] == image


@pytest.mark.parametrize("image", ["--privileged", "a b", "a\n", "a;b", "$(x)", "é", "/x", "a" * 301])
def test_what_no_engine_should_be_given_as_an_image(image: str) -> None:
    (fault,) = faults(task(image=image))
    assert fault.startswith("image: found ")


def test_a_goal_is_stripped_and_keeps_its_lines() -> None:
    assert SCHEMA(task(goal="\n a\n b \n"))["goal"] == "a\n b"


BUDGETS = {"max_turns": 1, "max_seconds": 1, "max_command_seconds": 1, "max_output_chars": 1, "max_tokens": 0}
NO_INTEGERS = {
    "a string": ("20", 'found "20", a string; give a whole number of at least {}, without quotes'),
    "a word": ("many", 'found "many", a string; give a whole number of at least {}'),
    "nothing": (None, "found nothing; give a whole number of at least {}"),
    "below": (-1, "found -1; give a whole number of at least {}"),
    "a fraction": (Other("a number with a fraction", "1.5"), "found 1.5, which YAML reads as a number with a fraction"),
    "a boolean": (Other("a boolean", "true"), "found true, which YAML reads as a boolean"),
    "another loader's boolean": (True, "found true, a boolean"),
    "another loader's fraction": (1.5, "found 1.5, a number; give a whole number"),
    "too much": (MAX_INTEGER + 1, "found 2147483648; give at most 2147483647"),
    "a list": ([1], "found a list; give a whole number"),
}


@pytest.mark.parametrize(("field", "minimum"), BUDGETS.items(), ids=BUDGETS)
def test_a_budget_is_an_integer_from_its_minimum(field: str, minimum: int) -> None:
    assert SCHEMA(task(budgets={field: minimum}))["budgets"] == {field: minimum}
    assert SCHEMA(task(budgets={field: MAX_INTEGER}))["budgets"] == {field: MAX_INTEGER}
    assert faults(task(budgets={field: minimum - 1})) == [
        f"budgets.{field}: found {minimum - 1}; give a whole number of at least {minimum}"
    ]


@pytest.mark.parametrize("field", BUDGETS)
@pytest.mark.parametrize(("value", "says"), NO_INTEGERS.values(), ids=NO_INTEGERS)
def test_what_is_no_budget(field: str, value: Any, says: str) -> None:
    (fault,) = faults(task(budgets={field: value}))
    assert fault.startswith(f"budgets.{field}: {says.format(BUDGETS[field])}")


PAGES = {
    "https://docs.test/start": "https://docs.test/start",
    "HTTPS://Docs.TEST./Start?Q=A#B": "https://docs.test/Start?Q=A#B",
    "http://docs.test": "http://docs.test/",
    "http://docs.test:80/": "http://docs.test/",
    "https://docs.test:443": "https://docs.test/",
    "https://docs.test:80/": "https://docs.test:80/",
    "https://docs.test:65535/a": "https://docs.test:65535/a",
    "https://docs.test?q": "https://docs.test/?q",
    "https://docs.test#f": "https://docs.test/#f",
    "https://docs.test/a//b/../c": "https://docs.test/a//b/../c",
    "https://docs.test/é": "https://docs.test/é",
    "http://localhost:8000/": "http://localhost:8000/",
    "https://docs.test/@user:x": "https://docs.test/@user:x",
}
NO_PAGES = {
    "ftp://docs.test/": "a URL of the scheme ftp; give an http or https URL",
    "javascript:alert(1)": "a URL of the scheme javascript",
    "docs.test": "which is no URL; give an http or https URL: https://docs.test",
    "docs.test:8000/x": "which is no URL; give an http or https URL: https://docs.test:8000/x",
    "/start": "which is no URL",
    "//docs.test/": "which is no URL",
    "https:/docs.test": "a URL of the scheme https",
    "https:///": 'a URL with the host "", which is empty',
    "https://:443/": 'a URL with the host "", which is empty',
    "https://10.0.0.1/": 'a URL with the host "10.0.0.1", which is an IP address',
    "https://0x7f.1/": "which is an IP address",
    "https://[::1]/": 'a URL with the host "[::1]", which is an IP address',
    "https://[::1]:443/": 'a URL with the host "[::1]", which is an IP address',
    "https://docs_x.test/": '"_" in it',
    "https://döcs.test/": "xn--",
    "https://docs.test%2f.evil.test/": '"%" in it',
    "https://docs..test/": "empty label",
    "https://docs.test:0/": 'whose port is "0"; give a port from 1 to 65535',
    "https://docs.test:65536/": 'whose port is "65536"',
    "https://docs.test:0443/": 'whose port is "0443"',
    "https://docs.test:/": 'whose port is ""',
    "https://docs.test:+443/": 'whose port is "+443"',
    "https://docs.test:٤٤٣/": "whose port is",
    "https://docs.test/a b": "spaces, backslashes and control characters are percent-encoded",
    "https://docs.test\\@evil.test/": "percent-encoded",
    "https://docs.test/\n": "percent-encoded",
    "https://docs.test/\u202e": "percent-encoded",
    " https://docs.test/": "percent-encoded",
}


@pytest.mark.parametrize(("url", "canonical"), PAGES.items(), ids=PAGES)
def test_a_page_has_one_canonical_url(url: str, canonical: str) -> None:
    assert page_url(url) == canonical == page_url(canonical)


@pytest.mark.parametrize(("url", "says"), NO_PAGES.items(), ids=[repr(url) for url in NO_PAGES])
def test_what_is_no_page(url: str, says: str) -> None:
    with pytest.raises(Fault) as fault:
        page_url(url)
    assert says in fault.value.msg


@pytest.mark.parametrize("user", ["user", "user:hunter2", "a@hunter2", ":hunter2"])
def test_a_url_has_no_user(user: str) -> None:
    with pytest.raises(Fault, match="a user in it"):
        page_url(f"https://{user}@docs.test/")


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@docs.test/",
        "https://user:hunter2@docs.test/a b",
        "https://user:hunter2@docs.test:0/",
        "ftp://user:hunter2@docs.test/",
        "//user:hunter2@docs.test/",
        "https://user:p@hunter2@docs.test",
    ],
)
def test_a_password_is_not_repeated(url: str) -> None:
    with pytest.raises(Fault) as fault:
        page_url(url)
    assert "hunter2" not in fault.value.msg


@given(st.text() | st.from_regex(r"https?://[a-z.:@\[\]0-9-]{0,20}[/?#]?[ -~]{0,9}", fullmatch=True))
def test_any_text_is_a_page_or_a_fault_and_what_is_accepted_is_stable(url: str) -> None:
    try:
        canonical = page_url(url)
    except Fault as fault:
        told = fault.msg
    else:
        told = page_url(canonical)
        assert told == canonical
    assert told.isprintable()


def test_docs_have_one_route() -> None:
    assert faults(task(docs={})) == ["docs.entrypoint: missing; give an http or https URL, the first page to read"]
    assert faults(task(docs={"path": [URL], "entrypoint": URL})) == [
        "docs: found both entrypoint and path; give one, path being the plural"
    ]
    assert SCHEMA(task(docs={"path": [URL, f"{URL}#a"]}))["docs"] == {"path": [URL, f"{URL}#a"]}


def test_a_page_is_given_once_however_it_is_written() -> None:
    assert faults(task(docs={"path": ["https://docs.test", URL, "HTTPS://docs.test:443/"]})) == [
        'docs.path: found "HTTPS://docs.test:443/" twice, as items 0 and 2; give each page once'
    ]
    (fault,) = faults(task(docs={"path": []}))
    assert fault.startswith("docs.path: found an empty list")


def test_hosts_are_canonical() -> None:
    value = SCHEMA(
        task(docs={"entrypoint": URL, "allow": ["A.test."]}, network={"allow": ["B.test"], "only": ["C.test"]})
    )
    assert (value["docs"]["allow"], value["network"]) == (["a.test"], {"allow": ["b.test"], "only": ["c.test"]})


@pytest.mark.parametrize(
    ("field", "key", "says"),
    [
        ("budgets", "max_turn", "did you mean max_turns? Allowed: max_turns, max_seconds, max_command_seconds,"),
        ("budgets", "Max-Tokens", "did you mean max_tokens?"),
        ("budgets", "colour", "allowed: max_turns,"),
        ("network", "alow", "did you mean allow? Allowed: allow, only"),
        ("network", "", "allowed: allow, only"),
    ],
)
def test_a_typo_fails_loudly(field: str, key: str, says: str) -> None:
    (fault,) = faults(task(**{field: {key: 1}}))
    assert f": unknown key; {says}" in fault


def test_unknown_keys_elsewhere_are_left_out() -> None:
    value = SCHEMA(task(docs={"entrypoint": URL, "x": 1}, x=1))
    assert value == SCHEMA(task())


def test_everything_is_told_at_once_in_the_order_of_the_specification() -> None:
    assert [fault.partition(":")[0] for fault in faults({"docs": {"allow": "x"}, "success": {}, "image": 5})] == [
        "name",
        "goal",
        "docs.entrypoint",
        "docs.allow",
        "success.script",
        "image",
    ]
