"""A task as the rest of the controller sees it: validated, immutable, with every default filled in.

Field names, defaults and meanings are the task specification's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

DEFAULT_IMAGE = "python:3.12-slim"


@dataclass(frozen=True, slots=True)
class Docs:
    """Where the documentation lives. `path` holds the pages in a reader's order: one when `entrypoint` was given."""

    path: tuple[str, ...]
    allow: tuple[str, ...] = ()

    @property
    def entrypoint(self) -> str:
        return self.path[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The docs allowlist: the hosts of the pages, then `allow`; canonical, each once."""
        own = (urlsplit(url).hostname or "" for url in self.path)
        return tuple(dict.fromkeys((*own, *self.allow)))


@dataclass(frozen=True, slots=True)
class Network:
    """Hosts that the shell may reach. `only`, when given, replaces the default registry list."""

    allow: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None

    @property
    def explicit(self) -> tuple[str, ...]:
        """Hosts that the task itself names; they beat the documentation rule."""
        return tuple(dict.fromkeys((*self.allow, *(self.only or ()))))


@dataclass(frozen=True, slots=True)
class Success:
    """The script whose exit code is the verdict. No model ever sees it."""

    script: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits on the agent phase. Seconds, characters and tokens; `max_tokens` 0 is unlimited."""

    max_turns: int = 20
    max_seconds: int = 900
    max_command_seconds: int = 300
    max_output_chars: int = 20_000
    max_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One task file. `image` is what the file says; precedence over `--image` and the default is the run's."""

    name: str
    goal: str
    docs: Docs
    success: Success
    setup: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()
    network: Network = Network()
    budgets: Budgets = Budgets()
    image: str | None = None
    source: str = ""  # the path of the file, as it was named

    @property
    def modes(self) -> str:
        """What can run it: `replay+agent`, or `agent-only` without replay commands."""
        return "replay+agent" if self.replay else "agent-only"
