"""A container's limits as the engine tells them: for engines whose control groups are not this host's."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import docker

from sandboxd.backends.docker.cgroup import Counters

FULL = 0.95


class DistantCounters:
    """Counts what the engine reported about one container."""

    def __init__(self, container: str) -> None:
        self._container = container
        self._pids = 0

    def read(self, api: docker.APIClient) -> Counters:
        """Ask the engine; for a thread. The engine keeps the last few hundred events, which is enough for one run."""
        # The end of the range is the engine's own time: with a later one the engine would wait for it.
        now = datetime.fromisoformat(str(api.info()["SystemTime"])[:26] + "+00:00").timestamp()
        filters = {"container": self._container, "event": "oom"}
        until: Any = f"{now:.6f}"
        memory = sum(1 for _ in api.events(since=0, until=until, filters=filters, decode=True))
        found = api.stats(self._container, stream=False, one_shot=True).get("pids_stats") or {}
        # There is no count of refused processes. An almost full house stands for one: those that were refused end.
        if found.get("limit") and found.get("current", 0) >= found["limit"] * FULL:
            self._pids += 1
        return Counters(memory, self._pids)
