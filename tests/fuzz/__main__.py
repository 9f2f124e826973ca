"""`python -m tests.fuzz`: reads many cases of every format, and fails if one of them leads to a finding."""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.cases import make
from tests.fuzz.outcomes import OK, TYPED, Room, prepare_process
from tests.fuzz.seeds import FORMATS
from tests.fuzz.trees import write
from tests.fuzz.workers import judged

FINDINGS = "findings"
_SHOWN, _EVERY = 5, 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one; may be given several times")
    parser.add_argument("--count", type=int, default=1000, help="how many cases of each format")
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many processes read")
    parser.add_argument("--number", type=int, help="one case alone, in this process, with all that is known about it")
    parser.add_argument("--keep", type=Path, help="with --number: write the files of the case to this directory")
    given = parser.parse_args(arguments)
    if given.number is not None:
        return _show(given.format or FORMATS, given.number, given.keep)
    return _fuzz(given.format or FORMATS, range(given.first, given.first + given.count), given.workers)


def _show(names: Sequence[str], number: int, keep: Path | None) -> int:
    faulthandler.enable()
    bad = 0
    for name in names:
        case = make(name, number)
        print(f"{name} {number}: {'; '.join(case.done)}", flush=True)
        if keep is not None:
            write(case.tree, keep / f"{name}-{number}")
        with tempfile.TemporaryDirectory() as folder:
            room = Room(Path(folder, "room"))
            prepare_process()
            outcome = room.judge(name, number)
        print(f"{outcome.kind}: {outcome.text}\n{outcome.details}")
        bad += outcome.kind not in {OK, TYPED}
    return int(bad > 0)


def _fuzz(names: Sequence[str], numbers: range, workers: int) -> int:
    counts = Counter[tuple[str, str]]()
    seconds: dict[str, float] = defaultdict(float)
    findings: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    tasks = ((name, number) for name in names for number in numbers)
    for done, ((name, number), outcome) in enumerate(judged(tasks, workers=workers), start=1):
        kind = outcome.kind if outcome.kind in {OK, TYPED} else FINDINGS
        counts[name, kind] += 1
        seconds[name] += outcome.seconds
        if kind == FINDINGS:
            findings[name, outcome.kind, outcome.text].append(number)
        if done % _EVERY == 0:
            print(
                f"{name}: {done} of {len(names) * len(numbers)}, findings {len(findings)}", file=sys.stderr, flush=True
            )
    print(f"{'format':<14}{OK:>8}{TYPED:>8}{FINDINGS:>10}{'seconds':>9}")
    for name in names:
        numbers_of = "".join(f"{counts[name, kind]:>{width}}" for kind, width in ((OK, 8), (TYPED, 8), (FINDINGS, 10)))
        print(f"{name:<14}{numbers_of}{seconds[name]:>9.0f}")
    for (name, kind, text), found in sorted(findings.items(), key=lambda item: -len(item[1])):
        print(f"\n{name}: {kind}: {text} ({len(found)} times)")
        for number in sorted(found)[:_SHOWN]:
            print(f"    python -m tests.fuzz --format {name} --number {number}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
