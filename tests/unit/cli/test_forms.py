"""The same options mean the same in every command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import EnumMeta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from typer.testing import Result

from unified_profiler.cli.app import app
from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]

TABLE_FORMS = ("table", "json", "csv")
FORMS: Mapping[str, tuple[str, ...]] = {
    "run": (),
    "runs": TABLE_FORMS,
    "report": ("html", "md", "json"),
    "summary": ("table", "json"),
    "table": TABLE_FORMS,
    "steps": TABLE_FORMS,
    "ranks": TABLE_FORMS,
    "devices": TABLE_FORMS,
    "critical-path": TABLE_FORMS,
    "export": (),
    "query": TABLE_FORMS,
    "diff": ("table", "md", "json", "html"),
    "gate": ("table", "md", "json", "junit"),
    "view": (),
    "doctor": ("table", "json"),
}
"""The forms of output of each command."""
OPENING = {"run", "report", "diff"}
OF_A_RUN = {"report", "summary", "table", "steps", "ranks", "devices", "critical-path", "export", "view"}
"""Commands whose first argument is a run, by default the newest in `profile`."""
WITHOUT_OUTPUT = {"view"}


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def choices_of(command: str, argument: str) -> tuple[str, ...]:
    callback: Any = next(each for each in app.registered_commands if _name_of(each) == command).callback
    kind = get_type_hints(callback).get(argument)
    kinds: list[Any] = [each for each in (get_args(kind) or (kind,)) if isinstance(each, EnumMeta)]
    return tuple(choice.value for each in kinds for choice in each)


def _name_of(command: Any) -> str:
    return str(command.name or command.callback.__name__.replace("_", "-"))


def option(command: str, name: str) -> Any:
    return next((each for each in commands()[command].params if name in each.opts), None)


def test_every_command_is_in_the_table() -> None:
    assert list(commands()) == list(FORMS)


@pytest.mark.parametrize("command", FORMS)
def test_a_form_is_chosen_by_format_or_by_json_and_results_go_to_output(command: str) -> None:
    forms = FORMS[command]
    assert choices_of(command, "form") == forms
    assert (option(command, "--format") is not None) == bool(forms)
    assert (option(command, "--json") is not None) == ("json" in forms)
    assert (option(command, "--open") is not None) == (command in OPENING)
    if command not in WITHOUT_OUTPUT:
        assert set(option(command, "-o").opts) == {"-o", "--output"}


@pytest.mark.parametrize("command", FORMS)
def test_every_command_has_the_language_of_the_terminal_or_of_its_option(command: str) -> None:
    assert choices_of(command, "language") == ("en", "zh")
    assert option(command, "--language").default is None


@pytest.mark.parametrize("command", sorted(OF_A_RUN))
def test_the_run_is_the_newest_in_profile_by_default(command: str) -> None:
    argument = commands()[command].params[0]
    assert (argument.name, argument.default, argument.required) == ("run", "profile", False)


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("command", [None, *FORMS])
def test_help_fits_the_terminal_and_nothing_is_cut(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, command: str | None, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = invoke(*filter(None, [command]), "--help").stdout
    assert max(map(len, text.splitlines())) <= width
    assert not re.search(
        r"\u2026|\.\.\.$|<\w|\[bold|x>=|default: \(|INTEGER|\[required", text.partition("\n")[2], re.MULTILINE
    )
    assert command is None or not re.search(r"[{}]|\]\.\.\.$", text.partition("\n")[0])
    assert "\nExamples:\n  unified-profiler " in text
    options = [option for parameter in (commands()[command].params if command else ()) for option in parameter.opts]
    names = text.replace("--[no-]", "--")
    assert all(name in names for name in options if name.startswith("-"))


# --- behavior -------------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a run in `profile`."""
    monkeypatch.chdir(run_dir.parent.parent)
    return run_dir.parent.parent


