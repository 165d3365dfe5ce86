"""Turns bodies into pages in processes of their own: a hostile page costs its reader time, never the run.

Two processes serve a whole run, started when the first page is read. One that is too slow or too large is ended, and
an HTML page that ended it is read once more without a parser, for its words.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Any, Literal, Protocol

from quickstarted.docs.media import Kind, UnreadableTypeError, kind_of
from quickstarted.docs.page import Page
from quickstarted.docs.problems import Problem, ReadError

PROCESSES = 2
HTML_SECONDS = 15.0
PDF_SECONDS = 30.0
PLAIN_SECONDS = 10.0
_GOES_WITHIN = 2.0

_LENGTH = struct.Struct(">I")
_PLAIN_NOTE = (
    "This page could not be parsed within the limits: only its words are shown, without code blocks and links."
)


class Converter(Protocol):
    """Raises ReadError (unreadable_type, unreadable_pdf, conversion_failed)."""

    async def page(self, body: bytes, content_type: str | None, url: str) -> Page: ...

    async def close(self) -> None: ...


class _GoneError(Exception):
    """The process ended, or was ended at its deadline; the message says which."""


class ProcessConverter:
    """The converter of a run."""

    def __init__(self, processes: int = PROCESSES, html_seconds: float = HTML_SECONDS) -> None:
        self._turn = asyncio.Semaphore(processes)
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._html_seconds = html_seconds

    async def page(self, body: bytes, content_type: str | None, url: str) -> Page:
        try:
            kind = kind_of(content_type, url, body)
        except UnreadableTypeError as error:
            raise _unreadable(url, error.type) from None
        seconds = PDF_SECONDS if kind is Kind.PDF else self._html_seconds
        async with self._turn:
            try:
                answer = await self._ask(body, content_type, url, "full", seconds)
            except _GoneError as error:
                answer = {"failed": str(error)}
            if "failed" in answer and kind is Kind.HTML:
                try:
                    answer = await self._ask(body, content_type, url, "plain", PLAIN_SECONDS)
                except _GoneError as error:
                    answer = {"failed": str(error)}
                if "page" in answer:
                    answer["page"]["notes"].append(_PLAIN_NOTE)
                    answer["page"]["flags"].append("plain_words_only")
        if "page" in answer:
            return Page.from_json(answer["page"])
        if "pdf" in answer:
            raise ReadError(Problem.PDF, f"The PDF at {url} can't be read: {answer['pdf']}.")
        if "unreadable_type" in answer:
            raise _unreadable(url, answer["unreadable_type"])
        raise ReadError(Problem.CONVERSION, f"The page at {url} could not be converted: {answer.get('failed')}.")

    async def _ask(
        self, body: bytes, content_type: str | None, url: str, how: Literal["full", "plain"], seconds: float
    ) -> dict[str, Any]:
        process = self._idle.pop() if self._idle else await self._start()
        busy, keep = True, False
        try:
            async with asyncio.timeout(seconds):
                answer = await _exchange(process, body, content_type, url, how)
            busy, keep = False, not answer.pop("retire", True)
            return answer
        except TimeoutError:
            raise _GoneError(f"it took longer than {seconds:.0f} s") from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            busy = False
            raise _GoneError("the converter ended (out of memory, or a broken file)") from error
        finally:
            if keep:
                self._idle.append(process)
            else:
                await asyncio.shield(self._end(process, busy=busy))

    async def _start(self) -> Process:
        """A process with nothing of ours in its environment but where Python's modules are."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        environment = {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = (sys.executable, "-P", "-m", "quickstarted.docs.worker")
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
            )
        except OSError as error:
            raise ReadError(Problem.CONVERSION, f"The converter can't be started: {error}.") from error
        self._all.add(process)
        return process

    async def _end(self, process: Process, *, busy: bool = False) -> None:
        """End a process: by the end of its input, and by force when it is at work or doesn't go."""
        assert process.stdin is not None
        process.stdin.close()
        if not busy:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GOES_WITHIN):
                    await process.wait()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        self._all.discard(process)

    async def close(self) -> None:
        """End all processes and wait until they are gone."""
        idle, self._idle = set(self._idle), []
        await asyncio.gather(*(self._end(process, busy=process not in idle) for process in tuple(self._all)))


async def _exchange(process: Process, body: bytes, content_type: str | None, url: str, how: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    head = json.dumps({"type": content_type, "url": url, "how": how, "body": len(body)}).encode()
    process.stdin.write(_LENGTH.pack(len(head)) + head)
    process.stdin.write(body)
    await process.stdin.drain()
    (size,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    answer: dict[str, Any] = json.loads(await process.stdout.readexactly(size))
    return answer


def _unreadable(url: str, media_type: str) -> ReadError:
    message = f"{url} is {media_type}, which read_docs can't read (it reads HTML, Markdown, text, JSON, XML and PDF)."
    return ReadError(Problem.UNREADABLE_TYPE, message, type=media_type)
