"""Hooks, detector and main thread put together, on a made-up framework."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.launch.step_finder import StepFinder
from unified_profiler.spi import HookRole, StepHook

Report = Callable[[int], None]


class Framework:
    """Places that can be hooked; `fire` sends what the real one would send."""

    def __init__(self) -> None:
        self.hooked: dict[str, Report] = {}

    def hook(
        self, signal: str, priority: int = 0, *, costly: bool = False, role: HookRole = HookRole.STEP_END
    ) -> StepHook:
        def install(_module: ModuleType, report: Report) -> Callable[[], None]:
            self.hooked[signal] = report
            return lambda: self.hooked.pop(signal, None) and None

        place = "made_up_framework"
        return StepHook(signal=signal, priority=priority, module=place, install=install, costly=costly, role=role)

    def hooks(self) -> list[StepHook]:
        return [
            self.hook("profiler_wanted", role=HookRole.PROFILER_WANTED),
            self.hook("optimizer_made", role=HookRole.STEPS_EXPECTED),
            self.hook("optimizer", 0),
            self.hook("backward", 1),
            self.hook("forward", 3, costly=True),
            self.hook("loop", role=HookRole.LOOP_BEGIN),
            self.hook("call", 3, costly=True, role=HookRole.CALL_BEGIN),
        ]

    def fire(self, signal: str, *, source: int = 1, times: int = 1) -> None:
        for _ in range(times):
            if signal in self.hooked:
                self.hooked[signal](source)


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> Framework:
    monkeypatch.setitem(sys.modules, "made_up_framework", ModuleType("made_up_framework"))
    return Framework()


@pytest.fixture
def imports() -> Iterator[ImportWatch]:
    with ImportWatch() as watch:
        yield watch


class Seen:
    steps = 0
    conflicts = 0

    def step(self, ended: bool | Recount = True) -> None:
        if isinstance(ended, Recount):
            self.steps = len(ended.ends) + (self.steps if ended.keep else 0)
        else:
            self.steps += 1

    def conflict(self) -> None:
        self.conflicts += 1

    @property
    def roles(self) -> dict[HookRole, Callable[[], None]]:
        return {HookRole.PROFILER_WANTED: self.conflict}


def find(framework: Framework, imports: ImportWatch, seen: Seen, *, wanted: str = "auto") -> StepFinder:
    finder = StepFinder(on_step=seen.step, on_role=seen.roles, interruption=Interruption(), wanted=wanted)
    finder.watch(framework.hooks(), imports)
    return finder


def test_the_surest_signal_ends_steps(framework: Framework, imports: ImportWatch) -> None:
    seen = Seen()
    find(framework, imports, seen)
    framework.fire("forward", times=2)
    framework.fire("optimizer", times=3)
    assert seen.steps == 3


def test_a_costly_hook_is_undone_when_a_better_signal_fires(framework: Framework, imports: ImportWatch) -> None:
    find(framework, imports, Seen())
    framework.fire("forward")
    assert "forward" in framework.hooked
    framework.fire("backward")
    assert "forward" not in framework.hooked
    assert "backward" in framework.hooked


def test_a_made_optimizer_lengthens_the_hold_back(framework: Framework, imports: ImportWatch) -> None:
    seen = Seen()
    find(framework, imports, seen)
    framework.fire("optimizer_made")
    framework.fire("backward", times=60)
    assert seen.steps == 0


def test_only_the_wanted_signal_is_listened_to(framework: Framework, imports: ImportWatch) -> None:
    seen = Seen()
    find(framework, imports, seen, wanted="backward")
    framework.fire("optimizer", times=5)
    framework.fire("backward", times=2)
    assert seen.steps == 2


def test_none_listens_to_no_signal(framework: Framework, imports: ImportWatch) -> None:
    find(framework, imports, Seen(), wanted="none")
    assert set(framework.hooked) == {"profiler_wanted", "optimizer_made"}


def test_the_wish_for_the_native_profiler_is_passed_on(framework: Framework, imports: ImportWatch) -> None:
    seen = Seen()
    find(framework, imports, seen)
    framework.fire("profiler_wanted")
    assert (seen.conflicts, seen.steps) == (1, 0)


def test_what_a_step_raises_is_kept_and_ends_the_search(framework: Framework, imports: ImportWatch) -> None:
    seen, error = Seen(), ValueError("inside")

    def fail(_ended: bool | Recount) -> None:
        seen.step()
        raise error

    finder = StepFinder(on_step=fail, on_role=seen.roles, interruption=Interruption())
    finder.watch(framework.hooks(), imports)
    framework.fire("optimizer", times=3)
    assert finder.error is error
    assert seen.steps == 1


def test_an_error_of_the_programs_own_work_that_a_recorder_waited_for_goes_on_to_the_program(
    framework: Framework, imports: ImportWatch
) -> None:
    outcomes: list[Exception | None] = [ZeroDivisionError(), None]
    error = outcomes[0]

    def on_step(_ended: bool | Recount) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    finder = StepFinder(
        on_step=on_step, on_role={}, interruption=Interruption(), is_of_program=lambda raised: raised is error
    )
    finder.watch(framework.hooks(), imports)
    with pytest.raises(ZeroDivisionError):
        framework.fire("optimizer")
    framework.fire("optimizer")
    assert (finder.error, outcomes) == (None, [])


def test_signals_sent_by_the_profiler_itself_do_not_count(framework: Framework, imports: ImportWatch) -> None:
    seen = Seen()

    def step(_ended: bool | Recount) -> None:
        seen.step()
        framework.fire("optimizer")
        framework.fire("profiler_wanted")

    finder = StepFinder(on_step=step, on_role=seen.roles, interruption=Interruption())
    finder.watch(framework.hooks(), imports)
    framework.fire("optimizer", times=2)
    assert (seen.steps, seen.conflicts) == (2, 0)


def test_signals_of_other_threads_are_counted_but_not_followed(framework: Framework, imports: ImportWatch) -> None:
    seen = Seen()
    finder = find(framework, imports, seen)
    thread = threading.Thread(target=framework.fire, args=("optimizer",), kwargs={"times": 4})
    thread.start()
    thread.join()
    assert (seen.steps, finder.other_threads) == (0, 4)


def test_a_place_that_a_version_has_moved_is_told_and_the_other_signals_serve(
    framework: Framework, imports: ImportWatch
) -> None:
    def install(module: ModuleType, _report: Report) -> Callable[[], None]:
        return module.CallbackList  # type: ignore[no-any-return]

    seen = Seen()
    finder = find(framework, imports, seen)
    finder.watch([StepHook(signal="keras", module="made_up_framework", install=install)], imports)
    framework.fire("optimizer")
    assert seen.steps == 1
    assert finder.unhooked == [
        "keras (made_up_framework: AttributeError: module 'made_up_framework' has no attribute 'CallbackList')"
    ]


def test_closing_undoes_every_hook(framework: Framework, imports: ImportWatch) -> None:
    finder = find(framework, imports, Seen())
    assert framework.hooked
    finder.close()
    assert not framework.hooked


def test_a_module_imported_after_closing_is_not_hooked(
    framework: Framework, imports: ImportWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = StepFinder(on_step=Seen().step, on_role={}, interruption=Interruption())
    finder.close()
    finder.watch(framework.hooks(), imports)
    assert not framework.hooked


def test_the_first_step_begins_with_a_loop_or_a_call(framework: Framework, imports: ImportWatch) -> None:
    finder = find(framework, imports, Seen())
    assert finder.first_step.began() is None
    framework.fire("call")
    call = finder.first_step.began()
    framework.fire("loop")
    loop = finder.first_step.began()
    framework.fire("call")
    assert call is not None
    assert loop is not None
    assert call <= loop == finder.first_step.began()


def test_calls_are_not_watched_longer_than_needed(framework: Framework, imports: ImportWatch) -> None:
    find(framework, imports, Seen())
    framework.fire("optimizer")
    assert "call" not in framework.hooked
    assert "loop" in framework.hooked


def test_without_steps_nothing_begins_one(framework: Framework, imports: ImportWatch) -> None:
    find(framework, imports, Seen(), wanted="none")
    assert not {"loop", "call"} & framework.hooked.keys()


def test_loops_of_other_threads_are_no_signals(framework: Framework, imports: ImportWatch) -> None:
    finder = find(framework, imports, Seen())
    thread = threading.Thread(target=framework.fire, args=("loop",))
    thread.start()
    thread.join()
    assert (finder.first_step.began(), finder.other_threads) == (None, 0)