@pytest.mark.parametrize("command", ["summary", "table", "steps", "ranks", "devices", "critical-path"])
def test_a_command_without_a_run_reads_the_newest_and_names_it(invoke: Invoke, directory: Path, command: str) -> None:
    result = invoke(command, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads(invoke(command, "profile/run", "--format", "json").stdout)
    assert result.stderr == f"unified-profiler: reading {Path('profile', 'run')}: the only run there\n"


@pytest.mark.parametrize("command", ["runs", "summary", "table", "steps", "ranks", "devices", "critical-path"])
def test_the_suffix_of_the_output_chooses_the_form(invoke: Invoke, directory: Path, command: str) -> None:
    result = invoke(command, "-o", "result.json")
    assert (result.exit_code, result.stdout) == (0, "result.json\n"), result.output
    assert json.loads(Path("result.json").read_bytes()) == json.loads(invoke(command, "--json").stdout)
    invoke(command, "-o", "result.txt")
    assert len(Path("result.txt").read_text(encoding="utf-8")) > 100


@pytest.mark.parametrize("command", sorted({name for name, forms in FORMS.items() if forms} - {"doctor", "query"}))
def test_a_suffix_of_no_form_is_refused_before_anything_is_read(invoke: Invoke, directory: Path, command: str) -> None:
    runs = ["profile/run"] * 2 if command in {"diff", "gate"} else []
    result = invoke(command, *runs, "-o", "result.pdf")
    assert result.exit_code in {2, 3}
    assert "`--output` must end in" in result.stderr
    assert "result.pdf" in result.stderr
    assert not Path("result.pdf").exists()


def test_contradicting_forms_are_refused(invoke: Invoke, directory: Path) -> None:
    result = invoke("table", "--json", "--format", "csv")
    assert result.exit_code == 2
    assert "`--json` and `--format csv` cannot be combined" in result.stderr


@pytest.mark.parametrize("command", ["report", "summary", "table", "steps", "ranks", "devices", "critical-path"])
def test_a_run_in_profile_is_found_by_its_name(invoke: Invoke, directory: Path, command: str) -> None:
    result = invoke(command, "run", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_a_file_or_directory_here_goes_before_a_run_in_profile(invoke: Invoke, directory: Path) -> None:
    Path("run").mkdir()
    assert "The directory run holds no run" in invoke("summary", "run").stderr


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_where_there_is_no_run_the_command_that_records_one_is_named(
    invoke: Invoke, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "empty").mkdir()
    result = invoke("report", tmp_path / folder)
    assert result.exit_code == 2
    assert result.stderr.endswith("Record one with `unified-profiler run train.py`.\n")


def test_a_query_needs_no_run(invoke: Invoke, directory: Path) -> None:
    sql = "select count(*) as events from events"
    assert json.loads(invoke("query", sql, "--json").stdout) == [{"events": 8}]
    assert json.loads(invoke("query", "profile/run", sql, "--json").stdout) == [{"events": 8}]


@pytest.mark.parametrize(
    "arguments", [["profile/run", "t.json"], ["t.json"], ["-o", "t.json"], ["profile/run", "-o", "t.json"]]
)
def test_export_takes_its_file_as_an_argument_or_an_option(
    invoke: Invoke, directory: Path, arguments: list[str]
) -> None:
    result = invoke("export", *arguments)
    assert result.exit_code == 0, result.output
    assert Path("t.json").stat().st_size > 0


def test_export_needs_exactly_one_file(invoke: Invoke, directory: Path) -> None:
    result = invoke("export", "profile/run", "t.json", "-o", "t.csv")
    assert result.exit_code == 2
    assert "Give one file to write" in result.stderr


def test_export_to_a_file_that_exists_names_the_option_that_overwrites_it(invoke: Invoke, directory: Path) -> None:
    assert invoke("export", "t.json").exit_code == 0
    again = invoke("export", "t.json")
    assert again.exit_code == 2
    assert "t.json exists, so it is the run to read" in again.stderr
    assert "`unified-profiler export -o t.json`" in again.stderr
    assert invoke("export", "-o", "t.json").exit_code == 0


def test_gate_takes_two_runs_as_arguments(invoke: Invoke, directory: Path) -> None:
    by_options = invoke("gate", "--baseline", "profile/run", "--candidate", "profile/run", "--json")
    assert invoke("gate", "profile/run", "profile/run", "--json").stdout == by_options.stdout
    for wrong in (["profile/run"], ["profile/run"] * 3, ["profile/run", "--baseline", "profile/run"]):
        result = invoke("gate", *wrong)
        assert result.exit_code == 3
        assert "Give two runs" in result.stderr


# --- runs -----------------------------------------------------------------------------------------------------------


def _empty_run(path: Path, *, exit_code: int | None = None) -> None:
    from unified_profiler.model.records import Manifest
    from unified_profiler.model.storage import write_text

    rank = path / "rank-00000"
    rank.mkdir(parents=True)
    fields: dict[str, Any] = {"profiler_version": "1", "host": "h", "pid": 1, "python": "3", "platform": "p"}
    manifest = Manifest(run=path.name, rank=0, started_ns=10**18, exit_code=exit_code, **fields)
    write_text(rank / "manifest.json", manifest.model_dump_json())


def test_a_newer_run_without_a_trace_does_not_hide_one_with_a_trace(invoke: Invoke, directory: Path) -> None:
    _empty_run(Path("profile/later"))
    assert "of 2 runs, the newest with a trace" in invoke("steps").stderr
    assert f"reading {Path('profile', 'run')}:" in invoke("steps").stderr
    records = json.loads(invoke("runs", "--json").stdout)
    assert [tuple(record[key] for key in ("run", "state", "event_count", "default")) for record in records] == [
        ("later", "no trace", 0, False),
        ("run", "complete", 8, True),
    ]
    marked = [line.split()[:2] for line in invoke("runs").stdout.splitlines() if "*" in line.split()]
    assert marked[0] == ["run", "*"]


def test_a_run_whose_script_failed_is_listed_as_such(invoke: Invoke, directory: Path) -> None:
    _empty_run(Path("profile/later"), exit_code=2)
    assert json.loads(invoke("runs", "--json").stdout)[0]["state"] == "failed, exit code: 2"
    assert "\u5931\u8d25\uff0c\u9000\u51fa\u7801: 2" in invoke("runs", "--language", "zh").stdout


def test_a_damaged_run_is_listed_as_such(invoke: Invoke, directory: Path) -> None:
    Path("profile/broken/rank-00000").mkdir(parents=True)
    Path("profile/broken/rank-00000/cycle-00000.parquet").write_bytes(b"PAR1")
    result = invoke("runs", "--json")
    assert result.exit_code == 0, result.output
    assert {record["run"]: record["state"].partition(":")[0] for record in json.loads(result.stdout)} == {
        "broken": "damaged",
        "run": "complete",
    }


def test_a_directory_without_runs_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    for path, state in ((tmp_path, "holds no run"), (tmp_path / "nowhere", "is no directory")):
        result = invoke("runs", path)
        assert result.exit_code == 2
        assert state in result.stderr


def test_runs_says_how_many_are_left_out(invoke: Invoke, directory: Path) -> None:
    builder = TraceBuilder(rank=0, first_step=3, last_step=5).step(3, 0, 5).step(4, 5, 5).step(5, 10, 5)
    folder = Path("profile/second/rank-00000")
    folder.mkdir(parents=True)
    write_parquet(builder.build(), folder / "cycle-00000.parquet")
    assert "Shown: 1 of 2 runs." in invoke("runs", "--row-limit", "1").stdout
    assert "3-5" in invoke("runs").stdout


def test_the_state_of_a_run_is_shown_in_a_narrow_terminal(
    invoke: Invoke, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("profile/run").rename("profile/20261119-212144-6185")
    monkeypatch.setenv("COLUMNS", "80")
    _empty_run(Path("profile/20261119-212145-6186"), exit_code=130)
    printed = invoke("runs").stdout
    assert "complete" in printed
    assert "failed, exit code: 130" in printed
    assert "\u2026" not in printed
