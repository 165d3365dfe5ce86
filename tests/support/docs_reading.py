"""A reader of documentation over a test's own web site: real HTTP, real rules, names and time of the test's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from quickstarted.docs.converter import Converter
from quickstarted.docs.dial import AddressRules, CheckedBackend
from quickstarted.docs.fetch import HttpFetcher
from quickstarted.docs.media import UnreadableTypeError
from quickstarted.docs.page import Page, make_page
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.reader import DocsReader
from quickstarted.docs.source import DocsOptions, DocsSource
from quickstarted.task.model import Docs

from tests.support.docs_site import PUBLIC, Dialler, Site, names

START = "<title>Start</title><main><h1>Start</h1><p>Read <a href='next'>on</a>.<h2 id=use>Use</h2><p>It.</main>"
ENTRY = "http://docs.test/start"


class DirectConverter(Converter):
    """Converts in this process, and counts."""

    def __init__(self) -> None:
        self.converted = 0

    async def page(self, body: bytes, content_type: str | None, url: str) -> Page:
        self.converted += 1
        try:
            return make_page(body, content_type, url)
        except UnreadableTypeError as error:
            raise ReadError(Problem.UNREADABLE_TYPE, f"{url} is {error.type}.", type=error.type) from None

    async def close(self) -> None: ...


@dataclass
class Clock:
    """Time that only sleeping moves."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Attempt:
    """A reader and what it recorded."""

    reader: DocsReader
    events: list[dict[str, Any]]

    async def read(self, url: str, offset: int = 0, seconds: float = 60.0) -> str:
        return (await self.reader.read(url, offset, seconds=seconds)).text

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]


@dataclass
class Run:
    """A run's source over a site that answers for every name of `addresses`, on ports 80 and 8080."""

    site: Site
    options: DocsOptions = field(default_factory=DocsOptions)
    addresses: dict[str, list[str]] = field(
        default_factory=lambda: {name: [PUBLIC] for name in ("docs.test", "api.docs.test", "more.test", "evil.test")}
    )
    clock: Clock = field(default_factory=Clock)
    converter: DirectConverter = field(default_factory=DirectConverter)
    docs: Docs = field(default_factory=lambda: Docs((ENTRY,), allow=("more.test",)))

    def __post_init__(self) -> None:
        self.dialler = Dialler({80: self.site.port, 8080: self.site.port})
        rules = AddressRules(self.options.allow_private, self.options.docs_map.exempt)
        self.source = DocsSource(
            self.options,
            fetcher=HttpFetcher(CheckedBackend(rules, names(self.addresses), self.dialler)),
            converter=self.converter,
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    def attempt(self) -> Attempt:
        events: list[dict[str, Any]] = []
        return Attempt(
            DocsReader(self.docs, self.source, lambda event, **f: events.append({"event": event, **f})), events
        )

    async def close(self) -> None:
        await self.source.close()
