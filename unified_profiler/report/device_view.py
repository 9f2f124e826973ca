"""Builds the data of the devices page: breakdown of each step, timelines of streams, and tables, limited in size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis import (
    Result,
    collective_table,
    copy_table,
    device_table,
    gap_table,
    kernel_sequences,
    kernel_table,
    launch_table,
    queue_table,
)
from unified_profiler.analysis.devices.table import DeviceTable
from unified_profiler.model.run import Run
from unified_profiler.presentation.kernel_names import short_kernel_names
from unified_profiler.presentation.texts import shortened
from unified_profiler.report.device_timeline import CATEGORIES, device_timelines
from unified_profiler.report.thinning import thin_keeping_maxima

MOST_STEPS = 300
"""Steps of one device in the breakdown; of more, those with the longest idle times of each group are kept."""
MOST_ROWS = 50
"""Rows of the tables of gaps, launches, copies, collectives, kernels and sequences."""
MOST_DEVICES = 512
"""Rows of the tables of devices, streams and queues."""
DIGITS = 4
"""Significant digits of bandwidths and other numbers without a unit."""


def device_view(run: Run, table: DeviceTable, *, ranks: Sequence[int], origin_ns: int) -> dict[str, Any]:
    """Return the data as JSON; the verdict is in the summary.

    Args:
        run: The run.
        table: Its `device_table`.
        ranks: The ranks with steps and timelines of their own.
        origin_ns: Time zero of the page.
    """
    launches = launch_table(run)
    timelines = device_timelines(run, ranks=ranks, origin_ns=origin_ns)
    return {
        "devices": _table(table.devices, without=("stream", "step"), most=MOST_DEVICES),
        "streams": _table(device_table(run, by="stream").devices, without=("step",), most=MOST_DEVICES),
        "steps": _steps(table, ranks),
        "gaps": _gaps(gap_table(run, row_limit=None)),
        "launches": _table(launches),
        "launched": {name: pc.sum(launches.table.column(name)).as_py() or 0 for name in ("work_count", "short_count")},
        "queues": _table(queue_table(run), most=MOST_DEVICES),
        "copies": _table(copy_table(run)),
        "collectives": _table(collective_table(run)),
        "kernels": _table(kernel_table(run), kernels_in="name"),
        "sequences": _table(kernel_sequences(run, row_limit=None), without=("sequence",), kernels_in="sequence"),
        "categories": CATEGORIES,
        "timelines": timelines.documents,
        "steps_without_timeline": timelines.left_out,
    }


def _table(
    result: Result, *, without: Sequence[str] = (), most: int = MOST_ROWS, kernels_in: str | None = None
) -> dict[str, Any]:
    """Return the first rows of a table.

    Args:
        result: The table.
        without: Columns to leave out.
        most: The most rows.
        kernels_in: A column with names of kernels, or sequences of them; the column `kernel` has them in short.
    """
    rows = result.table.slice(0, most)
    columns = {name: rows.column(name).to_pylist() for name in result.columns if name not in without}
    if kernels_in is not None:
        columns["kernel"] = [short_kernel_names(text) for text in rows.column(kernels_in).to_pylist()]
    cells = [[_cell(value, name) for value in values] for name, values in columns.items()]
    return {
        "columns": list(columns),
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "left_out": max(0, len(result) - most),
    }


def _gaps(result: Result) -> dict[str, Any]:
    """Return the longest gaps, and which share of all idle time they are."""
    idle = result.table.column("duration_ns")
    listed = (pc.sum(idle.slice(0, MOST_ROWS)).as_py() or 0) / (pc.sum(idle).as_py() or 1)
    unused = ("stream", "cycle", "start_ns", "launch_start_ns")
    return {**_table(result, without=unused, kernels_in="next_work"), "listed_share": listed}


def _cell(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return shortened(value)
    if not isinstance(value, float) or name.endswith("_share"):
        return value
    return round(value) if name.endswith("_ns") else float(f"{value:.{DIGITS}g}")


def _steps(table: DeviceTable, ranks: Sequence[int]) -> dict[str, Any]:
    """Return the steps of each device of the given ranks, in order."""
    rank, idle = (table.table.column(name).to_numpy() for name in ("rank", "idle_ns"))
    device = np.array(table.table.column("device").to_pylist(), dtype=object)
    kept = [np.zeros(0, np.int64)]
    for number, name in dict.fromkeys(zip(rank.tolist(), device.tolist(), strict=True)):
        rows = np.flatnonzero((rank == number) & (device == name))
        if number in ranks:
            kept.append(rows[np.sort(thin_keeping_maxima(idle[rows], MOST_STEPS))])
    chosen = np.concatenate(kept)
    part: Mapping[str, Any] = _table(
        Result(table=table.table.take(pa.array(chosen))), without=("stream",), most=len(chosen)
    )
    return {**part, "left_out": int(np.isin(rank, list(ranks)).sum()) - len(chosen)}
