"""`python -m tests.fuzz`: reads many cases of every format, and fails if one of them leads to a finding."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.cases import make
from tests.fuzz.outcomes import OK, TYPED, Room, prepare_process
from tests.fuzz.seeds import FORMATS
from tests.fuzz.trees import write
from tests.fuzz.workers import judged

_SHOWN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one; may be given several times")
    parser.add_argument("--count", type=int, default=1000, help="how many cases of each format")
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--workers", type=int, default=2, help="how many processes read")
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
    lines = [f"{'format':<14}{'ok':>8}{'typed':>8}{'findings':>10}{'seconds':>9}"]
    findings: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for name in names:
        counts, begun = Counter[str](), time.monotonic()
        for (_, number), outcome in judged(((name, number) for number in numbers), workers=workers):
            kind = outcome.kind if outcome.kind in {OK, TYPED} else "findings"
            counts[kind] += 1
            if kind == "findings":
                findings[name, outcome.kind, outcome.text].append(number)
            if counts.total() % 500 == 0:
                _progress(name, counts, len(numbers))
        _progress(name, counts, len(numbers), end="\n")
        seconds = time.monotonic() - begun
        lines.append(f"{name:<14}{counts[OK]:>8}{counts[TYPED]:>8}{counts['findings']:>10}{seconds:>9.0f}")
    print("\n".join(lines))
    for (name, kind, text), found in sorted(findings.items(), key=lambda item: -len(item[1])):
        print(f"\n{name}: {kind}: {text} ({len(found)} times)")
        for number in sorted(found)[:_SHOWN]:
            print(f"    python -m tests.fuzz --format {name} --number {number}")
    return int(bool(findings))


def _progress(name: str, counts: Counter[str], of: int, *, end: str = "\r") -> None:
    text = f"{name}: {counts.total()} of {of}, ok {counts[OK]}, typed {counts[TYPED]}, findings {counts['findings']}"
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
