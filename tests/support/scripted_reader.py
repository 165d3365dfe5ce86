"""A model that reads: it does what it finds in the pages it was given, and nothing that it does not find.

A recipe says what a reader looks for, as patterns; the commands and the code themselves come out of the pages, so a
step that is missing from a page stops the reader there, as it stops a person. It speaks Anthropic's wire format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag

from tests.support.model_api import Answer, Request, anthropic_answer

_FENCE = re.compile(r"^(?P<indent> *)```[^\n]*\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<url>[^)\s]+)\)")


@dataclass(frozen=True)
class Read:
    """Read this page (the first one is in the goal)."""

    url: str


@dataclass(frozen=True)
class Follow:
    """Follow the first link of the page read last whose text or address matches."""

    pattern: str


@dataclass(frozen=True)
class Run:
    """Run the line of a code block of the page read last that matches."""

    pattern: str


@dataclass(frozen=True)
class Type:
    """Run what the page says in words, or any developer does unasked."""

    command: str


@dataclass(frozen=True)
class Save:
    """Write the code block that matches to a file: the page says its name (a pattern with a group), or nobody does."""

    pattern: str
    name: str
    append: bool = False


Step = Read | Follow | Run | Type | Save


@dataclass
class ScriptedReader:
    """One conversation. `url` and `page` are what was read last; `found_nothing` tells the step that failed."""

    recipe: Sequence[Step]
    url: str = ""
    page: str = ""
    found_nothing: Step | None = None
    _steps: Iterator[Step] = field(init=False)
    _calls: int = 0

    def __post_init__(self) -> None:
        self._steps = iter(self.recipe)

    def __call__(self, request: Request) -> Answer:
        failed = self._take(request.body["messages"][-1]["content"])
        if failed:
            return self._stop(f"The documentation's step failed at {self.url}: {failed[:300]}")
        step = next(self._steps, None)
        if step is None:
            return self._stop("Done: I did what the pages say.")
        call = self._do(step)
        if call is None:
            self.found_nothing = step
            return self._stop(f"The page {self.url} does not say what I looked for: {step}.")
        self._calls += 1
        name, given = call
        return anthropic_answer(
            [{"type": "tool_use", "id": f"call{self._calls}", "name": name, "input": given}], "tool_use"
        )

    def _take(self, content: list[dict[str, Any]]) -> str:
        """Take a tool's answer in; the text when it failed."""
        for block in content:
            if block["type"] != "tool_result":
                continue
            text = block["content"] if isinstance(block["content"], str) else block["content"][0]["text"]
            if block.get("is_error"):
                return text
            if self._reading:
                self.page, self._reading = text, False
        return ""

    _reading: bool = False

    def _do(self, step: Step) -> tuple[str, dict[str, Any]] | None:
        match step:
            case Read(url):
                return self._read(url)
            case Follow(pattern):
                found = next((link for link in _LINK.finditer(self.page) if re.search(pattern, link[0])), None)
                return None if found is None else self._read(found["url"])
            case Run(pattern):
                command = next((line for line in self._lines() if re.search(pattern, line)), None)
                return None if command is None else ("bash", {"command": command})
            case Type(command):
                return "bash", {"command": command}
            case Save(pattern, name, append):
                code = next((code for code in self._blocks() if re.search(pattern, code)), None)
                file = self._name(name)
                if code is None or file is None:
                    return None
                arrow = ">>" if append else ">"
                return "bash", {"command": f"cat {arrow} {file} <<'END_OF_FILE'\n{code}END_OF_FILE"}

    def _name(self, name: str) -> str | None:
        if "(" not in name:
            return name
        found = re.search(name, self.page)
        return None if found is None else found[1]

    def _read(self, url: str) -> tuple[str, dict[str, Any]]:
        self.url, self._reading = urldefrag(url).url, True
        return "read_docs", {"url": url}

    def _blocks(self) -> Iterator[str]:
        for block in _FENCE.finditer(self.page):
            indent = block["indent"]
            yield "".join(line.removeprefix(indent) for line in block["code"].splitlines(keepends=True))

    def _lines(self) -> Iterator[str]:
        for code in self._blocks():
            for line in code.splitlines():
                yield re.sub(r"^(\$|#) ", "", line)

    @staticmethod
    def _stop(text: str) -> Answer:
        return anthropic_answer([{"type": "text", "text": text}])
