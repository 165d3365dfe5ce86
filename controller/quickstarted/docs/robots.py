"""robots.txt by RFC 9309: asked for once a run and host, and what it says about a URL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from protego import Protego

from quickstarted.docs.fetch import PRODUCT, Response
from quickstarted.docs.problems import ReadError
from quickstarted.docs.url import absolute

MAX_BYTES = 500 * 1024  # section 2.5: at least this much must be parsed
MAX_REDIRECTS = 5  # section 2.3.1.2

_GROUP = re.compile(r"^[ \t]*user-agent[ \t]*:[ \t]*([^#\r\n]*)", re.IGNORECASE | re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z_-]+|\*")

Get = Callable[[str], Awaitable[Response]]


class Robots:
    """The rules of every host that a run reads from. `get` fetches one URL without following redirects."""

    def __init__(self, product: str = PRODUCT) -> None:
        self._product = product
        self._known: dict[str, asyncio.Task[Protego | str | None]] = {}

    async def refusal(self, url: str, get: Get) -> str | None:
        """Why `url` may not be read; None when it may.

        Raises the ReadError of a host that can't be reached at all, of which nothing may be read either
        (section 2.3.1.4).
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        task = self._known.get(origin)
        if task is None or task.cancelled():
            task = self._known[origin] = asyncio.create_task(self._load(origin, get))
        try:
            rules = await asyncio.shield(task)
        except ReadError:
            self._known.pop(origin, None)
            raise
        if isinstance(rules, str):
            self._known.pop(origin, None)  # asked for again with the next page
            return rules
        if rules is None or rules.can_fetch(url, self._product):
            return None
        return f"{origin}/robots.txt disallows it"

    async def _load(self, origin: str, get: Get) -> Protego | str | None:
        """The rules; None when there are none, a reason when they can't be had and nothing may be read."""
        url = f"{origin}/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            response = await get(url)
            location = response.header("location")
            if response.status in (301, 302, 303, 307, 308) and location:
                try:
                    url = absolute(location, base=url)
                except ReadError:
                    return None
                continue
            if response.status >= 500:  # section 2.3.1.4: complete disallow
                return f"{origin}/robots.txt can't be had (status {response.status})"
            if response.status != 200:
                return None  # section 2.3.1.3: unavailable means no restrictions
            return parse(response.body, self._product)
        return None

    async def close(self) -> None:
        for task in self._known.values():
            task.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)


def parse(body: bytes, product: str = PRODUCT) -> Protego:
    """The rules of a file. Group names are compared whole, in any case, up to a version (section 2.2.1)."""
    text = body[:MAX_BYTES].decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")

    def canonical(match: re.Match[str]) -> str:
        name = _TOKEN.match(match[1].strip())
        if name and name[0] == "*":
            return "user-agent: *"
        ours = name is not None and name[0].lower() == product.lower()
        return f"user-agent: {product if ours else 'somebody-else'}"

    return Protego.parse(_GROUP.sub(canonical, text))
