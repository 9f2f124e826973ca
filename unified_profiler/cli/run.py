"""`unified-profiler run`: profiles an unmodified script."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from unified_profiler.cli.completion import sort_keys
from unified_profiler.cli.language import LANGUAGE_HELP, Language, Words, language_of
from unified_profiler.cli.output import column_of, near
from unified_profiler.cli.usage import UsageError, options_of, unknown_option
from unified_profiler.errors import UnifiedProfilerError
from unified_profiler.launch.garbage import no_collections, older_objects_spared

if TYPE_CHECKING:
    from unified_profiler.analysis import Result
    from unified_profiler.launch.launcher import Outcome
    from unified_profiler.launch.program import Program
    from unified_profiler.model.records import Failure
    from unified_profiler.model.run import Run
    from unified_profiler.schedule import Schedule

RUN_CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""All arguments after the script belong to the script, even if they look like options."""

BAD_USAGE = 2
"""Exit code of scripts that were given wrong options, by argparse and others."""

_steps: Any = partial(typer.Option, rich_help_panel="Steps to record")
_data: Any = partial(typer.Option, rich_help_panel="Data to record")
_output: Any = partial(typer.Option, rich_help_panel="Output")


class Deliver(str, Enum):
    """The time at which traces are written."""

    IMMEDIATE = "immediate"
    DEFERRED = "deferred"


