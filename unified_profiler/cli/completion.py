"""Completes values in shells: names of groupings and of columns, which only the analyses know."""

from __future__ import annotations


def groupings(incomplete: str) -> list[str]:
    """Return the groupings of `table --by` that begin with a text."""
    from unified_profiler.analysis.op_table import GROUPINGS

    return [name for name in GROUPINGS if name.startswith(incomplete)]


def sort_keys(incomplete: str) -> list[str]:
    """Return the columns of operators, and torch's names of them, that begin with a text."""
    from unified_profiler.analysis.op_table import MEASURES, TORCH_NAMES

    return [name for name in ("name", *MEASURES, *TORCH_NAMES) if name.startswith(incomplete)]


def diff_groupings(incomplete: str) -> list[str]:
    """Return the groupings of `diff --by` that begin with a text."""
    from unified_profiler.comparison.groupings import groupings as known

    return [name for name in known(across_frameworks=False) if name.startswith(incomplete)]
