"""`python -m fuzz [--seconds 60] [TARGET ...]`: each target for so long, as many at a time as there are processors.

Ends with 1 when an input broke a promise; the input is kept, and its path and a way to run it again are printed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TARGETS = ("http1", "framing", "client_hello", "dns", "target")
_MARGIN = 60  # seconds that a target may need to start, and to end when its time is over


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="how long each runs")
    parser.add_argument("--again", type=Path, metavar="FILE", help="run one input through one target, and nothing else")
    options = parser.parse_args()
    targets = options.targets or TARGETS
    if unknown := set(targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if options.again is not None:
        for target in targets:
            importlib.import_module(f"fuzz.{target}").one(options.again.read_bytes())
        return 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return max(pool.map(lambda target: _fuzz(target, options.seconds), targets))


def _fuzz(target: str, seconds: int) -> int:
    """Run one target in a process of its own, which atheris needs; 0 when every input kept the promises."""
    kept = Path(tempfile.mkdtemp(prefix=f"fuzz-{target}-"))
    corpus = kept / "corpus"
    corpus.mkdir()
    command = [sys.executable, "-m", "fuzz.run", target, str(corpus), f"-max_total_time={seconds}"]
    command += [f"-artifact_prefix={kept}/", "-print_final_stats=1", "-timeout=10", "-rss_limit_mb=1024"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + _MARGIN, check=False)
        code, output = done.returncode, done.stderr + done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = 1, f"{error}\n"
    found = sorted(path for path in kept.iterdir() if path.is_file())
    if code == 0 and not found:
        runs = next((line.split()[-1] for line in output.splitlines() if "number_of_executed_units" in line), "0")
        print(f"{target}: {runs} inputs, {sum(1 for _ in corpus.iterdir())} kept for their coverage", flush=True)
        shutil.rmtree(kept)
        return 0
    print(output[-4000:], f"{target}: a promise was broken (exit code {code}).", sep="\n", flush=True)
    for path in found:
        print(f"  {sys.executable} -m fuzz {target} --again {path}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
