"""Families of canonical operators: different names for work that is partly the same."""

from __future__ import annotations

from functools import cache

from unified_profiler.comparison.keys import Key
from unified_profiler.toml_files import packaged_toml


@cache
def families() -> dict[str, str]:
    """Return the family of each operator that has one."""
    table: dict[str, list[str]] = packaged_toml("unified_profiler.comparison", "families.toml")
    return {member: family for family, members in table.items() for member in members}


def folding(baseline: set[Key], candidate: set[Key]) -> dict[Key, Key]:
    """Return the family row of each row to merge: rows of families of which the sides have different members."""
    family = families()
    differing = {(family[name], direction) for name, direction in baseline ^ candidate if name in family}
    return {
        (name, direction): (family[name], direction)
        for name, direction in baseline | candidate
        if name in family and (family[name], direction) in differing
    }
