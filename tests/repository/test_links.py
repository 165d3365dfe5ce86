"""Links between the repository's pages lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Inline links; code spans and blocks are taken out first.
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.M | re.S)


def pages() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if name and (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """The fragments that the headings of a page get."""
    headings = re.findall(r"^#+ +(.+?) *$", CODE.sub(lambda found: found[0].strip("`"), page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", pages())
def test_every_relative_link_of_a_page_leads_to_a_file_and_a_heading(name: str) -> None:
    page = ROOT / name
    lost = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            lost.append(link)
    assert lost == []
