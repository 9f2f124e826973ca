"""The table of `make bench`: nothing is measured here, but nothing that was measured may be hidden or lost."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the benchmarks, which are not installed."""
    monkeypatch.syspath_prepend(ROOT)
    names = ("figures", "machine", "tables", "__main__")
    return SimpleNamespace(**{name.strip("_"): importlib.import_module(f"benchmarks.{name}") for name in names})


@pytest.fixture
def groups(bench: Any) -> list[Any]:
    figure = bench.figures.Figure
    kept = figure(name="kept", value=1.0212, unit="x", against="torch.profiler (native)", at_most=1.03, note="a | b")
    broken = figure(name="broken", value=7, unit="x", at_least=12)
    free = figure(name="free", value=0.5, unit="s")
    group = bench.figures.Group
    return [group(name="recording", figures=(kept, broken, free)), group(name="calling", failure="KeyError")]


def test_the_table_has_every_figure_and_every_failure(bench: Any, groups: list[Any]) -> None:
    lines = bench.tables.markdown(groups, bench.machine.this_machine()).splitlines()
    assert lines[-4:] == [
        "| recording | kept | 1.021 | x | torch.profiler (native) | ≤ 1.03 | holds | a \\| b |",
        "|  | broken | 7 | x | itself | ≥ 12 | **BROKEN** |  |",
        "|  | free | 0.5 | s | itself |  |  |  |",
        "| calling | the whole module |  |  |  |  | **FAILED** | KeyError |",
    ]
    assert "Of 2 figures with a bound, 1 break it; of 2 modules, 1 failed." in lines


def test_the_machine_and_the_versions_stand_above_the_table(bench: Any, groups: list[Any]) -> None:
    machine = bench.machine.this_machine()
    text = bench.tables.markdown(groups, machine).partition("| module |")[0]
    assert machine.platform in text
    assert all(f"{name} {version or 'not installed'}" in text for name, version in machine.versions.items())
    assert machine.versions["unified_profiler"]


def test_what_is_around_the_table_stays(bench: Any, groups: list[Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{bench.tables.BEGIN}\nof yesterday\n{bench.tables.END}\nafter\n")
    for _ in range(2):
        bench.tables.write_page(groups, bench.machine.this_machine(), page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{bench.tables.BEGIN}\n")
    assert text.endswith(f"{bench.tables.END}\nafter\n")
    assert "of yesterday" not in text
    assert text.count("**BROKEN**") == 1


def test_a_page_without_a_place_for_the_table_is_left_alone(bench: Any, groups: list[Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{bench.tables.END}\n{bench.tables.BEGIN}\n")
    with pytest.raises(ValueError, match=r"page\.md must have"):
        bench.tables.write_page(groups, bench.machine.this_machine(), page)
    assert page.read_text() == f"{bench.tables.END}\n{bench.tables.BEGIN}\n"


def test_the_page_of_the_documentation_has_a_place_for_the_table(bench: Any) -> None:
    text = bench.main.PAGE.read_text(encoding="utf-8")
    assert 0 <= text.find(bench.tables.BEGIN) < text.find(bench.tables.END)


def test_all_modules_are_run(bench: Any) -> None:
    files = (ROOT / "benchmarks").glob("*.py")
    assert set(bench.main.ALL) == {file.stem for file in files if "\ndef measure()" in file.read_text(encoding="utf-8")}


@pytest.fixture
def run(bench: Any, groups: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `main` on two modules that measure nothing, of which one raises."""
    page = tmp_path / "page.md"
    page.write_text(f"{bench.tables.BEGIN}\n{bench.tables.END}\n")

    def fail() -> None:
        raise ZeroDivisionError

    modules = {
        "benchmarks.good": SimpleNamespace(measure=lambda: list(groups[0].figures[:1])),
        "benchmarks.bad": SimpleNamespace(measure=fail),
    }
    monkeypatch.setattr(bench.main, "importlib", SimpleNamespace(import_module=modules.__getitem__))
    monkeypatch.setattr(bench.main, "ALL", ("bad", "good"))
    monkeypatch.setattr(bench.main, "PAGE", page)
    monkeypatch.setattr(bench.main, "RESULTS", tmp_path / "results" / "latest.json")
    return bench.main.main


def test_a_module_that_raises_leaves_the_others_alone_and_is_reported(run: Any, tmp_path: Path) -> None:
    assert run([]) == 1
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| bad | the whole module |  |  |  |  | **FAILED** | ZeroDivisionError |" in text
    assert "| good | kept |" in text


def test_a_run_of_some_modules_leaves_the_page_alone(run: Any, tmp_path: Path) -> None:
    before = (tmp_path / "page.md").read_text()
    assert run(["good"]) == 0
    assert (tmp_path / "page.md").read_text() == before
    kept = json.loads((tmp_path / "results" / "latest.json").read_text(encoding="utf-8"))
    assert [group["name"] for group in kept["groups"]] == ["good"]
    assert kept["machine"]["versions"]["numpy"]
