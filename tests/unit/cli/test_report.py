from __future__ import annotations

import json
import re
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import unified_profiler as up

Invoke = Callable[..., Result]


def test_the_page_goes_into_the_run_directory(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("report", run_dir)
    assert result.exit_code == 0, result.stderr
    path = Path(result.stdout.strip())
    assert path.name == "report.html"
    assert path.parent == up.read(run_dir).path
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_a_run_with_a_report_in_it_is_still_read(invoke: Invoke, run_dir: Path) -> None:
    before = len(up.read(run_dir).traces)
    for form in ("html", "md", "json"):
        invoke("report", run_dir, "--format", form)
    assert len(up.read(run_dir).traces) == before


@pytest.mark.parametrize(("name", "start"), [("a.html", "<!DOCTYPE"), ("a.md", "# "), ("a.json", "{")])
def test_the_suffix_says_the_format(invoke: Invoke, run_dir: Path, tmp_path: Path, name: str, start: str) -> None:
    result = invoke("report", run_dir, "-o", tmp_path / name)
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / name).read_text().startswith(start)


def test_json_holds_the_summary(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    invoke("report", run_dir, "--format", "json", "-o", tmp_path / "numbers")
    assert json.loads((tmp_path / "numbers").read_text()) == up.summarize(up.read(run_dir)).model_dump(mode="json")


def test_rank_and_language_are_taken(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    invoke("report", run_dir, "--rank", "1", "--language", "zh", "-o", tmp_path / "a.md")
    text = (tmp_path / "a.md").read_text()
    assert "- 事件数\uff1a4\n" in text


@pytest.mark.parametrize(("options", "language"), [((), "zh-CN"), (("--language", "en"), "en")])
def test_pages_of_reports_and_diffs_open_in_the_language_of_the_command(
    invoke: Invoke,
    run_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    language: str,
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    invoke("report", run_dir, "-o", tmp_path / "report.html", *options)
    invoke("diff", run_dir, run_dir, "-o", tmp_path / "diff.html", *options)
    pages = [(tmp_path / name).read_text() for name in ("report.html", "diff.html")]
    assert [re.findall(r'<html lang="(.*?)">', page) for page in pages] == [[language], [language]]


def test_a_summary_of_a_run_without_steps_is_short(invoke: Invoke, tmp_path: Path) -> None:
    with up.Profiler(output_dir=tmp_path / "run", schedule=up.schedule(wait=1, active=1), level=1):
        pass
    text = invoke("summary", tmp_path / "run").stdout
    assert "This run contains no trace: no end of a step was seen." in text
    assert "\n\n\n" not in text


def test_open_shows_the_page(invoke: Invoke, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    invoke("report", run_dir, "-o", tmp_path / "a.html", "--open")
    assert opened == [(tmp_path / "a.html").as_uri()]


def test_models_is_a_directory(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    result = invoke("report", run_dir, "--layout", "models", "-o", tmp_path / "models")
    assert result.exit_code == 0, result.stderr
    assert set(json.loads((tmp_path / "models" / "summary.json").read_text())) == {"app_stats", "op_stats"}


@pytest.mark.parametrize(
    "options",
    [("--layout", "models", "--open"), ("--layout", "models", "--format", "md"), ("--format", "md", "--open")],
)
def test_options_without_effect_are_refused(invoke: Invoke, run_dir: Path, options: tuple[str, ...]) -> None:
    result = invoke("report", run_dir, *options)
    assert result.exit_code == 2
    assert options[-1] in result.stderr or options[-2] in result.stderr


def test_a_place_that_cannot_be_written_is_told(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("report", run_dir, "-o", tmp_path / "file" / "a.html")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


# --- summary -----------------------------------------------------------------------------------------------------


def test_a_summary_fits_eighty_columns(invoke: Invoke, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = invoke("summary", run_dir)
    assert result.exit_code == 0, result.stderr
    assert "aten::linear" in result.stdout
    *lines, command = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert command.endswith(f"unified-profiler report {run_dir} --open")


def test_a_summary_for_programs_is_json(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("summary", run_dir, "--json")
    assert json.loads(result.stdout) == up.summarize(up.read(run_dir)).model_dump(mode="json")


def test_a_summary_speaks_chinese(invoke: Invoke, run_dir: Path) -> None:
    assert "算子" in invoke("summary", run_dir, "--language", "zh").stdout


def test_hostile_names_do_nothing_in_the_terminal(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    from unified_profiler.testing import TraceBuilder

    builder = TraceBuilder(run="\x1b[31mrun", frameworks={"[red]f[/]": "\x07"}, hints=("[bold]\x1b]0;title\x07",))
    for number, name in enumerate(["\x1b[2J", "[red]x[/red]", "[/]", "a\r\nb", "\u202eevil", "x" * 10_000]):
        builder.op(name, number * 10, 5).region(name, number * 10, 6)
    up.write(builder.step(0, 0, 100).build(), tmp_path / "a.parquet")
    result = invoke("summary", tmp_path / "a.parquet")
    assert result.exit_code == 0, result.stderr
    assert "[red]x[/red]" in result.stdout
    assert "[/]" in result.stdout
    printed = result.stdout.replace("\n", "")
    assert all(character.isprintable() for character in printed)
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80


def test_without_a_browser_the_location_of_the_page_is_printed(
    invoke: Invoke, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    result = invoke("report", run_dir, "--open")
    assert f"No browser could be opened. Open {run_dir / 'report.html'} in one." in result.stderr


def test_the_next_command_opens_the_page_that_was_written(
    invoke: Invoke, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_dir)
    assert invoke("report", ".", "-o", "x.html").stderr.endswith("unified-profiler report . -o x.html --open\n")


def test_a_page_below_the_working_directory_is_printed_relative_to_it(
    invoke: Invoke, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_dir.parent)
    assert invoke("report", run_dir).stdout == f"{Path(run_dir.name, 'report.html')}\n"
