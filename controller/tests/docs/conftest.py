"""The documentation site that the reader's tests read, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.docs_reading import START
from tests.support.docs_site import Site, html


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site({"/start": html(START), "/next": html("<p>Next page.")})
    await made.start()
    yield made
    await made.close()
