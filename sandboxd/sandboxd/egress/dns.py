"""DNS messages, strictly: a query's bytes in, a query out; and a response's bytes. No socket, no clock.

Names are compared as label bytes and never unescaped, so that a dot or a NUL inside a label can't change what a name
means. A response repeats the question byte for byte, as resolvers that vary the case of names check.

Sections are of RFC 1035 unless they say something else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.refusal import Refusal, printable

# Over TCP a query could be 64 KiB. A name has 255 bytes at most, and options are ignored; over UDP clients send 512.
MAX_QUERY = 4096
# What we say we take over UDP: no fragments on any path (DNS flag day 2020, RFC 9715).
UDP_PAYLOAD = 1232
# Seconds that an answer may be kept. Synthetic addresses stay the same, but a cache below must not outlive a sandbox.
TTL = 1

_HEADER = struct.Struct("!6H")
_QR, _TC, _RD, _RA, _CD = 0x8000, 0x0200, 0x0100, 0x0080, 0x0010
_OPCODE = 0x7800
_IN, _OPT = 1, 41
_MAX_NAME, _MAX_LABEL = 255, 63  # section 2.3.4
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class QueryType(IntEnum):
    """The types that are answered, or worth a name in an event (IANA, DNS parameters)."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    MX = 15
    TXT = 16
    AAAA = 28
    SRV = 33
    NAPTR = 35
    DS = 43
    DNSKEY = 48
    SVCB = 64
    HTTPS = 65
    ANY = 255
    CAA = 257


_TYPE_NAMES = {kind.value: kind.name for kind in QueryType}


class Code(IntEnum):
    """Response codes: section 4.1.1, and RFC 6891, section 9."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


@dataclass(frozen=True, slots=True)
class Query:
    """A well-formed query: one question of class IN. `labels` are as they were sent, the root label left out."""

    ident: int
    flags: int
    question: bytes
    labels: tuple[bytes, ...]
    qtype: int
    edns: int | None  # its version

    @property
    def name(self) -> str | None:
        """The name as text, lower case; None when a label has something else in it than letters, digits, - and _."""
        if not all(_LETTERS.issuperset(label) for label in self.labels):
            return None
        return b".".join(self.labels).decode("ascii").lower()

    @property
    def type_name(self) -> str:
        """The type's mnemonic, or TYPE and its number (RFC 3597, section 5)."""
        return _TYPE_NAMES.get(self.qtype, f"TYPE{self.qtype}")

    def __str__(self) -> str:
        return printable(b".".join(self.labels) + b".")


class Unanswerable(Refusal):
    """A message that is not answered at all: too short to hold a header, or itself a response."""


class Faulty(Refusal):
    """A query that is answered with an error code and no question."""

    def __init__(self, ident: int, flags: int, code: Code, detail: str) -> None:
        super().__init__(pb.MALFORMED_DNS, detail)
        self.response = _HEADER.pack(ident, _response_flags(flags, code), 0, 0, 0, 0)


def parse_query(message: bytes) -> Query:
    """The query in a message. Raises Unanswerable or Faulty, which are Refusals."""
    if len(message) < _HEADER.size:
        raise Unanswerable(pb.MALFORMED_DNS, f"{len(message)} bytes, less than a header (section 4.1.1)")
    ident, flags, questions, answers, authorities, additionals = _HEADER.unpack_from(message)
    if flags & _QR:
        raise Unanswerable(pb.MALFORMED_DNS, "a response, not a query (section 4.1.1)")
    if len(message) > MAX_QUERY:
        raise Faulty(ident, flags, Code.FORMERR, f"{len(message)} bytes; {MAX_QUERY} are allowed")
    if flags & _OPCODE:
        raise Faulty(ident, flags, Code.NOTIMP, f"operation {(flags & _OPCODE) >> 11}, not a query (section 4.1.1)")
    if flags & _TC or (questions, answers, authorities) != (1, 0, 0) or additionals > 1:
        counts = f"{questions}/{answers}/{authorities}/{additionals} records"
        raise Faulty(ident, flags, Code.FORMERR, f"{counts}; a query has one question (RFC 9619, section 4)")
    try:
        labels, end = _name(message, _HEADER.size)
        qtype, qclass = struct.unpack_from("!2H", message, end)
        edns = _edns(message, end + 4, additionals)
    except (struct.error, _FormError) as error:
        raise Faulty(ident, flags, Code.FORMERR, str(error)) from None
    if qclass != _IN:
        raise Faulty(ident, flags, Code.REFUSED, f"class {qclass}, not IN (section 3.2.4)")
    return Query(ident, flags, message[_HEADER.size : end + 4], labels, qtype, edns)


def respond(query: Query, code: Code, addresses: tuple[bytes, ...] = ()) -> bytes:
    """A response. Without addresses it has a SOA, so that resolvers know how long nothing stays nothing (RFC 2308).

    `addresses` are of 4 or 16 bytes, for a question of type A or AAAA. No name appears but the question's: a response
    is never more than 50 bytes longer than its query.
    """
    if query.edns is not None and query.edns > 0:
        code, addresses = Code.BADVERS, ()  # RFC 6891, section 6.1.3
    flags = _response_flags(query.flags, code)
    negative = not addresses and code in (Code.NOERROR, Code.NXDOMAIN)
    counts = (1, len(addresses), int(negative), int(query.edns is not None))
    parts = [_HEADER.pack(query.ident, flags, *counts), query.question]
    parts += [_record(b"\xc0\x0c", query.qtype, TTL, address) for address in addresses]
    if negative:
        parts.append(_record(b"\0", QueryType.SOA, TTL, b"\0\0" + struct.pack("!5I", 1, 3600, 600, 86400, TTL)))
    if query.edns is not None:
        parts.append(b"\0" + struct.pack("!2HIH", _OPT, UDP_PAYLOAD, (code >> 4) << 24, 0))
    return b"".join(parts)


class _FormError(Exception):
    """A message that ends early, or is not in the form that it should be in."""


def _name(message: bytes, position: int) -> tuple[tuple[bytes, ...], int]:
    """The labels of a name that is not compressed, and where it ends."""
    labels: list[bytes] = []
    start = position
    while position < len(message):
        size = message[position]
        if size > _MAX_LABEL:
            raise _FormError("a compressed name in a question (section 4.1.4)")
        position += 1
        if size == 0:
            return tuple(labels), position
        labels.append(message[position : position + size])
        position += size
        if position - start >= _MAX_NAME:
            raise _FormError(f"a name of more than {_MAX_NAME} bytes (section 2.3.4)")
    raise _FormError("a name that does not end (section 3.1)")


def _edns(message: bytes, position: int, additionals: int) -> int | None:
    """The EDNS version of an OPT record that ends the message (RFC 6891, section 6.1.2); its options are ignored."""
    if additionals == 0:
        if position != len(message):
            raise _FormError("bytes behind the question (section 4.1)")
        return None
    owner, kind, _size, _code, version, _flags, length = struct.unpack_from("!BHHBBHH", message, position)
    if owner != 0 or kind != _OPT:
        raise _FormError("an additional record that is no OPT (RFC 6891, section 6.1.2)")
    if position + 11 + length != len(message):
        raise _FormError("an OPT record that does not end with the message (RFC 6891, section 6.1.2)")
    return int(version)


def _response_flags(flags: int, code: Code) -> int:
    return _QR | flags & (_OPCODE | _RD | _CD) | _RA | code & 0xF


def _record(owner: bytes, kind: int, ttl: int, content: bytes) -> bytes:
    return owner + struct.pack("!2HIH", kind, _IN, ttl, len(content)) + content
