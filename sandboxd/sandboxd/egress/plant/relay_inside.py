"""The relay's end in the sandbox: binds the listening sockets and carries what comes to the daemon, over its own pipes.

Runs in a container in the sandbox's network namespace, with no capability and no network but the sandbox's. One thread
and a selector; what waits to be written is bounded by the windows of the connections. When its input ends, it ends, and
with it every connection: the sandbox is then refused, not let out.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from sandboxd.egress.plant import mux
from sandboxd.egress.plant.closed import findings
from sandboxd.inside.sockets import plant_here

STDIN, STDOUT = 0, 1
# As many connections as a gateway serves, and some that it refuses itself.
MAX_STREAMS = 512
MAX_QUESTIONS = 256
# No socket is read while so much waits for the daemon.
HIGH_WATER = 4 << 20
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Stream:
    """A connection of the sandbox's."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.out = bytearray()  # to the sandbox
        self.credit = mux.WINDOW  # that we may still send to the daemon
        self.read_ended = False
        self.write_ended = False


class Relay:
    """All of it. `run` returns at the end of stdin."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._unframer = mux.Unframer()
        self._out = bytearray()
        self._streams: dict[int, Stream] = {}
        self._questions: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._number = 0
        self._alive = True
        self._found: list[bytes] = []
        self._wake, self._waker = os.pipe()

    def run(self) -> None:
        """Plant, say so, and carry."""
        here = plant_here(may_redirect=False)
        self._dns = here.dns_udp
        os.set_blocking(STDIN, False)
        os.set_blocking(STDOUT, False)
        self._watch(STDIN, self._input)
        self._watch(self._wake, self._look_done)
        self._watch(here.dns_udp, self._question)
        for name, listener in {mux.PROXY: here.proxy, mux.DNS: here.dns_tcp, **here.transparent}.items():
            self._watch(listener, partial(self._accept, listener, name))
        self._send(mux.HELLO, 0, json.dumps({"pool": here.pool, "ports": sorted(here.transparent)}).encode())
        while self._alive:
            for key, events in self._selector.select():
                if not self._alive:
                    break
                self._ready(key, events)

    def _ready(self, key: selectors.SelectorKey, events: int) -> None:
        if key.fd == STDOUT:
            self._flush()
        elif isinstance(key.data, Stream):
            if events & selectors.EVENT_WRITE and key.data.number in self._streams:
                self._write(key.data)
            if events & selectors.EVENT_READ and key.data.number in self._streams:
                self._read(key.data)
        else:
            key.data()

    def _watch(self, file: socket.socket | int, work: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, work)

    # To the daemon.

    def _send(self, kind: int, number: int, payload: bytes = b"") -> None:
        idle = not self._out
        was_high = len(self._out) > HIGH_WATER
        self._out += mux.frame(kind, number, payload)
        if idle:
            self._flush()
        if not was_high and len(self._out) > HIGH_WATER:
            self._interest_all()

    def _flush(self) -> None:
        was_high = len(self._out) > HIGH_WATER
        try:
            while self._out:
                with memoryview(self._out) as view:
                    sent = os.write(STDOUT, view[: 1 << 20])
                del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._alive = False
            return
        registered = STDOUT in self._selector.get_map()
        if self._out and not registered:
            self._selector.register(STDOUT, selectors.EVENT_WRITE, None)
        elif not self._out and registered:
            self._selector.unregister(STDOUT)
        if was_high and len(self._out) <= HIGH_WATER:
            self._interest_all()

    # From the daemon.

    def _input(self) -> None:
        try:
            data = os.read(STDIN, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self._alive = False
            return
        for kind, number, payload in self._unframer.feed(data):
            self._frame(kind, number, payload)

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if kind == mux.ANSWER:
            address = self._questions.pop(number, None)
            if address is not None:
                try:
                    self._dns.sendto(payload, address)
                except OSError:
                    return  # whoever asked is gone
        elif kind == mux.LOOK:
            threading.Thread(target=self._look, daemon=True).start()
        elif stream is None:
            return  # of a connection that ended here meanwhile
        elif kind == mux.DATA:
            stream.out += payload
            self._write(stream)
        elif kind == mux.END:
            stream.write_ended = True
            self._write(stream)
        elif kind == mux.CREDIT:
            stream.credit += mux.NUMBER.unpack(payload)[0]
            self._interest(stream)
        elif kind == mux.RESET:
            self._drop(stream, reset=True)

    def _look(self) -> None:
        self._found.append(json.dumps(findings()).encode())
        os.write(self._waker, b"x")

    def _look_done(self) -> None:
        os.read(self._wake, 64)
        while self._found:
            self._send(mux.FOUND, 0, self._found.pop())

    # The sandbox's connections.

    def _accept(self, listener: socket.socket, name: int) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        if len(self._streams) >= MAX_STREAMS:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address, _ = sock.getsockname()
        self._number = (self._number % 0xFFFFFFFF) + 1
        stream = self._streams[self._number] = Stream(self._number, sock)
        self._selector.register(sock, selectors.EVENT_READ, stream)
        self._send(mux.OPEN, stream.number, mux.OPENED.pack(name, socket.inet_aton(address)))
        self._interest(stream)

    def _question(self) -> None:
        try:
            data, address = self._dns.recvfrom(4096)
        except OSError:
            return
        if len(self._out) > HIGH_WATER:
            return  # a flood; whoever asks will ask again
        self._number = (self._number % 0xFFFFFFFF) + 1
        self._questions[self._number] = address
        if len(self._questions) > MAX_QUESTIONS:
            self._questions.popitem(last=False)
        self._send(mux.QUERY, self._number, data)

    def _read(self, stream: Stream) -> None:
        try:
            data = stream.sock.recv(min(mux.CHUNK, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self._send(mux.RESET, stream.number)
            self._drop(stream, reset=True)
            return
        if data:
            stream.credit -= len(data)
            self._send(mux.DATA, stream.number, data)
        else:
            stream.read_ended = True
            self._send(mux.END, stream.number)
        self._settle(stream)

    def _write(self, stream: Stream) -> None:
        try:
            while stream.out:
                sent = stream.sock.send(stream.out)
                del stream.out[:sent]
                self._send(mux.CREDIT, stream.number, mux.NUMBER.pack(sent))
            if stream.write_ended:
                stream.sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._send(mux.RESET, stream.number)
            self._drop(stream, reset=True)
            return
        self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        if stream.read_ended and stream.write_ended and not stream.out:
            self._drop(stream, reset=False)
        else:
            self._interest(stream)

    def _interest_all(self) -> None:
        for stream in list(self._streams.values()):
            self._interest(stream)

    def _interest(self, stream: Stream) -> None:
        events = selectors.EVENT_WRITE if stream.out else 0
        if stream.credit > 0 and not stream.read_ended and len(self._out) <= HIGH_WATER:
            events |= selectors.EVENT_READ
        registered = stream.sock in self._selector.get_map()
        if events and registered:
            self._selector.modify(stream.sock, events, stream)
        elif events:
            self._selector.register(stream.sock, events, stream)
        elif registered:
            self._selector.unregister(stream.sock)

    def _drop(self, stream: Stream, *, reset: bool) -> None:
        self._streams.pop(stream.number, None)
        if stream.sock in self._selector.get_map():
            self._selector.unregister(stream.sock)
        if reset:
            stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        stream.sock.close()


def main() -> None:
    """Relay until the daemon goes away."""
    Relay().run()
