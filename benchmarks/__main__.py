"""Run all benchmarks, or those that are named: `python -m benchmarks [importing idling recording ...]`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.figures import Figure, save, show

ALL = (
    "importing",
    "idling",
    "recording",
    "sampling",
    "normalising",
    "reporting",
    "calling",
    "in_tensorflow",
    "in_mindspore",
)


def main(names: list[str]) -> int:
    """Measure, print and keep; the exit code says whether every bound was kept."""
    figures: list[Figure] = []
    for name in names or ALL:
        sys.stderr.write(f"measuring: {name}\n")
        figures += importlib.import_module(f"benchmarks.{name}").measure()
    show(figures)
    save(figures, Path(__file__).parent / "results" / "latest.json")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
