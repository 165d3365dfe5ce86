"""Where pages come from during a run: a mapped directory or preview, the snapshot, the network. Shared by all attempts,
so that a host sees one polite reader however many there are."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urljoin, urlsplit
from weakref import WeakValueDictionary

from quickstarted_api.addresses import Network

from quickstarted.docs.converter import Converter, ProcessConverter
from quickstarted.docs.dial import AddressRules, CheckedBackend
from quickstarted.docs.docs_map import Directory, DocsMap, Preview, serve
from quickstarted.docs.fetch import ACCEPT, Fetcher, HttpFetcher, Response
from quickstarted.docs.pace import SECONDS_BETWEEN, Pacer
from quickstarted.docs.page import Page
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.robots import Robots
from quickstarted.docs.snapshot import Snapshot, Stored, content_hash

ROBOTS_SECONDS = 20.0
MAX_WAITS = 5  # for one request, when its server says when to come back

Record = Callable[..., None]


@dataclass(frozen=True, slots=True)
class DocsOptions:
    """What an operator chose for a run. Raises ValueError when the choices contradict each other.

    `seconds_between` two requests to a host; `allow_private` are networks opened by name.
    """

    snapshot: Path | None = None
    offline: bool = False
    refresh: bool = False
    ignore_robots: bool = False
    seconds_between: float = SECONDS_BETWEEN
    affordances: Literal["all", "none"] = "all"
    docs_map: DocsMap = field(default_factory=DocsMap)
    allow_private: Sequence[Network] = ()

    def __post_init__(self) -> None:
        if self.offline and self.refresh:
            raise ValueError("--offline reads only the snapshot and --refresh asks the servers again; give one of them")
        if (self.offline or self.refresh) and self.snapshot is None:
            raise ValueError("--offline and --refresh need --docs-snapshot DIR")
        if not 0 <= self.seconds_between <= 3600:
            raise ValueError(f"found {self.seconds_between} seconds between two requests; 0 to 3600 are allowed")


@dataclass(frozen=True, slots=True)
class Got:
    """A response and where it came from. `mapped_to` is set for a mapped host."""

    response: Response
    from_snapshot: bool = False
    mapped_to: str = ""


class Source(Protocol):
    """What a reader needs of the run."""

    @property
    def options(self) -> DocsOptions: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    async def get(self, url: str, *, deadline: float, record: Record, accept: str = ACCEPT) -> Got: ...

    async def page(self, response: Response) -> Page: ...


class DocsSource:
    """One for a run: `async with DocsSource(options) as source`. Everything it starts ends with it."""

    def __init__(
        self,
        options: DocsOptions | None = None,
        *,
        fetcher: Fetcher | None = None,
        converter: Converter | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.options = options or DocsOptions()
        rules = AddressRules(self.options.allow_private, self.options.docs_map.exempt)
        self._fetcher = fetcher or HttpFetcher(CheckedBackend(rules))
        self._converter = converter or ProcessConverter()
        self._pacer = Pacer(self.options.seconds_between, clock=clock, sleep=sleep)
        self._robots = Robots()
        self.clock = clock
        self._snapshot = Snapshot(self.options.snapshot) if self.options.snapshot else None
        self._refreshed: set[str] = set()
        self._in_flight: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pages: WeakValueDictionary[tuple[str, str, str], Page] = WeakValueDictionary()

    async def __aenter__(self) -> DocsSource:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._fetcher.close)
            stack.push_async_callback(self._converter.close)
            stack.push_async_callback(self._robots.close)

    # --- responses

    async def get(self, url: str, *, deadline: float, record: Record, accept: str = ACCEPT) -> Got:
        """The response for a URL that the policy allows, redirects not followed. `deadline` is on the source's clock.

        Raises ReadError.
        """
        target = self.options.docs_map.target(url)
        if isinstance(target, Directory):
            return Got(await asyncio.to_thread(serve, target, url), mapped_to=str(target))
        if isinstance(target, Preview):
            return await self._from_preview(target, url, accept, deadline, record)
        if self._snapshot is None:
            return Got(await self._from_network(url, {"accept": accept}, deadline, record))
        if accept != ACCEPT:
            if self.options.offline:
                raise ReadError(Problem.OFFLINE, f"{url} is asked for in another form, and the run is offline.")
            return Got(await self._from_network(url, {"accept": accept}, deadline, record))
        async with self._in_flight[url]:
            return await self._through_snapshot(self._snapshot, url, deadline, record)

    async def _from_preview(self, preview: Preview, url: str, accept: str, deadline: float, record: Record) -> Got:
        """From where the operator put the host's pages: no robots.txt, the operator's own server is asked."""
        wire_url = preview.target(url)
        response = await self._patiently(wire_url, {"accept": accept}, deadline, record)
        headers = tuple(
            (name, self.options.docs_map.public(urljoin(wire_url, value)) if name.lower() == "location" else value)
            for name, value in response.headers
        )
        return Got(replace(response, url=url, headers=headers), mapped_to=str(preview))

    async def _through_snapshot(self, snapshot: Snapshot, url: str, deadline: float, record: Record) -> Got:
        stored = await self._stored(snapshot, url)
        if stored and (not self.options.refresh or url in self._refreshed):
            return Got(stored.response, from_snapshot=True)
        if self.options.offline:
            raise ReadError(Problem.OFFLINE, f"{url} is not in the snapshot, and the run is offline.")
        response = await self._from_network(url, stored.validators if stored else {}, deadline, record)
        if stored and response.status == 304:
            self._refreshed.add(url)
            return Got(stored.response, from_snapshot=True)
        if response.status < 400 or response.status in (404, 410):
            await self._keep(snapshot, response)
            self._refreshed.add(url)
            if stored:
                _tell_change(stored, response, record)
        return Got(response)

    async def _keep(self, snapshot: Snapshot, response: Response) -> None:
        """A page that can't be kept is not given: the run would not be what its snapshot says."""
        try:
            await asyncio.to_thread(snapshot.store, response)
        except OSError as error:
            message = f"{response.url} was read but can't be kept in the snapshot: {error}."
            raise ReadError(Problem.SNAPSHOT_WRITE, message) from error

    async def _stored(self, snapshot: Snapshot, url: str) -> Stored | None:
        """A copy that can't be trusted is fetched again, unless the run is offline."""
        try:
            return await asyncio.to_thread(snapshot.load, url)
        except ReadError:
            if self.options.offline:
                raise
            return None

    async def _from_network(self, url: str, headers: dict[str, str], deadline: float, record: Record) -> Response:
        if not self.options.ignore_robots:
            refusal = await self._robots.refusal(url, self._get_robots)
            if refusal:
                raise ReadError(Problem.ROBOTS, f"{url} may not be read by a program: {refusal}.")
        return await self._patiently(url, headers, deadline, record)

    async def _get_robots(self, url: str) -> Response:
        async with self._pacer.turn(_host(url)):
            return await self._fetcher.get(url, {"accept": "text/plain, */*;q=0.5"}, seconds=ROBOTS_SECONDS)

    async def _patiently(self, url: str, headers: dict[str, str], deadline: float, record: Record) -> Response:
        """One answer that is no "come back later": its server is waited for as long as it says and time allows."""
        host = _host(url)
        for _ in range(MAX_WAITS):
            async with self._pacer.turn(host):
                response = await self._fetcher.get(url, headers, seconds=deadline - self.clock())
            if response.status not in (429, 503):
                return response
            wait = retry_after(response.header("retry-after"))
            if wait is None or self.clock() + wait >= deadline:
                when = "without saying when" if wait is None else f"in {wait:.0f} s, which is more than is left"
                message = f"{url} answered {response.status}: try again later ({when})."
                raise ReadError(Problem.TRY_LATER, message, status=response.status, retry_after=wait)
            record("docs_wait", url=url, status=response.status, seconds=wait)
            self._pacer.hold(host, wait)
        message = f"{url} answered {response.status} {MAX_WAITS} times, after waiting as it asked."
        raise ReadError(Problem.TRY_LATER, message, status=response.status)

    # --- pages

    async def page(self, response: Response) -> Page:
        """The page that a response holds. The same page is converted once while anyone holds it. Raises ReadError."""
        content_type = response.header("content-type")
        key = (response.url, content_type or "", content_hash(response.body))
        page = self._pages.get(key)
        if page is None:
            page = await self._converter.page(response.body, content_type, response.url)
            self._pages[key] = page
        return page


def retry_after(header: str | None) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, section 10.2.3); None without a readable one."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), 86_400.0)
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, min((when - datetime.now(UTC)).total_seconds(), 86_400.0))


def _tell_change(stored: Stored, response: Response, record: Record) -> None:
    before, after = content_hash(stored.response.body), content_hash(response.body)
    if before != after or stored.response.status != response.status:
        record(
            "docs_changed",
            url=response.url,
            before=before,
            after=after,
            status_before=stored.response.status,
            status=response.status,
            fetched_before=stored.fetched_at,
        )


def _host(url: str) -> str:
    return urlsplit(url).netloc
