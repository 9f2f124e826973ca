"""ProfilerCallback with a real Model: which steps are recorded, and that a training is never disturbed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import dataset, nn
from mindspore.train import Callback, LossMonitor, Model

from unified_profiler import Profiler, Trace, schedule
from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations.mindspore import ProfilerCallback
from unified_profiler.testing import FakeBackend


@pytest.fixture(params=[ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["pynative", "graph"])
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    ms.set_context(mode=request.param)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def model() -> Model:
    net = nn.Dense(4, 2)
    return Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.01, 0.9), metrics={"mae"})


def batches(count: int) -> dataset.Dataset:
    data = {"x": np.ones((2 * count, 4), np.float32), "y": np.ones((2 * count, 2), np.float32)}
    return dataset.NumpySlicesDataset(data, shuffle=False).batch(2)


def following(**options: Any) -> ProfilerCallback:
    """Make a callback on a backend that needs no native profiler."""
    return ProfilerCallback(backend=FakeBackend(), **options)


def recorded(trace: Trace) -> list[int]:
    rows = trace.events.select(["step", "kind"]).to_pylist()
    return [row["step"] for row in rows if row["kind"] == "step"]


def regions(trace: Trace) -> list[tuple[str, int]]:
    rows = trace.events.select(["name", "step", "kind"]).to_pylist()
    return [(row["name"], row["step"]) for row in rows if row["kind"] == "region"]


def test_a_schedule_counts_training_steps_over_epochs(model: Model, mode: int) -> None:
    callback = following(schedule=schedule(wait=2, warmup=1, active=2, repeat=2))
    model.train(2, batches(6), callbacks=[callback, LossMonitor(100)])
    assert [recorded(trace) for trace in callback.profiler.traces] == [[3, 4], [8, 9]]
    assert all(trace.info.complete for trace in callback.profiler.traces)
    assert callback.profiler.current_step == 12
    signal = callback.profiler.step_signal
    assert signal is not None
    assert signal.name == "mindspore step"


def test_each_recorded_step_holds_its_own_kernels(model: Model, mode: int) -> None:
    callback = ProfilerCallback(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), backend="mindspore")
    model.train(1, batches(12), callbacks=callback)
    rows = [row for trace in callback.profiler.traces for row in trace.events.select(["name", "step"]).to_pylist()]
    counts = Counter(row["step"] for row in rows if row["name"] == "ApplyMomentum")
    assert counts == dict.fromkeys((2, 3, 6, 7), 2)
    assert callback.profiler.failures == ()


def test_a_range_of_steps(model: Model) -> None:
    callback = following(steps=(2, 3))
    model.train(1, batches(6), callbacks=callback)
    (trace,) = callback.profiler.traces
    assert recorded(trace) == [2, 3]


def test_by_epoch_and_with_data_sinking_asked_for(model: Model) -> None:
    callback = following(by="epoch", steps=(1, 2))
    model.train(4, batches(2), callbacks=callback, dataset_sink_mode=True)
    assert recorded(callback.profiler.traces[0]) == [1, 2]
    assert callback.profiler.current_step == 4


def test_the_evaluation_in_a_fit_is_a_region_and_no_step(model: Model) -> None:
    callback = following()
    model.fit(2, batches(3), batches(2), callbacks=[callback])
    (trace,) = callback.profiler.traces
    assert callback.profiler.current_step == 6
    assert regions(trace) == [("eval", 3), ("eval", 6)]


def test_eval_has_steps_of_its_own(model: Model) -> None:
    callback = following(steps=(1, 2))
    model.eval(batches(4), callbacks=callback)
    assert recorded(callback.profiler.traces[0]) == [1, 2]
    whole = following(by="epoch")
    model.eval(batches(4), callbacks=whole)
    assert whole.profiler.current_step == 1


def test_steps_go_on_in_the_next_training(model: Model) -> None:
    callback = following()
    for _ in range(2):
        model.train(1, batches(2), callbacks=callback)
    assert [recorded(trace) for trace in callback.profiler.traces] == [[0, 1], [2, 3]]


def test_a_profiler_that_runs_already_goes_on_running(model: Model) -> None:
    with Profiler(backend=FakeBackend()) as prof:
        model.train(1, batches(3), callbacks=ProfilerCallback(prof))
        prof.step()
        assert not prof.traces
    assert prof.current_step == 4


class Breaking(Callback):  # type: ignore[misc]
    def on_train_step_end(self, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == 3:
            raise ArithmeticError


def test_what_a_training_that_raised_recorded_is_delivered_at_once(model: Model) -> None:
    callback = following()
    with pytest.raises(ArithmeticError):
        model.train(1, batches(6), callbacks=[callback, Breaking()])
    (trace,) = callback.profiler.traces
    assert not trace.info.complete
    assert callback.profiler.current_step == 3
    model.train(1, batches(2), callbacks=callback)
    assert callback.profiler.traces[1].info.complete


class BreakingEvaluation(Callback):  # type: ignore[misc]
    def on_eval_step_end(self, run_context: Any) -> None:
        raise ArithmeticError


def test_an_evaluation_that_raises_within_a_fit_ends_both(model: Model) -> None:
    callback = following()
    with pytest.raises(ArithmeticError):
        model.fit(1, batches(2), batches(2), callbacks=[callback, BreakingEvaluation()])
    (trace,) = callback.profiler.traces
    assert not trace.info.complete
    assert regions(trace) == [("eval", 2)]


def test_a_failing_backend_does_not_disturb_the_training(model: Model) -> None:
    callback = ProfilerCallback(backend=FakeBackend(fails_at=frozenset({"start"})))
    model.train(1, batches(3), callbacks=callback)
    assert callback.profiler.current_step == 3
    assert [failure.action for failure in callback.profiler.failures] == ["start"]


def test_switched_off_it_does_nothing(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    callback = ProfilerCallback(output_dir="nowhere")
    model.train(1, batches(2), callbacks=callback)
    assert callback.profiler.current_step == 0
    assert callback.profiler.step_signal is None


class Sink:
    """What a Model on an accelerator hands its callbacks: there data sinking is not turned off."""

    def original_args(self) -> dict[str, Any]:
        return {"dataset_sink_mode": True}


@pytest.mark.parametrize(("by", "name"), [("step", "mindspore step, data sinking"), ("epoch", "mindspore epoch")])
def test_data_sinking_is_written_down(by: Any, name: str) -> None:
    callback = following(by=by)
    callback.on_train_begin(Sink())
    callback.on_train_end(Sink())
    signal = callback.profiler.step_signal
    assert signal is not None
    assert signal.name == name


@pytest.mark.parametrize(
    "make",
    [
        lambda: ProfilerCallback(by="batch"),  # type: ignore[arg-type]
        lambda: ProfilerCallback(Profiler(), output_dir="x"),
        lambda: ProfilerCallback(steps=(3, 2)),
        lambda: ProfilerCallback(steps=(1, 2), schedule=schedule(wait=1, warmup=1, active=1)),
    ],
)
def test_mistakes_are_told(make: Callable[[], ProfilerCallback]) -> None:
    with pytest.raises(ConfigurationError):
        make()


class Mine(ProfilerCallback):
    """A subclass of somebody's."""

    ended = 0

    def on_train_end(self, run_context: Any) -> None:
        super().on_train_end(run_context)
        self.ended += 1


def test_it_may_be_subclassed(model: Model) -> None:
    callback = Mine(backend=FakeBackend())
    model.train(1, batches(2), callbacks=callback)
    assert (callback.ended, callback.profiler.current_step) == (1, 2)
    assert isinstance(callback, Mine)
    assert (type(callback).__name__, type(callback).__doc__) == ("Mine", "A subclass of somebody's.")


def test_the_training_gives_the_same_numbers() -> None:
    def weights(*callbacks: Callback) -> list[float]:
        ms.set_seed(0)
        net = nn.Dense(4, 2)
        model = Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.01, 0.9))
        model.train(1, batches(4), callbacks=list(callbacks))
        return [float(p.asnumpy().sum()) for p in net.trainable_params()]

    assert weights(following(steps=(1, 2))) == weights()


def test_without_mindspore_it_can_be_imported_and_says_what_to_do() -> None:
    code = (
        "import sys\nfrom unified_profiler.integrations.mindspore import ProfilerCallback\n"
        "from unified_profiler.errors import UsageError\n"
        "try: ProfilerCallback()\nexcept UsageError as error: print(error)\nprint('mindspore' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    message, imported = result.stdout.splitlines()
    assert "import it first" in message
    assert imported == "False"
