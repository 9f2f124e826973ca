"""Finds the true ends of XLA instructions: the event of one that only queues its work ends long before the work.

XLA's executor writes an end mark, an event `end: X`, when an instruction is done, and a flow id links the two. The mark
is written by a completion callback that runs only after the one in which the executor resumes the instructions that
were waiting. So where other instructions lie directly before the mark on its thread, the instruction ended when the
first of them began.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unified_profiler.model.columns import Index, look_up
from unified_profiler.model.nesting import Ints, find_nesting
from unified_profiler.model.tree import Flags
from unified_profiler.spi.xplane.planes import LineEvents, Plane

END_MARK = "end: "
"""Prefix of the names of end marks."""
_INSTRUCTION = frozenset({"hlo_op"})
_PRODUCED, _CONSUMED = ("_pt", "_p"), ("_ct", "_c")


class Flows:
    """Numbers the flows from the instructions of one plane to their end marks."""

    def __init__(self, plane: Plane, numbers: Index) -> None:
        self._plane, self._numbers = plane, numbers
        marks = [number for number, name in plane.event_names.items() if name.startswith(END_MARK)]
        self._marks: Ints = np.array(marks, np.int64)
        self._instruction = plane.stat_ids(_INSTRUCTION)

    def of(self, events: LineEvents) -> Ints:
        """Return the flow of each instruction and mark, -1 for other events; -1 for all if the plane has no marks."""
        flow = np.full(len(events.metadata_id), -1, np.int64)
        if not len(self._marks):
            return flow
        is_mark = np.isin(events.metadata_id, self._marks)
        is_instruction = np.zeros_like(is_mark)
        is_instruction[events.stats.message[np.isin(events.stat_ids, self._instruction)]] = True
        for row in np.flatnonzero(is_mark | is_instruction).tolist():
            flow[row] = self._flow(events.stats_of(row), _CONSUMED if is_mark[row] else _PRODUCED)
        return flow

    def _flow(self, encoded: Sequence[bytes], names: tuple[str, str]) -> int:
        stats = self._plane.decode(encoded)
        kind, number = (stats.get(name) for name in names)
        return -1 if number is None else self._numbers[self._plane.name, kind, number]


class InstructionEnds:
    """The ends of the instructions of a file.

    Args:
        start: Start of each event.
        end: End of each event.
        line: The line of each event.
        flow: The flow of each instruction and mark, -1 for other events.
        instruction: Flags the instructions.
        mark: Flags the end marks.
        executor: Flags the events of the executor at work.
    """

    def __init__(
        self, start: Ints, end: Ints, line: Ints, flow: Ints, *, instruction: Flags, mark: Flags, executor: Flags
    ) -> None:
        self._start, self._end, self._line = start, end, line
        self._mark, self._resumed = mark, instruction | executor
        marks = np.flatnonzero(mark & (flow >= 0))
        self._instructions = np.flatnonzero(instruction & (flow >= 0)) if len(marks) else marks
        position = look_up(flow[self._instructions], flow[marks])
        self._mark_of = np.where(position >= 0, marks[position], -1) if len(marks) else position

    def unmarked(self) -> Ints:
        """Return the instructions without a mark if others have one: the recording ended before their work did."""
        return self._instructions[self._mark_of < 0]

    def late(self) -> tuple[Ints, Ints]:
        """Return the instructions that outlast their event, and their ends."""
        outlasting = (self._mark_of >= 0) & (self._start[self._mark_of] > self._end[self._instructions])
        rows, marks = self._instructions[outlasting], self._mark_of[outlasting]
        ends = np.maximum(self._completion_times(marks), self._end[rows])
        return rows[ends > self._end[rows]], ends[ends > self._end[rows]]

    def _completion_times(self, marks: Ints) -> Ints:
        """Return when the instruction of each mark was done."""
        rows = np.flatnonzero(np.isin(self._line, self._line[marks]))
        previous = np.full(len(self._start), -1, np.int64)
        previous[rows] = self._previous_events(rows)
        first = [self._first_resumed(mark, previous) for mark in marks.tolist()]
        return self._start[np.array(first, np.int64)]

    def _previous_events(self, rows: Ints) -> Ints:
        """Return for each event the previous one of its thread within the same enclosing event, -1 for none."""
        start, line = self._start[rows], self._line[rows]
        nesting = find_nesting(start, self._end[rows] - start, np.zeros_like(line), line)
        order = np.lexsort((start, nesting.parent, nesting.tid))
        same = (np.diff(nesting.parent[order]) == 0) & (np.diff(nesting.tid[order]) == 0)
        previous = np.full(len(rows), -1, np.int64)
        previous[order[1:]] = np.where(same, rows[order[:-1]], -1)
        return previous

    def _first_resumed(self, mark: int, previous: Ints) -> int:
        """Return the first of the instructions directly before a mark, the mark itself if there are none.

        Another event precedes them, such as the start of a task of the thread pool. If none does, it is unknown
        whether they had waited, and the mark counts.
        """
        first = row = mark
        while (row := int(previous[row])) >= 0 and (self._resumed[row] or self._mark[row]):
            first = row if self._resumed[row] else first
        return first if row >= 0 else mark
