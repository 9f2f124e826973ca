"""Families of canonical operators: different names for work that is the same in part."""

from __future__ import annotations

import sys
from functools import cache
from importlib import resources

from unified_profiler.comparison.keys import Key

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def families() -> dict[str, str]:
    """Return the family of each operator that has one."""
    text = resources.files("unified_profiler.comparison").joinpath("families.toml").read_text(encoding="utf-8")
    found: dict[str, list[str]] = tomllib.loads(text)
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
