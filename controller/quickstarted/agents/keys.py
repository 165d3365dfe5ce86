"""Where the vendors' keys come from. They exist in the controller only: no log, event, error or child has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quickstarted.agents.model import Conversation, ModelFaultError, Reply, ToolOutput


class KeyMissingError(Exception):
    """No key was found; the message names the variables that would have been read."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key, which never shows in a representation, and where the API is when it is not at its vendor."""

    key: str = field(repr=False)
    base_url: str | None = None


# Ours first, so that a key for tests of documentation can differ from the one that a shell has for other tools.
KEY_VARIABLES = {
    "claude": ("QUICKSTARTED_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
    "openai": ("QUICKSTARTED_OPENAI_API_KEY", "OPENAI_API_KEY"),
    "gemini": ("QUICKSTARTED_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
URL_VARIABLES = {
    "claude": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}


class Redacting:
    """A conversation whose errors never tell the key, whatever the API's error texts repeat."""

    def __init__(self, conversation: Conversation, secret: str) -> None:
        self._inner = conversation
        self._secret = secret

    async def reply(self) -> Reply:
        try:
            return await self._inner.reply()
        except ModelFaultError as fault:
            fault.message = fault.message.replace(self._secret, "[key]")
            fault.args = (fault.message,)
            raise

    def answer(self, outputs: Sequence[ToolOutput]) -> None:
        self._inner.answer(outputs)

    def say(self, text: str) -> None:
        self._inner.say(text)

    async def close(self) -> None:
        await self._inner.close()


def find(agent: str, environ: Mapping[str, str], base_url: str | None = None) -> Credentials:
    """The credentials of an agent. `base_url` is the operator's flag. Raises KeyMissingError."""
    for name in KEY_VARIABLES[agent]:
        key = environ.get(name, "").strip()
        if key:
            return Credentials(key, base_url or environ.get(URL_VARIABLES[agent]) or None)
    first, *others = KEY_VARIABLES[agent]
    raise KeyMissingError(f"--agent {agent} needs a key: set {first} (or {' or '.join(others)})")
