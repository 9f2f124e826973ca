"""What rows can be made of: `by`, and what each choice means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

from unified_profiler.analysis.categories import OTHER, operators_by_category
from unified_profiler.comparison.api_names import common_name
from unified_profiler.comparison.keys import Key, Keys, combined
from unified_profiler.comparison.pieces import PYTHON, Pieces, api_pieces, operator_pieces, region_pieces
from unified_profiler.model.schema import EventTable

UNNAMED = "unnamed"
"""Group of what has no canonical operator."""
PYTHON_GROUP = "python"
OPTIMIZER = "optimizer"


@dataclass(frozen=True)
class Level:
    """One way to compare."""

    pieces: Callable[[EventTable], Pieces]
    grouped: bool = False
    """Whether rows are canonical operators, which stand in groups and may be folded into families."""


_named = partial(combined, name="name")


def levels(*, across_frameworks: bool) -> Mapping[str, Level]:
    """Return what runs can be compared by."""
    api = partial(api_pieces, called=common_name if across_frameworks else str)
    canonical = partial(operator_pieces, part=_named, canonical=True)
    return {
        "origin": Level(partial(canonical, row=_directed("origin")), grouped=True),
        "op": Level(partial(canonical, row=_directed("op")), grouped=True),
        "name": Level(partial(operator_pieces, row=_named, part=partial(combined, name="input_shapes"))),
        "module": Level(partial(operator_pieces, row=partial(combined, name="module"), part=_named)),
        "region": Level(region_pieces),
        "api": Level(api),
    }


def group_of(key: Key) -> str:
    """Return the group of a canonical operator; whatever updates parameters belongs to the optimizer."""
    name, direction = key
    if name is None:
        return UNNAMED
    if name == PYTHON:
        return PYTHON_GROUP
    if direction == "update":
        return OPTIMIZER
    return _categories().get(name, OTHER)


@cache
def _categories() -> dict[str, str]:
    return {op: name for name, operators in operators_by_category().items() for op in operators}


def _directed(column: str) -> Callable[[EventTable], Keys]:
    return partial(combined, name=column, direction="direction")
