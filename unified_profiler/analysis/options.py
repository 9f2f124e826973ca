"""Checking the options that tables share, with one wording: a name out of some, the order of rows, how many of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from unified_profiler.errors import ConfigurationError

_Choice = TypeVar("_Choice")


def chosen(option: str, name: object, choices: Mapping[str, _Choice]) -> _Choice:
    """Return what a name stands for.

    Raises:
        ConfigurationError: It is none of the choices; the message suggests the nearest.
    """
    if isinstance(name, str) and name in choices:
        return choices[name]
    close = get_close_matches(str(name), choices, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    msg = f"`{option}` must be one of {', '.join(choices)}; found {name!r}.{hint}"
    raise ConfigurationError(msg)


def order_by(column: str, *, keys: Sequence[str], measures: Collection[str]) -> str:
    """Return the SQL of an order by one column: the largest measure first, keys in order, and ties by the keys."""
    first = f"{column} desc nulls last" if column in measures else f"{column} asc nulls last"
    return ", ".join([first, *(f"{key} asc nulls last" for key in keys if key != column)])


def check_row_limit(row_limit: object) -> None:
    """Check the most rows to give.

    Raises:
        ConfigurationError: It is no number of rows.
    """
    if row_limit is None or (isinstance(row_limit, int) and row_limit >= 0):
        return
    msg = f"`row_limit` must be a whole number of at least 0, or None for all rows; found {row_limit!r}."
    raise ConfigurationError(msg)
