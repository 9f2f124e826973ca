from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.spi.xplane.ends import InstructionEnds

Row = tuple[str, int, int, int, int]
"""Kind, start, end, line and flow."""


def ends_of(*rows: Row) -> InstructionEnds:
    kind, start, end, line, flow = (np.array(column) for column in zip(*rows, strict=True))
    flags = {name: kind == name for name in ("instruction", "mark", "executor")}
    return InstructionEnds(start, end, line, flow, **flags)


def late(*rows: Row) -> dict[int, int]:
    """Return the ends of the instructions that outlast their event, by row."""
    return dict(zip(*(column.tolist() for column in ends_of(*rows).late()), strict=True))


QUEUED: Row = ("instruction", 0, 10, 0, 5)
TASK: Row = ("other", 90, 90, 1, -1)


def test_an_instruction_ends_at_its_mark() -> None:
    assert late(QUEUED, TASK, ("mark", 100, 101, 1, 5)) == {0: 100}


def test_it_ended_when_the_instructions_began_that_lie_directly_before_its_mark() -> None:
    waited: list[Row] = [("instruction", 95, 130, 1, 6), ("mark", 129, 130, 1, 6), ("instruction", 131, 140, 1, 7)]
    assert late(QUEUED, TASK, *waited, ("mark", 141, 142, 1, 5)) == {0: 95}


def test_it_ended_when_the_executor_went_on() -> None:
    inside: list[Row] = [("executor", 94, 140, 1, -1), ("instruction", 95, 130, 1, 6)]
    assert late(QUEUED, TASK, *inside, ("mark", 141, 142, 1, 5)) == {0: 94}


def test_instructions_of_another_task_did_not_wait_for_it() -> None:
    before: list[Row] = [("instruction", 20, 30, 1, 6), TASK]
    assert late(QUEUED, ("other", 15, 15, 1, -1), *before, ("mark", 100, 101, 1, 5)) == {0: 100}


def test_without_the_start_of_a_task_the_mark_counts() -> None:
    assert late(QUEUED, ("instruction", 95, 99, 1, 6), ("mark", 100, 101, 1, 5)) == {0: 100}


def test_two_marks_after_the_same_instructions() -> None:
    loop: Row = ("instruction", 0, 20, 2, 8)
    marks: list[Row] = [("mark", 110, 111, 1, 8), ("mark", 112, 113, 1, 5)]
    assert late(QUEUED, loop, TASK, ("instruction", 95, 109, 1, 6), *marks) == {0: 95, 1: 95}


def test_a_mark_within_the_event_changes_nothing() -> None:
    assert late(QUEUED, ("mark", 9, 10, 0, 5)) == {}


def test_an_instruction_without_a_mark_is_unmarked_where_others_have_marks() -> None:
    unmarked: Row = ("instruction", 20, 30, 0, 6)
    assert ends_of(QUEUED, unmarked, TASK, ("mark", 100, 101, 1, 5)).unmarked().tolist() == [1]
    assert ends_of(QUEUED, unmarked, TASK).unmarked().tolist() == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["instruction", "mark", "executor", "other"]),
            *(st.integers(0, 40), st.integers(0, 15), st.integers(0, 2), st.integers(-1, 4)),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_an_end_lies_between_that_of_the_event_and_the_mark(rows: list[Row]) -> None:
    rows = [(kind, start, start + length, line, flow) for kind, start, length, line, flow in rows]
    for row, end in late(*rows).items():
        assert rows[row][0] == "instruction"
        latest = max(start for kind, start, _, _, flow in rows if kind == "mark" and flow == rows[row][4])
        assert rows[row][2] < end <= latest
