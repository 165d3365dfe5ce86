"""What every test of the repository stands on: helpers are importable as `tests.support`, from any directory.

Deadlines are pytest-timeout's, in pyproject.toml: a test that hangs fails. A test that needs longer says so with
`@pytest.mark.timeout(SECONDS)`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

# A directory has the name of this package: without it in place first, pytest takes that for the package of its tests.
import sandboxd  # noqa: E402, F401
