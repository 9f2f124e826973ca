"""The figures of a run as one table: on the terminal, as JSON, and as a page of the documentation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, Group
from benchmarks.machine import Machine

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
COLUMNS = ("module", "figure", "value", "unit", "against", "bound", "", "note")
WIDTH = 180
"""Of the table where it goes into a file."""
COLORS = {"holds": "green", "BROKEN": "red", "FAILED": "red"}


def show(groups: Sequence[Group]) -> None:
    """Print the figures."""
    table = Table(title="unified_profiler benchmarks")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in {"value", "bound"} else "left", overflow="fold")
    for group in groups:
        table.add_section()
        for *cells, verdict, note in _rows(group):
            table.add_row(*cells, f"[{COLORS.get(verdict, 'default')}]{verdict}[/]", note)
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def save(groups: Sequence[Group], machine: Machine, path: Path) -> None:
    """Keep the figures as JSON, with the machine they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {"machine": asdict(machine), "groups": [asdict(group) for group in groups]}
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(groups: Sequence[Group], machine: Machine, page: Path) -> None:
    """Put the figures between the two marks of a page; what is around them stays."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        msg = f"{page.name} must have the lines {BEGIN} and {END}, in this order: the figures go between them."
        raise ValueError(msg)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(groups, machine)}\n{END}{after}", encoding="utf-8")


def markdown(groups: Sequence[Group], machine: Machine) -> str:
    """Return the machine, what came of the run in a sentence, and the table."""
    header = [_line(COLUMNS), _line(["---", "---", "--:", "---", "---", "--:", "---", "---"])]
    rows = [_line(_emphasized(row)) for group in groups for row in _rows(group)]
    return "\n".join([*_facts(machine), "", _outcome(groups), "", *header, *rows, ""])


def _rows(group: Group) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row; the module stands in the first one only."""
    name = group.name
    for figure in group.figures:
        yield (name, *_cells(figure))
        name = ""
    if group.failure is not None:
        yield (name, "the whole module", "", "", "", "", "FAILED", group.failure)


def _cells(figure: Figure) -> tuple[str, ...]:
    value = f"{figure.value:.4g}"
    return figure.name, value, figure.unit, figure.against, figure.bound, figure.verdict, figure.note


def _emphasized(row: Sequence[str]) -> list[str]:
    return [f"**{cell}**" if cell in {"BROKEN", "FAILED"} else cell for cell in row]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _facts(machine: Machine) -> list[str]:
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in machine.versions.items())
    return [
        f"- Measured on {machine.date}, with a load of {machine.load} when the run began",
        f"- {machine.cpu or 'unknown processor'}, {machine.cores} cores, {machine.memory_gb} GB of memory",
        f"- {machine.platform}, Python {machine.python}",
        f"- {versions}",
    ]


def _outcome(groups: Sequence[Group]) -> str:
    bounded = [figure for group in groups for figure in group.figures if figure.bound]
    broken = sum(not figure.holds for figure in bounded)
    failed = sum(group.failure is not None for group in groups)
    return f"Of {len(bounded)} figures with a bound, {broken} break it; of {len(groups)} modules, {failed} failed."
