"""Planting by a helper container: for a daemon on the engine's host that may not enter the sandbox's namespace.

The helper shares the sandbox's network namespace, makes the sockets there and hands them back through a unix socket
that only it and this daemon can reach. What it hands back is checked: it runs in somebody's image.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from sandboxd.backends.base import Planted
from sandboxd.egress.plant.helper_inside import DIRECTORY, LOOK, SOCKET
from sandboxd.egress.plant.planter import Companion, Companions, PlantError
from sandboxd.egress.plant.program import program
from sandboxd.inside.sockets import DNS_PORT, LOOPBACK, PROXY_PORT

HAND_OVER_SECONDS = 30.0
LOOK_SECONDS = 45.0
MESSAGE_BYTES = 64 << 10
PORTS = (80, 443)
SOCKETS = 3 + len(PORTS)


class HelperPlace:
    """A namespace that a helper waits in until it has looked around."""

    def __init__(self, planted: Planted, companion: Companion, connection: socket.socket) -> None:
        self.planted = planted
        self._companion = companion
        self._connection = connection

    async def findings(self) -> list[str]:
        """Have the helper look around; it is not needed after that."""
        try:
            return await asyncio.to_thread(self._ask)
        except (OSError, ValueError) as error:
            return [f"it could not be looked at from inside: {error}"]
        finally:
            await self.close()

    def _ask(self) -> list[str]:
        self._connection.settimeout(LOOK_SECONDS)
        self._connection.sendall(LOOK)
        answer = json.loads(_line(self._connection))
        return [str(finding) for finding in answer]

    async def close(self) -> None:
        """End the helper."""
        self._connection.close()
        await self._companion.close()


class HelperPlanter:
    """Plants by a helper container. `directory` is where the meeting point is made; the engine sees it too."""

    def __init__(self, companions: Companions, directory: Path) -> None:
        self._companions = companions
        self._directory = directory

    async def plant(self, container: str, pid: int, confirm: Callable[[], bool]) -> HelperPlace:
        """Have the sockets made and take them. Raises PlantError."""
        with contextlib.ExitStack() as stack:
            meeting = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plant-", dir=self._directory)))
            listener = stack.enter_context(_listen(meeting))
            companion = await self._companions.start(
                program("sandboxd.egress.plant.helper_inside"), {DIRECTORY: meeting}
            )
            try:
                taking = asyncio.create_task(asyncio.to_thread(_take, listener))
                ended = asyncio.create_task(companion.receive())
                done, _ = await asyncio.wait([taking, ended], return_when=asyncio.FIRST_COMPLETED)
                if taking not in done:
                    # It ended without coming; the listener's own deadline ends the other task.
                    raise PlantError(f"the helper ended: {companion.complaint() or 'it said nothing'}")
                ended.cancel()
                planted, connection = await taking
            except (OSError, ValueError) as error:
                await companion.close()
                raise PlantError(f"the helper could not plant: {companion.complaint() or error}") from error
            except BaseException:
                await companion.close()
                raise
        return HelperPlace(planted, companion, connection)


def _listen(meeting: Path) -> socket.socket:
    # Other users can't come this far; the helper's root may be another user of this host.
    meeting.chmod(0o711)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A unix socket's path has 107 bytes at most, and the state directory may lie deep.
    directory = os.open(meeting, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{directory}/{SOCKET}")
        (meeting / SOCKET).chmod(0o666)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    listener.listen(1)
    listener.settimeout(HAND_OVER_SECONDS)
    return listener


def _take(listener: socket.socket) -> tuple[Planted, socket.socket]:
    connection, _ = listener.accept()
    listener.close()  # one helper, once
    connection.settimeout(HAND_OVER_SECONDS)
    try:
        said, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, SOCKETS + 1)
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        try:
            return _checked(json.loads(said), sockets), connection
        except BaseException:
            for one in sockets:
                one.close()
            raise
    except BaseException:
        connection.close()
        raise


def _checked(said: dict[str, object], sockets: list[socket.socket]) -> Planted:
    if len(sockets) != SOCKETS or said.get("ports") != list(PORTS):
        raise ValueError(f"it handed over {len(sockets)} sockets, not {SOCKETS}")
    proxy, dns_udp, dns_tcp, *transparent = sockets
    _check(proxy, socket.SOCK_STREAM, (LOOPBACK, PROXY_PORT))
    _check(dns_udp, socket.SOCK_DGRAM, (LOOPBACK, DNS_PORT))
    _check(dns_tcp, socket.SOCK_STREAM, (LOOPBACK, DNS_PORT))
    for port, one in zip(PORTS, transparent, strict=True):
        _check(one, socket.SOCK_STREAM, ("0.0.0.0", port))  # noqa: S104 an address to compare with
    return Planted(proxy, dns_udp, dns_tcp, dict(zip(PORTS, transparent, strict=True)), False, str(said.get("pool")))


def _check(one: socket.socket, kind: int, address: tuple[str, int]) -> None:
    one.setblocking(False)
    listens = bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    shape = (one.family, one.type, one.getsockname(), listens)
    if shape != (socket.AF_INET, kind, address, kind == socket.SOCK_STREAM):
        raise ValueError(f"it handed over a socket at {one.getsockname()}, not at {address}")
    # One that is in this host's own tables would serve this host.
    inode = str(os.fstat(one.fileno()).st_ino)
    table = Path("/proc/self/net/tcp" if kind == socket.SOCK_STREAM else "/proc/self/net/udp")
    if any(line.split()[9] == inode for line in table.read_text().splitlines()[1:]):
        raise ValueError("it handed over a socket of this host's own network")


def _line(connection: socket.socket) -> bytes:
    said = b""
    while not said.endswith(b"\n"):
        more = connection.recv(4096)
        if not more or len(said) > MESSAGE_BYTES:
            raise ValueError("the helper ended in the middle of a message")
        said += more
    return said
