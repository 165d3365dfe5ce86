"""What a task file may hold: the task specification as one voluptuous schema, compiled once.

`SCHEMA` takes the plain value of a document and returns it checked, without unknown keys, with hosts and URLs in their
canonical form. It raises voluptuous.MultipleInvalid with every fault. A message says what was found and what is
allowed; where it stands is the loader's matter. Defaults are the model's.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quickstarted_api.hosts import HostError, parse_host, quoted
from voluptuous import REMOVE_EXTRA, Invalid, MultipleInvalid, Optional, Required, Schema

from quickstarted.task.document import Other
from quickstarted.task.problems import Path, nearest

Validator = Callable[[Any], Any]

MAX_INTEGER = 2**31 - 1  # what the wire carries
MAX_NAME = 100

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
# A reference as the engines read it, without its finer rules: they say themselves what they can't resolve. It may not
# begin with a hyphen, which would make it an option of theirs.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,299}", re.ASCII)
# RFC 3986, appendix B, for the two schemes.
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(.*)", re.IGNORECASE | re.DOTALL | re.ASCII)
_URL_WITHOUT_SCHEME = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]+)?(?:/.*)?", re.IGNORECASE | re.ASCII)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?![0-9])", re.IGNORECASE | re.ASCII)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(.*)", re.DOTALL)
_PORT = re.compile(r":[1-9][0-9]{0,4}", re.ASCII)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Fault(Invalid):
    """What is wrong with a value. `at` leads from the field to the part to point at, `of_key` to the key itself."""

    def __init__(self, message: str, path: Iterable[str | int] = (), *, at: Path = (), of_key: bool = False) -> None:
        super().__init__(message, list(path))
        self.at = at
        self.of_key = of_key


class UnknownKey(Fault):
    """A key that the specification does not have. `known` are those that may stand in its place."""

    def __init__(self, key: str, known: Sequence[str], *, ignored: bool) -> None:
        near = nearest(key, known)
        message = "unknown key, which is ignored; " if ignored else "unknown key; "
        message += f"did you mean {near}? Allowed: " if near else "allowed: "
        super().__init__(message + ", ".join(known), [key], of_key=True)


def describe(value: object) -> str:
    """A value as messages show what was found."""
    match value:
        case None:
            return "nothing"
        case str():
            return f"{quoted(value)}, a string"
        case Other(kind, text):
            return f"{quoted(text)[1:-1]}, which YAML reads as {kind}"
        case bool():
            return f"{str(value).lower()}, a boolean"
        case int() | float():
            return f"{value}, a number"
        case datetime.date():
            return f"{value}, a date"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"


# --- Kinds of values ----------------------------------------------------------------------------------------------


def string(allowed: str, check: Callable[[str], str] = str) -> Validator:
    """A string that is not blank. `allowed` completes "found nothing; give …"."""

    def validate(value: Any) -> str:
        if value is None or isinstance(value, list):
            raise Fault(f"found {describe(value)}; give {allowed}")
        if isinstance(value, dict):
            raise Fault(f'found {describe(value)}; give {allowed}, in quotes if it holds ": "')
        if not isinstance(value, str):
            raise Fault(f"found {describe(value)}; put it in quotes to make it {allowed}")
        if value == "" or value.isspace():
            raise Fault(f"found a blank string; give {allowed}")
        return check(value)

    return validate


def integer(minimum: int) -> Validator:
    """A whole number."""
    allowed = f"give a whole number of at least {minimum}"

    def validate(value: Any) -> int:
        if type(value) is int and minimum <= value <= MAX_INTEGER:
            return value
        if type(value) is int and value > MAX_INTEGER:
            raise Fault(f"found {value}; give at most {MAX_INTEGER}")
        found = str(value) if type(value) is int else describe(value)
        quotes = ", without quotes" if isinstance(value, str) and value.strip().isdecimal() else ""
        raise Fault(f"found {found}; {allowed}{quotes}")

    return validate


def list_of(item: Validator, allowed: str, *, required: bool = False) -> Validator:
    """A list. Nothing is an empty list, unless the list itself carries a meaning."""
    items = Schema([item])

    def validate(value: Any) -> Any:
        if value is None and not required:
            return []
        if not isinstance(value, list):
            wrap = ': put "- " in front of it' if isinstance(value, str) else ""
            raise Fault(f"found {describe(value)}; give {allowed}{wrap}")
        return items(value)

    return validate


def mapping(
    fields: dict[Any, Validator],
    *,
    strict: bool,
    optional: bool = False,
    allowed: str = "",
    rule: Callable[[dict[str, Any]], Iterable[Fault]] = lambda _: (),
) -> Validator:
    """A mapping. `strict` refuses unknown keys, `rule` finds what is wrong between fields."""
    known = tuple(map(str, fields))
    allowed = allowed or f"give a mapping with the keys {', '.join(known)}"
    checked = Schema(fields, extra=REMOVE_EXTRA)

    def validate(value: Any) -> Any:
        if value is None and optional:
            return {}
        if not isinstance(value, dict):
            raise Fault(f"found {describe(value)}; {allowed}")
        faults: list[Invalid] = list(rule(value))
        if strict:
            faults += [UnknownKey(str(key), known, ignored=False) for key in value if key not in known]
        try:
            result = checked(value)
        except MultipleInvalid as error:
            # Missing keys come in no order.
            faults += sorted(error.errors, key=lambda fault: known.index(str(fault.path[0])))
        if faults:
            raise MultipleInvalid(faults)
        return result

    return validate


# --- Fields -------------------------------------------------------------------------------------------------------


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise Fault(f"found {quoted(value)}; give {_A_NAME}: results are stored under it")
    if len(value) > MAX_NAME:
        raise Fault(f"found {len(value)} characters; give at most {MAX_NAME}")
    return value


def _image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise Fault(f"found {quoted(value)}; give {_AN_IMAGE}")
    return value


def _host(value: str) -> str:
    try:
        return parse_host(value)
    except HostError as error:
        raise Fault(str(error)) from None


def page_url(value: str) -> str:
    """The canonical form of a page's URL: RFC 3986, section 6.2.3, with the path as it is."""
    if not value.isprintable() or " " in value or "\\" in value:
        raise Fault(
            f"found {_without_user(value)}; spaces, backslashes and control characters are percent-encoded in a URL"
        )
    parts = _URL.fullmatch(value)
    if parts is None:
        scheme = _SCHEME.match(value)
        if scheme is None:
            meant = f": https://{value}" if _URL_WITHOUT_SCHEME.fullmatch(value) else ""
            raise Fault(f"found {_without_user(value)}, which is no URL; give {_A_URL}{meant}")
        raise Fault(f"found {_without_user(value)}, a URL of the scheme {scheme[1][:20]}; give {_A_URL}")
    scheme_name, authority, path, rest = parts[1].lower(), parts[2], parts[3], parts[4]
    if "@" in authority:
        raise Fault(
            f"found {_without_user(value)}, which has a user in it; give the URL without: a task holds no secrets"
        )
    host, port = _AUTHORITY.findall(authority)[0]
    if port and not (_PORT.fullmatch(port) and int(port[1:]) <= 65_535):
        raise Fault(
            f"found {_without_user(value)}, whose port is {quoted(port[1:])}; give a port from 1 to 65535, or none"
        )
    try:
        name = parse_host(host)
    except HostError as error:
        why = str(error).removeprefix("found ")
        raise Fault(f"found {_without_user(value)}, a URL with the host {why}") from None
    port = "" if port == _DEFAULT_PORTS[scheme_name] else port
    return f"{scheme_name}://{name}{port}{path or '/'}{rest}"


