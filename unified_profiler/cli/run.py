"""`unified-profiler run`: profile a script that knows nothing of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from unified_profiler.errors import UnifiedProfilerError
from unified_profiler.keywords import did_you_mean

if TYPE_CHECKING:
    from unified_profiler.analysis import Result
    from unified_profiler.launch.launcher import Outcome
    from unified_profiler.launch.program import Program
    from unified_profiler.model.run import Run
    from unified_profiler.schedule import Schedule

RUN_CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""Everything after the script belongs to the script, whatever it looks like."""


_SCHEDULE = {"rich_help_panel": "Which steps are recorded"}
_RECORD = {"rich_help_panel": "What is recorded"}
_OUTPUT = {"rich_help_panel": "What is printed"}


class Deliver(str, Enum):
    """When traces are made."""

    IMMEDIATE = "immediate"
    DEFERRED = "deferred"


def run(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", help="The script and its arguments.")
    ] = None,
    *,
    module: Annotated[
        str | None, typer.Option("-m", metavar="MODULE", help="Run a module instead, as `python -m` does.")
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option("-o", "--output-dir", help="Where the run is written.", show_default="profile")
    ] = None,
    wait: Annotated[int | None, typer.Option(min=0, help="Steps to let pass.", show_default="1", **_SCHEDULE)] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Steps recorded and thrown away.", show_default="1", **_SCHEDULE)
    ] = None,
    active: Annotated[
        int | None, typer.Option(min=1, help="Steps to record.", show_default="3, or 20 for ranks", **_SCHEDULE)
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=0, help="How many such windows; 0 until the end.", show_default="1", **_SCHEDULE)
    ] = None,
    skip_first: Annotated[
        int | None, typer.Option(min=0, help="Steps to leave out before all this.", show_default="0", **_SCHEDULE)
    ] = None,
    step_signal: Annotated[
        str,
        typer.Option(
            metavar="SIGNAL",
            help="What ends a step, such as optimizer, forward, keras or model; auto finds it out; none for no steps.",
            **_SCHEDULE,
        ),
    ] = "auto",
    opening_limit: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds recorded at most from the import of the framework to the end of the first step, imports and "
            "work before the first operator not counted; used only if the script ends before a step was recorded; 0 "
            "for never.",
            show_default="10",
            **_SCHEDULE,
        ),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option(help="Record only this framework; repeatable.", show_default="auto", **_RECORD)
    ] = None,
    level: Annotated[
        int | None, typer.Option(min=0, max=2, help="0 off, 1 steps only, 2 operators.", show_default="2", **_RECORD)
    ] = None,
    record_shapes: Annotated[bool | None, typer.Option(help="Shapes and types of inputs.", **_RECORD)] = None,
    profile_memory: Annotated[bool | None, typer.Option(help="Allocations.", **_RECORD)] = None,
    with_stack: Annotated[bool | None, typer.Option(help="Python stacks.", **_RECORD)] = None,
    with_flops: Annotated[bool | None, typer.Option(help="Floating-point operations.", **_RECORD)] = None,
    with_modules: Annotated[
        bool | None, typer.Option(help="Calls of modules, so that operators tell their layer.", **_RECORD)
    ] = None,
    api: Annotated[bool | None, typer.Option(help="Calls of the frameworks' API.", **_RECORD)] = None,
    api_inside: Annotated[
        bool, typer.Option("--api-inside", help="And those that the frameworks make themselves.", **_RECORD)
    ] = False,
    api_synchronize: Annotated[
        bool,
        typer.Option(
            "--api-synchronize",
            help="And have traced calls wait for the work they queue, so that operators which run later carry their "
            "module; slower.",
            **_RECORD,
        ),
    ] = False,
    hardware_hz: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1000,
            help="How often a second CPU, memory, traffic and GPUs are read; 0 for never.",
            show_default="10",
            **_RECORD,
        ),
    ] = None,
    keep_native: Annotated[bool | None, typer.Option(help="Keep the native profilers' own files.", **_RECORD)] = None,
    max_events: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Most operators, kernels and calls of a window: its last steps are left out if there are more; 0 for "
            "any number.",
            show_default="1000000",
            **_RECORD,
        ),
    ] = None,
    record_command: Annotated[
        bool | None, typer.Option(help="The command line, with the secrets in it masked.", **_RECORD)
    ] = None,
    deliver: Annotated[
        Deliver | None,
        typer.Option(
            help="When traces are made: at the end of each window, or at the end of the script, which waits less.",
            show_default="immediate",
            **_RECORD,
        ),
    ] = None,
    strict: Annotated[
        bool | None, typer.Option(help="Exit with an error if profiling fails; the script runs to its end.", **_RECORD)
    ] = None,
    table: Annotated[bool, typer.Option(help="Print the table of operators, and of API calls.", **_OUTPUT)] = True,
    row_limit: Annotated[int, typer.Option(min=0, help="Most rows of it; 0 for all.", **_OUTPUT)] = 20,
    sort_by: Annotated[str | None, typer.Option(help="A column, or one of torch's sort keys.", **_OUTPUT)] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="How the ends of steps were found.", **_OUTPUT)] = False,
) -> None:
    """Run a script under the profiler, without any change to it, and print where its time went.

    It runs as `__main__` with its own arguments and exit code. Its steps are found; a few of the first are recorded.

    The run is written and the table printed also if it raises, exits, or is ended by Ctrl-C or SIGTERM.

    os._exit and kill -9 leave what was finished before.

    [bold]Examples[/bold]

      unified-profiler run train.py -- --epochs 1

      unified-profiler run --wait 10 --active 5 --record-shapes -o profile train.py

      unified-profiler run --api --with-modules train.py

      unified-profiler run -m package.train -- --epochs 1

      torchrun --nproc-per-node 2 -m unified_profiler run train.py
    """
    from unified_profiler.launch.launcher import OPENING_SECONDS, LaunchOptions, launch

    program = _program(ctx, command or [], module)
    _check_sort_key(sort_by)
    given = {
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
        profiler={name: value for name, value in given.items() if value is not None},
    )
    outcome = launch(program, options)
    _report(outcome, table=table, row_limit=row_limit, sort_by=sort_by, verbose=verbose)
    raise typer.Exit(1 if outcome.error is not None and not outcome.exit_code else outcome.exit_code)


