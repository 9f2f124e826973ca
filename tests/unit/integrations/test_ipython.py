"""The magics in a real IPython, with a framework that is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.errors import BackendBusyError
from unified_profiler.testing import FakeBackend
from unified_profiler.testing.builders import TraceBuilder


class OneAtATime(FakeBackend):
    """A framework whose native profiler one Profiler at a time can use."""

    def _record_call(self, verb: str) -> None:
        if verb == "arm" and self.recording is not None:
            raise BackendBusyError
        super()._record_call(verb)


@dataclass
class Cell:
    """What a cell left behind."""

    success: bool
    value: Any
    text: str
    outputs: list[RichOutput]

    @property
    def tables(self) -> list[str]:
        """The text of what was displayed, but for the report."""
        return [output.data["text/plain"] for output in self.outputs if not is_report(output)]

    @property
    def reports(self) -> list[str]:
        return [output.data["text/html"] for output in self.outputs if is_report(output)]


def is_report(output: RichOutput) -> bool:
    return "<iframe" in output.data.get("text/html", "")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """The one framework that there is, and that is imported."""
    backend = OneAtATime()
    monkeypatch.setattr(registry, "backends", lambda: {"fake": backend})
    return backend


@pytest.fixture
def shell(
    ipython: InteractiveShell, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> InteractiveShell:
    """An IPython with the extension, in which `run(name)` runs an operator."""
    monkeypatch.chdir(tmp_path)
    ipython.push({"up": up, "run": backend.op})
    ipython.run_line_magic("load_ext", "unified_profiler")
    return ipython


@pytest.fixture
def run(shell: InteractiveShell) -> Callable[[str], Cell]:
    """Run a cell of a notebook."""

    def run_cell(code: str) -> Cell:
        with capture_output() as captured:
            result = shell.run_cell(code, store_history=True)
        return Cell(result.success, result.result, captured.stdout + captured.stderr, captured.outputs)

    return run_cell


@pytest.fixture
def terminal(shell: InteractiveShell) -> None:
    """There is no HTML."""
    shell.display_formatter.active_types = ["text/plain"]


Run = Callable[[str], Cell]


# --- what is shown --------------------------------------------------------------------------------------------------


def test_a_cell_is_run_and_its_operators_and_report_are_shown(run: Run) -> None:
    cell = run("%%profile\nx = 1\nrun('mm')\nrun('add')")
    (table,), (report,) = cell.tables, cell.reports
    assert "mm" in table
    assert "add" in table
    assert 'sandbox="allow-scripts"' in report
    assert "srcdoc=" in report
    assert run("x").value == 1


def test_a_table_is_also_html(run: Run) -> None:
    cell = run("%%profile --no-report\nrun('mm')")
    (output,) = cell.outputs
    assert "<td" in output.data["text/html"]
    assert "mm" in output.data["text/html"]


def test_the_quotes_of_a_report_do_not_end_its_frame(run: Run) -> None:
    (report,) = run("%%profile\nrun('mm')").reports
    source = report.partition('srcdoc="')[2]
    assert source.count('"') == 1
    assert "<" not in source.removesuffix("</iframe>")


def test_a_terminal_shows_the_table_only(run: Run, terminal: None) -> None:
    cell = run("%%profile\nrun('mm')")
    assert len(cell.tables) == 1
    assert cell.reports == []


def test_rows_are_as_the_options_ask(run: Run) -> None:
    table = run("%%profile --row-limit 1 --by framework --by op --sort-by call_count\nrun('mm')").tables[0]
    assert "Framework" in table
    assert "Op" in table


def test_the_run_and_its_report_are_written_to_a_directory(run: Run, tmp_path: Path) -> None:
    cell = run("%%profile -o 'my profile'\nrun('mm')")
    (written,) = (tmp_path / "my profile").iterdir()
    assert len(up.read(written).traces) == 1
    assert (written / "report.html").read_text().startswith("<!DOCTYPE html>")
    link = cell.outputs[-1].data["text/html"]
    assert f"href='my profile/{written.name}/report.html'" in link


def test_a_terminal_names_the_file_of_the_report(run: Run, terminal: None, tmp_path: Path) -> None:
    cell = run("%%profile -o profile\nrun('mm')")
    (report,) = tmp_path.glob("profile/*/report.html")
    assert cell.tables[-1] == str(report)


def test_a_report_that_is_too_large_is_not_embedded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unified_profiler.integrations.ipython.LARGEST_REPORT", 1000)
    cell = run("%%profile\nrun('mm')")
    assert cell.reports == []
    assert 'unified_profiler.write(_profile.run, "report.html")' in cell.text
    cell = run("%%profile -o profile\nrun('mm')")
    assert cell.reports == []
    assert "report.html" in cell.outputs[-1].data["text/html"]


# --- the code runs as it does without the magic ---------------------------------------------------------------------


def test_the_last_value_is_that_of_the_cell(run: Run, shell: InteractiveShell) -> None:
    cell = run("%%profile --no-report\nrun('mm')\n6 * 7")
    assert cell.value == 42
    assert "Out[1]: 42" in cell.text
    assert run("_ + 1").value == 43


def test_a_semicolon_hides_the_value(run: Run) -> None:
    assert run("%%profile --no-report\nrun('mm')\n6 * 7;\n").value is None


def test_all_values_are_shown_if_ipython_is_configured_to(run: Run, shell: InteractiveShell) -> None:
    shell.ast_node_interactivity = "all"
    cell = run("%%profile --no-report\n'first'\nrun('mm')\n'last'")
    assert "first" in cell.text
    assert cell.value == "last"


def test_a_statement_is_profiled_as_it_is_written(run: Run) -> None:
    cell = run("%profile --no-report run('a  b') or {'x': '  {0} $x \"'}['x']")
    assert cell.value == '  {0} $x "'
    assert "a  b" in cell.tables[0]


def test_the_value_of_a_statement_can_be_assigned(run: Run) -> None:
    run("x = %profile --no-report run('mm') or 42")
    assert run("x").value == 42


def test_showing_the_value_is_not_part_of_the_profile(run: Run) -> None:
    run("class Shown:\n    def __repr__(self):\n        run('repr')\n        return 'shown'")
    cell = run("%%profile --no-report\nrun('mm')\nShown()")
    assert "shown" in cell.text
    assert "repr" not in cell.tables[0]


def test_a_cell_that_raises_fails_with_its_own_traceback(run: Run) -> None:
    run("pass")
    cell = run("%%profile -r prof\nrun('mm')\n1 / 0")
    assert not cell.success
    assert cell.text.count("ZeroDivisionError: division by zero") == 1
    assert "Cell In[2], line 2" in cell.text
    assert "ipython.py" not in cell.text
    assert "run_cell_magic" not in cell.text
    assert "mm" in cell.tables[0]


def test_the_profiler_of_a_cell_that_raises_is_stopped(run: Run) -> None:
    run("%%profile -r prof\nrun('mm')\nraise KeyboardInterrupt")
    profiler = run("prof").value
    assert not profiler.running
    assert [trace.info.complete for trace in profiler.traces] == [False]


@pytest.mark.parametrize("code", ["def f(:", "undefined"])
def test_only_the_error_is_shown_of_code_that_does_nothing(run: Run, code: str) -> None:
    cell = run(f"%%profile\n{code}")
    assert not cell.success
    assert cell.outputs == []
    assert "No operators" not in cell.text


def test_the_cell_is_known_to_have_failed(run: Run, shell: InteractiveShell) -> None:
    with capture_output():
        result = shell.run_cell("%%profile\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)


def test_code_may_be_indented_and_have_magics(run: Run) -> None:
    cell = run("%%profile --no-report\n%%time\n    x = 1\n    run('mm')")
    assert cell.success
    assert "Wall time" in cell.text
    assert "mm" in cell.tables[0]


def test_code_that_awaits_is_profiled_where_no_event_loop_runs(run: Run) -> None:
    cell = run("%%profile --no-report\nimport asyncio\nawait asyncio.sleep(0)\nrun('mm')")
    assert cell.success
    assert "mm" in cell.tables[0]


def test_code_that_awaits_is_refused_in_a_kernel(shell: InteractiveShell) -> None:
    async def kernel() -> str:
        with capture_output() as captured:
            shell.run_cell("%%profile\nawait something")
        return f"{captured.stdout}{captured.stderr}"

    text = asyncio.run(kernel())
    assert text.count("\n") <= 2
    assert "UsageError: %profile cannot run code with `await` in a kernel." in text


# --- the Profiler ---------------------------------------------------------------------------------------------------


def test_the_profiler_is_a_variable_afterwards(run: Run) -> None:
    run("%%profile --no-report\nrun('mm')")
    profiler = run("_profile").value
    assert [row.name for row in up.op_table(profiler.run)] == ["mm"]


def test_the_code_marks_steps_with_the_profiler(run: Run) -> None:
    run("%%profile --no-report -r prof\nfor _ in range(3):\n    run('mm')\n    prof.step()")
    assert len(up.step_breakdown(run("prof").value.run)) >= 3


def test_code_without_steps_is_no_reason_for_advice(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run("%%profile --no-report\nrun('mm')")
    assert caplog.records == []


@pytest.mark.parametrize("option", ["record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"])
def test_options_are_those_of_the_profiler(run: Run, option: str) -> None:
    run(f"%profile --no-report --{option.replace('_', '-')} run('mm')")
    assert getattr(run("_profile.settings").value, option) is True
    run("%profile --no-report run('mm')")
    assert getattr(run("_profile.settings").value, option) is False


# --- mistakes -------------------------------------------------------------------------------------------------------

MISTAKES = {
    "%%profile --recrod-shapes": "Did you mean '--record-shapes'?",
    "%%profile --sort-by self_cpu_tim": "Did you mean 'self_cpu_ns'?",
    "%%profile --by nam": "Did you mean 'name'?",
    "%%profile --row-limit few": "invalid int value: 'few'",
    "%%profile --row-limit -1": "`row_limit` must be",
    "%%profile --result 1st": "'1st'",
    "%%profile prof": "takes only options; found 'prof'",
    "%%profile -o /dev/null/x": "/dev/null",
}


@pytest.mark.parametrize(("line", "reason"), MISTAKES.items(), ids=lambda text: str(text)[:24])
def test_a_mistake_is_explained_in_a_line_before_the_code_runs(run: Run, line: str, reason: str) -> None:
    cell = run(f"{line}\nran = True")
    assert not cell.success
    assert reason in cell.text
    assert cell.text.strip().count("\n") == 0
    assert cell.text.startswith("UsageError: ")
    assert not run("'ran' in globals()").value


def test_a_magic_without_code_asks_for_some(run: Run) -> None:
    assert "Give the statement to profile" in run("%profile --no-report").text
    assert "Give the statement to profile" in run("%%profile\n   ").text


def test_the_help_lists_the_options(run: Run, shell: InteractiveShell) -> None:
    text = shell.inspector.info(shell.find_cell_magic("profile"))["docstring"]
    for option in ("--record-shapes", "--with-stack", "--by NAME", "--sort-by KEY", "-o DIR, --output DIR", "-r NAME"):
        assert option in text


def test_without_a_framework_there_is_nothing_to_profile(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "backends", dict)
    cell = run("%%profile\nran = True")
    assert "UsageError: There is nothing to profile: no framework (mindspore, tensorflow, torch)" in cell.text
    assert not run("'ran' in globals()").value


def test_another_profiler_in_the_way_is_reported_before_the_code_runs(run: Run) -> None:
    cell = run("with up.Profiler() as outer:\n    %profile run('mm')")
    assert "UsageError: Another profiler is running" in cell.text
    assert not run("outer.running").value


def test_the_magics_do_not_nest(run: Run) -> None:
    cell = run("%%profile --no-report -r outer\nrun('mm')\n%profile run('add')\nran = True")
    assert not cell.success
    assert "UsageError: Another profiler is running" in cell.text
    assert run("%profile --no-report run('mm')").success


# --- nothing to show ------------------------------------------------------------------------------------------------


def test_code_without_operators_says_so_and_has_its_value(run: Run) -> None:
    cell = run("%%profile\n6 * 7")
    assert "No operators were recorded: this code ran none of fake." in cell.text
    assert cell.outputs == []
    assert cell.value == 42


def test_failures_of_the_profiler_do_not_stop_the_code(run: Run, backend: FakeBackend) -> None:
    backend.fails_at = frozenset({"start"})
    cell = run("%%profile -r prof\nrun('mm')\n6 * 7")
    assert cell.value == 42
    assert "No operators were recorded: profiling failed, see prof.failures." in cell.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [('{"level": 1}', "the settings limit the level to 1"), ('{"schedule": {"wait": 5, "active": 1}}', "the schedule")],
)
def test_settings_that_leave_nothing_to_show_are_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: str, reason: str
) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_OPTIONS", options)
    assert f"No operators were recorded: {reason}" in run("%%profile\nrun('mm')").text


# --- the extension --------------------------------------------------------------------------------------------------


def test_the_hook_of_ipython_is_no_part_of_the_api() -> None:
    assert callable(up.load_ipython_extension)
    assert "load_ipython_extension" not in dir(up)
    assert "load_ipython_extension" not in up.__all__


# --- completion -----------------------------------------------------------------------------------------------------


@pytest.fixture
def completed(shell: InteractiveShell) -> Callable[[str], set[str]]:
    """Complete the attributes of an object as a key does in IPython and notebooks."""
    builder = TraceBuilder(frameworks={"torch": "2"}, first_step=0, last_step=29)
    for step in range(30):
        builder.step(step, step * 1000, 1000).op("aten::mm", step * 1000, 500, framework="torch")
    trace = builder.build()
    objects = {"prof": up.Profiler(), "trace": trace, "recorded": up.Run(traces=(trace,)), "result": up.op_table(trace)}
    shell.push(objects | {"summary": up.summarize(trace), "compared": up.diff(trace, trace)})

    def complete(name: str) -> set[str]:
        with provisionalcompleter():
            return {each.text.lstrip(".") for each in shell.Completer.completions(f"{name}.", len(name) + 1)}

    return complete


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("up", set(up.__all__) - {"__version__"}),
        ("prof", {"start", "step", "stop", "region", "run", "traces", "failures", "running"}),
        ("recorded", {"traces", "ranks", "select", "steps", "path"}),
        ("result", {"rows", "columns", "to_pandas", "to_arrow"}),
        ("summary", {"findings", "operators", "steps", "ranks", "model_dump_json"}),
        ("compared", {"rows", "total", "baseline", "candidate", "model_dump_json"}),
        ("trace", {"events", "info", "columns"}),
    ],
)
def test_completion_offers_what_users_need_and_nothing_of_pydantic(
    completed: Callable[[str], set[str]], name: str, expected: set[str]
) -> None:
    offered = completed(name)
    assert offered >= expected
    assert not {word for word in offered if word.startswith("_")}
    assert not offered & {"model_fields", "model_validate", "model_copy", "construct", "parse_obj", "schema", "dict"}
