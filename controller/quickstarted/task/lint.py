"""What is allowed in a task and probably not meant: warnings.

A warning is worth its line only when it is nearly always right, so each looks for the reasons that would make it wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from quickstarted_api.hosts import first_match, matches

from quickstarted.task.commands import called
from quickstarted.task.defaults import registry_hosts
from quickstarted.task.model import DEFAULT_IMAGE, Task
from quickstarted.task.problems import Problem, Severity

NODE_TOOLS = ("npm", "npx", "node", "pnpm", "yarn", "bun")
_NODE_TOOL = re.compile(rf"\b(?:{'|'.join(NODE_TOOLS)})\b")
# A directory of interpreters beside the script: `.venv/bin/python`, `./env/bin/pytest`, not `/usr/bin/env`.
_INTERPRETERS = re.compile(r"(?<![\w./$}~-])(?:\./|\$PWD/)?(\.?(?:[\w-]*venv[\w-]*|env))/bin/")
# Tools that make `.venv` of their own accord.
_MAKES_VENV = re.compile(r"\b(?:uv|poetry|pdm|rye|pipenv|hatch)\b")


def warnings(task: Task) -> list[Problem]:
    """All warnings about a valid task. They are about the whole and have no place in the file."""
    return [
        Problem(task.source, 0, 0, field, message, Severity.WARNING)
        for field, check in _CHECKS.items()
        for message in check(task)
    ]


def _registry_behind_docs(task: Task) -> Iterator[str]:
    """Docs hosts that take a default registry host away from the shell."""
    if task.network.only is not None:
        return
    for docs in task.docs.hosts:
        lost = [
            host
            for host in registry_hosts()
            if matches(host, docs) and first_match(host, task.network.explicit) is None
        ]
        if lost:
            them = "it" if lost == [docs] else _and(lost)
            that = "it" if len(lost) == 1 else "them"
            yield (
                f"{docs} is declared a docs host, so the shell cannot reach {them}; installs that need {that} will "
                f"fail. Add {that} under network.allow if that is intended."
            )


def _docs_in_shell(task: Task) -> Iterator[str]:
    """Docs hosts that the task opens to the shell."""
    for docs in task.docs.hosts:
        for entry in task.network.explicit:
            if matches(docs, entry):
                opened = f"the docs host {docs}"
            elif matches(entry, docs):
                opened = f"a part of the docs host {docs}"
            else:
                continue
            yield (
                f"{entry} under network opens {opened} to the shell; what a command reads there is not on record. The "
                "results note this gap in attribution."
            )


def _wide_entries(task: Task) -> Iterator[str]:
    """Entries of one label, which cover a whole top-level domain."""
    entries = {
        "docs.allow": task.docs.allow,
        "network.allow": task.network.allow,
        "network.only": task.network.only or (),
    }
    for field, hosts in entries.items():
        for host in hosts:
            if "." not in host and host != "localhost":
                yield f"{host} under {field} matches every name that ends in .{host}. List the hosts that are needed."


def _node_without_image(task: Task) -> Iterator[str]:
    """A check that calls Node's tools in an image that has none."""
    script = task.success.script
    if task.image is not None or not _NODE_TOOL.search(script):
        return
    names = set(called(script))
    if tools := [tool for tool in NODE_TOOLS if tool in names]:
        yield (
            f"the success script calls {_and(tools)}, but no image is set and {DEFAULT_IMAGE} has no Node; the check "
            "would fail for a reason that has nothing to do with the documentation. Set an image such as node:22-slim."
        )


def _nobody_makes_interpreters(task: Task) -> Iterator[str]:
    """A check that relies on a virtual environment which no command creates."""
    script = task.success.script
    told = "\n".join((task.goal, *task.setup, *task.replay))
    for directory in dict.fromkeys(found[1] for found in _INTERPRETERS.finditer(script)):
        named = re.compile(rf"(?<!-m )(?<![\w.-]){re.escape(directory)}(?![\w.-])")
        made_by_script = re.compile(rf"{named.pattern}(?!/bin/)|-[a-z] (?:\./)?{re.escape(directory)}/")
        if named.search(told) or made_by_script.search(script):
            continue
        if directory == ".venv" and _MAKES_VENV.search(told):
            continue
        yield (
            f"the success script uses {directory}/bin, but neither setup nor replay creates {directory}, so the check "
            f"fails wherever the agent puts its environment elsewhere. Create {directory} in setup, or ask for it in "
            "the goal."
        )


def _and(words: list[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


_CHECKS: dict[str, Callable[[Task], Iterator[str]]] = {
    "docs": _registry_behind_docs,
    "network": _docs_in_shell,
    "network.allow": _wide_entries,
    "image": _node_without_image,
    "success.script": _nobody_makes_interpreters,
}