def _api_options(api: bool | None, **switches: bool) -> bool | dict[str, bool] | None:
    """Return what the Profiler takes for `api`: switches that are on imply it."""
    return {name: True for name, on in switches.items() if on} or api


def _schedule(**given: int | None) -> Schedule | None:
    """Return the schedule of the options; None if there are none, so that the settings' own counts."""
    from dataclasses import replace

    from unified_profiler.launch.launcher import default_schedule

    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(default_schedule(), **changes) if changes else None


def _program(ctx: typer.Context, command: list[str], module: str | None) -> Program:
    from unified_profiler.launch.program import Program

    if module is not None:
        return Program(module, _without_dashes(command), is_module=True)
    if not command:
        msg = "A script or -m MODULE is needed."
        raise typer.BadParameter(msg, ctx=ctx)
    script = command[0]
    if not Path(script).exists():
        raise typer.BadParameter(_no_script(ctx, script), ctx=ctx)
    return Program(script, _without_dashes(command[1:]))


def _check_sort_key(sort_by: str | None) -> None:
    """Refuse a wrong one now, not after hours of training."""
    if sort_by is not None:
        from unified_profiler.model.run import Run

        next(_tables(Run(traces=()), row_limit=1, sort_by=sort_by))


def _without_dashes(arguments: list[str]) -> tuple[str, ...]:
    return tuple(arguments[1:] if arguments[:1] == ["--"] else arguments)


def _no_script(ctx: typer.Context, name: str) -> str:
    """Tell a misspelt option, which the parser takes for the script, from a script that is not there."""
    if not name.startswith("-"):
        return f"There is no script {name!r}."
    options = [option for parameter in ctx.command.params for option in parameter.opts]
    return f"There is no option {name!r}.{did_you_mean(name, options)}"


def _report(outcome: Outcome, *, table: bool, row_limit: int, sort_by: str | None, verbose: bool) -> None:
    """Print the table on stdout and all the rest on stderr."""
    lines = list(_lines(outcome, verbose=verbose))
    if table and outcome.run is not None and outcome.run.traces and outcome.run.ranks[:1] == [0]:  # one of all ranks
        try:
            for result in _tables(outcome.run, row_limit=row_limit, sort_by=sort_by):
                _print_table(result, sys.__stdout__)
        except UnifiedProfilerError as error:  # the script's exit code is worth more than a mistyped column
            lines.append(f"no table: {error}")
    for line in lines:
        _print(f"unified-profiler: {line}", sys.__stderr__)


def _tables(run: Run, *, row_limit: int, sort_by: str | None) -> Iterator[Result]:
    """Give the table of operators and, if any were recorded, of API calls."""
    from unified_profiler.analysis import api_table, op_table

    yield op_table(run, row_limit=row_limit or None, sort_by=sort_by)
    calls = api_table(run, row_limit=row_limit or None)
    if len(calls):
        yield calls


def _print_table(result: Result, stream: TextIO | None) -> None:
    from unified_profiler.cli.output import show_table

    _print("", stream)
    with suppress(OSError, ValueError):
        show_table(result, most_rows=None, stream=stream)


def _print(text: str, stream: TextIO | None) -> None:
    """Print, unless the script closed the stream, or nobody reads it any more."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()  # what the script printed comes first
    with suppress(OSError, ValueError):
        print(text, file=stream, flush=True)


def _lines(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    if outcome.run is None:
        return
    yield f"run written to {outcome.run.path}" if outcome.run.path else "nothing was written"
    yield _steps_line(outcome)
    if verbose and outcome.signal is not None:
        yield from outcome.signal.switches
    if not any(trace.info.frameworks for trace in outcome.run.traces):
        yield "no operators were recorded: the script imported no framework that has a backend, see `doctor`"
    yield from (f"hint: {hint}" for hint in outcome.hints)
    for one in outcome.failures:
        kept = f"; its native files are kept in {one.kept}" if one.kept else ""
        yield f"{one.source} failed to {one.action}: {one.error}{kept}"
    if outcome.error is not None:
        yield f"profiling ended early: {type(outcome.error).__name__}: {outcome.error}"


def _steps_line(outcome: Outcome) -> str:
    if outcome.signal is None:
        return "no end of a step was seen"
    signal = outcome.signal
    sources = f" ({signal.sources} of them, one counts)" if signal.sources > 1 else ""
    steps = "1 step, ended" if outcome.steps == 1 else f"{outcome.steps} steps, each ended"
    return f"{steps} by {signal.name}{sources}"
