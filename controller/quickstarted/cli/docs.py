"""The flags about documentation, and the reader that they make. httpx is imported only when an agent may read."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quickstarted.toolbox import OpenDocs


@dataclass(frozen=True, slots=True)
class Docs:
    """How documentation is read in a run: `open` for as long as the run lasts, and what results say of it."""

    open: Callable[[], AbstractAsyncContextManager[OpenDocs]]
    docs_map: dict[str, str] = field(default_factory=dict)
    probe: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the documentation, for agents that read it")
    group.add_argument(
        "--docs-snapshot", type=Path, metavar="DIR", help="keep what is read, and read it from there again"
    )
    group.add_argument("--offline", action="store_true", help="read nothing but the snapshot")
    group.add_argument("--refresh", action="store_true", help="ask for what the snapshot holds, and tell what changed")
    group.add_argument(
        "--docs-map",
        action="append",
        default=[],
        metavar="HOST=URL|DIR",
        help="serve a documentation host from a preview or a directory of built HTML; repeatable",
    )
    group.add_argument(
        "--affordances", choices=("all", "none"), default="all", help="none withholds llms.txt and Markdown variants"
    )
    group.add_argument("--probe-affordances", action="store_true", help="record which of them the site has")
    group.add_argument(
        "--rate-limit", type=float, default=1.0, metavar="SECONDS", help="between two requests to a host (default: 1)"
    )
    group.add_argument("--ignore-robots", action="store_true", help="read pages that robots.txt forbids to programs")


def docs_of(args: argparse.Namespace) -> Docs:
    """What the flags say. Raises ValueError with a message for people."""
    if args.agent == "replay":
        return Docs(_nothing)
    from quickstarted.docs.docs_map import DocsMap, DocsMapError
    from quickstarted.docs.source import DocsOptions

    try:
        docs_map = DocsMap.parse(args.docs_map)
    except DocsMapError as error:
        raise ValueError(f"--docs-map: {error}") from None
    options = DocsOptions(
        snapshot=args.docs_snapshot,
        offline=args.offline,
        refresh=args.refresh,
        ignore_robots=args.ignore_robots,
        seconds_between=args.rate_limit,
        affordances=args.affordances,
        docs_map=docs_map,
    )

    @contextlib.asynccontextmanager
    async def reading() -> AsyncIterator[OpenDocs]:
        from quickstarted.docs.reader import DocsReader
        from quickstarted.docs.source import DocsSource

        async with DocsSource(options) as source:
            yield lambda docs, record: DocsReader(docs, source, record)

    return Docs(reading, docs_map.as_record(), args.probe_affordances)


@contextlib.asynccontextmanager
async def _nothing() -> AsyncIterator[OpenDocs]:
    from quickstarted.toolbox import NoDocs

    yield NoDocs
