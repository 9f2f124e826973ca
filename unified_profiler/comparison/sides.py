"""Sums up the pieces of one side of a diff, per row and step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unified_profiler.comparison.attention import ATTENTION
from unified_profiler.comparison.keys import Key, Keys
from unified_profiler.comparison.noise import Times, quartiles
from unified_profiler.comparison.pieces import Pieces
from unified_profiler.comparison.records import Measured
from unified_profiler.model.nesting import Ints
from unified_profiler.model.trace import Trace


@dataclass(frozen=True)
class RowSums:
    """The pieces of one row on one side."""

    step: Ints
    amount: Ints
    step_count: int
    call_count: int
    flops: Ints
    whole_ns: Ints
    call_ns: Ints
    """Time of each call; -1 for pieces that are not calls, or if calls are not timed."""

    @cached_property
    def times(self) -> Times:
        """The time of each step; zero where the row did not run."""
        return np.bincount(self.step, weights=self.amount, minlength=self.step_count).astype(np.float64)

    def measured(self, *, with_mean: bool = True) -> Measured:
        """Return a record, with the mean time of the calls if they all call the same API."""
        low, median, high = quartiles(self.times)
        calls = self.call_ns[self.call_ns >= 0]
        flops, timed = int(self.flops.sum()), int(self.whole_ns[self.flops > 0].sum())
        return Measured(
            call_count=self.call_count / self.step_count,
            time_ns=median,
            low_ns=low,
            high_ns=high,
            total_ns=int(self.amount.sum()),
            mean_ns=float(calls.mean()) if len(calls) and with_mean else None,
            flops=flops / self.step_count if flops else None,
            flops_per_s=flops / timed * 1e9 if flops and timed else None,
        )


class SidePieces:
    """The pieces of all traces of one side."""

    def __init__(self, traces: Sequence[Trace], pieces: Sequence[Pieces]) -> None:
        self.row = _joined([each.row for each in pieces])
        self.part = _joined([each.part for each in pieces])
        self.called = _joined([each.called for each in pieces])
        columns = ("host_ns", "device_ns", "counted", "flops", "whole_ns", "call_ns", "attention")
        self.host_ns, self.device_ns, self.counted, self.flops, self.whole_ns, self.call_ns, self.attention = (
            np.concatenate([getattr(each, name) for each in pieces] or [np.zeros(0, np.int64)]) for name in columns
        )
        self.has_steps = any((each.step >= 0).any() for each in pieces)
        self.step, self.step_count = _steps(traces, pieces, has_steps=self.has_steps)
        self.thread_count = sum(len(np.unique(each.lane[each.host_ns > 0])) for each in pieces)


@dataclass(frozen=True)
class ComparedSide:
    """One side, measured by a time that both sides have."""

    pieces: SidePieces
    row: Keys
    """The rows that pieces belong to, merged into families where the sides need it."""
    called: Keys
    """The rows that count them as calls, merged likewise."""
    amount: Ints
    """Time of each piece."""
    counted: Ints
    """1 for the first piece of each call."""

    @cached_property
    def in_step(self) -> npt.NDArray[np.bool_]:
        """Flags of the pieces that ran in a step."""
        return self.pieces.step >= 0

    @property
    def total_ns(self) -> int:
        """Time of all pieces in steps."""
        return int(self.amount[self.in_step].sum())

    @property
    def outside_ns(self) -> int:
        """Time of all pieces outside of steps."""
        return int(self.amount[~self.in_step].sum())

    def keys(self) -> set[Key]:
        """Return the rows that occur in steps."""
        return {self.row.values[code] for code in np.unique(self.row.codes[self.in_step])}

    def has_row(self, name: str) -> bool:
        """Return whether a row of that name occurs in steps, in any direction."""
        return any(key[0] == name for key in self.keys())

    def with_families(self, family_of: Mapping[Key, Key]) -> ComparedSide:
        """Return the side with some rows merged into families."""
        row, called = (keys.mapped(lambda key: family_of.get(key, key)) for keys in (self.row, self.called))
        return replace(self, row=row, called=called)

    def with_attention(self) -> ComparedSide:
        """Return the side with rows for attention that it runs as single operators."""
        attention = self.pieces.attention
        row, called = (keys.renamed(attention > 0, ATTENTION) for keys in (self.row, self.called))
        return replace(self, row=row, called=called, counted=np.where(attention == 1, 0, self.counted))

    def time_of(self, wanted: Callable[[Key], bool]) -> int:
        """Return the time in steps of the rows that satisfy a predicate."""
        flags = np.array([wanted(key) for key in self.row.values] or [False])
        return int(self.amount[self.in_step & flags[self.row.codes]].sum())

    def sums(self, keys: Keys, called: Keys | None = None) -> dict[Key, RowSums]:
        """Sum up the pieces by key.

        Args:
            keys: The key of each piece.
            called: The keys by which calls are counted; if not given, every piece is a call.
        """
        calls = self._calls(called) if called is not None else {}
        call_ns = self.pieces.call_ns if called is None else np.where(self.counted, self.pieces.call_ns, -1)
        return {
            keys.values[code]: RowSums(
                step=self.pieces.step[pieces],
                amount=self.amount[pieces],
                step_count=self.pieces.step_count,
                call_count=len(pieces) if called is None else calls.get(keys.values[code], 0),
                flops=self.pieces.flops[pieces],
                whole_ns=self.pieces.whole_ns[pieces],
                call_ns=call_ns[pieces],
            )
            for code, pieces in self._by_code(keys)
        }

    def _calls(self, called: Keys) -> dict[Key, int]:
        counts = np.bincount(
            called.codes, weights=np.where(self.in_step, self.counted, 0), minlength=len(called.values)
        )
        return {key: int(count) for key, count in zip(called.values, counts.tolist(), strict=True)}

    def _by_code(self, keys: Keys) -> Iterator[tuple[int, Ints]]:
        rows = np.flatnonzero(self.in_step)
        order = rows[np.argsort(keys.codes[rows], kind="stable")]
        codes, starts = np.unique(keys.codes[order], return_index=True)
        if len(order):
            yield from zip(codes.tolist(), np.split(order, starts[1:]), strict=True)


def _joined(parts: Sequence[Keys]) -> Keys:
    values = [key for part in parts for key in part.values]
    offsets = np.cumsum([0, *(len(part.values) for part in parts)])
    codes = [part.codes + offset for part, offset in zip(parts, offsets, strict=False)]
    return Keys(np.concatenate(codes or [np.zeros(0, np.int64)]), values).distinct()


def _steps(traces: Sequence[Trace], pieces: Sequence[Pieces], *, has_steps: bool) -> tuple[Ints, int]:
    """Number the steps of all ranks and cycles; where there are none at all, each trace counts as one."""
    indices, count = [], 0
    for trace, each in zip(traces, pieces, strict=True):
        step = each.step if has_steps else np.zeros(len(each), np.int64)
        numbers = step_numbers(trace, each) if has_steps else np.zeros(1, np.int64)
        indices.append(np.where(step >= 0, np.searchsorted(numbers, step) + count, -1))
        count += len(numbers)
    return np.concatenate(indices or [np.zeros(0, np.int64)]), count


def step_numbers(trace: Trace, pieces: Pieces) -> Ints:
    """Return the numbers of all recorded steps of a trace, including those in which nothing ran."""
    first, last = trace.info.first_step, trace.info.last_step
    recorded = np.arange(0) if first is None or last is None else np.arange(first, last + 1)
    numbers: Ints = np.union1d(pieces.step[pieces.step >= 0], recorded)
    return numbers
