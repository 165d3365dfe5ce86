"""The daemon's end of the socket to a supervisor: frames out without waiting, frames in as they come.

What comes in is parsed as a stranger's. The channel ends when the supervisor does, or when it stops making sense.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence

from sandboxd.inside.frames import MAX_DESCRIPTORS, Decoder, Frame, FrameError

READ_BYTES = 1 << 16
# What a supervisor that stopped reading may leave unsent; the largest frame and many small ones fit.
MAX_UNSENT = 16 << 20
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid (unix(7))


class ChannelError(Exception):
    """The supervisor can't be reached any more."""


class Channel:
    """Owns `own`, a connected unix stream socket. `on_frame` gets each frame with its descriptors, which it then owns;
    `on_end` is called once, with the cause. Both are called on the event loop.
    """

    def __init__(
        self,
        own: socket.socket,
        on_frame: Callable[[Frame, list[int]], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._socket = own
        self._on_frame = on_frame
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder()
        self._received: list[int] = []
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()
        self._unsent_bytes = 0
        self._open = True
        # The supervisor's pid as this host numbers it: the kernel says so with each message (SO_PASSCRED).
        self.peer = 0
        own.setblocking(False)
        self._passes_credentials = hasattr(socket, "SO_PASSCRED")
        if self._passes_credentials:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._loop.add_reader(own.fileno(), self._readable)

    def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Send a frame, or keep it until the socket takes it. The descriptors are closed when they were sent.

        Raises ChannelError; the descriptors are closed then too.
        """
        if not self._open or self._unsent_bytes > MAX_UNSENT:
            _close_all(descriptors)
            raise ChannelError("its supervisor does not answer" if self._open else "its supervisor has ended")
        data = memoryview(frame.encode())
        self._unsent.append((data, list(descriptors)))
        self._unsent_bytes += len(data)
        self._writable()

    def close(self) -> None:
        """Close the socket: the supervisor ends, and with it everything in its sandbox. Idempotent."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for _, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()
        _close_all(self._received)

    def _end(self, cause: str) -> None:
        if self._open:
            self.close()
            self._on_end(cause)

    def _writable(self) -> None:
        while self._unsent:
            data, descriptors = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self._socket.sendmsg([data], rights)
            except BlockingIOError:
                self._loop.add_writer(self._socket.fileno(), self._writable)
                return
            except OSError as error:
                self._loop.call_soon(self._end, f"its supervisor has ended ({error.strerror})")
                return
            _close_all(descriptors)
            self._unsent_bytes -= sent
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = (data[sent:], [])
        self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * struct.calcsize("i")) + socket.CMSG_SPACE(_CREDENTIALS.size)
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(READ_BYTES, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"its supervisor has ended ({error.strerror})")
            return
        self._take(ancillary)
        if not data:
            self._end("its supervisor has ended")
        elif flags & socket.MSG_CTRUNC:
            self._end("its supervisor sent too many descriptors")
        else:
            self._parse(data)

    def _take(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, content in ancillary:
            if level != socket.SOL_SOCKET:
                continue
            if kind == socket.SCM_RIGHTS:
                whole = len(content) - len(content) % struct.calcsize("i")
                self._received += array.array("i", content[:whole])
            elif self._passes_credentials and kind == socket.SCM_CREDENTIALS and len(content) >= _CREDENTIALS.size:
                self.peer = self.peer or _CREDENTIALS.unpack_from(content)[0]

    def _parse(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                if frame.descriptors > len(self._received):
                    raise FrameError("a frame that names descriptors which did not come")
                descriptors = self._received[: frame.descriptors]
                del self._received[: frame.descriptors]
                if self._open:
                    self._on_frame(frame, descriptors)
                else:
                    _close_all(descriptors)
        except FrameError as error:
            self._end(f"its supervisor sent {error}")


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
