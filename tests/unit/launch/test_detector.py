"""The rules by which steps are found, on the sequences of signals that kinds of scripts send."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.detector import HOLD_BACK, HOLD_BACK_EXPECTING, Detector, Signal

TRAINER = Signal(name="keras", priority=-1)
OPT = Signal(name="optimizer", priority=0)
BWD = Signal(name="backward", priority=1)
DATA = Signal(name="dataloader", priority=2)
FWD = Signal(name="forward", priority=3)
EVAL = Signal(name="forward", priority=3, training=False)

Fire = tuple[Signal, int]
ITERATION: list[Fire] = [(DATA, 1), (FWD, 1), (BWD, 1)]
CHECK: list[Fire] = [(DATA, 2), (EVAL, 1)]


def detect(fires: Iterable[Fire], *, optimizer_made: bool = False) -> Detector:
    detector = Detector()
    if optimizer_made:
        detector.expect_better()
    for moment, (signal, source) in enumerate(fires):
        detector.feed(signal, source, moment)
    return detector


def stored(fires: Iterable[Fire], *, optimizer_made: bool = False) -> list[int]:
    """Return the ends of steps that a profiler would store which does what the detector returns."""
    detector, ends = Detector(), list[int]()
    if optimizer_made:
        detector.expect_better()
    for moment, (signal, source) in enumerate(fires):
        ended = detector.feed(signal, source, moment)
        if isinstance(ended, Recount):
            ends = [*(ends if ended.keep else ()), *ended.ends]
        elif ended:
            ends.append(moment)
    assert detector.steps == len(ends)
    return ends


def wgan(*, generator_first: bool) -> list[Fire]:
    fires: list[Fire] = []
    for i in range(30):
        generator: list[Fire] = [(OPT, 2)] if i % 5 == (0 if generator_first else 4) else []
        critic: list[Fire] = [*ITERATION, (OPT, 1)]
        fires += [*generator, *critic] if generator_first else [*critic, *generator]
    return fires


TRAINING: dict[str, tuple[list[Fire], int, int]] = {
    "one optimizer": ([*ITERATION, (OPT, 1)] * 30, 30, 30),
    "accumulation over 3": ([*ITERATION * 3, (OPT, 1)] * 10, 10, 10),
    "accumulation over 10": ([*ITERATION * 10, (OPT, 1)] * 3, 3, 3),
    "2 validation steps first": ([*CHECK * 2, *[*ITERATION, (OPT, 1)] * 30], 30, 30),
    "8 validation steps first": ([*CHECK * 8, *[*ITERATION, (OPT, 1)] * 30], 30, 30),
    "LBFGS, 5 evaluations a step": ([(DATA, 1), *[(FWD, 1), (BWD, 1)] * 5, (OPT, 1)] * 30, 30, 30),
    "SAM, 2 passes a step": ([(DATA, 1), *[(FWD, 1), (BWD, 1)] * 2, (OPT, 1)] * 30, 30, 30),
    "GAN, 2 optimizers": ([*ITERATION, (OPT, 1), (BWD, 2), (OPT, 2)] * 30, 30, 30),
    "WGAN, generator last": (wgan(generator_first=False), 30, 30),
    "WGAN, generator first": (wgan(generator_first=True), 30, 30),
    "WGAN, generator in the first step": ([(OPT, 1), (OPT, 2), *[(OPT, 1)] * 4] * 6, 30, 30),
    "rollouts before each of 4 updates": ([*[(FWD, 1), (FWD, 2)] * 128, *[*ITERATION, (OPT, 1)] * 4] * 4, 16, 16),
    "an optimizer per parameter": ([*ITERATION, (OPT, 1), (OPT, 2), (OPT, 3), (OPT, 4)] * 30, 30, 30),
    "two phases, two optimizers": ([*[(BWD, 1), (OPT, 1)] * 15, *[(BWD, 1), (OPT, 2)] * 15], 30, 30),
}


@pytest.mark.parametrize(("fires", "true", "found"), TRAINING.values(), ids=TRAINING.keys())
def test_training_scripts_with_an_optimizer(fires: list[Fire], true: int, found: int) -> None:
    detector = detect(fires, optimizer_made=True)
    assert detector.steps == found <= true
    assert len(stored(fires, optimizer_made=True)) == found
    result = detector.result()
    assert result is not None
    assert result.name == "optimizer"


OTHERS: dict[str, tuple[list[Fire], str]] = {
    "no optimizer": ([(DATA, 1), (FWD, 1), (BWD, 1)] * 30, "backward"),
    "no optimizer, 2 losses": ([(DATA, 1), (FWD, 1), (BWD, 1), (BWD, 2)] * 30, "backward"),
    "autograd.grad only": ([(DATA, 1), (FWD, 1)] * 30, "dataloader"),
    "inference with a loader": ([(DATA, 1), (EVAL, 1)] * 30, "dataloader"),
    "inference without": ([(EVAL, 1)] * 30, "forward"),
    "inference, model left in training mode": ([(FWD, 1)] * 30, "forward"),
    "inference, two models": ([(EVAL, 1), (EVAL, 2)] * 30, "forward"),
}


@pytest.mark.parametrize(("fires", "name"), OTHERS.values(), ids=OTHERS.keys())
def test_scripts_without_an_optimizer(fires: list[Fire], name: str) -> None:
    detector = detect(fires)
    result = detector.result()
    assert result is not None
    assert (detector.steps, result.name) == (30, name)


def test_a_second_loop_whose_signal_is_as_sure_goes_on_counting() -> None:
    detector = Detector()
    function = Signal(name="function", priority=0)
    for _ in range(6):
        detector.feed(BWD, 1)
        detector.feed(OPT, 1)
    for _ in range(5):
        detector.feed(function, 2)
    assert detector.steps == 11
    result = detector.result()
    assert result is not None
    assert (result.name, result.sources) == ("optimizer", 2)
    assert result.switches == ("after step 6: another source of function took over",)


def test_a_lesser_signal_ends_its_first_step_at_the_fire_that_ends_the_hold_back() -> None:
    detector = Detector()
    ends = [detector.feed(BWD, 1, moment) for moment in range(HOLD_BACK + 2)]
    assert ends == [*[False] * (HOLD_BACK - 1), Recount(keep=False, ends=(0, 1, 2, 3), held_back=True), True, True]


def test_held_back_steps_keep_their_ends() -> None:
    assert stored([(BWD, 1)] * 17) == list(range(17))


def test_steps_of_a_signal_that_gave_way_are_void() -> None:
    assert stored([*[(FWD, 1)] * 10, *[(FWD, 1), (OPT, 1)] * 3]) == [11, 13, 15]


def test_steps_of_a_loop_with_an_optimizer_stay_when_a_trainer_comes() -> None:
    assert stored([*[(OPT, 1)] * 5, *[(TRAINER, 1)] * 3]) == list(range(8))


def test_while_a_surer_signal_that_replaces_another_is_held_back_no_step_counts() -> None:
    detector = detect([(EVAL, 1)] * 10)
    assert detector.feed(BWD, 1, 10) == Recount(keep=False)
    assert (detector.steps, detector.result()) == (0, None)


def test_the_more_frequent_of_two_optimizers_ends_steps_from_its_first_one_on() -> None:
    assert stored([(OPT, 1), (OPT, 2), (OPT, 1), (OPT, 1), (OPT, 1)]) == [0, 2, 3, 4]


def test_the_last_of_two_optimizers_ends_also_the_first_step() -> None:
    assert stored([(OPT, 1), (OPT, 2)] * 4) == [1, 3, 5, 7]


def test_the_surest_signal_is_not_held_back() -> None:
    assert Detector().feed(OPT, 1) is True


def test_the_word_of_a_trainer_is_not_held_back_and_holds_more_than_that_of_an_optimizer() -> None:
    assert Detector().feed(TRAINER, 1) is True
    detector = detect([*ITERATION, (OPT, 1), (TRAINER, 1)] * 30, optimizer_made=True)
    result = detector.result()
    assert result is not None
    assert (detector.steps, result.name) == (30, "keras")
    assert result.switches == ("after step 1: optimizer gave way to keras, steps were recounted",)


def test_an_announced_optimizer_is_waited_for_much_longer() -> None:
    detector = detect([(BWD, 1)] * (HOLD_BACK_EXPECTING - 1), optimizer_made=True)
    assert detector.result() is None
    assert detector.feed(BWD, 1)


def test_a_forced_signal_ends_steps_from_its_first_fire_on() -> None:
    detector = Detector(hold_back=False)
    detector.expect_better()
    assert detector.feed(FWD, 1) is True


def test_a_switch_is_written_down() -> None:
    result = detect([*[(DATA, 1)] * 10, (OPT, 1), (OPT, 1)]).result()
    assert result is not None
    assert result.name == "optimizer"
    assert result.switches[-1] == "after step 10: dataloader gave way to optimizer, steps were recounted"


def test_an_anchor_that_falls_silent_is_replaced_and_it_is_written_down() -> None:
    result = detect([(OPT, 1)] * 5 + [(OPT, 2)] * 5).result()
    assert result is not None
    assert result.switches == ("after step 5: another source of optimizer took over",)


def test_the_last_optimizer_of_a_step_ends_it() -> None:
    detector = detect([(OPT, 1), (OPT, 2)])
    assert [detector.feed(OPT, 1, 2), detector.feed(OPT, 2, 3)] == [False, Recount(keep=False, ends=(1, 3))]
    assert [detector.feed(OPT, 1, 4), detector.feed(OPT, 2, 5)] == [False, True]


def test_sources_are_counted() -> None:
    result = detect([(OPT, source) for source in (1, 2, 3)] * 3).result()
    assert result is not None
    assert result.sources == 3


def test_evaluation_never_replaces_training() -> None:
    detector = detect([(FWD, 1)] * 5)
    assert detector.feed(EVAL, 1) is False


def test_training_replaces_evaluation() -> None:
    detector = detect([*[(EVAL, 1)] * 10, *[(FWD, 1)] * 5])
    result = detector.result()
    assert result is not None
    assert result.switches[-1] == "after step 10: forward (evaluation) gave way to forward, steps were recounted"
    assert detector.steps == 5


def test_the_revision_changes_exactly_when_the_result_does() -> None:
    detector = Detector()
    seen = {detector.revision: detector.result()}
    for signal, source in [*[(BWD, 1)] * 6, *[(OPT, 1), (OPT, 2)] * 6, *[(OPT, 3)] * 4]:
        detector.feed(signal, source)
        assert seen.setdefault(detector.revision, detector.result()) == detector.result()


def test_nothing_fired_gives_no_result() -> None:
    assert Detector().result() is None


def test_notes_and_sources_are_bounded() -> None:
    detector = detect([(OPT, source) for source in range(30_000) for _ in range(2)])
    result = detector.result()
    assert result is not None
    assert len(result.switches) <= 20
    assert result.sources <= 10_000


SIGNALS = st.sampled_from([TRAINER, OPT, BWD, DATA, FWD, EVAL])


@given(st.lists(st.tuples(SIGNALS, st.integers(1, 3)), max_size=200), st.booleans())
def test_whatever_is_sent_steps_end_one_after_the_other_and_each_once(fires: list[Fire], optimizer_made: bool) -> None:
    ends = stored(fires, optimizer_made=optimizer_made)
    assert ends == sorted(set(ends))
