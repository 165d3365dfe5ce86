"""One request on the wire: bounded in time and size, decompressed, and every failure a ReadError with its reason."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import httpcore
import httpx

from quickstarted import __version__
from quickstarted.docs.dial import CheckedBackend, CheckedTransport, tls_context
from quickstarted.docs.inflate import ACCEPTED, MAX_BYTES, inflate
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.url import without_fragment

PRODUCT = "quickstarted"  # what robots.txt files may name (RFC 9309, section 2.2.1)
USER_AGENT = f"{PRODUCT}/{__version__} (reads documentation to test it; one request at a time)"
# As a browser asks: pages that are made for people are what is tested.
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 20.0  # between two pieces of an answer
REQUEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Response:
    """What a server answered. `raw` are the bytes as they came, `body` the same without content encodings."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    raw: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of a name, in any case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Fetcher(Protocol):
    """Gets one URL, without following redirects. Raises ReadError."""

    async def get(self, url: str, headers: dict[str, str] | None = None, *, seconds: float) -> Response: ...

    async def close(self) -> None: ...


class HttpFetcher:
    """The fetcher over the network. No cookies, no proxies from the environment, no redirects."""

    def __init__(
        self,
        backend: CheckedBackend,
        *,
        context: ssl.SSLContext | None = None,
        limit: int = MAX_BYTES,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._backend = backend
        self._context = context
        self._limit = limit
        self._idle = idle_seconds
        self._transport: CheckedTransport | None = None

    async def get(self, url: str, headers: dict[str, str] | None = None, *, seconds: float) -> Response:
        """Raises ReadError when it can't be had whole within `seconds` and the limits."""
        sent = {"user-agent": USER_AGENT, "accept": ACCEPT, "accept-language": "en", "accept-encoding": ACCEPTED}
        timeout = httpx.Timeout(self._idle, connect=CONNECT_SECONDS, pool=None)
        if self._transport is None:
            self._transport = CheckedTransport(self._backend, self._context or tls_context())
        limit = max(0.001, min(seconds, REQUEST_SECONDS))
        try:
            async with asyncio.timeout(limit):
                with _told(url):
                    request = httpx.Request(
                        "GET",
                        without_fragment(url),
                        headers={**sent, **(headers or {})},
                        extensions={"timeout": timeout.as_dict()},
                    )
                    response = await self._transport.handle_async_request(request)
                    try:
                        raw = await self._read(response, url)
                    finally:
                        await response.aclose()
        except TimeoutError:
            raise ReadError(Problem.TIMEOUT, f"{url} was not answered in full within {limit:.0f} s.") from None
        body = await asyncio.to_thread(inflate, raw, response.headers.get("content-encoding"), limit=self._limit)
        kept = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)
        return Response(without_fragment(url), response.status_code, kept, raw, body)

    async def _read(self, response: httpx.Response, url: str) -> bytes:
        too_large = ReadError(Problem.TOO_LARGE, f"{url} is over {self._limit / 1_048_576:.0f} MB.")
        length = response.headers.get("content-length", "")
        if length.isdigit() and len(length) < 20 and int(length) > self._limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        async for part in response.aiter_raw():
            size += len(part)
            if size > self._limit:
                raise too_large
            parts.append(part)
        return b"".join(parts)

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()


@contextmanager
def _told(url: str) -> Iterator[None]:
    """What goes wrong on the wire, as a ReadError that says what it was."""
    try:
        yield
    except (httpcore.TimeoutException, httpx.TimeoutException) as error:
        connecting = isinstance(error, httpcore.ConnectTimeout)
        what = "connected to" if connecting else "heard from for a while"
        raise ReadError(Problem.TIMEOUT, f"{url} could not be read: its server was not {what} in time.") from error
    except (httpcore.ConnectError, httpcore.ReadError, httpcore.WriteError) as error:
        reason = _tls_reason(error)
        if reason:
            raise ReadError(Problem.TLS, f"{url} could not be read: TLS failed, {reason}.") from error
        if isinstance(error, httpcore.ConnectError):
            raise ReadError(Problem.CONNECT, f"{url} could not be read: no connection ({_text(error)}).") from error
        raise ReadError(Problem.PROTOCOL, f"{url} could not be read: the connection broke ({_text(error)}).") from error
    except (httpcore.ProtocolError, httpcore.ConnectionNotAvailable, httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{url} could not be read: its server does not speak HTTP properly ({_text(error)})."
        raise ReadError(Problem.PROTOCOL, message) from error


def _tls_reason(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return str(cause.reason or cause)
        cause = cause.__cause__ or cause.__context__
    return ""


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
