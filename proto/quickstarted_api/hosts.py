"""What a hostname is, and what an allowlist entry matches.

Both sides compare canonical names only: `parse_host` makes them, `matches` compares them. The grammar is RFC 1123,
section 2.1, over ASCII. Nothing here folds Unicode, because clients and resolvers do not agree on how: some read
full-width digits as an address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

MAX_NAME = 253  # RFC 1035, section 2.3.4: 255 octets on the wire
MAX_LABEL = 63

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# A last label that is a number makes the whole an IPv4 address to glibc and to browsers, in dozens of notations
# (WHATWG URL, "ends in a number checker").
_NUMBER = "(?:[0-9]+|0x[0-9a-f]*)"
_HOST = re.compile(rf"(?=.{{1,{MAX_NAME}}}\Z)(?:{_LABEL}\.)*(?!{_NUMBER}\Z){_LABEL}", re.ASCII)
_ENDS_IN_NUMBER = re.compile(rf"(?:.*\.)?{_NUMBER}\Z", re.ASCII | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(?:mailto|data|file):", re.ASCII)
_PORT = re.compile(r"[^:]*:[0-9]*\Z", re.ASCII)


class HostError(ValueError):
    """Text that is not a hostname. The message is one line: what was found and what is allowed."""


def parse_host(text: str) -> str:
    """The canonical form of a hostname: ASCII, lower case, without the one trailing dot that DNS allows.

    Raises HostError for all that is not a bare hostname: addresses in any notation, ports, URLs, patterns, names that
    are not ASCII.
    """
    if text.isascii():  # before lower(), which makes a k of U+212A
        name = text.lower().removesuffix(".")
        if _HOST.fullmatch(name):
            return name
    raise HostError(f"found {quoted(text)}, {_fault(text)}")


def matches(host: str, entry: str) -> bool:
    """Whether an allowlist entry covers a host: the entry itself and its subdomains. Both are canonical names."""
    return host.endswith(entry) and (len(host) == len(entry) or host[-len(entry) - 1] == ".")


def first_match(host: str, entries: Iterable[str]) -> str | None:
    """The first entry that covers a host."""
    for entry in entries:
        if matches(host, entry):
            return entry
    return None


def quoted(text: str, limit: int = 60) -> str:
    """Text from a stranger as one line of a message: in quotes, escaped, at most `limit` characters of it."""
    kept = text if len(text) <= limit else text[: limit - 1]
    safe = "".join(char if char.isprintable() else _escaped(char) for char in kept.replace("\\", "\\\\"))
    return '"' + safe.replace('"', '\\"') + ("…" if kept is not text else "") + '"'


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _fault(text: str) -> str:
    """What is wrong with text that is no hostname, and what to write instead."""
    for found, what, remedy in _KINDS:
        if found(text):
            return f"which {what}; {remedy(text)}"
    return _fault_of_label(text.removesuffix("."))


def _fault_of_label(name: str) -> str:
    """The fault of text that is nearly a name."""
    labels = name.split(".")
    if "" in labels:
        return "which has an empty label; one dot stands between two labels"
    if long := next((label for label in labels if len(label) > MAX_LABEL), None):
        return f"which has a label of {len(long)} characters; {MAX_LABEL} are allowed"
    if len(name) > MAX_NAME:
        return f"which has {len(name)} characters; {MAX_NAME} are allowed"
    if odd := next((char for char in name if not (char.isalnum() or char in "-.")), None):
        return f"which has {quoted(odd)} in it; letters, digits, hyphens and dots are allowed"
    label = next(label for label in labels if label.strip("-") != label)
    return f"whose label {quoted(label)} begins or ends with a hyphen; hyphens are allowed inside"


def _is_range(text: str) -> bool:
    head, slash, bits = text.partition("/")
    return slash != "" and bits.isdigit() and _is_number(head)


def _is_number(text: str) -> bool:
    return _ENDS_IN_NUMBER.match(text.lower().removesuffix(".")) is not None


def _bare(_: str) -> str:
    return "give a bare hostname such as docs.example.org"


def _only_names(_: str) -> str:
    return "only names are allowed"


def _part(text: str) -> str:
    """The bare hostname that a scheme, user, port or path was added to, when there is one."""
    rest = _SCHEME.sub("", text, count=1).rpartition("@")[2]
    name = re.split(r"[/?#:\\]", rest, maxsplit=1)[0].lower().removesuffix(".")
    return f"give the bare hostname {name}" if _HOST.fullmatch(name) else _bare(text)


def _parent(text: str) -> str:
    """The name whose subdomains a pattern means, when it means them."""
    name = re.sub(r"\A[*.]+", "", text).lower()
    if _HOST.fullmatch(name):
        return f"give the bare hostname {name}: it matches its subdomains already"
    return "give bare hostnames: each matches its subdomains already"


def _ascii_form(text: str) -> str:
    """The A-labels, where Python's older rules for them and the way back agree."""
    name = ""
    if len(text) <= MAX_NAME:
        try:
            name = text.encode("idna").decode("ascii").lower()
            name = name if name.encode("ascii").decode("idna") == text.lower() else ""
        except UnicodeError:
            name = ""
    form = f" {name}" if _HOST.fullmatch(name) else ", in which a label that is not ASCII begins with xn--"
    return f"give its ASCII form{form}"


# What is found instead of a hostname: the first that fits. Whether it is there, what it is, what to write.
_KINDS: tuple[tuple[Callable[[str], bool], str, Callable[[str], str]], ...] = (
    (lambda text: text.strip() == "", "is empty", _bare),
    (lambda text: not text.isascii(), "is not ASCII", _ascii_form),
    (lambda text: " " in text, "has a space in it", _bare),
    (lambda text: not text.isprintable(), "has a control character in it", _bare),
    (lambda text: _SCHEME.match(text) is not None, "is a URL", _part),
    (lambda text: "@" in text, "has a user in it", _part),
    (lambda text: text.startswith("[") or text.count(":") > 1, "is an IP address", _only_names),
    (_is_range, "is a range of IP addresses", _only_names),
    (lambda text: any(char in text for char in "/?#\\"), "has a path in it", _part),
    (lambda text: "*" in text, "is a pattern", _parent),
    (lambda text: _PORT.match(text) is not None, "has a port in it", _part),
    (lambda text: text.startswith(".") and text.strip(".") != "", "begins with a dot", _parent),
    (_is_number, "is an IP address", _only_names),
)
