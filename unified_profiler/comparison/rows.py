"""From two sides to the rows of a diff, the largest difference first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unified_profiler.comparison.keys import Key, Keys
from unified_profiler.comparison.levels import group_of
from unified_profiler.comparison.noise import Noise, Times, noise_of
from unified_profiler.comparison.records import DiffRow, RowKind
from unified_profiler.comparison.sides import SideOfDiff, Sums

Pair = tuple[Sums | None, Sums | None]


@dataclass(frozen=True)
class Rows:
    """Builds the rows of one diff."""

    baseline: SideOfDiff
    candidate: SideOfDiff
    threshold: float
    alike: bool
    """Whether both sides are of one framework."""

    def build(self, *, grouped: bool, parts: bool) -> tuple[DiffRow, tuple[DiffRow, ...], Noise]:
        """Return the total, the rows, and the noise that they were judged by.

        Args:
            grouped: Whether rows stand in groups.
            parts: Whether rows consist of something.
        """
        rows = self._pairs(lambda keys: keys)
        (total,) = self._pairs(_one).values()
        noise = self._noise(rows.values(), total)
        inner = self._parts(noise) if parts else {}
        built = {key: _row(key, pair, noise, inner.get(key, ())) for key, pair in rows.items()}
        everything = sum(abs(row.difference_ns) for row in built.values())
        found = self._groups(built, noise) if grouped else _sorted(built.values())
        shown = _with_shares(found, everything)
        whole = _row((None, None), total, noise, kind="total")
        return whole.model_copy(update={"difference_share": _summed_share(shown)}), shown, noise

    @property
    def _sides(self) -> tuple[SideOfDiff, SideOfDiff]:
        return self.baseline, self.candidate

    def _pairs(self, of: Callable[[Keys], Keys]) -> dict[Key, Pair]:
        """Return both sides of each row, or of what a function makes of the rows."""
        first, second = (side.sums(of(side.row), of(side.called)) for side in self._sides)
        return {key: (first.get(key), second.get(key)) for key in dict.fromkeys((*first, *second))}

    def _noise(self, pairs: Iterable[Pair], total: Pair) -> Noise:
        both = [(a.times, b.times) for a, b in pairs if a is not None and b is not None]
        return noise_of(both, _times(total), threshold=self.threshold, alike=self.alike)

    def _groups(self, rows: Mapping[Key, DiffRow], noise: Noise) -> tuple[DiffRow, ...]:
        groups = self._pairs(lambda keys: keys.mapped(_group_key))
        members: dict[str, list[DiffRow]] = {}
        for key, row in rows.items():
            members.setdefault(group_of(key), []).append(row)
        return _sorted(
            _row(key, pair, noise, _sorted(members[key[0] or ""]), kind="group") for key, pair in groups.items()
        )

    def _parts(self, noise: Noise) -> dict[Key, tuple[DiffRow, ...]]:
        """Return what each row consists of, where its parts have names."""
        both = [_row_and_part(side) for side in self._sides]
        pairs = [side.sums(keys) for side, (keys, _) in zip(self._sides, both, strict=True)]
        found: dict[Key, dict[Key, list[Sums | None]]] = {}
        for place, (sums, (keys, names)) in enumerate(zip(pairs, both, strict=True)):
            for code, key in enumerate(keys.values):
                if key in sums:
                    row, part = names[code]
                    found.setdefault(row, {}).setdefault(part, [None, None])[place] = sums[key]
        return {
            row: _sorted(_row(part, (pair[0], pair[1]), noise, kind="part") for part, pair in parts.items())
            for row, parts in found.items()
            if any(name is not None for name, _ in parts)
        }


def _one(keys: Keys) -> Keys:
    return Keys(np.zeros_like(keys.codes), [(None, None)])


def _group_key(key: Key) -> Key:
    return group_of(key), None


def _row_and_part(side: SideOfDiff) -> tuple[Keys, list[tuple[Key, Key]]]:
    """Return keys that tell apart the parts of all rows, and which row and which part each stands for."""
    row, part = side.row, side.gathered.part
    distinct, codes = np.unique(row.codes * max(len(part.values), 1) + part.codes, return_inverse=True)
    names = [(row.values[c // len(part.values)], part.values[c % len(part.values)]) for c in distinct.tolist()]
    return Keys(np.asarray(codes, np.int64), [(str(number), None) for number in range(len(names))]), names


def _times(pair: Pair) -> tuple[Times, Times]:
    """Return the times of both sides; one that lacks the row has zeros."""
    first, second = pair
    nothing = np.zeros(1)
    return nothing if first is None else first.times, nothing if second is None else second.times


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
        differs=noise.exceeded(*_times(pair)),
        rows=tuple(rows),
    )


def _sorted(rows: Iterable[DiffRow]) -> tuple[DiffRow, ...]:
    """Put what differs first, and the largest difference before the others."""
    return tuple(
        sorted(rows, key=lambda row: (not row.differs, -abs(row.difference_ns), row.name or "", row.direction or ""))
    )


def _with_shares(rows: Iterable[DiffRow], everything: float) -> tuple[DiffRow, ...]:
    """Return the rows with the part of all differences that each is; a group is what its rows are together.

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
