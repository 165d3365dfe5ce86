"""Where a runner is: addresses as people write them, and the channel to one.

An address is `unix:/path`. The schemes of remote runners are known here and refused until their channels exist: a
scheme is one more branch of `parse` and of `open_channel`, and nothing else in the controller changes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpc import aio

# sun_path of sockaddr_un (unix(7)) holds 108 bytes with its NUL on Linux, 104 on macOS.
MAX_SOCKET_PATH = 103

# A vanished host is noticed in 15 s. Without it a stream to one hangs for good.
KEEPALIVE_MS = 10_000
KEEPALIVE_TIMEOUT_MS = 5_000

_LATER = ("grpcs://", "ssh://")


class AddressError(ValueError):
    """Text that names no runner; the message says what was found and what is allowed."""


@dataclass(frozen=True, slots=True)
class Address:
    """One runner. `text` is what people see, in messages and records."""

    text: str
    socket: str


def parse(text: str) -> Address:
    """Read an address. Raises AddressError."""
    text = text.strip()
    if not text:
        raise AddressError("the runner's address is empty; expected unix:/path/to/sandboxd.sock")
    if any(one in text for one in ",; \t\n"):
        raise AddressError(f"{text!r} looks like more than one address; one run uses one runner")
    if text.startswith(_LATER):
        raise AddressError(f"{text!r}: remote runners are not supported by this version; expected unix:/path")
    if not text.startswith("unix:"):
        raise AddressError(f"{text!r} is no address of a runner; expected unix:/path/to/sandboxd.sock")
    path = text.removeprefix("unix:")
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path or "\0" in path:
        raise AddressError(f"{text!r} has no path; expected unix:/path/to/sandboxd.sock")
    return from_path(Path(path).expanduser())


def from_path(path: Path) -> Address:
    """The address of a unix socket. Raises AddressError when the path is too long for one."""
    absolute = str(path.absolute())
    if len(os.fsencode(absolute)) > MAX_SOCKET_PATH:
        raise AddressError(f"{absolute} is too long for a unix socket: {MAX_SOCKET_PATH} bytes at most")
    return Address(f"unix:{absolute}", absolute)


def open_channel(address: Address) -> aio.Channel:
    """A channel to a runner. It connects when it is first used. Must be called, and closed, on one event loop."""
    # Before the import: gRPC's fork handlers deadlock a process that starts others, and its log is not for users.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from grpc import aio

    return aio.insecure_channel(
        f"unix:{address.socket}",
        options=[
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.enable_http_proxy", 0),
            # A daemon that is just starting is found at once, one that restarts within seconds.
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 2_000),
        ],
    )
