"""`python -m bench [--only NAME]…`: measure against the bars, print a line for each, exit with 1 when one is missed."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys

from bench.bars import BARS
from bench.measure import Bar, Result, measure


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [bar.name for bar in BARS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, metavar="N", help="samples of each bar, at least 2")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 2:
        parser.error("--rounds: at least 2 samples are needed for a spread")

    print(f"{'bar':<20} {'limit':>7} {'ratio':>7}  {'middle half':<13} {'reference':>10} {'ours':>10}")
    missed = []
    for bar in BARS:
        if options.only and bar.name not in options.only:
            continue
        chosen = dataclasses.replace(bar, rounds=options.rounds or bar.rounds)
        try:
            result = asyncio.run(measure(chosen))
        except Exception as error:  # noqa: BLE001 - one that can't be measured must not hide the others
            print(f"{bar.name:<20} can't be measured: {type(error).__name__}: {error}", flush=True)
            missed.append(bar)
            continue
        print(line(bar, result), flush=True)
        if not result.met:
            missed.append(bar)
    for bar in missed:
        print(f"missed: {bar.name}: {bar.promise}", file=sys.stderr)
    return 1 if missed else 0


def line(bar: Bar, result: Result) -> str:
    """One line of the table."""
    limit = f"{'≥' if bar.rate else '≤'} {bar.limit:.2f}"
    spread = f"{result.low:.2f} - {result.high:.2f}"
    verdict = "" if result.met else "  missed"
    return (
        f"{bar.name:<20} {limit:>7} {result.ratio:>7.2f}  {spread:<13} "
        f"{amount(result.reference, bar.unit):>10} {amount(result.candidate, bar.unit):>10}{verdict}"
    )


def amount(value: float, unit: str) -> str:
    """A number of this unit, or seconds, as a person reads it."""
    return f"{value:.0f} {unit}" if unit else duration(value)


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
