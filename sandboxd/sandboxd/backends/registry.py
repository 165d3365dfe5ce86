"""The backends of this host by kind, whether each can be used now, and which one `auto` means."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandboxd.backends.base import Availability, Backend, BackendError, BackendKind
from sandboxd.refused import RefusedError

# Engines come and go while the daemon runs; asking one takes milliseconds.
PROBE_TTL = 5.0
PROBE_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What a backend answered, and when (monotonic seconds)."""

    availability: Availability
    at: float


class Backends:
    """All backends of this platform. Probes are shared and kept for a few seconds."""

    def __init__(self, backends: Mapping[BackendKind, Backend], platform: str = sys.platform) -> None:
        self._backends = dict(backends)
        self._probes: dict[BackendKind, Probe] = {}
        self._lock = asyncio.Lock()
        self._order = (
            BackendKind.DOCKER,
            BackendKind.SEATBELT if platform == "darwin" else BackendKind.BUBBLEWRAP,
        )

    def all(self) -> Sequence[Backend]:
        return tuple(self._backends.values())

    async def probe_all(self) -> dict[BackendKind, Availability]:
        """Ask all of them, side by side."""
        async with self._lock:
            stale = [kind for kind in self._backends if not self._is_fresh(kind)]
            answers = await asyncio.gather(*(_probe(self._backends[kind]) for kind in stale))
            for kind, answer in zip(stale, answers, strict=True):
                self._probes[kind] = Probe(answer, time.monotonic())
            return {kind: self._probes[kind].availability for kind in self._backends}

    async def auto(self) -> BackendKind | None:
        """docker when its engine answers, else the platform's own; None when neither can be used."""
        available = await self.probe_all()
        return next((kind for kind in self._order if kind in available and available[kind].available), None)

    async def choose(self, kind: BackendKind | None, *, allow_unenforced: bool) -> Backend:
        """The backend that a spec asks for, or `auto`. Raises RefusedError: never another one in silence."""
        if kind is None:
            chosen = await self.auto()
            if chosen is None:
                raise await self._nothing()
            return self._backends[chosen]
        backend = self._backends.get(kind)
        if backend is None:
            raise RefusedError(
                "BACKEND_UNSUPPORTED", f"there is no {kind} backend on this platform", backend=kind.value
            )
        if not backend.enforced and not allow_unenforced:
            raise RefusedError(
                "ISOLATION_UNAVAILABLE",
                f"the {kind} backend enforces nothing: commands could read and change everything that you can",
                backend=kind.value,
                remedy="use docker or bubblewrap, or accept it with --allow-unenforced",
            )
        answer = (await self.probe_all())[kind]
        if not answer.available:
            raise RefusedError(
                "BACKEND_UNSUPPORTED",
                f"the {kind} backend can't be used here: {answer.why}",
                backend=kind.value,
                why=answer.why,
                remedy=answer.remedy,
            )
        return backend

    async def _nothing(self) -> RefusedError:
        available = await self.probe_all()
        told = [(kind, available[kind]) for kind in self._order if kind in available]
        why = "; ".join(f"{kind}: {answer.why}" for kind, answer in told)
        remedy = "; or ".join(answer.remedy for _, answer in told if answer.remedy)
        return RefusedError(
            "BACKEND_UNSUPPORTED", f"no enforced backend can be used here: {why}", why=why, remedy=remedy
        )

    def _is_fresh(self, kind: BackendKind) -> bool:
        probe = self._probes.get(kind)
        return probe is not None and time.monotonic() - probe.at < PROBE_TTL

    async def close(self) -> None:
        for backend in self._backends.values():
            await backend.close()


async def _probe(backend: Backend) -> Availability:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await backend.probe()
    except TimeoutError:
        return Availability(False, f"it did not answer within {PROBE_SECONDS:g} s")
    except BackendError as error:
        return Availability(False, error.message)
