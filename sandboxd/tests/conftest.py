"""Fixtures of the daemon's own tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sandboxd.registry import RegistryConfig

from tests.support.daemon import Daemon, serving


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    async with serving(RegistryConfig(slots=3)) as running:
        yield running
