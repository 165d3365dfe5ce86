"""From a command's bytes to text that a model and a person can read: pure, in bounded memory.

Bytes come in the order in which they were written, stdout and stderr interleaved. Each stream has its own decoder, so
that a character which was split between two chunks survives what the other stream wrote in between.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

# Room for the line that tells how much was cut, so that the whole stays within the limit.
_NOTICE_ROOM = 100
_NOTICE_FROM = 10 * _NOTICE_ROOM  # below this the notice would crowd out the text, and comes on top


@dataclass(frozen=True, slots=True)
class Text:
    """What is kept of a command's output. `chars` counts all that it wrote, what was cut included."""

    text: str
    chars: int
    truncated: bool


class Collector:
    """Decodes a command's output and keeps its head and its tail within `max_chars`.

    A line between the two tells how much was cut. It counts towards the limit unless that is below 1,000 characters.
    """

    def __init__(self, max_chars: int) -> None:
        self._max = max_chars
        self._room = max_chars - _NOTICE_ROOM if max_chars >= _NOTICE_FROM else max_chars
        self._head_size = self._room // 2
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._chars = 0
        self._cut_bytes = 0
        self._decoders: dict[Hashable, codecs.IncrementalDecoder] = {}

    def feed(self, stream: Hashable, data: bytes) -> str:
        """Add bytes of one stream. Returns the text that they complete."""
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = _decoder()
        text = decoder.decode(data)
        self._keep(text)
        return text

    def gap(self, size: int) -> None:
        """So many bytes were cut where the command ran. What is split around them is replaced, not joined."""
        self._flush()
        self._cut_bytes += size
        # All that came before belongs to the head, and all that comes after to the tail.
        self._head_size = min(self._head_size, self._head_chars)

    def finish(self) -> Text:
        """The text, once the command has ended."""
        self._flush()
        chars = self._chars + self._cut_bytes
        if self._chars <= self._max and not self._cut_bytes:
            return Text("".join((*self._head, *self._tail)), chars, truncated=False)
        head, tail = "".join(self._head), "".join(self._tail)
        room = self._room - len(head)
        tail = tail[-room:] if room else ""
        cut = self._chars - len(head) - len(tail)
        return Text(f"{head}{_notice(cut, self._cut_bytes, head)}{tail}", chars, truncated=True)

    def _flush(self) -> None:
        for decoder in self._decoders.values():
            self._keep(decoder.decode(b"", final=True))

    def _keep(self, text: str) -> None:
        self._chars += len(text)
        missing = self._head_size - self._head_chars
        if missing > 0 and text:
            self._head.append(text[:missing])
            self._head_chars += len(self._head[-1])
            text = text[missing:]
        if not text:
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars - len(self._tail[0]) >= self._max:
            self._tail_chars -= len(self._tail.popleft())


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _notice(chars: int, cut_bytes: int, head: str) -> str:
    parts = []
    if chars:
        parts.append(f"{chars:,} characters")
    if cut_bytes:
        parts.append(f"{cut_bytes:,} bytes")
    newline = "\n" if head and not head.endswith("\n") else ""
    return f"{newline}[... {' and '.join(parts)} cut ...]\n"


# A terminal's own language: CSI and OSC sequences (ECMA-48) and any other escape.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])?"
)
_KEPT = frozenset("\n\t")


def printable(text: str) -> str:
    """Text as it may be shown on a terminal: what a sandbox wrote must not move the cursor, recolour or reorder.

    Escape sequences are dropped, a carriage return starts its line anew as a terminal would show it, and other control
    and formatting characters become U+FFFD.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if text.isprintable():
        return text
    return "".join(one if one in _KEPT or not _is_control(one) else "\ufffd" for one in text)


def _is_control(character: str) -> bool:
    # Cc controls; Cf includes the bidirectional overrides; Cs lone surrogates; Zl and Zp break lines.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def one_line(text: str, width: int) -> str:
    """Text as one printable line of at most `width` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"
