"""The choices of `diff(by=...)`: how events are grouped into rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from unified_profiler.analysis.categories import OTHER, category_of_operator
from unified_profiler.comparison.api_names import common_name
from unified_profiler.comparison.keys import Key, Keys, column_keys
from unified_profiler.comparison.pieces import PYTHON, Pieces, api_pieces, operator_pieces, region_pieces
from unified_profiler.model.schema import EventTable

UNNAMED = "unnamed"
"""The group of events without a canonical operator."""
PYTHON_GROUP = "python"
OPTIMIZER = "optimizer"


@dataclass(frozen=True)
class Grouping:
    """One choice of `by`."""

    pieces: Callable[[EventTable], Pieces]
    is_canonical: bool = False
    """Whether rows are canonical operators, which are shown by category and may be merged into families."""


_by_name = partial(column_keys, name="name")


def groupings(*, across_frameworks: bool) -> Mapping[str, Grouping]:
    """Return the choices of `by`."""
    api = partial(api_pieces, called=common_name if across_frameworks else str)
    canonical = partial(operator_pieces, part=_by_name, canonical=True)
    return {
        "origin": Grouping(partial(canonical, row=_with_direction("origin")), is_canonical=True),
        "op": Grouping(partial(canonical, row=_with_direction("op")), is_canonical=True),
        "name": Grouping(partial(operator_pieces, row=_by_name, part=partial(column_keys, name="input_shapes"))),
        "module": Grouping(partial(operator_pieces, row=partial(column_keys, name="module"), part=_by_name)),
        "region": Grouping(region_pieces),
        "api": Grouping(api),
    }


def group_of(key: Key) -> str:
    """Return the group of a canonical operator; everything that updates parameters belongs to the optimizer."""
    name, direction = key
    if name is None:
        return UNNAMED
    if name == PYTHON:
        return PYTHON_GROUP
    if direction == "update":
        return OPTIMIZER
    return category_of_operator().get(name, OTHER)


def _with_direction(column: str) -> Callable[[EventTable], Keys]:
    return partial(column_keys, name=column, direction="direction")
