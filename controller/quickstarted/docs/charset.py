"""Bytes to text: the HTTP header, then a byte order mark, then `meta`, then detection, else UTF-8 with replacement."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_META_WINDOW = 1024  # WHATWG: the declaration must be within the first 1,024 bytes
_SAMPLE = 64 * 1024
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_META = re.compile(rb"<meta\b[^>]{0,500}?\bcharset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^<\?xml[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})[\"']")
# What browsers read these labels as (WHATWG Encoding, section 4.2).
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "tis-620": "cp874",
}
_NOT_TEXT = frozenset(("base64", "bz2", "hex", "quopri", "rot13", "uu", "zlib", "idna", "punycode", "unicode_escape"))


@dataclass(frozen=True, slots=True)
class Decoded:
    """`how` says where the charset was found; `replaced` how many characters were unreadable."""

    text: str
    charset: str
    how: str
    replaced: int = 0


def decode(body: bytes, declared: str | None, *, markup: bool = True) -> Decoded:
    """Text of `body`; `declared` is the HTTP header's charset. Never raises.

    A byte order mark that contradicts the header wins, as in browsers: it can't be there by accident.
    """
    for charset, how in _candidates(body, declared, markup=markup):
        bom = next((mark for mark, name in _BOMS if name == charset and body.startswith(mark)), b"")
        try:
            return Decoded(body[len(bom) :].decode(charset), charset, how)
        except (UnicodeDecodeError, UnicodeError):
            if how in ("header", "bom"):
                text = body[len(bom) :].decode(charset, "replace")
                return Decoded(text, charset, how, text.count("\ufffd"))
    text = body.decode("utf-8", "replace")
    return Decoded(text, "utf-8", "fallback", text.count("\ufffd"))


def _candidates(body: bytes, declared: str | None, *, markup: bool) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    bom = next((name for mark, name in _BOMS if body.startswith(mark)), None)
    header = codec_of(declared)
    if header and (bom is None or bom == header):
        return [(header, "header")]
    if bom:
        return [(bom, "bom")]
    if markup:
        window = body[:_META_WINDOW]
        match = _XML.match(window) or _META.search(window)
        meta = codec_of(match[1].decode("ascii")) if match else None
        if meta:
            # A page that could read its own declaration is not UTF-16 (WHATWG HTML, section 13.2.3.2).
            found.append(("utf-8" if meta.startswith("utf-16") else meta, "meta"))
    found.append(("utf-8", "detected"))
    detected = _detect(body)
    if detected:
        found.append((detected, "detected"))
    return found


def codec_of(label: str | None) -> str | None:
    """Python's codec for a charset's label, None for an unknown one."""
    if not label or len(label) > 40:
        return None
    try:
        name = codecs.lookup(label.strip().strip("\"'")).name
    except (LookupError, ValueError, UnicodeError):
        return None
    return None if name in _NOT_TEXT else _SUPERSETS.get(name, name)


def _detect(body: bytes) -> str | None:
    """A guess from the bytes themselves; only for what is not UTF-8."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return None
    from charset_normalizer import from_bytes  # slow to import, and rarely needed

    best = from_bytes(body[:_SAMPLE]).best()
    return codec_of(best.encoding) if best else None
