"""Run all benchmarks, or those that are named: `python -m benchmarks [importing idling recording ...]`.

A run of all of them also renews the table in the documentation.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from pathlib import Path

from benchmarks.figures import Group
from benchmarks.machine import this_machine
from benchmarks.tables import save, show, write_page

ALL = (
    "importing",
    "starting",
    "idling",
    "recording",
    "sampling",
    "normalizing",
    "pausing",
    "soaking",
    "reporting",
    "exporting",
    "comparing",
    "many_ranks",
    "devices",
    "device_fleet",
    "gating",
    "calling",
    "what_if",
    "in_tensorflow",
    "in_mindspore",
)
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"


def main(names: list[str]) -> int:
    """Measure, print and keep; the exit code says whether every module came to its end and every bound was kept."""
    machine = this_machine()
    groups = [_measured(name) for name in names or ALL]
    show(groups)
    save(groups, machine, RESULTS)
    if {group.name for group in groups} == set(ALL):
        write_page(groups, machine, PAGE)
    return 0 if all(group.holds for group in groups) else 1


def _measured(name: str) -> Group:
    """Run a module; one that raises leaves the others alone."""
    sys.stderr.write(f"measuring: {name} ...\n")
    start = time.monotonic()
    try:
        figures = tuple(importlib.import_module(f"benchmarks.{name}").measure())
    except Exception as error:  # noqa: BLE001  whatever it is, it goes into the table
        traceback.print_exc()
        return Group(name=name, failure=type(error).__name__)  # its text may tell where this machine keeps its files
    sys.stderr.write(f"measuring: {name} took {time.monotonic() - start:.0f} s\n")
    return Group(name=name, figures=figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
