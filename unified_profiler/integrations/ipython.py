"""`%profile` and `%%profile`, the magics that `%load_ext unified_profiler` adds to IPython and notebooks.

They run a statement or a cell under a Profiler and show its operators and its report. IPython is no dependency: only
IPython itself imports this module, through the hook `load_ipython_extension` of the package.
"""

# IPython need not be installed where types are checked.
# mypy: allow-untyped-decorators, allow-subclassing-any

from __future__ import annotations

import asyncio
import os
import re
import sys
from argparse import REMAINDER, Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import FileLink, display
from IPython.utils.process import arg_split

from unified_profiler import registry
from unified_profiler.analysis import Result, api_table, op_table
from unified_profiler.errors import BackendBusyError, UnifiedProfilerError
from unified_profiler.export.writing import writing_to
from unified_profiler.keywords import did_you_mean
from unified_profiler.model.run import Run
from unified_profiler.model.storage import write_text
from unified_profiler.profiler import Profiler
from unified_profiler.report.page import page

LARGEST_REPORT = 16_000_000
"""Number of characters of the largest report that a notebook shows; larger ones make it slow to open and to save."""

_FRAME = (
    '<iframe title="Report" sandbox="allow-scripts" allow="clipboard-write" loading="lazy" '
    'style="width: 100%; height: 640px; border: 1px solid #8888; resize: vertical" srcdoc="{}"></iframe>'
)


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a shell. IPython calls this for `%load_ext unified_profiler`."""
    shell.register_magics(ProfileMagics)


@magics_class
class ProfileMagics(Magics):
    """The magics `%profile` and `%%profile`."""

    @magic_arguments()
    @argument("--record-shapes", action="store_true", default=None, help="Record shapes and types of inputs.")
    @argument("--profile-memory", action="store_true", default=None, help="Record memory allocations.")
    @argument("--with-stack", action="store_true", default=None, help="Record Python stacks.")
    @argument("--with-flops", action="store_true", default=None, help="Compute floating-point operations.")
    @argument("--with-modules", action="store_true", default=None, help="Record calls of modules (layers, Cells).")
    @argument("--api", action="store_true", default=None, help="Record the calls of the frameworks' API.")
    @argument("--by", metavar="NAME", action="append", help="Group rows by name (default), op, ...; repeatable.")
    @argument("--sort-by", metavar="KEY", help="Column to sort by, or one of torch's sort keys.")
    @argument(
        "--row-limit", metavar="N", type=int, default=20, help="Maximum number of rows, 20 by default; 0 for all."
    )
    @argument("--no-report", dest="report", action="store_false", help="Show only the table.")
    @argument("-o", "--output", metavar="DIR", help="Write the run and its report to a directory.")
    @argument("-r", "--result", metavar="NAME", default="_profile", help="Name of the Profiler, _profile by default.")
    @argument("statement", nargs=REMAINDER, help="The statement to profile, of a line.")
    @no_var_expand
    @line_cell_magic
    def profile(self, line: str, cell: str | None = None) -> Any:
        """Profile a statement, or with `%%profile` a cell.

        The code runs as it does without the magic. Below its output are the operators that it ran of the frameworks
        that are imported already, and, in notebooks, the report.

        The Profiler is the variable `_profile`, or another one with `--result`, in the code and after it::

            %profile model(inputs)

            %%profile --record-shapes --by shapes --result prof
            for batch in batches:
                train(batch)
                prof.step()
        """
        options, statement = self._parsed(line)
        code = _code_of(statement, cell)
        _check_runnable(self.shell, code)
        with _plain_errors():
            profiler = _profiler(options)
            value = self._run(code, profiler, name=options.result)
            _show(profiler, options, in_notebook="text/html" in self.shell.display_formatter.active_types)
        return None if code.rstrip().endswith(";") else value

    def _parsed(self, line: str) -> tuple[Namespace, str]:
        """Return the options at the beginning of a line, and the statement after them exactly as it is written.

        Raises:
            UsageError: There is no such option.
        """
        parser, words = self.profile.parser, arg_split(line, strict=False)
        options, unknown = parser.parse_known_args(words)
        if unknown:
            hint = did_you_mean(unknown[0], re.findall(r"--[a-z-]+", parser.format_usage()))
            msg = f"%profile has no option {unknown[0]!r}.{hint} `%profile?` lists the options."
            raise UsageError(msg)
        if not options.result.isidentifier():
            msg = f"--result takes the name of a variable, such as prof; it cannot be {options.result!r}."
            raise UsageError(msg)
        end = 0
        for word in words[: len(words) - len(options.statement)]:
            end = line.index(word, end) + len(word)
        return options, line[end:].strip()

    def _run(self, code: str, profiler: Profiler, *, name: str) -> Any:
        """Run code under a Profiler, and return the value that IPython displays of it."""
        with suppress(_CodeRaisedError), _values_held_back() as values, profiler:
            _check_started(profiler)
            self.shell.push({name: profiler})
            _run_as_part_of_cell(self.shell, code)
        for value in values[:-1]:
            sys.displayhook(value)
        return values[-1] if values else None


class _CellProfiler(Profiler):
    """A Profiler for code that need not have steps."""

    _calls_step = False


class _CodeRaisedError(Exception):
    """Marks the trace of code that raised as incomplete."""


# --- before the code runs -----------------------------------------------------------------------------------------


def _code_of(statement: str, cell: str | None) -> str:
    """Return the code to profile.

    Raises:
        UsageError: There is none, or both a statement and a cell.
    """
    if cell is not None and statement:
        msg = f"%%profile runs the lines below it, and takes only options; found {statement!r}."
        raise UsageError(msg)
    code = statement if cell is None else cell
    if not code.strip():
        msg = "Give the statement to profile, as in `%profile model(inputs)`, or write %%profile above a cell."
        raise UsageError(msg)
    return code


def _check_runnable(shell: Any, code: str) -> None:
    """Check that a magic can run the code: kernels run one event loop, which executes this cell already.

    Raises:
        UsageError: The code awaits something in a kernel.
    """
    with suppress(RuntimeError):  # no event loop is running
        asyncio.get_running_loop()
        if shell.should_run_async(code, transformed_cell=shell.transform_cell(code)):
            msg = (
                "%profile cannot run code with `await` in a kernel. Write `with unified_profiler.Profiler() as prof:` "
                "around it, and look at `unified_profiler.op_table(prof.run)`."
            )
            raise UsageError(msg)


def _profiler(options: Namespace) -> Profiler:
    """Create the Profiler, and check the options of the table, before the code runs.

    Raises:
        UsageError: No framework is imported.
        ConfigurationError: An option has a wrong value.
    """
    recorded = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "api")
    profiler = _CellProfiler(
        output_dir=None if options.output is None else Path(options.output.strip("\"'")).expanduser(),
        **{name: getattr(options, name) for name in recorded},
    )
    next(_tables(Run(traces=()), options))
    if profiler.level == 2 and not registry.detect():
        names = ", ".join(entry.name for entry in registry.known())
        msg = f"There is nothing to profile: no framework ({names}) is imported. Import it in a cell before this one."
        raise UsageError(msg)
    return profiler


def _check_started(profiler: Profiler) -> None:
    """Check that the Profiler records.

    Raises:
        UsageError: Another profiler is in the way.
    """
    if any(failure.error.startswith(BackendBusyError.__name__) for failure in profiler.failures):
        msg = "Another profiler is running, so this code was not run. Stop the other one first."
        raise UsageError(msg)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Show errors of this package as IPython shows misuse of a magic: in one line, without a traceback.

    Raises:
        UsageError: Instead of an error of this package.
    """
    try:
        yield
    except UnifiedProfilerError as error:
        raise UsageError(str(error)) from None


