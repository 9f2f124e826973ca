"""`critical_path`: the chain of operators, kernels, gaps and waits that determines how long a step takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from unified_profiler.analysis.critical_path.collectives import arrivals_of
from unified_profiler.analysis.critical_path.columns import COLUMNS
from unified_profiler.analysis.critical_path.pieces import PATH_FACTS, PathRequest, path_facts
from unified_profiler.analysis.critical_path.stitching import Stitcher
from unified_profiler.analysis.rank_steps import align_clocks
from unified_profiler.analysis.sql import load
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source
from unified_profiler.engine.contract import collected
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.registry import conventions

_HEADINGS: Mapping[str, str] = {
    "rank": "Rank",
    "kind": "Kind",
    "name": "Name",
    "op": "Operator",
    "path_ns": "Time on path",
    "path_share": "Share",
    "segment_count": "Segments",
}


@dataclass(frozen=True, repr=False)
class CriticalPath(Result):
    """The segments of the critical path of each step, in order of time.

    The segments of a step cover its wall time exactly: each moment has one reason why time passes. Printed, it shows
    `contributions`.
    """

    @cached_property
    def contributions(self) -> Result:
        """How much of the path each rank, kind and name takes, the largest first."""
        sql = load("critical_path_contributions")
        table = DuckDBEngine().run(sql, tables={"segments": self.table})
        several = len(set(table.column("rank").to_pylist())) > 1
        headings = {name: heading for name, heading in _HEADINGS.items() if several or name != "rank"}
        return Result(table=table, headings=headings, footer=self.footer, sorted_by="path_ns")

    def __str__(self) -> str:
        """Return the contributions as an aligned table."""
        return str(self.contributions)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the contributions for notebooks."""
        return self.contributions._repr_html_()


@checked_keywords
def critical_path(
    source: Source, *, step: int | None = None, rank: int | None = None, engine: Engine | None = None
) -> CriticalPath:
    """Return the critical path of each step: what would have to be faster for the step to be faster.

    The path is followed backward from the end of the step. Host threads, streams of devices and ranks depend on one
    another through launches, synchronization, calls on other threads and collectives; at each moment the path is on the
    one that the others wait for. Its segments are operators (`op`), `kernel`, `copy`, `collective`, calls of the
    `runtime`, `sync` (the part of a synchronizing call after the device has finished), `compile`, `data` (loading),
    `gap` (a thread in no operator: Python), `launch` (latency between a launch and its work) and `delay` (a stream that
    starts later than anything recorded explains). A run without steps has one path, that of the whole recording.

    Args:
        source: A Trace or a Run. The path of a run leads from rank to rank.
        step: Only the path of this step.
        rank: The rank on which paths end; the one that ends last in each step if not given.
        engine: Executes the queries; the embedded DuckDB if not given.

    Raises:
        ConfigurationError: The step or the rank was not recorded.

    Example:
        >>> print(critical_path(read("profile"), step=12))
    """
    run, engine = Run.of(source), engine or DuckDBEngine()
    run = on_one_clock(run, engine)
    arrivals, starts = arrivals_of(run.traces, conventions(), engine)
    request = PathRequest(conventions=conventions(), arrivals=arrivals, starts=starts, step=step)
    function = partial(path_facts, request=request)
    facts = engine.each_trace(run.traces, function, columns=COLUMNS, schema=PATH_FACTS)
    paths = Stitcher(collected(facts, engine).cast(PATH_FACTS), rank=rank).paths()
    check_recorded(paths, step=step, rank=rank)
    return CriticalPath(table=paths, sorted_by="start_ns")


def on_one_clock(run: Run, engine: Engine) -> Run:
    """Return the run with the clocks of its machines aligned, if it is known that there are several."""
    hosts = {trace.info.host for trace in run.traces}
    return align_clocks(run, engine=engine) if len(hosts) > 1 and all(hosts) else run


def check_recorded(table: pa.Table, *, step: int | None, rank: int | None = None) -> None:
    """Check that a step, or the steps of a rank, were recorded.

    Raises:
        ConfigurationError: The table of the results is empty.
    """
    if len(table) or step is rank is None:
        return
    wanted = ", ".join(f"{name} {value!r}" for name, value in (("step", step), ("rank", rank)) if value is not None)
    msg = f"The recording has no {wanted}. Leave out `step` for all recorded steps, `rank` for the last in each step."
    raise ConfigurationError(msg)
