"""Builds the rows of a diff from its two sides, the largest difference first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unified_profiler.comparison.groupings import group_of
from unified_profiler.comparison.keys import Key, Keys
from unified_profiler.comparison.noise import Noise, Times, noise_of
from unified_profiler.comparison.records import DiffRow, RowKind
from unified_profiler.comparison.sides import ComparedSide, RowSums

Pair = tuple[RowSums | None, RowSums | None]


@dataclass(frozen=True)
class RowBuilder:
    """Builds the rows of one diff."""

    sides: Sequence[ComparedSide]
    """Baseline and candidate."""
    threshold: float
    alike: bool
    """Whether both sides are of one framework."""

    def build(self, *, grouped: bool, parts: bool) -> tuple[DiffRow, tuple[DiffRow, ...], Noise]:
        """Return the total, the rows, and the noise that they were compared with.

        Args:
            grouped: Whether to put the rows into groups.
            parts: Whether to add the parts of each row.
        """
        rows = self._pairs(lambda keys: keys)
        (total,) = self._pairs(_same_key).values()
        noise = self._noise(rows.values(), total)
        inner = self._parts(noise) if parts else {}
        built = {key: _row(key, pair, noise, inner.get(key, ())) for key, pair in rows.items()}
        everything = sum(abs(row.difference_ns) for row in built.values())
        ordered = self._groups(built, noise) if grouped else _sorted(built.values())
        shown = _with_shares(ordered, everything)
        whole = _row((None, None), total, noise, kind="total")
        return whole.model_copy(update={"difference_share": _summed_share(shown)}), shown, noise

    def _pairs(self, convert: Callable[[Keys], Keys]) -> dict[Key, Pair]:
        """Return both sides of each row, by the converted keys."""
        first, second = (side.sums(convert(side.row), convert(side.called)) for side in self.sides)
        return {key: (first.get(key), second.get(key)) for key in dict.fromkeys((*first, *second))}

    def _noise(self, pairs: Iterable[Pair], total: Pair) -> Noise:
        both = [(a.times, b.times) for a, b in pairs if a is not None and b is not None]
        return noise_of(both, _times(total), threshold=self.threshold, alike=self.alike)

    def _groups(self, rows: Mapping[Key, DiffRow], noise: Noise) -> tuple[DiffRow, ...]:
        groups = self._pairs(lambda keys: keys.mapped(lambda key: (group_of(key), None)))
        members: dict[str, list[DiffRow]] = {}
        for key, row in rows.items():
            members.setdefault(group_of(key), []).append(row)
        return _sorted(
            _row(key, pair, noise, _sorted(members[key[0] or ""]), kind="group") for key, pair in groups.items()
        )

    def _parts(self, noise: Noise) -> dict[Key, tuple[DiffRow, ...]]:
        """Return the parts of each row, if they have names."""
        both = [_row_and_part(side) for side in self.sides]
        pairs = [side.sums(keys) for side, (keys, _) in zip(self.sides, both, strict=True)]
        by_row: dict[Key, dict[Key, list[RowSums | None]]] = {}
        for side, (sums, (keys, names)) in enumerate(zip(pairs, both, strict=True)):
            for code, key in enumerate(keys.values):
                if key in sums:
                    row, part = names[code]
                    by_row.setdefault(row, {}).setdefault(part, [None, None])[side] = sums[key]
        return {
            row: _sorted(_row(part, (pair[0], pair[1]), noise, kind="part") for part, pair in parts.items())
            for row, parts in by_row.items()
            if any(name is not None for name, _ in parts)
        }


def _same_key(keys: Keys) -> Keys:
    return Keys(np.zeros_like(keys.codes), [(None, None)])


def _row_and_part(side: ComparedSide) -> tuple[Keys, list[tuple[Key, Key]]]:
    """Return a key for each part of each row, and the row and part of each key."""
    row, part = side.row, side.pieces.part
    distinct, codes = np.unique(row.codes * max(len(part.values), 1) + part.codes, return_inverse=True)
    names = [(row.values[c // len(part.values)], part.values[c % len(part.values)]) for c in distinct.tolist()]
    return Keys(np.asarray(codes, np.int64), [(str(number), None) for number in range(len(names))]), names


def _times(pair: Pair) -> tuple[Times, Times]:
    """Return the times of both sides; zeros for a side that lacks the row."""
    first, second = pair
    zero = np.zeros(1)
    return zero if first is None else first.times, zero if second is None else second.times


def _row(key: Key, pair: Pair, noise: Noise, rows: Sequence[DiffRow] = (), *, kind: RowKind = "row") -> DiffRow:
    baseline, candidate = (None if side is None else side.measured(with_mean=kind != "total") for side in pair)
    before, after = (0.0 if side is None else side.time_ns for side in (baseline, candidate))
    mean_before, mean_after = (None if side is None else side.mean_ns for side in (baseline, candidate))
    both = baseline is not None and candidate is not None
    return DiffRow(
        name=key[0],
        kind=kind,
        direction=key[1],
        baseline=baseline,
        candidate=candidate,
        difference_ns=after - before,
        ratio=after / before if both and before else None,
        mean_ratio=mean_after / mean_before if mean_before and mean_after is not None else None,
        same_calls=bool(np.isclose(baseline.call_count, candidate.call_count)) if baseline and candidate else None,
        differs=noise.is_exceeded(*_times(pair)),
        rows=tuple(rows),
    )


def _sorted(rows: Iterable[DiffRow]) -> tuple[DiffRow, ...]:
    """Sort rows that differ first, then by the size of the difference."""
    return tuple(
        sorted(rows, key=lambda row: (not row.differs, -abs(row.difference_ns), row.name or "", row.direction or ""))
    )


def _with_shares(rows: Iterable[DiffRow], everything: float) -> tuple[DiffRow, ...]:
    """Return the rows with their shares of all differences; a group has the sum of the shares of its rows.

    Medians do not add up: the difference of a group or of the total is not the sum of those of its rows, and parts of
    rows have no share.
    """
    return tuple(_with_share(row, everything) for row in rows)


def _with_share(row: DiffRow, everything: float) -> DiffRow:
    if row.kind == "group":
        inner = _with_shares(row.rows, everything)
        return row.model_copy(update={"difference_share": _summed_share(inner), "rows": inner})
    return row.model_copy(update={"difference_share": row.difference_ns / everything if everything else 0.0})


def _summed_share(rows: Iterable[DiffRow]) -> float:
    return sum(row.difference_share or 0.0 for row in rows)
