"""A lease: how long a sandbox may live without its owner, and whose it is. Pure; the clock's value comes in."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from sandboxd.refused import RefusedError, invalid

MIN_TTL = 10.0
DEFAULT_TTL = 60.0
MAX_TTL = 3600.0
DEFAULT_LIFETIME = 6 * 3600.0
MAX_LIFETIME = 24 * 3600.0
MIN_TOKEN = 16
MAX_TOKEN = 1024


def owner_hash(token: bytes) -> bytes:
    """What is kept of an owner's token. Raises RefusedError for one that could be guessed."""
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        raise invalid("owner_token", f"{len(token)} bytes", f"{MIN_TOKEN} to {MAX_TOKEN} random bytes")
    return hashlib.sha256(token).digest()


def checked(field: str, value: float, default: float, low: float, high: float) -> float:
    """A time span of a request: its default when unset. Raises RefusedError outside its bounds."""
    if value == 0:
        return default
    if not low <= value <= high:
        raise invalid(field, f"{value:g} s", f"{low:g} to {high:g} s")
    return value


@dataclass
class Lease:
    """Deadlines are values of a monotonic clock, in seconds; time spans that a client gave, turned at arrival."""

    owner: bytes
    ttl: float
    ends: float
    hard_end: float
    generation: int = 1

    def check_owner(self, token: bytes) -> None:
        """Raises RefusedError when the token is not the owner's."""
        if not hmac.compare_digest(hashlib.sha256(token).digest(), self.owner):
            raise RefusedError("NOT_OWNER", "the owner token does not match")

    def renew(self, now: float, ttl: float) -> None:
        self.ttl = ttl
        self.ends = now + ttl

    def over(self, now: float) -> str:
        """Why it has ended, or nothing."""
        if now >= self.hard_end:
            return "its hard lifetime ended"
        if now >= self.ends:
            return f"it was not renewed for {self.ttl:g} s"
        return ""

    def adopt(self, token: bytes, now: float) -> None:
        """Another owner from now on; the old one is fenced."""
        self.owner = owner_hash(token)
        self.generation += 1
        self.ends = now + self.ttl
