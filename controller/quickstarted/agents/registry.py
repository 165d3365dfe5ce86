"""The agents by the names that `--agent` takes. A vendor's SDK is imported only when its agent was asked for."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

from quickstarted.agents import keys, prompt
from quickstarted.agents.base import Agent, AgentOutcome, Toolbox
from quickstarted.agents.loop import Loop
from quickstarted.agents.model import Conversation
from quickstarted.agents.replay import ReplayAgent
from quickstarted.task.model import Task

# The module of an agent, the distribution that it needs, and the extra that brings it.
_VENDORS = {
    "claude": ("anthropic", ""),
    "openai": ("openai", "openai"),
    "gemini": ("google.genai", "gemini"),
}
NAMES = ("replay", *_VENDORS, "command")
# What `quickstarted mcp` uses: whoever speaks on standard input.
STDIO = "mcp"


class AgentUnavailableError(Exception):
    """An agent can't be used here: its key or its package is missing. The message says what to do."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the command line says about an agent."""

    model: str | None = None
    base_url: str | None = None
    command: str | None = None
    passed: tuple[str, ...] = ()


def make(name: str, options: AgentOptions, environ: Mapping[str, str]) -> Agent:
    """The agent of that name, for all attempts of a run. Raises AgentUnavailableError."""
    if name == "replay":
        return ReplayAgent()
    if name in ("command", STDIO):
        return _coding_agent(name, options, environ)
    package, extra = _VENDORS[name]
    if not _installed(package):
        raise AgentUnavailableError(f"--agent {name} needs a package: pip install 'quickstarted[{extra}]'")
    try:
        credentials = keys.find(name, environ, options.base_url)
    except keys.KeyMissingError as error:
        raise AgentUnavailableError(str(error)) from None
    return ModelAgent(name, options.model, credentials)


def _coding_agent(name: str, options: AgentOptions, environ: Mapping[str, str]) -> Agent:
    if not _installed("mcp"):
        raise AgentUnavailableError("coding agents need a package: pip install 'quickstarted[mcp]'")
    from quickstarted.agents.command import CommandAgent, CommandError, StdioAgent, split_command

    if name == STDIO:
        return StdioAgent()
    if options.command is None:
        raise AgentUnavailableError("--agent command needs --agent-command, the command that starts the coding agent")
    try:
        return CommandAgent(split_command(options.command), options.passed, environ)
    except CommandError as error:
        raise AgentUnavailableError(str(error)) from None


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


class ModelAgent:
    """A model of a vendor, driven by the loop. Its SDK takes seconds to import: that begins in a thread at once."""

    def __init__(self, name: str, model: str | None, credentials: keys.Credentials) -> None:
        self.name = name
        self._model = model
        self._credentials = credentials
        self._open: Callable[[str], Conversation] | None = None
        threading.Thread(target=_adapter, args=(name,), daemon=True).start()

    def can_run(self, task: Task) -> bool:
        return True

    async def run(self, task: Task, tools: Toolbox) -> AgentOutcome:
        if self._open is None:
            self._open = _opener(await asyncio.to_thread(_adapter, self.name), self._model, self._credentials)
        conversation = keys.Redacting(self._open(prompt.opening(task)), self._credentials.key)
        try:
            return await Loop(conversation, tools).run()
        finally:
            await conversation.close()


def _adapter(name: str) -> ModuleType:
    return importlib.import_module(f"quickstarted.agents.{name}")


def _opener(adapter: ModuleType, model: str | None, given: keys.Credentials) -> Callable[[str], Conversation]:
    """How a conversation with that vendor is opened; every module of a vendor has an `opener`."""
    opener: Callable[[str], Conversation] = adapter.opener(model or adapter.DEFAULT_MODEL, given.key, given.base_url)
    return opener
