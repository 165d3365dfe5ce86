"""The prompt and the two tools, the same for every agent. Change `VERSION` with every change of the text.

The text's hash is in every result: a rate is not comparable across prompts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from quickstarted.task.model import Task

VERSION = "1"

SYSTEM = """\
You are a developer who tries a project for the first time. You have a goal, the project's documentation, and a \
fresh Linux workspace. You do what the documentation tells a reader to do, and nothing that you would only know from \
elsewhere: the question is whether the documentation is enough.

Two tools:
- read_docs reads a page of the documentation. It is the only way to the documentation; the shell can't reach it. \
Follow the links that you find in the pages. Long pages come in parts: the answer says how to get the next one.
- bash runs a command in the workspace. The current directory and exported variables stay from one command to the \
next. Commands have no terminal and no input: answer prompts with options, and start servers in the background with \
their output in a file.

The shell reaches package registries, and little else. When a host is refused, the answer says what to do instead.

Rules:
1. Your only source about the project is its documentation. Read before you act. Where it contradicts what you \
remember, the documentation is right.
2. Work in the current directory. Do not weaken, skip or fake what the goal asks for.
3. When a step of the documentation fails, look for the answer in the documentation first. You may correct what any \
developer would correct without help, such as a missing directory.
4. Stop as soon as the goal is reached, or when the documentation can't lead you there. Then answer without a tool: \
say in a few sentences what you did; when the documentation failed, name the page and the step, and what was \
missing or wrong.
"""

BASH = "bash"
READ_DOCS = "read_docs"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the vendors' APIs take it: a name, a description, a JSON Schema of its input."""

    name: str
    description: str
    schema: Mapping[str, object]


TOOLS = (
    Tool(
        BASH,
        "Run a shell command in the workspace and get its output (standard output and standard error together) and "
        "its exit code. Directory and exported variables persist. There is no terminal and no standard input.",
        {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command, one line or several."}},
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
    Tool(
        READ_DOCS,
        "Read a page of the project's documentation as Markdown. A long page comes in parts.",
        {
            "type": "object",
            "properties": {
                "url": {
                    "type": "string",
                    "description": "The page's address; relative to the page read last, if it has no host.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Where to go on in a long page, as the previous part said. 0 is the start.",
                },
            },
            "required": ["url"],
            "additionalProperties": False,
        },
    ),
)


def opening(task: Task) -> str:
    """The first message: the goal, where the documentation starts, and what has been done already."""
    lines = [f"Goal: {task.goal.strip()}", "", "Documentation, in the order in which a reader meets it:"]
    lines += [f"- {url}" for url in task.docs.path]
    if task.setup:
        lines += ["", "Already run in the workspace, successfully:"]
        lines += [_indented(command) for command in task.setup]
    return "\n".join(lines)


def prompt_hash() -> str:
    """The first 16 hexadecimal digits of the SHA-256 of everything here that a model sees and no task changes."""
    tools = [[tool.name, tool.description, tool.schema] for tool in TOOLS]
    text = json.dumps([VERSION, SYSTEM, tools], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _indented(command: str) -> str:
    return "\n".join(f"    {line}" for line in command.rstrip().splitlines())
