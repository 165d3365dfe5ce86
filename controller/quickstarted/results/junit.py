"""JUnit XML for CI systems: a gap is a failure, a skipped attempt is skipped, and what gave no evidence is an error."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from quickstarted.classify import Classification
from quickstarted.results.model import AttemptResult, RunResult
from quickstarted.results.record import replace

# XML 1.0 holds no control characters but these three, whatever the escaping (section 2.2).
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(result: RunResult, path: Path) -> None:
    """Write a JUnit file. Raises RecordsError."""
    replace(path, to_xml(result))


def to_xml(result: RunResult) -> str:
    root = ElementTree.Element("testsuites", name="quickstarted")
    for task in result.tasks:
        suite = ElementTree.SubElement(root, "testsuite", name=task.task)
        for one in task.attempts:
            _case(suite, one)
        suite.set("tests", str(len(task.attempts)))
        for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("time", f"{sum(one.seconds for one in task.attempts):.3f}")
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, one: AttemptResult) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"quickstarted.{one.agent}",
        name=f"{one.task} #{one.attempt}",
        time=f"{one.seconds:.3f}",
    )
    if one.passed:
        return
    tag = {Classification.DOCS_GAP: "failure", Classification.SKIPPED: "skipped"}.get(one.classification, "error")
    problem = ElementTree.SubElement(case, tag, type=one.classification.value, message=_clean(one.why))
    details = [one.stop_detail, one.failed_command or "", one.check.output if one.check else ""]
    problem.text = _clean("\n".join(part for part in details if part))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
