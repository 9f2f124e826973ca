"""Draws figures from the code itself, as SVG: the phases of a schedule, the layers of packages, the flow of data."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

import unified_profiler as up
from examples.pictures.runs import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INK, LINE, PAPER = "#1c2430", "#8a94a3", "#ffffff"
GRAY, ORANGE, BLUE, GREEN = "#9ca3b1", "#e0a030", "#3a6ea8", "#4c8f6b"
PALE = "#eef2f7"
PHASES = {
    up.Phase.IDLE: (GRAY, "not recorded"),
    up.Phase.WARMUP: (ORANGE, "warm-up"),
    up.Phase.RECORD: (BLUE, "recorded"),
}


class Drawing:
    """An SVG image, from which texts and shapes are written in their order."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """Begin an image with a background, so that it can be read on dark pages, too."""
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        font = 'font-family="system-ui, sans-serif" font-size="13"'
        marker = 'id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"'
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img"><title>{escape(title)}</title>',
            f'<defs><marker {marker}><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>',
        ]
        self.box(0, 0, width, height, fill=PAPER, radius=0)

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str, line: str = "none", radius: int = 4
    ) -> None:
        """Draw a rectangle."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{fill}" stroke="{line}"/>'
        )

    def text(self, x: float, y: float, text: str, *, color: str = INK, anchor: str = "middle", **style: str) -> None:
        """Write a text; its anchor is its start, middle or end."""
        attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
        self._parts.append(
            f'<text x="{x}" y="{y}" fill="{color}" text-anchor="{anchor}"{attributes}>{escape(text)}</text>'
        )

    def line(self, *points: tuple[float, float], arrow: bool = False) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"{end}/>')

    def finished(self) -> bytes:
        """Return the image as a file."""
        return "\n".join([*self._parts, "</svg>\n"]).encode()


def schedule() -> bytes:
    """Draw the phase of each step of the schedule in the tutorial."""
    counts = {"wait": 1, "warmup": 1, "active": 3, "repeat": 2}
    plan, size, steps = up.schedule(**counts), 62, 12
    drawing = Drawing(steps * size + 24, 158, "The phase of each step of a schedule")
    call = ", ".join(f"{name}={value}" for name, value in counts.items())
    drawing.text(12, 24, f"up.schedule({call})", anchor="start", font_family="monospace")
    for step in range(steps):
        x, (phase, cycle) = 12 + step * size, plan.at(step)
        drawing.box(x + 2, 40, size - 4, 40, fill=PHASES[phase][0])
        drawing.text(x + size / 2, 65, str(step), color=PAPER, font_weight="bold")
        if cycle < counts["repeat"] and (step == 0 or plan.at(step - 1).cycle != cycle):
            length = sum(plan.at(other).cycle == cycle for other in range(steps))
            drawing.line((x + 4, 90), (x + 4, 96), (x + length * size - 4, 96), (x + length * size - 4, 90))
            drawing.text(x + length * size / 2, 114, f"cycle {cycle}: one trace")
    for number, (color, name) in enumerate(PHASES.values()):
        drawing.box(14 + 130 * number, 134, 14, 14, fill=color)
        drawing.text(36 + 130 * number, 146, name, anchor="start")
    return drawing.finished()


FLOW = (
    ("native profiler", "recorder"),
    ("native files", "normalizer"),
    ("table of events", "Profiler"),
    ("Trace", "delivery"),
    ("run directory", "analysis"),
    ("report, table", ""),
)
"""What the data are, and what turns them into the next."""


def data_flow() -> bytes:
    """Draw the way of the data from a native profiler to a report."""
    width, gap = 112, 80
    drawing = Drawing(len(FLOW) * (width + gap) - gap + 24, 76, "From the native profiler to the report")
    for number, (data, action) in enumerate(FLOW):
        x = 12 + number * (width + gap)
        drawing.box(x, 18, width, 40, fill=PALE, line=LINE)
        drawing.text(x + width / 2, 43, data)
        if action:
            drawing.line((x + width, 38), (x + width + gap, 38), arrow=True)
            drawing.text(x + width + gap / 2 - 2, 30, action, color=GREEN, font_size="12")
    return drawing.finished()


def architecture() -> bytes:
    """Draw the layers of the package and what backends may import, from the contracts of import-linter."""
    contracts = _contracts()
    layers = [layer.split(" | ") for layer in contracts["layers"]["layers"]]
    allowed = {name.rpartition(".")[2] for name in contracts["allowed"]["allowed_modules"]}
    row, width, left = 44, 640, 12
    drawing = Drawing(width + 268, row * len(layers) + 40, "The packages and the direction of their imports")
    backends = (width + 120, [number for number, names in enumerate(layers) if allowed & set(names)])
    for number, names in enumerate(layers):
        size = (width - 8 * (len(names) - 1)) / len(names)
        for position, name in enumerate(names):
            x, y = left + position * (size + 8), 12 + number * row
            color = "#dcebdf" if name in allowed else PALE
            drawing.box(x, y, size, 32, fill=color, line=LINE)
            drawing.text(x + size / 2, y + 21, name, font_family="monospace")
    _draw_backends(drawing, *backends, row=row, right=left + width)
    drawing.text(
        left,
        row * len(layers) + 30,
        "Imports point down. Packages side by side do not import each other.",
        anchor="start",
    )
    return drawing.finished()


def _draw_backends(drawing: Drawing, x: int, rows: list[int], *, row: int, right: int) -> None:
    top, bottom = 12 + rows[0] * row, 12 + rows[-1] * row + 32
    drawing.box(x, top, 136, bottom - top, fill="#dcebdf", line=LINE)
    for number, text in enumerate(("backends", "import only what", "is green, and not", "each other")):
        style = {"font_family": "monospace"} if number == 0 else {"font_size": "12"}
        drawing.text(x + 68, (top + bottom) / 2 - 24 + 20 * number, text, **style)
    for number in rows:
        drawing.line((x, 28 + number * row), (right + 2, 28 + number * row), arrow=True)


def _contracts() -> dict[str, Any]:
    """Return the first contract of each type."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: dict[str, Any] = {}
    for contract in project["tool"]["importlinter"]["contracts"]:
        contracts.setdefault(contract["type"], contract)
    return contracts
