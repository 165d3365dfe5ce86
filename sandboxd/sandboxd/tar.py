"""The tar format, read strictly, from a stream: what is ambiguous, cut short or behind the end is refused.

Formats: ustar and pax as in POSIX.1-2017, XCU pax, "ustar Interchange Format" and "pax Interchange Format", and the
long names of GNU tar. Python's own reader takes a damaged header in the middle for the end of the archive, and holds
an extended header of any size in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

BLOCK = 512
# Of one extended header: a path of 4 KiB and extended attributes, which are 64 KiB each at most.
MAX_EXTENDED = 1 << 20
_SKIP = 64 * 1024


class TarError(ValueError):
    """The stream is no archive that can be read; the message says where it goes wrong."""


class Kind(StrEnum):
    """What a member is; the values are for messages."""

    FILE = "a file"
    DIRECTORY = "a directory"
    SYMLINK = "a symbolic link"
    HARDLINK = "a hard link"
    DEVICE = "a device"
    PIPE = "a pipe"
    SPARSE = "a sparse file"
    UNKNOWN = "of an unknown type"


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,  # contiguous: a file, says POSIX, to those who make no difference
    b"1": Kind.HARDLINK,
    b"2": Kind.SYMLINK,
    b"3": Kind.DEVICE,
    b"4": Kind.DEVICE,
    b"5": Kind.DIRECTORY,
    b"6": Kind.PIPE,
    b"S": Kind.SPARSE,
}
_WITH_CONTENTS = (Kind.FILE, Kind.SPARSE, Kind.UNKNOWN)
_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"


@dataclass(frozen=True, slots=True)
class Member:
    """A member as its headers have it. `name` is raw, `mode` may have any bit."""

    name: bytes
    kind: Kind
    size: int
    mode: int


class Contents:
    """The contents of the member that was read last."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self._left = size
        self._padding = -size % BLOCK

    def read(self, size: int) -> bytes:
        """The next bytes, empty at the end. Raises TarError when the stream ends before."""
        data = self._source.read(min(size, self._left))
        if self._left and size and not data:
            raise TarError(f"it ends {self._left} bytes before the end of a file")
        self._left -= len(data)
        return data

    def skip(self) -> None:
        """Go to the next header."""
        while self._left:
            self.read(_SKIP)
        _exactly(self._source, self._padding, "it ends within a block")
        self._padding = 0


def members(source: BinaryIO) -> Iterator[tuple[Member, Contents]]:
    """The members of an archive with their contents, which can be read until the next member is asked for.

    Raises TarError.
    """
    while (header := _header(source)) is not None:
        extended: dict[str, bytes] = {}
        while header.type in (_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK):
            _extend(extended, header, source)
            header = _header(source)
            if header is None:
                raise TarError("it ends after an extended header")
        member = _member(header, extended)
        contents = Contents(source, member.size if member.kind in _WITH_CONTENTS else 0)
        yield member, contents
        contents.skip()


@dataclass(frozen=True, slots=True)
class _Header:
    name: bytes
    mode: int
    size: int
    type: bytes


def _header(source: BinaryIO) -> _Header | None:
    """The next header; None at the end, after which nothing may follow."""
    block = _exactly(source, BLOCK, "it ends without its end mark")
    if not any(block):
        if any(_exactly(source, BLOCK, "half of its end mark is missing")):
            raise TarError("half of its end mark is missing")
        while rest := source.read(_SKIP):
            if any(rest):
                raise TarError("there is something behind its end mark")
        return None
    if _number(block[148:156], "checksum") != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise TarError("a header's checksum is wrong")
    name = block[:100].split(b"\0", 1)[0]
    prefix = block[345:500].split(b"\0", 1)[0]
    if prefix and block[257:263] == b"ustar\0":
        name = prefix + b"/" + name
    return _Header(name, _number(block[100:108], "mode"), _number(block[124:136], "size"), block[156:157])


def _number(field: bytes, what: str) -> int:
    if field[0] & 0x80:  # GNU: the rest is binary, and 0xFF begins a negative number
        if field[0] != 0x80:
            raise TarError(f"a header's {what} is negative")
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not re.fullmatch(b"[0-7]*", digits):
        raise TarError(f"a header's {what} is no number")
    return int(digits or b"0", 8)


def _extend(extended: dict[str, bytes], header: _Header, source: BinaryIO) -> None:
    if header.size > MAX_EXTENDED:
        raise TarError(f"an extended header of {header.size} bytes; {MAX_EXTENDED} are taken")
    text = _exactly(source, header.size, "it ends within an extended header")
    _exactly(source, -header.size % BLOCK, "it ends within an extended header")
    if header.type == _LONG_LINK:
        return
    if header.type == _LONG_NAME:
        found = {"path": text.split(b"\0", 1)[0]}
    else:
        found = _records(text)
        if header.type == _GLOBAL:
            # What it says of all members is their times and comments, or it is a trick.
            if found.keys() & {"path", "size", "linkpath"} or any(key.startswith("GNU.sparse") for key in found):
                raise TarError("a global header that gives all members a name or a size")
            return
    if found.keys() & extended.keys():
        raise TarError("two extended headers for one member")
    extended |= found


def _records(text: bytes) -> dict[str, bytes]:
    """The records of a pax header: "LENGTH KEY=VALUE\\n", where the length counts all of it."""
    found: dict[str, bytes] = {}
    while text:
        match = re.match(rb"([1-9][0-9]{0,7}) ([^=\n]+)=", text)
        length = int(match[1]) if match else 0
        if match is None or not match.end() < length <= len(text) or text[length - 1 : length] != b"\n":
            raise TarError("an extended header that can't be read")
        key = match[2].decode("utf-8", "backslashreplace")
        if key in found:
            raise TarError("an extended header with two values of one key")
        found[key] = text[match.end() : length - 1]
        text = text[length:]
    return found


def _member(header: _Header, extended: dict[str, bytes]) -> Member:
    name = extended.get("path", header.name)
    kind = _KINDS.get(header.type, Kind.UNKNOWN)
    size = header.size
    if "size" in extended:
        if not re.fullmatch(b"[0-9]{1,19}", extended["size"]):
            raise TarError("an extended header's size is no number")
        size = int(extended["size"])
    if any(key.startswith("GNU.sparse") for key in extended):
        kind = Kind.SPARSE
    elif kind is Kind.FILE and name.endswith(b"/"):
        kind = Kind.DIRECTORY  # as before there was a type for it
    if size and kind not in _WITH_CONTENTS:
        raise TarError(f"{kind} with a size")
    return Member(name, kind, size, header.mode)


def _exactly(source: BinaryIO, size: int, otherwise: str) -> bytes:
    data = source.read(size)
    while len(data) < size:
        more = source.read(size - len(data))
        if not more:
            raise TarError(otherwise)
        data += more
    return data
