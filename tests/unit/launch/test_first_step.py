"""Where the first step of a script began, from the beginnings of loops and calls."""

from __future__ import annotations

from unified_profiler.launch.first_step import FirstStep


def test_without_any_beginning_nothing_is_known() -> None:
    assert FirstStep().began(100) is None


def test_the_first_call_begins_it_if_there_is_no_loop() -> None:
    step = FirstStep()
    step.call_begins(10, training=True)
    step.call_begins(20, training=True)
    assert step.began(100) == 10


def test_the_last_loop_before_its_end_begins_it() -> None:
    step = FirstStep()
    for begin in (10, 30, 200):  # a look at the data, the training, its second epoch
        step.loop_begins(begin, training=True)
    step.call_begins(5, training=True)
    step.call_begins(40, training=True)
    assert step.began(100) == 30


def test_training_takes_precedence_over_an_evaluation_before_and_in_it() -> None:
    step = FirstStep()
    step.call_begins(5, training=False)
    step.loop_begins(10, training=False)
    step.loop_begins(20, training=True)
    step.loop_begins(30, training=False)
    assert step.began(100) == 20


def test_a_call_in_training_takes_precedence_over_the_loop_of_an_evaluation() -> None:
    step = FirstStep()
    step.loop_begins(10, training=False)
    step.call_begins(20, training=True)
    assert step.began(100) == 20


def test_an_evaluation_begins_it_if_there_is_no_training() -> None:
    step = FirstStep()
    step.loop_begins(10, training=False)
    step.loop_begins(20, training=False)
    assert step.began(100) == 20


def test_what_begins_after_its_end_does_not_begin_it() -> None:
    step = FirstStep()
    step.loop_begins(10, training=False)
    step.loop_begins(200, training=True)
    assert step.began(100) == 10


def test_a_step_in_progress_begins_with_the_last_loop() -> None:
    step = FirstStep()
    step.loop_begins(10, training=True)
    step.loop_begins(20, training=True)
    assert step.began() == 20


def test_many_epochs_do_not_fill_the_memory() -> None:
    step = FirstStep()
    for begin in range(100_000):
        step.loop_begins(begin, training=True)
    assert len(step._loops) == 1000
    assert step.began(5) == 5
