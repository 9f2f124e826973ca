"""When the instructions of XLA's programs ended: the event of one that only queues its work ends long before.

XLA's executor writes a mark, `end: X`, when an instruction is done, and the number of a flow links the two. It does so
in a callback of the instruction's completion, and only after the callback in which the executor goes on with what had
waited for the instruction. So the instruction was done when the executor went on: where, on the thread of the mark,
other instructions lie directly before the mark, it ended when the first of them began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unified_profiler.model.columns import Index, look_up
from unified_profiler.model.nesting import Ints, find_nesting
from unified_profiler.model.tree import Flags
from unified_profiler_tensorflow.read.xplane.left_out import END_MARK
from unified_profiler_tensorflow.read.xplane.planes import Plane

_INSTRUCTION = frozenset({"hlo_op"})
_PRODUCED, _CONSUMED = ("_pt", "_p"), ("_ct", "_c")


class Flows:
    """Numbers the flows from the instructions of one plane to their marks."""

    def __init__(self, plane: Plane, numbers: Index) -> None:
        self._plane, self._numbers = plane, numbers
        self._marks = {number for number, name in plane.event_names.items() if name.startswith(END_MARK)}
        self._instruction = plane.prefixes(_INSTRUCTION)

    def of(self, events: Sequence[Any]) -> Ints:
        """Return the flow of each instruction and mark, -1 for other events; -1 for all where there are no marks."""
        if not self._marks:
            return np.full(len(events), -1, np.int64)
        return np.fromiter(map(self._flow, events), np.int64, len(events))

    def _flow(self, event: Any) -> int:
        if event.metadata_id in self._marks:
            names = _CONSUMED
        elif any(stat.startswith(self._instruction) for stat in event.stats):
            names = _PRODUCED
        else:
            return -1
        stats = self._plane.decode(event.stats)
        kind, number = (stats.get(name) for name in names)
        return -1 if number is None else self._numbers[self._plane.name, kind, number]


class Ends:
    """Ends of instructions, from the events of a file.

    Args:
        start: When each event starts.
        end: When each event ends.
        line: The line of each event.
        flow: The flow of each instruction and mark, -1 for none.
        instruction: Which events are instructions.
        mark: Which events are marks.
        executor: Which events are those of the executor at work.
    """

    def __init__(
        self, start: Ints, end: Ints, line: Ints, flow: Ints, *, instruction: Flags, mark: Flags, executor: Flags
    ) -> None:
        self._start, self._end, self._line = start, end, line
        self._mark, self._goes_on = mark, instruction | executor
        marks = np.flatnonzero(mark & (flow >= 0))
        self._instructions = np.flatnonzero(instruction & (flow >= 0)) if len(marks) else marks
        place = look_up(flow[self._instructions], flow[marks])
        self._mark_of = np.where(place >= 0, marks[place], -1) if len(marks) else place

    def unmarked(self) -> Ints:
        """Return the instructions that have no mark, although others do: recording ended before them."""
        return self._instructions[self._mark_of < 0]

    def late(self) -> tuple[Ints, Ints]:
        """Return the instructions that outlast their event, and when they ended."""
        outlasting = (self._mark_of >= 0) & (self._start[self._mark_of] > self._end[self._instructions])
        rows, marks = self._instructions[outlasting], self._mark_of[outlasting]
        ends = np.maximum(self._done(marks), self._end[rows])
        return rows[ends > self._end[rows]], ends[ends > self._end[rows]]

    def _done(self, marks: Ints) -> Ints:
        """Return when what each mark belongs to was done."""
        rows = np.flatnonzero(np.isin(self._line, self._line[marks]))
        before = np.full(len(self._start), -1, np.int64)
        before[rows] = self._events_before(rows)
        first = [self._first_that_went_on(mark, before) for mark in marks.tolist()]
        return self._start[np.array(first, np.int64)]

    def _events_before(self, rows: Ints) -> Ints:
        """Return for each event the one before it on its thread, within the same enclosing event; -1 for none."""
        start, line = self._start[rows], self._line[rows]
        nesting = find_nesting(start, self._end[rows] - start, np.zeros_like(line), line)
        order = np.lexsort((start, nesting.parent, nesting.tid))
        same = (np.diff(nesting.parent[order]) == 0) & (np.diff(nesting.tid[order]) == 0)
        before = np.full(len(rows), -1, np.int64)
        before[order[1:]] = np.where(same, rows[order[:-1]], -1)
        return before

    def _first_that_went_on(self, mark: int, before: Ints) -> int:
        """Return the first of the instructions directly before a mark, the mark itself where there are none.

        Before them is another event, such as the start of a task of the thread pool; if not, it is not known whether
        they had waited.
        """
        first = row = mark
        while (row := int(before[row])) >= 0 and (self._goes_on[row] or self._mark[row]):
            first = row if self._goes_on[row] else first
        return first if row >= 0 else mark
