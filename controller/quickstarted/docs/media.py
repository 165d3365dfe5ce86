"""What a body is: one of the kinds that can be read, or a type that is refused by its name."""

from __future__ import annotations

from email.message import Message
from enum import StrEnum
from posixpath import splitext
from urllib.parse import urlsplit


class Kind(StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    JSON = "json"
    XML = "xml"
    PDF = "pdf"


_TYPES = {
    "text/html": Kind.HTML,
    "application/xhtml+xml": Kind.HTML,
    "text/markdown": Kind.MARKDOWN,
    "text/x-markdown": Kind.MARKDOWN,
    "application/markdown": Kind.MARKDOWN,
    "text/plain": Kind.TEXT,
    "text/x-rst": Kind.TEXT,
    "text/prs.fallenstein.rst": Kind.TEXT,
    "text/asciidoc": Kind.TEXT,
    "text/x-asciidoc": Kind.TEXT,
    "application/json": Kind.JSON,
    "text/json": Kind.JSON,
    "application/xml": Kind.XML,
    "text/xml": Kind.XML,
    "application/pdf": Kind.PDF,
    "application/x-pdf": Kind.PDF,
}
_SUFFIXES = {
    ".md": Kind.MARKDOWN,
    ".mdx": Kind.MARKDOWN,
    ".markdown": Kind.MARKDOWN,
    ".rst": Kind.TEXT,
    ".adoc": Kind.TEXT,
    ".txt": Kind.TEXT,
}
_VAGUE = frozenset(("", "application/octet-stream", "binary/octet-stream", "application/x-download", "unknown/unknown"))
_SNIFFED = 1024


class UnreadableTypeError(Exception):
    """`type` is the media type as it was served."""

    def __init__(self, media_type: str) -> None:
        super().__init__(media_type)
        self.type = media_type


def content_type(header: str | None) -> tuple[str, str | None]:
    """The type in lower case and the charset of a Content-Type header (RFC 9110, section 8.3)."""
    message = Message()
    message["content-type"] = (header or "").replace("\r", " ").replace("\n", " ")[:500]
    if not header or "/" not in header.partition(";")[0]:
        return "", message.get_content_charset()
    return message.get_content_type(), message.get_content_charset()


def kind_of(header: str | None, url: str, body: bytes) -> Kind:
    """The kind of a body. Raises UnreadableTypeError."""
    media_type, _ = content_type(header)
    suffix = splitext(urlsplit(url).path)[1].lower()
    kind = _TYPES.get(media_type)
    if kind is Kind.TEXT and suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if kind is not None:
        return kind
    if media_type.endswith("+json"):
        return Kind.JSON
    if media_type.endswith("+xml") and media_type != "image/svg+xml":
        return Kind.XML
    if media_type in _VAGUE:
        if suffix in _SUFFIXES and b"\0" not in body[:_SNIFFED]:
            return _SUFFIXES[suffix]
        if not media_type:
            return _sniffed(body)
    raise UnreadableTypeError(media_type)


def _sniffed(body: bytes) -> Kind:
    """For a body that was served without a type (WHATWG MIME Sniffing, the parts that can be read here)."""
    start = body[:_SNIFFED].lstrip(b"\xef\xbb\xbf \t\r\n\f").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<!--")):
        return Kind.HTML
    if start.startswith(b"<?xml"):
        return Kind.XML
    if start.startswith(b"%pdf-"):
        return Kind.PDF
    if b"\0" in body[:_SNIFFED]:
        raise UnreadableTypeError("none given")
    return Kind.TEXT
