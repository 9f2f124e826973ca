"""Tables selected from device work: `gap_table`, `launch_table`, `queue_table`, `copy_table`, `collective_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unified_profiler.analysis.devices import work
from unified_profiler.analysis.devices.queues import LENGTHS, length_counts, summarized
from unified_profiler.analysis.devices.views import view
from unified_profiler.analysis.options import check_row_limit, chosen
from unified_profiler.analysis.sql import load
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, traces_of
from unified_profiler.engine.contract import collected
from unified_profiler.keywords import checked_keywords
from unified_profiler.presentation.kernel_names import SEPARATOR

_LAUNCH_KEYS = {
    "operator": ("operator",),
    "kernel": ("name",),
    "call": ("launch_name",),
    "stream": ("rank", "device", "stream"),
    "step": ("rank", "step"),
    "rank": ("rank",),
}
_GAPS = {"device": "device_gaps", "stream": "stream_gaps"}


@checked_keywords
def gap_table(
    source: Source, *, by: str = "device", row_limit: int | None = 20, engine: Engine | None = None
) -> Result:
    """List the longest times in which a device was idle, with the cause and what the host did meanwhile.

    `cause` is one of those of `device_table`. `host_activity` is what the thread that launched the next work spent most
    of the gap in: an operator, a call of the runtime or a Python frame, null if nothing was recorded for most of it;
    `host_region` is the user's region around that, and `host_source` its Python frame where stacks were recorded. These
    are known for the 20 longest gaps of each trace.

    Args:
        source: A Trace or a Run.
        by: `device` for times in which the whole device was idle, or `stream`.
        row_limit: The most rows to return.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    headings = {
        "rank": "Rank",
        "device": "Device",
        "stream": "Stream",
        "step": "Step",
        "duration_ns": "Idle",
        "cause": "Cause",
        "host_activity": "Host activity",
        "host_activity_ns": "Time in it",
        "host_region": "Region",
        "host_source": "Source",
        "next_work": "Next work",
    }
    if by != "stream":
        del headings["stream"]
    return _selected(source, chosen("by", by, _GAPS), "gap_table", headings, row_limit=row_limit, engine=engine)


@checked_keywords
def launch_table(
    source: Source, *, by: str = "operator", row_limit: int | None = None, engine: Engine | None = None
) -> Result:
    """Sum up the launches of device work: how long the calls took, and how long the work waited to begin.

    `delay_ns` is the time from the end of the launch call to the start of the work: on average, in the median and at
    most. It is long where the device is busy with earlier work, and a few microseconds where it is idle. `short_count`
    counts work that was shorter than the call that launched it: many of these mean that the host cannot keep the device
    busy.

    Args:
        source: A Trace or a Run.
        by: What launches are grouped by: `operator` (the innermost one around the call), `kernel`, `call`, `stream`,
            `step` or `rank`.
        row_limit: The most rows to return.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    keys = chosen("by", by, _LAUNCH_KEYS)
    headings = {
        **_key_headings(keys),
        "work_count": "Launches",
        "launch_ns": "Launch calls",
        "work_ns": "Work",
        "delay_ns": "Delay avg",
        "delay_median_ns": "Delay median",
        "delay_max_ns": "Delay max",
        "short_count": "Shorter than launch",
    }
    order = ", ".join(f"{key} nulls last" for key in keys)
    return _selected(
        source,
        "device_work",
        "launch_table",
        headings,
        row_limit=row_limit,
        engine=engine,
        keys=", ".join(keys),
        order=order,
    )


@checked_keywords
def queue_table(source: Source, *, full: int = 1024, engine: Engine | None = None) -> Result:
    """Summarize how many launches were waiting in the queue of each stream.

    A launch waits from the beginning of its call to the start of its work. The figures are over all changes of the
    queue; `empty_share` is the share of time in which nothing was waiting, and `full_ns` the time in which at least
    `full` launches were, when CUDA blocks the host in the next launch.

    Args:
        source: A Trace or a Run.
        full: The length from which on a queue is full; that of CUDA by default.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    headings = {
        **_key_headings(("rank", "device", "stream")),
        "change_count": "Changes",
        "length_mean": "Mean",
        "length_deviation": "Deviation",
        "length_min": "Min",
        "length_p25": "25%",
        "length_median": "Median",
        "length_p75": "75%",
        "length_max": "Max",
        "empty_share": "Empty",
        "full_ns": "Full",
    }
    engine = engine or DuckDBEngine()
    columns = ("rank", *work.COLUMNS)
    lengths = engine.each_trace(traces_of(source), length_counts, columns=columns, schema=LENGTHS)
    return Result(table=summarized(collected(lengths, engine), full=int(full)), headings=headings)


