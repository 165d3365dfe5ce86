"""The reference pages of the records, written from their schemas: `python -m quickstarted.results.reference DIR`.

The schemas are the only place where a field is described; a test compares the pages with what this writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

_TRACE_INTRO = """\
# Traces

Every attempt writes `RESULTS/TASK/attempt-N/trace.jsonl`: one JSON object a line, each written before the next thing
happens, so that a run that was killed leaves all that it saw. The success script is in no trace.

This page is written from
[`trace.schema.json`](../../controller/quickstarted/results/trace.schema.json), which tests hold against real traces.
"""
_RESULTS_INTRO = """\
# results.json

What a run found, for programs. It is replaced as a whole after every attempt; attempts that were cut off are not in it.

This page is written from
[`results.schema.json`](../../controller/quickstarted/results/results.schema.json), which tests hold against real files.
"""


def load(name: str) -> Schema:
    """A schema by its name: `trace` or `results`."""
    schema: Schema = json.loads(Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8"))
    return schema


def trace_page(schema: Schema) -> str:
    parts = [_TRACE_INTRO, schema["description"], "", "## Every event", "", *_table(schema, schema)]
    for reference in schema["oneOf"]:
        node = _resolve(reference, schema)
        event = node["properties"]["event"]
        names = [event["const"]] if "const" in event else event["enum"]
        parts += ["", f"## {', '.join(names)}", "", node["description"], "", *_table(node, schema)]
    return _joined(parts)


def results_page(schema: Schema) -> str:
    parts = [_RESULTS_INTRO, schema["description"], "", "## The file", "", *_table(schema, schema)]
    for name in ("task", "run", "host", "tokens"):
        node = schema["$defs"][name]
        parts += [
            "",
            f"## {name}",
            "",
            *([node["description"], ""] if "description" in node else []),
            *_table(node, schema),
        ]
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return "\n".join(parts).rstrip() + "\n"


def _table(node: Schema, root: Schema) -> Iterator[str]:
    rows = list(_rows(node, root))
    if not rows:
        return
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    yield from rows


def _rows(node: Schema, root: Schema, prefix: str = "") -> Iterator[str]:
    for part in (*node.get("allOf", ()), *(node[key] for key in ("then", "else") if key in node)):
        yield from _rows(_resolve(part, root), root, prefix)
    for name, field in node.get("properties", {}).items():
        if name == "event" and prefix == "" and node is not root:
            continue
        resolved = {**_resolve(field, root), **{key: field[key] for key in ("description",) if key in field}}
        yield f"| `{prefix}{name}` | {_type(field, root)} | {resolved.get('description', '')} |"
        if "$ref" not in field:
            inner = next((one for one in resolved.get("anyOf", ()) if "properties" in one), resolved)
            if "properties" in inner:
                yield from _rows(inner, root, f"{prefix}{name}.")


def _type(field: Schema, root: Schema) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        target = _resolve(field, root)
        return _type(target, root) if "properties" not in target else name
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(one).strip(chr(34))}`" for one in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(one, root) for one in field["anyOf"])
    kinds = field.get("type", "any")
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        return f"list of {_type(field['items'], root)}" + (" or null" if isinstance(kinds, list) else "")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _resolve(node: Schema, root: Schema) -> Schema:
    if "$ref" not in node:
        return node
    target: Schema = root["$defs"][node["$ref"].rpartition("/")[2]]
    return target


PAGES: dict[str, Callable[[], str]] = {
    "trace.md": lambda: trace_page(load("trace")),
    "results.md": lambda: results_page(load("results")),
}

if __name__ == "__main__":
    for file_name, page in PAGES.items():
        (Path(sys.argv[1]) / file_name).write_text(page(), encoding="utf-8")
