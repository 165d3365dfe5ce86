"""TLS taken off a connection: one side is the wire, the other a socket with the plain bytes, in both directions.

The rest of the gateway reads plain HTTP from sockets, so an inspected connection is turned into one. `unwrapped` gives
the plain end, and carries bytes between the two for as long as its context lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from sandboxd.egress.wire import READ_SIZE, Wire


class TlsError(Exception):
    """The handshake failed, or the peer is not who it should be. The message is OpenSSL's, in short."""


@contextlib.asynccontextmanager
async def unwrapped(
    wire: Wire, context: ssl.SSLContext, *, server: bool, name: str | None = None, seconds: float
) -> AsyncIterator[socket.socket]:
    """The plain end of a TLS connection. `server` says which side is ours; `name` is whom a client expects.

    What `wire` has pending is taken first. The handshake is done before it yields, within `seconds`. Raises TlsError.
    """
    layer = _Layer(wire, context, server=server, name=name)
    try:
        async with asyncio.timeout(seconds):
            await layer.handshake()
    except TimeoutError:
        raise TlsError(f"no handshake within {seconds:g} s") from None
    except ssl.SSLError as error:
        raise TlsError(error.reason or "the handshake failed") from None
    except OSError:
        raise TlsError("the connection broke in the handshake") from None
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    carrying = asyncio.create_task(layer.carry(ours), name="tls")
    try:
        yield theirs
    finally:
        # What was written last still has to go out; whoever has the plain end has closed it by now.
        await asyncio.wait({carrying}, timeout=1)
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
        ours.close()


class _Layer:
    def __init__(self, wire: Wire, context: ssl.SSLContext, *, server: bool, name: str | None) -> None:
        self._wire = wire
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server, server_hostname=name)
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()

    async def handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLError:
                await self._flush()  # the alert that says why
                raise
            else:
                await self._flush()
                return

    async def carry(self, plain: socket.socket) -> None:
        """Carry bytes both ways until both sides have ended, or one broke."""
        with contextlib.suppress(OSError, ssl.SSLError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._inwards(plain))
                group.create_task(self._outwards(plain))

    async def _inwards(self, plain: socket.socket) -> None:
        while True:
            try:
                data = self._tls.read(READ_SIZE)
            except ssl.SSLWantReadError:
                await self._flush()  # a key update's answer, for instance
                if not await self._feed():
                    break
                continue
            except ssl.SSLZeroReturnError:
                break
            if not data:
                break
            await self._loop.sock_sendall(plain, data)
        with contextlib.suppress(OSError):
            plain.shutdown(socket.SHUT_WR)

    async def _outwards(self, plain: socket.socket) -> None:
        while data := await self._loop.sock_recv(plain, READ_SIZE):
            self._tls.write(data)
            await self._flush()
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()
        self._wire.end_writing()

    async def _feed(self) -> bool:
        """Take in what the wire has; False at its end."""
        if not self._wire.pending and not await self._wire.fill():
            self._incoming.write_eof()
            return False
        self._incoming.write(self._wire.take(len(self._wire.pending)))
        return True

    async def _flush(self) -> None:
        async with self._sending:
            while data := self._outgoing.read():
                await self._wire.write(data)