def run(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", help="The script and its arguments.")
    ] = None,
    *,
    module: Annotated[
        str | None, typer.Option("-m", metavar="MODULE", help="Run a module, as `python -m` does.")
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Directory for the run.", show_default="profile"),
    ] = None,
    wait: Annotated[int | None, _steps(min=0, help="Steps to skip before each window.", show_default="1")] = None,
    warmup: Annotated[int | None, _steps(min=0, help="Steps to record and discard.", show_default="1")] = None,
    active: Annotated[int | None, _steps(min=1, help="Steps to record.", show_default="3, or 20 for ranks")] = None,
    repeat: Annotated[int | None, _steps(min=0, help="Number of windows; 0 for no limit.", show_default="1")] = None,
    skip_first: Annotated[int | None, _steps(min=0, help="Steps to skip at the beginning.", show_default="0")] = None,
    step_signal: Annotated[
        str,
        _steps(
            metavar="SIGNAL",
            help="Signal that ends a step, such as optimizer, forward, keras or model; auto to detect it, none for no "
            "steps.",
        ),
    ] = "auto",
    opening_limit: Annotated[
        float | None,
        _steps(
            min=0,
            help="Time limit in seconds, without imports and work before the first operator, for a recording from the "
            "import of the framework to the end of the first step. It is used only if the script ends before a step "
            "was recorded; 0 for no such recording.",
            show_default="10",
        ),
    ] = None,
    backend: Annotated[
        list[str] | None, _data(help="Record only this framework; repeatable.", show_default="auto")
    ] = None,
    level: Annotated[
        int | None, _data(min=0, max=2, help="0: off, 1: steps only, 2: operators.", show_default="2")
    ] = None,
    record_shapes: Annotated[bool | None, _data(help="Record shapes and types of inputs.")] = None,
    profile_memory: Annotated[bool | None, _data(help="Record memory allocations.")] = None,
    with_stack: Annotated[bool | None, _data(help="Record Python stacks.")] = None,
    with_flops: Annotated[bool | None, _data(help="Compute floating-point operations.")] = None,
    with_modules: Annotated[bool | None, _data(help="Record module calls, to assign operators to layers.")] = None,
    api: Annotated[bool | None, _data(help="Record the calls of the frameworks' API.")] = None,
    api_inside: Annotated[
        bool, _data("--api-inside", help="Record API calls made by the frameworks themselves, too; implies --api.")
    ] = False,
    api_synchronize: Annotated[
        bool,
        _data(
            "--api-synchronize",
            help="Make traced calls wait for the work that they queue, to assign operators that run later to their "
            "module; slower, implies --api.",
        ),
    ] = False,
    hardware_hz: Annotated[
        float | None,
        _data(min=0, max=1000, help="Readings of hardware counters per second; 0 for none.", show_default="10"),
    ] = None,
    keep_native: Annotated[bool | None, _data(help="Keep the files of the native profilers.")] = None,
    max_events: Annotated[
        int | None,
        _data(
            min=0,
            help="Maximum number of operators, kernels and calls in a window; its last steps are dropped if there are "
            "more. 0 for no limit.",
            show_default="1000000",
        ),
    ] = None,
    record_command: Annotated[bool | None, _data(help="Record the command line, with secrets masked.")] = None,
    deliver: Annotated[
        Deliver | None,
        _data(
            help="Write traces at the end of each window, or at the end of the script to interrupt it less.",
            show_default="immediate",
        ),
    ] = None,
    strict: Annotated[
        bool | None, _data(help="Exit with an error if profiling fails, after the end of the script.")
    ] = None,
    table: Annotated[bool, _output(help="Print tables of operators and of API calls.")] = True,
    row_limit: Annotated[int, _output(min=0, help="Maximum number of rows of a table; 0 for all.")] = 20,
    sort_by: Annotated[
        str | None,
        _output(autocompletion=sort_keys, help="Column to sort by, its heading, or one of torch's sort keys."),
    ] = None,
    open_it: Annotated[bool, _output("--open", help="Write the report and open it in a browser.")] = False,
    verbose: Annotated[bool, _output("--verbose", help="Print how the ends of steps were detected.")] = False,
    language: Annotated[Language | None, _output(help=LANGUAGE_HELP, show_default="that of LANG, else en")] = None,
) -> None:
    """Run an unmodified script under the profiler, and print a table of its operators.

    The script runs as `__main__` with its own arguments and exit code.

    Its steps are detected, and a few near the beginning are recorded.

    The run is written and the table printed even if the script raises, exits, or is ended by Ctrl-C or SIGTERM.

    After os._exit and kill -9 only the windows finished before are available.

    Examples:
      unified-profiler run train.py -- --epochs 1
      unified-profiler run --wait 10 --active 5 --record-shapes -o profile train.py
      unified-profiler run --open train.py
      unified-profiler run --api --with-modules train.py
      unified-profiler run -m package.train -- --epochs 1
      torchrun --nproc-per-node 2 -m unified_profiler run train.py
    """
    with no_collections():
        from unified_profiler.launch.launcher import OPENING_SECONDS, LaunchOptions, launch

    program = _program(ctx, command or [], module)
    words = Words("run", language_of(language))
    sort_by = column_of(sort_by, words.language)
    _check_sort_key(sort_by)
    keywords = {
        "output_dir": output_dir,
        "backend": backend,
        "level": level,
        "record_shapes": record_shapes,
        "profile_memory": profile_memory,
        "with_stack": with_stack,
        "with_flops": with_flops,
        "with_modules": with_modules,
        "api": _api_options(api, inside=api_inside, synchronize=api_synchronize),
        "hardware_hz": hardware_hz,
        "keep_native": keep_native,
        "max_events": max_events,
        "record_command": record_command,
        "deliver": None if deliver is None else deliver.value,
        "strict": strict,
    }
    options = LaunchOptions(
        schedule=_schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first),
        step_signal=step_signal,
        opening_seconds=OPENING_SECONDS if opening_limit is None else opening_limit,
        profiler={name: value for name, value in keywords.items() if value is not None},
    )
    started_in = Path.cwd()  # the script may change it
    outcome = launch(program, options)
    if outcome.exit_code == BAD_USAGE:
        _explain_late_options(ctx, program, words)
    if outcome.exit_code and not (outcome.failures or outcome.error or _has_operators(outcome)):
        raise typer.Exit(outcome.exit_code)  # the traceback of the script is all there is to see
    lines = _lines(outcome, words, started_in, verbose=verbose)
    with older_objects_spared():
        _report(outcome, lines, words, row_limit=row_limit if table else None, sort_by=sort_by)
    if open_it and outcome.run is not None and outcome.run.path is not None and _is_first_rank(outcome.run):
        _open_report(outcome.run.path, words, language)
    raise typer.Exit(1 if outcome.error is not None and not outcome.exit_code else outcome.exit_code)


