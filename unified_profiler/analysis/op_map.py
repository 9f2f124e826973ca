"""`with_op_map`: applies a user's map of native names to canonical operators, which overrides that of the backends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Coded, coded
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.columns import dictionary_array
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.model.schema import TEXT, EventTable
from unified_profiler.model.trace import Trace
from unified_profiler.toml_files import TomlError, parse_toml

_COLUMNS = ("op", "origin", "direction")
_DIRECTIONS = ("forward", "backward", "update", "recompute")


@dataclass(frozen=True)
class OpMap:
    """The operator of each native name or pattern with * and ?, by column. An exact name beats a pattern."""

    op: Mapping[str, str]
    origin: Mapping[str, str]
    direction: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> OpMap:
        """Read a map.

        Raises:
            ConfigurationError: The file cannot be read or is not an operator map.
        """
        try:
            sections = parse_toml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, TomlError) as error:
            msg = f"The operator map {path} cannot be read: {error}. {_EXPECTED}"
            raise ConfigurationError(msg) from error
        for name, entries in sections.items():
            _check(path, name, entries)
        return cls(**{name: sections.get(name, {}) for name in _COLUMNS})


_EXPECTED = (
    'Expected TOML with any of the sections [op], [origin] and [direction], such as: [origin] "mylib::*" = "Gemm".'
)


def _check(path: Path, name: str, entries: Any) -> None:
    if name not in _COLUMNS or not isinstance(entries, dict):
        msg = f"The operator map {path} has {name!r}, which is not one of its sections. {_EXPECTED}"
        raise ConfigurationError(msg)
    for key, value in entries.items():
        if not isinstance(value, str) or not value:
            msg = f"The operator map {path} gives {value!r} for {key!r} in [{name}]; expected the name of an operator."
            raise ConfigurationError(msg)
        if name == "direction" and value not in _DIRECTIONS:
            msg = f"The operator map {path} gives {value!r} for {key!r}; expected one of {', '.join(_DIRECTIONS)}."
            raise ConfigurationError(msg)


@overload
def with_op_map(source: Trace, path: str | Path) -> Trace: ...


@overload
def with_op_map(source: Run, path: str | Path) -> Run: ...


@checked_keywords
def with_op_map(source: Trace | Run, path: str | Path) -> Trace | Run:
    """Return a Trace or a Run in which some events have other operators than the backends assigned.

    The map is a TOML file with up to three sections. `[op]` is the operator of an event, `[origin]` the one that caused
    it and everything inside it, `[direction]` (forward, backward, update or recompute) applies to everything inside it
    as well. The keys are native names, as `op_table` shows them, and may contain * and ?.

    Args:
        source: A Trace or a Run.
        path: The file.

    Raises:
        ConfigurationError: The file cannot be read or is not an operator map.
    """
    op_map = OpMap.read(Path(path))
    if isinstance(source, Trace):
        return _mapped_trace(source, op_map)
    return replace(source, traces=tuple(_mapped_trace(trace, op_map) for trace in source.traces))


def _mapped_trace(trace: Trace, op_map: OpMap) -> Trace:
    return Trace(lambda columns: _mapped(trace.events, op_map).select(columns), trace.info)


def _mapped(events: EventTable, op_map: OpMap) -> EventTable:
    names = coded(events, "name")
    for column in _COLUMNS:
        entries: Mapping[str, str] = getattr(op_map, column)
        if entries:
            indices = _entry_indices(names, entries)
            if column != "op":
                indices = _inherited(events, indices)
            events = _replaced(events, column, indices, [*entries.values()])
    return events


def _entry_indices(names: Coded, entries: Mapping[str, str]) -> Ints:
    """Return the index of the entry that matches each event's name, -1 for none."""
    exact = {key: index for index, key in enumerate(entries)}
    patterns = [(re.compile(translate(key)), index) for key, index in exact.items() if "*" in key or "?" in key]

    def find(name: str) -> int:
        return exact.get(name, next((index for pattern, index in patterns if pattern.match(name)), -1))

    return np.array([*map(find, names.values), -1], np.int64)[names.codes]


def _inherited(events: EventTable, indices: Ints) -> Ints:
    """Give events without an entry that of the nearest enclosing event."""
    parent = parent_rows(events)
    owner = nearest(np.arange(len(indices)), parent=parent, wanted=indices >= 0)
    return np.where(owner >= 0, indices[owner], -1)


def _replaced(events: EventTable, column: str, indices: Ints, values: list[str]) -> EventTable:
    before = coded(events, column)
    texts = [*before.values, *values]
    codes = np.where(indices >= 0, indices + len(before.values), before.codes)
    merged = dictionary_array(codes, pa.array(texts, pa.string())).cast(pa.string()).cast(TEXT)
    return events.set_column(events.schema.get_field_index(column), events.schema.field(column), merged)
