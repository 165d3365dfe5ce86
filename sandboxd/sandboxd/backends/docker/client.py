"""The engine's API from asyncio: the docker SDK's low-level client in threads of our own, a deadline on every call.

Removing has its own threads, so that a burst of creates never delays a deletion. A call whose caller was cancelled or
ran into its deadline goes on in its thread until the client's own time-out ends it: whoever starts something that has
to be undone (a container) asks for it by a name that was known before.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from threading import Lock
from typing import Any, TypeVar, cast

import docker
import docker.errors
import docker.utils
import requests.exceptions

from sandboxd.backends.base import BackendError

T = TypeVar("T")

CALL_SECONDS = 30.0
WORKERS = 16
REMOVERS = 4
PULLERS = 4
# Between two signs of life of a pull: a large layer is unpacked without a word.
PULL_SILENCE_SECONDS = 300
REASON_CHARACTERS = 600


class Lane(Enum):
    """Which threads a call runs in."""

    WORK = auto()
    REMOVE = auto()
    PULL = auto()


class EngineDownError(BackendError):
    """The engine does not answer."""

    def __init__(self, message: str) -> None:
        super().__init__("BACKEND_DOWN", message)


class EngineClient:
    """One engine. `host` as DOCKER_HOST has it; None takes DOCKER_HOST and its TLS variables, or the default socket."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._apis: dict[bool, docker.APIClient] = {}
        self._connecting = Lock()
        self._lanes = {
            Lane.WORK: ThreadPoolExecutor(WORKERS, "docker-call"),
            Lane.REMOVE: ThreadPoolExecutor(REMOVERS, "docker-remove"),
            Lane.PULL: ThreadPoolExecutor(PULLERS, "docker-pull"),
        }

    @property
    def host(self) -> str:
        """The engine's address, for messages."""
        return self._host or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"

    async def call(
        self, work: Callable[[docker.APIClient], T], *, deadline: float = CALL_SECONDS, lane: Lane = Lane.WORK
    ) -> T:
        """Run `work` with the client in a thread.

        Raises EngineDownError when the engine does not answer within `deadline` seconds, and the SDK's APIError for
        what the engine refused.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(deadline):
                return await loop.run_in_executor(self._lanes[lane], self._run, work, lane is Lane.PULL)
        except TimeoutError:
            raise EngineDownError(f"the docker engine at {self.host} did not answer within {deadline:g} s") from None

    def _run(self, work: Callable[[docker.APIClient], T], patient: bool) -> T:
        try:
            return work(self._connected(patient))
        except docker.errors.APIError:
            raise
        except (requests.exceptions.RequestException, docker.errors.DockerException, OSError) as error:
            raise EngineDownError(f"the docker engine at {self.host} does not answer: {_root_cause(error)}") from error

    def _connected(self, patient: bool) -> docker.APIClient:
        with self._connecting:
            api = self._apis.get(patient)
            if api is None:
                options = {"base_url": self._host} if self._host else dict(docker.utils.kwargs_from_env())
                seconds = PULL_SILENCE_SECONDS if patient else int(CALL_SECONDS)
                size = PULLERS if patient else WORKERS + REMOVERS
                api = docker.APIClient(
                    version="auto", timeout=seconds, max_pool_size=size, **cast("dict[str, Any]", options)
                )
                api.trust_env = False  # no proxy and no .netrc stands between us and an engine
                self._apis[patient] = api
            return api

    async def close(self) -> None:
        """Release connections and threads; calls in flight end on their own."""
        for pool in self._lanes.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for api in self._apis.values():
            api.close()


class Hijacked:
    """A connection that the engine turned into a raw stream: an attach or an exec. Non-blocking."""

    def __init__(self, raw: Any) -> None:
        # The SDK's response owns the connection and may have read past the headers, into its buffer.
        self._response = raw._response  # noqa: SLF001 the SDK has no public name for it
        self._socket: socket.socket = getattr(raw, "_sock", raw)
        self._socket.setblocking(False)
        self._ahead = bytes(self._response.raw._fp.fp.peek() or b"")  # noqa: SLF001

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def pending(self) -> bool:
        """Whether bytes wait that a selector can't see."""
        return bool(self._ahead) or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)

    def receive(self, size: int) -> bytes | None:
        """What has arrived: None when there is nothing yet, empty at the end."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        try:
            return self._socket.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            return b""

    def send(self, data: bytes, seconds: float = CALL_SECONDS) -> None:
        """Send all of it; for a thread that may block. Raises OSError."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                _wait_writable(self._socket, seconds)

    def end_input(self) -> None:
        """Close our half; the other side reads the end of the file."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has gone, and so has whoever would have read

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()
        self._response.close()


def _wait_writable(sock: socket.socket, seconds: float) -> None:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    if not poll.poll(seconds * 1000):
        raise TimeoutError("the docker engine did not take a command's input")


def _root_cause(error: BaseException) -> str:
    """The innermost message: the SDK wraps the system's own words three times."""
    seen: BaseException = error
    while True:
        inner = seen.__cause__ or seen.__context__
        if inner is None:
            break
        seen = inner
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror
    return str(seen) or type(seen).__name__


def reason_of(error: docker.errors.APIError) -> str:
    """What the engine said, without the SDK's wrapping."""
    said = str(error.explanation or error).strip()
    # It may quote a path that a command made as long as it liked.
    half = REASON_CHARACTERS // 2
    return said if len(said) <= REASON_CHARACTERS else f"{said[:half]} … {said[-half:]}"


def status_of(error: docker.errors.APIError) -> int:
    """The HTTP status of a refusal."""
    return int(error.status_code or 0)
