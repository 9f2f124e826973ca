"""Writes API calls to files of a limited size: sorts the calls and splits them into files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.options import chosen
from unified_profiler.delivery.run_writer import check_output_dir
from unified_profiler.engine import Source, traces_of
from unified_profiler.errors import ConfigurationError, ExportError
from unified_profiler.export.compat.api_call_layouts import ApiCalls, Layout, csv_table, json_tree
from unified_profiler.export.compat.file_names import NAME_SPECS, move_to_free_name, numbered_names
from unified_profiler.export.row_text import row_blocks
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.nesting import Ints, whole_numbers
from unified_profiler.model.schema import Kind
from unified_profiler.presentation.units import parse_bytes

FORMATS: Mapping[str, Callable[[ApiCalls], Layout]] = MappingProxyType({"json": json_tree, "csv": csv_table})
_STEM = "api_calls"


@checked_keywords
def write_api_calls(
    source: Source,
    out_dir: str | os.PathLike[str] = "output",
    *,
    format: str = "json",  # noqa: A002  what users of TorchWrapper call it
    file_max_size: str | int = "128MB",
    file_name_spec: str = "timestamp",
) -> list[Path]:
    """Write every API call with its time and arguments to one or more files.

    Calls are sorted by API, in the order of their first calls, and then by start. Each file can be read on its own: one
    that starts in the middle of an API repeats its name and total. Files get their names only after all are written,
    and no existing file is overwritten.

    Args:
        source: A Trace or a Run that was recorded with `api=True`; of a run, all ranks and cycles together.
        out_dir: The directory to write to; created if missing.
        format: `json`, a tree of APIs and their calls, or `csv`, a table with a row for each call.
        file_max_size: The maximum size of a file: bytes, or text such as "10MB" (of 1000) or "1.5MiB" (of 1024).
        file_name_spec: How files are named: `timestamp` (nanoseconds since the epoch), `datetime` (local time) or
            `serial`, which continues the numbers of earlier files.

    Returns:
        The files, in order.

    Raises:
        ConfigurationError: An option is wrong, or the size is too small for one of the calls.
        OutputDirectoryError: The directory is a file, or cannot be written to.
        ExportError: The source contains no API call, or a file cannot be written.
    """
    lay_out = chosen("format", format, FORMATS)
    stamp = chosen("file_name_spec", file_name_spec, NAME_SPECS)
    limit, folder = parse_bytes(file_max_size, option="file_max_size"), Path(out_dir)
    check_output_dir(folder, option="out_dir")
    calls = _calls(source)
    layout = lay_out(calls)
    parts = list(_split(calls, layout, limit))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = numbered_names(folder, _STEM + stamp(), layout.suffix, own_series=file_name_spec != "serial")
        return _write(calls, layout, parts, folder, names)
    except OSError as error:
        msg = f"API calls cannot be written to {folder}: {error}. Choose another `out_dir`, or free some space."
        raise ExportError(msg) from error


def _calls(source: Source) -> ApiCalls:
    columns = ["name", "start_ns", "duration_ns", "attributes"]
    tables = [trace.events.select([*columns, "kind"]) for trace in traces_of(source)]
    calls = [table.filter(pc.equal(table.column("kind"), Kind.API_CALL.value)).select(columns) for table in tables]
    if not any(map(len, calls)):
        msg = f"{source!r} contains no API call, so there is nothing to write. Record it with Profiler(api=True)."
        raise ExportError(msg)
    return _sorted(pa.concat_tables(calls).unify_dictionaries())


def _sorted(calls: pa.Table) -> ApiCalls:
    """Sort the calls by the first start of their API and by their own start, and number them."""
    name, attributes = (calls.column(name).combine_chunks() for name in ("name", "attributes"))
    start, duration = (whole_numbers(calls.column(name)) for name in ("start_ns", "duration_ns"))
    codes = name.indices.to_numpy()
    by_start = np.argsort(start, kind="stable")
    used, first = np.unique(codes[by_start], return_index=True)
    by_first_call = used[np.argsort(first)]
    index = np.zeros(len(name.dictionary), np.int64)
    index[by_first_call] = np.arange(len(used))
    order = by_start[np.argsort(index[codes[by_start]], kind="stable")]
    api = index[codes[order]]
    begins = np.searchsorted(api, np.arange(len(used)))
    return ApiCalls(
        names=name.dictionary.take(pa.array(by_first_call)).to_pylist(),
        total_ns=np.add.reduceat(duration[order], begins),
        api=api,
        number=np.arange(len(order)) - begins[api] + 1,
        start_ns=start[order],
        duration_ns=duration[order],
        attributes=attributes.take(pa.array(order)),
    )


def _split(calls: ApiCalls, layout: Layout, limit: int) -> Iterator[range]:
    """Yield the rows of each file, as many as fit.

    Raises:
        ConfigurationError: A single call is too large for a file.
    """
    size = np.concatenate(
        [pc.binary_length(layout.call.texts(rows)).to_numpy() for rows in row_blocks(range(len(calls.api)))]
    )
    heading = np.array([len(text.encode()) for text in layout.headings])[calls.api]
    alone = size + heading + len(layout.opening + layout.closing)
    _check_limit(calls, alone, limit)
    is_next_api = np.diff(calls.api, prepend=calls.api[0]) > 0
    reached = np.cumsum(size + np.where(is_next_api, heading + len(layout.between), 0))
    first = 0
    while first < len(size):
        after = int(np.searchsorted(reached, reached[first] + limit - alone[first], side="right"))
        yield range(first, after)
        first = after


def _check_limit(calls: ApiCalls, alone: Ints, limit: int) -> None:
    largest = int(np.argmax(alone))
    if alone[largest] > limit:
        msg = (
            f"`file_max_size` must be at least {alone[largest]} bytes, the size of a file with one call of "
            f"{calls.names[calls.api[largest]]}; found {limit} bytes."
        )
        raise ConfigurationError(msg)


def _write(calls: ApiCalls, layout: Layout, parts: Sequence[range], folder: Path, names: Iterator[Path]) -> list[Path]:
    """Write all files, then rename them."""
    with tempfile.TemporaryDirectory(prefix=f".{_STEM}.", dir=folder) as temporary:
        files = [Path(temporary, str(number)) for number in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            with file.open("wb") as opened:
                opened.writelines(_document(calls, layout, part))
        return [move_to_free_name(file, names) for file in files]


def _document(calls: ApiCalls, layout: Layout, part: range) -> Iterator[Any]:
    api = calls.api[part.start : part.stop]
    begins = part.start + np.flatnonzero(np.diff(api, prepend=-1))
    yield layout.opening.encode()
    for first, after in zip(begins.tolist(), [*begins[1:].tolist(), part.stop], strict=True):
        yield ((layout.between if first > part.start else "") + layout.headings[calls.api[first]]).encode()
        for rows in row_blocks(range(first, after)):
            yield layout.call.buffer(rows)
    yield layout.closing.encode()
