"""What the host has."""

from __future__ import annotations

import os
from pathlib import Path


def memory() -> tuple[int, int]:
    """Total and free memory in bytes. Free is what programs could have without swapping."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return total, 0  # macOS does not tell without a subprocess; slots are what counts there
    available = next((line for line in lines if line.startswith("MemAvailable:")), "")
    return total, int(available.split()[1]) * 1024 if available else 0
