"""Planting by a relay container: for engines whose containers don't run on this host.

The relay binds the sockets in the sandbox's namespace and carries what comes over its stdin and stdout. Here its other
end hands each connection to the gateway through unix sockets in a private directory. A unix socket can't tell which
address was dialled, so our end of a connection is named after it (`Planted.announced`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

import structlog

from sandboxd.backends.base import Planted
from sandboxd.egress.plant import mux
from sandboxd.egress.plant.planter import Companion, Companions, PlantError
from sandboxd.egress.plant.program import program

log = structlog.get_logger(__name__)

HELLO_SECONDS = 30.0
LOOK_SECONDS = 45.0
BATCH_BYTES = 256 << 10
BACKLOG = 1024
# Questions to the name server in flight; the gateway answers at once.
QUESTIONS = 64
QUESTION_SECONDS = 5.0


class _Stream:
    """A connection's two directions: to the gateway in `incoming`, to the relay as far as `credit` goes."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.credit = mux.WINDOW
        self.more = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class RelayPlace:
    """The daemon's end of a relay, and the unix sockets that stand for those in the sandbox."""

    def __init__(self, companion: Companion, directory: tempfile.TemporaryDirectory[str]) -> None:
        self._companion = companion
        self._keep = directory
        self._directory = Path(directory.name)
        self._streams: dict[int, _Stream] = {}
        self._out: deque[bytes] = deque()
        self._has_out = asyncio.Event()
        self._found: asyncio.Future[list[str]] | None = None
        self._hello: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        self._asking = asyncio.Semaphore(QUESTIONS)
        self._questions: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.planted: Planted

    async def open(self) -> None:
        """Wait for the relay and make our sockets. Raises PlantError."""
        self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._transmit())]
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = await self._hello
        except TimeoutError as error:
            raise PlantError(f"the relay did not answer: {self._companion.complaint()}") from error
        ports = hello.get("ports")
        if not isinstance(ports, list) or ports != [80, 443]:
            raise PlantError("the relay did not make the sockets that it should")
        self.planted = Planted(
            proxy=self._listener(mux.PROXY),
            dns_udp=self._datagrams(),
            dns_tcp=self._listener(mux.DNS),
            transparent={port: self._listener(port) for port in ports},
            redirected=False,
            pool=str(hello.get("pool")),
            announced=True,
        )

    def _listener(self, name: int) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._directory / str(name)))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        return listener

    def _datagrams(self) -> socket.socket:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(str(self._directory / "dns"))
        receiver.setblocking(False)
        return receiver

    async def findings(self) -> list[str]:
        """Have the relay look around."""
        self._found = asyncio.get_running_loop().create_future()
        self._send(mux.LOOK, 0)
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await self._found
        except TimeoutError:
            return ["it could not be looked at from inside: the relay did not answer"]

    async def close(self) -> None:
        """End the relay, and with it every connection."""
        tasks = [*self._tasks, *self._questions, *(s.task for s in self._streams.values() if s.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []
        await self._companion.close()
        self._keep.cleanup()

    # Between the relay and us.

    def _send(self, kind: int, number: int, payload: bytes = b"") -> None:
        self._out.append(mux.frame(kind, number, payload))
        self._has_out.set()

    async def _transmit(self) -> None:
        while True:
            await self._has_out.wait()
            self._has_out.clear()
            while self._out:
                batch = bytearray()
                while self._out and len(batch) < BATCH_BYTES:
                    batch += self._out.popleft()
                try:
                    await self._companion.send(bytes(batch))
                except OSError:
                    return  # the other task notices its end and says so

    async def _receive(self) -> None:
        unframer = mux.Unframer()
        try:
            while data := await self._companion.receive():
                for kind, number, payload in unframer.feed(data):
                    self._frame(kind, number, payload)
        except mux.MuxError as error:
            log.warning("relay.broken", why=str(error))
        said = self._companion.complaint() or "it ended"
        if not self._hello.done():
            self._hello.set_exception(PlantError(f"the relay could not plant: {said}"))
        if self._found is not None and not self._found.done():
            self._found.set_result([f"its relay is gone: {said}"])
        for stream in self._streams.values():
            if stream.task is not None:
                stream.task.cancel()

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if kind == mux.HELLO and not self._hello.done():
            self._hello.set_result(json.loads(payload))
        elif kind == mux.FOUND and self._found is not None and not self._found.done():
            self._found.set_result([str(finding) for finding in json.loads(payload)])
        elif kind == mux.QUERY:
            task = asyncio.create_task(self._ask(number, payload))
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)
        elif kind == mux.OPEN and stream is None:
            stream = self._streams[number] = _Stream()
            stream.task = asyncio.create_task(self._carry(number, stream, payload))
        elif stream is None:
            return
        elif kind == mux.DATA:
            stream.incoming.put_nowait(payload)
        elif kind == mux.END:
            stream.incoming.put_nowait(None)
        elif kind == mux.CREDIT:
            stream.credit += mux.NUMBER.unpack(payload)[0]
            stream.more.set()
        elif kind == mux.RESET and stream.task is not None:
            stream.task.cancel()

    # Between the gateway and us.

    async def _carry(self, number: int, stream: _Stream, opened: bytes) -> None:
        name, address = mux.OPENED.unpack(opened)
        writer: asyncio.StreamWriter | None = None
        ended = False
        try:
            connection = await self._connect(name, f"c{number}-{socket.inet_ntoa(address)}")
            reader, writer = await asyncio.open_unix_connection(sock=connection)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._up(number, stream, writer))
                both.create_task(self._down(number, stream, reader))
            ended = True
        except* OSError:
            ended = False
        finally:
            self._streams.pop(number, None)
            if not ended:
                self._send(mux.RESET, number)
            if writer is not None:
                writer.close()

    async def _connect(self, listener: int, name: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own = self._directory / name
        try:
            connection.setblocking(False)
            connection.bind(str(own))
            await asyncio.get_running_loop().sock_connect(connection, str(self._directory / str(listener)))
        except BaseException:
            connection.close()
            raise
        finally:
            own.unlink(missing_ok=True)  # the name stays with the socket
        return connection

    async def _up(self, number: int, stream: _Stream, writer: asyncio.StreamWriter) -> None:
        while (data := await stream.incoming.get()) is not None:
            writer.write(data)
            await writer.drain()
            self._send(mux.CREDIT, number, mux.NUMBER.pack(len(data)))
        if writer.can_write_eof():
            writer.write_eof()

    async def _down(self, number: int, stream: _Stream, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(mux.CHUNK):
            view = memoryview(data)
            while view:
                while stream.credit <= 0:
                    stream.more.clear()
                    await stream.more.wait()
                piece = view[: stream.credit]
                stream.credit -= len(piece)
                self._send(mux.DATA, number, bytes(piece))
                view = view[len(piece) :]
        self._send(mux.END, number)

    async def _ask(self, number: int, question: bytes) -> None:
        loop = asyncio.get_running_loop()
        async with self._asking:
            name = self._directory / f"q{number}"
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
                asker.setblocking(False)
                asker.bind(str(name))
                try:
                    asker.connect(str(self._directory / "dns"))
                    async with asyncio.timeout(QUESTION_SECONDS):
                        asker.send(question)
                        self._send(mux.ANSWER, number, await loop.sock_recv(asker, 4096))
                except (TimeoutError, OSError):
                    return  # an answer that does not come is how a name server refuses
                finally:
                    name.unlink(missing_ok=True)


class RelayPlanter:
    """Plants by a relay container. `directory` is a private place of this daemon's, for unix sockets."""

    def __init__(self, companions: Companions) -> None:
        self._companions = companions

    async def plant(self, container: str, pid: int, confirm: Callable[[], bool]) -> RelayPlace:
        """Have the relay plant. Raises PlantError."""
        companion = await self._companions.start(program("sandboxd.egress.plant.relay_inside"), {})
        # Short, for a unix socket's path has 107 bytes at most, and private, as mkdtemp makes it.
        place = RelayPlace(companion, tempfile.TemporaryDirectory(prefix="sandboxd-relay-"))
        try:
            await place.open()
        except BaseException:
            await place.close()
            raise
        return place