# --- while the code runs ------------------------------------------------------------------------------------------


@contextmanager
def _values_held_back() -> Iterator[list[Any]]:
    """Collect the values that IPython would display now, since computing their text may run operators."""
    values: list[Any] = []
    shown, sys.displayhook = sys.displayhook, values.append
    try:
        yield values
    finally:
        sys.displayhook = shown


def _run_as_part_of_cell(shell: Any, code: str) -> None:
    """Run code so that the cell that runs now has its number in tracebacks, shows its error, and fails if it does.

    Raises:
        _CodeRaisedError: The code raised, or is not valid; IPython has displayed the traceback.
    """
    cell, count = shell.displayhook.exec_result, shell.execution_count
    if cell is not None:
        shell.execution_count = cell.execution_count or count  # from IPython 9 on, it is that of the next cell already
    try:
        result = shell.run_cell(code)
    finally:
        shell.execution_count, shell.displayhook.exec_result = count, cell
    if cell is not None:
        cell.error_before_exec, cell.error_in_exec = result.error_before_exec, result.error_in_exec
    if not result.success:
        raise _CodeRaisedError


# --- after the code has run ---------------------------------------------------------------------------------------


def _tables(run: Run, options: Namespace) -> Iterator[Result]:
    """Yield the operators, and the API calls."""
    row_limit = options.row_limit or None
    yield op_table(run, by=options.by or "name", sort_by=options.sort_by, row_limit=row_limit)
    yield api_table(run, row_limit=row_limit)


def _show(profiler: Profiler, options: Namespace, *, in_notebook: bool) -> None:
    """Show the tables, and in a notebook the report."""
    tables = [table for table in _tables(profiler.run, options) if len(table)]
    for table in tables:
        display(table)
    if not tables and all(trace.info.complete for trace in profiler.traces):
        print(_why_nothing(profiler, options.result))  # noqa: T201  output of the cell
    elif tables and options.report and (in_notebook or profiler.run.path is not None):
        _show_report(profiler.run, options.result, in_notebook=in_notebook)


def _show_report(run: Run, name: str, *, in_notebook: bool) -> None:
    """Show the report, and a link to its file if the run has a directory."""
    report = page(run)
    advice = f'unified_profiler.write({name}.run, "report.html") writes the report to a file.'
    if in_notebook and len(report) <= LARGEST_REPORT:
        display({"text/html": _FRAME.format(escape(report)), "text/plain": advice}, raw=True)
    elif run.path is None:
        print(f"The report is too large for a notebook. {advice}")  # noqa: T201  output of the cell
    if run.path is not None:
        file = run.path / "report.html"
        with writing_to(file):
            write_text(file, report)
        display(FileLink(os.path.relpath(file)))


def _why_nothing(profiler: Profiler, name: str) -> str:
    """Return why there is no table."""
    if profiler.level < 2:
        reason = f"the settings limit the level to {profiler.level}"
    elif profiler.failures:
        reason = f"profiling failed, see {name}.failures"
    elif not profiler.traces:
        reason = f"the schedule of the settings had not begun to record; call {name}.step() in the code"
    else:
        reason = f"this code ran none of {', '.join(backend.name for backend in registry.detect())}"
    return f"No operators were recorded: {reason}."
