"""Takes the pictures of the documentation from real runs: `make pictures`.

Each picture is of what the commands write today, so that the documentation shows what a reader gets.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

EXAMPLES = Path(__file__).parent
PICTURES = EXAMPLES.parent / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SETTLED = 1500
"""Milliseconds after which charts are drawn."""


def main() -> None:
    """Record, write the pages, and take a picture of each."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _command("run", "-o", "profile", "--active", "8", "--wait", "7", "train.py", "--", "--steps", "30", cwd=folder)
        _command("report", "-o", "report.html", cwd=folder)
        for framework in ("torch", "tensorflow"):
            record = EXAMPLES / "comparison" / "record.py"
            subprocess.run([sys.executable, str(record), framework, "cnn", framework], cwd=folder, check=True)  # noqa: S603  ours
        _command("diff", "torch", "tensorflow", "-o", "diff.html", cwd=folder)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            _picture(browser, folder / "report.html", width=1180, height=1240)
            _picture(browser, folder / "diff.html", width=1240, height=900)
            browser.close()


def _command(*arguments: str, cwd: Path) -> None:
    if not (cwd / "train.py").exists():
        shutil.copy(EXAMPLES / "train_torch.py", cwd / "train.py")
    subprocess.run([sys.executable, "-m", "unified_profiler", *arguments], cwd=cwd, check=True)  # noqa: S603  ours


def _picture(browser: Any, page: Path, *, width: int, height: int) -> None:
    """Save the first screen of a page."""
    shown = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    shown.goto(page.as_uri())
    shown.wait_for_timeout(SETTLED)
    shown.screenshot(path=PICTURES / f"{page.stem}.png")
    shown.close()


if __name__ == "__main__":
    main()
