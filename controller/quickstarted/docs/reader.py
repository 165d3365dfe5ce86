"""`read_docs`: one reader for an attempt. Every read, whatever comes of it, is recorded before it is answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from quickstarted.docs.affordances import affordance_of, llms_files_of, probe, variants_of
from quickstarted.docs.answer import DocsAnswer, Section, page_text, problem_text, status_message
from quickstarted.docs.fetch import ACCEPT, Response
from quickstarted.docs.page import Page
from quickstarted.docs.parts import Cutter, section_offset
from quickstarted.docs.policy import DocsPolicy
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.snapshot import content_hash
from quickstarted.docs.source import Got, Record, Source
from quickstarted.docs.url import absolute, fragment_of, resolve, without_fragment
from quickstarted.task.model import Docs

MAX_REDIRECTS = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_RECORDED = 2000  # characters of a URL as the model wrote it


@dataclass(slots=True)
class _Visit:
    """A page that was read in this attempt."""

    url: str
    page: Page
    cutter: Cutter
    status: int
    content_hash: str
    size: int
    from_snapshot: bool
    mapped_to: str
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Reading:
    """One call of `read`, for its event."""

    written: str
    offset: int
    started: float
    deadline: float
    asked: str = ""
    hops: list[str] = field(default_factory=list)
    from_attempt: bool = False


class _WithheldError(Exception):
    """The URL is an affordance of this kind, and the run withholds them."""


class DocsReader:
    """Reads pages for one attempt of a task. `record` writes an event: a name and fields.

    A page is asked for once in an attempt, however often it is read. Reads are answered one after the other.
    """

    def __init__(self, docs: Docs, source: Source, record: Record) -> None:
        self._policy = DocsPolicy.of(docs)
        self._source = source
        self._record = record
        self._clock = source.clock
        self._visits: dict[str, _Visit] = {}
        self._redirects: dict[str, tuple[str, str]] = {}  # where a URL led, and by what
        self._failures: dict[str, ReadError] = {}
        self._last = self._policy.entrypoint
        self._lock = asyncio.Lock()

    async def read(self, url: str, offset: int = 0, *, seconds: float) -> DocsAnswer:
        """The answer to `read_docs` within `seconds`. Never raises for a bad URL or a page that can't be read.

        `offset` is where to begin, in characters of the page's Markdown. A URL with a fragment and no offset begins at
        its section.
        """
        async with self._lock:
            now = self._clock()
            reading = _Reading(url, offset, now, now + seconds)
            try:
                async with asyncio.timeout(seconds):
                    return await self._page(reading)
            except TimeoutError:
                where = without_fragment(reading.asked) or "The page"
                error = ReadError(Problem.TIMEOUT, f"{where} was not read within {seconds:.0f} s.")
                return self._failed(reading, error)
            except ReadError as error:
                return self._failed(reading, error)
            except _WithheldError as error:
                return self._withheld(reading, str(error))
            except asyncio.CancelledError:
                self._failed(reading, ReadError(Problem.CANCELLED, "The read was cancelled."))
                raise

    async def probe_affordances(self, *, seconds: float) -> dict[str, object]:
        """What the entrypoint's site offers to machines, recorded as the event `affordances`."""
        page = without_fragment(self._policy.entrypoint)
        deadline = self._clock() + seconds

        async def get(url: str, accept: str) -> Response:
            self._policy.judge(url)
            return (await self._source.get(url, deadline=deadline, record=self._record, accept=accept)).response

        found: dict[str, object] = {}
        try:
            async with asyncio.timeout(seconds):
                found = await probe(page, get)
        except TimeoutError:
            found["timed_out"] = True
        self._record("affordances", page=page, **found)
        return found

    # --- one read

    async def _page(self, reading: _Reading) -> DocsAnswer:
        public = self._source.options.docs_map.public
        asked = resolve(reading.written, base=self._last, hosts=self._policy.hosts)
        reading.asked = asked if public(asked) == asked else public(asked)
        visit = await self._visit(reading)
        self._last = visit.url
        fragment = fragment_of(visit.url) or fragment_of(reading.asked)
        section = None
        start = reading.offset
        if start < 0 or start > len(visit.page.markdown):
            size = len(visit.page.markdown)
            raise ReadError(Problem.BAD_OFFSET, f"Offset {start} is outside the page, which has {size} characters.")
        if fragment and start == 0:
            place = section_offset(visit.page, fragment)
            section = Section(fragment, place is not None) if place != 0 else None
            start = place or 0
        part = visit.cutter.part(start)
        text = page_text(
            visit.page,
            part,
            url=visit.url,
            asked=reading.asked,
            section=section,
            notes=await self._notes(visit, reading),
        )
        fields = self._fields(reading, visit)
        fields |= {
            "offset": part.start,
            "chars": part.end - part.start,
            "original_chars": len(visit.page.markdown),
            "part": part.number,
            "parts": part.count,
            "truncated": part.end - part.start < len(visit.page.markdown),
        }
        self._record("docs_read", **fields)
        return DocsAnswer(text, ok=True, event="docs_read", fields=fields)

    def _fields(self, reading: _Reading, visit: _Visit) -> dict[str, object]:
        page = visit.page
        cache = "attempt" if reading.from_attempt else "snapshot" if visit.from_snapshot else None
        return {
            "url": without_fragment(reading.asked),
            "asked": reading.written[:_RECORDED],
            "resolved_to": without_fragment(visit.url),
            "redirects": reading.hops,
            "status": visit.status,
            "content_hash": visit.content_hash,
            "bytes": visit.size,
            "kind": page.kind,
            "title": page.title,
            "flags": page.flags,
            "charset": page.charset,
            "charset_from": page.charset_from,
            "canonical": page.canonical,
            "from_cache": cache is not None,
            "cache": cache,
            "mapped_to": visit.mapped_to or None,
            "seconds": round(self._clock() - reading.started, 3),
        }

    def _failed(self, reading: _Reading, error: ReadError) -> DocsAnswer:
        event = "docs_read_blocked" if error.blocked else "docs_read_error"
        fields: dict[str, object] = {
            "url": without_fragment(reading.asked) or reading.written[:_RECORDED],
            "asked": reading.written[:_RECORDED],
            "redirects": reading.hops,
            "reason": str(error.problem),
            "error": error.message,
            "transient": error.transient,
            **error.fields,
            "seconds": round(self._clock() - reading.started, 3),
        }
        self._record(event, **fields)
        return DocsAnswer(problem_text(error, self._policy.hosts), ok=False, event=event, fields=fields)

    def _withheld(self, reading: _Reading, kind: str) -> DocsAnswer:
        """The answer is the one for what isn't there."""
        fields: dict[str, object] = {
            "url": without_fragment(reading.asked),
            "asked": reading.written[:_RECORDED],
            "redirects": reading.hops,
            "kind": kind,
        }
        self._record("affordance_withheld", **fields)
        message = status_message(reading.asked, 404)
        return DocsAnswer(f"read_docs failed: {message}", ok=False, event="affordance_withheld", fields=fields)

    # --- getting the page

    async def _visit(self, reading: _Reading) -> _Visit:
        """Follow redirects to a page, each hop judged; every URL is asked for at most once in the attempt."""
        url, before = reading.asked, None
        asked_anything = False
        for _ in range(MAX_REDIRECTS + 1):
            key = without_fragment(url)
            self._policy.judge(url, before=before)
            self._withhold(url)
            if key in self._failures:
                raise self._failures[key]
            led = self._redirects.get(key)
            if led is None and (visit := self._visits.get(key)):
                reading.from_attempt = not asked_anything
                return visit if fragment_of(url) == fragment_of(visit.url) else _elsewhere(visit, url)
            if led is None:
                asked_anything = True
                outcome = await self._ask(url, reading)
                if isinstance(outcome, _Visit):
                    self._visits[key] = outcome
                    return outcome
                led = self._redirects[key] = outcome
            to, how = led
            self._record("docs_redirect_followed", url=key, to=to, how=how)
            reading.hops.append(to)
            if without_fragment(to) in (key, without_fragment(reading.asked)):
                raise ReadError(Problem.TOO_MANY_REDIRECTS, f"{reading.asked} leads back to itself.")
            # RFC 9110, section 10.2.2: a fragment is inherited when the new URL has none.
            before, url = url, to if fragment_of(to) or not fragment_of(url) else f"{to}#{fragment_of(url)}"
        chain = " → ".join((without_fragment(reading.asked), *reading.hops))
        raise ReadError(Problem.TOO_MANY_REDIRECTS, f"{reading.asked} redirects over {MAX_REDIRECTS} times: {chain}.")

    async def _ask(self, url: str, reading: _Reading) -> _Visit | tuple[str, str]:
        """One URL: its page, or where it leads and by what. Failures that last are remembered."""
        try:
            got = await self._source.get(
                without_fragment(url), deadline=reading.deadline, record=self._record, accept=ACCEPT
            )
            return await self._outcome(url, got)
        except ReadError as error:
            if not error.transient:
                self._failures[without_fragment(url)] = error
            raise

    async def _outcome(self, url: str, got: Got) -> _Visit | tuple[str, str]:
        response = got.response
        if response.status in _REDIRECTS:
            location = response.header("location")
            if not location:
                raise ReadError(Problem.BAD_REDIRECT, f"{status_message(url, response.status)} It leads nowhere.")
            return self._target(url, location), str(response.status)
        if not 200 <= response.status < 300:
            raise ReadError(
                Problem.HTTP_STATUS,
                status_message(url, response.status, await self._short_text(response)),
                status=response.status,
            )
        page = await self._source.page(response)
        if page.refresh and without_fragment(page.refresh) != without_fragment(url):
            return self._target(url, page.refresh), "meta refresh"
        return _Visit(
            url,
            page,
            Cutter(page),
            response.status,
            content_hash(response.body),
            len(response.body),
            got.from_snapshot,
            got.mapped_to,
        )

    def _target(self, url: str, location: str) -> str:
        """Where a redirect leads. It is judged when its turn comes."""
        with suppress(UnicodeError):  # headers are read as Latin-1; what is sent in them is UTF-8
            location = location.encode("latin-1").decode("utf-8")
        try:
            return self._source.options.docs_map.public(absolute(location, base=without_fragment(url)))
        except ReadError as error:
            message = f"{without_fragment(url)} leads to {location[:200]!r}, which can't be followed: {error.message}"
            raise ReadError(error.problem, message) from None

    async def _short_text(self, response: Response) -> str:
        try:
            page = await self._source.page(response)
        except ReadError:
            return ""
        return page.markdown[:2000]

    def _withhold(self, url: str) -> None:
        if self._source.options.affordances == "all":
            return
        kind = affordance_of(url, self._policy.pages)
        if kind is not None:
            raise _WithheldError(kind)

    async def _notes(self, visit: _Visit, reading: _Reading) -> list[str]:
        """For a page that needs JavaScript: where its site has the text, when it says so or has the usual files."""
        if "needs_javascript" not in visit.page.flags or self._source.options.affordances == "none" or visit.notes:
            return visit.notes
        offered = [visit.page.markdown_variant] if visit.page.markdown_variant else []
        if not offered:
            candidates = (*variants_of(visit.url), *llms_files_of(visit.url)[:1])
            offered = [url for url in candidates if await self._is_there(url, reading)]
        self._record("affordances", page=without_fragment(visit.url), offered=offered)
        visit.notes = [f"Its site offers this text to programs: {url}" for url in offered]
        return visit.notes

    async def _is_there(self, url: str, reading: _Reading) -> bool:
        try:
            self._policy.judge(url)
            got = await self._source.get(url, deadline=reading.deadline, record=self._record, accept=ACCEPT)
        except ReadError:
            return False
        start = got.response.body[:100].lstrip().lower()
        return got.response.status == 200 and not start.startswith((b"<!doctype", b"<html"))


def _elsewhere(visit: _Visit, url: str) -> _Visit:
    """The same page, entered at another fragment."""
    return _Visit(
        url,
        visit.page,
        visit.cutter,
        visit.status,
        visit.content_hash,
        visit.size,
        visit.from_snapshot,
        visit.mapped_to,
        visit.notes,
    )
