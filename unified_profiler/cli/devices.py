"""`unified-profiler devices`: prints whether the devices of a run were working or waiting, and why they waited."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, format_of, show, write_or_print
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.analysis import Result
    from unified_profiler.analysis.devices.table import DeviceTable


class View(str, Enum):
    """The tables about devices."""

    DEVICES = "devices"
    STEPS = "steps"
    STREAMS = "streams"
    GAPS = "gaps"
    LAUNCHES = "launches"
    QUEUES = "queues"
    COPIES = "copies"
    COLLECTIVES = "collectives"
    KERNELS = "kernels"
    SEQUENCES = "sequences"


_TABLES = f"The table to print: {', '.join(view.value for view in View)}."
_FUNCTIONS = {
    View.GAPS: "gap_table",
    View.LAUNCHES: "launch_table",
    View.QUEUES: "queue_table",
    View.COPIES: "copy_table",
    View.COLLECTIVES: "collective_table",
    View.KERNELS: "kernel_table",
    View.SEQUENCES: "kernel_sequences",
}
_GROUPED = (View.STEPS, View.GAPS, View.LAUNCHES)
_UNLIMITED = (View.QUEUES,)
_KERNEL_COLUMNS = {View.KERNELS: "name", View.SEQUENCES: "sequence"}
"""Columns of kernels' names, which are shortened for people."""
_NEXT = {
    View.STEPS: View.GAPS,
    View.STREAMS: View.QUEUES,
    View.GAPS: View.LAUNCHES,
    View.LAUNCHES: View.SEQUENCES,
    View.QUEUES: View.LAUNCHES,
    View.COPIES: View.GAPS,
    View.COLLECTIVES: View.STEPS,
    View.KERNELS: View.SEQUENCES,
    View.SEQUENCES: View.KERNELS,
}
_NEXT_BY_TIME = {
    "idle_ns": View.GAPS,
    "exposed_communication_ns": View.COLLECTIVES,
    "exposed_copy_ns": View.COPIES,
    "compute_ns": View.KERNELS,
}
"""What to look at next after the table of devices: where most of their time went."""


def devices(
    run: RunPath = DEFAULT_RUN,
    *,
    show_table: Annotated[View, typer.Option("--show", metavar="TABLE", help=_TABLES)] = View.DEVICES,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help="Group steps and gaps by device (default) or stream; launches by operator (default), kernel, call, "
            "stream, step or rank.",
        ),
    ] = None,
    row_limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows; 0 for all.")] = 20,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Print whether each device was working or waiting, and why it waited.

    By default, one row per device: how long it was busy and idle, idle time by cause, and communication and copies that
    were not hidden behind computation. The other tables show where that comes from: every step or stream, the longest
    gaps with what the host did meanwhile, launches, launch queues, copies, collectives, kernels, and sequences of
    kernels that could be fused. JSON without --show is an object with verdict, devices and steps, else an array.

    Examples:
      unified-profiler devices profile
      unified-profiler devices profile --show gaps
      unified-profiler devices --show launches --by kernel
      unified-profiler devices kineto.pt.trace.json.gz --show steps --json
    """
    if by is not None and show_table not in _GROUPED:
        msg = f"--by has no effect on {show_table.value}: it is for {', '.join(view.value for view in _GROUPED)}."
        raise ConfigurationError(msg)
    chosen = format_of(form, out, default=Format.TABLE, as_json=as_json)
    spoken = language_of(language)
    texts = _Texts(run, spoken)
    with working("adding", language=spoken):
        query_engine = engine_of(engine)
        source = read_selected(run, rank=rank, cycle=cycle, engine=query_engine, language=spoken)
        result = _result(show_table, source=source, by=by, engine=query_engine)
        footer = texts.footer(show_table, result, lambda: _has_devices(source, query_engine))
    table = replace(_table_of(show_table, result), footer=footer)
    _print(result, table, show_table, row_limit, chosen, out, spoken)


def _result(view: View, *, source: Any, by: str | None, engine: Any) -> Result:
    from unified_profiler import analysis

    options: dict[str, Any] = {"engine": engine, **({} if by is None else {"by": by})}
    if view not in _FUNCTIONS:
        return analysis.device_table(source, **({"by": "stream"} if view is View.STREAMS else {}) | options)
    if view not in _UNLIMITED:
        options["row_limit"] = None
    function: Callable[..., Result] = getattr(analysis, _FUNCTIONS[view])
    return function(source, **options)


def _has_devices(source: Any, engine: Any) -> bool:
    from unified_profiler.analysis import device_table

    return bool(len(device_table(source, engine=engine).devices))


def _table_of(view: View, result: Any) -> Result:
    table: Result = result.devices if view in (View.DEVICES, View.STREAMS) else result
    return table


def _print(result: Any, table: Result, view: View, row_limit: int, form: Format, out: Path | None, spoken: str) -> None:
    if form is Format.JSON and view is View.DEVICES:
        write_or_print(json.dumps(_as_json(result), indent=2) + "\n", out)
    elif form is not Format.TABLE:
        show(table, form, out=out, row_limit=row_limit)
    elif len(table):
        shown = _with_short_names(table, _KERNEL_COLUMNS.get(view))
        show(shown, form, out=out, most_rows=None, row_limit=row_limit, language=spoken)
    else:
        write_or_print("\n".join(table.footer) + "\n", out)


def _with_short_names(table: Result, column: str | None) -> Result:
    """Return the table with the names of kernels in one column shortened."""
    if column is None:
        return table
    from unified_profiler.presentation.kernel_names import short_kernel_names

    index, names = table.columns.index(column), table.table.column(column).to_pylist()
    return replace(table, table=table.table.set_column(index, column, [list(map(short_kernel_names, names))]))


def _as_json(table: DeviceTable) -> dict[str, Any]:
    return {
        "verdict": [statement.model_dump() for statement in table.verdict],
        "devices": table.devices.table.to_pylist(),
        "classes": table.classes.table.to_pylist(),
        "steps": table.table.to_pylist(),
    }


class _Texts:
    """The lines below a table: the verdict, and the command that shows more."""

    def __init__(self, run: str, language: str) -> None:
        self._run, self._language = run, language

    def footer(self, view: View, result: Any, has_devices: Callable[[], bool]) -> tuple[str, ...]:
        """Return the lines; `has_devices` is asked only if the table is empty."""
        if not len(result):
            known = view in _FUNCTIONS and has_devices()
            return (self._text(f"none.{view.value}" if known else "no_work"),)
        if view in _FUNCTIONS:
            return (self._next(_NEXT[view]),)
        return (*self._verdict(result), self._next(_NEXT.get(view) or _largest(result)))

    def _verdict(self, result: DeviceTable) -> list[str]:
        """Return the sentences about devices; of streams there are none, since a device works if any of them does."""
        from unified_profiler.presentation.texts import render_statement

        if any(row.stream is not None for row in result.devices.rows):
            return []
        return [render_statement("devices", each, language=self._language) for each in result.verdict]

    def _next(self, view: View) -> str:
        command = f"unified-profiler devices {shlex.quote(self._run)} --show {view.value}"
        return self._text(f"next.{view.value}", command=command)

    def _text(self, key: str, **values: str) -> str:
        from unified_profiler.presentation.texts import render_text

        return render_text(f"devices.{key}", values, language=self._language)


def _largest(table: DeviceTable) -> View:
    totals = {name: sum(getattr(row, name) for row in table.devices.rows) for name in _NEXT_BY_TIME}
    return _NEXT_BY_TIME[max(totals, key=totals.__getitem__)]
