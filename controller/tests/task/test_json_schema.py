"""The JSON Schema that editors get says the same as the schema that decides."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import quickstarted.task
import yaml
from quickstarted.task import schema
from quickstarted.task.load import load_suite
from quickstarted.task.model import DEFAULT_IMAGE, Budgets
from voluptuous import Required

TEXT = Path(quickstarted.task.__path__[0], "schema.json").read_text("utf-8")
JSON = json.loads(TEXT)
CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text("utf-8"))
MAPPINGS: dict[str, dict[Any, Any]] = {
    "docs": schema.DOCS,
    "network": schema.NETWORK,
    "success": schema.SUCCESS,
    "budgets": schema.BUDGETS,
}


def fields(mapping: dict[Any, Any]) -> tuple[set[str], set[str]]:
    """All keys, and those that are required."""
    return set(map(str, mapping)), {str(key) for key in mapping if isinstance(key, Required)}


def described(mapping: dict[str, Any]) -> tuple[set[str], set[str]]:
    return set(mapping["properties"]), set(mapping.get("required", ()))


def test_the_keys_are_the_same() -> None:
    assert described(JSON) == fields(schema.TASK)


@pytest.mark.parametrize("name", MAPPINGS)
def test_the_keys_of_a_mapping_are_the_same(name: str) -> None:
    assert described(JSON["properties"][name]) == fields(MAPPINGS[name])


def test_unknown_keys_are_refused_in_the_same_mappings() -> None:
    lenient = {path[0] if path else "" for path, _ in schema.LENIENT}
    open_mappings = {name for name in MAPPINGS if JSON["properties"][name].get("additionalProperties", True)}
    assert open_mappings | ({""} if JSON.get("additionalProperties", True) else set()) == lenient


def test_the_defaults_are_the_model_s() -> None:
    budgets = JSON["properties"]["budgets"]["properties"]
    assert {name: value["default"] for name, value in budgets.items()} == dataclasses.asdict(Budgets())
    assert {value["maximum"] for value in budgets.values()} == {schema.MAX_INTEGER}
    assert JSON["properties"]["image"]["default"] == DEFAULT_IMAGE


def holds(value: Any, rule: dict[str, Any]) -> bool:
    """The keywords of JSON Schema that the file uses."""
    rule = {**rule, **(JSON["$defs"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else {})}
    types = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
    names = rule.get("type", list(types))
    if not isinstance(value, tuple(types[name] for name in ([names] if isinstance(names, str) else names))):
        return False
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return re.search(rule.get("pattern", ""), value) is not None
    if isinstance(value, int):
        return bool(rule.get("minimum", value) <= value <= rule.get("maximum", value))
    if isinstance(value, list):
        unique = not rule.get("uniqueItems") or len(set(value)) == len(value)
        return unique and len(value) >= rule.get("minItems", 0) and all(holds(item, rule["items"]) for item in value)
    if isinstance(value, dict):
        known = rule.get("properties", {})
        return (
            all(key in value for key in rule.get("required", ()))
            and (rule.get("additionalProperties", True) or value.keys() <= known.keys())
            and all(holds(value[key], known[key]) for key in value if key in known)
            and ("oneOf" not in rule or sum(holds(value, one) for one in rule["oneOf"]) == 1)
        )
    return True


# What JSON Schema can't say, or a pattern would say too obscurely.
NOT_SEEN = {"allow-ip"}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_is_judged_alike(case: dict[str, Any], tmp_path: Path) -> None:
    try:
        value = yaml.safe_load(case["task"])
    except yaml.YAMLError:
        return  # an editor sees that by itself
    file = tmp_path / "task.yaml"
    file.write_bytes(case["task"].encode())
    expected = not load_suite([str(file)]).errors or case["id"] in NOT_SEEN | {"two-documents", "duplicate-key"}
    assert holds(value, JSON) is expected
