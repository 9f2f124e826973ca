"""Families of canonical operators: different names for work that is the same in part."""

from __future__ import annotations

from functools import cache

from unified_profiler.comparison.keys import Key
from unified_profiler.toml_files import packaged_toml


@cache
def families() -> dict[str, str]:
    """Return the family of each operator that has one."""
    found: dict[str, list[str]] = packaged_toml("unified_profiler.comparison", "families.toml")
    return {member: family for family, members in found.items() for member in members}


def folding(baseline: set[Key], candidate: set[Key]) -> dict[Key, Key]:
    """Return which rows to fold into their families: those of families of which the sides have different members."""
    kin = families()
    differing = {(kin[name], direction) for name, direction in baseline ^ candidate if name in kin}
    everything = baseline | candidate
    return {
        (name, direction): (kin[name], direction)
        for name, direction in everything
        if name in kin and (kin[name], direction) in differing
    }
