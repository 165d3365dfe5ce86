"""Connecting to a documentation host: the name is resolved once, every address is judged, a judged address is dialled.

The name still goes into TLS (SNI, certificate check) and into the Host header; only the address is pinned.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import httpcore
import httpx
from quickstarted_api.addresses import Network, deny_reason

from quickstarted.docs.problems import Problem, ReadError

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
_SocketOptions = Iterable[tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]]


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """The addresses of a name by the system's resolver, asked for as an absolute name: search domains don't apply.

    Raises OSError.
    """
    name = host if host.endswith(".") or "." not in host else f"{host}."
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True)
class AddressRules:
    """`allow_private` are networks that an operator opened by name; `exempt` are (host, port) that an operator named
    as a target of `--docs-map`, which may be anywhere."""

    allow_private: Sequence[Network] = ()
    exempt: frozenset[tuple[str, int]] = field(default=frozenset())

    def judge(self, host: str, port: int, address: str) -> None:
        """Raises ReadError for an address that nothing is sent to."""
        if (host, port) in self.exempt:
            return
        try:
            reason = deny_reason(address.partition("%")[0], self.allow_private)
        except ValueError:
            reason = "not an address"
        if reason:
            message = f"{host} resolves to {address}, which is not a public address: {reason}."
            raise ReadError(Problem.PRIVATE_ADDRESS, message, host=host, address=address)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """httpcore's way to a server, with `AddressRules` in it. `inner` does the connecting."""

    def __init__(
        self, rules: AddressRules, resolver: Resolver = resolve_name, inner: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        self._rules = rules
        self._resolve = resolver
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: _SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._addresses(host, port, timeout)
        for address in addresses:
            self._rules.judge(host, port, address)
        failed: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore.ConnectError(f"{host} has no address")

    async def _addresses(self, host: str, port: int, timeout: float | None) -> Sequence[str]:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            raise ReadError(Problem.DNS, f"The name {host} was not resolved within {timeout} s.", host=host) from None
        except (OSError, UnicodeError) as error:
            raise ReadError(Problem.DNS, f"The name {host} can't be resolved: {error}.", host=host) from error
        if not addresses:
            raise ReadError(Problem.DNS, f"The name {host} has no address.", host=host)
        return addresses

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: _SocketOptions | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("documentation is not read from unix sockets")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class CheckedTransport(httpx.AsyncBaseTransport):
    """httpx's transport over a connection pool with a network backend of ours, which httpx itself doesn't offer."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context, http1=True, http2=True, network_backend=backend, keepalive_expiry=30.0
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        response = await self._pool.handle_async_request(
            httpcore.Request(request.method, url, headers=request.headers.raw, extensions=request.extensions)
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __aiter__(self):  # type: ignore[no-untyped-def]  # an iterator of bytes, as its base says
        return self._response.aiter_stream()

    async def aclose(self) -> None:
        await self._response.aclose()


def tls_context() -> ssl.SSLContext:
    """Certificates are always checked: against the operator's SSL_CERT_FILE or SSL_CERT_DIR where one is set, else the
    system's authorities, else (a system without any) the certifi package's."""
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or directory:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not context.get_ca_certs() and not paths.cafile and not paths.capath:
        import certifi  # a dependency of httpx

        context.load_verify_locations(certifi.where())
    return context
