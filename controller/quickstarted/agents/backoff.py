"""How long to wait before a failed call of a model's API is tried again. Pure: chance and time come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter. Seconds.

    The first waits are around a second because overloads are short; the cap is a minute because rate limits of the
    vendors are counted per minute. `tries` bounds the calls for one answer, the first one included.
    """

    first: float = 1.0
    cap: float = 60.0
    tries: int = 8

    def wait(self, failed: int, asked: float | None, random: Callable[[], float]) -> float | None:
        """The wait after the `failed`-th failure in a row (from 1), or None to give up.

        What the API asked for (`asked`) is a lower bound; a little is added so that clients do not return together.
        """
        if failed >= self.tries:
            return None
        if asked is not None:
            return asked + random() * min(1.0, asked)
        ceiling: float = min(self.cap, self.first * 2 ** (failed - 1))
        return ceiling * (0.5 + random() / 2)
