"""The built site: it builds without a warning, every page can be reached, and every public name is explained."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unified_profiler as up

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(re.findall(r'href="([^"#]+\.html)"', start)) | {"index.html"}


def test_chinese_pages_are_marked_as_chinese(site: Path) -> None:
    chinese = {page for page in site.rglob("*.html") if '<html lang="zh-CN"' in page.read_text(encoding="utf-8")}
    assert chinese == set((site / "zh").rglob("*.html"))


def test_every_public_name_is_explained_from_its_docstring(site: Path) -> None:
    page = (site / "reference" / "python-api.html").read_text(encoding="utf-8")
    homes = {"schedule": "schedule.schedule", "__version__": "python-api"}  # a module of that name; a text
    names = {f"unified_profiler.{homes.get(name, name)}" for name in up.__all__}
    assert names - set(re.findall(r'id="([\w.]+)"', page)) == {"unified_profiler.python-api"}
    assert "The most rows to return; shares still refer to all rows." in page  # of op_table


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'(?:src|href)="(?:https?:)?//[^"]+\.(?:js|css|woff2?)"')
    assert not [page.name for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))]