def _api_options(api: bool | None, **switches: bool) -> bool | dict[str, bool] | None:
    """Return the value of the Profiler's option `api`, which the switches imply."""
    return {name: True for name, on in switches.items() if on} or api


def _schedule(**given: int | None) -> Schedule | None:
    """Return the schedule of the options; None if there are none, so that the settings apply."""
    from dataclasses import replace

    from unified_profiler.launch.launcher import default_schedule

    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(default_schedule(), **changes) if changes else None


def _program(ctx: typer.Context, command: list[str], module: str | None) -> Program:
    from unified_profiler.launch.program import Program

    if module is not None:
        return Program(module, _without_dashes(command), is_module=True)
    if not command:
        msg = "Give a script or -m MODULE."
        raise UsageError(msg, ctx=ctx)
    script = command[0]
    if not Path(script).exists():
        raise UsageError(_missing_script(ctx, script), ctx=ctx)
    return Program(script, _without_dashes(command[1:]))


def _check_sort_key(sort_by: str | None) -> None:
    """Reject a wrong key now, not after hours of training."""
    if sort_by is not None:
        from unified_profiler.model.run import Run

        next(_tables(Run(traces=()), sort_by=sort_by))


def _without_dashes(arguments: list[str]) -> tuple[str, ...]:
    return tuple(arguments[1:] if arguments[:1] == ["--"] else arguments)


def _missing_script(ctx: typer.Context, name: str) -> str:
    """Return the message for a missing script, or for a misspelled option, which the parser takes for the script."""
    if not name.startswith("-"):
        return f"There is no script {name!r}."
    return unknown_option(name, options_of(ctx.command))


def _explain_late_options(ctx: typer.Context, program: Program, words: Words) -> None:
    """Name the first of our options that the script was given, if it seems to have refused it."""
    names = (argument.partition("=")[0] for argument in program.arguments)
    late = next((name for name in names if name.startswith("--") and name in options_of(ctx.command)), None)
    if late is not None:
        _print(f"unified-profiler: {words('late_option', option=late)}", sys.__stderr__)


def _report(
    outcome: Outcome, parts: Iterable[str], words: Words, *, row_limit: int | None, sort_by: str | None
) -> None:
    """Print the tables on stdout, unless `row_limit` is None, and the lines on stderr."""
    lines = list(parts)
    if row_limit is not None and outcome.run is not None and _is_first_rank(outcome.run):
        try:
            for result in _tables(outcome.run, sort_by=sort_by):
                if len(result):
                    _print_table(result, sys.__stdout__, row_limit=row_limit, language=words.language)
        except UnifiedProfilerError as error:  # must not replace the exit code of the script
            lines.append(words("no_table", error=error))
    for line in lines:
        _print(f"unified-profiler: {line}", sys.__stderr__)


def _has_operators(outcome: Outcome) -> bool:
    return outcome.run is not None and _has_events(outcome.run, "framework")


def _has_events(run: Run, layer: str) -> bool:
    from unified_profiler.launch.step_contents import has_events

    return any(has_events(trace, layer) for trace in run.traces)


def _is_first_rank(run: Run) -> bool:
    """Return whether there are results to show, on this rank only."""
    return bool(run.traces) and run.ranks[:1] == [0]


def _open_report(run: Path, words: Words, language: Language | None) -> None:
    from unified_profiler.cli.report import report

    try:
        report(str(run), open_it=True, language=language)
    except UnifiedProfilerError as error:  # must not replace the exit code of the script
        _print(f"unified-profiler: {words('no_report', error=error)}", sys.__stderr__)


def _tables(run: Run, *, sort_by: str | None) -> Iterator[Result]:
    """Yield the table of operators and, if any were recorded, of API calls."""
    from unified_profiler.analysis import api_table, op_table

    yield op_table(run, sort_by=sort_by)
    if _has_events(run, "api"):
        yield api_table(run)


