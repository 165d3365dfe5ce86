"""The hosts that a shell reaches when a task does not say otherwise: one data file, `registry_hosts.txt`."""

from __future__ import annotations

import functools
from pathlib import Path

from quickstarted_api.hosts import parse_host


@functools.cache
def registry_hosts() -> tuple[str, ...]:
    """The default registry list: canonical hostnames, in the order of the file."""
    lines = map(str.strip, Path(__file__).with_name("registry_hosts.txt").read_text("ascii").splitlines())
    return tuple(parse_host(line) for line in lines if line and not line.startswith("#"))
