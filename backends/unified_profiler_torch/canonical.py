"""Canonical operators of torch events: what each is (`op`), what caused it (`origin`) and in which direction.

Names are looked up once per distinct name in canonical_ops.toml; the rest is handed down the tree of events.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree
from unified_profiler_torch.args import MISSING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DIRECTIONS = ("forward", "backward", "update")
_FORWARD, _BACKWARD, _UPDATE = range(3)


@dataclass(frozen=True)
class Canonical:
    """Numbers into `names` and `DIRECTIONS`, one per event, -1 for none."""

    names: list[str]
    op: Ints
    origin: Ints
    direction: Ints

    def follow(self, rows: Ints, launches: Ints, launching_ops: Ints) -> None:
        """Give work on a device what the call that launched it has."""
        self.op[rows] = np.where(launching_ops >= 0, self.op[launching_ops], -1)
        self.origin[rows], self.direction[rows] = self.origin[launches], self.direction[launches]


class Table:
    """Names and patterns of one section of the file."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._exact = entries
        self._patterns = [(re.compile(translate(key)), op) for key, op in entries.items() if "*" in key or "?" in key]

    def find(self, name: str) -> str | None:
        """Return the operator of a name; an exact entry beats a pattern."""
        if name in self._exact:
            return self._exact[name]
        return next((op for pattern, op in self._patterns if pattern.match(name)), None)


@dataclass(frozen=True)
class Lookup:
    """The whole file, ready to be asked."""

    kernel: Table
    composite: Table
    autograd: Table
    optimizer: Table
    backward: re.Pattern[str]
    update: re.Pattern[str]
    zero_grad: re.Pattern[str]

    def marks(self, name: str) -> tuple[int, str | None] | None:
        """Return direction and operator of a name that begins something else than forward work."""
        if found := self.backward.match(name):
            return _BACKWARD, self.autograd.find(re.sub(r"Backward\d*$", "", found["node"].split("::")[-1]))
        if found := self.update.match(name):
            return _UPDATE, self.optimizer.find(found["class"])
        return (_UPDATE, "x:ZeroGrad") if self.zero_grad.match(name) else None


@cache
def lookup() -> Lookup:
    """Read canonical_ops.toml, once."""
    text = (files("unified_profiler_torch") / "canonical_ops.toml").read_text(encoding="utf-8")
    sections: dict[str, dict[str, Any]] = tomllib.loads(text)
    return Lookup(
        kernel=Table(sections["kernel"]),
        composite=Table(sections["composite"]),
        autograd=Table(sections["autograd"]),
        optimizer=Table(sections["optimizer"]),
        **{name: re.compile(pattern) for name, pattern in sections["direction"].items()},
    )


def canonicalise(tree: Tree, names: Ints, texts: Sequence[str], is_op: Flags, sequence: Ints, start: Ints) -> Canonical:
    """Find op, origin and direction of every event.

    Args:
        tree: How the events nest.
        names: The name of each event, as a number.
        texts: The names.
        is_op: Which events are operators or torch's own annotations; other names mean nothing here.
        sequence: Sequence numbers, `MISSING` for none.
        start: Start times.
    """
    by_name = _ByName.of(texts, np.bincount(names[is_op], minlength=len(texts)) > 0)
    at = np.where(is_op, names, len(texts))
    marker = tree.inherit(np.where(by_name.mark[at] >= 0, np.arange(len(names)), -1), outermost=False)
    marked = marker >= 0
    direction = np.where(marked, by_name.mark[at[marker]], _FORWARD)
    forward = np.where(marked, -1, by_name.composite[at])
    fallback = np.where(marked, -1, by_name.kernel[at])
    origin = tree.inherit(forward, outermost=True)
    origin = np.where(origin >= 0, origin, tree.inherit(fallback, outermost=True))
    cause = np.full(len(names), -1, np.int64)
    nodes = np.flatnonzero(marker == np.arange(len(names)))
    cause[nodes] = by_name.mark_op[at[nodes]]
    _join_by_sequence(
        cause, nodes[direction[nodes] == _BACKWARD], np.flatnonzero(~marked & is_op), origin, sequence, start
    )
    origin = np.where(marked, cause[marker], origin)
    op = np.where(marker == np.arange(len(names)), by_name.own_op[at], by_name.kernel[at])
    return Canonical(list(by_name.ops), op, origin, direction)


def _join_by_sequence(cause: Ints, nodes: Ints, candidates: Ints, origin: Ints, sequence: Ints, start: Ints) -> None:
    """Give each autograd node the origin of the last forward operator with its sequence number, if there is one."""
    candidates = candidates[sequence[candidates] != MISSING]
    nodes = nodes[sequence[nodes] != MISSING]
    if not len(candidates) or not len(nodes):
        return
    candidates = candidates[np.lexsort((start[candidates], sequence[candidates]))]
    keys = sequence[candidates]
    last = np.searchsorted(keys, sequence[nodes], side="right") - 1
    known = (last >= 0) & (keys[last] == sequence[nodes]) & (origin[candidates[last]] >= 0)
    cause[nodes[known]] = origin[candidates[last[known]]]


@dataclass(frozen=True)
class _ByName:
    """What each name means; the entry after the last name stands for "not an operator"."""

    ops: Index
    kernel: Ints
    composite: Ints
    mark: Ints
    mark_op: Ints
    own_op: Ints

    @classmethod
    def of(cls, texts: Sequence[str], used: Flags) -> _ByName:
        """Look up the names that are used."""
        ops, table = Index(), lookup()
        columns = np.full((5, len(texts) + 1), -1, np.int64)
        for number in np.flatnonzero(used).tolist():
            name = texts[number]
            kernel, composite = table.kernel.find(name), table.composite.find(name)
            mark, mark_op = table.marks(name) or (-1, None)
            own = mark_op if mark == _UPDATE else kernel
            columns[:, number] = (
                *(-1 if op is None else ops[op] for op in (kernel, composite)),
                mark,
                *(-1 if op is None else ops[op] for op in (mark_op, own)),
            )
        return cls(ops, *columns)
