"""`python -m fuzz.run TARGET CORPUS [libFuzzer options]`: one target in this process, until its time is over."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import atheris

PARSERS = ["sandboxd.egress", "quickstarted_api.hosts"]


def main() -> None:
    target, corpus, *options = sys.argv[1:]
    with atheris.instrument_imports(include=PARSERS):
        module = importlib.import_module(f"fuzz.{target}")
    for number, seed in enumerate(module.SEEDS):
        (Path(corpus) / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], corpus, *options], module.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