def _print_table(result: Result, stream: TextIO | None, *, row_limit: int, language: str) -> None:
    from unified_profiler.cli.output import in_language, show_table

    _print("", stream)
    with suppress(OSError, ValueError):
        show_table(in_language(result, language), most_rows=row_limit or None, stream=stream, language=language)


def _print(text: str, stream: TextIO | None) -> None:
    """Print, unless the stream is closed at either end."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()  # output of the script first
    with suppress(OSError, ValueError):
        print(text, file=stream, flush=True)


def _lines(outcome: Outcome, words: Words, started_in: Path, *, verbose: bool) -> Iterator[str]:
    if outcome.run is None:
        return
    path = None if outcome.run.path is None else near(outcome.run.path, started_in)
    yield words("not_written") if path is None else words("written", path=path)
    yield _steps_line(outcome, words)
    if verbose and outcome.signal is not None:
        yield from outcome.signal.switches or [words("signal_kept", signal=outcome.signal.name)]
    if not _has_operators(outcome):
        yield words(_why_no_operators(outcome.run))
    yield from _times_notes(outcome.run, words.language)
    yield from (words("hint", hint=hint) for hint in outcome.hints)
    yield from dict.fromkeys(_failure_line(failure, words) for failure in outcome.failures)
    if outcome.error is not None:
        yield words("ended_early", error=f"{type(outcome.error).__name__}: {outcome.error}")
    if path is not None and _is_first_rank(outcome.run):
        yield words("more", command=shlex.join(["unified-profiler", "report", str(path), "--open"]))


def _why_no_operators(run: Run) -> str:
    if any(manifest.settings.get("level") == 1 for manifest in run.manifests.values()):
        return "steps_only"
    return "no_operator_ran" if any(trace.info.frameworks for trace in run.traces) else "no_operators"


def _failure_line(failure: Failure, words: Words) -> str:
    if failure.option is not None:
        return Words("notice", words.language)("unsupported", source=failure.source, option=failure.option)
    line = words("failure", source=failure.source, action=failure.action, error=failure.error)
    return f"{line}; {words('kept', path=failure.kept)}" if failure.kept else line


def _steps_line(outcome: Outcome, words: Words) -> str:
    if outcome.signal is None:
        return words("no_step")
    signal = outcome.signal.name
    if outcome.signal.sources > 1:
        signal = words("sources", signal=signal, source_count=outcome.signal.sources)
    steps = _recorded_steps(outcome, signal, words)
    start_up = None if outcome.run is None else next(iter(outcome.run.manifests.values())).start_up_ns
    return steps if start_up is None else words("start_up", steps=steps, start_up_ns=start_up)


def _recorded_steps(outcome: Outcome, signal: str, words: Words) -> str:
    """Return which steps were recorded, and whether these are fewer than planned."""
    from unified_profiler.readers.listing import recorded_steps

    count = 0 if outcome.run is None else _recorded_step_count(outcome.run)
    if outcome.run is None or not count:
        return words("steps", step_count=outcome.steps, signal=signal)
    recorded = recorded_steps(trace.info for trace in outcome.run.traces)
    steps = words("recorded", recorded=recorded, recorded_count=count, step_count=outcome.steps, signal=signal)
    return words("fewer", steps=steps, planned_count=outcome.planned_steps) if count < outcome.planned_steps else steps


def _recorded_step_count(run: Run) -> int:
    from unified_profiler.schedule import Phase

    return 0 if run.steps is None else run.steps.column("phase").to_pylist().count(Phase.RECORD.value)


def _times_notes(run: Run, language: str) -> Iterator[str]:
    """Yield what makes the recorded times unreliable: lack of CPU time, or else steps of a warm-up."""
    from unified_profiler.presentation.texts import render_statement
    from unified_profiler.report.analyses import Analyses
    from unified_profiler.report.findings import record_later
    from unified_profiler.report.notices import starvation

    starved = Analyses(run).starved
    yield from (render_statement("notice", each, language=language) for each in starvation(starved))
    if not starved:
        later = (record_later(manifest.overhead.steady_step) for manifest in run.manifests.values())
        yield from (render_statement("finding", each, language=language) for each in chain.from_iterable(later))