@checked_keywords
def copy_table(source: Source, *, row_limit: int | None = None, engine: Engine | None = None) -> Result:
    """Sum up the copies of devices by kind: bytes, time and bandwidth, and whether host memory was pinned.

    Bandwidths are in GB/s: `bandwidth` of all bytes in all the time, the others of single copies. Setting memory counts
    as copying. Copies of an unknown size count only for `copy_count` and `duration_ns`.

    Args:
        source: A Trace or a Run.
        row_limit: The most rows to return.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    headings = {
        **_key_headings(("rank", "device", "name", "memory")),
        "copy_count": "Copies",
        "total_bytes": "Bytes",
        "duration_ns": "Time",
        "bandwidth": "GB/s",
        "bandwidth_min": "Min",
        "bandwidth_median": "Median",
        "bandwidth_max": "Max",
    }
    return _selected(source, "device_work", "copy_table", headings, row_limit=row_limit, engine=engine)


@checked_keywords
def collective_table(source: Source, *, row_limit: int | None = None, engine: Engine | None = None) -> Result:
    """Sum up the collectives of devices by operation, process group and size: bytes, time and bandwidth.

    `size_class` is the smallest power of two that is not below the bytes of one collective. `algorithm_bandwidth` is
    bytes by time in GB/s. `bus_bandwidth` multiplies it with the share of the data that crosses a link, as in
    nccl-tests: 2 (n - 1) / n for an all-reduce of n ranks, (n - 1) / n for gathers, scatters and all-to-all, 1 for
    others; it compares with the speed of the hardware. Where a profiler did not record sizes, these are null.

    Args:
        source: A Trace or a Run.
        row_limit: The most rows to return.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    headings = {
        "rank": "Rank",
        "collective": "Collective",
        "process_group": "Group",
        "group_size": "Ranks",
        "size_class_bytes": "Up to",
        "collective_count": "Calls",
        "total_bytes": "Bytes",
        "duration_ns": "Time",
        "duration_median_ns": "Median",
        "algorithm_bandwidth": "Alg. GB/s",
        "bus_bandwidth": "Bus GB/s",
    }
    return _selected(source, "device_work", "collective_table", headings, row_limit=row_limit, engine=engine)


@checked_keywords
def kernel_table(source: Source, *, row_limit: int | None = None, engine: Engine | None = None) -> Result:
    """Sum up kernels by name and input shapes: total time, and how much single calls differ.

    `shapes` are the inputs of the operator that launched the kernel, where recorded. `variation` is the standard
    deviation by the mean: calls of one kernel with the same shapes should take the same time.

    Args:
        source: A Trace or a Run.
        row_limit: The most rows to return.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    headings = {
        "name": "Kernel",
        "shapes": "Shapes",
        "call_count": "Calls",
        "duration_ns": "Time",
        "work_share": "Time %",
        "mean_ns": "Mean",
        "min_ns": "Min",
        "median_ns": "Median",
        "p95_ns": "95%",
        "max_ns": "Max",
        "variation": "Variation",
    }
    return _selected(source, "device_work", "kernel_table", headings, row_limit=row_limit, engine=engine)


@checked_keywords
def kernel_sequences(
    source: Source, *, length: int = 3, row_limit: int | None = 20, engine: Engine | None = None
) -> Result:
    """List the sequences of kernels that most often follow one another on a stream, which could be fused.

    `sequence` has their names with " → " between them, `duration_ns` is the time of the kernels, `gap_ns` the time
    between them and `launch_ns` the calls that launch all but the first: the last two are what fusing saves at least.
    Occurrences may overlap.

    Args:
        source: A Trace or a Run.
        length: The number of kernels in a sequence, from 2 to 8.
        row_limit: The most rows to return.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    count = chosen("length", str(length), {str(number): number for number in range(2, 9)})
    headings = {"sequence": "Sequence", "call_count": "Count", "duration_ns": "Time", "gap_ns": "Between"}
    names = [f"(lead(name, {index}) over ahead)" for index in range(1, count)]
    launches = [f"coalesce((lead(launch_ns, {index}) over ahead), 0)" for index in range(1, count)]
    durations = [f"(lead(duration_ns, {index}) over ahead)" for index in range(1, count)]
    return _selected(
        source,
        "device_work",
        "kernel_sequences",
        {**headings, "launch_ns": "Launch calls"},
        row_limit=row_limit,
        engine=engine,
        names=f" || '{SEPARATOR}' || ".join(["name", *names]),
        launches=" + ".join(launches),
        durations=" + ".join(["duration_ns", *durations]),
        last=str(count - 1),
    )


def _key_headings(keys: Sequence[str]) -> dict[str, str]:
    return {key: key.replace("_", " ").capitalize() for key in keys}


def _selected(
    source: Source,
    view_name: str,
    sql_name: str,
    headings: Mapping[str, str],
    *,
    engine: Engine | None,
    row_limit: int | None = None,
    **names: str,
) -> Result:
    """Run a query file over a view."""
    check_row_limit(row_limit)
    engine = engine or DuckDBEngine()
    sql = load(sql_name, view=view_name, **names)
    selected = view(view_name, source, engine, named_in=None if "select *\n" in sql else sql)
    return Result(table=engine.run(sql, tables={view_name: selected}).slice(0, row_limit), headings=headings)