def _without_user(url: str) -> str:
    """A URL as messages show it: what stands in front of an @ may be a password."""
    return quoted(re.sub(r"//[^/?#]*@", "//…@", url, count=1))


def _pages(value: Any) -> Any:
    urls = _URLS(value)
    if not urls:
        raise Fault(f"found an empty list; give {_A_URL} for each page, in the order of reading")
    for index, url in enumerate(urls):
        if (first := urls.index(url)) < index:
            raise Fault(
                f"found {quoted(value[index])} twice, as items {first} and {index}; give each page once", at=[index]
            )
    return urls


def _one_route(docs: dict[str, Any]) -> Iterable[Fault]:
    both = docs.keys() & {"entrypoint", "path"}
    if not both:
        yield Fault(f"missing; give {_A_URL}, the first page to read", ["entrypoint"])
    elif len(both) == 2:
        later = max(both, key=list(docs).index)
        yield Fault("found both entrypoint and path; give one, path being the plural", at=[later], of_key=True)


_A_NAME = 'a name of letters, digits, ".", "_" and "-" that does not begin with "."'
_AN_IMAGE = "the name of a container image, such as python:3.12-slim"
_A_URL = "an http or https URL"
_HOSTS = "a list of hostnames"
_COMMANDS = "a list of commands, each a string"

_URL_ITEM = string(_A_URL, page_url)
_URLS = list_of(_URL_ITEM, "a list of http or https URLs", required=True)
_HOST_ITEM = string("a hostname", _host)
_COMMAND = string("a command")
_IMAGE_NAME = string(_AN_IMAGE, _image)
_A_DOCS = "give a mapping with the key entrypoint or path"
_A_SUCCESS = "give a mapping with the key script"
_A_GOAL = "a string that tells what the agent has to achieve"
_A_SCRIPT = "a shell script that decides"

BUDGETS = {
    "max_turns": integer(1),
    "max_seconds": integer(1),
    "max_command_seconds": integer(1),
    "max_output_chars": integer(1),
    "max_tokens": integer(0),
}
DOCS = {"entrypoint": _URL_ITEM, "path": _pages, "allow": list_of(_HOST_ITEM, _HOSTS)}
NETWORK = {
    "allow": list_of(_HOST_ITEM, _HOSTS),
    "only": list_of(_HOST_ITEM, f"{_HOSTS}, empty for no host at all", required=True),
}
SUCCESS = {Required("script", msg=f"missing; give {_A_SCRIPT}"): string(_A_SCRIPT)}
TASK = {
    Required("name", msg=f"missing; give {_A_NAME}"): string(_A_NAME, _name),
    Required("goal", msg=f"missing; give {_A_GOAL}"): string(_A_GOAL, str.strip),
    Required("docs", msg=f"missing; {_A_DOCS}"): mapping(DOCS, strict=False, allowed=_A_DOCS, rule=_one_route),
    Required("success", msg=f"missing; {_A_SUCCESS}"): mapping(SUCCESS, strict=True, allowed=_A_SUCCESS),
    Optional("setup"): list_of(_COMMAND, _COMMANDS),
    Optional("replay"): list_of(_COMMAND, _COMMANDS),
    Optional("network"): mapping(NETWORK, strict=True, optional=True),
    Optional("budgets"): mapping(BUDGETS, strict=True, optional=True),
    Optional("image"): lambda value: None if value is None else _IMAGE_NAME(value),
}

SCHEMA = Schema(
    mapping(TASK, strict=False, allowed="a task file is a mapping with the keys name, goal, docs and success")
)

# Mappings whose unknown keys the specification lets pass. They are told, so that a typo is seen.
LENIENT = (((), tuple(map(str, TASK))), (("docs",), tuple(DOCS)))
