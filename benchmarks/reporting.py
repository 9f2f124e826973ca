"""The HTML report of a large run: how long it takes to write, how large it is, how soon it can be used in a browser.

Absolute figures, since no native profiler has anything to compare with.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import unified_profiler as up
from benchmarks.figures import Figure, seconds

STEPS = 200
"""Steps of 50 small layers, forward and backward, as in `normalizing`: more than 400 000 events."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def measure() -> list[Figure]:
    """Record a run, write its report, and open it."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        record(profile)
        run = up.read(profile)
        events = sum(len(trace.events) for trace in run.traces)  # reads them
        page = Path(folder) / "report.html"
        spent = seconds(lambda: up.write(run, page))
        size = page.stat().st_size / 1e6
        note = f"{events} events"
        figures = [
            Figure(name="report: writing, beyond reading", value=spent, unit="s", at_most=5, note=note),
            Figure(name="report: size", value=size, unit="MB", at_most=8, note=note),
        ]
        return [*figures, *_opening(page)]


def record(folder: Path) -> None:
    """Record more than 400 000 events into a folder."""
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(50)])
    batch = torch.randn(4, 32)
    with up.Profiler(output_dir=folder, backend="torch", record_shapes=True, strict=True) as prof:
        for _ in range(STEPS):
            with prof.region("forward"):
                loss = model(batch).sum()
            with prof.region("backward"):
                loss.backward()
            prof.step()


def _opening(page: Path) -> list[Figure]:
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        shown = browser.new_page()

        def open_it() -> None:
            shown.goto(page.as_uri())
            shown.wait_for_selector("html[data-ready=interactive], html[data-ready=complete]")

        interactive = seconds(open_it)
        complete = interactive + seconds(lambda: shown.wait_for_selector("html[data-ready=complete]"))
        browser.close()
    return [
        Figure(
            name="report: usable in Chromium",
            value=interactive,
            unit="s",
            at_most=3,
            note=f"all of it {complete:.1f} s",
        )
    ]
