"""What holds for every file that git tracks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGISTRY_HOSTS = "controller/quickstarted/task/registry_hosts.txt"


def tracked() -> Iterator[tuple[str, str]]:
    """Name and text of each file that is tracked, or would be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        path = ROOT / name
        if name and path.is_file():
            yield name, path.read_bytes().decode("utf-8", "replace")


def test_registry_hosts_are_named_in_one_file() -> None:
    lines = (ROOT / REGISTRY_HOSTS).read_text().splitlines()
    hosts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    assert len(hosts) > 10
    others = ((name, text.lower()) for name, text in tracked() if name != REGISTRY_HOSTS)
    assert {(name, host) for name, text in others for host in hosts if host in text} == set()


def test_no_file_names_a_place_of_the_machine_that_it_was_written_on() -> None:
    here = {str(ROOT), sys.prefix, sys.base_prefix, str(Path.home())} - {"/usr", "/usr/local", "/root", "/"}
    # Homes that stand for anybody's. /home/sandbox is a sandbox's own.
    home = re.compile(r"/(?:home|Users)/(?!sandbox\b|user\b|you\b|\$|\{|<)[A-Za-z0-9]+/")
    found = {
        (name, place)
        for name, text in tracked()
        for place in [*(place for place in here if place in text), *home.findall(text)]
    }
    assert found == set()
