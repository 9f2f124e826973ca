"""Checks the options that analyses share: choices by name, shares of a whole, row order and row limit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import did_you_mean

_Choice = TypeVar("_Choice")
_FEW = 10
"""Choices that are named although the nearest one is suggested."""


def chosen(
    option: str, name: object, choices: Mapping[str, _Choice], *, other_names: Mapping[str, _Choice] | None = None
) -> _Choice:
    """Return the choice of that name.

    Args:
        option: The option, for the message.
        name: The name that was given.
        choices: The choices by name.
        other_names: Choices by names that are accepted, too, but not listed.

    Raises:
        ConfigurationError: There is none; the message suggests the nearest, or names them all.
    """
    accepted = {**(other_names or {}), **choices}
    if isinstance(name, str) and name in accepted:
        return accepted[name]
    hint, names = did_you_mean(name, accepted), list(choices)
    shown = [*names[:_FEW], "..."] if hint and len(names) > _FEW else names
    msg = f"`{option}` cannot be {name!r}.{hint} It must be one of {', '.join(shown)}."
    raise ConfigurationError(msg)


def order_by(column: str, *, keys: Sequence[str], measures: Collection[str]) -> str:
    """Return the SQL that sorts by one column: measures descending, keys ascending, ties by the keys."""
    first = f"{column} desc nulls last" if column in measures else f"{column} asc nulls last"
    return ", ".join([first, *(f"{key} asc nulls last" for key in keys if key != column)])


def check_row_limit(row_limit: object) -> None:
    """Check a row limit.

    Raises:
        ConfigurationError: It is not a number of rows.
    """
    if row_limit is None or (isinstance(row_limit, int) and row_limit >= 0):
        return
    msg = f"`row_limit` must be a whole number of at least 0, or None for all rows; found {row_limit!r}."
    raise ConfigurationError(msg)


def part_of(option: str, value: float | str) -> float:
    """Return a share of a whole, given as a fraction or in percent.

    Raises:
        ConfigurationError: It is neither, or is not in [0, 1).
    """
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", str(value).strip())
    part = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if 0 <= part < 1:
        return part
    msg = f"`{option}` must be a part of 1 such as 0.05, or a percentage such as 5%; found {value!r}."
    raise ConfigurationError(msg)
