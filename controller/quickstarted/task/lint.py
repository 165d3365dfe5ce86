"""What is allowed in a task and probably not meant: warnings.

A warning is worth its line only when it is nearly always right, so each looks for the reasons that would make it wrong.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from quickstarted_api.hosts import first_match, matches

from quickstarted.task.commands import called
from quickstarted.task.defaults import registry_hosts
from quickstarted.task.model import DEFAULT_IMAGE, Task
from quickstarted.task.problems import Problem, Severity

NODE_TOOLS = ("npm", "npx", "node", "pnpm", "yarn", "bun")
# What stands in front of `/bin/` when it is a directory of interpreters in the workspace: `.venv`, `./env`.
_ENVIRONMENT = re.compile(r"(?:\A|[^\w./$}~-])(?:\./|\$PWD/)?(\.?(?:[\w-]*venv[\w-]*|env))\Z")
# Tools that make `.venv` of their own accord.
_MAKES_VENV = re.compile(r"\b(?:uv|poetry|pdm|rye|pipenv|hatch)\b")
_IN_WORD = re.compile(r"[\w.-]")
_TESTS = ("-d", "-e", "-f", "-x")  # a script that looks whether it is there knows what to do if not


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
        behind = _registry_behind().get(docs, ())
        if lost := [host for host in behind if first_match(host, task.network.explicit) is None]:
            them = "it" if lost == [docs] else _and(lost)
            that = "it" if len(lost) == 1 else "them"
            yield (
                f"{docs} is declared a docs host, so the shell cannot reach {them}; installs that need {that} will "
                f"fail. Add {that} under network.allow if that is intended."
            )


@functools.cache
def _registry_behind() -> dict[str, list[str]]:
    """The default registry hosts that an entry matches, for every entry that matches one."""
    behind: dict[str, list[str]] = {}
    for host in registry_hosts():
        labels = host.split(".")
        for first in range(len(labels)):
            behind.setdefault(".".join(labels[first:]), []).append(host)
    return behind


def _docs_in_shell(task: Task) -> Iterator[str]:
    """Docs hosts that the task opens to the shell."""
    explicit = task.network.explicit
    for docs in task.docs.hosts if explicit else ():
        for entry in explicit:
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
    if task.image is not None or not any(tool in script for tool in NODE_TOOLS):
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
    fronts = {front.rpartition(" ")[2] for front in script.split("/bin/")[:-1]}
    used = map(_ENVIRONMENT.search, sorted(fronts))
    told = (task.goal, *task.setup, *task.replay)
    for directory in dict.fromkeys(found[1] for found in used if found):
        if any(_names(directory, text) for text in told) or _names(directory, script.replace(f"{directory}/bin/", "")):
            continue
        if any(f"{test} {directory}/" in script for test in _TESTS):
            continue
        if directory == ".venv" and any(map(_MAKES_VENV.search, told)):
            continue
        yield (
            f"the success script uses {directory}/bin, but neither setup nor replay creates {directory}, so the check "
            f"fails wherever the agent puts its environment elsewhere. Create {directory} in setup, or ask for it in "
            "the goal."
        )


def _names(directory: str, text: str) -> bool:
    """Whether a text names a directory: as a word of its own, and not as Python's module of that name."""
    at = text.find(directory)
    while at >= 0:
        end = at + len(directory)
        inside = _IN_WORD.match(text[at - 1 : at]) or _IN_WORD.match(text[end : end + 1].replace(".", " "))
        if not inside and text[max(at - 3, 0) : at] != "-m ":
            return True
        at = text.find(directory, end)
    return False


def _and(words: list[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


_CHECKS: dict[str, Callable[[Task], Iterator[str]]] = {
    "docs": _registry_behind_docs,
    "network": _docs_in_shell,
    "network.allow": _wide_entries,
    "image": _node_without_image,
    "success.script": _nobody_makes_interpreters,
}
