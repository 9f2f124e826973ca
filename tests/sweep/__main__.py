"""Sends signals to trainings at random moments and checks what they leave: `python -m tests.sweep --count 200`.

Every case is a training in a process of its own, with the real native profiler. All choices follow from the seed; a
case that fails is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from signal import Signals

from tests.sweep.cases import DELIVERIES, FRAMEWORKS, SIGNALS, batches, case_of
from tests.sweep.execution import Controls, Outcome, run


def main() -> int:
    """Run the cases, print a line for each of them and a table; 1 if one of them failed."""
    given = _arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored here, trainings would ignore, too
    cases = [case_of(given.seed, number) for number in given.only or range(given.count)]
    folder, started = Path(tempfile.mkdtemp(prefix="sweep-")), time.monotonic()
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        controls = Controls.of(cases, folder, pool)
        for future in as_completed([pool.submit(run, batch, controls, folder) for batch in batches(cases)]):
            outcomes += future.result()
            print(*future.result(), sep="\n")
            print(f"{len(outcomes)} of {len(cases)} cases after {time.monotonic() - started:.0f} s", flush=True)
    print(_table(outcomes))
    failed = any(outcome.faults for outcome in outcomes)
    if given.keep or failed:
        print(f"All files are in {folder}")
    else:
        shutil.rmtree(folder)
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", help="the numbers of single cases")
    parser.add_argument("--jobs", type=int, default=2, help="how many trainings at a time")
    parser.add_argument("--keep", action="store_true", help="keep the files of cases that passed, too")
    return parser.parse_args()


def _table(outcomes: Sequence[Outcome]) -> str:
    """Return how many cases passed, by framework, delivery and signal, and what the signals met."""
    lines = ["", f"{'framework':12}{'delivery':12}" + "".join(f"{signal.name:>10}" for signal in SIGNALS)]
    for framework, deliver in itertools.product(FRAMEWORKS, DELIVERIES):
        cells = [_cell(outcomes, (framework, deliver, signal)) for signal in SIGNALS]
        lines.append(f"{framework:12}{deliver:12}" + "".join(f"{cell:>10}" for cell in cells))
    landed = Counter(outcome.ended.last for outcome in outcomes).most_common()
    failed = [outcome for outcome in outcomes if outcome.faults]
    lines += ["", "The last that they reported: " + ", ".join(f"{at} {count}" for at, count in landed)]
    lines += [f"{len(outcomes) - len(failed)} of {len(outcomes)} cases passed"]
    return "\n".join(lines + [f"Repeat: {outcome.case.command}" for outcome in failed])


def _cell(outcomes: Sequence[Outcome], key: tuple[str, str, Signals]) -> str:
    chosen = [o for o in outcomes if (o.case.framework, o.case.deliver, o.case.signal) == key]
    return f"{sum(not outcome.faults for outcome in chosen)}/{len(chosen)}" if chosen else "-"


if __name__ == "__main__":
    sys.exit(main())
